/* Calls on images whose channels come last (attribute channels_last, ops/op.def), seen with channels second as ONNX
 * defines them. A kernel reads its geometry from the view and either walks the memory in its own order or runs between
 * transposes. */
#ifndef OPS_CPU_VIEWS_CHANNELS_H_
#define OPS_CPU_VIEWS_CHANNELS_H_

#include "ops/cpu/views/call_copy.h"

/* A call seen with channels second. The view must stay at its address while it is used. */
typedef struct channels_view {
  const reed_kernel_call *call; /* extents as [N,C,spatial...], attribute channels_last 0 */
  bool last;                    /* the images are [N,spatial...,C] in memory; else `call` is the original */
  uint32_t images;              /* bit i: input i is an image; every output is an image */
  call_copy copy;
} channels_view;

/* The view of a call; bit i of `images`: input i is an image. A call without channels_last is its own view. */
reed_status channels_view_init(const reed_kernel_call *call, uint32_t images, channels_view *out_view) REED_MUST_CHECK;
/* Gives the copy's images, and its outputs, the extents [N,C,spatial...] instead of [N,spatial...,C]. */
void channels_see_second(call_copy *copy, uint32_t images);
/* Prepares a kernel for the view. If channels come last, the kernel runs between transposes of all images through the
 * workspace: correct for every kernel, and the references run so. */
reed_status channels_prepare_second(const channels_view *view, reed_kernel_prepare_fn prepare,
                                    reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
