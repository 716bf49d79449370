/* Random numbers for the tests of products, the same in each run: a linear congruential generator. */
#ifndef TESTS_OPS_CPU_PRODUCT_DRAWN_H_
#define TESTS_OPS_CPU_PRODUCT_DRAWN_H_

#include <check.h>
#include <stdint.h>
#include <stdlib.h>

static uint64_t drawn_state;

/* A number of low..high. */
static inline int64_t drawn(int64_t low, int64_t high) {
  drawn_state = drawn_state * 6364136223846793005u + 1442695040888963407u;
  return low + (int64_t)(drawn_state >> 33) % (high - low + 1);
}
/* A number of -1..1. */
static inline float number(void) { return (float)drawn(-1000000, 1000000) * 1e-6f; }

/* n such numbers; free() releases them. */
static inline float *numbers(int64_t n) {
  float *x = malloc((size_t)(n ? n : 1) * sizeof *x);
  ck_assert_ptr_nonnull(x);
  for (int64_t i = 0; i < n; i++) x[i] = number();
  return x;
}

#endif
