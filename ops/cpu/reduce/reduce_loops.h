/* The loops of one reduction for one dtype. */
#ifndef OPS_CPU_REDUCE_REDUCE_LOOPS_H_
#define OPS_CPU_REDUCE_REDUCE_LOOPS_H_

#include <math.h>

#include "ops/cpu/common/cpu.h"
#include "ops/op.h"

/* 8 bytes, of a type that each loop chooses. */
typedef uint64_t reduce_accumulator;

/* log(e^a + e^b) */
static inline double reduce_log_add(double a, double b) {
  double low = a < b ? a : b, high = a < b ? b : a;
  if (low == -INFINITY) return high;
  return high == low ? high + 0.69314718055994530942 : high + log1p(exp(low - high));
}

typedef struct reduce_loops {
  void (*start)(reduce_accumulator *a, int64_t n);                             /* a[0..n) */
  void (*row)(reduce_accumulator *a, const void *x, int64_t n);                /* n elements into a[0] */
  void (*column)(reduce_accumulator *a, const void *x, int64_t n);             /* x[i] into a[i] */
  void (*join)(reduce_accumulator *a, const reduce_accumulator *v, int64_t n); /* v[0..n) into a[0] */
  void (*finish)(void *out, const reduce_accumulator *a, int64_t n_out,
                 int64_t n); /* out[i] from a[i], each over n elements */
  /* x[k * stride + i] into a[i] over k < rows, where that is faster than `column` row by row; NULL: it is not */
  void (*columns)(reduce_accumulator *a, const void *x, int64_t stride, int64_t rows, int64_t n);
  /* row i of n elements, n <= SHORT_ROW (short_rows.h), alone into a[i], which need not be started, over i < rows;
   * NULL: `row` does it row by row */
  void (*short_rows)(reduce_accumulator *a, const void *x, int64_t rows, int64_t n);
} reduce_loops;

#endif
