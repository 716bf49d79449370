/* Caches of decoders: rows of earlier and new keys and values joined in one tensor. */
#include "device/cuda/kernels/indices.cuh"

KERNEL(cache) {
  const int64_t i = thread_number();
  if (i >= a.n) return;
  int64_t at[4], from = 0, to = 0;
  split_index(i, 4, a.extents, at);
  for (int d = 0; d < 4; d++) {
    from += at[d] * a.from[d];
    to += at[d] * a.to[d];
  }
  copy_element(a.size, a.y, to, a.x, from);
}
