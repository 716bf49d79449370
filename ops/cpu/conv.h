/* Kernels of Conv and ConvTranspose that need no preparation per shape. Each looks at a call seen with channels second (ops/cpu/channels.h) whose Y, and X but where said
 * otherwise, has channels last in memory, and leaves out_kernel->run NULL where it is not one of its own. */
#ifndef OPS_CPU_CONV_H_
#define OPS_CPU_CONV_H_

#include "ops/cpu/activation.h"
#include "ops/cpu/window.h"

/* One group, constant weights, 1 or 2 spatial axes (conv_panels.c). x_last: X has channels last too. */
reed_status conv_panels_prepare(const reed_kernel_call *call, const window *w, bool x_last, const activation *act, reed_kernel *out_kernel) REED_MUST_CHECK;
/* f32 over two spatial axes, one input and one output to a group (conv_depthwise.c). */
reed_status conv_depthwise_prepare(const reed_kernel_call *call, const window *w, const activation *act, reed_kernel *out_kernel) REED_MUST_CHECK;
/* ConvTranspose whose windows lie side by side (conv_panels.c): extents of the kernel are the strides, no pads. */
reed_status conv_panels_prepare_transposed(const reed_kernel_call *call, const window *w, const activation *act, reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
