/* The loops of RotaryEmbedding (ops/cpu/sequence/rotary_loops.h). Compiled once per CPU level. */
#include "ops/cpu/sequence/rotary_loops.h"

#include "ops/cpu/common/lanes.h"

void CPU_LEVELED(turn_halves)(const float *x, const float *cosines, const float *sines, int64_t second, float *y,
                              int64_t n) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    lanes a = load(x + i), b = load(x + n + i);
    store(y + i, a * load(cosines + i) - b * load(sines + i));
    store(y + n + i, b * load(cosines + second + i) + a * load(sines + second + i));
  }
  for (; i < n; i++) {
    float a = x[i], b = x[n + i];
    y[i] = a * cosines[i] - b * sines[i];
    y[n + i] = b * cosines[second + i] + a * sines[second + i];
  }
}

void CPU_LEVELED(turn_neighbours)(const float *x, const float *cosines, const float *sines, int64_t step,
                                  int64_t second, float *y, int64_t n) {
  int64_t i = 0;
  for (; i + LANES <= n && step == 1; i += LANES, cosines += LANES, sines += LANES) {
    const lanes v = load(x + 2 * i), w = load(x + 2 * i + LANES), a = evens(v, w), b = odds(v, w);
    store_pairs(y + 2 * i, a * disordered(load(cosines)) - b * disordered(load(sines)),
                b * disordered(load(cosines + second)) + a * disordered(load(sines + second)));
  }
  for (; i < n; i++, cosines += step, sines += step) {
    float a = x[2 * i], b = x[2 * i + 1];
    y[2 * i] = a * cosines[0] - b * sines[0];
    y[2 * i + 1] = b * cosines[second] + a * sines[second];
  }
}
