/* A call that pools regions of feature maps (RoiAlign, MultiLevelRoiAlign, MaxRoiPool, torchvision's roi_align,
 * roi_pool, ps_roi_align, ps_roi_pool and their backward operators), and the places along one axis of a region, for
 * kernels and references. */
#ifndef OPS_CPU_CALLS_ROI_ALIGN_H_
#define OPS_CPU_CALLS_ROI_ALIGN_H_

#include "base/half.h"
#include "ops/cpu/common/common.h"

/* How the pixels of a bin are pooled. */
typedef enum roi_kind {
  ROI_ALIGN,    /* the mean, or a maximum, of bilinear samples */
  ROI_PS_ALIGN, /* the mean of bilinear samples; bin (p, q) of output c reads channel (c * bins_y + p) * bins_x + q */
  ROI_POOL,     /* the largest pixel */
  ROI_PS_POOL   /* the mean of pixels; channels as for ROI_PS_ALIGN */
} roi_kind;
static inline bool roi_is_position_sensitive(roi_kind kind) { return kind == ROI_PS_ALIGN || kind == ROI_PS_POOL; }
static inline bool roi_is_bilinear(roi_kind kind) { return kind == ROI_ALIGN || kind == ROI_PS_ALIGN; }

/* One feature map and how it is sampled. */
typedef struct roi_align {
  roi_kind kind;
  bool max, half_pixel;
  int64_t sampling; /* samples per bin and axis; <= 0: as many as the bin has pixels, rounded up */
  double scale;
  int64_t images, channels, height, width, bins_y, bins_x;
} roi_align;

/* Numbers of the operands among the inputs. */
typedef struct roi_operands {
  int32_t regions,
      images;           /* images -1: column 0 of a region with five columns has its image; with four it is image 0 */
  int32_t levels, maps; /* levels -1: there is one map; maps: the first one; of a backward call: the output */
  int32_t argmax;       /* of roi_pool_backward */
} roi_operands;

#define ROI_MAPS_MOST 16

typedef struct roi_call {
  roi_operands at;
  reed_dtype dtype, regions_dtype; /* of maps and bins; the two differ only if one is f16 or bf16 */
  cpu_team team;
  cpu_level level;
  int64_t regions;
  int32_t columns;       /* of a region: four corners, and before them the image if there are five */
  bool has_argmax;       /* output 1 is wanted */
  bool backward;         /* input 0 is the gradient of the bins, output 0 the gradient of the map */
  int64_t scratch_bytes; /* of the workspace, per thread */
  bool last;             /* maps and result have channels last */
  roi_align widest;      /* the most rows and the most columns of any map */
  int32_t n_maps;
  roi_align maps[ROI_MAPS_MOST];
} roi_call;

/* Reads a RoiAlign or MultiLevelRoiAlign call. `last` stays false. */
reed_status roi_call_read(const reed_kernel_call *call, roi_call *out_call) REED_MUST_CHECK;
/* Reads a call of MaxRoiPool or of torchvision's operators, `last` included. */
reed_status roi_call_read_pooling(const reed_kernel_call *call, roi_call *out_call) REED_MUST_CHECK;
/* Fails unless every region with a map names an image of this map. */
reed_status roi_call_check(const roi_call *c, const reed_kernel_buffers *buffers) REED_MUST_CHECK;
/* The number of the region's map; -1: none, and all bins are zero. */
static inline int32_t roi_map_of(const roi_call *c, const reed_kernel_buffers *buffers, int64_t region) {
  if (c->at.levels < 0) return 0;
  int64_t level = ((const int64_t *)buffers->inputs[c->at.levels])[region];
  return level >= 0 && level < c->n_maps ? (int32_t)level : -1;
}

/* Element k of the regions. f64 is rounded to f32. */
static inline float roi_element(const roi_call *c, const reed_kernel_buffers *buffers, int64_t k) {
  const void *regions = buffers->inputs[c->at.regions];
  switch ((int)c->regions_dtype) {
    case REED_F64: return (float)((const double *)regions)[k];
    case REED_F16: return f16_to_f32(((const uint16_t *)regions)[k]);
    case REED_BF16: return bf16_to_f32(((const uint16_t *)regions)[k]);
    default: return ((const float *)regions)[k];
  }
}
/* The image of a region, after roi_call_check. */
static inline int64_t roi_image_of(const roi_call *c, const reed_kernel_buffers *buffers, int64_t region) {
  if (c->at.images >= 0) return ((const int64_t *)buffers->inputs[c->at.images])[region];
  return c->columns == 5 ? (int64_t)roi_element(c, buffers, 5 * region) : 0;
}
/* The corners x1, y1, x2, y2 of a region, if regions are f32. */
static inline const float *roi_corners(const roi_call *c, const reed_kernel_buffers *buffers, int64_t region) {
  return (const float *)buffers->inputs[c->at.regions] + c->columns * region + (c->columns - 4);
}
/* Channels of the bins. */
static inline int64_t roi_outputs(const roi_align *r) {
  return roi_is_position_sensitive(r->kind) ? r->channels / (r->bins_y * r->bins_x) : r->channels;
}
/* The map's channel that bin (p, q) of channel c reads. */
static inline int64_t roi_channel(const roi_align *r, int64_t c, int64_t p, int64_t q) {
  return roi_is_position_sensitive(r->kind) ? (c * r->bins_y + p) * r->bins_x + q : c;
}

/* True for a region with a NaN coordinate: it has no place on its map, and all its bins are NaN.
 * onnxruntime reads memory outside the map for such regions. */
static inline bool roi_is_nowhere(const float region[4]) {
  return __builtin_isnan(region[0]) || __builtin_isnan(region[1]) || __builtin_isnan(region[2]) ||
         __builtin_isnan(region[3]);
}

#define ROI_REAL float
#define ROI_NAME(name) name
#include "ops/cpu/calls/roi_formula_template.h"
#define ROI_REAL double
#define ROI_NAME(name) name##_f64
#include "ops/cpu/calls/roi_formula_template.h"

/* The samples of a bin that may lie in -1..extent: numbers *out_begin .. *out_end - 1. All others contribute nothing.
 */
void roi_samples(const roi_span *span, int64_t bin, int64_t extent, int64_t *out_begin, int64_t *out_end);
void roi_samples_f64(const roi_span_f64 *span, int64_t bin, int64_t extent, int64_t *out_begin, int64_t *out_end);

#endif
