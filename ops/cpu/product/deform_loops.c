/* Loops of deformable convolutions (deform_loops.h), compiled once for each level of CPUs. */
#include "ops/cpu/product/deform_loops.h"

#define AT_ONCE 64
#define LANES 16

static const float zeros[AT_ONCE];

static inline const float *pixel(const deform_tap *tap, int i, const float *x) {
  return tap->at[i] < 0 ? zeros : x + tap->at[i];
}

static inline void sample(const deform_tap *tap, const float *x, int64_t n, float *restrict to) {
  const float *a = pixel(tap, 0, x), *b = pixel(tap, 1, x), *c = pixel(tap, 2, x), *d = pixel(tap, 3, x);
  float wa = tap->weight[0], wb = tap->weight[1], wc = tap->weight[2], wd = tap->weight[3];
  for (int64_t i = 0; i < n; i++) to[i] = wa * a[i] + wb * b[i] + (wc * c[i] + wd * d[i]);
}

void CPU_LEVELED(deform_sample_taps)(const deform_tap *taps, int64_t n_taps, const float *x, int64_t n, float *to,
                                     int64_t to_tap) {
  for (int64_t c = 0; c < n; c += AT_ONCE) {
    int64_t part = n - c < AT_ONCE ? n - c : AT_ONCE;
    for (int64_t i = 0; i < n_taps; i++) sample(&taps[i], x + c, part, to + i * to_tap + c);
  }
}

static inline float dot(const float *restrict a, const float *restrict b, int64_t n) {
  float sums[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) sums[k] += a[i + k] * b[i + k];
  for (; i < n; i++) sum += a[i] * b[i];
  for (int k = 0; k < LANES; k++) sum += sums[k];
  return sum;
}

void CPU_LEVELED(deform_dots)(const deform_tap *tap, const float *x, const float *grad, int64_t n, float *out_dots) {
  for (int i = 0; i < 4; i++) out_dots[i] = tap->at[i] < 0 ? 0 : dot(x + tap->at[i], grad, n);
}

void CPU_LEVELED(deform_spread)(const deform_tap *tap, const float *restrict grad, int64_t n, float *restrict x) {
  for (int k = 0; k < 4; k++) {
    if (tap->at[k] < 0) continue;
    float weight = tap->weight[k], *to = x + tap->at[k];
    for (int64_t i = 0; i < n; i++) to[i] += weight * grad[i];
  }
}
