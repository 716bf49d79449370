/* Depthwise Conv with channels second and plain weights, of one output or a few to a channel. */
#ifndef OPS_CPU_PRODUCT_CONV_DEPTHWISE_PLANES_H_
#define OPS_CPU_PRODUCT_CONV_DEPTHWISE_PLANES_H_

#include "ops/cpu/common/common.h"

/* The kernel of an f32 call whose bias and residual have been checked. out_kernel->run stays NULL for other calls than
 * depthwise ones over one or two spatial axes with a stride of 1 or 2 along rows. */
reed_status conv_depthwise_planes_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
