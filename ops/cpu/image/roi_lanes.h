/* The kernel of regions on blocks of channels side by side, for calls with enough regions and channels; the other calls
 * have the kernels of roi_align.c and regions.c. */
#ifndef OPS_CPU_IMAGE_ROI_LANES_H_
#define OPS_CPU_IMAGE_ROI_LANES_H_

#include "ops/cpu/calls/roi_align.h"

/* Prepares the kernel, forward or backward, for maps and bins of f32, f16 or bf16 in the order that c->last says.
 * Leaves out_kernel->run NULL for calls that it declines: f64, maxima of samples, and calls that another kernel
 * computes in less time or memory. */
reed_status roi_lanes_prepare(const reed_kernel_call *call, const roi_call *c, reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
