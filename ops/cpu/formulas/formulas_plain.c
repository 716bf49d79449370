/* The formulas on all dtypes but f32, compiled once per CPU level. Doubles have the same bits at every level. */
#include "ops/cpu/uncontracted.h"
#include "ops/cpu/formulas/formulas_plain.h"

#include "ops/cpu/common/cpu.h"
#include "ops/cpu/common/functions.h"

#define FORMULAS_OF_DTYPE "ops/cpu/formulas/formula_template.h"
#include "ops/cpu/formulas/formula_dtypes_template.h"

elementwise_fn CPU_LEVELED(elementwise_plain)(reed_dtype dtype, int formula) {
  switch (dtype) {
    case REED_F64: return loops_f64[formula];
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
