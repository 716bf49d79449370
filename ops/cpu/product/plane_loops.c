/* Loops of convolutions with channels second (ops/cpu/product/plane_loops.h), compiled once per CPU level. */
#include "ops/cpu/product/plane_loops.h"

#include "ops/cpu/common/lanes.h"

/* ---- panels ---- */

/* The last vector of a segment may overlap the one before. */
INLINE void copy_segment(const float *from, float *to, int64_t n) {
  if (n >= LANES) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(to + i, load(from + i));
    if (i < n) store(to + n - LANES, load(from + n - LANES));
    return;
  }
  for (int64_t i = 0; i < n; i++) to[i] = from[i];
}

CPU_UNCHECKED void CPU_LEVELED(gather_panel)(const float *x, const plane_depth *depth, int64_t k, int64_t n_rows,
                                             const plane_segment *segments, int64_t n_segments, int64_t width,
                                             float *panel) {
  int64_t channel = k / depth->n_taps, tap = k % depth->n_taps;
  for (int64_t end = k + n_rows; k < end; k++, panel += width) {
    const float *from = x + channel * depth->channel + depth->taps[tap];
    for (int64_t i = 0; i < n_segments; i++)
      copy_segment(from + segments[i].from, panel + segments[i].to, segments[i].n);
    if (++tap < depth->n_taps) continue;
    tap = 0;
    channel++;
  }
}

/* ---- rows of transposed convolutions ---- */

CPU_UNCHECKED void CPU_LEVELED(spread)(const float *from, int64_t n, int64_t step, float *to) {
  int64_t i = 0;
#if defined(__AVX512F__)
  const __m512i low = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
                high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  for (; i + LANES <= n && step == 2; i += LANES) {
    _mm512_mask_storeu_ps(to + 2 * i, 0x5555, _mm512_permutexvar_ps(low, load(from + i)));
    _mm512_mask_storeu_ps(to + 2 * i + LANES, 0x5555, _mm512_permutexvar_ps(high, load(from + i)));
  }
  if (i < n && step == 2) {
    const int64_t left = n - i;
    const __m512 v = load_some(from + i, lanes_between(0, left));
    _mm512_mask_storeu_ps(to + 2 * i, 0x5555 & lanes_between(0, 2 * left), _mm512_permutexvar_ps(low, v));
    _mm512_mask_storeu_ps(to + 2 * i + LANES, 0x5555 & lanes_between(0, 2 * left - LANES),
                          _mm512_permutexvar_ps(high, v));
    return;
  }
#endif
  for (; i < n; i++) to[i * step] = from[i];
}

/* ---- few outputs ---- */

/* Vectors of a row that are summed side by side: the sums and one row of X stay in registers. */
#if LANES == 16
#define VECTORS_OF_1 8
#define VECTORS_OF_2 6
#define VECTORS_OF_3 6
#define VECTORS_OF_4 5
#else
#define VECTORS_OF_1 8
#define VECTORS_OF_2 4
#define VECTORS_OF_3 3
#define VECTORS_OF_4 2
#endif

/* `vectors` vectors from element j on; rows and vectors are constants after inlining. */
INLINE void sum_vectors(int rows, int vectors, const float *x, const plane_depth *depth, const float *weights,
                        int64_t w_row, int64_t j, float *y, int64_t y_row) {
  lanes sum[PLANE_ROWS][8];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) sum[r][v] = (lanes){0};
  x += j;
  for (int64_t c = 0; c < depth->channels; c++, x += depth->channel)
    for (int64_t tap = 0; tap < depth->n_taps; tap++, weights++) {
      const float *from = x + depth->taps[tap];
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) {
        lanes element = load(from + v * LANES);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) sum[r][v] += weights[r * w_row] * element;
      }
    }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) store(y + r * y_row + j + v * LANES, sum[r][v]);
}

/* n is less than a vector. */
static void sum_narrow(int rows, const float *x, const plane_depth *depth, const float *weights, int64_t w_row,
                       int64_t n, float *y, int64_t y_row) {
  for (int r = 0; r < rows; r++)
    for (int64_t j = 0; j < n; j++) {
      float sum = 0;
      const float *w = weights + r * w_row;
      for (int64_t c = 0; c < depth->channels; c++)
        for (int64_t tap = 0; tap < depth->n_taps; tap++, w++) sum += *w * x[c * depth->channel + depth->taps[tap] + j];
      y[r * y_row + j] = sum;
    }
}

#define ROWS_OF(rows) \
  static void rows_of_##rows(const float *x, const plane_depth *depth, const float *weights, int64_t w_row, int64_t n, \
                             float *y, int64_t y_row) { \
    int64_t j = 0; \
    for (; j + VECTORS_OF_##rows * LANES <= n; j += VECTORS_OF_##rows * LANES) \
      sum_vectors(rows, VECTORS_OF_##rows, x, depth, weights, w_row, j, y, y_row); \
    for (; j + 2 * LANES <= n; j += 2 * LANES) sum_vectors(rows, 2, x, depth, weights, w_row, j, y, y_row); \
    for (; j + LANES <= n; j += LANES) sum_vectors(rows, 1, x, depth, weights, w_row, j, y, y_row); \
    if (j == n) return; \
    if (n >= LANES) sum_vectors(rows, 1, x, depth, weights, w_row, n - LANES, y, y_row); /* some once more */ \
    else sum_narrow(rows, x, depth, weights, w_row, n, y, y_row); \
  }
ROWS_OF(1)
ROWS_OF(2)
ROWS_OF(3)
ROWS_OF(4)

void CPU_LEVELED(plane_rows)(int rows, const float *x, const plane_depth *depth, const float *weights, int64_t w_row,
                             int64_t n, float *y, int64_t y_row) {
  switch (rows) {
    case 1: rows_of_1(x, depth, weights, w_row, n, y, y_row); break;
    case 2: rows_of_2(x, depth, weights, w_row, n, y, y_row); break;
    case 3: rows_of_3(x, depth, weights, w_row, n, y, y_row); break;
    case 4: rows_of_4(x, depth, weights, w_row, n, y, y_row); break;
  }
}
