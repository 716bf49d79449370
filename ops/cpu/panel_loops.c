/* The innermost loops of products with packed weights (ops/cpu/panels.h), compiled once per CPU level: a tile of a few rows by the columns of one
 * panel, its sums in registers over all of a block's depth. */
#include "ops/cpu/panels.h"

#include "ops/cpu/lanes.h"

/* Sums, a row of the panel and one element of X stay in registers: 7 * 4 sums of 32 registers, 6 * 2 of 16. Wide tiles need fewer instructions for a
 * product than tall ones. */
#if LANES == 16
#define VECTORS 4
#define ROWS 7
#elif LANES == 8
#define VECTORS 2
#define ROWS 6
#else
#define VECTORS 2
#define ROWS 4
#endif

#define CACHE_LINE 16    /* floats */
#define PANEL_AHEAD 512  /* floats of the panel fetched ahead: some 200 cycles */

typedef int32_t mask __attribute__((vector_size(4 * LANES), may_alias));

/* max(x, 0), NaN kept: x where it is not below 0. */
INLINE lanes relu(lanes x) {
  mask keep = ~(x < (lanes){0});
  return (lanes)((mask)x & keep);
}

/* `rows` by `vectors` (both constants where this is inlined) from column `column` of the panel. */
INLINE void tile(const panel_tile *t, int64_t column, int rows, int vectors, bool ahead) {
  lanes sum[ROWS][VECTORS];
  const float *b = t->panel + column;
  float *c = t->c + column;
  const int64_t row = t->a_row, width = t->width, length = t->run_length;
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vectors * LANES; j += CACHE_LINE) __builtin_prefetch(c + i * t->c_row + j, 1);
  /* the tile to the right begins `rows` rows on; a run's share of it is fetched while the run is computed */
  const int64_t next_step = rows * row * (int64_t)sizeof(float) / length;
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) sum[i][j] = (lanes){0};
  for (int64_t r = 0; r < t->n_runs; r++) {
    const float *a = t->a + t->runs[r];
    const char *next = (const char *)(a + rows * row);
    for (int64_t k = 0; k < length; k++, a++, b += width, next += ahead ? next_step : 0) {
#pragma GCC unroll 4
      for (int j = 0; j < vectors * LANES; j += CACHE_LINE) __builtin_prefetch(b + PANEL_AHEAD + j);
      if (ahead) __builtin_prefetch(next, 0, 2);
      lanes weights[VECTORS];
#pragma GCC unroll 4
      for (int j = 0; j < vectors; j++) weights[j] = *(const lanes *)(b + j * LANES);
#pragma GCC unroll 16
      for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) sum[i][j] += a[i * row] * weights[j];
    }
  }
  /* what is added comes last: it may be far larger than the products, whose roundings would then be its */
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) {
      lanes *to = (lanes *)(c + i * t->c_row + j * LANES);
      lanes y = sum[i][j] + (t->first ? *(const lanes *)(t->bias + column + j * LANES) : *to);
      if (t->residual) y += *(const lanes *)(t->residual + column + i * t->c_row + j * LANES);
      *to = t->relu ? relu(y) : y;
    }
}

#define CASE(n) \
  case n: tile(t, column, n, vectors, ahead); break;
INLINE void tile_rows(const panel_tile *t, int64_t column, int vectors, bool ahead) {
  switch (t->rows) {
    CASE(1) CASE(2) CASE(3) CASE(4)
#if ROWS > 4
    CASE(5) CASE(6)
#endif
#if ROWS > 6
    CASE(7)
#endif
  }
}

int CPU_LEVELED(panel_rows)(void) { return ROWS; }

CPU_UNCHECKED void CPU_LEVELED(panel_multiply)(const panel_tile *t) {
  int64_t column = 0, width = t->width;
  if (t->ahead && width >= VECTORS * LANES) {
    tile_rows(t, 0, VECTORS, true);
    column = VECTORS * LANES;
  }
  for (; column + VECTORS * LANES <= width; column += VECTORS * LANES) tile_rows(t, column, VECTORS, false);
#if LANES == 16 /* a narrow last panel */
  for (; column + 2 * LANES <= width; column += 2 * LANES) tile_rows(t, column, 2, false);
  for (; column < width; column += LANES) tile_rows(t, column, 1, false);
#endif
}
