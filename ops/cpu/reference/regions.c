/* MaxRoiPool and torchvision's operators on regions, bin by bin and sample by sample, in the order of their definition:
 * forward, and backward as the transposed sums. The kernels: image/regions.c, image/roi_align.c. */
#include <math.h>

#include "ops/cpu/calls/roi_align.h"

/* The element of a map [images,channels,height,width], whatever its order in memory. */
static int64_t map_at(const roi_call *c, int64_t image, int64_t channel, int64_t y, int64_t x) {
  const roi_align *r = &c->maps[0];
  return c->last ? ((image * r->height + y) * r->width + x) * r->channels + channel
                 : ((image * r->channels + channel) * r->height + y) * r->width + x;
}

/* One bin: a channel of the map, forward (grad NULL) or backward. */
typedef struct bin {
  const roi_call *c;
  int64_t region, image, channel, p, q;
} bin;

#define BINS(T, SUFFIX, NAME) \
  /* Pools the bin, or adds the bin's gradient to the map's. */ \
  static T NAME##_mean(const bin *b, const T *corners, const T *x, const T *grad, double *map) { \
    const roi_align *r = &b->c->maps[0]; \
    roi_span##SUFFIX sx = roi_span_of##SUFFIX(r, corners[0], corners[2], r->bins_x), \
                     sy = roi_span_of##SUFFIX(r, corners[1], corners[3], r->bins_y); \
    double sum = 0, count = sy.grid * sx.grid; \
    if (!(count > 1)) count = 1; \
    int64_t y_begin, y_end, x_begin, x_end; \
    roi_samples##SUFFIX(&sy, b->p, r->height, &y_begin, &y_end); \
    roi_samples##SUFFIX(&sx, b->q, r->width, &x_begin, &x_end); \
    for (int64_t g = y_begin; g < y_end; g++) \
      for (int64_t h = x_begin; h < x_end; h++) { \
        int64_t y[2], column[2]; \
        T up_y, up_x; \
        if (!roi_neighbours##SUFFIX(roi_sample##SUFFIX(&sy, b->p, (double)g), r->height, &y[0], &y[1], &up_y) || \
            !roi_neighbours##SUFFIX(roi_sample##SUFFIX(&sx, b->q, (double)h), r->width, &column[0], &column[1], \
                                    &up_x)) \
          continue; \
        for (int k = 0; k < 4; k++) { \
          double weight = (k & 2 ? (double)up_y : 1 - (double)up_y) * (k & 1 ? (double)up_x : 1 - (double)up_x); \
          int64_t at = map_at(b->c, b->image, b->channel, y[k >> 1], column[k & 1]); \
          if (grad) map[at] += weight / count * (double)*grad; \
          else sum += weight * (double)x[at]; \
        } \
      } \
    bool nothing = roi_is_mean_of_nothing##SUFFIX(r, &sy) || roi_is_mean_of_nothing##SUFFIX(r, &sx); \
    return nothing ? (T)NAN : (T)(sum / count); \
  } \
  static T NAME##_pixels(const bin *b, const T *corners, const T *x, const T *grad, double *map, int32_t *argmax) { \
    const roi_align *r = &b->c->maps[0]; \
    roi_pixels##SUFFIX y_axis = roi_pixels_of##SUFFIX(r, corners[1], corners[3], r->bins_y, r->height); \
    roi_pixels##SUFFIX x_axis = roi_pixels_of##SUFFIX(r, corners[0], corners[2], r->bins_x, r->width); \
    int64_t y_begin, y_end, x_begin, x_end; \
    roi_bin_pixels##SUFFIX(&y_axis, b->p, &y_begin, &y_end); \
    roi_bin_pixels##SUFFIX(&x_axis, b->q, &x_begin, &x_end); \
    bool empty = y_end <= y_begin || x_end <= x_begin; \
    double sum = 0, area = empty ? 1 : (double)(y_end - y_begin) * (double)(x_end - x_begin); \
    double most = empty ? 0 : sizeof(T) == 4 ? -(double)__FLT_MAX__ : -__DBL_MAX__; /* of pixels that are no NaN */ \
    int32_t best = -1; \
    for (int64_t i = y_begin; i < y_end; i++) \
      for (int64_t j = x_begin; j < x_end; j++) { \
        int64_t at = map_at(b->c, b->image, b->channel, i, j); \
        if (grad && r->kind == ROI_PS_POOL) map[at] += (double)*grad / area; \
        if (grad) continue; \
        sum += (double)x[at]; \
        if ((double)x[at] > most) most = (double)x[at], best = (int32_t)(i * r->width + j); \
      } \
    if (argmax) *argmax = best; \
    return (T)(r->kind == ROI_POOL ? most : sum / area); \
  } \
  static void NAME(const roi_call *c, const reed_kernel_buffers *buffers, double *map) { \
    const roi_align *r = &c->maps[0]; \
    const T *rois = buffers->inputs[c->at.regions], *x = buffers->inputs[0]; \
    int64_t outputs = roi_outputs(r), bins = r->bins_y * r->bins_x; \
    for (int64_t i = 0; i < c->regions * outputs * bins; i++) { \
      bin b = {.c = c, .region = i / (outputs * bins), .p = i / r->bins_x % r->bins_y, .q = i % r->bins_x}; \
      int64_t output = i / bins % outputs; \
      int64_t at = c->last ? (b.region * bins + i % bins) * outputs + output : i; \
      const T *corners = rois + c->columns * b.region + (c->columns - 4); \
      b.image = roi_image_of(c, buffers, b.region); \
      b.channel = roi_channel(r, output, b.p, b.q); \
      bool nowhere = isnan(corners[0]) || isnan(corners[1]) || isnan(corners[2]) || isnan(corners[3]); \
      if (c->backward) { \
        const T *grad = x + at; \
        if (c->at.argmax >= 0 && r->kind == ROI_POOL) { \
          int64_t pixel = ((const int32_t *)buffers->inputs[2])[at]; \
          if (pixel >= 0 && pixel < r->height * r->width) \
            map[map_at(c, b.image, b.channel, pixel / r->width, pixel % r->width)] += (double)*grad; \
        } else if (!nowhere) { \
          if (roi_is_bilinear(r->kind)) NAME##_mean(&b, corners, NULL, grad, map); \
          else NAME##_pixels(&b, corners, NULL, grad, map, NULL); \
        } \
        continue; \
      } \
      int32_t best = -1; \
      T y = (T)NAN; \
      if (!nowhere) \
        y = roi_is_bilinear(r->kind) ? NAME##_mean(&b, corners, x, NULL, NULL) \
                                     : NAME##_pixels(&b, corners, x, NULL, NULL, &best); \
      ((T *)buffers->outputs[0])[at] = y; \
      if (c->has_argmax) ((int32_t *)buffers->outputs[1])[at] = best; \
    } \
  }
BINS(float, , pool_f32)
BINS(double, _f64, pool_f64)

static reed_status run_regions(const void *state, const reed_kernel_buffers *buffers) {
  const roi_call *c = state;
  const roi_align *r = &c->maps[0];
  double *map = c->dtype == REED_F64 && c->backward ? buffers->outputs[0] : buffers->workspace;
  int64_t n = c->backward ? r->images * r->channels * r->height * r->width : 0;
  reed_status status = roi_call_check(c, buffers);
  if (status != REED_OK) return status;
  for (int64_t i = 0; i < n; i++) map[i] = 0;
  if (c->dtype == REED_F64) pool_f64(c, buffers, map);
  else pool_f32(c, buffers, map);
  for (int64_t i = 0; i < n && c->dtype == REED_F32; i++) ((float *)buffers->outputs[0])[i] = (float)map[i];
  return REED_OK;
}

reed_status reference_prepare_regions(const reed_kernel_call *call, reed_kernel *out_kernel) {
  roi_call c;
  reed_status status = roi_call_read_pooling(call, &c);
  if (status != REED_OK) return status;
  void *state = mem_copy(&c, sizeof c);
  if (!state) return cpu_no_memory(call);
  const roi_align *r = &c.maps[0];
  cpu_kernel_set(out_kernel, run_regions, state);
  if (c.backward && c.dtype == REED_F32)
    out_kernel->workspace_bytes = r->images * r->channels * r->height * r->width * (int64_t)sizeof(double);
  return REED_OK;
}
