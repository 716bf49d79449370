/* A call of a deformable convolution (ONNX DeformConv, torchvision's deform_conv2d and its backward operator), read
 * once for kernel and reference. */
#ifndef OPS_CPU_CALLS_DEFORM_H_
#define OPS_CPU_CALLS_DEFORM_H_

#include "ops/cpu/calls/deform_formulas.h"
#include "ops/cpu/common/common.h"
#include "ops/deform.h"

/* Distances in a map [images][channels][pixels], whatever the order of its axes. */
typedef struct deform_map {
  int64_t image, channel, pixel;
} deform_map;

typedef struct deform {
  cpu_team team;
  cpu_level level;
  reed_dtype dtype, weight_dtype; /* weight_dtype: of weights, their gradient and the result; dtype, or halves */
  deform_operands at;             /* -1: absent in this call */
  deform_steps s;
  bool last; /* channels come last */
  int64_t images, channels, in[2], outputs, out[2], kernel[2], taps;
  int64_t group_channels, group_outputs;  /* of a group of the convolution */
  int64_t offset_channels;                /* of a group of offsets */
  deform_map input, output, offset, mask; /* output: also the map of its gradient */
} deform;

reed_status deform_read(const reed_kernel_call *call, deform *out_deform) REED_MUST_CHECK;

static inline int64_t deform_pixels(const deform *d) { return d->out[0] * d->out[1]; }
static inline int64_t deform_in_pixels(const deform *d) { return d->in[0] * d->in[1]; }

/* True if there is nothing to sample or no result. */
static inline bool deform_is_empty(const deform *d) {
  return d->images * deform_pixels(d) * deform_in_pixels(d) * d->channels * d->outputs == 0;
}

/* The place of tap `tap` of output pixel `pixel` along axis i (0: rows), without its offset. */
static inline int64_t deform_origin(const deform *d, int i, int64_t pixel, int64_t tap) {
  int64_t o = i ? pixel % d->out[1] : pixel / d->out[1], k = i ? tap % d->kernel[1] : tap / d->kernel[1];
  return o * d->s.stride[i] - d->s.pad_begin[i] + k * d->s.dilation[i];
}
/* Elements of offset and mask for a tap of an output pixel. */
static inline int64_t deform_offset_at(const deform *d, int64_t image, int64_t group, int64_t tap, int axis,
                                       int64_t pixel) {
  return image * d->offset.image + ((group * d->taps + tap) * 2 + axis) * d->offset.channel + pixel * d->offset.pixel;
}
static inline int64_t deform_mask_at(const deform *d, int64_t image, int64_t group, int64_t tap, int64_t pixel) {
  return image * d->mask.image + (group * d->taps + tap) * d->mask.channel + pixel * d->mask.pixel;
}

#endif
