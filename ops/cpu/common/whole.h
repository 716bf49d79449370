/* Arithmetic of extents, all of which are at least 0; divisors and steps are at least 1. Places in a workspace. */
#ifndef OPS_CPU_COMMON_WHOLE_H_
#define OPS_CPU_COMMON_WHOLE_H_

#include <stdint.h>

/* n / by, rounded up. */
static inline int64_t divided(int64_t n, int64_t by) { return (n + by - 1) / by; }
static inline int64_t round_up(int64_t n, int64_t step) { return divided(n, step) * step; }
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

#define FLOATS_GRAIN 16 /* places in a workspace are cache lines */
/* A place of so many floats; *end: the floats reserved so far. */
static inline int64_t reserve_floats(int64_t *end, int64_t floats) {
  const int64_t at = *end;
  *end = at + round_up(floats, FLOATS_GRAIN);
  return at;
}

#endif
