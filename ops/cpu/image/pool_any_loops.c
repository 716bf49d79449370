/* The innermost loops of pools of any dtype (pool_any_loops.h), compiled once per CPU level. */
#include "ops/cpu/image/pool_any_loops.h"

#include <stddef.h>

/* The usual strides as constants, so that their loops vectorise. */
#define MOST(DTYPE, T, name, least) \
  static inline void name##_alone(const T *restrict x, int64_t stride, T *restrict most, int64_t n) { \
    for (int64_t i = 0; i < n; i++) { \
      const T v = x[i * stride], m = most[i]; \
      most[i] = (v > m) | ((v != v) & (m == m)) ? v : m; \
    } \
  } \
  static inline void name##_placed(const T *restrict x, int32_t at, int32_t stride, T *restrict most, \
                                   int32_t *restrict where, int64_t n) { \
    for (int32_t i = 0; i < (int32_t)n; i++) { \
      const T v = x[(int64_t)i * stride], m = most[i]; \
      const int32_t w = where[i]; \
      const bool better = (w < 0) | (v > m) | ((v != v) & (m == m)); \
      most[i] = better ? v : m; \
      where[i] = better ? at + i * stride : w; \
    } \
  } \
  static void name##_most(const T *x, int32_t at, int32_t stride, T *most, int32_t *where, int64_t n) { \
    x += at; \
    if (where && stride == 1) name##_placed(x, at, 1, most, where, n); \
    else if (where && stride == 2) name##_placed(x, at, 2, most, where, n); \
    else if (where) name##_placed(x, at, stride, most, where, n); \
    else if (stride == 1) name##_alone(x, 1, most, n); \
    else if (stride == 2) name##_alone(x, 2, most, n); \
    else name##_alone(x, stride, most, n); \
  }
POOL_DTYPES(MOST)

void CPU_LEVELED(pool_most)(reed_dtype dtype, const void *x, int32_t at, int32_t stride, void *most, int32_t *where,
                            int64_t n) {
#define CALL(DTYPE, T, name, least) \
  if (dtype == DTYPE) name##_most(x, at, stride, most, where, n);
  POOL_DTYPES(CALL)
#undef CALL
}

void CPU_LEVELED(pool_sum_f64)(const double *x, int64_t stride, double *restrict sums, int64_t n) {
  if (stride == 1)
    for (int64_t i = 0; i < n; i++) sums[i] += x[i];
  else
    for (int64_t i = 0; i < n; i++) sums[i] += x[i * stride];
}
