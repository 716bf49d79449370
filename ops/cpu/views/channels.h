/* Operators over images whose channels come last (attribute channels_last, ops/op.def), seen as what ONNX defines:
 * channels second. A kernel reads geometry from the view, whatever the order, and either walks memory in the order it
 * is in or runs between transposes. */
#ifndef OPS_CPU_VIEWS_CHANNELS_H_
#define OPS_CPU_VIEWS_CHANNELS_H_

#include "ops/cpu/views/call_copy.h"

/* A call as if channels came second. The view must stay where it is while it is used. */
typedef struct channels_view {
  const reed_kernel_call *call; /* extents as [N,C,spatial...], attribute channels_last 0 */
  bool last;                    /* the images are [N,spatial...,C] in memory; else `call` is the original */
  uint32_t images;              /* bit i: input i is one; every output is */
  call_copy copy;
} channels_view;

/* The view of a call whose image inputs have their bit in `images`. Without channels_last it is the call itself. */
reed_status channels_view_init(const reed_kernel_call *call, uint32_t images, channels_view *out_view) REED_MUST_CHECK;
/* The kernel that `prepare` gives for the view; where channels come last, between transposes of all images through
 * workspace: right for everything, and the reference. */
reed_status channels_prepare_second(const channels_view *view, reed_kernel_prepare_fn prepare,
                                    reed_kernel *out_kernel) REED_MUST_CHECK;
/* Strides in elements of an image of these extents [N,C,spatial...], in the order [N,C,spatial...], as it lies in
 * memory. */
void channels_strides(int32_t rank, const int64_t *dims, bool last, int64_t *out_strides);

#endif
