/* Sums over taps of convolutions of few outputs (ops/cpu/product/few_loops.h), compiled once per CPU level. */
#include "ops/cpu/product/few_loops.h"

#include "ops/cpu/common/lanes.h"

/* One vector of a pixel's outputs: the lanes after the last output hold other taps' products and are dropped. */
INLINE lanes summed(const few_row *r, const float *z, int64_t output) {
  lanes sum = load(z + r->taps[0] + output);
  for (int64_t tap = 1; tap < r->n_taps; tap++) sum += load(z + r->taps[tap] + output);
  return sum + load(r->bias + output);
}

CPU_UNCHECKED void CPU_LEVELED(few_sum)(const few_row *r) {
  for (int64_t i = 0; i < r->n; i++) {
    const float *z = r->products + i * r->z_pixel;
    for (int64_t output = 0; output < r->outputs; output += LANES) {
      const int64_t at = i * r->outputs + output, n = r->outputs - output;
      lanes sum = summed(r, z, output);
      if (r->residual) sum += load_some(r->residual + at, lanes_between(0, n));
      if (r->relu) sum = LANES_MAX((lanes){0}, sum); /* NaN stays */
      if (n < LANES) store_first(r->y + at, sum, n);
      else store(r->y + at, sum);
    }
  }
}
