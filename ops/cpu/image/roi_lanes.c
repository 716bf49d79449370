/* Regions on blocks of ROI_LANES channels side by side: all operators on regions, forward and backward, with channels
 * second or last, in f32, f16 and bf16 (f32 inside).
 *
 * A unit of work is a block of channels. Its thread copies the rows of the maps that some region touches into block
 * form (ROI_LANES channels of a pixel are one line of the cache), computes all regions on them, and writes their bins;
 * or, backward, adds all gradients to zeros in block form and writes the rows of the map. So each element of maps and
 * bins is moved once between memory and the core, whatever its order and dtype, and taps are read from the core's
 * cache: regions are taken in the order of their first rows. Position-sensitive channels: the lanes are outputs, and a
 * unit is one bin of them, or, where channels last or whole pixels are pooled, ROI_FOURS bins that lie side by side.
 * Bins of whole pixels need no taps: roi_boxes.c.
 *
 * Every output's sum has the same order whatever the number of threads: that of roi_order.h. */
#include "ops/cpu/image/roi_lanes.h"

#include <math.h>
#include <stdatomic.h>

#include "base/team.h"
#include "ops/cpu/common/relay.h"
#include "ops/cpu/image/roi_lanes_job.h"
#include "ops/cpu/image/roi_plan.h"

#define BLOCK_BYTES_MAX ((int64_t)16 << 20)  /* of a map in block form */
#define BLOCKS_BYTES_MAX ((int64_t)96 << 20) /* of all threads */
#define PLANS_BYTES_MAX ((int64_t)8 << 20)   /* of stored plans; larger ones are made again for each block */
#define OUTPUTS_MIN 4                        /* of ROI_LANES: fewer leave most of a block empty */
#define FOURS_BYTES_MAX ((int64_t)4 << 20)   /* of ROI_FOURS maps in block form */
#define STEP_BINS 256                        /* of a block of outputs, whose gradients a step adds: 10 to 30 us */
#define STEP_PIXELS 2048                     /* of a map in block form, that a step writes */
#define FORWARD_BANDS_THREADS 2              /* more threads would copy most rows once each */
#define TAPS_OF_BIN 4                        /* rough: a map larger than all taps is not worth a copy */

/* Forward, boxes of equal extents follow one another. Backward, neighbours do: their pixels are read and written. */
static bool by_extents(const roi_lanes_kernel *s) { return s->boxes && !s->c.backward; }

static int64_t aligned(int64_t bytes) { return (bytes + 63) & ~(int64_t)63; }

static roi_lanes_worker worker_at(const roi_lanes_job *j, int32_t number) {
  char *memory = (char *)j->buffers->workspace + j->s->workers_at + number * j->s->worker_bytes;
  return (roi_lanes_worker){memory,
                            (float *)(memory + j->s->map_at),
                            (float *)(memory + j->s->sums_at),
                            (float *)(memory + j->s->bins_at),
                            (int32_t *)(memory + j->s->argmax_at),
                            &j->held[number],
                            number};
}

/* ---- plans ---- */

static void lay_taps(const roi_lanes_kernel *s, char *memory, roi_taps *y, roi_taps *x) {
  int32_t *at = (int32_t *)memory;
  y->begin = at;
  y->index = y->begin + s->c.widest.bins_y + 1;
  y->weight = (float *)(y->index + s->room_y);
  x->begin = (int32_t *)(y->weight + s->room_y);
  x->index = x->begin + s->c.widest.bins_x + 1;
  x->weight = (float *)(x->index + s->room_x);
}

/* Plans are ranges of whole pixels, not taps. */
static bool has_ranges(const roi_lanes_kernel *s) { return s->boxes || s->c.widest.kind == ROI_POOL; }

static roi_ranges lay_ranges(const roi_lanes_kernel *s, char *memory) {
  const roi_align *r = &s->c.maps[0];
  int32_t *y = (int32_t *)memory;
  return (roi_ranges){.bins_y = r->bins_y, .bins_x = r->bins_x, .width = r->width, .y = y, .x = y + 2 * r->bins_y};
}

/* The first and one past the last pixel of an axis's taps. */
static void extent_of_taps(const roi_taps *taps, int64_t bins, int32_t *first, int32_t *after) {
  *first = INT32_MAX;
  *after = 0;
  for (int32_t t = 0; t < taps->begin[bins]; t++) {
    if (taps->index[t] < *first) *first = taps->index[t];
    if (taps->index[t] >= *after) *after = taps->index[t] + 1;
  }
  if (!*after) *first = 0;
}
static void extent_of_ranges(const int32_t *ranges, int64_t bins, int32_t *first, int32_t *after) {
  *first = INT32_MAX;
  *after = 0;
  for (int64_t p = 0; p < bins; p++) {
    if (ranges[2 * p] >= ranges[2 * p + 1]) continue;
    if (ranges[2 * p] < *first) *first = ranges[2 * p];
    if (ranges[2 * p + 1] > *after) *after = ranges[2 * p + 1];
  }
  if (!*after) *first = 0;
}

static void corners_of(const roi_call *c, const reed_kernel_buffers *buffers, int64_t region, float *corners) {
  for (int k = 0; k < 4; k++) corners[k] = roi_element(c, buffers, c->columns * region + c->columns - 4 + k);
}

/* Makes the region's plan in this memory. False: all bins are NaN. */
static bool make_plan(const roi_lanes_job *j, int32_t map, int64_t region, char *memory) {
  const roi_lanes_kernel *s = j->s;
  float corners[4];
  corners_of(&s->c, j->buffers, region, corners);
  if (roi_is_nowhere(corners)) return false;
  if (has_ranges(s)) {
    roi_ranges ranges = lay_ranges(s, memory);
    roi_ranges_make(&s->c.maps[map], corners, (int32_t *)ranges.y, (int32_t *)ranges.x);
    return true;
  }
  roi_taps y, x;
  lay_taps(s, memory, &y, &x);
  return roi_taps_make(&s->c.maps[map], corners, &y, &x);
}

static void make_note(const roi_lanes_job *j, const roi_lanes_worker *w, int64_t region) {
  const roi_lanes_kernel *s = j->s;
  const roi_call *c = &s->c;
  roi_note *n = &j->notes[region];
  *n = (roi_note){.map = roi_map_of(c, j->buffers, region), .group = (int32_t)s->n_groups};
  if (n->map < 0) return;
  int32_t group = (int32_t)(s->group_base[n->map] + roi_image_of(c, j->buffers, region));
  const roi_align *r = &c->maps[n->map];
  if (r->kind == ROI_POOL && c->backward) { /* argmax may name any pixel */
    n->group = group;
    n->after_row = (int32_t)r->height;
    n->after_column = (int32_t)r->width;
    return;
  }
  char *memory = roi_lanes_plan(j, w, region);
  n->nothing = NAN;
  if (!make_plan(j, n->map, region, memory)) return;
  n->group = group;
  if (has_ranges(s)) {
    roi_ranges ranges = lay_ranges(s, memory);
    extent_of_ranges(ranges.y, r->bins_y, &n->row, &n->after_row);
    extent_of_ranges(ranges.x, r->bins_x, &n->column, &n->after_column);
    return;
  }
  roi_taps y, x;
  lay_taps(s, memory, &y, &x);
  extent_of_taps(&y, r->bins_y, &n->row, &n->after_row);
  extent_of_taps(&x, r->bins_x, &n->column, &n->after_column);
  n->dense = !s->position_sensitive && n->after_column - n->column <= x.begin[r->bins_x];
}

static void make_notes(void *context, int64_t begin, int64_t end, int32_t number) {
  const roi_lanes_job *j = context;
  roi_lanes_worker w = worker_at(j, number);
  for (int64_t i = begin; i < end && !cpu_cancelled_at(&j->s->c.team, i); i++) make_note(j, &w, i);
}

/* The columns of every row that some region touches. */
static void make_spans(const roi_lanes_job *j) {
  const roi_lanes_kernel *s = j->s;
  for (int64_t i = 0; i < s->n_groups * s->rows; i++) j->spans[i] = (roi_columns){INT32_MAX, 0};
  for (int64_t i = 0; i < s->c.regions; i++) {
    const roi_note *n = &j->notes[i];
    if (n->group == s->n_groups) continue;
    roi_columns *spans = j->spans + n->group * s->rows;
    if (!s->stored || has_ranges(s)) {
      for (int32_t row = n->row; row < n->after_row; row++) roi_columns_widen(&spans[row], n);
      continue;
    }
    roi_taps y, x;
    lay_taps(s, roi_lanes_plan(j, NULL, i), &y, &x);
    for (int32_t t = 0; t < y.begin[s->c.widest.bins_y]; t++) roi_columns_widen(&spans[y.index[t]], n);
  }
}

/* ---- places in the tensors ---- */

/* Lists of regions in the order of work: one of all, and of those of each band. */
static int64_t lists_of(const roi_lanes_kernel *s) { return 1 + (s->c.backward && s->divided > 1 ? s->divided : 0); }

static roi_lanes_unit unit_of(const roi_lanes_kernel *s, int64_t number) {
  int64_t each = roi_lanes_units_of_block(s), first = number / each * ROI_LANES, rest = s->outputs - first,
          bin = number % each * s->together, slots = s->slots - bin;
  return (roi_lanes_unit){first, bin, slots < s->together ? slots : s->together,
                          (int32_t)(rest < ROI_LANES ? rest : ROI_LANES)};
}

/* One bin of a unit, and the thread's memory with that bin's map. */
static roi_lanes_unit slot_of(const roi_lanes_kernel *s, const roi_lanes_unit *u, int64_t slot,
                              const roi_lanes_worker *w, roi_lanes_worker *out) {
  *out = *w;
  out->map += slot * s->map_floats;
  return (roi_lanes_unit){u->first, u->bin + slot, 1, u->n};
}

/* How many of the unit's maps one copy moves: they are side by side with channels last. */
static int64_t one_copy(const roi_lanes_kernel *s, const roi_lanes_unit *u) {
  return s->c.last && u->slots == ROI_FOURS ? ROI_FOURS : 1;
}

/* The same of a row of a map. */
static roi_lane_form row_form(const roi_lanes_kernel *s, const roi_lanes_unit *u, const roi_align *r, int64_t image,
                              int64_t row, int64_t *out_first) {
  int64_t plane = r->height * r->width, channel = u->first * s->slots + u->bin;
  *out_first = s->c.last ? (image * plane + row * r->width) * r->channels + channel
                         : (image * r->channels + channel) * plane + row * r->width;
  return (roi_lane_form){.dtype = s->c.dtype,
                         .lane = s->slots * (s->c.last ? 1 : plane),
                         .pixel = s->c.last ? r->channels : 1,
                         .n = u->n,
                         .apart = s->map_floats};
}

/* Bins of a region that a unit computes: all, or one. */
static roi_lane_bins bins_of(const roi_lanes_job *j, const roi_lanes_worker *w, const roi_lanes_unit *u, int64_t region,
                             roi_taps *y, roi_taps *x) {
  const roi_lanes_kernel *s = j->s;
  const roi_note *n = &j->notes[region];
  const roi_align *r = &s->c.maps[n->map];
  bool one = s->position_sensitive;
  lay_taps(s, roi_lanes_plan(j, w, region), y, x);
  int64_t p = one ? u->bin / r->bins_x : 0, q = one ? u->bin % r->bins_x : 0;
  return (roi_lane_bins){.y = y,
                         .x = x,
                         .p = p,
                         .after_p = one ? p + 1 : r->bins_y,
                         .q = q,
                         .after_q = one ? q + 1 : r->bins_x,
                         .width = r->width,
                         .band = {0, r->height},
                         .column = n->column,
                         .columns = n->after_column - n->column,
                         .sums = w->sums,
                         .dense = n->dense};
}

/* ---- forward ---- */

/* Copies rows of an image into block form. */
static void read_rows(const roi_lanes_job *j, const roi_lanes_worker *w, const roi_lanes_unit *u, const roi_note *n,
                      int64_t begin, int64_t end) {
  const roi_lanes_kernel *s = j->s;
  const roi_align *r = &s->c.maps[n->map];
  const char *map = j->buffers->inputs[s->c.at.maps + n->map];
  for (int64_t row = begin; row < end; row++) {
    roi_columns of = j->spans[n->group * s->rows + row];
    if (of.first >= of.after) continue;
    int64_t at, first = of.first & ~(int64_t)(ROI_LANES - 1);
    for (int64_t k = 0; k < u->slots; k += one_copy(s, u)) {
      roi_lanes_worker own;
      roi_lanes_unit one = slot_of(s, u, k, w, &own);
      roi_lane_form form = row_form(s, &one, r, n->group - s->group_base[n->map], row, &at);
      form.fours = one_copy(s, u) > 1;
      CPU_PICK(s->c.level, roi_lanes_read)
      (&form, map + (at + first * form.pixel) * roi_lanes_bytes(s), of.after - first,
       own.map + (row * r->width + first) * ROI_LANES);
    }
  }
}

/* Makes sure that the worker has the rows: a thread takes parts of a unit's regions one after the other. */
static void hold_rows(const roi_lanes_job *j, const roi_lanes_worker *w, const roi_lanes_unit *u, const roi_note *n,
                      int64_t begin, int64_t end) {
  roi_held_rows *held = w->held;
  roi_held_begin(held, 1 + u->first * j->s->slots + u->bin, n->group, begin);
  read_rows(j, w, u, n, begin, held->first);
  if (begin < held->first) held->first = begin;
  read_rows(j, w, u, n, held->after, end);
  if (end > held->after) held->after = end;
}

static void pool_region(const roi_lanes_job *j, const roi_lanes_worker *w, const roi_lanes_unit *u, int64_t region) {
  const roi_lanes_kernel *s = j->s;
  const roi_note *n = &j->notes[region];
  int64_t at, bins = s->position_sensitive ? 1 : s->bins;
  if (n->group == s->n_groups) {
    for (int64_t i = 0; i < bins * ROI_LANES; i++) w->bins[i] = n->nothing;
    if (s->c.has_argmax) memset(w->argmax, 0xff, (size_t)(bins * ROI_LANES) * sizeof *w->argmax);
  } else {
    if (!s->stored) (void)make_plan(j, n->map, region, w->plan);
    if (s->c.maps[n->map].kind == ROI_POOL) {
      roi_ranges ranges = lay_ranges(s, roi_lanes_plan(j, w, region));
      CPU_PICK(s->c.level, roi_lanes_most)(&ranges, w->map, w->sums, w->bins, w->argmax);
    } else {
      roi_taps y, x;
      roi_lane_bins b = bins_of(j, w, u, region, &y, &x);
      CPU_PICK(s->c.level, roi_lanes_mean)(&b, w->map, w->bins);
    }
  }
  roi_lane_form form = roi_lanes_bins_form(s, u, s->c.dtype, region, &at);
  CPU_PICK(s->c.level, roi_lanes_write)(&form, w->bins, bins, (char *)j->buffers->outputs[0] + at * roi_lanes_bytes(s));
  if (!s->c.has_argmax) return;
  form.dtype = REED_I32;
  CPU_PICK(s->c.level, roi_lanes_write)(&form, (const float *)w->argmax, bins, (int32_t *)j->buffers->outputs[1] + at);
}

/* Places begin..end-1 of the order. */
static void pool_part(const roi_lanes_job *j, const roi_lanes_worker *w, const roi_lanes_unit *u, int64_t begin,
                      int64_t end) {
  const roi_lanes_kernel *s = j->s;
  while (begin < end && !cpu_cancelled(&s->c.team)) {
    const roi_note *n = &j->notes[j->order[begin]];
    int64_t after = j->begins[n->group + 1] < end ? j->begins[n->group + 1] : end, row = s->rows, after_row = 0;
    for (int64_t i = begin; i < after; i++) {
      const roi_note *of = &j->notes[j->order[i]];
      if (of->row < row) row = of->row;
      if (of->after_row > after_row) after_row = of->after_row;
    }
    if (n->group < s->n_groups) hold_rows(j, w, u, n, row, after_row);
    if (s->boxes) roi_boxes_run(j, w, u, (roi_band){0, s->rows}, begin, after);
    for (int64_t k = 0; k < u->slots && !s->boxes; k++) {
      roi_lanes_worker own;
      roi_lanes_unit one = slot_of(s, u, k, w, &own);
      for (int64_t i = 0; i < after - begin; i++)
        pool_region(j, &own, &one, j->order[begin + roi_lanes_round(j, w, i, after - begin)]);
    }
    begin = after;
  }
}

/* ---- backward ---- */

static void add_region(const roi_lanes_job *j, const roi_lanes_worker *w, const roi_lanes_unit *u, roi_band band,
                       int64_t region) {
  const roi_lanes_kernel *s = j->s;
  const roi_align *r = &s->c.maps[0];
  int64_t at, bins = s->position_sensitive ? 1 : s->bins;
  roi_lane_form form = roi_lanes_bins_form(s, u, s->c.dtype, region, &at);
  CPU_PICK(s->c.level, roi_lanes_read)
  (&form, (const char *)j->buffers->inputs[0] + at * roi_lanes_bytes(s), bins, w->bins);
  if (r->kind == ROI_POOL) {
    form.dtype = REED_I32;
    CPU_PICK(s->c.level, roi_lanes_read)
    (&form, (const int32_t *)j->buffers->inputs[s->c.at.argmax] + at, bins, (float *)w->argmax);
    CPU_PICK(s->c.level, roi_lanes_most_back)
    (w->bins, w->argmax, bins, band.first * r->width, band.after * r->width, w->map);
    return;
  }
  if (!s->stored) (void)make_plan(j, 0, region, w->plan);
  roi_taps y, x;
  roi_lane_bins b = bins_of(j, w, u, region, &y, &x);
  b.band = band;
  CPU_PICK(s->c.level, roi_lanes_mean_back)(&b, w->bins, w->map);
}

/* Writes a row of a unit's maps; none: zeros, which are in w->sums. */
static void write_row(const roi_lanes_job *j, const roi_lanes_worker *w, const roi_lanes_unit *u, int64_t image,
                      int64_t row, bool none) {
  const roi_lanes_kernel *s = j->s;
  const roi_align *r = &s->c.maps[0];
  for (int64_t k = 0, at; k < u->slots; k += one_copy(s, u)) {
    roi_lanes_worker own;
    roi_lanes_unit one = slot_of(s, u, k, w, &own);
    roi_lane_form form = row_form(s, &one, r, image, row, &at);
    form.fours = one_copy(s, u) > 1;
    if (none) form.apart = 0;
    CPU_PICK(s->c.level, roi_lanes_write)
    (&form, none ? w->sums : own.map + row * r->width * ROI_LANES, r->width,
     (char *)j->buffers->outputs[0] + at * roi_lanes_bytes(s));
  }
}

static roi_band band_of(const roi_lanes_kernel *s, int64_t part) {
  return (roi_band){s->rows * part / s->divided, s->rows * (part + 1) / s->divided};
}

/* Lists the regions that touch each band, in the order of all, after the list of all regions. */
static void list_bands(const roi_lanes_job *j) {
  const roi_lanes_kernel *s = j->s;
  int64_t n = s->c.regions;
  for (int64_t part = 0; part < lists_of(s) - 1; part++) {
    const roi_band band = band_of(s, part);
    int64_t *begins = j->begins + (part + 1) * (s->n_groups + 2);
    for (int64_t group = 0; group <= s->n_groups; group++) {
      begins[group] = n;
      for (int64_t i = j->begins[group]; i < j->begins[group + 1]; i++) {
        const roi_note *note = &j->notes[j->order[i]];
        if (note->row < band.after && note->after_row > band.first) j->order[n++] = j->order[i];
      }
    }
    begins[s->n_groups + 1] = n;
  }
}

/* The columns of a band's rows in an image that regions touch, in one slot's map: 0. */
static void clear_rows(const roi_lanes_job *j, float *map, roi_band band, const roi_columns *spans) {
  const int64_t row_floats = j->s->c.maps[0].width * ROI_LANES;
  for (int64_t row = band.first; row < band.after; row++)
    if (spans[row].first < spans[row].after) memset(map + row * row_floats, 0, (size_t)row_floats * sizeof *map);
}

/* The next rows of the band. False: they were the last ones. */
static bool write_rows(const roi_lanes_job *j, const roi_lanes_worker *w, roi_lanes_walk *at, roi_band band) {
  const roi_align *r = &j->s->c.maps[0];
  const roi_columns *spans = j->spans + at->image * j->s->rows;
  const int64_t rows = band.after - band.first, most = 1 + STEP_PIXELS / (r->width * at->unit.slots),
                end = at->done + most < rows ? at->done + most : rows;
  memset(w->sums, 0, (size_t)(r->width * ROI_LANES) * sizeof *w->sums);
  for (; at->done < end; at->done++) {
    int64_t row = band.first + roi_lanes_round(j, w, at->done, rows);
    write_row(j, w, &at->unit, at->image, row, spans[row].first >= spans[row].after);
  }
  return end < rows;
}

/* The next step of a band of rows in all images: some regions of a slot, in their order; after the last slot, some rows
 * of the map. False: it was the last one. */
static bool walk_band(const roi_lanes_job *j, const roi_lanes_worker *w, roi_lanes_walk *at) {
  const roi_lanes_kernel *s = j->s;
  const roi_band band = band_of(s, at->part);
  if (at->slot == at->unit.slots) {
    if (write_rows(j, w, at, band)) return true;
    at->slot = at->done = 0;
    return ++at->image < s->n_groups;
  }
  const int64_t *begins = j->begins + (lists_of(s) > 1 ? at->part + 1 : 0) * (s->n_groups + 2),
                begin = begins[at->image] + at->done, left = begins[at->image + 1] - begin,
                n = left < s->step_regions ? left : s->step_regions;
  const roi_lanes_unit *u = &at->unit;
  roi_lanes_worker own;
  const int64_t slots = s->boxes ? u->slots : 1; /* of a step */
  for (int64_t k = at->slot; k < at->slot + slots; k++) {
    roi_lanes_unit one = slot_of(s, u, k, w, &own);
    if (at->done == 0) clear_rows(j, own.map, band, j->spans + at->image * s->rows);
    for (int64_t i = begin; i < begin + n && !s->boxes; i++) add_region(j, &own, &one, band, j->order[i]);
  }
  if (s->boxes) roi_boxes_run(j, w, u, band, begin, begin + n);
  at->done += n;
  if (n < left) return true;
  at->done = 0;
  at->slot += slots;
  return true;
}

static void run_units(void *context, int64_t begin, int64_t end, int32_t number) {
  const roi_lanes_job *j = context;
  const roi_lanes_kernel *s = j->s;
  roi_lanes_worker w = worker_at(j, number);
  for (int64_t i = begin; i < end && !cpu_cancelled(&s->c.team); i++) {
    int64_t part;
    roi_lanes_unit u = unit_of(s, roi_lanes_next_part(j, w.held, number, &part));
    const int64_t n = s->c.regions;
    pool_part(j, &w, &u, n * part / s->divided, n * (part + 1) / s->divided);
  }
}

/* A step of a part of a unit. */
static bool run_step(void *context, int64_t item, int64_t step, int32_t place) {
  (void)item; /* the walk has the number of the unit */
  const roi_lanes_job *j = context;
  roi_lanes_worker w = worker_at(j, place);
  roi_lanes_walk *at = &j->walks[place];
  if (step == 0) {
    *at = (roi_lanes_walk){0};
    at->unit = unit_of(j->s, roi_lanes_next_part(j, w.held, place, &at->part));
  }
  return walk_band(j, &w, at);
}

/* About: the last step of an image has fewer regions. */
static int64_t count_steps(const roi_lanes_kernel *s, int64_t items) {
  const int64_t written = s->rows / s->divided * s->c.maps[0].width * s->together / STEP_PIXELS + 1;
  return items * (s->n_groups * (written + 1) + s->c.regions / s->step_regions * (s->boxes ? 1 : s->together));
}

/* Forward, in cpu_team_for's count. */
static int64_t pool_work(const roi_lanes_kernel *s) {
  const roi_align *r = &s->c.widest;
  return s->c.regions * s->outputs * s->bins * 32 + r->images * r->channels * r->height * r->width * 4;
}

static reed_status run_roi_lanes(const void *state, const reed_kernel_buffers *buffers) {
  const roi_lanes_kernel *s = state;
  reed_status status = roi_call_check(&s->c, buffers);
  if (status != REED_OK) return status;
  char *memory = buffers->workspace;
  roi_held_rows held[TEAM_MAX_WORKERS] = {0};
  roi_lanes_walk walks[TEAM_MAX_WORKERS];
  roi_lanes_job j = {s,
                     buffers,
                     (roi_note *)(memory + s->notes_at),
                     (int32_t *)(memory + s->order_at),
                     (int64_t *)(memory + s->begins_at),
                     (roi_columns *)(memory + s->spans_at),
                     held,
                     walks,
                     (_Atomic int64_t *)(memory + s->begun_at)};
  for (int64_t i = 0; i < roi_lanes_shares(s); i++) atomic_init(&j.begun[i], 0);
  cpu_team team = cpu_team_for(s->c.team, s->c.regions * 8192);
  if ((status = cpu_parallel_scratch(team, s->c.regions, 1, make_notes, &j)) != REED_OK) return status;
  roi_order_make(&(roi_order){.notes = j.notes,
                              .regions = s->c.regions,
                              .n_groups = s->n_groups,
                              .rows = s->rows,
                              .width = s->c.widest.width,
                              .by_extents = by_extents(s),
                              .order = j.order,
                              .spare = (int32_t *)(memory + s->spare_at),
                              .begins = j.begins,
                              .counts = (int64_t *)(memory + s->counts_at)});
  list_bands(&j);
  make_spans(&j);
  team = cpu_team_for(s->c.team, pool_work(s));
  const int64_t items = s->blocks * roi_lanes_units_of_block(s) * s->divided;
  return s->c.backward ? cpu_relay(team, items, count_steps(s, items), run_step, &j)
                       : cpu_parallel_scratch(team, items, 1, run_units, &j);
}

/* ---- preparation ---- */

/* The workspace: what all threads share, then a part for each thread. */
static int64_t lay_workspace(roi_lanes_kernel *s) {
  const roi_align *w = &s->c.widest;
  int64_t at = 0;
  struct {
    int64_t *place, bytes;
  } parts[] = {
      {&s->notes_at, s->c.regions * (int64_t)sizeof(roi_note)},
      {&s->order_at, lists_of(s) * s->c.regions * 4},
      {&s->spare_at, s->c.regions * 4},
      {&s->counts_at, roi_order_counts(s->n_groups, s->rows, w->width, by_extents(s)) * 8},
      {&s->begins_at, lists_of(s) * (s->n_groups + 2) * 8},
      {&s->spans_at, s->n_groups * s->rows * (int64_t)sizeof(roi_columns)},
      {&s->begun_at, roi_lanes_shares(s) * 8},
      {&s->plans_at, s->stored ? s->c.regions * s->plan_bytes : 0},
      {&s->workers_at, 0},
  };
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    *parts[i].place = at;
    at += aligned(parts[i].bytes);
  }
  s->map_at = aligned(s->plan_bytes);
  s->sums_at = s->map_at + s->together * s->map_floats * 4;
  s->bins_at = s->sums_at + 2 * w->width * ROI_LANES * 4;
  int64_t bins = s->boxes ? s->together * ROI_BOXES_PART : s->bins;
  s->argmax_at = s->bins_at + bins * ROI_LANES * 4;
  s->worker_bytes = s->argmax_at + (w->kind == ROI_POOL ? s->bins * ROI_LANES * 4 : 0);
  return at + s->worker_bytes * s->c.team.threads;
}

/* False for calls that another kernel computes in less time or memory. */
static bool is_worth(const roi_lanes_kernel *s, int64_t pixels) {
  return s->outputs >= OUTPUTS_MIN && s->c.regions > 0 && s->n_groups > 0 && pixels > 0 &&
         pixels * ROI_LANES * 4 <= BLOCK_BYTES_MAX && s->c.regions <= INT32_MAX && s->n_groups < INT32_MAX &&
         s->bins > 0 && s->bins < 65536 && s->c.regions * s->bins * TAPS_OF_BIN >= pixels;
}

reed_status roi_lanes_prepare(const reed_kernel_call *call, const roi_call *c, reed_kernel *out_kernel) {
  roi_lanes_kernel s = {.c = *c, .position_sensitive = roi_is_position_sensitive(c->maps[0].kind)};
  const roi_align *w = &c->widest;
  if (c->dtype == REED_F64 || w->max || w->bins_y > 65536 || w->bins_x > 65536) return REED_OK;
  int64_t pixels = 0;
  for (int32_t k = 0; k < c->n_maps; k++) {
    const roi_align *r = &c->maps[k];
    if (r->height * r->width == 0) return REED_OK;
    if (r->height * r->width > pixels) pixels = r->height * r->width;
    s.group_base[k] = s.n_groups;
    s.n_groups += r->images;
  }
  s.bins = w->bins_y * w->bins_x;
  s.outputs = roi_outputs(w);
  s.rows = w->height;
  if (!is_worth(&s, pixels)) return REED_OK;
  s.blocks = (s.outputs + ROI_LANES - 1) / ROI_LANES;
  s.slots = s.position_sensitive ? s.bins : 1;
  s.map_floats = pixels * ROI_LANES;
  s.step_regions = STEP_BINS / (s.position_sensitive ? 1 : s.bins);
  if (s.step_regions < 1) s.step_regions = 1;
  int64_t ranges_bytes = 2 * (w->bins_y + w->bins_x) * 4;
  s.boxes = w->kind == ROI_PS_POOL && ranges_bytes * c->regions <= PLANS_BYTES_MAX;
  if (s.boxes) s.step_regions = ROI_BOXES_PART;
  bool fours =
      s.position_sensitive && (c->last || s.boxes) && s.slots >= ROI_FOURS && s.map_floats * 16 <= FOURS_BYTES_MAX;
  s.together = fours ? ROI_FOURS : 1;
  int64_t threads = BLOCKS_BYTES_MAX / (s.together * s.map_floats * 4), units = s.blocks * roi_lanes_units_of_block(&s);
  if (s.c.team.threads > threads) s.c.team.threads = (int32_t)threads;
  int64_t wanted = roi_parts_wanted(s.c.team, c->backward ? 0 : pool_work(&s)),
          most = c->backward ? s.rows : c->regions;
  s.divided = units < wanted ? (wanted + units - 1) / units : 1;
  if (c->backward && w->kind == ROI_POOL) s.divided = 1; /* any bin may be of any band: each would look at all bins */
  s.banded = s.position_sensitive &&
             (c->backward ? c->last : !c->last && !s.boxes && s.c.team.threads <= FORWARD_BANDS_THREADS);
  if (s.banded && s.divided < s.c.team.threads) s.divided = s.c.team.threads;
  if (s.divided > most) s.divided = most;
  if (has_ranges(&s)) {
    s.plan_bytes = ranges_bytes;
  } else {
    s.room_y = roi_taps_max(w, w->height, w->bins_y);
    s.room_x = roi_taps_max(w, w->width, w->bins_x);
    s.plan_bytes = (w->bins_y + w->bins_x + 2 + 2 * (s.room_y + s.room_x)) * 4;
  }
  s.stored = s.plan_bytes * c->regions <= PLANS_BYTES_MAX;
  int64_t bytes = lay_workspace(&s);
  void *state = mem_copy(&s, sizeof s);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_roi_lanes, state);
  out_kernel->workspace_bytes = bytes;
  return REED_OK;
}
