/* Loops of normalisations: in double, and over short planes. */
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

#endif
