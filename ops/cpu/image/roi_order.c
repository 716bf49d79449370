/* Sorting regions by image, and by strip of rows and column or by extents (roi_order.h): two passes of a counting sort.
 */
#include "ops/cpu/image/roi_order.h"

#include <string.h>

#define STRIP_ROWS 32 /* of a map, whose regions are taken by columns: neighbours share taps */

/* Keys of a group's regions: strips, or numbers of rows. */
static int64_t keys_of(bool by_extents, int64_t rows) {
  return by_extents ? rows + 1 : (rows + STRIP_ROWS - 1) / STRIP_ROWS;
}

int64_t roi_order_counts(int64_t n_groups, int64_t rows, int64_t width, bool by_extents) {
  int64_t keys = (n_groups + 1) * keys_of(by_extents, rows);
  return (width > keys ? width : keys) + 1;
}

static int64_t key_of(const roi_order *o, bool by_group, int64_t region) {
  const roi_note *n = &o->notes[region];
  if (!by_group) return o->by_extents ? n->after_column - n->column : n->column;
  return n->group * keys_of(o->by_extents, o->rows) + (o->by_extents ? n->after_row - n->row : n->row / STRIP_ROWS);
}

/* Sorts by one key of the notes, keeping the order of equals. */
static void sort_by(const roi_order *o, bool by_group, int64_t keys, const int32_t *from, int32_t *to) {
  int64_t total = 0;
  memset(o->counts, 0, (size_t)keys * sizeof *o->counts);
  for (int64_t i = 0; i < o->regions; i++) o->counts[key_of(o, by_group, i)]++;
  for (int64_t k = 0; k < keys; k++) {
    int64_t n = o->counts[k];
    if (by_group && k % keys_of(o->by_extents, o->rows) == 0) o->begins[k / keys_of(o->by_extents, o->rows)] = total;
    o->counts[k] = total;
    total += n;
  }
  for (int64_t i = 0; i < o->regions; i++) {
    int32_t region = from ? from[i] : (int32_t)i;
    to[o->counts[key_of(o, by_group, region)]++] = region;
  }
  if (by_group) o->begins[o->n_groups + 1] = total;
}

void roi_order_make(const roi_order *o) {
  sort_by(o, false, o->width + 1, NULL, o->spare);
  sort_by(o, true, o->n_groups * keys_of(o->by_extents, o->rows) + 1, o->spare, o->order);
}
