/* RoiAlign and MultiLevelRoiAlign sample by sample. Mode max takes the largest of the four weighted neighbours of all
 * samples, as ONNX has it; a sample outside of the map counts as 0. Regions may be as large as their maps, so a plane
 * takes steps of some rows of samples. The kernel: ops/cpu/image/roi_align.c. */
#include <math.h>

#include "base/team.h"
#include "ops/cpu/calls/roi_align.h"
#include "ops/cpu/common/relay.h"

#define STEP_SAMPLES 320 /* of a step, about; 60 ns each */
#define SAMPLE_WORK 600

/* How far an item (a group of planes) has come: the plane, its bin, and the sums of the rows of samples before `row`.
 */
typedef struct progress {
  _Alignas(64) int64_t plane;
  int64_t bin, row, taken; /* taken: samples of the bin that lie on the map */
  double sum, most;
} progress;

typedef struct job {
  const roi_call *c;
  const reed_kernel_buffers *buffers;
  int64_t planes, group; /* planes: of all regions; of one item */
  progress places[TEAM_MAX_WORKERS];
} job;

/* Goes on with a bin until *left samples have been taken. False: the bin is not complete. */
#define ALIGN_BIN(T, name) \
  static bool name(const roi_align *r, const T *x, const roi_span *span_y, const roi_span *span_x, progress *at, \
                   int64_t *left, T *out) { \
    const int64_t p = at->bin / r->bins_x, q = at->bin % r->bins_x; \
    int64_t y_begin, y_end, x_begin, x_end, low_y, high_y, low_x, high_x, row = at->row, taken = at->taken; \
    float up_y, up_x; \
    double sum = at->sum, most = at->most, count = span_y->grid * span_x->grid; \
    roi_samples(span_y, p, r->height, &y_begin, &y_end); \
    roi_samples(span_x, q, r->width, &x_begin, &x_end); \
    for (; y_begin + row<y_end && * left> 0; row++, *left -= x_end - x_begin) { \
      if (!roi_neighbours(roi_sample(span_y, p, (double)(y_begin + row)), r->height, &low_y, &high_y, &up_y)) \
        continue; \
      for (int64_t h = x_begin; h < x_end; h++) { \
        if (!roi_neighbours(roi_sample(span_x, q, (double)h), r->width, &low_x, &high_x, &up_x)) continue; \
        double parts[4] = {(1 - (double)up_y) * (1 - (double)up_x) * (double)x[low_y * r->width + low_x], \
                           (1 - (double)up_y) * (double)up_x * (double)x[low_y * r->width + high_x], \
                           (double)up_y * (1 - (double)up_x) * (double)x[high_y * r->width + low_x], \
                           (double)up_y * (double)up_x * (double)x[high_y * r->width + high_x]}; \
        sum += parts[0] + parts[1] + parts[2] + parts[3]; \
        for (int k = 0; k < 4; k++) \
          if ((k == 0 && taken == 0) || parts[k] > most) most = parts[k]; \
        taken++; \
      } \
    } \
    *at = (progress){at->plane, at->bin, row, taken, sum, most}; \
    if (y_begin + row < y_end) return false; \
    if (most < 0 && (double)taken < count) most = 0; \
    *out = (T)(r->max ? most : sum / (count > 1 ? count : 1)); \
    return true; \
  }
ALIGN_BIN(float, align_bin_f32)
ALIGN_BIN(double, align_bin_f64)

static float coordinate(const job *j, int64_t k) {
  const void *regions = j->buffers->inputs[j->c->at.regions];
  return j->c->dtype == REED_F64 ? (float)((const double *)regions)[k] : ((const float *)regions)[k];
}

/* Goes on with a plane of a region, on a map. False: the plane is not complete. */
static bool align_plane(const job *j, int32_t map, progress *at, int64_t *left) {
  const roi_align *r = &j->c->maps[map];
  int64_t bins = r->bins_y * r->bins_x, region = at->plane / r->channels;
  int64_t image = ((const int64_t *)j->buffers->inputs[j->c->at.images])[region];
  float corners[4];
  for (int k = 0; k < 4; k++) corners[k] = coordinate(j, 4 * region + k);
  roi_span x = roi_span_of(r, corners[0], corners[2], r->bins_x), y = roi_span_of(r, corners[1], corners[3], r->bins_y);
  bool nowhere = roi_is_nowhere(corners);
  int64_t plane = (image * r->channels + at->plane % r->channels) * r->height * r->width;
  const void *pixels = j->buffers->inputs[j->c->at.maps + map];
  for (; at->bin<bins && * left> 0; --*left) {
    int64_t to = at->plane * bins + at->bin;
    if (j->c->dtype == REED_F64) {
      double *out = (double *)j->buffers->outputs[0] + to;
      if (nowhere) *out = NAN;
      else if (!align_bin_f64(r, (const double *)pixels + plane, &y, &x, at, left, out)) return false;
    } else {
      float *out = (float *)j->buffers->outputs[0] + to;
      if (nowhere) *out = NAN;
      else if (!align_bin_f32(r, (const float *)pixels + plane, &y, &x, at, left, out)) return false;
    }
    *at = (progress){.plane = at->plane, .bin = at->bin + 1};
  }
  return at->bin == bins;
}

/* A step of a group of planes (region, channel). */
static bool align_planes(void *context, int64_t item, int64_t step, int32_t place) {
  job *j = context;
  const roi_align *w = &j->c->widest;
  size_t bytes = (size_t)(w->bins_y * w->bins_x) * reed_dtype_bytes(j->c->dtype);
  progress *at = &j->places[place];
  if (step == 0) *at = (progress){.plane = item * j->group};
  const int64_t end = at->plane - at->plane % j->group + j->group, planes = end < j->planes ? end : j->planes;
  for (int64_t left = STEP_SAMPLES; at->plane < planes && left > 0;) {
    int32_t map = roi_map_of(j->c, j->buffers, at->plane / w->channels);
    if (map < 0) memset((char *)j->buffers->outputs[0] + (size_t)at->plane * bytes, 0, bytes);
    else if (!align_plane(j, map, at, &left)) return true;
    *at = (progress){.plane = at->plane + 1};
  }
  return at->plane < planes;
}

/* The samples of a plane, about: of some regions, in the mean. */
static int64_t samples_of(const job *j) {
  const roi_call *c = j->c;
  const int64_t bins = c->widest.bins_y * c->widest.bins_x, some = c->regions < 64 ? c->regions : 64;
  double samples = 0;
  for (int64_t i = 0; i < some; i++) {
    const int64_t region = i * c->regions / some;
    const int32_t map = roi_map_of(c, j->buffers, region);
    float corners[4];
    for (int k = 0; k < 4; k++) corners[k] = coordinate(j, 4 * region + k);
    if (map < 0 || roi_is_nowhere(corners)) continue;
    const roi_align *r = &c->maps[map];
    const roi_span x = roi_span_of(r, corners[0], corners[2], r->bins_x),
                   y = roi_span_of(r, corners[1], corners[3], r->bins_y);
    samples += fmin(y.grid * x.grid * (double)bins, 4 * (double)r->height * (double)r->width);
  }
  return bins + (some ? (int64_t)(samples / (double)some) : 0);
}

static reed_status run_roi_align(const void *state, const reed_kernel_buffers *buffers) {
  const roi_call *c = state;
  reed_status status = roi_call_check(c, buffers);
  if (status != REED_OK) return status;
  job j = {.c = c, .buffers = buffers, .planes = c->regions * c->widest.channels};
  const int64_t samples = samples_of(&j);
  j.group = samples < STEP_SAMPLES ? STEP_SAMPLES / (samples > 0 ? samples : 1) : 1;
  const int64_t items = (j.planes + j.group - 1) / j.group;
  return cpu_relay(cpu_team_for(c->team, j.planes * samples * SAMPLE_WORK), items, items * (1 + samples / STEP_SAMPLES),
                   align_planes, &j);
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
