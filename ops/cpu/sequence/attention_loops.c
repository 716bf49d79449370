/* The loops of Attention (ops/cpu/sequence/attention_loops.h): a product of small matrices, dot products of few queries
 * with keys, and softmax over keys that come in blocks. Compiled once per CPU level. */
#include "ops/cpu/sequence/attention_loops.h"

#include "ops/cpu/common/functions.h"
#include "ops/cpu/common/lanes.h"

#if defined(__AVX512F__)
#define ROWS 8
#else
#define ROWS 6
#endif
#define COLUMNS 2 /* vectors: ROWS * COLUMNS accumulators, COLUMNS of b and one of a stay in registers */
#define COLUMNS_MOST 8

/* ---- a product of small matrices ---- */

typedef struct tile_operands {
  float *c;
  const float *a, *b;
  int64_t c_row, a_row, a_column, b_row, k;
} tile_operands;

/* rows x columns vectors of c; both are constants after inlining. */
INLINE void tile(const tile_operands *o, int rows, int columns) {
  lanes sum[ROWS][COLUMNS_MOST];
  const float *a = o->a, *b = o->b;
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
    for (int j = 0; j < columns; j++) sum[i][j] = *(const lanes *)(o->c + i * o->c_row + j * LANES);
  for (int64_t k = 0; k < o->k; k++, a += o->a_column, b += o->b_row) {
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
      for (int j = 0; j < columns; j++) sum[i][j] += a[i * o->a_row] * *(const lanes *)(b + j * LANES);
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
    for (int j = 0; j < columns; j++) *(lanes *)(o->c + i * o->c_row + j * LANES) = sum[i][j];
}

#define TILE_CASE(n) \
  case n: tile(o, n, columns); break;
INLINE void tile_rows(const tile_operands *o, int64_t rows, int columns) {
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
  int64_t j = 0;
  for (; m == 1 && n - j >= 8 * LANES; j += 8 * LANES) /* one row needs columns enough to hide an addition's latency */
    tile(&(tile_operands){c + j, a, b + j, c_row, a_row, a_column, b_row, k}, 1, 8);
  for (; m <= 2 && n - j >= 4 * LANES; j += 4 * LANES) {
    tile_operands o = {c + j, a, b + j, c_row, a_row, a_column, b_row, k};
    if (m == 1) tile(&o, 1, 4);
    else if (m == 2) tile(&o, 2, 4);
  }
  while (j < n) {
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

/* ---- a mask ---- */

void CPU_LEVELED(add_transposed)(float *c, int64_t c_row, const float *a, int64_t a_row, int64_t n, int64_t k) {
  for (int64_t i = 0; i < n; i += 4) {
    int64_t j = 0;
    for (; n - i >= 4 && k - j >= 4; j += 4) {
      __m128 rows[4];
      for (int r = 0; r < 4; r++) rows[r] = _mm_loadu_ps(a + (i + r) * a_row + j);
      _MM_TRANSPOSE4_PS(rows[0], rows[1], rows[2], rows[3]);
      for (int r = 0; r < 4; r++) {
        float *to = c + (j + r) * c_row + i;
        _mm_storeu_ps(to, _mm_loadu_ps(to) + rows[r]);
      }
    }
    for (; j < k; j++)
      for (int64_t r = i; r < n && r < i + 4; r++) c[j * c_row + r] += a[r * a_row + j];
  }
}

/* ---- dot products of few queries with keys ---- */

#if defined(__AVX512F__)
#define Q_ROWS 4 /* Q_ROWS * 4 accumulators, as many vectors of q, and one of k stay in registers */
#else
#define Q_ROWS 2
#endif

/* The sums of the lanes of a, b, c and d. */
INLINE __m128 four_sums(lanes a, lanes b, lanes c, lanes d) {
#if defined(__AVX512F__)
  lanes ab = _mm512_unpacklo_ps(a, b) + _mm512_unpackhi_ps(a, b),
        cd = _mm512_unpacklo_ps(c, d) + _mm512_unpackhi_ps(c, d);
  lanes all = _mm512_shuffle_ps(ab, cd, 0x44) + _mm512_shuffle_ps(ab, cd, 0xee);
  __m256 half = _mm512_castps512_ps256(all) + _mm512_extractf32x8_ps(all, 1);
  return _mm256_castps256_ps128(half) + _mm256_extractf128_ps(half, 1);
#elif defined(__AVX2__)
  lanes ab = _mm256_unpacklo_ps(a, b) + _mm256_unpackhi_ps(a, b),
        cd = _mm256_unpacklo_ps(c, d) + _mm256_unpackhi_ps(c, d);
  lanes all = _mm256_shuffle_ps(ab, cd, 0x44) + _mm256_shuffle_ps(ab, cd, 0xee);
  return _mm256_castps256_ps128(all) + _mm256_extractf128_ps(all, 1);
#else
  lanes ab = _mm_unpacklo_ps(a, b) + _mm_unpackhi_ps(a, b), cd = _mm_unpacklo_ps(c, d) + _mm_unpackhi_ps(c, d);
  return _mm_shuffle_ps(ab, cd, 0x44) + _mm_shuffle_ps(ab, cd, 0xee);
#endif
}

typedef struct score_operands {
  float *scores;
  const float *q, *k;
  int64_t scores_row, q_row, k_row, n, size;
} score_operands;

/* Scores of `rows` rows of q (a constant after inlining) and of keys j .. j + 4; behind the last key the last one is
 * taken again. */
INLINE void score_four(const score_operands *o, int rows, int64_t j) {
  const float *k[4];
  lanes sum[Q_ROWS][4];
  int64_t vectors = o->size / LANES * LANES;
  lane_mask rest = lanes_between(0, o->size - vectors);
  int n = o->n - j < 4 ? (int)(o->n - j) : 4;
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) k[i] = o->k + (j + (i < n ? i : n - 1)) * o->k_row;
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) sum[r][i] = (lanes){0};
  for (int64_t d = 0; d < vectors; d += LANES) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      lanes key = load(k[i] + d);
#pragma GCC unroll 4
      for (int r = 0; r < rows; r++) sum[r][i] += key * load(o->q + r * o->q_row + d);
    }
  }
  if (vectors < o->size) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      lanes key = load_some(k[i] + vectors, rest);
#pragma GCC unroll 4
      for (int r = 0; r < rows; r++) sum[r][i] += key * load_some(o->q + r * o->q_row + vectors, rest);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
    float four[4];
    _mm_storeu_ps(four, four_sums(sum[r][0], sum[r][1], sum[r][2], sum[r][3]));
    for (int i = 0; i < n; i++) o->scores[r * o->scores_row + j + i] = four[i];
  }
}

void CPU_LEVELED(score_keys)(float *scores, int64_t scores_row, const float *q, int64_t q_row, int64_t rows,
                             const float *k, int64_t k_row, int64_t n, int64_t size) {
  for (int64_t r = 0; r < rows; r += Q_ROWS) {
    score_operands o = {scores + r * scores_row, q + r * q_row, k, scores_row, q_row, k_row, n, size};
    int64_t left = rows - r;
    for (int64_t j = 0; j < n; j += 4) {
      if (left == 1) score_four(&o, 1, j);
#if Q_ROWS == 4
      else if (left == 2) score_four(&o, 2, j);
      else if (left == 3) score_four(&o, 3, j);
#endif
      else score_four(&o, Q_ROWS, j);
    }
  }
}

/* ---- softmax over keys that come in blocks ---- */

/* Lanes i and i ^ d change places. */
#define SWAP_4(x, d, ...) __builtin_shufflevector(x, x, 0 ^ (d), 1 ^ (d), 2 ^ (d), 3 ^ (d), ##__VA_ARGS__)
#define SWAP_8(x, d, ...) SWAP_4(x, d, 4 ^ (d), 5 ^ (d), 6 ^ (d), 7 ^ (d), ##__VA_ARGS__)
#define SWAP_16(x, d) SWAP_8(x, d, 8 ^ (d), 9 ^ (d), 10 ^ (d), 11 ^ (d), 12 ^ (d), 13 ^ (d), 14 ^ (d), 15 ^ (d))

/* The largest lane; NaN if one is NaN. */
INLINE float largest(lanes x) {
#if LANES == 16
  x = larger(x, SWAP_16(x, 8));
  x = larger(x, SWAP_16(x, 4));
  x = larger(x, SWAP_16(x, 2));
  return larger(x, SWAP_16(x, 1))[0];
#elif LANES == 8
  x = larger(x, SWAP_8(x, 4));
  x = larger(x, SWAP_8(x, 2));
  return larger(x, SWAP_8(x, 1))[0];
#else
  x = larger(x, SWAP_4(x, 2));
  return larger(x, SWAP_4(x, 1))[0];
#endif
}

/* The largest of n scores and `most`; n a multiple of LANES. */
INLINE float largest_score(const float *scores, int64_t n, float most) {
  lanes most_lanes = all(most);
  for (int64_t j = 0; j < n; j += LANES) most_lanes = larger(most_lanes, load(scores + j));
  return largest(most_lanes);
}

/* Scores become exp(score - most); returns their sum. */
INLINE float weigh_scores(float *scores, int64_t n, float most) {
  lanes sum = {0};
  float four[4];
  for (int64_t j = 0; j < n; j++) scores[j] = exp_falling(scores[j] - most);
  for (int64_t j = 0; j < n; j += LANES) sum += load(scores + j);
  _mm_storeu_ps(four, four_sums(sum, sum, sum, sum));
  return four[0];
}

/* As attend_keys, for one query whose scores lie side by side. */
float CPU_LEVELED(attend_row)(float *scores, int64_t n, float *most, float *sum) {
  float now = largest_score(scores, n, *most), from = now == -INFINITY ? 0 : now, shrink = exp_falling(*most - from);
  *most = now;
  *sum = *sum * shrink + weigh_scores(scores, n, from);
  return shrink;
}

/* A single key: its factor is 1, unless the score is infinite or NaN. */
INLINE float attend_one_key(const row_operands *o) {
  float score = o->scores[0], factor = score == -INFINITY ? 0 : score - score + 1;
  const float *v = o->n_whole ? o->v : o->rest;
  for (int64_t d = 0; d < o->columns; d += LANES) store(o->sums + d, (lanes){0} + factor * load(v + d));
  return factor;
}

float CPU_LEVELED(attend_whole)(const row_operands *o) {
  int64_t n = (o->n + LANES - 1) / LANES * LANES;
  for (int64_t d = 0; d < o->size; d++) o->scaled[d] = o->scale * o->q[d];
  if (o->n == 1) {
    score_four(&(score_operands){o->scores, o->scaled, o->k, 0, 0, o->k_row, 1, o->size}, 1, 0);
    return attend_one_key(o);
  }
  store(o->scores + n - LANES, all(-INFINITY));
  CPU_LEVELED(score_keys)(o->scores, 0, o->scaled, 0, 1, o->k, o->k_row, o->n, o->size);
  float most = largest_score(o->scores, n, -INFINITY);
  float sum = weigh_scores(o->scores, n, most == -INFINITY ? 0 : most);
  for (int64_t d = 0; d < o->columns; d += LANES) store(o->sums + d, (lanes){0});
  CPU_LEVELED(multiply_add)(o->sums, 0, o->scores, 0, 1, o->v, o->v_row, 1, o->columns, o->n_whole);
  if (o->n > o->n_whole) CPU_LEVELED(multiply_add)
  (o->sums, 0, o->scores + o->n_whole, 0, 1, o->rest, o->columns, 1, o->columns, o->n - o->n_whole);
  return sum;
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
    shrink[i] = exp_falling(shrink[i] - (most[i] == -INFINITY ? 0 : most[i]));
    sum[i] *= shrink[i];
  }
  for (int64_t j = 0; j < n_keys; j++)
    for (int64_t i = 0; i < n; i++) {
      float e = exp_falling(scores[j * n + i] - (most[i] == -INFINITY ? 0 : most[i]));
      scores[j * n + i] = e;
      sum[i] += e;
    }
}
