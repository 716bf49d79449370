/* Boxes of pixels (args.h), which a gradient's warps widen together, and by which others pass over what lies elsewhere.
 */
#ifndef DEVICE_CUDA_KERNELS_PIXEL_BOXES_CUH_
#define DEVICE_CUDA_KERNELS_PIXEL_BOXES_CUH_

#include "device/cuda/kernels/dialect.cuh"

static __device__ inline pixel_box no_pixels() { return {{INT64_MAX, INT64_MAX}, {0, 0}}; }

/* Widens the rows (axis 0) or columns of the box by begin..end - 1, which may be none. */
static __device__ inline void widen(pixel_box *box, int axis, int64_t begin, int64_t end) {
  if (begin >= end) return;
  if (begin < box->begin[axis]) box->begin[axis] = begin;
  if (end > box->end[axis]) box->end[axis] = end;
}

/* Widens the box by those of the warp's other lanes. All lanes call it. */
static __device__ inline void widen_by_warp(pixel_box *box) {
  for (int lanes = 16; lanes; lanes /= 2)
    for (int axis = 0; axis < 2; axis++) {
      const int64_t begin = __shfl_xor_sync(~0u, box->begin[axis], lanes),
                    end = __shfl_xor_sync(~0u, box->end[axis], lanes);
      widen(box, axis, begin, end);
    }
}

static __device__ inline bool has_pixel(const pixel_box &box, int64_t row, int64_t column) {
  return row >= box.begin[0] && row < box.end[0] && column >= box.begin[1] && column < box.end[1];
}

#endif
