/* Kernels of Conv and ConvTranspose that need no preparation per shape. Each looks at a call seen with channels second
 * (ops/cpu/views/channels.h) and plain weights (ops/cpu/views/unpack.h) whose Y, and X but where said otherwise, has
 * channels last in memory. */
#ifndef OPS_CPU_PRODUCT_CONV_H_
#define OPS_CPU_PRODUCT_CONV_H_

#include "ops/cpu/formulas/activation.h"
#include "ops/cpu/common/window.h"
#include "ops/packed.h"

/* Weights packed in panels (conv_panels.c). x_last: X has channels last too. */
reed_status conv_panels_prepare(const reed_kernel_call *call, const window *w, bool x_last, const activation *act,
                                reed_kernel *out_kernel) REED_MUST_CHECK;
reed_status conv_panels_prepare_transposed(const reed_kernel_call *call, const packed_order *order, const window *w,
                                           const activation *act, reed_kernel *out_kernel) REED_MUST_CHECK;
/* f32 over two spatial axes, one input and one output to a group, weights packed or not (conv_depthwise.c). Leaves
 * out_kernel->run NULL where the call is none of these. */
reed_status conv_depthwise_prepare(const reed_kernel_call *call, bool packed, const window *w, const activation *act,
                                   reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
