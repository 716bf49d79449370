/* Loops on one position-sensitive bin of many regions whose pixels are whole (ps_roi_pool), on a block of ROI_LANES
 * channels side by side. Copies between a tensor and a block: roi_lanes_loops.h. */
#ifndef OPS_CPU_IMAGE_ROI_BOXES_LOOPS_H_
#define OPS_CPU_IMAGE_ROI_BOXES_LOOPS_H_

#include "ops/cpu/image/roi_lanes_loops.h"

/* The bin's box in each of n regions: region r has its ranges (roi_ranges_make) at ranges + r * numbers, the first and
 * one past the last row at number `row` of them, those of the columns at number `column`. */
typedef struct roi_boxes {
  const int32_t *ranges;
  int64_t numbers, row, column;
  const int32_t *regions;
  int64_t n;
  int64_t width; /* of the map */
  roi_band band; /* gradients are added to these rows only */
} roi_boxes;

/* Pixel i of y = the mean of the box's pixels in region i; 0 if it has none. */
CPU_LOOP(void, roi_boxes_mean, (const roi_boxes *boxes, const float *map, float *y));
/* The transpose: adds pixel i of g by the number of the box's pixels to each of them. */
CPU_LOOP(void, roi_boxes_mean_back, (const roi_boxes *boxes, const float *g, float *map));

#endif
