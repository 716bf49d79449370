/* The loop of NonMaxSuppression. */
#ifndef OPS_CPU_IMAGE_NMS_LOOPS_H_
#define OPS_CPU_IMAGE_NMS_LOOPS_H_

#include <stdint.h>
#include "ops/cpu/common/cpu.h"

/* clears alive[j] for every box j in first..n-1 whose overlap with box `i` is over the threshold; boxes are *
 * x1,y1,x2,y2,area as five arrays of `stride` floats */
CPU_LOOP(void, nms_suppress,
         (const float *boxes, int64_t stride, int64_t i, int64_t first, int64_t n, float threshold, uint8_t *alive));

#endif
