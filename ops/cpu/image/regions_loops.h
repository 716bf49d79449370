/* Loops over the channels of a region: gradients of sums of taps, position-sensitive bins, the largest pixels. */
#ifndef OPS_CPU_IMAGE_REGIONS_LOOPS_H_
#define OPS_CPU_IMAGE_REGIONS_LOOPS_H_

#include <stdbool.h>
#include "ops/cpu/image/roi_align_loops.h"

/* Rows first..after-1 of a map: a gradient is added to them only. */
typedef struct roi_band {
  int64_t first, after;
} roi_band;

/* x[offsets[t] + i] += weights[t] * g[i], for t < taps and i < n */
CPU_LOOP(void, scatter_taps,
         (const int64_t *offsets, const float *weights, int64_t taps, const float *g, float *x, int64_t n));
/* the transpose of roi_align_channels: adds the bins' gradients g to `channels` planes */
CPU_LOOP(void, roi_align_channels_back,
         (const roi_plan *plan, roi_band band, const float *g, int64_t channels, float *x));

/* A bin of position-sensitive channels. The taps of x index into columns of the map. */
typedef struct roi_ps_bin {
  const roi_taps *y, *x;
  int64_t p, q;
  int64_t row, pixel, channel; /* distances in the map; of two channels that two neighbouring outputs read */
  int64_t output;              /* distance of two outputs */
} roi_ps_bin;

/* y[c * output] = the sum of taps of x + c * channel, for c < n */
CPU_LOOP(void, roi_ps_sum, (const roi_ps_bin *bin, const float *x, int64_t n, float *y));
/* the transpose: adds g[c * output] to the taps of x + c * channel */
CPU_LOOP(void, roi_ps_sum_back, (const roi_ps_bin *bin, roi_band band, const float *g, int64_t n, float *x));

/* Rows and columns of all bins: begin, after of bin 0, then of bin 1, ... */
typedef struct roi_ranges {
  int64_t bins_y, bins_x, width, plane;
  const int32_t *y, *x;
  float *most; /* scratch: width floats each */
  int32_t *row;
} roi_ranges;

/* The largest pixel of each bin and its number row * width + column, -1 for none, on `channels` planes; argmax may be
 * NULL. The first of equal pixels; NaN is never the largest; an empty bin is 0. */
CPU_LOOP(void, roi_most_channels,
         (const roi_ranges *ranges, const float *x, int64_t channels, float *y, int32_t *argmax));
/* most[i] and at[i] of n channels side by side, for one more pixel */
CPU_LOOP(void, roi_most_pixel, (const float *x, int32_t pixel, int64_t n, float *most, int32_t *at));

#endif
