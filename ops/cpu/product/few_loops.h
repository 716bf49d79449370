/* The loop of convolutions of few outputs (ops/cpu/product/conv_few.c) that is no product: sums over taps. */
#ifndef OPS_CPU_PRODUCT_FEW_LOOPS_H_
#define OPS_CPU_PRODUCT_FEW_LOOPS_H_

#include <stdbool.h>
#include <stdint.h>
#include "ops/cpu/common/cpu.h"

#define FEW_SLACK 16 /* floats that few_sum may read after the last product, and after the biases */

/* Neighbouring pixels of a row of Y, whose outputs lie side by side and pixel by pixel. */
typedef struct few_row {
  float *y;
  const float *products; /* of the row's first pixel, with all taps: pixel after pixel, z_pixel apart */
  const int64_t *taps;   /* distance of each tap's products from `products` */
  const float *bias;     /* [outputs + FEW_SLACK] */
  const float *residual; /* like y, may be y; or NULL */
  int64_t n_taps, z_pixel, n, outputs;
  bool relu; /* NaN stays */
} few_row;

/* y = activation(sum of the taps' products + bias + residual) */
CPU_LOOP(void, few_sum, (const few_row *row));

#endif
