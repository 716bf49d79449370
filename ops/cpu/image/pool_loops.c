/* The innermost loops of pools (pool_loops.h), compiled once per CPU level. Taps are reduced in
 * registers, a few vectors of channels, or of a line's elements, side by side. Of lengths: a tap of many windows. */
#include "ops/cpu/image/pool_loops.h"

#include <math.h>

#include "ops/cpu/common/cpu.h"
#include "ops/cpu/common/lanes.h"

#define VECTORS 4

INLINE lanes join(bool mean, lanes a, lanes b) {
  if (mean) return a + b;
  return larger(a, b);
}

/* The taps of `vectors` vectors joined. The largest are found as if there were no NaN, and again if there is one. */
INLINE void join_taps(bool mean, const float *x, const int64_t *offsets, int64_t taps, lanes *result, int vectors) {
  nan_marks marks = {0};
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++) {
    result[v] = load(x + offsets[0] + v * LANES);
    if (!mean) marks = marked(marks, result[v], result[v]);
  }
  int64_t t = 1;
  for (; t + 2 <= taps && !mean; t += 2) {
    const float *tap = x + offsets[t], *next = x + offsets[t + 1];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
      const lanes a = load(tap + v * LANES), b = load(next + v * LANES);
      marks = marked(marks, a, b);
      result[v] = LANES_MAX(result[v], LANES_MAX(a, b));
    }
  }
  for (; t < taps; t++) {
    const float *tap = x + offsets[t];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) result[v] = join(mean, result[v], load(tap + v * LANES));
  }
  if (mean || !any_marked(marks)) return;
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++) result[v] = load(x + offsets[0] + v * LANES);
  for (t = 1; t < taps; t++) {
    const float *tap = x + offsets[t];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) result[v] = larger(result[v], load(tap + v * LANES));
  }
}

/* `vectors` vectors of one pixel; kept: how many of the last lanes are stored. */
INLINE void reduce(bool mean, const float *x, const int64_t *offsets, int64_t taps, bool first, lanes scale, float *y,
                   int vectors, int kept) {
  lanes result[VECTORS];
  join_taps(mean, x, offsets, taps, result, vectors);
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++) {
    if (!first) result[v] = join(mean, load(y + v * LANES), result[v]);
    if (mean) result[v] *= scale;
    if (kept == LANES) store(y + v * LANES, result[v]);
    else store_last(y + v * LANES, result[v], kept);
  }
}

/* Fewer elements than lanes. */
CPU_UNCHECKED static void reduce_narrow(bool mean, const float *x, const int64_t *offsets, int64_t taps, bool first,
                                        float scale, float *y, int64_t n) {
#ifdef __AVX2__
  const lane_mask some = lanes_between(0, n);
  lanes result = load_some(x + offsets[0], some), rest = result;
  int64_t t = 1;
  nan_marks marks = marked((nan_marks){0}, result, result);
  for (; t + 2 <= taps && !mean; t += 2) {
    const lanes a = load_some(x + offsets[t], some), b = load_some(x + offsets[t + 1], some);
    marks = marked(marks, a, b);
    result = LANES_MAX(result, LANES_MAX(a, b));
  }
  for (; t < taps; t++) result = join(mean, result, load_some(x + offsets[t], some));
  if (!mean && any_marked(marks)) {
    result = rest;
    for (t = 1; t < taps; t++) result = larger(result, load_some(x + offsets[t], some));
  }
  if (!first) result = join(mean, load_some(y, some), result);
  if (mean) result *= scale;
  store_first(y, result, n);
#else
  for (int64_t i = 0; i < n; i++) {
    float result = x[offsets[0] + i];
    for (int64_t t = 1; t < taps; t++) {
      float v = x[offsets[t] + i];
      result = mean ? result + v : result > v || result != result ? result : v;
    }
    if (!first) result = mean ? y[i] + result : y[i] > result || y[i] != y[i] ? y[i] : result;
    y[i] = mean ? result * scale : result;
  }
#endif
}

INLINE void reduce_pixels(bool mean, const float *x, int64_t x_step, const int64_t *offsets, int64_t taps, bool first,
                          float scale, float *y, int64_t y_step, int64_t pixels, int64_t n) {
  for (int64_t p = 0; p < pixels; p++, x += x_step, y += y_step) {
    int64_t i = 0;
    for (; i + VECTORS * LANES <= n; i += VECTORS * LANES)
      reduce(mean, x + i, offsets, taps, first, all(scale), y + i, VECTORS, LANES);
    for (; i + LANES <= n; i += LANES) reduce(mean, x + i, offsets, taps, first, all(scale), y + i, 1, LANES);
    if (i == n) continue;
    if (n < LANES) reduce_narrow(mean, x, offsets, taps, first, scale, y, n);
    else reduce(mean, x + n - LANES, offsets, taps, first, all(scale), y + n - LANES, 1, (int)(n - i));
  }
}

CPU_UNCHECKED void CPU_LEVELED(pool_taps)(bool mean, const float *x, int64_t x_step, const int64_t *offsets,
                                          int64_t taps, bool first, float scale, float *y, int64_t y_step,
                                          int64_t pixels, int64_t n) {
  if (mean) reduce_pixels(true, x, x_step, offsets, taps, first, scale, y, y_step, pixels, n);
  else reduce_pixels(false, x, x_step, offsets, taps, first, scale, y, y_step, pixels, n);
}

void CPU_LEVELED(lp_add)(int64_t p, const float *restrict x, int64_t stride, double *restrict sums, int64_t n) {
  if (p == 1)
    for (int64_t i = 0; i < n; i++) sums[i] += fabs((double)x[i * stride]);
  else if (stride == 1)
    for (int64_t i = 0; i < n; i++) sums[i] += (double)x[i] * (double)x[i];
  else
    for (int64_t i = 0; i < n; i++) sums[i] += (double)x[i * stride] * (double)x[i * stride];
}
