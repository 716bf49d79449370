/* The end of a tile (panel_loops.h), a vector of sums at a time: scale, addends and ReLU, for loops that keep their
 * sums in an array. */
#ifndef OPS_CPU_PRODUCT_PANEL_FINISH_H_
#define OPS_CPU_PRODUCT_PANEL_FINISH_H_

#include "ops/cpu/common/lanes.h"
#include "ops/cpu/product/panel_loops.h"

/* Finishes scaled sums of row `row` from column `column` on, some of whose lanes may lie beyond the columns of c. */
INLINE void panel_finish(const panel_tile *t, int64_t row, int64_t column, lanes x) {
  const int64_t n = t->columns - column;
  if (n <= 0) return;
  const lane_mask mask = lanes_between(0, n);
  float *c = t->c + row * t->c_row + column;
  if (!t->first) x += load_some(c, mask);
  else if (t->bias) x += load_some(t->bias + column, mask);
  if (t->row_bias) x += t->row_bias[row];
  if (t->residual) x += load_some(t->residual + row * t->c_row + column, mask);
  if (t->relu) x = LANES_MAX((lanes){0}, x); /* NaN stays */
  if (n < LANES) store_first(c, x, n);
  else store(c, x);
}

#endif
