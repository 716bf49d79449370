/* Calls of products whose weights are packed (ops/packed.h). */
#ifndef OPS_CPU_VIEWS_UNPACK_H_
#define OPS_CPU_VIEWS_UNPACK_H_

#include "ops/cpu/views/call_copy.h"
#include "ops/packed.h"

/* A call as if its weights lay as ONNX has them. The view must stay where it is while it is used. */
typedef struct unpack_view {
  const reed_kernel_call *call; /* weights with the extents of order.plain and no values, without the attribute */
  bool packed;                  /* else `call` is the original */
  packed_order order;
  call_copy copy;
} unpack_view;

reed_status unpack_view_init(const reed_kernel_call *call, unpack_view *out_view) REED_MUST_CHECK;
/* The kernel that `prepare` gives for the view, over weights that each run unpacks into its workspace: for the
 * reference, and for calls that no kernel over packed weights takes. */
reed_status unpack_prepare(const unpack_view *view, reed_kernel_prepare_fn prepare,
                           reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
