/* A region's plan, shared by its channels, and the loop over channels that computes it. */
#ifndef OPS_CPU_IMAGE_ROI_ALIGN_LOOPS_H_
#define OPS_CPU_IMAGE_ROI_ALIGN_LOOPS_H_

#include <stdint.h>
#include "ops/cpu/common/cpu.h"

/* The mean over a bin's samples along one axis as a weighted sum of pixels: taps begin[p] .. begin[p + 1] - 1 belong to
 * bin p. */
typedef struct roi_taps {
  int32_t *begin; /* bins + 1 */
  int32_t *index;
  float *weight;
} roi_taps;

/* Bilinear interpolation is a product of axes and so is the mean over a grid: a bin is (taps of y) x pixels x (taps of
 * x). The pixels' columns are `columns` (those that some tap needs; NULL: first_column and the following). Taps of x
 * index into them. */
typedef struct roi_plan {
  int64_t bins_y, bins_x, row_stride, plane, n_columns, first_column;
  roi_taps y, x;
  int32_t *columns;
  float *row; /* n_columns floats of scratch */
} roi_plan;

/* bins of `channels` planes, the next plane->plane floats on, of one region */
CPU_LOOP(void, roi_align_channels, (const roi_plan *plan, const float *x, int64_t channels, float *y));

#endif
