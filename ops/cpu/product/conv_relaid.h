/* Conv with channels second and plain weights, computed by the kernels for channels last and packed weights. */
#ifndef OPS_CPU_PRODUCT_CONV_RELAID_H_
#define OPS_CPU_PRODUCT_CONV_RELAID_H_

#include "ops/cpu/common/window.h"
#include "ops/cpu/formulas/activation.h"

/* Leaves *out_kernel untouched if the weights have no packed order with panels, or if another kernel is faster. The
 * call is f32, and its bias and residual have been checked. */
reed_status conv_relaid_prepare(const reed_kernel_call *call, const window *w, const activation *act,
                                reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
