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

typedef int32_t whole_lanes __attribute__((vector_size(4 * LANES)));

/* exp_falling (common/functions.h) of each lane. A loop over floats in memory, which gcc turns into vectors, stores and
 * loads them in parts of different widths below AVX-512. */
INLINE lanes exp_lanes(lanes x) {
  const lanes at = LANES_MAX(all(-110.0f), x), shifted = at * 0x1.715476p+0f + 0x1.8p+23f, n = shifted - 0x1.8p+23f,
              r = (at - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  lanes p = r * (float)(1.0 / 5040) + (float)(1.0 / 720);
  p = p * r + (float)(1.0 / 120);
  p = p * r + (float)(1.0 / 24);
  p = p * r + (float)(1.0 / 6);
  p = p * r + 0.5f;
  p = p * r * r + r;
#if defined(__AVX512F__)
  return _mm512_scalef_ps(p + 1, n);
#else
  const whole_lanes e = (whole_lanes)shifted - 0x4b400000;
  return (p + 1) * (lanes)((e + 64 + 127) << 23) * 0x1p-64f;
#endif
}

#endif
