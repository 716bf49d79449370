/* Loops of products with plain matrices (ops/cpu/product/matrix_loops.h), compiled once per CPU level. The order in
 * which a sum adds its products depends on the level and the depth alone, so that any division of the columns gives the
 * same bits. */
#include "ops/cpu/product/matrix_loops.h"

#include <string.h>

#include "ops/cpu/common/lanes.h"

/* ---- few rows ---- */

#define STEPS 8 /* steps of the depth that are added to a sum while it is in a register */

/* y (+)= `steps` steps of the depth; both counts are constants after inlining. first: y is not read. */
INLINE void add_steps(int rows, int steps, bool first, const float *a, int64_t a_row, const float *b, int64_t b_row,
                      int64_t n, float *y, int64_t y_row) {
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) {
    lanes sum[FEW_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) sum[r] = first ? (lanes){0} : load(y + r * y_row + j);
#pragma GCC unroll 8
    for (int k = 0; k < steps; k++) {
      lanes v = load(b + k * b_row + j);
#pragma GCC unroll 4
      for (int r = 0; r < rows; r++) sum[r] += a[r * a_row + k] * v;
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) store(y + r * y_row + j, sum[r]);
  }
  for (; j < n; j++)
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
      float sum = first ? 0 : y[r * y_row + j];
      for (int k = 0; k < steps; k++) sum += a[r * a_row + k] * b[k * b_row + j];
      y[r * y_row + j] = sum;
    }
}

INLINE void rows_of(int rows, const float *a, int64_t a_row, const float *b, int64_t b_row, int64_t depth, bool first,
                    int64_t n, float *y, int64_t y_row) {
  int64_t k = 0;
  for (; k + STEPS <= depth; k += STEPS)
    if (k == 0 && first) add_steps(rows, STEPS, true, a, a_row, b, b_row, n, y, y_row);
    else add_steps(rows, STEPS, false, a + k, a_row, b + k * b_row, b_row, n, y, y_row);
  if (k == 0 && first)
    for (int r = 0; r < rows; r++) memset(y + r * y_row, 0, (size_t)n * sizeof *y);
  for (; k < depth; k++) add_steps(rows, 1, false, a + k, a_row, b + k * b_row, b_row, n, y, y_row);
}

CPU_UNCHECKED void CPU_LEVELED(few_rows)(int rows, const float *a, int64_t a_row, const float *b, int64_t b_row,
                                         int64_t depth, bool first, int64_t n, float *y, int64_t y_row) {
  switch (rows) {
    case 1: rows_of(1, a, a_row, b, b_row, depth, first, n, y, y_row); break;
    case 2: rows_of(2, a, a_row, b, b_row, depth, first, n, y, y_row); break;
    case 3: rows_of(3, a, a_row, b, b_row, depth, first, n, y, y_row); break;
    case 4: rows_of(4, a, a_row, b, b_row, depth, first, n, y, y_row); break;
  }
}

/* ---- dots ---- */

/* Columns of a tile of 1, 2, 3 or 4 rows: its sums, one vector of each column and one of a row stay in registers. */
#if LANES == 16
#define DOTS_OF_1 8
#define DOTS_OF_2 8
#define DOTS_OF_3 6
#define DOTS_OF_4 6
#else
#define DOTS_OF_1 8
#define DOTS_OF_2 5
#define DOTS_OF_3 4
#define DOTS_OF_4 3
#endif

/* The sum of a vector's elements, by halves. */
INLINE float sum_of(lanes x) {
#if LANES == 16
  __m256 eight = _mm512_castps512_ps256(x) + _mm512_extractf32x8_ps(x, 1);
  __m128 four = _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
#elif LANES == 8
  __m128 four = _mm256_castps256_ps128(x) + _mm256_extractf128_ps(x, 1);
#else
  __m128 four = x;
#endif
  __m128 two = four + _mm_movehl_ps(four, four);
  return two[0] + two[1];
}

/* rows and columns are constants after inlining. */
INLINE void dots_of(int rows, int columns, const float *a, int64_t a_row, const float *b, int64_t b_column,
                    int64_t depth, float *y, int64_t y_row) {
  lanes sum[FEW_ROWS][8];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int j = 0; j < columns; j++) sum[r][j] = (lanes){0};
  int64_t k = 0;
  for (; k + LANES <= depth; k += LANES) {
    lanes row[FEW_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) row[r] = load(a + r * a_row + k);
#pragma GCC unroll 8
    for (int j = 0; j < columns; j++) {
      lanes column = held(load(b + j * b_column + k));
#pragma GCC unroll 4
      for (int r = 0; r < rows; r++) sum[r][j] += row[r] * column;
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int j = 0; j < columns; j++) {
      float total = sum_of(sum[r][j]);
      for (int64_t rest = k; rest < depth; rest++) total += a[r * a_row + rest] * b[j * b_column + rest];
      y[r * y_row + j] = total;
    }
}

#define DOTS_CASE(rows) \
  case rows: \
    for (; j + DOTS_OF_##rows <= n; j += DOTS_OF_##rows) \
      dots_of(rows, DOTS_OF_##rows, a, a_row, b + j * b_column, b_column, depth, y + j, y_row); \
    for (; j < n; j++) dots_of(rows, 1, a, a_row, b + j * b_column, b_column, depth, y + j, y_row); \
    break;

CPU_UNCHECKED void CPU_LEVELED(dots)(int rows, const float *a, int64_t a_row, const float *b, int64_t b_column,
                                     int64_t depth, int64_t n, float *y, int64_t y_row) {
  int64_t j = 0;
  switch (rows) {
    DOTS_CASE(1)
    DOTS_CASE(2)
    DOTS_CASE(3)
    DOTS_CASE(4)
  }
}

/* ---- transposed panels ---- */

void CPU_LEVELED(transpose_panel)(const float *b, int64_t b_column, int64_t depth, int64_t n, int64_t width,
                                  float *panel) {
  int64_t j = 0, whole = depth & ~(int64_t)3;
  for (; j + 4 <= n; j += 4) {
    const float *from = b + j * b_column;
    float *to = panel + j;
    for (int64_t k = 0; k < whole; k += 4) {
      __m128 row[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) row[i] = _mm_loadu_ps(from + i * b_column + k);
      _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) _mm_storeu_ps(to + (k + i) * width, row[i]);
    }
    for (int64_t k = whole; k < depth; k++)
      for (int i = 0; i < 4; i++) to[k * width + i] = from[i * b_column + k];
  }
  for (; j < width; j++)
    for (int64_t k = 0; k < depth; k++) panel[k * width + j] = j < n ? b[j * b_column + k] : 0;
}
