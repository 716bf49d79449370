/* Loops of general products (ops/cpu/product/general_loops.h). Tiles are as in panel_loops.c: sums of some rows by some
 * vectors of columns stay in registers over the depth of a block. */
#include "ops/cpu/product/general_loops.h"

#include "ops/cpu/common/lanes.h"
#include "ops/cpu/product/matrix_loops.h"

#define STEPS 8 /* of the depth that few rows add to a sum while it is in a register */

/* Registers hold the sums, a row of the panel and one element of A: 7 * 4 or 14 * 2 sums of 32 registers, 6 * 2 or 12
 * of 16. */
#if LANES == 16
#define ROWS 7
#define VECTORS 4
#define ROWS_TALL 14
#define VECTORS_TALL 2
#elif LANES == 8
#define ROWS 6
#define VECTORS 2
#define ROWS_TALL 12
#define VECTORS_TALL 1
#else
#define ROWS 4
#define VECTORS 2
#define ROWS_TALL 8
#define VECTORS_TALL 1
#endif
#define ROWS_NEAR 5                 /* of a tall tile, read at distances from one address, which have registers */
#define STORES_MASKED (LANES == 16) /* stores of some lanes take as long as of all, whose mask has all bits */
#define CACHE_LINE 64
#define SUMS (ROWS * VECTORS)
_Static_assert(ROWS_TALL *VECTORS_TALL <= SUMS, "tall tiles have no more sums");
_Static_assert(VECTORS *LANES / 2 <= GENERAL_COLUMNS, "panels of f64 fit");

#define T float
#define VECTOR_LANES LANES
#define NAME(x) CPU_LEVELED(x##_f32)
#define PANEL_VECTORS 2
#define LOAD_FIRST(p, n) load_some(p, lanes_between(0, n))
#define STORE_FIRST(p, x, n) store_first(p, x, n)
#include "ops/cpu/product/general_template.h"
#undef T
#undef PANEL_VECTORS
#undef LOAD_FIRST
#undef VECTOR_LANES
#undef NAME
#undef STORE_FIRST

#define DOUBLES (LANES / 2)
typedef double doubles __attribute__((vector_size(8 * DOUBLES), aligned(8), may_alias));

/* The first n doubles, fewer than all; the others are 0. */
INLINE doubles load_first_doubles(const double *p, int64_t n) {
#if DOUBLES == 8
  return (doubles)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p);
#elif DOUBLES == 4
  return (doubles)_mm256_maskload_pd(p, _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3)));
#else
  return (doubles){p[0]};
#endif
}
/* Stores the first n doubles, fewer than all unless stores are masked. */
INLINE void store_first_doubles(double *p, doubles x, int64_t n) {
#if DOUBLES == 8
  _mm512_mask_storeu_pd(p, (__mmask8)((1u << (n < 8 ? n : 8)) - 1), (__m512d)x);
#elif DOUBLES == 4
  __m128d two = _mm256_castpd256_pd128((__m256d)x);
  if (n & 2) {
    _mm_storeu_pd(p, two);
    p += 2;
    two = _mm256_extractf128_pd((__m256d)x, 1);
  }
  if (n & 1) _mm_store_sd(p, two);
#else
  if (n == 1) p[0] = x[0];
#endif
}

#define T double
#define VECTOR_LANES DOUBLES
#define NAME(x) CPU_LEVELED(x##_f64)
#define PANEL_VECTORS VECTORS
#define LOAD_FIRST(p, n) load_first_doubles(p, n)
#define STORE_FIRST(p, x, n) store_first_doubles(p, x, n)
#include "ops/cpu/product/general_template.h"

int64_t CPU_LEVELED(general_columns_f32)(void) { return 2 * LANES; }
int64_t CPU_LEVELED(general_columns_f64)(void) { return VECTORS * DOUBLES; }
int64_t CPU_LEVELED(general_lanes_f32)(void) { return LANES; }
int64_t CPU_LEVELED(general_lanes_f64)(void) { return DOUBLES; }

/* ---- one vector of columns, few rows ---- */

#define STRANDS 4 /* sums of an element, so that fewer of them wait for each other */

/* rows is a constant after inlining. */
INLINE void deep_rows(const general_tile *t, int rows) {
  const double *a = t->a, *b = t->b;
  doubles sum[GENERAL_FEW_ROWS][STRANDS];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int s = 0; s < STRANDS; s++) sum[r][s] = (doubles){0};
  int64_t k = 0;
  for (; k + STRANDS <= t->depth; k += STRANDS)
#pragma GCC unroll 4
    for (int s = 0; s < STRANDS; s++, a += t->a_column, b += t->b_row) {
      const doubles columns = CPU_LEVELED(load_first_f64)(b, t->columns);
#pragma GCC unroll 4
      for (int r = 0; r < rows; r++) sum[r][s] += a[r * t->a_row] * columns;
    }
  for (; k < t->depth; k++, a += t->a_column, b += t->b_row) {
    const doubles columns = CPU_LEVELED(load_first_f64)(b, t->columns);
    for (int r = 0; r < rows; r++) sum[r][0] += a[r * t->a_row] * columns;
  }
  for (int r = 0; r < rows; r++) {
    double *y = (double *)t->y + r * t->y_row;
    doubles total = (sum[r][0] + sum[r][1]) + (sum[r][2] + sum[r][3]);
    if (!t->first) total += CPU_LEVELED(load_first_f64)(y, t->columns);
    CPU_LEVELED(store_some_f64)(y, total, t->columns);
  }
}

CPU_UNCHECKED void CPU_LEVELED(general_deep_f64)(const general_tile *t) {
  switch (t->rows) {
    case 1: deep_rows(t, 1); break;
    case 2: deep_rows(t, 2); break;
    case 3: deep_rows(t, 3); break;
    case 4: deep_rows(t, 4); break;
  }
}

/* ---- dots ---- */

/* rows is a constant after inlining. */
INLINE void dots_of(const general_tile *t, const double *a, double *y, int rows) {
  const double *b = t->b;
  doubles sum[GENERAL_DOTS_ROWS];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++) sum[i] = (doubles){0};
  int64_t k = 0;
  for (; k + DOUBLES <= t->depth; k += DOUBLES) {
    const doubles column = *(const doubles *)(b + k);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) sum[i] += *(const doubles *)(a + i * t->a_row + k) * column;
  }
  for (int i = 0; i < rows; i++) {
    double total = 0;
    for (int j = 0; j < DOUBLES; j++) total += sum[i][j];
    for (int64_t rest = k; rest < t->depth; rest++) total += a[i * t->a_row + rest] * b[rest];
    y[i * t->y_row] = t->first ? total : y[i * t->y_row] + total;
  }
}

CPU_UNCHECKED void CPU_LEVELED(general_dots_f64)(const general_tile *t) {
  const double *a = t->a;
  double *y = t->y;
  int64_t left = t->rows;
  for (; left >= GENERAL_DOTS_ROWS;
       left -= GENERAL_DOTS_ROWS, a += GENERAL_DOTS_ROWS * t->a_row, y += GENERAL_DOTS_ROWS * t->y_row)
    dots_of(t, a, y, GENERAL_DOTS_ROWS);
  switch (left) {
    case 1: dots_of(t, a, y, 1); break;
    case 2: dots_of(t, a, y, 2); break;
    case 3: dots_of(t, a, y, 3); break;
    case 4: dots_of(t, a, y, 4); break;
    case 5: dots_of(t, a, y, 5); break;
    case 6: dots_of(t, a, y, 6); break;
    case 7: dots_of(t, a, y, 7); break;
  }
}

/* ---- turned panels ---- */

void CPU_LEVELED(general_turn_f32)(const void *b, int64_t b_column, int64_t depth, int64_t n, int64_t width,
                                   void *panel) {
  CPU_LEVELED(transpose_panel)(b, b_column, depth, n, width, panel);
}

CPU_UNCHECKED void CPU_LEVELED(general_turn_f64)(const void *matrix, int64_t b_column, int64_t depth, int64_t n,
                                                 int64_t width, void *turned) {
  const double *b = matrix;
  double *panel = turned;
  int64_t j = 0;
  const int64_t whole = depth & ~(int64_t)1;
  for (; j + 4 <= n; j += 4) {
    const double *from = b + j * b_column;
    double *to = panel + j;
    for (int64_t k = 0; k < whole; k += 2) {
      __m128d row[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) row[i] = _mm_loadu_pd(from + i * b_column + k);
#pragma GCC unroll 2
      for (int i = 0; i < 4; i += 2) {
        _mm_storeu_pd(to + k * width + i, _mm_unpacklo_pd(row[i], row[i + 1]));
        _mm_storeu_pd(to + (k + 1) * width + i, _mm_unpackhi_pd(row[i], row[i + 1]));
      }
    }
    if (whole < depth)
      for (int i = 0; i < 4; i++) to[whole * width + i] = from[i * b_column + whole];
  }
  for (; j < width; j++)
    for (int64_t k = 0; k < depth; k++) panel[k * width + j] = j < n ? b[j * b_column + k] : 0;
}
