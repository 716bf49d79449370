/* Loops of pools: taps of pixels with channels last, or of lines with channels second; of lengths. */
#ifndef OPS_CPU_IMAGE_POOL_LOOPS_H_
#define OPS_CPU_IMAGE_POOL_LOOPS_H_

#include <stdbool.h>
#include "ops/cpu/common/cpu.h"

/* y[p * y_step + i] = the largest, or scale times the sum, of x[p * x_step + offsets[t] + i] over t < taps and,
 * unless first, the present element of y, for p < pixels and i < n; taps > 0 */
CPU_LOOP(void, pool_taps,
         (bool mean, const float *x, int64_t x_step, const int64_t *offsets, int64_t taps, bool first, float scale,
          float *y, int64_t y_step, int64_t pixels, int64_t n));

/* sums[i] += the magnitude (p 1) or the square (p 2) of x[i * stride], i < n */
CPU_LOOP(void, lp_add, (int64_t p, const float *x, int64_t stride, double *sums, int64_t n));

#endif
