/* Checks of CumSum calls that the shape function does not make. */
#ifndef OPS_CPU_CALLS_SCAN_H_
#define OPS_CPU_CALLS_SCAN_H_

#include "ops/cpu/common/common.h"

/* Checks that `axis` has one element; its value is checked in the run. */
reed_status cumsum_check(const reed_kernel_call *call) REED_MUST_CHECK;

#endif
