/* MatMul of i32, as the operators of quantised numbers are read. */
#ifndef OPS_CPU_PRODUCT_INTEGERS_H_
#define OPS_CPU_PRODUCT_INTEGERS_H_

#include "ops/cpu/calls/product.h"

/* Prepares the product; no kernel (run NULL): the product has a bias, a depth of more than 32768, or matrices
 * whose rows are not dense. */
reed_status integer_product_prepare(const reed_kernel_call *call, const product *p,
                                    reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
