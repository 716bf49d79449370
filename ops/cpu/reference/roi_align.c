/* RoiAlign and MultiLevelRoiAlign sample by sample. Mode max takes the largest of the four weighted neighbours of all
 * samples, as ONNX has it. The kernel: ops/cpu/image/roi_align.c. */
#include <math.h>

#include "ops/cpu/calls/roi_align.h"
#include "ops/cpu/common/common.h"

typedef struct job {
  const roi_call *c;
  const reed_kernel_buffers *buffers;
} job;

#define ALIGN_BIN(T, name) \
  static T name(const roi_align *r, const T *x, const roi_span *span_y, const roi_span *span_x, int64_t p, \
                int64_t q) { \
    int64_t y_begin, y_end, x_begin, x_end, low_y, high_y, low_x, high_x; \
    float up_y, up_x; \
    double sum = 0, most = 0, count = span_y->grid * span_x->grid; \
    bool some = false; \
    roi_samples(span_y, p, r->height, &y_begin, &y_end); \
    roi_samples(span_x, q, r->width, &x_begin, &x_end); \
    for (int64_t g = y_begin; g < y_end; g++) \
      for (int64_t h = x_begin; h < x_end; h++) { \
        if (!roi_neighbours(roi_sample(span_y, p, (double)g), r->height, &low_y, &high_y, &up_y) || \
            !roi_neighbours(roi_sample(span_x, q, (double)h), r->width, &low_x, &high_x, &up_x)) \
          continue; \
        double parts[4] = {(1 - (double)up_y) * (1 - (double)up_x) * (double)x[low_y * r->width + low_x], \
                           (1 - (double)up_y) * (double)up_x * (double)x[low_y * r->width + high_x], \
                           (double)up_y * (1 - (double)up_x) * (double)x[high_y * r->width + low_x], \
                           (double)up_y * (double)up_x * (double)x[high_y * r->width + high_x]}; \
        sum += parts[0] + parts[1] + parts[2] + parts[3]; \
        for (int k = 0; k < 4; k++) \
          if (!some || parts[k] > most) most = parts[k], some = true; \
      } \
    return (T)(r->max ? most : sum / (count > 1 ? count : 1)); \
  }
ALIGN_BIN(float, align_bin_f32)
ALIGN_BIN(double, align_bin_f64)

static float coordinate(const job *j, int64_t k) {
  const void *regions = j->buffers->inputs[j->c->at.regions];
  return j->c->dtype == REED_F64 ? (float)((const double *)regions)[k] : ((const float *)regions)[k];
}

/* Bins of one plane of a region, on a map. */
static void align_plane(const job *j, int64_t i, int32_t map) {
  const roi_align *r = &j->c->maps[map];
  int64_t bins = r->bins_y * r->bins_x, region = i / r->channels;
  int64_t image = ((const int64_t *)j->buffers->inputs[j->c->at.images])[region];
  float corners[4];
  for (int k = 0; k < 4; k++) corners[k] = coordinate(j, 4 * region + k);
  roi_span x = roi_span_of(r, corners[0], corners[2], r->bins_x), y = roi_span_of(r, corners[1], corners[3], r->bins_y);
  bool nowhere = roi_is_nowhere(corners);
  int64_t plane = (image * r->channels + i % r->channels) * r->height * r->width;
  const void *pixels = j->buffers->inputs[j->c->at.maps + map];
  for (int64_t k = 0; k < bins; k++)
    if (j->c->dtype == REED_F64)
      ((double *)j->buffers->outputs[0])[i * bins + k] =
          nowhere ? NAN : align_bin_f64(r, (const double *)pixels + plane, &y, &x, k / r->bins_x, k % r->bins_x);
    else
      ((float *)j->buffers->outputs[0])[i * bins + k] =
          nowhere ? NAN : align_bin_f32(r, (const float *)pixels + plane, &y, &x, k / r->bins_x, k % r->bins_x);
}

/* Planes begin..end of (region, channel). */
static void align_planes(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  const roi_align *w = &j->c->widest;
  size_t bytes = (size_t)(w->bins_y * w->bins_x) * reed_dtype_bytes(j->c->dtype);
  for (int64_t i = begin; i < end; i++) {
    int32_t map = roi_map_of(j->c, j->buffers, i / w->channels);
    if (map >= 0) align_plane(j, i, map);
    else memset((char *)j->buffers->outputs[0] + (size_t)i * bytes, 0, bytes);
  }
}

static reed_status run_roi_align(const void *state, const reed_kernel_buffers *buffers) {
  const roi_call *c = state;
  reed_status status = roi_call_check(c, buffers);
  if (status != REED_OK) return status;
  job j = {c, buffers};
  int64_t planes = c->regions * c->widest.channels;
  return cpu_parallel(cpu_team_for(c->team, planes * c->widest.bins_y * c->widest.bins_x * 64), planes, 1, align_planes,
                      &j);
}

reed_status reference_prepare_roi_align(const reed_kernel_call *call, reed_kernel *out_kernel) {
  roi_call c;
  reed_status status = roi_call_read(call, &c);
  if (status != REED_OK) return status;
  if (c.dtype != REED_F32 && c.dtype != REED_F64)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "no kernel for %s", reed_dtype_name(c.dtype));
  void *state = mem_copy(&c, sizeof c);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_roi_align, state);
  return REED_OK;
}
