/* Loops of normalisations: in double, and over short planes and rows. */
#ifndef OPS_CPU_REDUCE_NORM_LOOPS_H_
#define OPS_CPU_REDUCE_NORM_LOOPS_H_

#include <stdbool.h>
#include <stdint.h>
#include "ops/cpu/common/cpu.h"

/* The sum of x[i] or, with squares true, of (x[i] - mean)^2, over i < n, in double. */
CPU_LOOP(double, double_sum_f32, (const float *x, int64_t n, double mean, bool squares));
CPU_LOOP(double, double_sum_f64, (const double *x, int64_t n, double mean, bool squares));
/* y[i] = (x[i] - mean) * factor * scale + shift in double */
CPU_LOOP(void, double_scale_f32,
         (const float *x, int64_t n, double mean, double factor, double scale, double shift, float *y));
CPU_LOOP(void, double_scale_f64,
         (const double *x, int64_t n, double mean, double factor, double scale, double shift, double *y));

/* y[p * size + i] = (x[p * size + i] - centre[p]) * a[p] + b[p] over planes p < n of `size` elements. y may be x. */
CPU_LOOP(void, scale_shift_planes,
         (const float *x, const float *centre, const float *a, const float *b, int64_t size, float *y, int64_t n));
/* scale[i] becomes scale[i] / sqrt(variance[i] + epsilon), computed in double */
CPU_LOOP(void, batch_factors, (const float *variance, double epsilon, float *scale, int64_t n));

/* The arrays of doubles below have room for a multiple of this many rows. */
#define NORM_ROWS_STEP 16
/* As `moments` (common/rows_loops.h) of each of `rows` rows of n elements, n <= SHORT_ROW (short_rows.h); centred
 * false: around 0. */
CPU_LOOP(void, short_moments,
         (bool centred, const float *x, int64_t n, int64_t rows, double *means, double *variances));
/* variances[i] becomes 1 / sqrt(variances[i] + epsilon) */
CPU_LOOP(void, norm_factors, (double *variances, double epsilon, int64_t n));
/* As `normalize_row` (common/rows_loops.h) for each of `rows` rows of n elements, n <= SHORT_ROW. */
CPU_LOOP(void, normalize_short_rows,
         (const float *x, int64_t n, int64_t rows, const double *means, const double *factors, const float *scale,
          const float *shift, float *y));

#endif
