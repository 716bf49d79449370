/* MaxRoiPool and torchvision's operators on regions, forward and backward, f32, for calls that roi_lanes.c declines:
 * few regions or channels, or a large map. The forward kernel of roi_align is in roi_align.c; the references are in
 * reference/regions.c.
 *
 * Forward, regions (and blocks of planes, if channels come second) are shared out, each in steps of some planes or
 * bins. Backward, a thread owns a part of the map's gradient, which is a range of channels and of rows, and adds the
 * gradients of all regions to it in their order: so the sums have the same order, and the results the same bits, for
 * any number of threads. */
#include "ops/cpu/image/regions.h"

#include <math.h>

#include "base/team.h"
#include "ops/cpu/common/relay.h"
#include "ops/cpu/image/regions_loops.h"
#include "ops/cpu/image/roi_lanes.h"
#include "ops/cpu/image/roi_plan.h"

#define BLOCK_BYTES ((int64_t)1 << 20) /* of planes that all regions are computed on before the next */
#define BLOCK_MAX 64
#define TAPS_AT_ONCE 64
#define STEP_PIXELS 49152 /* that a step of a forward call sums up */
#define OWN_PLANES 2      /* as many fewer, where each bin has planes of its own, which lie far apart */
#define ALONE 8           /* as many steps make one if one thread has them all */
#define PIXEL_COMPARED 8  /* take as long as a pixel that is compared */
#define PLAN_TAPS 1024    /* take as long as a region's plan */
#define CLEAR_PIXELS 8    /* are cleared while one gradient is added */
#define STEP_TAPS 16384   /* gradients of pixels that a step adds to a part, about */
#define UNIT_CHANNELS 16  /* with channels last, a thread's range begins at a multiple: a line of the cache */

typedef struct regions {
  roi_call c;
  int64_t outputs;            /* channels of the bins */
  int64_t block, n_blocks;    /* of outputs */
  int64_t bands, band_rows;   /* backward */
  int64_t per_output;         /* map's channels for each output */
  int64_t ranges_at, most_at; /* in a thread's scratch: ROI_POOL */
} regions;

/* A thread's memory, and the region for which it is made. */
typedef struct worker {
  roi_scratch scratch;
  roi_ranges ranges;
  int64_t region;
  bool nowhere; /* all bins are NaN, no gradient */
} worker;

/* How far a part of the map's gradient has come. */
typedef struct progress {
  worker w;
  int64_t region;
  int64_t bin;     /* of position-sensitive channels; else output of the part */
  int64_t cleared; /* rows of pixels, or planes */
} progress;

/* How far an item of units has come, forward. */
typedef struct pooling {
  worker w;
  int64_t unit, next; /* next: output or (bin, output) of the unit; with channels last, bin of the row */
} pooling;

typedef struct job {
  const regions *s;
  const reed_kernel_buffers *buffers;
  progress *places; /* backward */
  pooling *pools;   /* forward, by place */
  int64_t group, units, step;
} job;

static worker worker_open(const job *j, int32_t number) {
  const regions *s = j->s;
  char *memory = (char *)j->buffers->workspace + number * s->c.scratch_bytes;
  const roi_align *r = &s->c.maps[0];
  worker w = {.region = -1};
  roi_scratch_lay(r, memory, &w.scratch);
  memset(w.scratch.mark, 0, (size_t)r->width * sizeof *w.scratch.mark);
  int32_t *ranges = (int32_t *)(memory + s->ranges_at);
  w.ranges = (roi_ranges){.bins_y = r->bins_y,
                          .bins_x = r->bins_x,
                          .width = r->width,
                          .plane = r->width * r->height,
                          .y = ranges,
                          .x = ranges + 2 * r->bins_y,
                          .most = (float *)(memory + s->most_at)};
  w.ranges.row = (int32_t *)(w.ranges.most + r->width);
  return w;
}

/* Gives the worker the plan of the region. Planes need the columns of roi_align's plan. */
static void use_region(const job *j, worker *w, int64_t region) {
  const roi_call *c = &j->s->c;
  const roi_align *r = &c->maps[0];
  if (w->region == region) return;
  w->region = region;
  const float *corners = roi_corners(c, j->buffers, region);
  w->nowhere = roi_is_nowhere(corners);
  if (w->nowhere) return;
  if (r->kind == ROI_POOL) roi_ranges_make(r, corners, (int32_t *)w->ranges.y, (int32_t *)w->ranges.x);
  else w->nowhere = !roi_plan_make(r, c->last || r->kind != ROI_ALIGN, corners, &w->scratch);
}

/* ---- forward ---- */

static void fill(const regions *s, const reed_kernel_buffers *buffers, int64_t at, int64_t n, float value,
                 int32_t best) {
  for (int64_t i = 0; i < n; i++) ((float *)buffers->outputs[0])[at + i] = value;
  for (int64_t i = 0; s->c.has_argmax && i < n; i++) ((int32_t *)buffers->outputs[1])[at + i] = best;
}

static roi_ps_bin ps_bin(const regions *s, const worker *w, int64_t p, int64_t q) {
  const roi_align *r = &s->c.maps[0];
  bool last = s->c.last;
  int64_t bins = r->bins_y * r->bins_x;
  return (roi_ps_bin){.y = &w->scratch.plan.y,
                      .x = &w->scratch.plan.x,
                      .p = p,
                      .q = q,
                      .row = last ? r->width * r->channels : r->width,
                      .pixel = last ? r->channels : 1,
                      .channel = last ? bins : bins * r->height * r->width,
                      .output = last ? 1 : bins};
}

/* The first element of a map's channel in memory. */
static int64_t channel_at(const regions *s, int64_t image, int64_t channel) {
  const roi_align *r = &s->c.maps[0];
  int64_t plane = r->height * r->width;
  return s->c.last ? image * plane * r->channels + channel : (image * r->channels + channel) * plane;
}

/* The pixels that roi_most_channels reads of a channel. */
static int64_t compared_pixels(const roi_ranges *r) {
  int64_t rows = 0;
  for (int64_t p = 0; p < r->bins_y; p++) rows += r->y[2 * p + 1] - r->y[2 * p];
  const int64_t columns = r->x[2 * r->bins_x - 1] - r->x[0];
  return r->bins_y * r->bins_x + (columns > 0 ? rows * columns : 0);
}

/* So many of the rest that they read about `left` pixels, of which each reads some: 1 or more. */
static int64_t some_of(int64_t left, int64_t pixels, int64_t rest) { return cpu_clamp(left / pixels, 1, rest); }

static int64_t ps_pixels(const roi_ps_bin *bin) {
  return 1 + (int64_t)(bin->y->begin[bin->p + 1] - bin->y->begin[bin->p]) *
                 (bin->x->begin[bin->q + 1] - bin->x->begin[bin->q]);
}

/* Goes on with a unit (block of outputs, region); channels second. False: it is not complete. */
static bool pool_planes(const job *j, pooling *at, int64_t *left) {
  const regions *s = j->s;
  const roi_align *r = &s->c.maps[0];
  const int64_t region = at->unit % s->c.regions, first = at->unit / s->c.regions * s->block, rest = s->outputs - first,
                n = rest < s->block ? rest : s->block, plane = r->height * r->width, bins = r->bins_y * r->bins_x,
                to = (region * s->outputs + first) * bins;
  use_region(j, &at->w, region);
  if (at->w.nowhere) {
    fill(s, j->buffers, to, n * bins, NAN, -1);
    *left -= n * bins;
    return true;
  }
  const float *x = (const float *)j->buffers->inputs[0] +
                   channel_at(s, roi_image_of(&s->c, j->buffers, region), first * s->per_output);
  float *y = (float *)j->buffers->outputs[0] + to;
  if (r->kind == ROI_POOL) {
    int32_t *argmax = s->c.has_argmax ? (int32_t *)j->buffers->outputs[1] + to + at->next * bins : NULL;
    const int64_t pixels = compared_pixels(&at->w.ranges) * PIXEL_COMPARED, some = some_of(*left, pixels, n - at->next);
    CPU_PICK(s->c.level, roi_most_channels)(&at->w.ranges, x + at->next * plane, some, y + at->next * bins, argmax);
    at->next += some;
    *left -= some * pixels;
    return at->next == n;
  }
  for (; at->next<bins * n && * left> 0;) {
    const int64_t k = at->next / n, c = at->next % n;
    const roi_ps_bin bin = ps_bin(s, &at->w, k / r->bins_x, k % r->bins_x);
    const int64_t pixels = ps_pixels(&bin), some = some_of(*left, pixels, n - c);
    CPU_PICK(s->c.level, roi_ps_sum)(&bin, x + k * plane + c * bin.channel, some, y + k + c * bin.output);
    at->next += some;
    *left -= some * pixels;
  }
  return at->next == bins * n;
}

/* All outputs of bin (p, q) of a region side by side; channels last. Returns the pixels that were read. */
static int64_t pool_bin(const job *j, const worker *w, int64_t region, int64_t p, int64_t q) {
  const regions *s = j->s;
  const roi_align *r = &s->c.maps[0];
  int64_t k = p * r->bins_x + q, to = (region * r->bins_y * r->bins_x + k) * s->outputs, n = s->outputs;
  if (w->nowhere) {
    fill(s, j->buffers, to, n, NAN, -1);
    return n;
  }
  const float *x = (const float *)j->buffers->inputs[0] + channel_at(s, roi_image_of(&s->c, j->buffers, region), 0);
  float *y = (float *)j->buffers->outputs[0] + to;
  if (r->kind != ROI_POOL) {
    roi_ps_bin bin = ps_bin(s, w, p, q);
    CPU_PICK(s->c.level, roi_ps_sum)(&bin, x + k, n, y);
    return ps_pixels(&bin) * n;
  }
  const int32_t *rows = w->ranges.y + 2 * p, *columns = w->ranges.x + 2 * q;
  bool empty = rows[0] >= rows[1] || columns[0] >= columns[1];
  int32_t spare[BLOCK_MAX];
  for (int64_t c = 0; c < n; c += BLOCK_MAX) {
    int64_t part = n - c < BLOCK_MAX ? n - c : BLOCK_MAX;
    int32_t *at = s->c.has_argmax ? (int32_t *)j->buffers->outputs[1] + to + c : spare;
    for (int64_t i = 0; i < part; i++) y[c + i] = empty ? 0 : -__FLT_MAX__, at[i] = -1;
    for (int32_t row = rows[0]; row < rows[1]; row++)
      for (int32_t column = columns[0]; column < columns[1]; column++) {
        int64_t pixel = row * r->width + column;
        CPU_PICK(s->c.level, roi_most_pixel)(x + pixel * r->channels + c, (int32_t)pixel, part, y + c, at);
      }
  }
  return n + (empty ? 0 : (int64_t)(rows[1] - rows[0]) * (columns[1] - columns[0]) * n);
}

/* Goes on with a unit (region, row of bins); channels last. False: it is not complete. */
static bool pool_row(const job *j, pooling *at, int64_t *left) {
  const roi_align *r = &j->s->c.maps[0];
  const int64_t region = at->unit / r->bins_y;
  use_region(j, &at->w, region);
  for (; at->next<r->bins_x && * left> 0; at->next++)
    *left -= pool_bin(j, &at->w, region, at->unit % r->bins_y, at->next);
  return at->next == r->bins_x;
}

/* A step of a group of units. */
static bool pool_units(void *context, int64_t item, int64_t step, int32_t place) {
  const job *j = context;
  pooling *at = &j->pools[place];
  const int64_t begin = item * j->group, end = begin + j->group < j->units ? begin + j->group : j->units;
  if (step == 0) *at = (pooling){worker_open(j, place), begin, 0};
  for (int64_t left = j->step; at->unit < end && left > 0; at->unit++, at->next = 0)
    if (!(j->s->c.last ? pool_row : pool_planes)(j, at, &left)) return true;
  return at->unit < end;
}

/* ---- backward ---- */

/* A thread's part of the map's gradient: outputs first..first+n-1 and the rows of the band, in all images. */
typedef struct part {
  int64_t first, n;
  roi_band band;
} part;

/* Clears rows or planes of the part, from number at->cleared on, until *left pixels have been cleared. False: some are
 * left. */
static bool clear_part(const job *j, const part *own, progress *at, int64_t *left) {
  const roi_align *r = &j->s->c.maps[0];
  const bool last = j->s->c.last;
  const int64_t rows = own->band.after - own->band.first, n = own->n * j->s->per_output,
                first = own->first * j->s->per_output, each = last ? rows : n;
  for (; at->cleared < r->images * each; at->cleared++) {
    if (*left <= 0) return false;
    float *x = (float *)j->buffers->outputs[0] + channel_at(j->s, at->cleared / each, first);
    const int64_t k = at->cleared % each, row = own->band.first + (last ? k : 0);
    if (!last) memset(x + (k * r->height + row) * r->width, 0, (size_t)(rows * r->width) * sizeof *x);
    for (int64_t pixel = row * r->width; last && pixel < (row + 1) * r->width; pixel++)
      memset(x + pixel * r->channels, 0, (size_t)n * sizeof *x);
    *left -= (last ? r->width * (n + CLEAR_PIXELS) : rows * r->width) / CLEAR_PIXELS + 1;
  }
  return true;
}

/* Gradients of the largest pixels. */
static void add_most(const job *j, const part *own, int64_t region, const float *g, float *map) {
  const regions *s = j->s;
  const roi_align *r = &s->c.maps[0];
  int64_t bins = r->bins_y * r->bins_x, begin = own->band.first * r->width, end = own->band.after * r->width;
  const int32_t *argmax =
      (const int32_t *)j->buffers->inputs[s->c.at.argmax] + (g - (const float *)j->buffers->inputs[0]);
  if (s->c.last) {
    for (int64_t k = 0; k < bins; k++)
      for (int64_t i = 0; i < own->n; i++) {
        int64_t pixel = argmax[k * s->outputs + i];
        if (pixel >= begin && pixel < end) map[pixel * r->channels + i] += g[k * s->outputs + i];
      }
    return;
  }
  for (int64_t i = 0; i < own->n; i++, map += r->height * r->width)
    for (int64_t k = 0; k < bins; k++, g++) {
      int64_t pixel = *argmax++;
      if (pixel >= begin && pixel < end) map[pixel] += *g;
    }
}

/* Gradients of sums of samples with channels last: bin by bin. */
static void add_samples(const regions *s, const worker *w, const part *own, const float *g, float *map) {
  const roi_align *r = &s->c.maps[0];
  const roi_plan *plan = &w->scratch.plan;
  for (int64_t k = 0; k < r->bins_y * r->bins_x; k++) {
    int64_t p = k / r->bins_x, q = k % r->bins_x, offsets[TAPS_AT_ONCE], n = 0;
    float weights[TAPS_AT_ONCE];
    for (int32_t t = plan->y.begin[p]; t < plan->y.begin[p + 1]; t++) {
      if (plan->y.index[t] < own->band.first || plan->y.index[t] >= own->band.after) continue;
      for (int32_t u = plan->x.begin[q]; u < plan->x.begin[q + 1]; u++) {
        offsets[n] = (plan->y.index[t] * r->width + plan->x.index[u]) * r->channels;
        weights[n] = plan->y.weight[t] * plan->x.weight[u];
        if (++n < TAPS_AT_ONCE) continue;
        CPU_PICK(s->c.level, scatter_taps)(offsets, weights, n, g + k * s->outputs, map, own->n);
        n = 0;
      }
    }
    CPU_PICK(s->c.level, scatter_taps)(offsets, weights, n, g + k * s->outputs, map, own->n);
  }
}

/* Adds gradients of the next region, or some of them, to the thread's part of the map; of position-sensitive channels
 * those of one bin. Returns how many pixels' gradients that were, about. */
static int64_t add_region(const job *j, const part *own, progress *at, int64_t left) {
  const regions *s = j->s;
  const roi_align *r = &s->c.maps[0];
  worker *w = &at->w;
  const roi_taps *y = &w->scratch.plan.y, *x = &w->scratch.plan.x;
  const int64_t region = at->region, bins = r->bins_y * r->bins_x, k = at->bin;
  const float *g =
      (const float *)j->buffers->inputs[0] + region * s->outputs * bins + own->first * (s->c.last ? 1 : bins);
  float *map = (float *)j->buffers->outputs[0] +
               channel_at(s, roi_image_of(&s->c, j->buffers, region), own->first * s->per_output);
  at->region = region + 1;
  at->bin = 0;
  if (r->kind == ROI_POOL) {
    add_most(j, own, region, g, map);
    return bins * own->n;
  }
  use_region(j, w, region);
  if (w->nowhere || bins == 0) return 1;
  if (r->kind == ROI_ALIGN) {
    const int64_t taps = (int64_t)y->begin[r->bins_y] * x->begin[r->bins_x] / (s->c.last ? 16 : 4) + 1;
    if (s->c.last) {
      add_samples(s, w, own, g, map);
      return taps * own->n + PLAN_TAPS;
    }
    const int64_t some = some_of(left, taps, own->n - k);
    CPU_PICK(s->c.level, roi_align_channels_back)
    (&w->scratch.plan, own->band, g + k * bins, some, map + k * r->height * r->width);
    if (k + some < own->n) {
      at->region = region;
      at->bin = k + some;
    }
    return taps * some + (k ? 0 : PLAN_TAPS);
  }
  const int64_t p = k / r->bins_x, q = k % r->bins_x, from = s->c.last ? k * s->outputs : k,
                channel = s->c.last ? k : k * r->height * r->width;
  roi_ps_bin bin = ps_bin(s, w, p, q);
  CPU_PICK(s->c.level, roi_ps_sum_back)(&bin, own->band, g + from, own->n, map + channel);
  if (k + 1 < bins) {
    at->region = region;
    at->bin = k + 1;
  }
  return (int64_t)(y->begin[p + 1] - y->begin[p]) * (x->begin[q + 1] - x->begin[q]) * own->n + (k ? own->n : PLAN_TAPS);
}

/* A step of a part (block of outputs, band of rows) of the map's gradient: some regions, or bins of one. */
static bool add_to_part(void *context, int64_t item, int64_t step, int32_t place) {
  const job *j = context;
  const regions *s = j->s;
  progress *at = &j->places[place];
  int64_t first = item / s->bands * s->block, rest = s->outputs - first, row = item % s->bands * s->band_rows,
          height = s->c.maps[0].height;
  part own = {
      first, rest < s->block ? rest : s->block, {row, row + s->band_rows < height ? row + s->band_rows : height}};
  if (step == 0) *at = (progress){.w = worker_open(j, place)};
  int64_t left = STEP_TAPS;
  if (!clear_part(j, &own, at, &left)) return true;
  while (left > 0 && at->region < s->c.regions) left -= add_region(j, &own, at, left);
  return at->region < s->c.regions;
}

/* ---- preparation ---- */

static reed_status run_regions(const void *state, const reed_kernel_buffers *buffers) {
  const regions *s = state;
  const roi_align *r = &s->c.maps[0];
  reed_status status = roi_call_check(&s->c, buffers);
  if (status != REED_OK) return status;
  job j = {.s = s, .buffers = buffers};
  if (!s->c.backward) {
    pooling pools[TEAM_MAX_WORKERS];
    j.pools = pools;
    j.units = s->c.last ? s->c.regions * r->bins_y : s->c.regions * s->n_blocks;
    j.step = (s->c.team.threads > 1 ? STEP_PIXELS : ALONE * STEP_PIXELS) / (s->per_output > 1 ? OWN_PLANES : 1);
    const roi_sharing share =
        roi_share(&s->c, buffers, s->outputs * (r->kind == ROI_POOL ? PIXEL_COMPARED : 1), j.units, j.step);
    j.group = share.group;
    return cpu_relay(share.team, share.items, share.steps, pool_units, &j);
  }
  const int64_t map = r->images * r->channels * r->height * r->width, parts = s->n_blocks * s->bands,
                bins = s->c.regions * s->outputs * r->bins_y * r->bins_x;
  progress places[TEAM_MAX_WORKERS];
  j.places = places;
  return cpu_relay(cpu_team_for(s->c.team, bins * 32 + map), parts,
                   parts + (bins * s->bands + map / CLEAR_PIXELS) / STEP_TAPS, add_to_part, &j);
}

/* Divides the outputs into blocks, and the rows of a backward call with few blocks into bands, so that every thread has
 * work. The division changes no sum. */
static void divide(regions *s) {
  const roi_align *r = &s->c.maps[0];
  int64_t plane = r->height * r->width * 4 * s->per_output, wanted = s->c.team.threads > 1 ? 2 * s->c.team.threads : 1;
  s->bands = 1;
  s->band_rows = r->height;
  if (s->c.last) {
    int64_t most = (s->outputs + wanted - 1) / wanted;
    s->block = (most + UNIT_CHANNELS - 1) / UNIT_CHANNELS * UNIT_CHANNELS;
  } else {
    s->block = BLOCK_BYTES / plane;
    s->block = s->block < 1 ? 1 : s->block > BLOCK_MAX ? BLOCK_MAX : s->block;
  }
  if (s->block > s->outputs) s->block = s->outputs;
  s->n_blocks = (s->outputs + s->block - 1) / s->block;
  if (!s->c.backward || s->n_blocks >= wanted || r->height < 2) return;
  if (r->kind == ROI_POOL) return; /* any bin may be of any band: each would look at all bins */
  int64_t bands = (wanted + s->n_blocks - 1) / s->n_blocks;
  s->band_rows = (r->height + bands - 1) / bands;
  s->bands = (r->height + s->band_rows - 1) / s->band_rows;
}

reed_status cpu_prepare_regions(const reed_kernel_call *call, reed_kernel *out_kernel) {
  regions s = {0};
  reed_status status = roi_call_read_pooling(call, &s.c);
  if (status != REED_OK) return status;
  const roi_align *r = &s.c.maps[0];
  if (r->height * r->width == 0) return REED_OK;
  if (r->kind == ROI_ALIGN && !s.c.backward) return roi_align_prepare(call, &s.c, out_kernel);
  status = roi_lanes_prepare(call, &s.c, out_kernel);
  if (status != REED_OK || out_kernel->run || s.c.dtype != REED_F32 || s.c.regions_dtype != REED_F32) return status;
  s.outputs = roi_outputs(r);
  s.per_output = roi_is_position_sensitive(r->kind) ? r->bins_y * r->bins_x : 1;
  if (s.outputs == 0) return REED_OK;
  divide(&s);
  roi_scratch unused;
  s.ranges_at = roi_scratch_lay(r, NULL, &unused);
  s.most_at = s.ranges_at + ((2 * (r->bins_y + r->bins_x) * 4 + 63) & ~(int64_t)63);
  s.c.scratch_bytes = s.most_at + ((2 * r->width * 4 + 63) & ~(int64_t)63);
  void *state = mem_copy(&s, sizeof s);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_regions, state);
  out_kernel->workspace_bytes = s.c.scratch_bytes * s.c.team.threads;
  return REED_OK;
}

reed_status cpu_prepare_regions_backward(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return cpu_prepare_regions(call, out_kernel);
}
