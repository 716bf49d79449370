/* Rows so short that the loops over them take a vector of rows at a time, element by element. For loop files. */
#ifndef OPS_CPU_REDUCE_TURNED_ROWS_H_
#define OPS_CPU_REDUCE_TURNED_ROWS_H_

#include "ops/cpu/common/functions.h"
#include "ops/cpu/common/turn.h"
#include "ops/cpu/reduce/short_rows.h"

/* Element k of each of LANES rows of n elements, n <= SHORT_ROW, to column[k]; only `rows` rows exist, and the other
 * lanes are 0. column has room for SHORT_ROW vectors. */
INLINE void turn_rows(const float *x, int64_t n, int64_t rows, lanes *column) {
  for (int64_t first = 0; first < n; first += LANES) {
    const lane_mask some = lanes_between(0, n - first);
    lanes in[LANES];
    for (int64_t r = 0; r < LANES; r++) in[r] = r < rows ? load_some(x + r * n + first, some) : (lanes){0};
    turn_lanes(in, column + first);
  }
}

INLINE lanes exp_lanes(lanes x) {
  float v[LANES];
  store(v, x);
  for (int k = 0; k < LANES; k++) v[k] = exp_f32(v[k]);
  return load(v);
}

#endif
