/* Heap memory through the host allocator hook (reed/memory.h), which all of Reed's libraries use instead of malloc.
 *
 * A request of zero bytes gives a valid, unique pointer; NULL always means that there is no memory. */
#ifndef BASE_MEM_H_
#define BASE_MEM_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reed/memory.h"

void *mem_alloc(size_t bytes);
/* n * bytes zeroed bytes; NULL also if the product overflows. */
void *mem_calloc(size_t n, size_t bytes);
/* As realloc for n * bytes; NULL leaves `block` as it was. */
void *mem_resize(void *block, size_t n, size_t bytes);
void mem_free(void *block);
/* A copy of `bytes` bytes, or of a NUL-terminated text. */
void *mem_copy(const void *source, size_t bytes);
char *mem_copy_text(const char *text);
/* `alignment` a power of two; released by mem_free_aligned only. */
void *mem_alloc_aligned(size_t bytes, size_t alignment);
void mem_free_aligned(void *block);
/* A block for megabytes that are all written, aligned to 64 bytes. From 4 MiB on the system is asked for huge pages,
 * with which the first use costs one page fault for each two megabytes. Unless the program has set its own allocator, a
 * large block is the system's own mapping, because in the C library's heap small blocks that stay would keep its place
 * from being returned. Released by mem_free_aligned only. */
void *mem_alloc_bulk(size_t bytes);
/* The same with addresses for `capacity` bytes, of which the first `bytes` are used for now: only their whole huge
 * pages are asked for, and none for less than 4 MiB, because a huge page takes all its memory at the first use of any
 * byte, and the system may have to move other pages for it, which takes milliseconds. mem_extend_bulk: the
 * first `bytes` are used from now on, not only `before`. */
void *mem_alloc_bulk_room(size_t bytes, size_t capacity);
void mem_extend_bulk(void *block, size_t before, size_t bytes);
/* True if a block's unused addresses cost nothing: one of so many bytes is a mapping of its own, and the process may
 * have as many addresses as it likes (RLIMIT_AS). */
bool mem_addresses_are_free(size_t capacity);
/* Zeroed bytes, aligned to 64. From 1 MiB on the block is one of mem_alloc_bulk. Released by mem_free_aligned only. */
void *mem_calloc_bulk(size_t bytes);
/* Has the system give the pages of a part of a block now, in few calls, instead of at their first use. The part's
 * contents may be lost. Stops when the flag (base/cancel.h; NULL: none) is raised. Returns how many of the bytes have
 * their pages. */
size_t mem_warm(void *part, size_t bytes, const int *cancel);

#endif
