/* Calls of products whose weights are packed (ops/packed.h). */
#ifndef OPS_CPU_VIEWS_UNPACK_H_
#define OPS_CPU_VIEWS_UNPACK_H_

#include "ops/cpu/common/common.h"
#include "ops/packed.h"

#define UNPACK_ATTRS 24

/* A call as if its weights lay as ONNX has them: `call` points into the view, which must stay where it is while it is
 * used. */
typedef struct unpack_view {
  bool packed; /* else the call itself */
  packed_order order;
  reed_kernel_call call; /* weights with the extents of order.plain and no values, without the attribute */
  reed_desc inputs[PACKED_INPUTS];
  const void *host_values[PACKED_INPUTS];
  bool constant[PACKED_INPUTS];
  reed_attr items[UNPACK_ATTRS];
  reed_attrs attrs;
} unpack_view;

reed_status unpack_view_init(const reed_kernel_call *call, unpack_view *out_view) REED_MUST_CHECK;
/* The kernel that `prepare` gives for the view, over weights that each run unpacks into its workspace: for the
 * reference, and for calls that no kernel over packed weights takes. */
reed_status unpack_prepare(const unpack_view *view, reed_kernel_prepare_fn prepare,
                           reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
