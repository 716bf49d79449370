/* Joining the taps of pools with channels second, for the loops of one CPU level. */
#ifndef OPS_CPU_IMAGE_POOL_JOIN_H_
#define OPS_CPU_IMAGE_POOL_JOIN_H_

#include "ops/cpu/common/lanes.h"

/* Sums; the largest of numbers, of which NaN is marked elsewhere; the largest with NaN. */
typedef enum joining { SUM, LARGEST, LARGEST_WITH_NAN } joining;

INLINE lanes join(joining how, lanes a, lanes b) {
  if (how == SUM) return a + b;
  return how == LARGEST ? (lanes)LANES_MAX(a, b) : larger(a, b);
}

/* The result of no tap. */
INLINE lanes joined_nothing(joining how) { return all(how == SUM ? 0 : -__builtin_inff()); }

#endif
