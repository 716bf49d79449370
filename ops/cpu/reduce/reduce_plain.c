/* The reductions on all dtypes but f32, at one CPU level. f32: reduce_f32.c; ReduceLogSumExp of f64:
 * exp_loops.c. Axes and threads: reduce.c. */
#include "ops/cpu/reduce/reduce_plain.h"

#include <math.h>

#include "ops/cpu/common/cpu.h"
#include "ops/cpu/reduce/exp_loops.h"

#define IF_BOOL(...)
#define IF_FLOAT(...) __VA_ARGS__
#define IF_SIGNED(...)
#define IF_UNSIGNED(...)
#define IF_INT(...)
#define T double
#define A double
#define W double
#define TAG f64
#include "ops/cpu/reduce/reduce_template.h"

#undef IF_FLOAT
#define IF_FLOAT(...)
#undef IF_INT
#define IF_INT(...) __VA_ARGS__

#undef IF_SIGNED
#define IF_SIGNED(...) __VA_ARGS__
#define T int8_t
#define A int64_t
#define W uint64_t
#define LOWEST INT8_MIN
#define HIGHEST INT8_MAX
#define TAG i8
#include "ops/cpu/reduce/reduce_template.h"
#define T int16_t
#define A int64_t
#define W uint64_t
#define LOWEST INT16_MIN
#define HIGHEST INT16_MAX
#define TAG i16
#include "ops/cpu/reduce/reduce_template.h"
#define T int32_t
#define A int64_t
#define W uint64_t
#define LOWEST INT32_MIN
#define HIGHEST INT32_MAX
#define TAG i32
#include "ops/cpu/reduce/reduce_template.h"
#define T int64_t
#define A int64_t
#define W uint64_t
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#define TAG i64
#include "ops/cpu/reduce/reduce_template.h"

#undef IF_SIGNED
#define IF_SIGNED(...)
#undef IF_UNSIGNED
#define IF_UNSIGNED(...) __VA_ARGS__
#define T uint8_t
#define A uint64_t
#define W uint64_t
#define LOWEST 0
#define HIGHEST UINT8_MAX
#define TAG u8
#include "ops/cpu/reduce/reduce_template.h"
#define T uint16_t
#define A uint64_t
#define W uint64_t
#define LOWEST 0
#define HIGHEST UINT16_MAX
#define TAG u16
#include "ops/cpu/reduce/reduce_template.h"
#define T uint32_t
#define A uint64_t
#define W uint64_t
#define LOWEST 0
#define HIGHEST UINT32_MAX
#define TAG u32
#include "ops/cpu/reduce/reduce_template.h"
#define T uint64_t
#define A uint64_t
#define W uint64_t
#define LOWEST 0
#define HIGHEST UINT64_MAX
#define TAG u64
#include "ops/cpu/reduce/reduce_template.h"

#undef IF_UNSIGNED
#define IF_UNSIGNED(...)
#undef IF_INT
#define IF_INT(...)
#undef IF_BOOL
#define IF_BOOL(...) __VA_ARGS__
#define T uint8_t
#define A uint64_t
#define W uint64_t
#define TAG truth
#include "ops/cpu/reduce/reduce_template.h"

const reduce_loops *reduce_plain(reed_dtype dtype, op_id op) {
  switch (dtype) {
    case REED_F64: return op == OP_ReduceLogSumExp ? CPU_PICK(cpu_level_now(), log_sum_exp_f64)() : reductions_f64(op);
    case REED_I8: return reductions_i8(op);
    case REED_I16: return reductions_i16(op);
    case REED_I32: return reductions_i32(op);
    case REED_I64: return reductions_i64(op);
    case REED_U8: return reductions_u8(op);
    case REED_U16: return reductions_u16(op);
    case REED_U32: return reductions_u32(op);
    case REED_U64: return reductions_u64(op);
    case REED_BOOL: return reductions_truth(op);
    case REED_F32:
    case REED_F16:
    case REED_BF16:
    case REED_NONE:
    case REED_DTYPE_COUNT: break;
  }
  return NULL;
}
