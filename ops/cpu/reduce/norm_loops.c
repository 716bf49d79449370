/* The innermost loops of normalisations (norm_loops.h), compiled once per CPU level. */
#include "ops/cpu/reduce/norm_loops.h"

#include <math.h>

#include "ops/cpu/reduce/turned_rows.h"

/* Sixteen sums at a time, because an addition waits for the one before it. */
#define SUM_LOOP(T, name) \
  double CPU_LEVELED(name)(const T *x, int64_t n, double mean, bool squares) { \
    double sums[16] = {0}, sum = 0; \
    int64_t i = 0; \
    if (squares) \
      for (; i + 16 <= n; i += 16) \
        for (int k = 0; k < 16; k++) sums[k] += ((double)x[i + k] - mean) * ((double)x[i + k] - mean); \
    else \
      for (; i + 16 <= n; i += 16) \
        for (int k = 0; k < 16; k++) sums[k] += (double)x[i + k]; \
    for (; i < n; i++) sums[i % 16] += squares ? ((double)x[i] - mean) * ((double)x[i] - mean) : (double)x[i]; \
    for (int k = 0; k < 16; k++) sum += sums[k]; \
    return sum; \
  }
SUM_LOOP(float, double_sum_f32)
SUM_LOOP(double, double_sum_f64)

#define SCALE_LOOP(T, name) \
  void CPU_LEVELED(name)(const T *x, int64_t n, double mean, double factor, double scale, double shift, T *y) { \
    for (int64_t i = 0; i < n; i++) y[i] = (T)(((double)x[i] - mean) * factor * scale + shift); \
  }
SCALE_LOOP(float, double_scale_f32)
SCALE_LOOP(double, double_scale_f64)

/* Planes shorter than a vector: the vector's other elements are those of the next planes, as they were. */
INLINE int64_t scale_short_planes(const float *x, const float *centre, const float *a, const float *b, int64_t size,
                                  float *y, int64_t n) {
  const lane_mask plane = lanes_between(0, size);
  int64_t p = 0;
  for (; p * size + LANES <= n * size; p++) {
    const lanes before = load(x + p * size), after = (before - centre[p]) * a[p] + b[p];
#if defined(__AVX512F__)
    store(y + p * size, _mm512_mask_mov_ps(before, plane, after));
#elif defined(__AVX2__)
    store(y + p * size, _mm256_blendv_ps(before, after, _mm256_castsi256_ps(plane)));
#else
    (void)plane;
    store_first(y + p * size, after, size);
#endif
  }
  return p;
}

void CPU_LEVELED(scale_shift_planes)(const float *x, const float *centre, const float *a, const float *b, int64_t size,
                                     float *y, int64_t n) {
  for (int64_t p = size < LANES ? scale_short_planes(x, centre, a, b, size, y, n) : 0; p < n; p++)
    for (int64_t i = p * size; i < (p + 1) * size; i++) y[i] = (x[i] - centre[p]) * a[p] + b[p];
}

/* ---- short rows ---- */

void CPU_LEVELED(short_moments)(bool centred, const float *x, int64_t n, int64_t rows, double *means,
                                double *variances) {
  const double share = 1 / (double)n;
  for (int64_t first = 0; first < rows; first += LANES) {
    lanes column[SHORT_ROW] = {0}, sum = {0}, squares = {0};
    float centre[LANES] = {0}, sums[LANES], totals[LANES];
    turn_rows(x + first * n, n, rows - first, column);
    for (int64_t k = 0; k < n && centred; k++) sum += column[k] - column[0];
    store(sums, sum);
    store(totals, column[0]);
    for (int i = 0; i < LANES && centred; i++) centre[i] = (float)((double)totals[i] + (double)sums[i] * share);
    sum = (lanes){0};
    for (int64_t k = 0; k < n; k++) {
      const lanes d = column[k] - load(centre);
      sum += d;
      squares += d * d;
    }
    store(sums, sum);
    store(totals, squares);
    for (int i = 0; i < LANES; i++) {
      const double off = centred ? (double)sums[i] * share : 0;
      means[first + i] = (double)centre[i] + off;
      variances[first + i] = (double)totals[i] * share - off * off;
    }
  }
}

void CPU_LEVELED(norm_factors)(double *variances, double epsilon, int64_t n) {
  for (int64_t i = 0; i < n; i++) variances[i] = 1 / sqrt(variances[i] + epsilon);
}

void CPU_LEVELED(normalize_short_rows)(const float *x, int64_t n, int64_t rows, const double *means,
                                       const double *factors, const float *scale, const float *shift, float *y) {
  float shifts[SHORT_ROW] = {0};
  for (int64_t i = 0; i < n && shift; i++) shifts[i] = shift[i];
  for (int64_t row = 0; row < rows; row++, x += n, y += n) {
    const float centre = (float)means[row], factor = (float)factors[row],
                rest = (float)(((double)centre - means[row]) * factors[row]);
    int64_t i = 0;
#ifdef __AVX2__
    for (; i < n; i += LANES) {
      const lane_mask some = lanes_between(0, n - i);
      const lanes v = ((load_some(x + i, some) - centre) * factor + rest) * load_some(scale + i, some) +
                      load_some(shifts + i, some);
      if (n - i >= LANES) store(y + i, v);
      else store_first(y + i, v, n - i);
    }
#endif
    for (; i < n; i++) y[i] = ((x[i] - centre) * factor + rest) * scale[i] + shifts[i];
  }
}

void CPU_LEVELED(batch_factors)(const float *variance, double epsilon, float *scale, int64_t n) {
  for (int64_t i = 0; i < n; i++) scale[i] = (float)((double)scale[i] / sqrt((double)variance[i] + epsilon));
}
