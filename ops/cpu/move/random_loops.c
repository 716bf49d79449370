/* Random numbers (random_loops.h), compiled once per CPU level. */
#include "ops/cpu/uncontracted.h"

#include "ops/cpu/move/random_loops.h"

#include <math.h>

#include "ops/cpu/common/trigonometry.h"

#define ROUNDS 10
#define TWO_PI 6.283185307179586476925

/* The words of the group's counters: the index of the counter in the series, then the series. */
static void draw(const random_group *g, uint32_t words[4][RANDOM_COUNTERS]) {
  for (uint32_t c = 0; c < RANDOM_COUNTERS; c++) {
    const uint64_t counter = g->group * RANDOM_COUNTERS + c;
    words[0][c] = (uint32_t)counter;
    words[1][c] = (uint32_t)(counter >> 32);
    words[2][c] = (uint32_t)g->series;
    words[3][c] = (uint32_t)(g->series >> 32);
  }
  uint32_t key_0 = (uint32_t)g->key, key_1 = (uint32_t)(g->key >> 32);
  for (int round = 0; round < ROUNDS; round++) {
    for (int c = 0; c < RANDOM_COUNTERS; c++) {
      const uint64_t a = (uint64_t)0xD2511F53u * words[0][c], b = (uint64_t)0xCD9E8D57u * words[2][c];
      words[0][c] = (uint32_t)(b >> 32) ^ words[1][c] ^ key_0;
      words[1][c] = (uint32_t)b;
      words[2][c] = (uint32_t)(a >> 32) ^ words[3][c] ^ key_1;
      words[3][c] = (uint32_t)a;
    }
    key_0 += 0x9E3779B9u;
    key_1 += 0xBB67AE85u;
  }
}

void CPU_LEVELED(random_floats)(const random_group *g, float *out) {
  uint32_t words[4][RANDOM_COUNTERS];
  draw(g, words);
  const float offset = (float)g->offset, factor = (float)g->factor, most = (float)g->most;
  const int shift = 32 - g->bits;
  const double unit = 1. / (double)(1 << g->bits);
  for (int w = 0; w < 4 && !g->normal; w++)
    for (int c = 0; c < RANDOM_COUNTERS; c++) { /* (in double, because high - low may be no float) */
      const float x = (float)(g->offset + g->factor * ((double)(int32_t)(words[w][c] >> shift) * unit));
      out[w * RANDOM_COUNTERS + c] = x > most ? most : x;
    }
  for (int w = 0; w < 4 && g->normal; w += 2)
    for (int c = 0; c < RANDOM_COUNTERS; c++) {
      /* (in 31 bits, which convert to float by one instruction; above 0, so that the logarithm is finite) */
      const float u = ((float)(int32_t)(words[w][c] >> 1) + 0.5f) * 0x1p-31f,
                  turn = (float)(int32_t)(words[w + 1][c] >> 8) * (float)(TWO_PI * 0x1p-24),
                  radius = factor * sqrt_f32(-2 * log_f32(u));
      out[w * RANDOM_COUNTERS + c] = offset + radius * cos_f32(turn);
      out[(w + 1) * RANDOM_COUNTERS + c] = offset + radius * sin_f32(turn);
    }
}

/* 53 bits of two words, in [0, 1). */
static inline double fraction_of(uint32_t low, uint32_t high) {
  return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}

void CPU_LEVELED(random_doubles)(const random_group *g, double *out) {
  uint32_t words[4][RANDOM_COUNTERS];
  draw(g, words);
  for (int c = 0; c < RANDOM_COUNTERS; c++) {
    double x = fraction_of(words[0][c], words[1][c]), y = fraction_of(words[2][c], words[3][c]);
    if (g->normal) {
      const double radius = sqrt(-2 * log(x + 0x1p-54)), turn = TWO_PI * y;
      x = radius * cos(turn);
      y = radius * sin(turn);
    }
    x = g->offset + g->factor * x;
    y = g->offset + g->factor * y;
    out[c] = x > g->most ? g->most : x;
    out[RANDOM_COUNTERS + c] = y > g->most ? g->most : y;
  }
}
