/* Turning matrices (ops/cpu/product/turned_loops.h), compiled once per CPU level. */
#include "ops/cpu/product/turned_loops.h"

#include "ops/cpu/common/lanes.h"
#include "ops/cpu/common/turn.h"

/* A block of `rows` x `columns` elements, at most LANES of each. */
INLINE void turn_block(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to, int64_t to_row) {
  const lane_mask mask = lanes_between(0, columns);
  lanes a[LANES], b[LANES];
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++)
    a[i] = i >= rows ? all(0) : columns < LANES ? load_some(from + i * from_row, mask) : load(from + i * from_row);
  turn_lanes(a, b);
  if (rows == LANES) {
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
      if (i < columns) store(to + i * to_row, b[i]);
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
      if (i < columns) store_first(to + i * to_row, b[i], rows);
  }
}

CPU_UNCHECKED static void turn_some(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to,
                                    int64_t to_row) {
  turn_block(from, from_row, rows, columns, to, to_row);
}

CPU_UNCHECKED void CPU_LEVELED(turn_rows)(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to,
                                          int64_t to_row) {
  for (int64_t r = 0; r < rows; r += LANES)
    for (int64_t c = 0; c < columns; c += LANES) {
      const float *block = from + r * from_row + c;
      float *turned = to + c * to_row + r;
      if (rows - r >= LANES && columns - c >= LANES) turn_block(block, from_row, LANES, LANES, turned, to_row);
      else
        turn_some(block, from_row, rows - r < LANES ? rows - r : LANES, columns - c < LANES ? columns - c : LANES,
                  turned, to_row);
    }
}
