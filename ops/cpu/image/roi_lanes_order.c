/* The order in which roi_lanes.c takes regions: their notes and plans, the columns of each row that regions touch, and
 * the lists of the regions of each band of rows. Regions are shared out by parts; every result follows from the regions
 * alone. */
#include <math.h>
#include <stdatomic.h>

#include "ops/cpu/image/roi_lanes_job.h"
#include "ops/cpu/image/roi_plan.h"

#define NOTE_WORK 8192 /* of a region's note and plan, in cpu_team_for's count */
#define LIST_WORK 64   /* of a look at a region for a band's list */
#define LIST_PART 2048 /* places of the order that are listed at a time */
/* In pixels that are read for a sum: the copy of a bin, a bin whose gradients are of any pixels, a pixel that is
 * compared, and one whose gradient is added to. */
#define MOVED_BIN 24
#define SCATTERED_BIN 64
#define PIXEL_COMPARED 4
#define PIXEL_ADDED 2

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

bool roi_lanes_make_plan(const roi_lanes_job *j, int32_t map, int64_t region, char *memory) {
  const roi_lanes_kernel *s = j->s;
  float corners[4];
  corners_of(&s->c, j->buffers, region, corners);
  if (roi_is_nowhere(corners)) return false;
  if (roi_lanes_has_ranges(s)) {
    roi_ranges ranges = roi_lanes_lay_ranges(s, memory);
    roi_ranges_make(&s->c.maps[map], corners, (int32_t *)ranges.y, (int32_t *)ranges.x);
    return true;
  }
  roi_taps y, x;
  roi_lanes_lay_taps(s, memory, &y, &x);
  return roi_taps_make(&s->c.maps[map], corners, &y, &x);
}

/* ---- notes ---- */

int64_t roi_lanes_work_of(const roi_lanes_kernel *s, const roi_note *n, char *memory) {
  const int64_t rows = n->after_row - n->row, columns = n->after_column - n->column,
                bins = s->position_sensitive ? 1 : s->bins, others = s->bins / bins, moved = bins * MOVED_BIN;
  if (s->c.widest.kind == ROI_POOL && s->c.backward) return bins * SCATTERED_BIN;
  if (roi_lanes_has_ranges(s)) return moved + rows * columns * PIXEL_COMPARED / others;
  roi_taps y, x;
  roi_lanes_lay_taps(s, memory, &y, &x);
  const int64_t taps_y = y.begin[s->c.widest.bins_y], taps_x = x.begin[s->c.widest.bins_x],
                taps = n->dense ? taps_y * columns + s->c.widest.bins_y * taps_x : taps_y * taps_x;
  return moved + (others > 1 ? taps / others : taps) * (s->c.backward ? PIXEL_ADDED : 1);
}

/* Widens the columns of a row. Several threads may widen one row at a time. */
static void widen(roi_columns *of, const roi_note *n) {
  int32_t first = __atomic_load_n(&of->first, __ATOMIC_RELAXED), after = __atomic_load_n(&of->after, __ATOMIC_RELAXED);
  while (n->column < first &&
         !__atomic_compare_exchange_n(&of->first, &first, n->column, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    continue;
  while (n->after_column > after &&
         !__atomic_compare_exchange_n(&of->after, &after, n->after_column, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    continue;
}

/* Widens the columns of the rows that the region touches; its plan is in `memory`, unless bins may be of any pixel. */
static void widen_rows(const roi_lanes_job *j, const roi_note *n, char *memory) {
  const roi_lanes_kernel *s = j->s;
  roi_columns *spans = j->spans + n->group * s->rows;
  if (!memory || roi_lanes_has_ranges(s)) {
    for (int32_t row = n->row; row < n->after_row; row++) widen(&spans[row], n);
    return;
  }
  roi_taps y, x;
  roi_lanes_lay_taps(s, memory, &y, &x);
  for (int32_t t = 0; t < y.begin[s->c.widest.bins_y]; t++) widen(&spans[y.index[t]], n);
}

/* Makes the region's plan and note, and widens the rows that it touches. Returns its work in a unit. */
static int64_t make_note(const roi_lanes_job *j, const roi_lanes_worker *w, int64_t region) {
  const roi_lanes_kernel *s = j->s;
  const roi_call *c = &s->c;
  roi_note *n = &j->notes[region];
  *n = (roi_note){.map = roi_map_of(c, j->buffers, region), .group = (int32_t)s->n_groups};
  if (n->map < 0) return 0;
  int32_t group = (int32_t)(s->group_base[n->map] + roi_image_of(c, j->buffers, region));
  const roi_align *r = &c->maps[n->map];
  if (r->kind == ROI_POOL && c->backward) { /* argmax may name any pixel */
    n->group = group;
    n->after_row = (int32_t)r->height;
    n->after_column = (int32_t)r->width;
    widen_rows(j, n, NULL);
    return roi_lanes_work_of(s, n, NULL);
  }
  char *memory = roi_lanes_plan(j, w, region);
  n->nothing = NAN;
  if (!roi_lanes_make_plan(j, n->map, region, memory)) return 0;
  n->group = group;
  if (roi_lanes_has_ranges(s)) {
    roi_ranges ranges = roi_lanes_lay_ranges(s, memory);
    extent_of_ranges(ranges.y, r->bins_y, &n->row, &n->after_row);
    extent_of_ranges(ranges.x, r->bins_x, &n->column, &n->after_column);
  } else {
    roi_taps y, x;
    roi_lanes_lay_taps(s, memory, &y, &x);
    extent_of_taps(&y, r->bins_y, &n->row, &n->after_row);
    extent_of_taps(&x, r->bins_x, &n->column, &n->after_column);
    n->dense = !s->position_sensitive && n->after_column - n->column <= x.begin[r->bins_x];
  }
  widen_rows(j, n, memory);
  return roi_lanes_work_of(s, n, memory);
}

static void make_notes(void *context, int64_t begin, int64_t end, int32_t number) {
  roi_lanes_job *j = context;
  roi_lanes_worker w = roi_lanes_worker_at(j, number);
  int64_t work = 0;
  for (int64_t i = begin; i < end && !cpu_cancelled_at(&j->s->c.team, i); i++) work += make_note(j, &w, i);
  atomic_fetch_add(&j->work, work);
}

static void clear_spans(void *context, int64_t begin, int64_t end) {
  const roi_lanes_job *j = context;
  for (int64_t i = begin; i < end; i++) j->spans[i] = (roi_columns){INT32_MAX, 0};
}

/* ---- lists ---- */

static int64_t parts_of(const roi_lanes_kernel *s) {
  return s->c.team.threads > 1 ? (s->c.regions + LIST_PART - 1) / LIST_PART : 1;
}

/* Lists or, with `to` NULL, counts the regions among places begin..end-1 of the order that touch a band, and notes
 * where groups begin. Returns one past the last place of the list. */
static int64_t list_part(const roi_lanes_job *j, int64_t list, int64_t begin, int64_t end, int64_t n, int32_t *to) {
  const roi_lanes_kernel *s = j->s;
  const roi_band band = roi_lanes_band(s, list);
  int64_t *begins = j->begins + (list + 1) * (s->n_groups + 2), group = 0;
  while (to && group <= s->n_groups && j->begins[group] < begin) group++;
  for (int64_t i = begin; i < end; i++) {
    for (; to && group <= s->n_groups && j->begins[group] == i; group++) begins[group] = n;
    const roi_note *note = &j->notes[j->order[i]];
    if (note->row >= band.after || note->after_row <= band.first) continue;
    if (to) to[n] = j->order[i];
    n++;
  }
  if (to && end == s->c.regions)
    for (; group <= s->n_groups + 1; group++) begins[group] = n;
  return n;
}

/* Items begin..end-1: parts of the lists of bands. */
static void count_lists(void *context, int64_t begin, int64_t end) {
  const roi_lanes_job *j = context;
  const int64_t parts = parts_of(j->s), n = j->s->c.regions;
  for (int64_t i = begin; i < end; i++)
    j->counts[i] = list_part(j, i / parts, n * (i % parts) / parts, n * (i % parts + 1) / parts, 0, NULL);
}

static void fill_lists(void *context, int64_t begin, int64_t end) {
  const roi_lanes_job *j = context;
  const int64_t parts = parts_of(j->s), n = j->s->c.regions;
  for (int64_t i = begin; i < end; i++)
    (void)list_part(j, i / parts, n * (i % parts) / parts, n * (i % parts + 1) / parts, j->counts[i], j->order);
}

/* Lists the regions that touch each band, in the order of all, after the list of all regions. */
static reed_status list_bands(roi_lanes_job *j) {
  const roi_lanes_kernel *s = j->s;
  const int64_t lists = roi_lanes_lists(s) - 1, items = lists * parts_of(s);
  if (lists == 0) return REED_OK;
  const cpu_team team = cpu_team_for(s->c.team, lists * s->c.regions * LIST_WORK);
  reed_status status = cpu_parallel(team, items, 1, count_lists, j);
  if (status != REED_OK) return status;
  (void)cpu_sum_before(j->counts, items, s->c.regions);
  return cpu_parallel(team, items, 1, fill_lists, j);
}

/* ---- the order ---- */

/* Forward, boxes of equal extents follow one another. Backward, neighbours do: their pixels are read and written. */
static bool by_extents(const roi_lanes_kernel *s) { return s->boxes && !s->c.backward; }

int64_t roi_lanes_counts(const roi_lanes_kernel *s) {
  const int64_t sort =
                    roi_order_counts(s->c.team, s->c.regions, s->n_groups, s->rows, s->c.widest.width, by_extents(s)),
                lists = (roi_lanes_lists(s) - 1) * parts_of(s);
  return sort > lists ? sort : lists;
}

reed_status roi_lanes_order(roi_lanes_job *j) {
  const roi_lanes_kernel *s = j->s;
  const int64_t rows = s->n_groups * s->rows;
  atomic_init(&j->work, 0);
  reed_status status = cpu_parallel(cpu_team_for(s->c.team, rows * 8), rows, 1024, clear_spans, j);
  if (status == REED_OK)
    status = cpu_parallel_scratch(cpu_team_for(s->c.team, s->c.regions * NOTE_WORK), s->c.regions, 1, make_notes, j);
  if (status == REED_OK)
    status = roi_order_make(&(roi_order){.notes = j->notes,
                                         .team = s->c.team,
                                         .regions = s->c.regions,
                                         .n_groups = s->n_groups,
                                         .rows = s->rows,
                                         .width = s->c.widest.width,
                                         .by_extents = by_extents(s),
                                         .order = j->order,
                                         .spare = j->spare,
                                         .begins = j->begins,
                                         .counts = j->counts});
  return status == REED_OK ? list_bands(j) : status;
}
