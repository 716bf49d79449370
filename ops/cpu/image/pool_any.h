/* MaxPool with Indices, of f64 and integers, and of lines that are mostly padding; AveragePool of f64. */
#ifndef OPS_CPU_IMAGE_POOL_ANY_H_
#define OPS_CPU_IMAGE_POOL_ANY_H_

#include "ops/cpu/calls/pool.h"

/* Prepares a call of AveragePool or MaxPool with channels second and elements; leaves out_kernel as it is if the call's
 * dtype is not one of them a plane has more than INT32_MAX elements, or the last stride is above 512. */
reed_status pool_prepare_any(const reed_kernel_call *call, const pool *p, reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
