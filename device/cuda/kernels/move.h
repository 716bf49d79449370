/* Launches of `move`, for every operator whose elements have places that extents alone decide. */
#ifndef DEVICE_CUDA_KERNELS_MOVE_H_
#define DEVICE_CUDA_KERNELS_MOVE_H_

#include "device/cuda/kernels/kernel.h"

/* Places of elements in memory. */
typedef struct move_side {
  cuda_source source;
  int32_t index;
  const int64_t *strides;
  int64_t offset;
  int64_t bytes; /* that the pointer covers */
} move_side;

/* Adds a launch that copies elements of `size` bytes; nothing if there are none. */
void move_launch(cuda_plan *plan, int32_t rank, const int64_t *extents, int64_t size, move_side from, move_side to);

/* Blocks of a launch with one thread for each of n elements. */
static inline int64_t blocks_for(cuda_kernel_id kernel, int64_t n) {
  const int64_t threads = cuda_kernel_infos[kernel].threads;
  return (n + threads - 1) / threads;
}

#endif
