/* The plan of a region: the weights of the map's pixels in its bins, computed once and used by all channels, forward
 * and backward. Not for ROI_POOL, which is no sum. */
#ifndef OPS_CPU_IMAGE_ROI_PLAN_H_
#define OPS_CPU_IMAGE_ROI_PLAN_H_

#include "ops/cpu/calls/roi_align.h"
#include "ops/cpu/image/roi_align_loops.h"

/* Scratch of a thread. `mark` has one entry for every column of the map, all zero between two plans. */
typedef struct roi_scratch {
  roi_plan plan;
  int32_t *columns, *mark;
} roi_scratch;

/* The most taps of an axis. */
int64_t roi_taps_max(const roi_align *r, int64_t extent, int64_t bins);
/* Makes the taps of a region with these corners; index and weight have room for roi_taps_max numbers. False: all bins
 * are the mean of nothing, NaN. */
bool roi_taps_make(const roi_align *r, const float *corners, roi_taps *y, roi_taps *x);
/* The rows and columns of a region's bins, as roi_ranges has them. Not for sums of samples. */
void roi_ranges_make(const roi_align *r, const float *corners, int32_t *y, int32_t *x);
/* Lays a thread's scratch out from `at` (NULL: only measures) and gives its bytes. */
int64_t roi_scratch_lay(const roi_align *r, char *at, roi_scratch *out);
/* Makes the plan of a region with these corners. last: for maps with channels last, whose taps of x are columns of the
 * map; else they index into the plan's columns. False: all bins are the mean of nothing, NaN. */
bool roi_plan_make(const roi_align *r, bool last, const float *corners, roi_scratch *s);
/* How a forward call's units of work are shared out, for regions of f32: items of `group` units, which have about so
 * many steps in all (cpu_relay). A step reads step_pixels pixels, counted for each output. */
typedef struct roi_sharing {
  cpu_team team;
  int64_t group, items, steps;
} roi_sharing;
roi_sharing roi_share(const roi_call *c, const reed_kernel_buffers *buffers, int64_t outputs, int64_t units,
                      int64_t step_pixels);

#endif
