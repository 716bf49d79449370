/* The formulas on all dtypes but f32. */
#ifndef OPS_CPU_FORMULAS_FORMULAS_PLAIN_H_
#define OPS_CPU_FORMULAS_FORMULAS_PLAIN_H_

#include "ops/cpu/formulas/formula.h"

/* NULL: no such formula. */
elementwise_fn elementwise_plain(reed_dtype dtype, int formula);

#endif
