/* Conv in groups of some vectors of outputs, with channels last and packed weights, or with channels second and plain
 * ones. */
#ifndef OPS_CPU_PRODUCT_CONV_GROUPS_H_
#define OPS_CPU_PRODUCT_CONV_GROUPS_H_

#include "ops/cpu/common/window.h"
#include "ops/cpu/formulas/activation.h"
#include "ops/packed.h"

/* order: of the packed weights of a call with channels last, or NULL: channels second, plain weights. Leaves
 * *out_kernel untouched if the call has no such groups, or if another kernel is faster. */
reed_status conv_groups_prepare(const reed_kernel_call *call, const packed_order *order, const window *w,
                                const activation *act, reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
