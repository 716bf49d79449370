/* The formulas on all dtypes but f32, one set of loops a CPU level. */
#ifndef OPS_CPU_FORMULAS_FORMULAS_PLAIN_H_
#define OPS_CPU_FORMULAS_FORMULAS_PLAIN_H_

#include "ops/cpu/common/cpu.h"
#include "ops/cpu/formulas/formula.h"

/* NULL: no such formula. */
CPU_LOOP(elementwise_fn, elementwise_plain, (reed_dtype dtype, int formula));

#endif
