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
/* Gives the system what freed blocks have left between others in the C library's heap; nothing where the program has an
 * allocator of its own. Takes time as long as the heap is large (a few milliseconds in 100 MB). */
void mem_trim(void);

/* Growable array of plain structs: `T *items; size_t n, capacity;` fields of any struct. Room for one more; false: no
 * memory. */
#define VEC_OF(T) \
  struct { \
    T *items; \
    size_t n, capacity; \
  }
#define VEC_ROOM(v) \
  ((v)->n < (v)->capacity || mem_vec_grow((void **)&(v)->items, &(v)->capacity, (v)->n + 1, sizeof *(v)->items))
/* Appends `item`; an expression that is true when there was memory. */
#define VEC_PUSH(v, item) (VEC_ROOM(v) && ((v)->items[(v)->n++] = (item), 1))
/* Gives back what it holds room for and does not use; keeps it where that is not possible. */
#define VEC_FIT(v) mem_vec_fit((void **)&(v)->items, &(v)->capacity, (v)->n, sizeof *(v)->items)
#define VEC_FREE(v) (mem_free((v)->items), (v)->items = NULL, (v)->n = (v)->capacity = 0)
int mem_vec_grow(void **items, size_t *capacity, size_t need, size_t item_bytes);
void mem_vec_fit(void **items, size_t *capacity, size_t n, size_t item_bytes);

/* Growable text, always NUL terminated once written. A failed append sets `failed` and later ones do nothing, so that a
 * writer checks once at the end. */
typedef struct text_buffer {
  char *data; /* owned; NULL while empty */
  size_t n, capacity;
  int failed;
} text_buffer;
void text_append(text_buffer *text, const char *format, ...) REED_PRINTF(2, 3);
void text_append_bytes(text_buffer *text, const void *bytes, size_t n);
void text_fini(text_buffer *text);

#endif
