/* Loops of Softmax and LogSoftmax of f32. `log`: the logarithm of the result. */
#ifndef OPS_CPU_REDUCE_SOFTMAX_LOOPS_H_
#define OPS_CPU_REDUCE_SOFTMAX_LOOPS_H_

#include <stdbool.h>
#include <stdint.h>
#include "ops/cpu/common/cpu.h"

/* Rows of `axis` elements, one after the other; y may be x. */
CPU_LOOP(void, softmax_rows, (bool log, const float *x, float *y, int64_t rows, int64_t axis));
/* The sum of e^(x[i] - most); log false: each is also put to y. */
CPU_LOOP(double, softmax_sum, (bool log, const float *x, float most, float *y, int64_t n));

/* n neighbouring columns of `axis` elements at distance `inner`; scratch: 2 * n floats. */
CPU_LOOP(void, softmax_columns,
         (bool log, const float *x, float *y, int64_t axis, int64_t inner, int64_t n, float *scratch));
/* Its steps for `axis` elements of longer columns: the largest; the sum of e^(x - most), with log false each also put
 * to y; y = y * rest or, with `most` not NULL, x - most - rest. The order of a sum follows from axis, inner and n. */
CPU_LOOP(void, softmax_columns_most, (const float *x, int64_t axis, int64_t inner, int64_t n, float *most));
CPU_LOOP(void, softmax_columns_sum,
         (bool log, const float *x, const float *most, float *y, int64_t axis, int64_t inner, int64_t n, float *sum));
CPU_LOOP(void, softmax_columns_end,
         (const float *most, const float *x, const float *rest, float *y, int64_t axis, int64_t inner, int64_t n));

#endif
