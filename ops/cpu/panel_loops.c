/* The innermost loops of products with packed weights (ops/cpu/panels.h), compiled once per CPU level: a tile of a few rows by the columns of one
 * panel, its sums in registers over all of a block's depth. */
#include "ops/cpu/panels.h"

#if defined(__AVX512F__)
#define LANES 16
#define ROWS 12
#elif defined(__AVX2__)
#define LANES 8
#define ROWS 6
#else
#define LANES 4
#define ROWS 4
#endif
#define VECTORS 2 /* ROWS * VECTORS sums, VECTORS of the panel and one of a stay in registers: 27 of 32, 15 of 16, 11 of 16 */

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t mask __attribute__((vector_size(4 * LANES), may_alias));

/* max(x, 0), NaN kept: x where it is not below 0. */
static inline __attribute__((always_inline)) lanes relu(lanes x) {
  mask keep = ~(x < (lanes){0});
  return (lanes)((mask)x & keep);
}

/* `rows` by `vectors` (both constants where this is inlined) from column `column` of the panel. */
static inline __attribute__((always_inline)) void tile(const panel_tile *t, int64_t column, int rows, int vectors) {
  lanes sum[ROWS][VECTORS];
  const float *b = t->panel + column;
  float *c = t->c + column;
  const int64_t row = t->a_row, width = t->width, length = t->run_length;
  if (t->first) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) {
      lanes bias = *(const lanes *)(t->bias + column + j * LANES);
#pragma GCC unroll 16
      for (int i = 0; i < rows; i++) {
        sum[i][j] = bias;
        if (t->residual) sum[i][j] += *(const lanes *)(t->residual + column + i * t->c_row + j * LANES);
      }
    }
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
      for (int j = 0; j < vectors; j++) sum[i][j] = *(const lanes *)(c + i * t->c_row + j * LANES);
  }
  for (int64_t r = 0; r < t->n_runs; r++) {
    const float *a = t->a + t->runs[r];
    for (int64_t k = 0; k < length; k++, a++, b += width) {
      lanes weights[VECTORS];
#pragma GCC unroll 4
      for (int j = 0; j < vectors; j++) weights[j] = *(const lanes *)(b + j * LANES);
#pragma GCC unroll 16
      for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) sum[i][j] += a[i * row] * weights[j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) {
      if (t->relu) sum[i][j] = relu(sum[i][j]);
      *(lanes *)(c + i * t->c_row + j * LANES) = sum[i][j];
    }
}

static inline __attribute__((always_inline)) void tile_rows(const panel_tile *t, int64_t column, int vectors) {
#define CASE(n) \
  case n: tile(t, column, n, vectors); break;
  switch (t->rows) {
    CASE(1) CASE(2) CASE(3) CASE(4)
#if ROWS >= 6
    CASE(5) CASE(6)
#endif
#if ROWS >= 12
    CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
#endif
  }
#undef CASE
}

int CPU_LEVELED(panel_rows)(void) { return ROWS; }

void CPU_LEVELED(panel_multiply)(const panel_tile *t) {
  int64_t column = 0;
  for (; column + VECTORS * LANES <= t->width; column += VECTORS * LANES) tile_rows(t, column, VECTORS);
  for (; column < t->width; column += LANES) tile_rows(t, column, 1);
}
