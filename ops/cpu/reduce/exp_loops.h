/* Loops over rows of f64 that take exponentials: Softmax, LogSoftmax and ReduceLogSumExp. Compiled once per CPU level,
 * with the same bits at each; an order of additions follows from a row's length alone. */
#ifndef OPS_CPU_REDUCE_EXP_LOOPS_H_
#define OPS_CPU_REDUCE_EXP_LOOPS_H_

#include <stdbool.h>

#include "ops/cpu/reduce/reduce_loops.h"

#define COLUMNS_ABREAST 16 /* columns that are taken together: whole lines of the cache, but for the ends */

/* The largest of n elements; NaN if there is one, -infinity of none. */
CPU_LOOP(double, most_f64, (const double *x, int64_t n));
/* The sum of e^(x[i] - most) over n elements, which are written to y; NULL: they are not. */
CPU_LOOP(double, exp_sum_f64, (const double *x, double most, double *y, int64_t n));
/* Softmax, or its logarithm, of each row of n elements. */
CPU_LOOP(void, softmax_rows_f64, (bool log, const double *x, double *y, int64_t rows, int64_t n));
/* The same of `columns` columns side by side, whose n elements are `stride` apart. */
CPU_LOOP(void, softmax_columns_f64, (bool log, const double *x, double *y, int64_t n, int64_t stride, int64_t columns));
/* The parts of it, for at most 256 columns: the largest elements; the sums of e^(x - most[column]) in the columns'
 * order, whose terms are written to y (NULL: they are not); y = y / rest[column], or x - most[column] - rest[column]
 * for the logarithm. */
CPU_LOOP(void, most_columns_f64, (const double *x, int64_t n, int64_t stride, int64_t columns, double *most));
CPU_LOOP(void, exp_sum_columns_f64,
         (const double *x, const double *most, double *y, int64_t n, int64_t stride, int64_t columns, double *sums));
CPU_LOOP(void, finish_columns_f64,
         (bool log, const double *x, const double *most, const double *rest, double *y, int64_t n, int64_t stride,
          int64_t columns));
/* ReduceLogSumExp. */
CPU_LOOP(const reduce_loops *, log_sum_exp_f64, (void));

#endif
