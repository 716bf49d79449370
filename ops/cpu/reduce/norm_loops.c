/* The innermost loops of normalisations (norm_loops.h), compiled once per CPU level. */
#include "ops/cpu/reduce/norm_loops.h"

#include <math.h>

#include "ops/cpu/common/lanes.h"

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

void CPU_LEVELED(batch_factors)(const float *variance, double epsilon, float *scale, int64_t n) {
  for (int64_t i = 0; i < n; i++) scale[i] = (float)((double)scale[i] / sqrt((double)variance[i] + epsilon));
}
