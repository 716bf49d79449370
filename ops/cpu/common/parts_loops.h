/* Loops that take records of a few elements apart and put them together, such as pixels of 2 to 4 channels. */
#ifndef OPS_CPU_COMMON_PARTS_LOOPS_H_
#define OPS_CPU_COMMON_PARTS_LOOPS_H_

#include <stdint.h>
#include "ops/cpu/common/cpu.h"

#define PARTS_MOST 4

/* Element p of record i, x[i * parts + p], becomes y[p * y_step + i], for i < n; the other way round with join_parts.
 * Elements have 1, 2, 4 or 8 bytes; parts: 2 to PARTS_MOST; steps in elements. x and y do not overlap. */
CPU_LOOP(void, split_parts, (int64_t bytes, int64_t parts, const void *x, void *y, int64_t y_step, int64_t n));
CPU_LOOP(void, join_parts, (int64_t bytes, int64_t parts, const void *x, int64_t x_step, void *y, int64_t n));

#endif
