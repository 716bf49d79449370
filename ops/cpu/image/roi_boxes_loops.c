/* Loops on whole-pixel boxes of many regions (roi_boxes_loops.h), compiled once per CPU level. */
#include "ops/cpu/image/roi_boxes_loops.h"

#include "ops/cpu/common/lanes.h"

#define VECTORS (ROI_LANES / LANES) /* of a pixel */
typedef struct box {
  int64_t row, rows, column, columns;
} box;

INLINE box box_of(const roi_boxes *b, int64_t i) {
  const int32_t *ranges = b->ranges + b->regions[i] * b->numbers, *y = ranges + b->row, *x = ranges + b->column;
  return (box){y[0], y[1] - y[0], x[0], x[1] - x[0]};
}

/* sum += the pixels of a box of so many columns, a constant where it is inlined */
INLINE void add_columns(const box *of, int64_t columns, int64_t row, const float *from, lanes *sum) {
  for (int64_t r = 0; r < of->rows; r++, from += row)
    for (int64_t c = 0; c < columns; c++)
      for (int v = 0; v < VECTORS; v++) sum[v] += load(from + c * ROI_LANES + v * LANES);
}

INLINE void add_box(const box *of, int64_t row, const float *from, lanes *sum) {
  switch (of->columns) {
    case 1: add_columns(of, 1, row, from, sum); return;
    case 2: add_columns(of, 2, row, from, sum); return;
    case 3: add_columns(of, 3, row, from, sum); return;
    case 4: add_columns(of, 4, row, from, sum); return;
    default: add_columns(of, of->columns, row, from, sum);
  }
}

void CPU_LEVELED(roi_boxes_mean)(const roi_boxes *b, const float *map, float *y) {
  for (int64_t i = 0; i < b->n; i++, y += ROI_LANES) {
    box of = box_of(b, i);
    const float *from = map + (of.row * b->width + of.column) * ROI_LANES;
    lanes sum[VECTORS] = {{0}};
    add_box(&of, b->width * ROI_LANES, from, sum);
    int64_t pixels = of.rows * of.columns;
    lanes n = all((float)(pixels ? pixels : 1));
    for (int v = 0; v < VECTORS; v++) store(y + v * LANES, sum[v] / n);
  }
}

/* Adds `part` to the pixels of so many columns, a constant where it is inlined, and n rows. */
INLINE void spread_columns(int64_t columns, int64_t n, int64_t row, const lanes *part, float *to) {
  for (; n > 0; n--, to += row)
    for (int64_t c = 0; c < columns; c++)
      for (int v = 0; v < VECTORS; v++) {
        float *at = to + c * ROI_LANES + v * LANES;
        store(at, load(at) + part[v]);
      }
}

INLINE void spread_box(const box *of, int64_t n, int64_t row, const lanes *part, float *to) {
  switch (of->columns) {
    case 1: spread_columns(1, n, row, part, to); return;
    case 2: spread_columns(2, n, row, part, to); return;
    case 3: spread_columns(3, n, row, part, to); return;
    case 4: spread_columns(4, n, row, part, to); return;
    default: spread_columns(of->columns, n, row, part, to);
  }
}

void CPU_LEVELED(roi_boxes_mean_back)(const roi_boxes *b, const float *g, float *map) {
  for (int64_t i = 0; i < b->n; i++, g += ROI_LANES) {
    box of = box_of(b, i);
    int64_t pixels = of.rows * of.columns, after = of.row + of.rows;
    if (!pixels) continue;
    if (of.row < b->band.first) of.row = b->band.first;
    if (after > b->band.after) after = b->band.after;
    lanes part[VECTORS];
    for (int v = 0; v < VECTORS; v++) part[v] = load(g + v * LANES) / all((float)pixels);
    spread_box(&of, after - of.row, b->width * ROI_LANES, part, map + (of.row * b->width + of.column) * ROI_LANES);
  }
}
