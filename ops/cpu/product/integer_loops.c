/* Loops of products of whole numbers (ops/cpu/product/integer_loops.h), compiled once per CPU level. */
#include "ops/cpu/product/integer_loops.h"

#include <string.h>

#include "ops/cpu/common/lanes.h"

typedef uint32_t integers __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define VECTORS (LANES == 16 ? 4 : 2) /* of columns, whose sums for all rows of a tile stay in registers */
#define COLUMNS (VECTORS * LANES)

INLINE integers load_integers(const void *p) { return *(const integers *)p; }
INLINE void store_integers(void *p, integers x) { *(integers *)p = x; }

/* sums + the products of both pairs of 16 bits in each lane */
INLINE integers add_pairs(integers sums, integers a, integers b) {
#if LANES == 16
  return sums + (integers)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif LANES == 8
  return sums + (integers)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#else
  return sums + (integers)_mm_madd_epi16((__m128i)a, (__m128i)b);
#endif
}

/* The bits that differ between x and its lower 16 bits, with their sign. */
INLINE integers excess(integers x) {
  typedef int32_t numbers __attribute__((vector_size(4 * LANES)));
  return x ^ (integers)((numbers)(x << 16) >> 16);
}

INLINE bool is_zero(integers x) {
  uint32_t parts[LANES], bits = 0;
  store_integers(parts, x);
  for (int i = 0; i < LANES; i++) bits |= parts[i];
  return bits == 0;
}

int64_t CPU_LEVELED(integer_columns)(void) { return COLUMNS; }

CPU_UNCHECKED bool CPU_LEVELED(integer_pack_row)(const int32_t *a, int64_t n, int16_t *row) {
  int32_t wide = 0;
  for (int64_t i = 0; i < n; i++) {
    row[i] = (int16_t)a[i];
    wide |= a[i] ^ row[i];
  }
  if (n & 1) row[n] = 0;
  return wide == 0;
}

CPU_UNCHECKED bool CPU_LEVELED(integer_pack_panel)(const int32_t *b, int64_t b_row, int64_t depth, int64_t n,
                                                   int16_t *panel) {
  int32_t rows[2][COLUMNS] = {{0}};
  integers wide = {0};
  for (int64_t k = 0; k < depth; k += 2, panel += 2 * COLUMNS) {
    const int32_t *first = b + k * b_row, *second = first + b_row;
    if (n < COLUMNS) first = memcpy(rows[0], first, (size_t)n * sizeof *first);
    if (k + 1 == depth) second = memset(rows[1], 0, sizeof rows[1]);
    else if (n < COLUMNS) second = memcpy(rows[1], second, (size_t)n * sizeof *second);
    for (int v = 0; v < VECTORS; v++) {
      const integers x = load_integers(first + v * LANES), y = load_integers(second + v * LANES);
      wide |= excess(x) | excess(y);
      store_integers(panel + 2 * v * LANES, (x & 0xffff) | y << 16);
    }
  }
  return is_zero(wide);
}

/* rows is a constant after inlining. */
INLINE void multiply_rows(int rows, const int16_t *a, int64_t a_row, const int16_t *panel, int64_t pairs, int64_t n,
                          int32_t *y, int64_t y_row) {
  integers sums[INTEGER_ROWS][VECTORS];
#pragma GCC unroll 6
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) sums[r][v] = (integers){0};
  for (int64_t k = 0; k < pairs; k++, panel += 2 * COLUMNS) {
    integers columns[VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) columns[v] = load_integers(panel + 2 * v * LANES);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
      uint32_t pair;
      memcpy(&pair, a + r * a_row + 2 * k, sizeof pair);
      const integers both = pair - (integers){0};
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; v++) sums[r][v] = add_pairs(sums[r][v], both, columns[v]);
    }
  }
  int32_t last[COLUMNS];
#pragma GCC unroll 6
  for (int r = 0; r < rows; r++) {
    int32_t *to = n < COLUMNS ? last : y + r * y_row;
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) store_integers(to + v * LANES, sums[r][v]);
    if (n < COLUMNS) memcpy(y + r * y_row, last, (size_t)n * sizeof *y);
  }
}

CPU_UNCHECKED void CPU_LEVELED(integer_multiply)(int rows, const int16_t *a, int64_t a_row, const int16_t *panel,
                                                 int64_t pairs, int64_t n, int32_t *y, int64_t y_row) {
  switch (rows) {
    case 1: multiply_rows(1, a, a_row, panel, pairs, n, y, y_row); break;
    case 2: multiply_rows(2, a, a_row, panel, pairs, n, y, y_row); break;
    case 3: multiply_rows(3, a, a_row, panel, pairs, n, y, y_row); break;
    case 4: multiply_rows(4, a, a_row, panel, pairs, n, y, y_row); break;
    case 5: multiply_rows(5, a, a_row, panel, pairs, n, y, y_row); break;
    case 6: multiply_rows(6, a, a_row, panel, pairs, n, y, y_row); break;
  }
}

/* ---- one column ---- */

/* Sums of neighbours of a, then of b. */
INLINE integers pair_sums(integers a, integers b) {
  const integers sums = (integers)evens((lanes)a, (lanes)b) + (integers)odds((lanes)a, (lanes)b);
  return (integers)ordered((lanes)sums);
}

/* Products of a row and the column, LANES sums. rest: the lanes of the last vector of the depth. */
INLINE integers row_products(const int32_t *a, const int32_t *column, int64_t wholes, lane_mask rest) {
  integers sums = (integers)load_some((const float *)(const void *)(a + wholes), rest) *
                  (integers)load_some((const float *)(const void *)(column + wholes), rest);
  for (int64_t k = 0; k < wholes; k += LANES) sums += load_integers(a + k) * load_integers(column + k);
  return sums;
}

CPU_UNCHECKED void CPU_LEVELED(integer_dots)(const int32_t *a, int64_t a_row, const int32_t *column, int64_t depth,
                                             int64_t rows, int32_t *y) {
  const int64_t wholes = depth / LANES * LANES;
  const lane_mask rest = lanes_between(0, depth - wholes);
  int64_t i = 0;
  for (; i + LANES <= rows; i += LANES, a += LANES * a_row) {
    integers sums[LANES];
#pragma GCC unroll 16
    for (int r = 0; r < LANES; r++) sums[r] = row_products(a + r * a_row, column, wholes, rest);
#pragma GCC unroll 4
    for (int left = LANES / 2; left > 0; left /= 2)
#pragma GCC unroll 8
      for (int r = 0; r < left; r++) sums[r] = pair_sums(sums[2 * r], sums[2 * r + 1]);
    store_integers(y + i, sums[0]);
  }
  for (; i < rows; i++, a += a_row) {
    integers sums = row_products(a, column, wholes, rest);
    for (int left = LANES; left > 1; left /= 2) sums = pair_sums(sums, sums);
    y[i] = (int32_t)sums[0];
  }
}
