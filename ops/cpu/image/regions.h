/* The kernel of roi_align for torchvision's operator of that name, whose other kernels are in regions.c. */
#ifndef OPS_CPU_IMAGE_REGIONS_H_
#define OPS_CPU_IMAGE_REGIONS_H_

#include "ops/cpu/calls/roi_align.h"

/* Prepares the forward kernel of ROI_ALIGN, mean of samples, for maps and bins in the order that c->last says. Leaves
 * out_kernel->run NULL for calls that the kernel declines. */
reed_status roi_align_prepare(const reed_kernel_call *call, roi_call *c, reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
