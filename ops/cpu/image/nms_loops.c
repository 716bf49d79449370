/* The inner loop of NonMaxSuppression (ops/cpu/image/nms_loops.h), compiled once per CPU level. Every level must
 * keep and drop the same boxes, so products and sums are rounded one by one: no contraction. */
#include "ops/cpu/uncontracted.h"
#include "ops/cpu/image/nms_loops.h"

#include <stdbool.h>

#include "ops/cpu/common/cpu.h"
#include "ops/cpu/common/lanes.h"

/* Boxes first..n-1 one by one; NaN (0 / 0) compares false: the box stays. */
static void suppress_each(const float *boxes, int64_t stride, int64_t i, int64_t first, int64_t n, float threshold,
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
    alive[j] = (uint8_t)(alive[j] & !(both / either > threshold));
  }
}

typedef uint8_t flag_lanes __attribute__((vector_size(LANES), aligned(1), may_alias));

/* True if any lane of a box that touches, whose width and height are not negative, may be over the threshold. both /
 * either rounded is above a threshold only if the quotient is, so that both is above threshold * either, and not below
 * this product rounded. So most vectors need no division. */
INLINE bool is_suspect(lanes width, lanes height, lanes areas, lanes threshold) {
  const lanes both = width * height, limit = threshold * (areas - both),
              apart = (lanes)((bit_lanes)width | (bit_lanes)height); /* the sign bit is set */
#if defined(__AVX512F__)
  return _mm512_mask_cmp_ps_mask(~_mm512_movepi32_mask((__m512i)apart), both, limit, _CMP_GE_OQ) != 0;
#elif defined(__AVX2__)
  return !_mm256_testc_ps(apart, _mm256_cmp_ps(both, limit, _CMP_GE_OQ));
#else
  return _mm_movemask_ps(_mm_andnot_ps(apart, _mm_cmpge_ps(both, limit))) != 0;
#endif
}

void CPU_LEVELED(nms_suppress)(const float *boxes, int64_t stride, int64_t i, int64_t first, int64_t n, float threshold,
                               uint8_t *alive) {
  const float *x1 = boxes, *y1 = boxes + stride, *x2 = boxes + 2 * stride, *y2 = boxes + 3 * stride,
              *area = boxes + 4 * stride;
  int64_t j = first;
  if (threshold >= 0) { /* boxes that do not touch stay */
    lanes left = all(x1[i]), top = all(y1[i]), right = all(x2[i]), bottom = all(y2[i]), own = all(area[i]),
          least = all(threshold), none = {0};
    for (; j + LANES <= n; j += LANES) {
      const lanes width = LANES_MIN(right, load(x2 + j)) - LANES_MAX(left, load(x1 + j)),
                  height = LANES_MIN(bottom, load(y2 + j)) - LANES_MAX(top, load(y1 + j)), areas = own + load(area + j);
      if (!is_suspect(width, height, areas, least)) continue;
      const lanes both = LANES_MAX(width, none) * LANES_MAX(height, none);
      *(flag_lanes *)(alive + j) &= ~__builtin_convertvector(both / (areas - both) > least, flag_lanes);
    }
  }
  suppress_each(boxes, stride, i, j, n, threshold, alive);
}
