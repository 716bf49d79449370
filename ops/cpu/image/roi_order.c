/* Sorting regions by image, and by strip of rows and column or by extents (roi_order.h): two passes of a counting sort.
 * Several threads share many regions out by parts: each counts its keys, the counts of the parts before it are summed,
 * and each part writes from there on. */
#include "ops/cpu/image/roi_order.h"

#include <string.h>

#define STRIP_ROWS 32 /* of a map, whose regions are taken by columns: neighbours share taps */
#define PART 1024     /* regions of a part, at least */
#define PARTS_MOST 16 /* each has a table of keys */
#define KEY_WORK 64   /* of a region in a pass, in cpu_team_for's count */

/* Keys of a group's regions: strips, or numbers of rows. */
static int64_t keys_of(bool by_extents, int64_t rows) {
  return by_extents ? rows + 1 : (rows + STRIP_ROWS - 1) / STRIP_ROWS;
}

static int64_t parts_of(cpu_team team, int64_t regions) {
  const int64_t parts = team.threads > 1 ? regions / PART : 1;
  return parts < 1 ? 1 : parts < PARTS_MOST ? parts : PARTS_MOST;
}

int64_t roi_order_counts(cpu_team team, int64_t regions, int64_t n_groups, int64_t rows, int64_t width,
                         bool by_extents) {
  int64_t keys = (n_groups + 1) * keys_of(by_extents, rows);
  return ((width > keys ? width : keys) + 1) * parts_of(team, regions);
}

/* A sort by one key of the notes, which keeps the order of equals. */
typedef struct sort_job {
  const roi_order *o;
  bool by_group;
  int64_t keys, parts;
  const int32_t *from; /* NULL: the regions in order */
  int32_t *to;
} sort_job;

static int64_t key_of(const roi_order *o, bool by_group, int64_t region) {
  const roi_note *n = &o->notes[region];
  if (!by_group) return o->by_extents ? n->after_column - n->column : n->column;
  return n->group * keys_of(o->by_extents, o->rows) + (o->by_extents ? n->after_row - n->row : n->row / STRIP_ROWS);
}

static int64_t region_at(const sort_job *j, int64_t i) { return j->from ? j->from[i] : i; }
static int64_t part_begin(const sort_job *j, int64_t part) { return j->o->regions * part / j->parts; }

static void count_keys(void *context, int64_t begin, int64_t end) {
  const sort_job *j = context;
  for (int64_t p = begin; p < end; p++) {
    int64_t *counts = j->o->counts + p * j->keys;
    memset(counts, 0, (size_t)j->keys * sizeof *counts);
    for (int64_t i = part_begin(j, p); i < part_begin(j, p + 1); i++)
      counts[key_of(j->o, j->by_group, region_at(j, i))]++;
  }
}

static void place_regions(void *context, int64_t begin, int64_t end) {
  const sort_job *j = context;
  for (int64_t p = begin; p < end; p++) {
    int64_t *next = j->o->counts + p * j->keys;
    for (int64_t i = part_begin(j, p); i < part_begin(j, p + 1); i++) {
      const int64_t region = region_at(j, i);
      j->to[next[key_of(j->o, j->by_group, region)]++] = (int32_t)region;
    }
  }
}

static reed_status sort_by(const roi_order *o, bool by_group, int64_t keys, const int32_t *from, int32_t *to) {
  sort_job j = {o, by_group, keys, parts_of(o->team, o->regions), from, to};
  const cpu_team team = cpu_team_for(o->team, o->regions * KEY_WORK);
  int64_t total = 0;
  reed_status status = cpu_parallel(team, j.parts, 1, count_keys, &j);
  if (status != REED_OK) return status;
  for (int64_t k = 0; k < keys; k++) {
    if (by_group && k % keys_of(o->by_extents, o->rows) == 0) o->begins[k / keys_of(o->by_extents, o->rows)] = total;
    for (int64_t p = 0; p < j.parts; p++) {
      int64_t n = o->counts[p * keys + k];
      o->counts[p * keys + k] = total;
      total += n;
    }
  }
  if (by_group) o->begins[o->n_groups + 1] = total;
  return cpu_parallel(team, j.parts, 1, place_regions, &j);
}

reed_status roi_order_make(const roi_order *o) {
  reed_status status = sort_by(o, false, o->width + 1, NULL, o->spare);
  if (status != REED_OK) return status;
  return sort_by(o, true, o->n_groups * keys_of(o->by_extents, o->rows) + 1, o->spare, o->order);
}
