/* The inner loop of NonMaxSuppression (ops/cpu/image/nms_loops.h), compiled once per CPU level. Every level must
 * keep and drop the same boxes, so products and sums are rounded one by one: no contraction. */
#pragma GCC optimize("fp-contract=off")
#include "ops/cpu/image/nms_loops.h"

#include "ops/cpu/common/cpu.h"

void CPU_LEVELED(nms_suppress)(const float *boxes, int64_t stride, int64_t i, int64_t first, int64_t n, float threshold,
                               uint8_t *alive) {
  const float *x1 = boxes, *y1 = boxes + stride, *x2 = boxes + 2 * stride, *y2 = boxes + 3 * stride,
              *area = boxes + 4 * stride;
  float left = x1[i], top = y1[i], right = x2[i], bottom = y2[i], own = area[i];
  for (int64_t j = first; j < n; j++) {
    float a = left > x1[j] ? left : x1[j], b = top > y1[j] ? top : y1[j];
    float c = right < x2[j] ? right : x2[j], d = bottom < y2[j] ? bottom : y2[j];
    float width = c - a, height = d - b;
    width = width > 0 ? width : 0;
    height = height > 0 ? height : 0;
    float both = width * height, either = own + area[j] - both;
    /* NaN (0 / 0) compares false: the box stays */
    alive[j] = (uint8_t)(alive[j] & !(both / either > threshold));
  }
}
