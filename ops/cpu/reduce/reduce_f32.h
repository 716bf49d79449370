/* The loops of reductions of f32, one set a CPU level. */
#ifndef OPS_CPU_REDUCE_REDUCE_F32_H_
#define OPS_CPU_REDUCE_REDUCE_F32_H_

#include "ops/cpu/common/cpu.h"
#include "ops/cpu/reduce/reduce_loops.h"

/* NULL for an operator that is no reduction. */
CPU_LOOP(const reduce_loops *, reduce_f32, (op_id op));

#endif
