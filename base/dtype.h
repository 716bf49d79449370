/* Kinds of dtypes. The list of dtypes, and reading and writing of elements: reed/dtype.h. */
#ifndef BASE_DTYPE_H_
#define BASE_DTYPE_H_

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "reed/dtype.h"

/* True for f32, f64, f16 and bf16. */
static inline bool dtype_is_real(reed_dtype dtype) {
  return dtype == REED_F32 || dtype == REED_F64 || dtype == REED_F16 || dtype == REED_BF16;
}

/* An element of an integer dtype or bool, to the bit: reed_dtype_read rounds 64-bit numbers to double. u64 wraps. */
static inline int64_t dtype_read_integer(reed_dtype dtype, const void *element) {
  int64_t value;
  if (dtype != REED_I64 && dtype != REED_U64) return (int64_t)reed_dtype_read(dtype, element);
  memcpy(&value, element, sizeof value);
  return value;
}

#endif
