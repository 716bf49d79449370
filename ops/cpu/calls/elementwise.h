/* Checks of element-wise calls that the shape functions do not make. */
#ifndef OPS_CPU_CALLS_ELEMENTWISE_H_
#define OPS_CPU_CALLS_ELEMENTWISE_H_

#include "ops/cpu/common/common.h"

/* Checks that Clip's bounds have one element. */
reed_status elementwise_check(const reed_kernel_call *call) REED_MUST_CHECK;

#endif
