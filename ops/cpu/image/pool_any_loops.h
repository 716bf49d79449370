/* Loops of pools of any dtype: a tap of many windows. */
#ifndef OPS_CPU_IMAGE_POOL_ANY_LOOPS_H_
#define OPS_CPU_IMAGE_POOL_ANY_LOOPS_H_

#include <stdbool.h>
#include <stdint.h>
#include "ops/cpu/common/cpu.h"
#include "reed/dtype.h"

/* Calls X(DTYPE, type, name, least) for each dtype of MaxPool. */
#define POOL_DTYPES(X) \
  X(REED_F32, float, f32, -__builtin_inff()) \
  X(REED_F64, double, f64, -__builtin_inf()) \
  X(REED_I8, int8_t, i8, INT8_MIN) \
  X(REED_I16, int16_t, i16, INT16_MIN) \
  X(REED_I32, int32_t, i32, INT32_MIN) \
  X(REED_I64, int64_t, i64, INT64_MIN) \
  X(REED_U8, uint8_t, u8, 0) X(REED_U16, uint16_t, u16, 0) X(REED_U32, uint32_t, u32, 0) X(REED_U64, uint64_t, u64, 0)

/* most[i] becomes v = x[at + i * stride] if v is larger, or NaN and most[i] is not; then, where[i] becomes at + i *
 * stride, which it also does if it is negative. where NULL: not wanted. */
CPU_LOOP(void, pool_most,
         (reed_dtype dtype, const void *x, int32_t at, int32_t stride, void *most, int32_t *where, int64_t n));
/* sums[i] += x[i * stride] */
CPU_LOOP(void, pool_sum_f64, (const double *x, int64_t stride, double *sums, int64_t n));

#endif
