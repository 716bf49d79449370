/* Loops of pools with channels second: along lines of elements that lie side by side. */
#ifndef OPS_CPU_IMAGE_POOL_LINES_LOOPS_H_
#define OPS_CPU_IMAGE_POOL_LINES_LOOPS_H_

#include <stdbool.h>
#include <stdint.h>
#include "ops/cpu/common/cpu.h"

/* The window along a line, and the line's stretch in memory: memory has columns begin..end-1, which include all those
 * of the input that are read. Elements are counted for a mean if their column is in low..high-1. */
typedef struct pool_line {
  bool mean;
  int64_t kernel, stride, dilation, pad;
  int64_t begin, end, low, high;
} pool_line;

/* Kernels and strides that pool_strips takes, and their lines; with stride 1 also wider kernels, of as many lines. */
#define STRIPS_KERNEL 3
#define STRIPS_STRIDE 2
#define STRIPS_LINES 3
#define STRIPS_WIDE 5
static inline bool pool_strips_take(int64_t kernel, int64_t stride, int64_t lines) {
  return (kernel <= STRIPS_KERNEL && stride <= STRIPS_STRIDE && lines <= STRIPS_LINES) ||
         (kernel <= STRIPS_WIDE && stride == 1 && lines <= STRIPS_WIDE);
}

/* Floats after a line that pool_along reads and writes. */
#define LINE_SLACK 64

/* Row r < rows of y, at y + r * y_step, gets outputs first..after-1 of the lines at x + r * x_step + offsets[t], t <
 * lines, for which pool_strips_take is true: the largest, or the sum divided by `count` and by the elements that are
 * counted along the line (at least 1). x is column 0 of a line. pitch: the distance of the lines if it is the same for
 * all, else 0. */
CPU_LOOP(void, pool_strips,
         (const pool_line *l, const float *x, const int64_t *offsets, int64_t lines, int64_t pitch, int64_t x_step,
          double count, float *y, int64_t y_step, int64_t rows, int64_t first, int64_t after));

/* The same of one line a row, at x + r * x_step, for any kernel and stride. x: column first * stride - pad, the first
 * one in memory; a line has an element for each tap, of which those in the padding are -INFINITY, or 0 for a mean.
 * Lines and LINE_SLACK floats after each are overwritten. */
CPU_LOOP(void, pool_along,
         (const pool_line *l, float *x, int64_t x_step, double count, float *y, int64_t y_step, int64_t rows,
          int64_t first, int64_t after));

#endif
