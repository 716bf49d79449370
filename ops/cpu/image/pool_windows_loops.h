/* Loops of pools with channels second over windows of a few rows and columns. */
#ifndef OPS_CPU_IMAGE_POOL_WINDOWS_LOOPS_H_
#define OPS_CPU_IMAGE_POOL_WINDOWS_LOOPS_H_

#include "ops/cpu/image/pool_lines_loops.h"

/* Windows that pool_windows takes: so many rows and columns at most, the strides of columns of pool_strips, and rows
 * that leave none out. */
#define WINDOWS_KERNEL 16
static inline bool pool_windows_take(const pool_line *rows, const pool_line *columns) {
  return rows->kernel <= WINDOWS_KERNEL && columns->kernel <= WINDOWS_KERNEL && rows->dilation == 1 &&
         columns->dilation == 1 && rows->stride <= rows->kernel && columns->stride <= STRIPS_STRIDE;
}

/* Outputs first..after-1 of rows begin..end-1 of a plane of outputs: the largest, or the sum divided by the elements
 * that are counted. x: the input plane, whose rows are x_row floats apart; `rows` and `columns`: the windows along the
 * axes, whose begin..end-1 are the plane's extents. y: output `first` of row `begin`. */
CPU_LOOP(void, pool_windows,
         (const pool_line *rows, const pool_line *columns, const float *x, int64_t x_row, float *y, int64_t y_row,
          int64_t begin, int64_t end, int64_t first, int64_t after));

#endif
