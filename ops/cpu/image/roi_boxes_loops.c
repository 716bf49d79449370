/* Loops on whole-pixel boxes of many regions (roi_boxes_loops.h), compiled once per CPU level. */
#include "ops/cpu/image/roi_boxes_loops.h"

#include "ops/cpu/common/lanes.h"

#define VECTORS (ROI_LANES / LANES) /* of a pixel */
/* Boxes of at most this many rows and columns are computed without a loop whose length depends on the box: a branch
 * that the CPU predicts wrongly costs more than some loads of nothing. */
#define FEW 4

typedef struct box {
  int64_t row, rows, column, columns;
} box;

INLINE box box_of(const roi_boxes *b, int64_t i) {
  const int32_t *ranges = b->ranges + b->regions[i] * b->numbers, *y = ranges + b->row, *x = ranges + b->column;
  return (box){y[0], y[1] - y[0], x[0], x[1] - x[0]};
}

#if defined(__AVX2__)
INLINE lane_mask lanes_if(bool yes) { return lanes_between(0, yes ? LANES : 0); }

/* sum += the pixels of a box of at most `most` rows and columns, a constant where it is inlined */
INLINE void add_few(const box *of, int most, int64_t width, const float *from, lanes *sum) {
  for (int r = 0; r < most; r++) {
    const float *row = from + (r < of->rows ? r * width * ROI_LANES : 0);
    for (int c = 0; c < most; c++) {
      lane_mask inside = lanes_if(r < of->rows && c < of->columns);
      const float *at = row + (c < of->columns ? c * ROI_LANES : 0);
      for (int v = 0; v < VECTORS; v++) sum[v] += load_some(at + v * LANES, inside);
    }
  }
}
#endif

INLINE void add_box(const box *of, int64_t width, const float *from, lanes *sum) {
  for (int64_t r = 0; r < of->rows; r++)
    for (int64_t c = 0; c < of->columns; c++)
      for (int v = 0; v < VECTORS; v++) sum[v] += load(from + (r * width + c) * ROI_LANES + v * LANES);
}

void CPU_LEVELED(roi_boxes_mean)(const roi_boxes *b, const float *map, float *y) {
  for (int64_t i = 0; i < b->n; i++, y += ROI_LANES) {
    box of = box_of(b, i);
    const float *from = map + (of.row * b->width + of.column) * ROI_LANES;
    lanes sum[VECTORS] = {{0}};
#if defined(__AVX2__)
    if (of.rows <= FEW - 1 && of.columns <= FEW - 1) add_few(&of, FEW - 1, b->width, from, sum);
    else if (of.rows <= FEW && of.columns <= FEW) add_few(&of, FEW, b->width, from, sum);
    else
#endif
      add_box(&of, b->width, from, sum);
    int64_t pixels = of.rows * of.columns;
    lanes n = all((float)(pixels ? pixels : 1));
    for (int v = 0; v < VECTORS; v++) store(y + v * LANES, sum[v] / n);
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
    for (int64_t r = of.row; r < after; r++) {
      float *at = map + (r * b->width + of.column) * ROI_LANES;
      for (int64_t c = 0; c < of.columns; c++, at += ROI_LANES)
        for (int v = 0; v < VECTORS; v++) store(at + v * LANES, load(at + v * LANES) + part[v]);
    }
  }
}
