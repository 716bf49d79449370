/* Softmax, LogSoftmax and ReduceLogSumExp of f64 (exp_loops.h). The largest element's exponent is taken out of a row's
 * sum, not of each addition. */
#include "ops/cpu/uncontracted.h"
#include "ops/cpu/reduce/exp_loops.h"

#include "ops/cpu/common/functions_double.h"
#include "ops/cpu/reduce/short_rows.h"

#define INLINE static inline __attribute__((always_inline))
#define NARROW 8  /* of fewer columns the exponentials of several rows are taken together */
#define SUMS 16   /* independent sums or maxima of a row, which hide the latency of an addition */
#define BLOCK 256 /* elements whose exponentials are taken at a time: a multiple of SUMS */

static inline double larger_or_nan(double a, double b) { return (b > a) | (b != b) ? b : a; }

double CPU_LEVELED(most_f64)(const double *x, int64_t n) {
  double most[SUMS], all = -INFINITY;
  int64_t i = 0;
  if (n >= SUMS) {
    for (int k = 0; k < SUMS; k++) most[k] = x[k];
    for (i = SUMS; i + SUMS <= n; i += SUMS)
      for (int k = 0; k < SUMS; k++) most[k] = larger_or_nan(most[k], x[i + k]);
    for (int k = 0; k < SUMS; k++) all = larger_or_nan(all, most[k]);
  }
  for (; i < n; i++) all = larger_or_nan(all, x[i]);
  return all;
}

/* In order, of short rows; else the sum of SUMS sums. */
static double sum_of(const double *x, int64_t n) {
  double sums[SUMS], sum = 0;
  int64_t i = 0;
  if (n >= SUMS) {
    for (int k = 0; k < SUMS; k++) sums[k] = x[k];
    for (i = SUMS; i + SUMS <= n; i += SUMS)
      for (int k = 0; k < SUMS; k++) sums[k] += x[i + k];
    for (int half = SUMS / 2; half; half /= 2)
      for (int k = 0; k < half; k++) sums[k] += sums[k + half];
    sum = sums[0];
  }
  for (; i < n; i++) sum += x[i];
  return sum;
}

double CPU_LEVELED(exp_sum_f64)(const double *x, double most, double *y, int64_t n) {
  double some[BLOCK], sum = 0;
  for (int64_t i = 0; i < n; i += BLOCK) {
    const int64_t m = n - i < BLOCK ? n - i : BLOCK;
    double *to = y ? y + i : some;
#pragma GCC ivdep
    for (int64_t k = 0; k < m; k++) to[k] = exp_double(x[i + k] - most);
    sum += sum_of(to, m);
  }
  return sum;
}

/* How many rows of n elements are taken together: their exponentials are one loop. */
static int64_t rows_together(int64_t n) { return n < BLOCK / 2 ? BLOCK / n : 1; }

/* The largest element and the sum of exponentials of each of some rows, at most rows_together(n); y as in exp_sum. */
static void sum_rows(const double *x, double *y, int64_t rows, int64_t n, double *most, double *sums) {
  double some[BLOCK], *to = y ? y : some;
  if (n >= BLOCK / 2) {
    most[0] = CPU_LEVELED(most_f64)(x, n);
    sums[0] = CPU_LEVELED(exp_sum_f64)(x, most[0], y, n);
    return;
  }
  for (int64_t i = 0; i < rows; i++) {
    const double *row = x + i * n;
    double all = row[0];
    if (n >= SUMS) all = CPU_LEVELED(most_f64)(row, n);
    else
      for (int64_t k = 1; k < n; k++) all = larger_or_nan(all, row[k]);
    most[i] = all;
    for (int64_t k = 0; k < n; k++) to[i * n + k] = row[k] - all;
  }
  for (int64_t k = 0; k < rows * n; k++) to[k] = exp_double(to[k]);
  for (int64_t i = 0; i < rows; i++) sums[i] = sum_of(to + i * n, n);
}

void CPU_LEVELED(softmax_rows_f64)(bool log, const double *x, double *y, int64_t rows, int64_t n) {
  const int64_t together = rows_together(n);
  double most[BLOCK], sums[BLOCK];
  for (int64_t first = 0; first < rows; first += together) {
    const int64_t some = rows - first < together ? rows - first : together;
    sum_rows(x + first * n, log ? NULL : y + first * n, some, n, most, sums);
    for (int64_t i = 0; log && i < some; i++) sums[i] = log_double(sums[i]);
    for (int64_t i = 0; i < some; i++) {
      const double *from = x + (first + i) * n, less = most[i], rest = sums[i];
      double *to = y + (first + i) * n;
      if (log) {
#pragma GCC ivdep
        for (int64_t k = 0; k < n; k++) to[k] = from[k] - less - rest;
      } else {
        for (int64_t k = 0; k < n; k++) to[k] /= rest;
      }
    }
  }
}

/* ---- columns, at most BLOCK side by side ---- */

INLINE void most_of_columns(const double *x, int64_t n, int64_t stride, int64_t m, double *most) {
  for (int64_t i = 0; i < m; i++) most[i] = x[i];
  for (int64_t k = 1; k < n; k++)
    for (int64_t i = 0; i < m; i++) most[i] = larger_or_nan(most[i], x[k * stride + i]);
}

static __attribute__((noinline)) void exp_all(double *x, int64_t n) {
  for (int64_t k = 0; k < n; k++) x[k] = exp_double(x[k]);
}

/* The exponentials of some rows are one loop. */
INLINE void exp_sum_of_few_columns(const double *x, const double *most, double *y, int64_t n, int64_t stride, int64_t m,
                                   double *sums) {
  const int64_t together = rows_together(m);
  double some[BLOCK];
  for (int64_t first = 0; first < n; first += together) {
    const int64_t rows = n - first < together ? n - first : together;
    const double *from = x + first * stride;
    for (int64_t k = 0; k < rows; k++)
      for (int64_t i = 0; i < m; i++) some[k * m + i] = from[k * stride + i] - most[i];
    exp_all(some, rows * m);
    for (int64_t k = 0; k < rows; k++)
      for (int64_t i = 0; i < m; i++) sums[i] += some[k * m + i];
    for (int64_t k = 0; y && k < rows; k++)
      for (int64_t i = 0; i < m; i++) y[(first + k) * stride + i] = some[k * m + i];
  }
}

INLINE void exp_sum_of_columns(const double *x, const double *most, double *y, int64_t n, int64_t stride, int64_t m,
                               double *sums) {
  for (int64_t i = 0; i < m; i++) sums[i] = 0;
  if (m < NARROW) return exp_sum_of_few_columns(x, most, y, n, stride, m, sums);
  for (int64_t k = 0; k < n; k++) {
    const double *from = x + k * stride;
    if (!y) {
      for (int64_t i = 0; i < m; i++) sums[i] += exp_double(from[i] - most[i]);
    } else {
      double *to = y + k * stride;
#pragma GCC ivdep
      for (int64_t i = 0; i < m; i++) sums[i] += to[i] = exp_double(from[i] - most[i]);
    }
  }
}

INLINE void finish_of_columns(bool log, const double *x, const double *most, const double *rest, double *y, int64_t n,
                              int64_t stride, int64_t m) {
  for (int64_t k = 0; k < n; k++) {
    const double *from = x + k * stride;
    double *to = y + k * stride;
    if (log) {
#pragma GCC ivdep
      for (int64_t i = 0; i < m; i++) to[i] = from[i] - most[i] - rest[i];
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < m; i++) to[i] /= rest[i];
    }
  }
}

/* Calls form(columns), with a constant for the numbers that are frequent. */
#define OF_COLUMNS(columns, form) \
  switch (columns) { \
    case 2: form(2); break; \
    case 3: form(3); break; \
    case 4: form(4); break; \
    case COLUMNS_ABREAST: form(COLUMNS_ABREAST); break; \
    default: form(columns); \
  }

void CPU_LEVELED(most_columns_f64)(const double *x, int64_t n, int64_t stride, int64_t columns, double *most) {
#define MOST(m) most_of_columns(x, n, stride, m, most)
  OF_COLUMNS(columns, MOST);
}

void CPU_LEVELED(exp_sum_columns_f64)(const double *x, const double *most, double *y, int64_t n, int64_t stride,
                                      int64_t columns, double *sums) {
  double less[BLOCK], all[BLOCK]; /* which are not Y's memory, as far as the compiler knows */
  for (int64_t i = 0; i < columns; i++) less[i] = most[i];
#define EXP_SUM(m) exp_sum_of_columns(x, less, y, n, stride, m, all)
  OF_COLUMNS(columns, EXP_SUM);
  for (int64_t i = 0; i < columns; i++) sums[i] = all[i];
}

void CPU_LEVELED(finish_columns_f64)(bool log, const double *x, const double *most, const double *rest, double *y,
                                     int64_t n, int64_t stride, int64_t columns) {
#define FINISH(m) finish_of_columns(log, x, most, rest, y, n, stride, m)
  OF_COLUMNS(columns, FINISH);
}

INLINE void softmax_of_columns(bool log, const double *x, double *y, int64_t n, int64_t stride, int64_t m) {
  double most[BLOCK], sums[BLOCK];
  most_of_columns(x, n, stride, m, most);
  exp_sum_of_columns(x, most, log ? NULL : y, n, stride, m, sums);
  for (int64_t i = 0; log && i < m; i++) sums[i] = log_double(sums[i]);
  finish_of_columns(log, x, most, sums, y, n, stride, m);
}

void CPU_LEVELED(softmax_columns_f64)(bool log, const double *x, double *y, int64_t n, int64_t stride,
                                      int64_t columns) {
  for (int64_t first = 0; first < columns; first += BLOCK, x += BLOCK, y += BLOCK) {
    const int64_t some = columns - first < BLOCK ? columns - first : BLOCK;
#define SOFTMAX_OF(m) softmax_of_columns(log, x, y, n, stride, m)
    OF_COLUMNS(some, SOFTMAX_OF);
  }
}

/* ---- ReduceLogSumExp ---- */

/* log(e^a + e^b) */
static inline double log_add(double a, double b) {
  const double low = a < b ? a : b, high = a < b ? b : a, y = high + log1p_finite_double(exp_double(low - high));
  return low == -INFINITY ? high : high == low ? high + LN_2_HIGH + LN_2_LOW : y;
}

/* The logarithm of a row's sum from its largest element; infinities and NaN are the result themselves. */
static inline double whole_of_row(double most, double sum) {
  return fabs(most) < INFINITY ? most + log_double(sum) : most;
}

static void start(reduce_accumulator *pa, int64_t n) {
  for (int64_t i = 0; i < n; i++) ((double *)pa)[i] = -INFINITY;
}

static void add(double *a, const double *v, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; i++) a[i] = log_add(a[i], v[i]);
}

static void row(reduce_accumulator *pa, const void *px, int64_t n) {
  const double *x = px, most = CPU_LEVELED(most_f64)(x, n);
  const double whole = fabs(most) < INFINITY ? whole_of_row(most, CPU_LEVELED(exp_sum_f64)(x, most, NULL, n)) : most;
  add((double *)pa, &whole, 1);
}

static void column(reduce_accumulator *pa, const void *x, int64_t n) { add((double *)pa, x, n); }

/* v[0..n) into one: joining in order would wait for a logarithm at each. */
static void join(reduce_accumulator *pa, const reduce_accumulator *v, int64_t n) { row(pa, v, n); }

static void finish(void *out, const reduce_accumulator *pa, int64_t n_out, int64_t n) {
  memcpy(out, pa, (size_t)n_out * sizeof(double));
}

/* Blocks of columns: of SUMMED_ROWS rows at a time the largest elements, then the sums, in an order that does not
 * depend on the columns beside them. */
#define SUMMED_ROWS 256
static void columns(reduce_accumulator *pa, const void *px, int64_t stride, int64_t rows, int64_t n) {
  double most[BLOCK], sums[BLOCK];
  for (int64_t first = 0; first < n; first += BLOCK) {
    const int64_t m = n - first < BLOCK ? n - first : BLOCK;
    for (int64_t k = 0; k < rows; k += SUMMED_ROWS) {
      const double *x = (const double *)px + k * stride + first;
      const int64_t some = rows - k < SUMMED_ROWS ? rows - k : SUMMED_ROWS;
      for (int64_t i = 0; i < m; i++) most[i] = x[i], sums[i] = 0;
      for (int64_t r = 1; r < some; r++)
        for (int64_t i = 0; i < m; i++) most[i] = larger_or_nan(most[i], x[r * stride + i]);
      for (int64_t r = 0; r < some; r++)
        for (int64_t i = 0; i < m; i++) sums[i] += exp_double(x[r * stride + i] - most[i]);
      for (int64_t i = 0; i < m; i++) sums[i] = whole_of_row(most[i], sums[i]);
      add((double *)pa + first, sums, m);
    }
  }
}

static void short_rows(reduce_accumulator *pa, const void *px, int64_t rows, int64_t n) {
  const int64_t together = rows_together(n);
  double most[BLOCK], sums[BLOCK];
  for (int64_t first = 0; first < rows; first += together) {
    const int64_t some = rows - first < together ? rows - first : together;
    sum_rows((const double *)px + first * n, NULL, some, n, most, sums);
    for (int64_t i = 0; i < some; i++) ((double *)pa)[first + i] = whole_of_row(most[i], sums[i]);
  }
}

const reduce_loops *CPU_LEVELED(log_sum_exp_f64)(void) {
  static const reduce_loops loops = {start, row, column, join, finish, columns, short_rows};
  return &loops;
}
