/* The end of a tile (panel_loops.h), a vector of sums at a time: scale, addends and ReLU, for loops that keep their
 * sums in an array. */
#ifndef OPS_CPU_PRODUCT_PANEL_FINISH_H_
#define OPS_CPU_PRODUCT_PANEL_FINISH_H_

#include <string.h>

#include "ops/cpu/common/lanes.h"
#include "ops/cpu/product/panel_loops.h"

/* Finishes scaled sums of row `row` from column `column` on, some of whose lanes may lie beyond the columns of c. */
INLINE void panel_finish(const panel_tile *t, int64_t row, int64_t column, lanes x) {
  const int64_t n = t->columns - column;
  if (n <= 0) return;
  const lane_mask mask = lanes_between(0, n);
  const int64_t at = row * t->c_row + column;
  float *c = t->halves ? NULL : (float *)t->c + at;
  if (!t->first) x += load_some(c, mask);
  else if (t->bias) x += load_some(t->bias + column, mask);
  if (t->row_bias) x += t->row_bias[row];
  if (t->residual && !t->halves) x += load_some((const float *)t->residual + at, mask);
  uint16_t some[LANES] = {0}, *halves = (uint16_t *)t->c + at;
  const size_t bytes = (size_t)(n < LANES ? n : LANES) * sizeof *some;
  if (t->residual && t->halves) {
    memcpy(some, (const uint16_t *)t->residual + at, bytes);
    x += load_bf16(some);
  }
  if (t->relu) x = LANES_MAX((lanes){0}, x); /* NaN stays */
  if (t->halves) {
    store_bf16(some, x);
    memcpy(halves, some, bytes);
  } else if (n < LANES) {
    store_first(c, x, n);
  } else {
    store(c, x);
  }
}

#endif
