/* The formulas on f32, one set of loops a CPU level. */
#ifndef OPS_CPU_FORMULAS_FORMULAS_F32_H_
#define OPS_CPU_FORMULAS_FORMULAS_F32_H_

#include "ops/cpu/common/cpu.h"
#include "ops/cpu/formulas/formula.h"

/* NULL: no such formula. */
CPU_LOOP(elementwise_fn, elementwise_f32, (int formula));

#endif
