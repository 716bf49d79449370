/* The loops of Winograd convolutions (winograd.h): the transform of a tile of X, that of the weights, the product of
 * transformed tiles and weights, and the transform back into pixels of Y. An axis of a tile has n + 2 positions: its
 * points, of which n + 1 are finite and the last one is infinity. With taps 0, 1, 2 these give n pixels of Y, with two
 * taps n + 1. Transformed values lie by position first. */
#ifndef OPS_CPU_PRODUCT_WINOGRAD_LOOPS_H_
#define OPS_CPU_PRODUCT_WINOGRAD_LOOPS_H_

#include <stdbool.h>
#include <stdint.h>
#include "ops/cpu/common/cpu.h"

#define WINOGRAD_SIDE 8 /* the most positions of a tile along an axis */

/* One tile of X, all channels. Pixels outside first..end of an axis are 0. An axis without `last` has nothing at
 * infinity, because the only tap of this tile is the first. */
typedef struct winograd_input {
  const void *x; /* the tile's first pixel, which may lie outside X */
  bool half;     /* X is bf16, else f32 */
  float *v;      /* position p of the tile: `channels` floats at v + p * v_position, up to 15 more are written */
  int64_t channels, x_row, x_pixel, x_channel, v_position;
  int32_t rows, columns; /* 2, 4 or 6: two less than positions */
  int64_t first[2], end[2];
  bool last[2];
} winograd_input;

/* The weights of `channels` channels for `width` outputs, a multiple of 16: tap (i, j) of channel c at w + i * w_row +
 * j * w_column + c * w_channel, for i below taps[0] and j below taps[1]. Position p of channel c: `width` floats at
 * u + p * u_position + c * width; an axis of one tap has nothing at infinity. */
typedef struct winograd_weights {
  const float *w;
  float *u;
  int64_t channels, width, w_row, w_column, w_channel, u_position;
  int32_t rows, columns, taps[2]; /* 1, 2 or 3 taps */
  bool past; /* U is so large that nothing of it would stay in a core's cache: it is written past the caches */
} winograd_weights;

/* m[tile][output] = sum over channels of v[tile][channel] * u[channel][output], for `width` outputs, a multiple of 16
 * and at most winograd_width. */
typedef struct winograd_product {
  const float *v, *u, *next; /* next: the weights to fetch meanwhile; any address */
  float *m;
  int64_t tiles, channels, width, v_row, m_row;
} winograd_product;

/* One tile of Y, `outputs` of its outputs: y = activation(transformed m + bias + residual). bias and residual may be
 * NULL; residual lies like y and may be y. All pointers are at the first of the outputs. Y and residual are f32, or
 * bf16 each. */
typedef struct winograd_output {
  const float *m, *bias;
  const void *residual;
  void *y;
  bool half_residual, half_y;
  int64_t outputs, m_position, y_row, y_pixel;
  int32_t rows, columns, taps[2]; /* 3 taps, or 2 with at most 4 rows or columns */
  int64_t n_rows, n_columns;      /* pixels of the tile that Y has */
  bool relu;
} winograd_output;

/* The number of outputs that a product takes together. */
CPU_LOOP(int, winograd_width, (void));
CPU_LOOP(void, winograd_transform_input, (const winograd_input *t));
CPU_LOOP(void, winograd_transform_weights, (const winograd_weights *t));
CPU_LOOP(void, winograd_multiply, (const winograd_product *p));
CPU_LOOP(void, winograd_transform_output, (const winograd_output *t));

#endif
