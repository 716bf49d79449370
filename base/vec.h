/* Growable arrays of plain structs: `T *items; size_t n, capacity;` fields of any struct. */
#ifndef BASE_VEC_H_
#define BASE_VEC_H_

#include <stddef.h>

#include "base/mem.h"

#define VEC_OF(T) \
  struct { \
    T *items; \
    size_t n, capacity; \
  }
/* Makes room for one more item. False: no memory. */
#define VEC_ROOM(v) \
  ((v)->n < (v)->capacity || vec_grow((void **)&(v)->items, &(v)->capacity, (v)->n + 1, sizeof *(v)->items))
/* Makes room for `least` items in all. False: no memory. */
#define VEC_RESERVE(v, least) \
  ((v)->capacity >= (least) || vec_grow((void **)&(v)->items, &(v)->capacity, least, sizeof *(v)->items))
/* Appends `item`. An expression; false: no memory. */
#define VEC_PUSH(v, item) (VEC_ROOM(v) && ((v)->items[(v)->n++] = (item), 1))
/* Gives unused capacity back to the heap, or keeps it if the heap refuses to shrink the block. */
#define VEC_FIT(v) vec_fit((void **)&(v)->items, &(v)->capacity, (v)->n, sizeof *(v)->items)
#define VEC_FREE(v) (mem_free((v)->items), (v)->items = NULL, (v)->n = (v)->capacity = 0)

int vec_grow(void **items, size_t *capacity, size_t need, size_t item_bytes);
void vec_fit(void **items, size_t *capacity, size_t n, size_t item_bytes);

#endif
