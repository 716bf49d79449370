/* The reductions on f32. Compiled once per CPU level. Other dtypes: reduce_plain.c. Axes and threads: reduce.c. */
#include "ops/cpu/reduce/reduce_f32.h"

#include <math.h>
#include <string.h>

#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/reduce/softmax_loops.h"
#include "ops/cpu/reduce/turned_rows.h"

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

static void ReduceLogSumExp_short_rows(reduce_accumulator *pa, const void *px, int64_t rows, int64_t n) {
  for (int64_t first = 0; first < rows; first += LANES) {
    lanes column[SHORT_ROW] = {0}, sum = {0};
    float mosts[LANES], logs[LANES];
    turn_rows((const float *)px + first * n, n, rows - first, column);
    lanes most = column[0];
    for (int64_t k = 1; k < n; k++) most = larger(most, column[k]);
    for (int64_t k = 0; k < n; k++) sum += exp_lanes(column[k] - most);
    store(mosts, most);
    store(logs, sum);
    for (int i = 0; i < LANES; i++) logs[i] = log_f32(logs[i]);
    for (int64_t i = 0; i < LANES && first + i < rows; i++)
      ((double *)pa)[first + i] = (double)mosts[i] + (isfinite(mosts[i]) ? (double)logs[i] : 0);
  }
}

/* As the row, for blocks of columns. Sums of SUMMED_ROWS rows are added in f32, in an order that does not depend on the
 * columns beside them. */
#define SUMMED_ROWS 256
#define SUMMED_COLUMNS 64
static void ReduceLogSumExp_columns(reduce_accumulator *a, const void *px, int64_t stride, int64_t rows, int64_t n) {
  float most[SUMMED_COLUMNS], sum[SUMMED_COLUMNS];
  for (int64_t first = 0; first < n; first += SUMMED_COLUMNS)
    for (int64_t k = 0; k < rows; k += SUMMED_ROWS) {
      const float *x = (const float *)px + k * stride + first;
      const int64_t columns = n - first < SUMMED_COLUMNS ? n - first : SUMMED_COLUMNS,
                    some = rows - k < SUMMED_ROWS ? rows - k : SUMMED_ROWS;
      CPU_LEVELED(softmax_columns_most)(x, some, stride, columns, most);
      memset(sum, 0, sizeof sum);
      for (int64_t row = 0; row < some; row++)
        for (int64_t i = 0; i < columns; i++) sum[i] += exp_falling(x[row * stride + i] - most[i]);
      for (int64_t i = 0; i < columns; i++) {
        double whole = (double)most[i];
        if (isfinite(most[i])) whole += log((double)sum[i]);
        ReduceLogSumExp_join_f32(&a[first + i], (const reduce_accumulator *)&whole, 1);
      }
    }
}

#ifdef __AVX512F__
/* The template's sums, with its bits, in registers from the first element to the last addition. */
typedef enum summed { PLAIN, MAGNITUDES, SQUARES } summed;
INLINE __m512d term(summed what, __m256 x) {
  const __m512d v = _mm512_cvtps_pd(x);
  return what == PLAIN ? v : what == SQUARES ? _mm512_mul_pd(v, v) : _mm512_abs_pd(v);
}
INLINE void add_row_sums(summed what, reduce_accumulator *pa, const float *x, int64_t n) {
  __m512d low = {0}, high = {0};
  for (int64_t i = 0; i < n; i += LANES) {
    const __m512 v = i + LANES <= n ? (__m512)load(x + i) : (__m512)load_some(x + i, lanes_between(0, n - i));
    low += term(what, _mm512_castps512_ps256(v));
    high += term(what, _mm512_extractf32x8_ps(v, 1));
  }
  low += high;
  const __m256d four = _mm512_castpd512_pd256(low) + _mm512_extractf64x4_pd(low, 1);
  const __m128d two = _mm256_castpd256_pd128(four) + _mm256_extractf128_pd(four, 1);
  *(double *)pa += two[0] + two[1];
}
#define ROW_OF_SUMS(op, what) \
  static void op##_row(reduce_accumulator *a, const void *x, int64_t n) { \
    if (n < LANES) op##_row_f32(a, x, n); \
    else add_row_sums(what, a, x, n); \
  }
ROW_OF_SUMS(ReduceSum, PLAIN)
ROW_OF_SUMS(ReduceMean, PLAIN)
ROW_OF_SUMS(ReduceLogSum, PLAIN)
ROW_OF_SUMS(ReduceL1, MAGNITUDES)
ROW_OF_SUMS(ReduceL2, SQUARES)
ROW_OF_SUMS(ReduceSumSquare, SQUARES)
#endif

#define WITH_LOOPS(op, columns, rows) \
  case OP_##op: { \
    static const reduce_loops loops = {op##_start_f32, op##_row, op##_column_f32, op##_join_f32, op##_finish_f32, \
                                       columns,        rows}; \
    return &loops; \
  }

const reduce_loops *CPU_LEVELED(reduce_f32)(op_id op) {
  switch (op) {
    WITH_LOOPS(ReduceMax, NULL, NULL)
    WITH_LOOPS(ReduceMin, NULL, NULL)
    WITH_LOOPS(ReduceLogSumExp, ReduceLogSumExp_columns, ReduceLogSumExp_short_rows)
#ifdef __AVX512F__
    WITH_LOOPS(ReduceSum, NULL, NULL)
    WITH_LOOPS(ReduceMean, NULL, NULL)
    WITH_LOOPS(ReduceLogSum, NULL, NULL)
    WITH_LOOPS(ReduceL1, NULL, NULL)
    WITH_LOOPS(ReduceL2, NULL, NULL)
    WITH_LOOPS(ReduceSumSquare, NULL, NULL)
#endif
    default: return reductions_f32(op);
  }
}
