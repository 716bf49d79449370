/* Checks of Conv and ConvTranspose calls that the shape function does not make. Kernels read the window by
 * common/window.h. */
#ifndef OPS_CPU_CALLS_CONVOLUTION_H_
#define OPS_CPU_CALLS_CONVOLUTION_H_

#include "ops/cpu/common/common.h"

/* Checks the extents of bias and residual; the call has channels second. */
reed_status convolution_check_addends(const reed_kernel_call *call) REED_MUST_CHECK;

#endif
