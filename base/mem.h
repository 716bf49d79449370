/* Heap memory through the host allocator hook (reed/memory.h). Nothing else in Reed calls malloc.
 *
 * Zero bytes give a valid, unique pointer; NULL always means there is no memory. */
#ifndef BASE_MEM_H_
#define BASE_MEM_H_

#include <stddef.h>
#include <stdint.h>

#include "reed/memory.h"

void *mem_alloc(size_t bytes);
/* n * bytes zeroed bytes; NULL also when the product overflows. */
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
/* For a block that may be megabytes and is written throughout: aligned to 64 bytes, in huge pages where the system has
 * them, so that its first use costs one page fault in two megabytes. Released by mem_free_aligned only. */
void *mem_alloc_bulk(size_t bytes);

#endif
