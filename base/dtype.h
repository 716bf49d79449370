/* Kinds of dtypes. The list of dtypes, and reading and writing of elements: reed/dtype.h. */
#ifndef BASE_DTYPE_H_
#define BASE_DTYPE_H_

#include <stdbool.h>

#include "reed/dtype.h"

/* True for f32, f64, f16 and bf16. */
static inline bool dtype_is_real(reed_dtype dtype) {
  return dtype == REED_F32 || dtype == REED_F64 || dtype == REED_F16 || dtype == REED_BF16;
}

#endif
