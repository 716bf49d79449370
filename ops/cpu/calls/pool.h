/* A pooling call read as planes (images x channels) under one window, for the kernel and the reference. */
#ifndef OPS_CPU_CALLS_POOL_H_
#define OPS_CPU_CALLS_POOL_H_

#include "ops/cpu/common/window.h"

typedef enum pool_kind { POOL_AVERAGE, POOL_MAX, POOL_LP, POOL_GLOBAL } pool_kind;

typedef struct pool {
  window w; /* a global pool: one window over everything */
  reed_dtype dtype;
  cpu_team team;
  cpu_level level;
  bool mean, include_pad, column_major, with_indices;
  int64_t power; /* p of an Lp pool, else 0 */
  int64_t planes, in_plane, out_plane;
  int64_t taps; /* the most taps of one window inside the input */
  int64_t in_stride[WINDOW_MAX_AXES];
} pool;

/* Reads a pooling call. */
void pool_read(const reed_kernel_call *call, pool_kind kind, pool *out_pool);

/* The element of MaxPool's Indices for an offset in a plane: row-major, or column-major over the spatial axes
 * (storage_order 1). */
int64_t pool_index(const pool *p, int64_t plane, int64_t offset);

/* One axis's factor in the number of elements that a mean is divided by. Counted are taps inside the input and, with
 * count_include_pad, taps in the padding; never taps that ceil_mode adds beyond the padding. At least 1; but 0 for a
 * global pool of an empty plane, whose mean is 0 / 0. */
static inline int64_t pool_count(const pool *p, int32_t axis, int64_t origin) {
  int64_t low = p->include_pad ? -p->w.pad_begin[axis] : 0,
          high = p->w.in[axis] + (p->include_pad ? p->w.pad_end[axis] : 0);
  int64_t d = p->w.dilation[axis], first = origin < low ? (low - origin + d - 1) / d : 0,
          end = high > origin ? (high - origin + d - 1) / d : 0;
  if (end > p->w.kernel[axis]) end = p->w.kernel[axis];
  return end > first ? end - first : p->w.kernel[axis] > 0;
}

#endif
