/* ConvTranspose over one axis whose windows overlap, with channels last, as a convolution. */
#ifndef OPS_CPU_PRODUCT_CONV_PHASES_H_
#define OPS_CPU_PRODUCT_CONV_PHASES_H_

#include "ops/cpu/common/window.h"
#include "ops/cpu/formulas/activation.h"

/* The kernel of an f32 call of one group with plain weights, which is seen with channels second and has channels last
 * in memory. Leaves *out_kernel alone where another kernel is estimated faster. w: of the transposed convolution. */
reed_status conv_phases_prepare(const reed_kernel_call *call, const window *w, const activation *act,
                                reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
