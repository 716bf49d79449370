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
/* The size of an axis that is not transformed: a tile is one pixel, which is its position, and has one tap. Only rows,
 * and not in fixed point. */
#define WINOGRAD_ACROSS (-1)

/* One tile of X, all channels. Pixels outside first..end of an axis are 0. An axis without `last` has nothing at
 * infinity, because the only tap of this tile is the first. */
typedef struct winograd_input {
  const void *x; /* the tile's first pixel, which may lie outside X */
  bool half;     /* X is bf16, else f32 */
  float *v;      /* position p of the tile: `channels` floats at v + p * v_position, up to 15 more are written */
  int64_t channels, x_row, x_pixel, x_channel, v_position;
  int32_t rows, columns; /* 2, 4 or 6: two less than positions; or WINOGRAD_ACROSS */
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
  const float *v, *u;
  const void *next; /* the weights to fetch meanwhile: a line for each channel; any address */
  int64_t next_row; /* bytes from a channel's line to the following one's; 0: all `width` floats of each channel, which
                       lie side by side */
  float *m;
  int64_t tiles, channels, width, v_row, m_row;
  bool adds; /* the sums are added to m, which has those of the channels before; neither this nor next_row is for fixed
                point */
  const float *v_scale, *u_scale; /* only of fixed point: of the first tile, others v_row apart; of the outputs */
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

/* ---- fixed point: numbers of 16 bits, which VPDPWSSD of AVX512-VNNI multiplies in pairs as fast as VDPBF16PS those of
 * bf16, and sums exactly in 32 bits (level AVX512_BF16) ----
 *
 * The values of a tile at one position, of all channels, have one scale, which gives them a root of the sum of squares
 * of WINOGRAD_NORM_V, and the weights of an output at one position another one, WINOGRAD_NORM_U. By the inequality of
 * Cauchy and Schwarz no sum of products exceeds 32 bits, for up to WINOGRAD_FIXED_DEPTH channels with the rounding. A
 * product is then off by some root of the channels over 2^17 of both norms: a sixth of that of bf16 with 256 channels.
 * A *unit* is the pair of two neighbouring channels, in the place of a float; the scales, floats, lie behind the units.
 */
#define WINOGRAD_NORM_V 32700
#define WINOGRAD_NORM_U 65000
#define WINOGRAD_FIXED_DEPTH 4096
#define WINOGRAD_FIXED_DEPTH_ROOT 64

/* For 16 outputs, by position: the sum of squares and the largest magnitude of the transformed weights; then, in the
 * place of the sums, the factors of the weights. */
typedef struct winograd_norms {
  float squares[WINOGRAD_SIDE * WINOGRAD_SIDE][16], largest[WINOGRAD_SIDE * WINOGRAD_SIDE][16];
} winograd_norms;

/* The weights t->w are those of bf16 in pairs of channels (ops/packed.h), one unit each; t->channels are units, and 16
 * outputs are transformed whatever t->width, the distance in U. Adds to the norms, which begin as 0. */
void winograd_fixed_add_norms(const winograd_weights *t, winograd_norms *norms);
/* Turns the norms of so many positions into factors. The scale of position p: 16 floats at scales + p * u_position. */
void winograd_fixed_scales(winograd_norms *norms, int64_t positions, float *scales, int64_t u_position);
/* Writes the units of U, t->u, which the factors are applied to. */
void winograd_fixed_weights(const winograd_weights *t, const winograd_norms *norms);
/* Rounds n transformed values, an even number, to n / 2 units of V and gives their scale. A norm below 1e-30 counts as
 * 0. With an infinite value or NaN the scale is NaN. */
void winograd_fixed_round(const float *from, int64_t n, float *to, float *out_scale);
/* As winograd_multiply, with units for channels. */
void winograd_fixed_multiply(const winograd_product *p);

#endif
