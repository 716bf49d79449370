/* Turning matrices (ops/cpu/product/turned_loops.h), compiled once per CPU level. */
#include "ops/cpu/product/turned_loops.h"

#include "ops/cpu/common/lanes.h"
#include "ops/cpu/common/turn.h"

/* The columns of a block of `rows` x `columns` elements, at most LANES of each, with 0 for further rows. */
INLINE void turned_columns(const float *from, int64_t from_row, int64_t rows, int64_t columns, lanes *out) {
  const lane_mask mask = lanes_between(0, columns);
  lanes a[LANES];
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++)
    a[i] = i >= rows ? all(0) : columns < LANES ? load_some(from + i * from_row, mask) : load(from + i * from_row);
  turn_lanes(a, out);
}

/* A block of `rows` x `columns` elements, at most LANES of each. */
INLINE void turn_block(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to, int64_t to_row) {
  lanes b[LANES];
  turned_columns(from, from_row, rows, columns, b);
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

/* A block of `rows` x n elements, at most LANES of each, whose first column has number `inner` of those that lie
 * inner_step apart and goes to `to`. Whole vectors are written. */
INLINE void turn_block_apart(const float *from, int64_t from_row, int64_t rows, int64_t n, const turned_places *p,
                             int64_t inner, float *to) {
  lanes b[LANES];
  turned_columns(from, from_row, rows, n, b);
  const int64_t wrap = p->outer_step - (p->inner - 1) * p->inner_step;
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) {
    if (i >= n) break;
    store(to, b[i]);
    const bool ends = ++inner == p->inner;
    to += ends ? wrap : p->inner_step;
    inner = ends ? 0 : inner;
  }
}

CPU_UNCHECKED static void turn_some_apart(const float *from, int64_t from_row, int64_t rows, int64_t n,
                                          const turned_places *p, int64_t inner, float *to) {
  turn_block_apart(from, from_row, rows, n, p, inner, to);
}

CPU_UNCHECKED void CPU_LEVELED(turn_apart)(const float *from, int64_t from_row, int64_t rows, int64_t width,
                                           int64_t columns, const turned_places *p, float *to) {
  for (int64_t r = 0; r < width; r += LANES) {
    int64_t outer = 0, inner = 0;
    for (int64_t c = 0; c < columns; c += LANES) {
      const float *block = from + r * from_row + c;
      float *turned = to + outer * p->outer_step + inner * p->inner_step + r;
      if (rows - r >= LANES && columns - c >= LANES) turn_block_apart(block, from_row, LANES, LANES, p, inner, turned);
      else turn_some_apart(block, from_row, rows - r, columns - c < LANES ? columns - c : LANES, p, inner, turned);
      for (inner += LANES; inner >= p->inner; inner -= p->inner) outer++;
    }
  }
}
