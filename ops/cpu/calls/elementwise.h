/* Calls of the element-wise operators, as far as the shape functions do not check them. */
#ifndef OPS_CPU_CALLS_ELEMENTWISE_H_
#define OPS_CPU_CALLS_ELEMENTWISE_H_

#include "ops/cpu/common/common.h"

/* Clip's bounds have one element, Where's values one dtype, attributes a word that chooses a formula. */
reed_status elementwise_check(const reed_kernel_call *call) REED_MUST_CHECK;

#endif
