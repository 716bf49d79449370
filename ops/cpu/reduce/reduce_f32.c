/* The reductions on f32. Compiled once per CPU level. Other dtypes: reduce_plain.c. Axes and threads: reduce.c. */
#include "ops/cpu/reduce/reduce_f32.h"

#include <math.h>

#include "ops/cpu/common/lanes.h"
#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/reduce/softmax_loops.h"

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

/* ---- rows that have faster loops than reduce_template.h's ---- */

static void ReduceMax_row(reduce_accumulator *a, const void *x, int64_t n) {
  if (n == 0) return;
  const double most = (double)CPU_LEVELED(max_f32)(x, n);
  ReduceMax_join_f32(a, (const reduce_accumulator *)&most, 1);
}

/* The least is minus the largest of -x. */
static void ReduceMin_row(reduce_accumulator *a, const void *px, int64_t n) {
  if (n < 2 * LANES) {
    ReduceMin_row_f32(a, px, n);
    return;
  }
  const float *x = px;
  lanes most = -load(x), other = -load(x + n - LANES); /* some elements once more */
  for (int64_t i = LANES; i + LANES <= n; i += 2 * LANES) {
    most = larger(most, -load(x + i));
    if (i + 2 * LANES <= n) other = larger(other, -load(x + i + LANES));
  }
  const double least = -(double)largest_of(larger(most, other));
  ReduceMin_join_f32(a, (const reduce_accumulator *)&least, 1);
}

/* The largest element's exponent is taken out of a row's sum, not of each addition. */
static void ReduceLogSumExp_row(reduce_accumulator *a, const void *x, int64_t n) {
  if (n == 0) return;
  const float most = CPU_LEVELED(max_f32)(x, n);
  double whole = (double)most;
  if (isfinite(most)) whole += log(CPU_LEVELED(softmax_sum)(true, x, most, NULL, n));
  ReduceLogSumExp_join_f32(a, (const reduce_accumulator *)&whole, 1);
}

#define WITH_ROW(op) \
  case OP_##op: { \
    static const reduce_loops loops = {op##_start_f32, op##_row, op##_column_f32, op##_join_f32, op##_finish_f32}; \
    return &loops; \
  }

const reduce_loops *CPU_LEVELED(reduce_f32)(op_id op) {
  switch (op) {
    WITH_ROW(ReduceMax)
    WITH_ROW(ReduceMin)
    WITH_ROW(ReduceLogSumExp)
    default: return reductions_f32(op);
  }
}
