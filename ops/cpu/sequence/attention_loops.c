/* The loops of Attention (ops/cpu/sequence/attention_loops.h): a product of small matrices, and softmax over keys that
 * come in blocks. Compiled once per CPU level. */
#include "ops/cpu/sequence/attention_loops.h"

#include "ops/cpu/common/cpu.h"
#include "ops/cpu/common/functions.h"

#if defined(__AVX512F__)
#define LANES 16
#define ROWS 8
#elif defined(__AVX2__)
#define LANES 8
#define ROWS 6
#else
#define LANES 4
#define ROWS 6
#endif
#define COLUMNS 2 /* vectors: ROWS * COLUMNS accumulators, COLUMNS of b and one of a stay in registers */

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

typedef struct tile_operands {
  float *c;
  const float *a, *b;
  int64_t c_row, a_row, a_column, b_row, k;
} tile_operands;

/* rows x columns vectors of c; both are constants after inlining. */
static inline __attribute__((always_inline)) void tile(const tile_operands *o, int rows, int columns) {
  lanes sum[ROWS][COLUMNS];
  const float *a = o->a, *b = o->b;
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < columns; j++) sum[i][j] = *(const lanes *)(o->c + i * o->c_row + j * LANES);
  for (int64_t k = 0; k < o->k; k++, a += o->a_column, b += o->b_row) {
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
      for (int j = 0; j < columns; j++) sum[i][j] += a[i * o->a_row] * *(const lanes *)(b + j * LANES);
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < columns; j++) *(lanes *)(o->c + i * o->c_row + j * LANES) = sum[i][j];
}

#define TILE_CASE(n) \
  case n: tile(o, n, columns); break;
static inline __attribute__((always_inline)) void tile_rows(const tile_operands *o, int64_t rows, int columns) {
  switch (rows) {
    TILE_CASE(1);
    TILE_CASE(2);
    TILE_CASE(3);
    TILE_CASE(4);
    TILE_CASE(5);
#if ROWS == 8
    TILE_CASE(6);
    TILE_CASE(7);
#endif
    default: tile(o, ROWS, columns);
  }
}

void CPU_LEVELED(multiply_add)(float *c, int64_t c_row, const float *a, int64_t a_row, int64_t a_column, const float *b,
                               int64_t b_row, int64_t m, int64_t n, int64_t k) {
  for (int64_t j = 0; j < n;) {
    int columns = n - j >= COLUMNS * LANES ? COLUMNS : 1;
    for (int64_t i = 0; i < m; i += ROWS) {
      tile_operands o = {c + i * c_row + j, a + i * a_row, b + j, c_row, a_row, a_column, b_row, k};
      int64_t rows = m - i < ROWS ? m - i : ROWS;
      if (columns == COLUMNS) tile_rows(&o, rows, COLUMNS);
      else tile_rows(&o, rows, 1);
    }
    j += columns * LANES;
  }
}

/* Takes the next keys into a softmax. Column i of scores is a query, n in all; its softmax over the keys so far is
 * exp(score - most[i]) / sum[i]. Scores become exp(score - most), and the caller multiplies earlier sums by shrink
 * (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"). While no score of a query is above -inf,
 * `most` counts as 0; NaN stays. */
void CPU_LEVELED(attend_keys)(float *scores, int64_t n_keys, int64_t n, float *most, float *sum, float *shrink) {
  for (int64_t i = 0; i < n; i++) shrink[i] = most[i];
  for (int64_t j = 0; j < n_keys; j++)
    for (int64_t i = 0; i < n; i++) {
      float x = scores[j * n + i];
      most[i] = x > most[i] || x != x ? x : most[i];
    }
  for (int64_t i = 0; i < n; i++) {
    shrink[i] = exp_f32(shrink[i] - (most[i] == -INFINITY ? 0 : most[i]));
    sum[i] *= shrink[i];
  }
  for (int64_t j = 0; j < n_keys; j++)
    for (int64_t i = 0; i < n; i++) {
      float e = exp_f32(scores[j * n + i] - (most[i] == -INFINITY ? 0 : most[i]));
      scores[j * n + i] = e;
      sum[i] += e;
    }
}
