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
 * Every output's sum has the same order whatever the number of threads: that of roi_order.h. A part of a unit is
 * computed in steps that any thread may go on with. */
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
#define STEP_PIXELS 1024                     /* of a map in block form, that a step copies or clears */
#define PAST_BYTES ((int64_t)32 << 20)       /* of bins that are written past the caches, at least */
#define STEP_WORK 16384                      /* pixels that the regions of a step read, in block form: some 10 us */
#define ALONE 8                              /* as many steps make one if one thread has them all */
#define FORWARD_BANDS_THREADS 2              /* more threads would copy most rows once each */
#define TAPS_OF_BIN 4                        /* rough: a map larger than all taps is not worth a copy */

static int64_t aligned(int64_t bytes) { return (bytes + 63) & ~(int64_t)63; }

/* ---- places in the tensors ---- */

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
  roi_lanes_lay_taps(s, roi_lanes_plan(j, w, region), y, x);
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

/* Rows of a map of so many pixels. */
static int64_t step_rows(const roi_align *r, const roi_lanes_unit *u, int64_t pixels) {
  return 1 + pixels / (r->width * u->slots);
}

/* Copies the next of the rows that the walk's regions need and the worker lacks. False: it had them all. */
static bool hold_rows(const roi_lanes_job *j, const roi_lanes_worker *w, const roi_lanes_walk *at) {
  const roi_lanes_unit *u = &at->unit;
  const roi_note *n = &j->notes[j->order[at->begin]];
  roi_held_rows *held = w->held;
  const int64_t most = step_rows(&j->s->c.maps[n->map], u, STEP_PIXELS * j->s->alone);
  roi_held_begin(held, 1 + u->first * j->s->slots + u->bin, n->group, at->row);
  if (at->row < held->first) {
    const int64_t begin = held->first - at->row < most ? at->row : held->first - most;
    read_rows(j, w, u, n, begin, held->first);
    held->first = begin;
    return true;
  }
  if (at->after_row > held->after) {
    const int64_t end = at->after_row - held->after < most ? at->after_row : held->after + most;
    read_rows(j, w, u, n, held->after, end);
    held->after = end;
    return true;
  }
  return false;
}

/* Computes and writes a region's bins of a unit of one slot. Returns the pixels that it read, about. */
static int64_t pool_region(const roi_lanes_job *j, const roi_lanes_worker *w, const roi_lanes_unit *u, int64_t region) {
  const roi_lanes_kernel *s = j->s;
  const roi_note *n = &j->notes[region];
  int64_t at, bins = s->position_sensitive ? 1 : s->bins, work = bins;
  if (n->group == s->n_groups) {
    for (int64_t i = 0; i < bins * ROI_LANES; i++) w->bins[i] = n->nothing;
    if (s->c.has_argmax) memset(w->argmax, 0xff, (size_t)(bins * ROI_LANES) * sizeof *w->argmax);
  } else {
    if (!s->stored) (void)roi_lanes_make_plan(j, n->map, region, w->plan);
    work = s->position_sensitive ? j->mean_work : roi_lanes_work_of(s, n, roi_lanes_plan(j, w, region));
    if (s->c.maps[n->map].kind == ROI_POOL) {
      roi_ranges ranges = roi_lanes_lay_ranges(s, roi_lanes_plan(j, w, region));
      CPU_PICK(s->c.level, roi_lanes_most)(&ranges, w->map, w->sums, w->bins, w->argmax);
    } else {
      roi_taps y, x;
      roi_lane_bins b = bins_of(j, w, u, region, &y, &x);
      CPU_PICK(s->c.level, roi_lanes_mean)(&b, w->map, w->bins);
    }
  }
  roi_lane_form form = roi_lanes_bins_form(s, u, s->c.dtype, region, &at);
  char *to = (char *)j->buffers->outputs[0] + at * roi_lanes_bytes(s);
  form.past = s->past && u->n == ROI_LANES && (uintptr_t)to % (ROI_LANES * sizeof(float)) == 0;
  CPU_PICK(s->c.level, roi_lanes_write)(&form, w->bins, bins, to);
  if (!s->c.has_argmax) return work;
  form.dtype = REED_I32;
  form.past = false;
  CPU_PICK(s->c.level, roi_lanes_write)(&form, (const float *)w->argmax, bins, (int32_t *)j->buffers->outputs[1] + at);
  return work;
}

/* Goes on with the regions of one image that follow in the part: their rows. */
static void begin_image(const roi_lanes_job *j, roi_lanes_walk *at) {
  const int64_t group = j->notes[j->order[at->begin]].group, end = j->begins[group + 1];
  at->after = end < at->end ? end : at->end;
  at->slot = at->done = at->after_row = 0;
  at->row = j->s->rows;
  for (int64_t i = at->begin; i < at->after && group < j->s->n_groups; i++) {
    const roi_note *of = &j->notes[j->order[i]];
    if (of->row < at->row) at->row = of->row;
    if (of->after_row > at->after_row) at->after_row = of->after_row;
  }
  if (at->row > at->after_row) at->row = at->after_row; /* none */
}

/* The next boxes of a walk's regions. */
static void pool_boxes(const roi_lanes_job *j, const roi_lanes_worker *w, roi_lanes_walk *at) {
  const int64_t begin = at->begin + at->done,
                end = begin + ROI_BOXES_PART < at->after ? begin + ROI_BOXES_PART : at->after;
  roi_boxes_run(j, w, &at->unit, (roi_band){0, j->s->rows}, begin, end);
  at->done = end - at->begin;
  if (end == at->after) at->slot = at->unit.slots;
}

/* The next regions of a walk, slot by slot. */
static void pool_some(const roi_lanes_job *j, const roi_lanes_worker *w, roi_lanes_walk *at) {
  const int64_t n = at->after - at->begin;
  for (int64_t left = STEP_WORK * j->s->alone; at->slot < at->unit.slots && left > 0;) {
    roi_lanes_worker own;
    const roi_lanes_unit one = slot_of(j->s, &at->unit, at->slot, w, &own);
    for (; at->done < n && left > 0; at->done++)
      left -= pool_region(j, &own, &one, j->order[at->begin + roi_lanes_round(j, w, at->done, n)]);
    if (at->done < n) return;
    at->done = 0;
    at->slot++;
  }
}

/* The next step of a part of a unit, forward: for the regions of each image some rows of the map, then some regions.
 * False: it was the last one. */
static bool walk_part(const roi_lanes_job *j, const roi_lanes_worker *w, roi_lanes_walk *at) {
  const bool begins = at->begin == at->after;
  if (begins) begin_image(j, at);
  const bool lacks = at->slot == 0 && at->done == 0 && at->row < at->after_row;
  if (lacks && hold_rows(j, w, at)) return true;
  if (j->s->boxes) pool_boxes(j, w, at);
  else pool_some(j, w, at);
  if (at->slot < at->unit.slots) return true;
  at->begin = at->after;
  return at->begin < at->end;
}

/* ---- backward ---- */

/* Adds a region's gradients to the rows of the band. Returns the pixels that it changed, about. */
static int64_t add_region(const roi_lanes_job *j, const roi_lanes_worker *w, const roi_lanes_unit *u, roi_band band,
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
    return roi_lanes_work_of(s, &j->notes[region], NULL);
  }
  if (!s->stored) (void)roi_lanes_make_plan(j, 0, region, w->plan);
  roi_taps y, x;
  roi_lane_bins b = bins_of(j, w, u, region, &y, &x);
  b.band = band;
  CPU_PICK(s->c.level, roi_lanes_mean_back)(&b, w->bins, w->map);
  if (s->position_sensitive) return j->mean_work;
  const roi_note *n = &j->notes[region];
  const int64_t first = n->row > band.first ? n->row : band.first,
                after = n->after_row < band.after ? n->after_row : band.after;
  return roi_lanes_work_of(s, n, roi_lanes_plan(j, w, region)) * (after - first) / (n->after_row - n->row + 1) + bins;
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

/* The next rows of a band in an image, in one slot's map: 0 where regions touch them. Returns the pixels' work. */
static int64_t clear_rows(const roi_lanes_job *j, float *map, roi_band band, roi_lanes_walk *at) {
  const roi_align *r = &j->s->c.maps[0];
  const int64_t row_floats = r->width * ROI_LANES, most = step_rows(r, &at->unit, STEP_PIXELS * j->s->alone),
                begin = band.first + at->cleared, end = band.after - begin < most ? band.after : begin + most;
  const roi_columns *spans = j->spans + at->image * j->s->rows;
  for (int64_t row = begin; row < end; row++)
    if (spans[row].first < spans[row].after) memset(map + row * row_floats, 0, (size_t)row_floats * sizeof *map);
  at->cleared = end - band.first;
  return (end - begin) * r->width;
}

/* The next rows of the band. False: they were the last ones. */
static bool write_rows(const roi_lanes_job *j, const roi_lanes_worker *w, roi_lanes_walk *at, roi_band band) {
  const roi_align *r = &j->s->c.maps[0];
  const roi_columns *spans = j->spans + at->image * j->s->rows;
  const int64_t rows = band.after - band.first, most = step_rows(r, &at->unit, STEP_PIXELS * j->s->alone),
                end = at->done + most < rows ? at->done + most : rows;
  memset(w->sums, 0, (size_t)(r->width * ROI_LANES) * sizeof *w->sums);
  for (; at->done < end; at->done++) {
    int64_t row = band.first + roi_lanes_round(j, w, at->done, rows);
    write_row(j, w, &at->unit, at->image, row, spans[row].first >= spans[row].after);
  }
  return end < rows;
}

/* The next boxes of a band, in all slots. */
static void add_boxes(const roi_lanes_job *j, const roi_lanes_worker *w, roi_lanes_walk *at, roi_band band,
                      int64_t begin, int64_t end) {
  const int64_t n = end - begin < ROI_BOXES_PART ? end - begin : ROI_BOXES_PART;
  roi_boxes_run(j, w, &at->unit, band, begin, begin + n);
  at->done += n;
  if (begin + n == end) at->slot = at->unit.slots;
}

/* The next step of a band of rows in all images: some rows of a slot's map are cleared, and some regions added in their
 * order; after the last slot, some rows of the map are written. False: it was the last one. */
static bool walk_band(const roi_lanes_job *j, const roi_lanes_worker *w, roi_lanes_walk *at) {
  const roi_lanes_kernel *s = j->s;
  const roi_band band = roi_lanes_band(s, at->part);
  const int64_t slots = s->boxes ? at->unit.slots : 1; /* that are cleared before regions are added */
  if (at->slot == at->unit.slots) {
    if (write_rows(j, w, at, band)) return true;
    at->slot = at->done = at->cleared = 0;
    return ++at->image < s->n_groups;
  }
  const int64_t *begins = j->begins + (roi_lanes_lists(s) > 1 ? at->part + 1 : 0) * (s->n_groups + 2),
                begin = begins[at->image] + at->done, end = begins[at->image + 1];
  roi_lanes_worker own;
  int64_t left = STEP_WORK * s->alone;
  const int64_t cleared = at->cleared;
  for (int64_t k = at->slot; k < at->slot + slots && cleared < band.after - band.first; k++) {
    (void)slot_of(s, &at->unit, k, w, &own);
    at->cleared = cleared;
    left -= clear_rows(j, own.map, band, at);
  }
  if (at->cleared < band.after - band.first) return true;
  if (s->boxes) {
    add_boxes(j, w, at, band, begin, end);
    if (at->slot == at->unit.slots) at->done = 0;
    return true;
  }
  const roi_lanes_unit one = slot_of(s, &at->unit, at->slot, w, &own);
  for (int64_t i = begin; i < end && left > 0; i++, at->done++) left -= add_region(j, &own, &one, band, j->order[i]);
  if (begins[at->image] + at->done < end) return true;
  at->done = at->cleared = 0;
  at->slot++;
  return true;
}

/* A step of a part of a unit. */
static bool run_step(void *context, int64_t item, int64_t step, int32_t place) {
  (void)item; /* the walk has the number of the unit */
  const roi_lanes_job *j = context;
  roi_lanes_worker w = roi_lanes_worker_at(j, place);
  roi_lanes_walk *at = &j->walks[place];
  if (step == 0) {
    const int64_t n = j->s->c.regions;
    *at = (roi_lanes_walk){0};
    at->unit = unit_of(j->s, roi_lanes_next_part(j, w.held, place, &at->part));
    at->begin = at->after = n * at->part / j->s->divided;
    at->end = n * (at->part + 1) / j->s->divided;
  }
  if (j->s->c.backward) return walk_band(j, &w, at);
  const bool goes_on = walk_part(j, &w, at);
  if (j->s->past) CPU_PICK(j->s->c.level, roi_lanes_fence)();
  return goes_on;
}

/* About: the last step of an image has fewer regions. */
static int64_t count_steps(const roi_lanes_job *j, int64_t items) {
  const roi_lanes_kernel *s = j->s;
  const int64_t units = s->blocks * roi_lanes_units_of_block(s);
  if (!s->c.backward)
    return items + (units * s->together * atomic_load(&j->work)) / STEP_WORK +
           units * s->n_groups * (s->rows * s->c.widest.width * s->together / STEP_PIXELS + 1);
  const int64_t written = s->rows / s->divided * s->c.maps[0].width * s->together / STEP_PIXELS + 1,
                boxes = s->boxes ? s->c.regions / ROI_BOXES_PART : 0;
  return items * (s->n_groups * (written + 2) + boxes) + units * s->together * atomic_load(&j->work) / STEP_WORK;
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
                     (int32_t *)(memory + s->spare_at),
                     (int64_t *)(memory + s->counts_at),
                     (int64_t *)(memory + s->begins_at),
                     (roi_columns *)(memory + s->spans_at),
                     held,
                     walks,
                     (_Atomic int64_t *)(memory + s->begun_at),
                     0,
                     0};
  for (int64_t i = 0; i < roi_lanes_shares(s); i++) atomic_init(&j.begun[i], 0);
  if ((status = roi_lanes_order(&j)) != REED_OK) return status;
  j.mean_work = 1 + atomic_load(&j.work) / s->c.regions;
  const int64_t items = s->blocks * roi_lanes_units_of_block(s) * s->divided;
  return cpu_relay(cpu_team_for(s->c.team, pool_work(s)), items, count_steps(&j, items), run_step, &j);
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
      {&s->order_at, roi_lanes_lists(s) * s->c.regions * 4},
      {&s->spare_at, s->c.regions * 4},
      {&s->counts_at, roi_lanes_counts(s) * 8},
      {&s->begins_at, roi_lanes_lists(s) * (s->n_groups + 2) * 8},
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

/* True if a block's bins are whole lines, and so many that no cache keeps them until another kernel reads them. */
static bool is_past(const roi_lanes_kernel *s) {
  return !s->c.backward && s->c.last && s->c.dtype == REED_F32 && s->outputs % ROI_LANES == 0 &&
         s->c.regions * s->bins * s->outputs * (int64_t)sizeof(float) >= PAST_BYTES &&
         CPU_PICK(s->c.level, roi_lanes_fill_lines)();
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
  s.alone = s.c.team.threads > 1 ? 1 : ALONE;
  int64_t ranges_bytes = 2 * (w->bins_y + w->bins_x) * 4;
  s.boxes = w->kind == ROI_PS_POOL && ranges_bytes * c->regions <= PLANS_BYTES_MAX;
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
  if (roi_lanes_has_ranges(&s)) {
    s.plan_bytes = ranges_bytes;
  } else {
    s.room_y = roi_taps_max(w, w->height, w->bins_y);
    s.room_x = roi_taps_max(w, w->width, w->bins_x);
    s.plan_bytes = (w->bins_y + w->bins_x + 2 + 2 * (s.room_y + s.room_x)) * 4;
  }
  s.stored = s.plan_bytes * c->regions <= PLANS_BYTES_MAX;
  s.past = is_past(&s);
  int64_t bytes = lay_workspace(&s);
  void *state = mem_copy(&s, sizeof s);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_roi_lanes, state);
  out_kernel->workspace_bytes = bytes;
  return REED_OK;
}
