/* RoiAlign (ONNX opset 22) and MultiLevelRoiAlign, mode avg, for f32, for calls that roi_lanes.c declines. A region's
 * taps are computed once for a block of channels (roi_plan.h); regions and blocks of channels run in parallel, each in
 * steps of some channels. The
 * reference computes f64 and mode max, which is no product of axes. The reference: reference/roi_align.c. The innermost
 * loops: roi_align_loops.c. */
#include <math.h>

#include "base/team.h"
#include "ops/cpu/calls/roi_align.h"
#include "ops/cpu/common/relay.h"
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

#define STEP_PIXELS 49152 /* that a step sums up */
#define ALONE 8           /* as many steps make one if one thread has them all */
#define COLUMN_GATHERED 4 /* pixels take as long as one whose column is looked up */

/* ---- running ---- */

/* How far an item of units has come: (block of channels, region), or with channels last (region, row of bins). */
typedef struct aligning {
  roi_scratch s;
  int64_t unit, next; /* next: channel of the block, or bin of the row */
  int64_t region;     /* the plan's */
  const float *x;     /* the region's image; NULL: all its bins are `nothing` */
  float nothing;
} aligning;

typedef struct roi_job {
  const roi_call *c;
  const reed_kernel_buffers *buffers;
  int64_t block; /* channels */
  int64_t group, units, step;
  aligning *places;
} roi_job;

static int64_t channel_block(const roi_align *r) {
  int64_t n = BLOCK_BYTES / (r->height * r->width * 4);
  n = n < 1 ? 1 : n > BLOCK_MAX ? BLOCK_MAX : n;
  return n < r->channels ? n : r->channels;
}

static void fill(float *y, int64_t n, float value) {
  for (int64_t i = 0; i < n; i++) y[i] = value;
}

/* Makes the region's plan. */
static void use_region(const roi_job *job, aligning *at, int64_t region) {
  const roi_call *c = job->c;
  const reed_kernel_buffers *buffers = job->buffers;
  if (at->region == region) return;
  at->region = region;
  const int32_t k = roi_map_of(c, buffers, region);
  const float *corners = roi_corners(c, buffers, region);
  const bool nowhere = roi_is_nowhere(corners);
  at->nothing = k >= 0 && nowhere ? NAN : 0;
  at->x = NULL;
  if (k < 0 || nowhere) return;
  roi_plan_make(&c->maps[k], c->last, corners, &at->s);
  at->x = (const float *)buffers->inputs[c->at.maps + k] +
          roi_image_of(c, buffers, region) * at->s.plan.plane * c->widest.channels;
}

/* The pixels that a channel's bins read, about. */
static int64_t pixels_of(const roi_plan *plan) {
  return 1 + plan->y.begin[plan->bins_y] * plan->n_columns * (plan->columns ? COLUMN_GATHERED : 1) +
         plan->bins_y * plan->x.begin[plan->bins_x];
}

/* Goes on with the channels of a unit. False: it is not complete. */
static bool align_channels(const roi_job *job, aligning *at, int64_t *left) {
  const roi_call *c = job->c;
  const int64_t channels = c->widest.channels, region = at->unit % c->regions,
                first = at->unit / c->regions * job->block, rest = channels - first,
                n = rest < job->block ? rest : job->block, bins = c->widest.bins_y * c->widest.bins_x;
  use_region(job, at, region);
  float *y = (float *)job->buffers->outputs[0] + (region * channels + first + at->next) * bins;
  if (!at->x) {
    fill(y, n * bins, at->nothing);
    *left -= n * bins;
    return true;
  }
  const int64_t pixels = pixels_of(&at->s.plan), some = cpu_clamp(*left / pixels, 1, n - at->next);
  CPU_PICK(c->level, roi_align_channels)(&at->s.plan, at->x + (first + at->next) * at->s.plan.plane, some, y);
  at->next += some;
  *left -= some * pixels;
  return at->next == n;
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

/* Goes on with the bins of a unit. False: it is not complete. */
static bool align_row(const roi_job *job, aligning *at, int64_t *left) {
  const roi_call *c = job->c;
  const int64_t bins_y = c->widest.bins_y, bins_x = c->widest.bins_x, channels = c->widest.channels,
                p = at->unit % bins_y;
  float *y = (float *)job->buffers->outputs[0] + at->unit * bins_x * channels;
  use_region(job, at, at->unit / bins_y);
  if (!at->x) {
    fill(y, bins_x * channels, at->nothing);
    *left -= bins_x * channels;
    return true;
  }
  const roi_taps *down = &at->s.plan.y, *along = &at->s.plan.x;
  for (; at->next<bins_x && * left> 0; at->next++) {
    align_pixel(c, &at->s.plan, at->x, p, at->next, y + at->next * channels);
    *left -= (int64_t)(down->begin[p + 1] - down->begin[p]) * (along->begin[at->next + 1] - along->begin[at->next]) *
                 channels +
             channels;
  }
  return at->next == bins_x;
}

/* A step of a group of units. */
static bool align_units(void *context, int64_t item, int64_t step, int32_t place) {
  const roi_job *job = context;
  const roi_call *c = job->c;
  aligning *at = &job->places[place];
  const int64_t begin = item * job->group, end = begin + job->group < job->units ? begin + job->group : job->units;
  if (step == 0) {
    *at = (aligning){.unit = begin, .region = -1};
    roi_scratch_lay(&c->widest, (char *)job->buffers->workspace + place * c->scratch_bytes, &at->s);
    memset(at->s.mark, 0, (size_t)c->widest.width * sizeof *at->s.mark);
  }
  for (int64_t left = job->step; at->unit < end && left > 0; at->unit++, at->next = 0)
    if (!(c->last ? align_row : align_channels)(job, at, &left)) return true;
  return at->unit < end;
}

static reed_status run_roi_align(const void *state, const reed_kernel_buffers *buffers) {
  const roi_call *c = state;
  const roi_align *w = &c->widest;
  reed_status status = roi_call_check(c, buffers);
  if (status != REED_OK) return status;
  const int64_t block = c->last ? 1 : channel_block(w),
                units = c->regions * (c->last ? w->bins_y : (w->channels + block - 1) / block),
                step_pixels = c->team.threads > 1 ? STEP_PIXELS : ALONE * STEP_PIXELS;
  const roi_sharing share = roi_share(c, buffers, w->channels, units, step_pixels);
  aligning places[TEAM_MAX_WORKERS];
  roi_job job = {c, buffers, block, share.group, units, step_pixels, places};
  return cpu_relay(share.team, share.items, share.steps, align_units, &job);
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
