/* One element of a formula or of Cast, for the references of the element-wise operators and of Fused. */
#ifndef OPS_CPU_REFERENCE_ELEMENTWISE_H_
#define OPS_CPU_REFERENCE_ELEMENTWISE_H_

#include "ops/cpu/formulas/formulas.h"

/* One element of Cast: from[0] to to[i]. */
void reference_convert(reed_dtype from_dtype, const void *from, reed_dtype to_dtype, void *to, int64_t i);
/* One element of a formula of n operands, elements 0 of cells[]; written as element 0 of `out`. False: there is none
 * for these dtypes. */
bool reference_formula(int formula, const elementwise_parameters *p, int32_t n, const reed_dtype *dtypes,
                       const void *const *cells, reed_dtype out_dtype, void *out, int *fault);

#endif
