/* The formulas on all dtypes but f32, compiled once per CPU level. Doubles have the same bits at every level. */
#include "ops/cpu/uncontracted.h"
#include "ops/cpu/formulas/formulas_plain.h"

#include "ops/cpu/common/cpu.h"
#include "ops/cpu/common/functions_double.h"

#define FORMULAS_OF_DTYPE "ops/cpu/formulas/formula_template.h"
#include "ops/cpu/formulas/formula_dtypes_template.h"

/* ---- formulas that hold for a part of the doubles ---- */

#define BLOCK 256

/* The loop `near`, then `far` for the elements above `most`, and NaN; their neighbours stay as they are. */
static int reach_farther(elementwise_fn near, double (*far)(double), double most, double *y, const double *x, int64_t n,
                         const uint8_t *steps, const elementwise_parameters *p) {
  for (int64_t i = 0; i < n; i += BLOCK) {
    const int64_t m = n - i < BLOCK ? n - i : BLOCK;
    int64_t n_far = 0;
    double before[BLOCK]; /* y may be x */
    for (int64_t k = 0; k < m; k++) n_far += !(fabs(x[i + k]) <= most);
    if (n_far) memcpy(before, x + i, (size_t)m * sizeof *before);
    (void)near(y + i, (const void *const[]){x + i}, steps, m, p);
    for (int64_t k = 0; k < m && n_far; k++)
      if (!(fabs(before[k]) <= most)) y[i + k] = far(before[k]);
  }
  return 0;
}

#define REACH_OF_F64(op, most, f) \
  static int CPU_CONCAT(op, anywhere)(void *y, const void *const *in, const uint8_t *steps, int64_t n, \
                                      const elementwise_parameters *p) { \
    return reach_farther(CPU_CONCAT(op, f64), f, most, y, in[0], n, steps, p); \
  }
#include "ops/cpu/formulas/formulas.def"

static elementwise_fn double_loop(int formula) {
#define REACH_OF_F64(op, ...) \
  if (formula == OP_##op) return CPU_CONCAT(op, anywhere);
#include "ops/cpu/formulas/formulas.def"
  return loops_f64[formula];
}

elementwise_fn CPU_LEVELED(elementwise_plain)(reed_dtype dtype, int formula) {
  switch (dtype) {
    case REED_F64: return double_loop(formula);
    case REED_I8: return loops_i8[formula];
    case REED_I16: return loops_i16[formula];
    case REED_I32: return loops_i32[formula];
    case REED_I64: return loops_i64[formula];
    case REED_U8: return loops_u8[formula];
    case REED_U16: return loops_u16[formula];
    case REED_U32: return loops_u32[formula];
    case REED_U64: return loops_u64[formula];
    case REED_BOOL: return loops_truth[formula];
    case REED_F32:
    case REED_F16:
    case REED_BF16:
    case REED_NONE:
    case REED_DTYPE_COUNT: break;
  }
  return NULL;
}
