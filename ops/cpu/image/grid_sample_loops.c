/* GridSample's innermost loop (grid_sample_loops.h), compiled once per CPU level. */
#include "ops/cpu/image/grid_sample_loops.h"

#include <string.h>

void CPU_LEVELED(gather_samples)(const float *x, int64_t pixels, const int32_t *places, const float *weights,
                                 int64_t taps, int64_t channels, float *y, int64_t samples, int64_t n) {
  for (int64_t c = 0; c < channels; c++, x += pixels, y += samples) {
    float sums[SAMPLES_AT_ONCE] = {0};
    for (int64_t t = 0; t < taps; t++) {
      const int32_t *at = places + t * SAMPLES_AT_ONCE;
      const float *weight = weights + t * SAMPLES_AT_ONCE;
      for (int i = 0; i < SAMPLES_AT_ONCE; i++) {
        const float pixel = x[at[i] < 0 ? 0 : at[i]]; /* always a pixel, so that the loop gathers without branches */
        sums[i] += at[i] < 0 ? 0 : weight[i] * pixel;
      }
    }
    memcpy(y, sums, (size_t)n * sizeof *y);
  }
}
