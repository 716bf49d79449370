/* RoiAlign (ONNX opset 22) and MultiLevelRoiAlign, mode avg, for f32. A region's taps are computed once for a block of
 * channels (roi_plan); regions and blocks of channels run in parallel. The reference computes f64 and mode max, which
 * is no product of axes. The reference: reference/roi_align.c. The innermost loops: roi_align_loops.c. */
#include <math.h>

#include "ops/cpu/calls/roi_align.h"
#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/image/roi_align_loops.h"
#include "ops/cpu/views/view.h"

/* Bytes of a block of planes, about: all regions are computed on one block before the next, because regions overlap and
 * all planes together do not fit the caches. */
#define BLOCK_BYTES ((int64_t)1 << 20)
#define BLOCK_MAX 64 /* channels: more would leave threads without work */
/* Unused columns between the first and the last used one that are worth loading: a gathered element costs about this
 * many loads of neighbours. */
#define GATHER_COST 4

/* ---- a region's plan ---- */

/* The most taps of an axis: a bin's samples span at most the bin's part of the map and two pixels more. */
static int64_t taps_max(int64_t extent, int64_t bins) { return extent + 4 * bins + 8; }

/* Adds weight to the tap of a pixel. A bin's taps stay in order of appearance, so a tap of the same pixel is among the
 * last few. Coordinates so large that a float cannot tell bins apart may need more taps than there is room for: these
 * taps are dropped. */
static int32_t add_tap(roi_taps *taps, int32_t begin, int32_t end, int64_t room, int64_t pixel, float weight) {
  if (weight == 0) return end;
  for (int32_t t = end - 1; t >= begin && t >= end - 3; t--)
    if (taps->index[t] == pixel) return taps->weight[t] += weight, end;
  if (end >= room) return end;
  taps->index[end] = (int32_t)pixel;
  taps->weight[end] = weight;
  return end + 1;
}

static void fill_taps(const roi_span *span, int64_t bins, int64_t extent, roi_taps *taps) {
  int32_t end = 0;
  int64_t room = taps_max(extent, bins);
  float share = (float)(1.0 / (span->grid > 1 ? span->grid : 1));
  for (int64_t p = 0; p < bins; p++) {
    int64_t first, last;
    taps->begin[p] = end;
    roi_samples(span, p, extent, &first, &last);
    for (int64_t g = first; g < last; g++) {
      int64_t low, high;
      float upper;
      if (!roi_neighbours(roi_sample(span, p, (double)g), extent, &low, &high, &upper)) continue;
      end = add_tap(taps, taps->begin[p], end, room, low, (1 - upper) * share);
      end = add_tap(taps, taps->begin[p], end, room, high, upper * share);
    }
  }
  taps->begin[bins] = end;
}

/* Chooses the columns: all from the first used one to the last, or only the used ones; makes the taps of x index into
 * them. `mark` has one entry for every column of the map, all zero before and after. */
static void pick_columns(roi_plan *plan, int32_t *columns, int32_t *mark) {
  int32_t n_taps = plan->x.begin[plan->bins_x], first = INT32_MAX, last = -1, n = 0;
  for (int32_t t = 0; t < n_taps; t++) {
    int32_t c = plan->x.index[t];
    if (!mark[c]) {
      columns[n] = c;
      mark[c] = ++n;
    }
    first = c < first ? c : first;
    last = c > last ? c : last;
  }
  bool gather = n_taps > 0 && (int64_t)n * GATHER_COST < last - first + 1;
  plan->columns = gather ? columns : NULL;
  plan->first_column = n_taps > 0 ? first : 0;
  plan->n_columns = n_taps == 0 ? 0 : gather ? n : last - first + 1;
  for (int32_t t = 0; t < n_taps; t++)
    plan->x.index[t] = gather ? mark[plan->x.index[t]] - 1 : plan->x.index[t] - first;
  for (int32_t k = 0; k < n; k++) mark[columns[k]] = 0;
}

typedef struct scratch {
  roi_plan plan;
  int32_t *columns, *mark;
} scratch;

/* Lays a thread's scratch out from `at` (NULL: only measures) and gives its bytes. */
static int64_t lay_scratch(const roi_align *r, char *at, scratch *out) {
  int64_t taps_y = taps_max(r->height, r->bins_y), taps_x = taps_max(r->width, r->bins_x), used = 0;
  struct {
    int64_t n;
    void **place;
  } parts[] = {
      {r->bins_y + 1, (void **)&out->plan.y.begin}, {taps_y, (void **)&out->plan.y.index},
      {taps_y, (void **)&out->plan.y.weight},       {r->bins_x + 1, (void **)&out->plan.x.begin},
      {taps_x, (void **)&out->plan.x.index},        {taps_x, (void **)&out->plan.x.weight},
      {r->width, (void **)&out->columns},           {r->width, (void **)&out->mark},
      {r->width, (void **)&out->plan.row},
  };
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (at) *parts[i].place = at + used;
    used += (parts[i].n * 4 + 63) & ~(int64_t)63;
  }
  return used;
}

static void make_plan(const roi_align *r, bool last, const float *region, scratch *s) {
  roi_span x = roi_span_of(r, region[0], region[2], r->bins_x), y = roi_span_of(r, region[1], region[3], r->bins_y);
  s->plan.bins_y = r->bins_y;
  s->plan.bins_x = r->bins_x;
  s->plan.row_stride = r->width;
  s->plan.plane = r->height * r->width;
  fill_taps(&x, r->bins_x, r->width, &s->plan.x);
  fill_taps(&y, r->bins_y, r->height, &s->plan.y);
  if (!last) pick_columns(&s->plan, s->columns, s->mark);
}

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
static void align_channels(const roi_job *job, int64_t region, int64_t channel, int64_t n, scratch *s) {
  const roi_call *c = job->c;
  const reed_kernel_buffers *buffers = job->buffers;
  int32_t k = roi_map_of(c, buffers, region);
  int64_t bins = c->widest.bins_y * c->widest.bins_x;
  float *y = (float *)buffers->outputs[0] + (region * c->widest.channels + channel) * bins;
  const float *corners = (const float *)buffers->inputs[c->at.regions] + 4 * region;
  if (k < 0 || roi_is_nowhere(corners)) {
    fill(y, n * bins, k < 0 ? 0 : NAN);
    return;
  }
  const roi_align *r = &c->maps[k];
  make_plan(r, false, corners, s);
  int64_t image = ((const int64_t *)buffers->inputs[c->at.images])[region];
  const float *x = (const float *)buffers->inputs[c->at.maps + k] + (image * r->channels + channel) * s->plan.plane;
  CPU_PICK(c->level, roi_align_channels)(&s->plan, x, n, y);
}

/* Pairs begin..end-1 of a block of channels and a region. */
static void align_pairs(void *context, int64_t begin, int64_t end, int32_t worker) {
  const roi_job *job = context;
  const roi_call *c = job->c;
  int64_t channels = c->widest.channels;
  scratch s;
  lay_scratch(&c->widest, (char *)job->buffers->workspace + worker * c->scratch_bytes, &s);
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
  scratch s;
  const float *x = NULL; /* the region's image; NULL: all its bins are `nothing` */
  float nothing = 0;
  lay_scratch(&c->widest, (char *)buffers->workspace + worker * c->scratch_bytes, &s);
  for (int64_t i = begin; i < end && !cpu_cancelled(&c->team); i++) {
    int64_t region = i / bins_y;
    float *y = (float *)buffers->outputs[0] + i * bins_x * channels;
    if (region != planned) {
      int32_t k = roi_map_of(c, buffers, region);
      const float *corners = (const float *)buffers->inputs[c->at.regions] + 4 * region;
      bool nowhere = roi_is_nowhere(corners);
      nothing = k >= 0 && nowhere ? NAN : 0;
      if (k >= 0 && !nowhere) make_plan(&c->maps[k], true, corners, &s);
      int64_t image = ((const int64_t *)buffers->inputs[c->at.images])[region];
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
  cpu_team team = cpu_team_for(c->team, c->regions * w->channels * w->bins_y * w->bins_x * 32);
  roi_job job = {c, buffers, block};
  return cpu_parallel_scratch(team, total, 1, c->last ? align_rows : align_pairs, &job);
}

static bool has_empty_map(const roi_call *c) {
  for (int32_t k = 0; k < c->n_maps; k++)
    if (c->maps[k].height * c->maps[k].width == 0) return true;
  return false;
}

reed_status cpu_prepare_roi_align(const cpu_view *view, reed_kernel *out_kernel) {
  roi_call c;
  reed_status status = roi_call_read(view->call, &c);
  if (status != REED_OK || c.dtype != REED_F32 || c.widest.max || has_empty_map(&c)) return status;
  c.last = view->last;
  scratch unused;
  c.scratch_bytes = lay_scratch(&c.widest, NULL, &unused);
  void *state = mem_copy(&c, sizeof c);
  if (!state) return cpu_no_memory(view->call);
  cpu_kernel_set(out_kernel, run_roi_align, state);
  out_kernel->workspace_bytes = c.scratch_bytes * c.team.threads;
  return REED_OK;
}

reed_status cpu_prepare_multi_level_roi_align(const cpu_view *view, reed_kernel *out_kernel) {
  return cpu_prepare_roi_align(view, out_kernel);
}
