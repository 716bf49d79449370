/* Conv of small groups (ops/packed.h), depthwise included, whose X and Y have channels last in memory; the call is seen
 * with channels second and plain weights. */
#ifndef OPS_CPU_PRODUCT_CONV_DEPTHWISE_H_
#define OPS_CPU_PRODUCT_CONV_DEPTHWISE_H_

#include "ops/cpu/common/window.h"
#include "ops/cpu/formulas/activation.h"

/* For f32 over one or two spatial axes, weights packed or not. Leaves out_kernel->run NULL for any other call. */
reed_status conv_depthwise_prepare(const reed_kernel_call *call, bool packed, const window *w, const activation *act,
                                   reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
