/* Lists of the places of elements that are set, as NonZero makes them, for operators that choose elements. */
#ifndef DEVICE_CUDA_KERNELS_SELECT_H_
#define DEVICE_CUDA_KERNELS_SELECT_H_

#include "device/cuda/kernels/kernel.h"

typedef struct cuda_choice {
  cuda_source source; /* of the elements: an input or the workspace */
  int32_t input;
  int64_t at;     /* where they begin in it, in bytes */
  int64_t begin;  /* of the bytes of the workspace that the launches may use; a multiple of 64 */
  bool in_output; /* the places go to output 0, and not to the workspace */
  bool reports;   /* their number is output 0's extent */
} cuda_choice;

/* Parts of the workspace, in bytes. */
typedef struct cuda_places {
  int64_t total, offsets, places;
  int64_t end; /* a multiple of 64 */
} cuda_places;

/* Adds the launches. made: n, extents, rank, dtype and count of the elements. */
cuda_places cuda_plan_places(cuda_plan *plan, const cuda_choice *choice, select_args made);

/* Input 0 as [outer, extent, block] by attribute axis, without it as [1, n, 1]; the args' other fields are 0. */
take_args cuda_slices(const reed_kernel_call *call);
/* Adds the launch that takes the slices at `places` of the workspace to output 0; n: how many there are at most. */
void cuda_plan_take(cuda_plan *plan, take_args made, int64_t n, int64_t places, int64_t total);

#endif
