/* Sorting regions by image, strip of rows and column (roi_order.h): two passes of a counting sort. */
#include "ops/cpu/image/roi_order.h"

#include <string.h>

#define STRIP_ROWS 32 /* of a map, whose regions are taken by columns: neighbours share taps */

static int64_t strips_of(int64_t rows) { return (rows + STRIP_ROWS - 1) / STRIP_ROWS; }

int64_t roi_order_counts(int64_t n_groups, int64_t rows, int64_t width) {
  int64_t strips = (n_groups + 1) * strips_of(rows);
  return (width > strips ? width : strips) + 1;
}

static int64_t key_of(const roi_order *o, bool by_strip, int64_t region) {
  const roi_note *n = &o->notes[region];
  return by_strip ? n->group * strips_of(o->rows) + n->row / STRIP_ROWS : n->column;
}

/* Sorts by one key of the notes, keeping the order of equals. */
static void sort_by(const roi_order *o, bool by_strip, int64_t keys, const int32_t *from, int32_t *to) {
  int64_t total = 0;
  memset(o->counts, 0, (size_t)keys * sizeof *o->counts);
  for (int64_t i = 0; i < o->regions; i++) o->counts[key_of(o, by_strip, i)]++;
  for (int64_t k = 0; k < keys; k++) {
    int64_t n = o->counts[k];
    if (by_strip && k % strips_of(o->rows) == 0) o->begins[k / strips_of(o->rows)] = total;
    o->counts[k] = total;
    total += n;
  }
  for (int64_t i = 0; i < o->regions; i++) {
    int32_t region = from ? from[i] : (int32_t)i;
    to[o->counts[key_of(o, by_strip, region)]++] = region;
  }
  if (by_strip) o->begins[o->n_groups + 1] = total;
}

void roi_order_make(const roi_order *o) {
  sort_by(o, false, o->width + 1, NULL, o->spare);
  sort_by(o, true, o->n_groups * strips_of(o->rows) + 1, o->spare, o->order);
}
