/* The work of products and of reading their weights, and arithmetic of extents. */
#ifndef OPS_CPU_PRODUCT_WHOLE_H_
#define OPS_CPU_PRODUCT_WHOLE_H_

#include <stdint.h>

#include "ops/cpu/common/whole.h"

/* Products that take as long as a byte in cpu_team_for's count. */
#define PRODUCTS_PER_BYTE 8

/* Products of less depth take as long as memory takes to write Y. */
#define FLAT_DEPTH 16

/* Reading so many weights, in cpu_team_for's count: from the second-level cache twice as fast as from memory. */
#define WEIGHTS_NEAR_BYTES ((double)(1 << 20))
static inline double weights_work(double n) {
  double bytes = n * (double)sizeof(float);
  return bytes <= WEIGHTS_NEAR_BYTES ? bytes / 2 : bytes;
}

#endif
