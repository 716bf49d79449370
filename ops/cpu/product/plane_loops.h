/* The loops of convolutions with channels second (ops/cpu/product/conv_planes.c): panels of the elements under windows,
 * and products of few outputs without panels. Neighbouring windows of a row are neighbouring elements of X here. */
#ifndef OPS_CPU_PRODUCT_PLANE_LOOPS_H_
#define OPS_CPU_PRODUCT_PLANE_LOOPS_H_

#include <stdint.h>
#include "ops/cpu/common/cpu.h"

/* The depth of a window: its taps, for each channel. */
typedef struct plane_depth {
  const int64_t *taps;               /* distance of each tap from the window's place */
  int64_t n_taps, channels, channel; /* channel: distance of neighbouring channels */
} plane_depth;

/* Neighbouring windows of a row: their place in X and in a panel's row. */
typedef struct plane_segment {
  int64_t from, to, n;
} plane_segment;

#define PLANE_ROWS 4 /* the most rows in a call of plane_rows */

/* Rows k .. k + n_rows of a panel: element `to + i` of a row is x[from + i] at that row's channel and tap, for each
 * segment. */
CPU_LOOP(void, gather_panel,
         (const float *x, const plane_depth *depth, int64_t k, int64_t n_rows, const plane_segment *segments,
          int64_t n_segments, int64_t width, float *panel));
/* to[i * step] = from[i], i < n; writes no other element. */
CPU_LOOP(void, spread, (const float *from, int64_t n, int64_t step, float *to));
/* A row of X in a copy: position i lies at place i / lanes of lane i % lanes; positions that X does not have are 0. */
typedef struct plane_row {
  int64_t lanes, places, apart; /* places of a lane; from a lane to the next */
  int64_t begin, end;           /* positions that X has */
} plane_row;

/* Copies a row. x: position 0, which X need not have; NULL: X has no position. */
CPU_LOOP(void, part_row, (const plane_row *r, const float *x, float *to));
/* y[r][j] = sum over the depth of weights[r][depth] * x[j] there, then bias[r] (bias may be NULL), for r < rows and
 * j < n. Reads and writes no element beyond these. */
CPU_LOOP(void, plane_rows,
         (int rows, const float *x, const plane_depth *depth, const float *weights, int64_t w_row, const float *bias,
          int64_t n, float *y, int64_t y_row));

#endif
