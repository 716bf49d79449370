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

INLINE void rows_of(int rows, const float *a, int64_t a_row, const float *b, int64_t b_row, int64_t depth, int64_t n,
                    float *y, int64_t y_row) {
  int64_t k = 0;
  for (; k + STEPS <= depth; k += STEPS)
    if (k == 0) add_steps(rows, STEPS, true, a, a_row, b, b_row, n, y, y_row);
    else add_steps(rows, STEPS, false, a + k, a_row, b + k * b_row, b_row, n, y, y_row);
  if (k == 0)
    for (int r = 0; r < rows; r++) memset(y + r * y_row, 0, (size_t)n * sizeof *y);
  for (; k < depth; k++) add_steps(rows, 1, false, a + k, a_row, b + k * b_row, b_row, n, y, y_row);
}

CPU_UNCHECKED void CPU_LEVELED(few_rows)(int rows, const float *a, int64_t a_row, const float *b, int64_t b_row,
                                         int64_t depth, int64_t n, float *y, int64_t y_row) {
  switch (rows) {
    case 1: rows_of(1, a, a_row, b, b_row, depth, n, y, y_row); break;
    case 2: rows_of(2, a, a_row, b, b_row, depth, n, y, y_row); break;
    case 3: rows_of(3, a, a_row, b, b_row, depth, n, y, y_row); break;
    case 4: rows_of(4, a, a_row, b, b_row, depth, n, y, y_row); break;
  }
}

/* ---- dots ---- */

#define DOTS 4  /* columns side by side, which share the reading of a */
#define PARTS 2 /* sums of a column, so that additions do not wait for each other */

INLINE void dots_of(int columns, const float *a, const float *b, int64_t b_column, int64_t depth, float *y) {
  lanes sum[DOTS][PARTS];
#pragma GCC unroll 4
  for (int j = 0; j < columns; j++)
#pragma GCC unroll 2
    for (int p = 0; p < PARTS; p++) sum[j][p] = (lanes){0};
  int64_t k = 0;
  for (; k + PARTS * LANES <= depth; k += PARTS * LANES)
#pragma GCC unroll 2
    for (int p = 0; p < PARTS; p++) {
      lanes v = load(a + k + p * LANES);
#pragma GCC unroll 4
      for (int j = 0; j < columns; j++) sum[j][p] += v * load(b + j * b_column + k + p * LANES);
    }
  for (int j = 0; j < columns; j++) {
    float total = 0;
    lanes all_parts = sum[j][0] + sum[j][1];
    for (int i = 0; i < LANES; i++) total += all_parts[i];
    for (int64_t rest = k; rest < depth; rest++) total += a[rest] * b[j * b_column + rest];
    y[j] = total;
  }
}

CPU_UNCHECKED void CPU_LEVELED(dots)(const float *a, const float *b, int64_t b_column, int64_t depth, int64_t n,
                                     float *y) {
  int64_t j = 0;
  for (; j + DOTS <= n; j += DOTS) dots_of(DOTS, a, b + j * b_column, b_column, depth, y + j);
  for (; j < n; j++) dots_of(1, a, b + j * b_column, b_column, depth, y + j);
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
