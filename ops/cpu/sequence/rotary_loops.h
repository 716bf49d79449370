/* The loops of RotaryEmbedding. */
#ifndef OPS_CPU_SEQUENCE_ROTARY_LOOPS_H_
#define OPS_CPU_SEQUENCE_ROTARY_LOOPS_H_

#include <stdint.h>
#include "ops/cpu/common/cpu.h"

/* One head's row, for pairs whose elements are n apart: y[i] = x[i] cos[i] - x[n + i] sin[i],
 * y[n + i] = x[n + i] cos[second + i] + x[i] sin[second + i]. y may be x. */
CPU_LOOP(void, turn_halves,
         (const float *x, const float *cosines, const float *sines, int64_t second, float *y, int64_t n));
/* The same for pairs of neighbours: x[2 i] and x[2 i + 1], with the angles i * step and i * step + second. */
CPU_LOOP(void, turn_neighbours,
         (const float *x, const float *cosines, const float *sines, int64_t step, int64_t second, float *y, int64_t n));

#endif
