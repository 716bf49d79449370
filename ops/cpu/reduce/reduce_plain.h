/* The loops of reductions of all dtypes but f32. */
#ifndef OPS_CPU_REDUCE_REDUCE_PLAIN_H_
#define OPS_CPU_REDUCE_REDUCE_PLAIN_H_

#include "ops/cpu/reduce/reduce_loops.h"

/* NULL for a dtype without the operator; f16 and bf16 have none: convert to f32. */
const reduce_loops *reduce_plain(reed_dtype dtype, op_id op);

#endif
