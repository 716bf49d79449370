/* GridSample's innermost loop, over planes of one channel each. */
#ifndef OPS_CPU_IMAGE_GRID_SAMPLE_LOOPS_H_
#define OPS_CPU_IMAGE_GRID_SAMPLE_LOOPS_H_

#include <stdint.h>
#include "ops/cpu/common/cpu.h"

#define SAMPLES_AT_ONCE 64

/* Samples of a block, of `channels` planes: x is the first plane, the next one `pixels` on, y likewise with
 * `samples`. Tap t of sample i has place places[t * SAMPLES_AT_ONCE + i] in a plane (-1: it counts as 0) and
 * this weight. The first n samples are written. */
CPU_LOOP(void, gather_samples,
         (const float *x, int64_t pixels, const int32_t *places, const float *weights, int64_t taps, int64_t channels,
          float *y, int64_t samples, int64_t n));

#endif
