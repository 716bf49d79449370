/* The formulas on all dtypes but f32, compiled for one CPU level: doubles are limited by the C library and the memory,
 * and integers carry shapes and indices. */
#include "ops/cpu/formulas/formulas_plain.h"

#include "ops/cpu/common/cpu.h"
#include "ops/cpu/common/functions.h"

#define IF_BOOL(...)
#define IF_FLOAT(...) __VA_ARGS__
#define IF_SIGNED(...)
#define IF_UNSIGNED(...)
#define IF_INT(...)
#define T double
#define W double
#define TAG f64
#define FN(f) f##_f64
#include "ops/cpu/formulas/formula_template.h"

#undef IF_FLOAT
#define IF_FLOAT(...)
#undef IF_INT
#define IF_INT(...) __VA_ARGS__

#undef IF_SIGNED
#define IF_SIGNED(...) __VA_ARGS__
#define T int8_t
#define W uint32_t
#define TAG i8
#define FN(f) f##_f64
#include "ops/cpu/formulas/formula_template.h"
#define T int16_t
#define W uint32_t
#define TAG i16
#define FN(f) f##_f64
#include "ops/cpu/formulas/formula_template.h"
#define T int32_t
#define W uint32_t
#define TAG i32
#define FN(f) f##_f64
#include "ops/cpu/formulas/formula_template.h"
#define T int64_t
#define W uint64_t
#define TAG i64
#define FN(f) f##_f64
#include "ops/cpu/formulas/formula_template.h"

#undef IF_SIGNED
#define IF_SIGNED(...)
#undef IF_UNSIGNED
#define IF_UNSIGNED(...) __VA_ARGS__
#define T uint8_t
#define W uint32_t
#define TAG u8
#define FN(f) f##_f64
#include "ops/cpu/formulas/formula_template.h"
#define T uint16_t
#define W uint32_t
#define TAG u16
#define FN(f) f##_f64
#include "ops/cpu/formulas/formula_template.h"
#define T uint32_t
#define W uint32_t
#define TAG u32
#define FN(f) f##_f64
#include "ops/cpu/formulas/formula_template.h"
#define T uint64_t
#define W uint64_t
#define TAG u64
#define FN(f) f##_f64
#include "ops/cpu/formulas/formula_template.h"

#undef IF_UNSIGNED
#define IF_UNSIGNED(...)
#undef IF_INT
#define IF_INT(...)
#undef IF_BOOL
#define IF_BOOL(...) __VA_ARGS__
#define T uint8_t
#define W uint32_t
#define TAG truth
#define FN(f) f##_f64
#include "ops/cpu/formulas/formula_template.h"

elementwise_fn elementwise_plain(reed_dtype dtype, int formula) {
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
