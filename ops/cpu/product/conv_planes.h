/* Conv and ConvTranspose with channels second and plain weights, over one to three spatial axes, in groups of any size:
 * with any stride, dilation and pads. A plan is arithmetic on extents. */
#ifndef OPS_CPU_PRODUCT_CONV_PLANES_H_
#define OPS_CPU_PRODUCT_CONV_PLANES_H_

#include "ops/cpu/common/window.h"

/* The kernel of an f32 call with channels second, whose bias and residual have been checked. out_kernel->run stays NULL
 * for a call whose windows reach so far beyond X that a copy of X with its pads would be out of proportion, or with
 * more than three spatial axes. */
reed_status conv_planes_prepare(const reed_kernel_call *call, bool transposed, reed_kernel *out_kernel) REED_MUST_CHECK;

/* False for such a call of Conv for which out_kernel->run stays NULL. *out_has_panels: its products fill panels with X;
 * with few outputs they read X in place or a copy. */
bool conv_planes_takes(const reed_kernel_call *call, bool *out_has_panels);

#endif
