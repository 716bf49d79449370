/* Conv of small groups (ops/packed.h), depthwise included, with channels second and plain weights, computed with
 * channels last. The loops are in depthwise_loops.h and turned_loops.h. */
#ifndef OPS_CPU_PRODUCT_CONV_TURNED_H_
#define OPS_CPU_PRODUCT_CONV_TURNED_H_

#include "ops/cpu/common/common.h"

/* Leaves *out_kernel untouched if the call has no small groups, or if another kernel is faster. */
reed_status conv_turned_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
