/* Loops over rows of f32 that several operator families use: normalisation, pooling, resampling.
 * CPU_PICK(level, name) gives the function of a level. None of the loops starts threads. */
#ifndef OPS_CPU_COMMON_ROWS_LOOPS_H_
#define OPS_CPU_COMMON_ROWS_LOOPS_H_

#include <stdbool.h>
#include <stdint.h>
#include "ops/cpu/common/cpu.h"

/* y[i] = (x[i] - centre) * a + b */
CPU_LOOP(void, scale_shift, (const float *x, float centre, float a, float b, float *y, int64_t n));
/* y[i] = (x[i] - mean) * inverse * scale[i] + shift[i]; shift NULL: 0 */
CPU_LOOP(void, normalize_row,
         (const float *x, double mean, double inverse, const float *scale, const float *shift, float *y, int64_t n));
/* mean and variance (divided by n) in two passes; n > 0. The first pass sums distances from x[0], and the second one
 * corrects the mean: sums of the elements themselves would make the mean of large, nearly equal elements too
 * inaccurate. */
CPU_LOOP(void, moments, (const float *x, int64_t n, double *out_mean, double *out_variance));
CPU_LOOP(double, sum_f32, (const float *x, int64_t n));
/* the sum of x[i] - centre */
CPU_LOOP(double, sum_around_f32, (const float *x, float centre, int64_t n));
/* the sums of x[i] - centre and of (x[i] - centre)^2 */
CPU_LOOP(void, sum_squares_f32, (const float *x, float centre, int64_t n, double *out_sum, double *out_squares));
CPU_LOOP(float, max_f32, (const float *x, int64_t n));
/* of n elements `stride` apart: the sum of their magnitudes (p 1) or squares (p 2); y = x * a, rounded once, y `stride`
 * apart as well */
CPU_LOOP(double, lp_sum, (int64_t p, const float *x, int64_t n, int64_t stride));
CPU_LOOP(void, scale_by_double, (double a, const float *x, float *y, int64_t n, int64_t stride));
/* lp_sum of `count` columns side by side, in rows `stride` apart, added to sums. */
CPU_LOOP(void, lp_sum_columns, (int64_t p, const float *x, int64_t rows, int64_t stride, int64_t count, double *sums));
/* y[i] = x[i] * factors[i % width], rounded once */
CPU_LOOP(void, scale_by_doubles, (const double *factors, int64_t width, const float *x, float *y, int64_t n));
/* y[i] = max(y[i], x[i]), NaN when either is; y[i] += x[i]; y[i] += a * x[i]; y[i] = a * x[i] */
CPU_LOOP(void, max_rows, (const float *x, float *y, int64_t n));
CPU_LOOP(void, add_rows, (const float *x, float *y, int64_t n));
CPU_LOOP(void, axpy, (float a, const float *x, float *y, int64_t n));
CPU_LOOP(void, scale_row, (float a, const float *x, float *y, int64_t n));
/* sums[i] += x[k * n + i] * share, over k < rows */
CPU_LOOP(void, add_shares, (const float *x, float share, int64_t rows, float *sums, int64_t n));
/* sums[i] += x[k * n + i] - centre[i], over k < rows; squares[i] += the square of it */
CPU_LOOP(void, add_moments,
         (const float *x, const float *centre, int64_t rows, float *sums, float *squares, int64_t n));
/* y[i] = (x[i] - centre[i]) * a[i] + b[i], or least if that is below it */
CPU_LOOP(void, scale_shift_row,
         (const float *x, const float *centre, const float *a, const float *b, float least, float *y, int64_t n));
/* y[i] (+)= the sum of weights[t] * x[offsets[t] + i] over t < taps */
CPU_LOOP(void, weighted_taps,
         (const float *x, const int64_t *offsets, const float *weights, int64_t taps, bool add, float *y, int64_t n));
/* y[i] = sum over k < taps of weight[i * taps + k] * x[index[i * taps + k]] */
CPU_LOOP(void, gather_taps,
         (const float *x, const int32_t *index, const float *weight, int64_t taps, float *y, int64_t n));
/* y[o * inner + i] = the sum over k < taps of weight[o * taps + k] * x[index[o * taps + k] * inner + i], for o < n, * i
 * < inner */
CPU_LOOP(void, mix_rows,
         (const float *x, const int32_t *index, const float *weight, int64_t taps, int64_t inner, float *y, int64_t n));
/* low[c] and high[c]: the smallest and the largest of x[i * lanes + c] over i < n; NaN if one is not finite * number;
 * n > 0 */
CPU_LOOP(void, lane_ranges, (const float *x, int64_t n, int64_t lanes, float *low, float *high));
/* bound[c]: the most that a sum over t < taps of weights[t] * (something from low[offsets[t] + c] to * high[offsets[t]
 * + c]) can be, and `overshoot` times its range, and slack[c] */
CPU_LOOP(void, lane_bounds,
         (const float *low, const float *high, const int64_t *offsets, const float *weights, int64_t taps,
          float overshoot, const float *slack, float *bound, int64_t lanes));
/* bound[c]: the most that any four neighbours (all where there are fewer) of x[i * lanes + c], i < n, and * `overshoot`
 * times their range, come to, and slack[c] */
CPU_LOOP(void, lane_reach,
         (const float *x, int64_t n, int64_t lanes, float overshoot, const float *slack, float *bound));

#endif
