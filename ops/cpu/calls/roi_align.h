/* A RoiAlign or MultiLevelRoiAlign call, and the samples along one axis of a region, for the kernel and the reference.
 */
#ifndef OPS_CPU_CALLS_ROI_ALIGN_H_
#define OPS_CPU_CALLS_ROI_ALIGN_H_

#include "ops/cpu/common/common.h"

/* One feature map and how it is sampled. */
typedef struct roi_align {
  bool max, half_pixel;
  int64_t sampling; /* samples per bin and axis; <= 0: as many as the bin has pixels, rounded up */
  double scale;
  int64_t images, channels, height, width, bins_y, bins_x;
} roi_align;

/* Numbers of the operands among the inputs. */
typedef struct roi_operands {
  int32_t regions, images, levels, maps; /* levels -1: there is one map; maps: the first one */
} roi_operands;

#define ROI_MAPS_MOST 16

typedef struct roi_call {
  roi_operands at;
  reed_dtype dtype;
  cpu_team team;
  cpu_level level;
  int64_t regions;
  int64_t scratch_bytes; /* of the workspace, per thread */
  bool last;             /* maps and result have channels last */
  roi_align widest;      /* the most rows and the most columns of any map */
  int32_t n_maps;
  roi_align maps[ROI_MAPS_MOST];
} roi_call;

/* Reads a RoiAlign or MultiLevelRoiAlign call. */
reed_status roi_call_read(const reed_kernel_call *call, roi_call *out_call) REED_MUST_CHECK;
/* Fails unless every region with a map names an image of this map. */
reed_status roi_call_check(const roi_call *c, const reed_kernel_buffers *buffers) REED_MUST_CHECK;
/* The number of the region's map; -1: none, and all bins are zero. */
static inline int32_t roi_map_of(const roi_call *c, const reed_kernel_buffers *buffers, int64_t region) {
  if (c->at.levels < 0) return 0;
  int64_t level = ((const int64_t *)buffers->inputs[c->at.levels])[region];
  return level >= 0 && level < c->n_maps ? (int32_t)level : -1;
}

/* True for a region with a NaN coordinate: it has no place on its map, and all its bins are NaN.
 * onnxruntime reads memory outside the map for such regions. */
static inline bool roi_is_nowhere(const float region[4]) {
  return __builtin_isnan(region[0]) || __builtin_isnan(region[1]) || __builtin_isnan(region[2]) ||
         __builtin_isnan(region[3]);
}

/* One axis of a region: bin p begins at start + p * bin and has `grid` samples. */
typedef struct roi_span {
  float start, bin;
  double grid;
} roi_span;

/* The span between two corners of a region, in pixels of the feature map. */
static inline roi_span roi_span_of(const roi_align *r, float low, float high, int64_t bins) {
  float offset = r->half_pixel ? 0.5f : 0.0f, scale = (float)r->scale;
  float start = low * scale - offset, size = high * scale - offset - start;
  if (!r->half_pixel && !(size > 1.0f)) size = 1.0f;
  roi_span span = {start, size / (float)bins, (double)r->sampling};
  if (r->sampling <= 0) span.grid = span.bin > 0 ? __builtin_ceil((double)span.bin) : 0;
  return span;
}
static inline float roi_sample(const roi_span *span, int64_t bin, double g) {
  return span->start + (float)bin * span->bin + ((float)g + 0.5f) * span->bin / (float)span->grid;
}
/* The samples of a bin that may lie in -1..extent: numbers *out_begin .. *out_end - 1. All others contribute nothing.
 */
void roi_samples(const roi_span *span, int64_t bin, int64_t extent, int64_t *out_begin, int64_t *out_end);

/* The place of a sample: two neighbours, and the weight of the upper one. False outside -1..extent, for NaN, and for a
 * map without pixels. */
static inline bool roi_neighbours(float at, int64_t extent, int64_t *out_low, int64_t *out_high, float *out_upper) {
  if (!(at >= -1.0f && at <= (float)extent) || extent == 0) return false;
  if (at < 0) at = 0;
  int64_t low = (int64_t)at;
  if (low >= extent - 1) {
    *out_low = *out_high = extent - 1;
    *out_upper = 0;
  } else {
    *out_low = low;
    *out_high = low + 1;
    *out_upper = at - (float)low;
  }
  return true;
}

#endif
