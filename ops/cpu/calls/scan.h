/* CumSum calls, as far as the shape function does not read them. */
#ifndef OPS_CPU_CALLS_SCAN_H_
#define OPS_CPU_CALLS_SCAN_H_

#include "ops/cpu/common/common.h"

/* The axis is one number; which one, a run says. */
reed_status cumsum_check(const reed_kernel_call *call) REED_MUST_CHECK;

#endif
