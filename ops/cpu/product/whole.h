/* Arithmetic of extents, all of which are at least 0; divisors and steps are at least 1. */
#ifndef OPS_CPU_PRODUCT_WHOLE_H_
#define OPS_CPU_PRODUCT_WHOLE_H_

#include <stdint.h>

/* n / by, rounded up. */
static inline int64_t divided(int64_t n, int64_t by) { return (n + by - 1) / by; }
static inline int64_t round_up(int64_t n, int64_t step) { return divided(n, step) * step; }
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Products that take as long as a byte in cpu_team_for's count. */
#define PRODUCTS_PER_BYTE 8

/* Reading so many weights, in cpu_team_for's count: from the second-level cache twice as fast as from memory. */
#define WEIGHTS_NEAR_BYTES ((double)(1 << 20))
static inline double weights_work(double n) {
  double bytes = n * (double)sizeof(float);
  return bytes <= WEIGHTS_NEAR_BYTES ? bytes / 2 : bytes;
}

#endif
