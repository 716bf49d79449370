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

/* ---- copies of X under strides ---- */

INLINE void store_up_to(float *p, lanes x, int64_t n) {
  if (n >= LANES) store(p, x);
  else store_first(p, x, n > 0 ? n : 0);
}

/* n elements to two or four lanes, as many elements at a time as lanes have vectors; at the end fewer. */
INLINE void part_twos(const float *from, int64_t n, float *to, int64_t apart) {
  int64_t i = 0;
  for (; 2 * (i + LANES) <= n; i += LANES) {
    const lanes a = load(from + 2 * i), b = load(from + 2 * i + LANES);
    store(to + i, ordered(evens(a, b)));
    store(to + apart + i, ordered(odds(a, b)));
  }
  const int64_t left = n - 2 * i;
  if (left == 0) return;
  const lanes a = load_some(from + 2 * i, lanes_between(0, left)),
              b = load_some(from + 2 * i + LANES, lanes_between(0, left - LANES));
  store_up_to(to + i, ordered(evens(a, b)), (left + 1) / 2);
  store_up_to(to + apart + i, ordered(odds(a, b)), left / 2);
}
INLINE void part_fours(const float *from, int64_t n, float *to, int64_t apart) {
  for (int64_t i = 0; 4 * i < n; i += LANES) {
    const float *x = from + 4 * i;
    const int64_t left = n - 4 * i;
    lanes v[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++)
      v[k] = left >= 4 * LANES ? load(x + k * LANES) : load_some(x + k * LANES, lanes_between(0, left - k * LANES));
    const lanes even_low = ordered(evens(v[0], v[1])), even_high = ordered(evens(v[2], v[3])),
                odd_low = ordered(odds(v[0], v[1])), odd_high = ordered(odds(v[2], v[3]));
    store_up_to(to + i, ordered(evens(even_low, even_high)), (left + 3) / 4);
    store_up_to(to + apart + i, ordered(evens(odd_low, odd_high)), (left + 2) / 4);
    store_up_to(to + 2 * apart + i, ordered(odds(even_low, even_high)), (left + 1) / 4);
    store_up_to(to + 3 * apart + i, ordered(odds(odd_low, odd_high)), left / 4);
  }
}

/* Places 0 .. first and last .. n of a lane are 0; the others are written later. */
INLINE void clear_ends(float *to, int64_t first, int64_t last, int64_t n) {
  int64_t i = 0;
  if (n >= LANES) {
    for (; i < first; i += LANES) store(to + (i + LANES <= n ? i : n - LANES), all(0));
    for (i = n; i > last; i -= LANES) store(to + (i >= LANES ? i - LANES : 0), all(0));
    return;
  }
  for (; i < n; i++) to[i] = 0;
}

CPU_UNCHECKED void CPU_LEVELED(part_row)(const plane_row *r, const float *x, float *to) {
  const int64_t n = r->lanes, begin = x ? r->begin : 0, end = x ? r->end : 0, first = n == 1 ? begin : begin / n,
                last = n == 1 ? end : end / n;
  for (int64_t lane = 0; lane < n; lane++)
    clear_ends(to + lane * r->apart, first + (lane < begin - first * n), last + (lane < end - last * n), r->places);
  if (begin == end) return;
  if (n == 1) return copy_segment(x + begin, to + begin, end - begin);
  int64_t i = begin, place = first;
  for (int64_t lane = begin - first * n; lane > 0 && i < end; i++) {
    to[lane * r->apart + place] = x[i];
    if (++lane == n) lane = 0, place++;
  }
  if (n == 2) return part_twos(x + i, end - i, to + place, r->apart);
  if (n == 4) return part_fours(x + i, end - i, to + place, r->apart);
  for (int64_t lane = 0; lane < n; lane++) {
    float *row = to + lane * r->apart + place;
    for (int64_t k = 0; i + k * n + lane < end; k++) row[k] = x[i + k * n + lane];
  }
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
                        int64_t w_row, const float *bias, int64_t j, float *y, int64_t y_row) {
  lanes sum[PLANE_ROWS][8];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) sum[r][v] = (lanes){0};
  x += j;
  for (int64_t c = 0; c < depth->channels; c++, x += depth->channel)
    for (int64_t tap = 0; tap < depth->n_taps; tap++, weights++) {
      const float *from = x + depth->taps[tap];
      lanes weight[PLANE_ROWS];
#pragma GCC unroll 4
      for (int r = 0; r < rows; r++) weight[r] = held(all(weights[r * w_row]));
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) {
        const lanes element = rows > 1 ? held(load(from + v * LANES)) : load(from + v * LANES);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) sum[r][v] += weight[r] * element;
      }
    }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
    if (bias)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) sum[r][v] += all(bias[r]);
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) store(y + r * y_row + j + v * LANES, sum[r][v]);
  }
}

/* n is less than a vector. */
static void sum_narrow(int rows, const float *x, const plane_depth *depth, const float *weights, int64_t w_row,
                       const float *bias, int64_t n, float *y, int64_t y_row) {
  for (int r = 0; r < rows; r++)
    for (int64_t j = 0; j < n; j++) {
      float sum = 0;
      const float *w = weights + r * w_row;
      for (int64_t c = 0; c < depth->channels; c++)
        for (int64_t tap = 0; tap < depth->n_taps; tap++, w++) sum += *w * x[c * depth->channel + depth->taps[tap] + j];
      y[r * y_row + j] = bias ? sum + bias[r] : sum;
    }
}

/* The last vectors may sum some elements once more. */
#define ROWS_OF(rows) \
  static void rows_of_##rows(const float *x, const plane_depth *depth, const float *weights, int64_t w_row, \
                             const float *bias, int64_t n, float *y, int64_t y_row) { \
    enum { MOST = VECTORS_OF_##rows }; \
    int64_t j = 0; \
    for (; j + MOST * LANES <= n; j += MOST * LANES) \
      sum_vectors(rows, MOST, x, depth, weights, w_row, bias, j, y, y_row); \
    if (j == n) return; \
    if (n < LANES) return sum_narrow(rows, x, depth, weights, w_row, bias, n, y, y_row); \
    const int64_t left = n - j, \
                  wanted = left > 4 * LANES   ? MOST \
                           : left > 2 * LANES ? 4 \
                           : left > LANES     ? 2 \
                                              : 1, \
                  vectors = wanted < MOST ? wanted : MOST; \
    if (n < vectors * LANES) { \
      for (; j + 2 * LANES <= n; j += 2 * LANES) sum_vectors(rows, 2, x, depth, weights, w_row, bias, j, y, y_row); \
      if (j + LANES <= n) sum_vectors(rows, 1, x, depth, weights, w_row, bias, j, y, y_row); \
      if (j < n) sum_vectors(rows, 1, x, depth, weights, w_row, bias, n - LANES, y, y_row); \
    } else if (vectors == 1) sum_vectors(rows, 1, x, depth, weights, w_row, bias, n - LANES, y, y_row); \
    else if (vectors == 2) sum_vectors(rows, 2, x, depth, weights, w_row, bias, n - 2 * LANES, y, y_row); \
    else if (vectors == 4 && MOST > 4) sum_vectors(rows, 4, x, depth, weights, w_row, bias, n - 4 * LANES, y, y_row); \
    else sum_vectors(rows, MOST, x, depth, weights, w_row, bias, n - MOST * LANES, y, y_row); \
  }
ROWS_OF(1)
ROWS_OF(2)
ROWS_OF(3)
ROWS_OF(4)

void CPU_LEVELED(plane_rows)(int rows, const float *x, const plane_depth *depth, const float *weights, int64_t w_row,
                             const float *bias, int64_t n, float *y, int64_t y_row) {
  switch (rows) {
    case 1: rows_of_1(x, depth, weights, w_row, bias, n, y, y_row); break;
    case 2: rows_of_2(x, depth, weights, w_row, bias, n, y, y_row); break;
    case 3: rows_of_3(x, depth, weights, w_row, bias, n, y, y_row); break;
    case 4: rows_of_4(x, depth, weights, w_row, bias, n, y, y_row); break;
  }
}
