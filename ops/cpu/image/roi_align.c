/* RoiAlign (ONNX opset 22) and MultiLevelRoiAlign, mode avg, for f32, for calls that roi_lanes.c declines. A region's
 * taps are computed once for a block of channels (roi_plan.h); regions and blocks of channels run in parallel. The
 * reference computes f64 and mode max, which is no product of axes. The reference: reference/roi_align.c. The innermost
 * loops: roi_align_loops.c. */
#include <math.h>

#include "ops/cpu/calls/roi_align.h"
#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/image/roi_align_loops.h"
#include "ops/cpu/image/roi_lanes.h"
#include "ops/cpu/image/roi_plan.h"
#include "ops/cpu/image/regions.h"
#include "ops/cpu/views/view.h"

/* Bytes of a block of planes, about: all regions are computed on one block before the next, because regions overlap and
 * all planes together do not fit the caches. */
#define BLOCK_BYTES ((int64_t)1 << 20)
#define BLOCK_MAX 64 /* channels: more would leave threads without work */

/* ---- running ---- */

typedef struct roi_job {
  const roi_call *c;
  const reed_kernel_buffers *buffers;
  int64_t block; /* channels */
} roi_job;

static int64_t channel_block(const roi_align *r) {
  int64_t n = BLOCK_BYTES / (r->height * r->width * 4);
  n = n < 1 ? 1 : n > BLOCK_MAX ? BLOCK_MAX : n;
  return n < r->channels ? n : r->channels;
}

static void fill(float *y, int64_t n, float value) {
  for (int64_t i = 0; i < n; i++) y[i] = value;
}

/* `n` channels of a region from `channel` on. */
static void align_channels(const roi_job *job, int64_t region, int64_t channel, int64_t n, roi_scratch *s) {
  const roi_call *c = job->c;
  const reed_kernel_buffers *buffers = job->buffers;
  int32_t k = roi_map_of(c, buffers, region);
  int64_t bins = c->widest.bins_y * c->widest.bins_x;
  float *y = (float *)buffers->outputs[0] + (region * c->widest.channels + channel) * bins;
  const float *corners = roi_corners(c, buffers, region);
  if (k < 0 || roi_is_nowhere(corners)) {
    fill(y, n * bins, k < 0 ? 0 : NAN);
    return;
  }
  const roi_align *r = &c->maps[k];
  roi_plan_make(r, false, corners, s);
  int64_t image = roi_image_of(c, buffers, region);
  const float *x = (const float *)buffers->inputs[c->at.maps + k] + (image * r->channels + channel) * s->plan.plane;
  CPU_PICK(c->level, roi_align_channels)(&s->plan, x, n, y);
}

/* Pairs begin..end-1 of a block of channels and a region. */
static void align_pairs(void *context, int64_t begin, int64_t end, int32_t worker) {
  const roi_job *job = context;
  const roi_call *c = job->c;
  int64_t channels = c->widest.channels;
  roi_scratch s;
  roi_scratch_lay(&c->widest, (char *)job->buffers->workspace + worker * c->scratch_bytes, &s);
  memset(s.mark, 0, (size_t)c->widest.width * sizeof *s.mark);
  for (int64_t i = begin; i < end && !cpu_cancelled(&c->team); i++) {
    int64_t channel = i / c->regions * job->block;
    align_channels(job, i % c->regions, channel, channels - channel < job->block ? channels - channel : job->block, &s);
  }
}

/* ---- channels last: a bin is a weighted sum of pixels, all channels side by side ---- */

#define TAPS_AT_ONCE 64

static void align_pixel(const roi_call *c, const roi_plan *plan, const float *x, int64_t p, int64_t q, float *y) {
  int64_t offsets[TAPS_AT_ONCE], channels = c->widest.channels, n = 0;
  float weights[TAPS_AT_ONCE];
  bool add = false;
  for (int32_t t = plan->y.begin[p]; t < plan->y.begin[p + 1]; t++)
    for (int32_t u = plan->x.begin[q]; u < plan->x.begin[q + 1]; u++) {
      offsets[n] = (plan->y.index[t] * plan->row_stride + plan->x.index[u]) * channels;
      weights[n] = plan->y.weight[t] * plan->x.weight[u];
      if (++n < TAPS_AT_ONCE) continue;
      CPU_PICK(c->level, weighted_taps)(x, offsets, weights, n, add, y, channels);
      add = true;
      n = 0;
    }
  if (n || !add) CPU_PICK(c->level, weighted_taps)(x, offsets, weights, n, add, y, channels);
}

/* Rows begin..end-1 of bins (region, p); a region's plan is made once. */
static void align_rows(void *context, int64_t begin, int64_t end, int32_t worker) {
  const roi_job *job = context;
  const roi_call *c = job->c;
  const reed_kernel_buffers *buffers = job->buffers;
  int64_t bins_y = c->widest.bins_y, bins_x = c->widest.bins_x, channels = c->widest.channels, planned = -1;
  roi_scratch s;
  const float *x = NULL; /* the region's image; NULL: all its bins are `nothing` */
  float nothing = 0;
  roi_scratch_lay(&c->widest, (char *)buffers->workspace + worker * c->scratch_bytes, &s);
  for (int64_t i = begin; i < end && !cpu_cancelled(&c->team); i++) {
    int64_t region = i / bins_y;
    float *y = (float *)buffers->outputs[0] + i * bins_x * channels;
    if (region != planned) {
      int32_t k = roi_map_of(c, buffers, region);
      const float *corners = roi_corners(c, buffers, region);
      bool nowhere = roi_is_nowhere(corners);
      nothing = k >= 0 && nowhere ? NAN : 0;
      if (k >= 0 && !nowhere) roi_plan_make(&c->maps[k], true, corners, &s);
      int64_t image = roi_image_of(c, buffers, region);
      x = k < 0 || nowhere ? NULL : (const float *)buffers->inputs[c->at.maps + k] + image * s.plan.plane * channels;
      planned = region;
    }
    if (!x) fill(y, bins_x * channels, nothing);
    for (int64_t q = 0; q < bins_x && x; q++) align_pixel(c, &s.plan, x, i % bins_y, q, y + q * channels);
  }
}

static reed_status run_roi_align(const void *state, const reed_kernel_buffers *buffers) {
  const roi_call *c = state;
  const roi_align *w = &c->widest;
  reed_status status = roi_call_check(c, buffers);
  if (status != REED_OK) return status;
  int64_t block = c->last ? 1 : channel_block(w),
          total = c->regions * (c->last ? w->bins_y : (w->channels + block - 1) / block);
  cpu_team team = roi_team_for(c, buffers, w->channels, total);
  roi_job job = {c, buffers, block};
  return cpu_parallel_scratch(team, total, 1, c->last ? align_rows : align_pairs, &job);
}

static bool has_empty_map(const roi_call *c) {
  for (int32_t k = 0; k < c->n_maps; k++)
    if (c->maps[k].height * c->maps[k].width == 0) return true;
  return false;
}

reed_status roi_align_prepare(const reed_kernel_call *call, roi_call *c, reed_kernel *out_kernel) {
  reed_status status = roi_lanes_prepare(call, c, out_kernel);
  if (status != REED_OK || out_kernel->run) return status;
  if (c->dtype != REED_F32 || c->regions_dtype != REED_F32 || c->widest.max || has_empty_map(c)) return REED_OK;
  roi_scratch unused;
  c->scratch_bytes = roi_scratch_lay(&c->widest, NULL, &unused);
  void *state = mem_copy(c, sizeof *c);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_roi_align, state);
  out_kernel->workspace_bytes = c->scratch_bytes * c->team.threads;
  return REED_OK;
}

reed_status cpu_prepare_roi_align(const cpu_view *view, reed_kernel *out_kernel) {
  roi_call c;
  reed_status status = roi_call_read(view->call, &c);
  c.last = view->last;
  return status == REED_OK ? roi_align_prepare(view->call, &c, out_kernel) : status;
}

reed_status cpu_prepare_multi_level_roi_align(const cpu_view *view, reed_kernel *out_kernel) {
  return cpu_prepare_roi_align(view, out_kernel);
}
