/* Loops on blocks of ROI_LANES channels side by side: copies between a tensor and a block, and the regions of a block.
 * A block's pixel is ROI_LANES floats; a map in block form is rows of `width` pixels. */
#ifndef OPS_CPU_IMAGE_ROI_LANES_LOOPS_H_
#define OPS_CPU_IMAGE_ROI_LANES_LOOPS_H_

#include "ops/cpu/image/regions_loops.h"

#define ROI_LANES 16

/* The place of a block's elements in a tensor of f32, i32, f16 or bf16: element (pixel, lane) is pixel * this->pixel +
 * lane * this->lane elements on. Lanes n .. ROI_LANES - 1 have no element: they are read as 0 and not written.
 * fours: each lane's next three elements belong to three more blocks, which are `apart` floats from one another. */
#define ROI_FOURS 4
typedef struct roi_lane_form {
  reed_dtype dtype; /* f16 and bf16 are f32 in the block; 4 bytes of other dtypes are copied as they are */
  int64_t lane, pixel;
  int32_t n;
  bool fours;
  int64_t apart;
  bool past; /* only of f32 whose lanes are a line of the cache each, side by side: they are written past the caches;
                roi_lanes_fence comes before another thread may read them */
} roi_lane_form;

CPU_LOOP(void, roi_lanes_read, (const roi_lane_form *form, const void *tensor, int64_t pixels, float *block));
CPU_LOOP(void, roi_lanes_write, (const roi_lane_form *form, const float *block, int64_t pixels, void *tensor));
CPU_LOOP(void, roi_lanes_fence, (void));
/* True if roi_lane_form.past gains anything: a vector is a line. */
CPU_LOOP(bool, roi_lanes_fill_lines, (void));

/* Bins p.. of a plan on a map in block form. The taps of x are columns of the map. */
typedef struct roi_lane_bins {
  const roi_taps *y, *x;
  int64_t p, after_p, q, after_q; /* these bins; the results of bins in order follow one another */
  int64_t width;
  roi_band band;           /* gradients are added to these rows only */
  int64_t column, columns; /* of the map, from the first that a tap needs to the last */
  float *sums;             /* scratch: one pixel a column */
  bool dense;              /* along x there are fewer columns than taps: each column is summed once */
} roi_lane_bins;

/* the bins' sums of taps */
CPU_LOOP(void, roi_lanes_mean, (const roi_lane_bins *bins, const float *map, float *y));
/* the transpose: adds the bins' gradients g to the map */
CPU_LOOP(void, roi_lanes_mean_back, (const roi_lane_bins *bins, const float *g, float *map));
/* The largest pixel of every bin and its number, as roi_most_channels has them; scratch: 2 * width pixels. */
CPU_LOOP(void, roi_lanes_most, (const roi_ranges *ranges, const float *map, float *scratch, float *y, int32_t *argmax));
/* adds the gradients of n bins to the pixels that argmax names, if they are pixels begin..end-1 */
CPU_LOOP(void, roi_lanes_most_back,
         (const float *g, const int32_t *argmax, int64_t n, int64_t begin, int64_t end, float *map));

#endif
