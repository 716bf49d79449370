/* Calls with packed weights (ops/packed.h), seen with plain weights. */
#ifndef OPS_CPU_VIEWS_UNPACK_H_
#define OPS_CPU_VIEWS_UNPACK_H_

#include "ops/cpu/views/call_copy.h"
#include "ops/packed.h"

/* A call seen with plain weights. The view must stay at its address while it is used. */
typedef struct unpack_view {
  const reed_kernel_call *call; /* weights with the extents of order.plain and no values, without the attribute */
  bool packed;                  /* else `call` is the original */
  const void *constant;         /* the packed weights, if they are a constant; else NULL */
  packed_order order;
  call_copy copy;
} unpack_view;

reed_status unpack_view_init(const reed_kernel_call *call, unpack_view *out_view) REED_MUST_CHECK;
/* Prepares a kernel for the view; each run unpacks the weights into its workspace. For references, and for calls that
 * no kernel over packed weights takes. */
reed_status unpack_prepare(const unpack_view *view, reed_kernel_prepare_fn prepare,
                           reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
