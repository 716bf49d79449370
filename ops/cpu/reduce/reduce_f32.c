/* The reductions on f32. Compiled once per CPU level. Other dtypes: reduce_plain.c. Axes and threads: reduce.c. */
#include "ops/cpu/reduce/reduce_f32.h"

#include <math.h>

#define IF_FLOAT(...) __VA_ARGS__
#define IF_SIGNED(...)
#define IF_UNSIGNED(...)
#define IF_INT(...)
#define IF_BOOL(...)
#define T float
#define A double
#define W double
#define TAG f32
#include "ops/cpu/reduce/reduce_template.h"

const reduce_loops *CPU_LEVELED(reduce_f32)(op_id op) { return reductions_f32(op); }
