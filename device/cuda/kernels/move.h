/* Launches of movement that other operators' plans have, too. */
#ifndef DEVICE_CUDA_KERNELS_MOVE_H_
#define DEVICE_CUDA_KERNELS_MOVE_H_

#include "device/cuda/kernels/kernel.h"

/* Places of a copy: coordinates below `extents`, strides and offsets in elements of `unit` bytes, or in vectors of 16
 * bytes if `size` is 16. */
typedef struct move_places {
  int64_t *extents, *from, *to, *from_offset, *to_offset, *n;
  int32_t rank, *size;
} move_places;

/* Turns elements into vectors where whole vectors go to whole vectors; `capacity`: a bound that must stay a factor of
 * n. */
void move_by_vectors(const move_places *places, int64_t capacity);

/* Adds a copy of the input, which has room along an axis, to the workspace from byte workspace_at on. */
void move_to_dense(cuda_plan *plan, int32_t input, int64_t workspace_at);

#endif
