/* Conv and ConvTranspose calls, as far as the shape function does not read them. */
#ifndef OPS_CPU_CALLS_CONVOLUTION_H_
#define OPS_CPU_CALLS_CONVOLUTION_H_

#include "ops/cpu/common/common.h"

/* The extents of bias and residual; the call has channels second. */
reed_status convolution_check_addends(const reed_kernel_call *call) REED_MUST_CHECK;

#endif
