/* Growth of the arrays of vec.h: capacities double. */
#include "base/vec.h"

void vec_fit(void **items, size_t *capacity, size_t n, size_t item_bytes) {
  if (*capacity == n || !*items) return;
  void *fitting = mem_resize(*items, n, item_bytes);
  if (!fitting) return;
  *items = fitting;
  *capacity = n;
}

int vec_grow(void **items, size_t *capacity, size_t need, size_t item_bytes) {
  size_t wanted = *capacity ? *capacity * 2 : 8;
  if (wanted < need) wanted = need;
  void *grown = mem_resize(*items, wanted, item_bytes);
  if (!grown) return 0;
  *items = grown;
  *capacity = wanted;
  return 1;
}
