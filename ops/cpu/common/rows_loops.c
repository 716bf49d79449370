/* Loops over rows of f32 (ops/cpu/common/rows_loops.h): normalisation, pooling and resampling.
 * Compiled once per CPU level. */
#include "ops/cpu/common/rows_loops.h"

#include "ops/cpu/common/functions.h"
#include "ops/cpu/common/lanes.h"

double CPU_LEVELED(sum_f32)(const float *x, int64_t n) {
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += 4096) { /* short float sums, a double over them */
    int64_t end = begin + 4096 < n ? begin + 4096 : n;
    float lanes[16] = {0};
    int64_t i = begin;
    for (; i + 16 <= end; i += 16)
      for (int k = 0; k < 16; k++) lanes[k] += x[i + k];
    for (; i < end; i++) lanes[0] += x[i];
    for (int k = 0; k < 16; k++) total += (double)lanes[k];
  }
  return total;
}

/* Largest element; NaN if there is one. */
float CPU_LEVELED(max_f32)(const float *x, int64_t n) {
  if (n < LANES) {
    float most = x[0];
    for (int64_t i = 1; i < n; i++) most = most >= x[i] || most != most ? most : x[i];
    return most;
  }
  lanes a = load(x), b = load(x + n - LANES); /* some elements once more */
  int64_t i = LANES;
  for (; i + 2 * LANES <= n; i += 2 * LANES) a = larger(a, load(x + i)), b = larger(b, load(x + i + LANES));
  if (i + LANES <= n) a = larger(a, load(x + i));
  return largest_of(larger(a, b));
}

double CPU_LEVELED(lp_sum)(int64_t p, const float *x, int64_t n, int64_t stride) {
  double lanes[16] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + 16 <= n && stride == 1; i += 16)
    for (int k = 0; k < 16; k++) lanes[k] += p == 1 ? fabs((double)x[i + k]) : (double)x[i + k] * (double)x[i + k];
  for (; i < n; i++) {
    double v = (double)x[i * stride];
    sum += p == 1 ? fabs(v) : v * v;
  }
  for (int k = 0; k < 16; k++) sum += lanes[k];
  return sum;
}

void CPU_LEVELED(scale_by_double)(double a, const float *x, float *y, int64_t n, int64_t stride) {
  if (stride == 1)
    for (int64_t i = 0; i < n; i++) y[i] = (float)((double)x[i] * a);
  else
    for (int64_t i = 0; i < n; i++) y[i * stride] = (float)((double)x[i * stride] * a);
}

/* Columns whose sums stay in registers. */
INLINE void lp_sum_of(int64_t p, const float *x, int64_t rows, int64_t stride, const int count, double *sums) {
  double own[16];
  for (int k = 0; k < count; k++) own[k] = sums[k];
  if (p == 1)
    for (int64_t i = 0; i < rows; i++, x += stride)
      for (int k = 0; k < count; k++) own[k] += fabs((double)x[k]);
  else
    for (int64_t i = 0; i < rows; i++, x += stride)
      for (int k = 0; k < count; k++) own[k] += (double)x[k] * (double)x[k];
  for (int k = 0; k < count; k++) sums[k] = own[k];
}

void CPU_LEVELED(lp_sum_columns)(int64_t p, const float *x, int64_t rows, int64_t stride, int64_t count, double *sums) {
  int64_t c = 0;
  for (; c + 16 <= count; c += 16) lp_sum_of(p, x + c, rows, stride, 16, sums + c);
  for (; c + 8 <= count; c += 8) lp_sum_of(p, x + c, rows, stride, 8, sums + c);
  for (; c + 4 <= count; c += 4) lp_sum_of(p, x + c, rows, stride, 4, sums + c);
  if (count - c == 3) lp_sum_of(p, x + c, rows, stride, 3, sums + c);
  else if (count - c == 2) lp_sum_of(p, x + c, rows, stride, 2, sums + c);
  else if (count > c) lp_sum_of(p, x + c, rows, stride, 1, sums + c);
}

void CPU_LEVELED(scale_by_doubles)(const double *factors, int64_t width, const float *x, float *y, int64_t n) {
  for (int64_t i = 0; i < n; i += width) {
    const int64_t count = n - i < width ? n - i : width;
    for (int64_t k = 0; k < count; k++) y[i + k] = (float)((double)x[i + k] * factors[k]);
  }
}

/* Up to n elements, and `otherwise` in the lanes after them. */
INLINE lanes load_or(const float *x, int64_t n, float otherwise) {
  return n >= LANES ? load(x) : load_masked(x, lanes_between(0, n), all(otherwise));
}

double CPU_LEVELED(sum_around_f32)(const float *x, float centre, int64_t n) {
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += 4096) {
    int64_t end = begin + 4096 < n ? begin + 4096 : n, i = begin;
    lanes sums = {0}, sums_2 = {0};
    for (; i + 2 * LANES <= end; i += 2 * LANES) {
      sums += load(x + i) - centre;
      sums_2 += load(x + i + LANES) - centre;
    }
    for (; i < end; i += LANES) sums += load_or(x + i, end - i, centre) - centre;
    total += sum_of_lanes(sums + sums_2);
  }
  return total;
}

void CPU_LEVELED(sum_squares_f32)(const float *x, float centre, int64_t n, double *out_sum, double *out_squares) {
  double sum = 0, total = 0;
  for (int64_t begin = 0; begin < n; begin += 4096) {
    int64_t end = begin + 4096 < n ? begin + 4096 : n, i = begin;
    lanes sums = {0}, sums_2 = {0}, squares = {0}, squares_2 = {0};
    for (; i + 2 * LANES <= end; i += 2 * LANES) {
      lanes d = load(x + i) - centre, d_2 = load(x + i + LANES) - centre;
      sums += d;
      sums_2 += d_2;
      squares += d * d;
      squares_2 += d_2 * d_2;
    }
    for (; i < end; i += LANES) {
      lanes d = load_or(x + i, end - i, centre) - centre;
      sums += d;
      squares += d * d;
    }
    sum += sum_of_lanes(sums + sums_2);
    total += sum_of_lanes(squares + squares_2);
  }
  *out_sum = sum;
  *out_squares = total;
}

void CPU_LEVELED(moments)(const float *x, int64_t n, double *out_mean, double *out_variance) {
  double share = 1 / (double)n, sum, squares;
  float centre = (float)((double)x[0] + CPU_LEVELED(sum_around_f32)(x, x[0], n) * share);
  CPU_LEVELED(sum_squares_f32)(x, centre, n, &sum, &squares);
  double off = sum * share;
  *out_mean = (double)centre + off;
  *out_variance = squares * share - off * off;
}

void CPU_LEVELED(scale_shift)(const float *x, float centre, float a, float b, float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = (x[i] - centre) * a + b;
}

void CPU_LEVELED(normalize_row)(const float *x, double mean, double inverse, const float *scale, const float *shift,
                                float *y, int64_t n) {
  float centre = (float)mean, factor = (float)inverse, rest = (float)(((double)centre - mean) * inverse);
  if (shift)
    for (int64_t i = 0; i < n; i++) y[i] = ((x[i] - centre) * factor + rest) * scale[i] + shift[i];
  else
    for (int64_t i = 0; i < n; i++) y[i] = ((x[i] - centre) * factor + rest) * scale[i];
}

void CPU_LEVELED(max_rows)(const float *x, float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float a = y[i], b = x[i];
    y[i] = a >= b || a != a ? a : b;
  }
}

void CPU_LEVELED(add_rows)(const float *x, float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

void CPU_LEVELED(axpy)(float a, const float *x, float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] += a * x[i];
}

void CPU_LEVELED(scale_row)(float a, const float *x, float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = a * x[i];
}

void CPU_LEVELED(add_shares)(const float *x, float share, int64_t rows, float *restrict sums, int64_t n) {
  for (; rows >= 4; rows -= 4, x += 4 * n)
    for (int64_t i = 0; i < n; i++)
      sums[i] += x[i] * share + x[n + i] * share + (x[2 * n + i] * share + x[3 * n + i] * share);
  for (; rows > 0; rows--, x += n)
    for (int64_t i = 0; i < n; i++) sums[i] += x[i] * share;
}

void CPU_LEVELED(add_moments)(const float *x, const float *centre, int64_t rows, float *restrict sums,
                              float *restrict squares, int64_t n) {
  for (; rows >= 4; rows -= 4, x += 4 * n)
    for (int64_t i = 0; i < n; i++) {
      float a = x[i] - centre[i], b = x[n + i] - centre[i], c = x[2 * n + i] - centre[i], d = x[3 * n + i] - centre[i];
      sums[i] += a + b + (c + d);
      squares[i] += a * a + b * b + (c * c + d * d);
    }
  for (; rows > 0; rows--, x += n)
    for (int64_t i = 0; i < n; i++) {
      float d = x[i] - centre[i];
      sums[i] += d;
      squares[i] += d * d;
    }
}

void CPU_LEVELED(scale_shift_row)(const float *x, const float *centre, const float *a, const float *b, float least,
                                  float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const float v = (x[i] - centre[i]) * a[i] + b[i];
    y[i] = v < least ? least : v;
  }
}

void CPU_LEVELED(weighted_taps)(const float *x, const int64_t *offsets, const float *weights, int64_t taps, bool add,
                                float *y, int64_t n) {
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    float lanes[32];
    for (int k = 0; k < 32; k++) lanes[k] = add ? y[i + k] : 0;
    for (int64_t t = 0; t < taps; t++)
      for (int k = 0; k < 32; k++) lanes[k] += weights[t] * x[offsets[t] + i + k];
    for (int k = 0; k < 32; k++) y[i + k] = lanes[k];
  }
  for (; i < n; i++) {
    float sum = add ? y[i] : 0;
    for (int64_t t = 0; t < taps; t++) sum += weights[t] * x[offsets[t] + i];
    y[i] = sum;
  }
}

void CPU_LEVELED(gather_taps)(const float *x, const int32_t *index, const float *weight, int64_t taps, float *y,
                              int64_t n) {
  if (taps == 2) {
    for (int64_t i = 0; i < n; i++) y[i] = weight[2 * i] * x[index[2 * i]] + weight[2 * i + 1] * x[index[2 * i + 1]];
    return;
  }
  if (taps == 4) { /* cubic */
    for (int64_t i = 0; i < n; i++) {
      float sum = 0;
      sum += weight[4 * i] * x[index[4 * i]];
      sum += weight[4 * i + 1] * x[index[4 * i + 1]];
      sum += weight[4 * i + 2] * x[index[4 * i + 2]];
      y[i] = sum + weight[4 * i + 3] * x[index[4 * i + 3]];
    }
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    float sum = 0;
    for (int64_t k = 0; k < taps; k++) sum += weight[i * taps + k] * x[index[i * taps + k]];
    y[i] = sum;
  }
}

/* Linear interpolation of two rows at once; rows may be as short as the channels of a pixel. */
static inline void mix_two(const float *restrict a, float weight_a, const float *restrict b, float weight_b,
                           float *restrict y, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float sum = weight_a * a[i];
    sum += weight_b * b[i];
    y[i] = sum;
  }
}

void CPU_LEVELED(mix_rows)(const float *x, const int32_t *index, const float *weight, int64_t taps, int64_t inner,
                           float *y, int64_t n) {
  for (int64_t o = 0; o < n; o++, index += taps, weight += taps, y += inner) {
    if (taps == 2) {
      mix_two(x + index[0] * inner, weight[0], x + index[1] * inner, weight[1], y, inner);
      continue;
    }
    CPU_LEVELED(scale_row)(weight[0], x + index[0] * inner, y, inner);
    for (int64_t k = 1; k < taps; k++) CPU_LEVELED(axpy)(weight[k], x + index[k] * inner, y, inner);
  }
}

/* v - v is 0, or NaN if v is not finite. */
static void range_of(const float *x, int64_t n, float *low, float *high) {
  float least = x[0], most = x[0], spoilt = 0;
  for (int64_t i = 0; i < n; i++) {
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
    spoilt += x[i] - x[i];
  }
  *low = least + spoilt;
  *high = most + spoilt;
}

void CPU_LEVELED(lane_ranges)(const float *restrict x, int64_t n, int64_t lanes, float *restrict low,
                              float *restrict high) {
  if (lanes == 1) {
    range_of(x, n, low, high);
    return;
  }
  memcpy(low, x, (size_t)lanes * sizeof *low);
  memcpy(high, x, (size_t)lanes * sizeof *high);
  for (int64_t i = 0; i < n; i++, x += lanes)
    for (int64_t c = 0; c < lanes; c++) {
      float v = x[c], spoilt = v - v;
      low[c] = (v < low[c] ? v : low[c]) + spoilt;
      high[c] = (v > high[c] ? v : high[c]) + spoilt;
    }
}

void CPU_LEVELED(lane_bounds)(const float *low, const float *high, const int64_t *offsets, const float *weights,
                              int64_t taps, float overshoot, const float *slack, float *bound, int64_t lanes) {
  for (int64_t c = 0; c < lanes; c++) {
    float least = 0, most = 0;
    for (int64_t t = 0; t < taps; t++) {
      float a = weights[t] * low[offsets[t] + c], b = weights[t] * high[offsets[t] + c];
      least += weights[t] < 0 ? b : a;
      most += weights[t] < 0 ? a : b;
    }
    bound[c] = most + (most - least) * overshoot + slack[c];
  }
}

void CPU_LEVELED(lane_reach)(const float *restrict x, int64_t n, int64_t lanes, float overshoot,
                             const float *restrict slack, float *restrict bound) {
  const float *second = x + (n > 1 ? lanes : 0), *third = second + (n > 2 ? lanes : 0),
              *fourth = third + (n > 3 ? lanes : 0);
  for (int64_t c = 0; c < lanes; c++) bound[c] = -INFINITY;
  for (int64_t i = 0; i < n - 3 || i == 0; i++)
    for (int64_t c = 0; c < lanes; c++) {
      int64_t at = i * lanes + c;
      float low = x[at] < second[at] ? x[at] : second[at], low2 = third[at] < fourth[at] ? third[at] : fourth[at];
      float high = x[at] > second[at] ? x[at] : second[at], high2 = third[at] > fourth[at] ? third[at] : fourth[at];
      low = low < low2 ? low : low2;
      high = high > high2 ? high : high2;
      float most = high + (high - low) * overshoot;
      bound[c] = most > bound[c] ? most : bound[c];
    }
  for (int64_t c = 0; c < lanes; c++) bound[c] += slack[c];
}
