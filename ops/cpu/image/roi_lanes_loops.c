/* Loops on blocks of channels side by side (roi_lanes_loops.h), compiled once per CPU level. */
#include "ops/cpu/image/roi_lanes_loops.h"

#include <string.h>

#include "base/half.h"
#include "ops/cpu/common/lanes.h"

#define VECTORS (ROI_LANES / LANES) /* of a pixel */
#define AHEAD 16 /* pixels whose lines are asked for before they are read: neighbours lie far apart */

#define AHEAD_TURNED 64 /* the same, where the pixels of a lane are side by side */

typedef int32_t lane_numbers __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t lane_places __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* ---- copies between a tensor and a block ---- */

#if defined(__AVX512F__)
#define LOW(a, b) _mm512_unpacklo_ps(a, b)
#define HIGH(a, b) _mm512_unpackhi_ps(a, b)
#define LOW2(a, b) _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)))
#define HIGH2(a, b) _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)))
#elif defined(__AVX2__)
#define LOW(a, b) _mm256_unpacklo_ps(a, b)
#define HIGH(a, b) _mm256_unpackhi_ps(a, b)
#define LOW2(a, b) _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)))
#define HIGH2(a, b) _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)))
#else
#define LOW(a, b) _mm_unpacklo_ps(a, b)
#define HIGH(a, b) _mm_unpackhi_ps(a, b)
#define LOW2(a, b) _mm_movelh_ps(a, b)
#define HIGH2(a, b) _mm_movehl_ps(b, a)
#endif

INLINE void turn_store(float *to, int row, int64_t to_row, int rows, lanes x) {
  if (row < rows) store(to + row * to_row, x);
}

/* Transposes LANES x LANES floats. Rows rows_in .. of `from` have no memory and are zeros; rows rows_out .. of `to`
 * have none and are not written. */
INLINE void turn(const float *from, int64_t from_row, int rows_in, float *to, int64_t to_row, int rows_out) {
  lanes a[LANES], b[LANES];
  for (int i = 0; i < LANES; i++) a[i] = i < rows_in ? load(from + i * from_row) : all(0);
  for (int i = 0; i < LANES; i += 2) {
    b[i] = LOW(a[i], a[i + 1]);
    b[i + 1] = HIGH(a[i], a[i + 1]);
  }
  /* a[4k + c] becomes, in quarter L of the vector, column 4L + c of rows 4k .. 4k + 3 */
  for (int i = 0; i < LANES; i += 4) {
    a[i] = LOW2(b[i], b[i + 2]);
    a[i + 1] = HIGH2(b[i], b[i + 2]);
    a[i + 2] = LOW2(b[i + 1], b[i + 3]);
    a[i + 3] = HIGH2(b[i + 1], b[i + 3]);
  }
  for (int c = 0; c < 4; c++) {
#if defined(__AVX512F__)
    lanes even = _mm512_shuffle_f32x4(a[c], a[4 + c], 0x88), odd = _mm512_shuffle_f32x4(a[c], a[4 + c], 0xdd),
          even2 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0x88),
          odd2 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0xdd);
    turn_store(to, c, to_row, rows_out, _mm512_shuffle_f32x4(even, even2, 0x88));
    turn_store(to, 4 + c, to_row, rows_out, _mm512_shuffle_f32x4(odd, odd2, 0x88));
    turn_store(to, 8 + c, to_row, rows_out, _mm512_shuffle_f32x4(even, even2, 0xdd));
    turn_store(to, 12 + c, to_row, rows_out, _mm512_shuffle_f32x4(odd, odd2, 0xdd));
#elif defined(__AVX2__)
    turn_store(to, c, to_row, rows_out, _mm256_permute2f128_ps(a[c], a[4 + c], 0x20));
    turn_store(to, 4 + c, to_row, rows_out, _mm256_permute2f128_ps(a[c], a[4 + c], 0x31));
#else
    turn_store(to, c, to_row, rows_out, a[c]);
#endif
  }
}

/* Transposes ROI_LANES x ROI_LANES floats, of which `from` has rows_in rows and `to` rows_out. */
static void turn_block(const float *from, int64_t from_row, int rows_in, float *to, int64_t to_row, int rows_out) {
  for (int i = 0; i < ROI_LANES; i += LANES)
    for (int j = 0; j < ROI_LANES; j += LANES)
      turn(from + i * from_row + j, from_row, rows_in - i, to + j * to_row + i, to_row, rows_out - j);
}

static inline int64_t element_bytes(reed_dtype dtype) { return dtype == REED_F16 || dtype == REED_BF16 ? 2 : 4; }

/* n neighbouring halves */
static inline void read_halves(reed_dtype dtype, const uint16_t *half, int64_t n, float *to) {
  if (dtype == REED_BF16) {
    for (int64_t i = 0; i < n; i++) to[i] = bf16_to_f32(half[i]);
    return;
  }
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(half + i))));
#endif
  for (; i < n; i++) to[i] = f16_to_f32(half[i]);
}

static inline void write_halves(reed_dtype dtype, const float *from, int64_t n, uint16_t *half) {
  if (dtype == REED_BF16) {
    for (int64_t i = 0; i < n; i++) half[i] = bf16_from_f32(from[i]);
    return;
  }
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i *)(half + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
#if defined(__F16C__)
  for (; i + 4 <= n; i += 4)
    _mm_storel_epi64((__m128i *)(half + i),
                     _mm_cvtps_ph(_mm_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
  for (; i < n; i++) half[i] = f16_from_f32(from[i]);
}

/* n neighbouring elements */
static inline void read_elements(reed_dtype dtype, const void *tensor, int64_t n, float *to) {
  if (element_bytes(dtype) == 2) read_halves(dtype, tensor, n, to);
  else memcpy(to, tensor, (size_t)n * 4);
}
static inline void write_elements(reed_dtype dtype, const float *from, int64_t n, void *tensor) {
  if (element_bytes(dtype) == 2) write_halves(dtype, from, n, tensor);
  else memcpy(tensor, from, (size_t)n * 4);
}

/* Copies n halves, at most ROI_LANES. */
static inline void move_halves(const uint16_t *from, int64_t n, uint16_t *to) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  __mmask16 some = lanes_between(0, n);
  _mm256_mask_storeu_epi16(to, some, _mm256_maskz_loadu_epi16(some, from));
#else
  memcpy(to, from, (size_t)n * sizeof *to);
#endif
}

/* The first n lanes of a pixel whose lanes are side by side in the tensor; the others are 0. */
static inline void read_first(reed_dtype dtype, const void *tensor, int64_t n, float *pixel) {
  for (int v = 0; v < VECTORS && element_bytes(dtype) == 4; v++)
    store(pixel + v * LANES, load_some((const float *)tensor + v * LANES, lanes_between(0, n - v * LANES)));
  if (element_bytes(dtype) == 4) return;
  uint16_t halves[ROI_LANES] = {0};
  move_halves(tensor, n, halves);
  read_halves(dtype, halves, ROI_LANES, pixel);
}
static inline void write_first(reed_dtype dtype, const float *pixel, int64_t n, void *tensor) {
  if (element_bytes(dtype) == 2) {
    uint16_t halves[ROI_LANES];
    write_halves(dtype, pixel, ROI_LANES, halves);
    move_halves(halves, n, tensor);
    return;
  }
  float *to = tensor;
  for (; n >= LANES; n -= LANES, pixel += LANES, to += LANES) store(to, load(pixel));
  if (n) store_first(to, load(pixel), n);
}

/* Elements `lane` bytes apart, ROI_LANES of which the first n exist; halves are converted all at once. */
static inline void read_lanes(reed_dtype dtype, const char *from, int64_t lane, int32_t n, float *to) {
  uint16_t halves[ROI_LANES] = {0};
  for (int32_t k = 0; k < n; k++) memcpy(&halves[k], from + k * lane, sizeof halves[k]);
  read_halves(dtype, halves, ROI_LANES, to);
}
static inline void write_lanes(reed_dtype dtype, const float *from, int32_t n, int64_t lane, char *to) {
  if (element_bytes(dtype) == 4) {
    for (int32_t k = 0; k < n; k++) memcpy(to + k * lane, from + k, sizeof *from);
    return;
  }
  uint16_t halves[ROI_LANES];
  write_halves(dtype, from, ROI_LANES, halves);
  for (int32_t k = 0; k < n; k++) memcpy(to + k * lane, &halves[k], sizeof halves[k]);
}

/* ---- four neighbouring elements of each lane ---- */

static inline __m128 read_four(reed_dtype dtype, const void *from) {
  if (dtype == REED_F32) return _mm_loadu_ps(from);
  __m128i halves = _mm_loadl_epi64(from);
  if (dtype == REED_BF16) return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), halves));
#if defined(__F16C__)
  return _mm_cvtph_ps(halves);
#else
  float four[ROI_FOURS];
  read_elements(dtype, from, ROI_FOURS, four);
  return _mm_loadu_ps(four);
#endif
}

/* bf16 of four numbers, as bf16_from_f32, in the lower half. */
static inline __m128i bf16_of_four(__m128 x) {
  __m128i bits = _mm_castps_si128(x), odd = _mm_and_si128(_mm_srli_epi32(bits, 16), _mm_set1_epi32(1)),
          rounded = _mm_add_epi32(_mm_add_epi32(bits, _mm_set1_epi32(0x7fff)), odd),
          quiet = _mm_or_si128(bits, _mm_set1_epi32(0x400000)), nan = _mm_castps_si128(_mm_cmpunord_ps(x, x)),
          high = _mm_srli_epi32(_mm_or_si128(_mm_and_si128(nan, quiet), _mm_andnot_si128(nan, rounded)), 16);
  return _mm_shuffle_epi32(_mm_shufflehi_epi16(_mm_shufflelo_epi16(high, 0x08), 0x08), 0x08);
}

static inline void write_four(reed_dtype dtype, __m128 x, void *to) {
  float four[ROI_FOURS];
  if (dtype == REED_BF16) {
    _mm_storel_epi64(to, bf16_of_four(x));
    return;
  }
  _mm_storeu_ps(four, x);
  write_elements(dtype, four, ROI_FOURS, to);
}

static void read_fours(const roi_lane_form *f, const char *tensor, int64_t pixels, float *block) {
  int64_t bytes = element_bytes(f->dtype), step = f->pixel * bytes, lane = f->lane * bytes;
  for (int64_t i = 0; i < pixels; i++, tensor += step, block += ROI_LANES)
    for (int32_t k = 0; k < ROI_LANES; k += ROI_FOURS) {
      __m128 row[ROI_FOURS];
      for (int c = 0; c < ROI_FOURS; c++) {
        row[c] = k + c < f->n ? read_four(f->dtype, tensor + (k + c) * lane) : _mm_setzero_ps();
        __builtin_prefetch(tensor + AHEAD / 2 * step + (k + c) * lane);
      }
      _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
      for (int c = 0; c < ROI_FOURS; c++) _mm_storeu_ps(block + c * f->apart + k, row[c]);
    }
}

static void write_fours(const roi_lane_form *f, const float *block, int64_t pixels, char *tensor) {
  int64_t bytes = element_bytes(f->dtype), step = f->pixel * bytes, lane = f->lane * bytes;
  for (int64_t i = 0; i < pixels; i++, tensor += step, block += ROI_LANES)
    for (int32_t k = 0; k < f->n; k += ROI_FOURS) {
      __m128 row[ROI_FOURS];
      for (int c = 0; c < ROI_FOURS; c++) {
        row[c] = _mm_loadu_ps(block + c * f->apart + k);
        __builtin_prefetch(tensor + AHEAD / 2 * step + (k + c) * lane, 1);
      }
      _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
      for (int c = 0; c < ROI_FOURS && k + c < f->n; c++) write_four(f->dtype, row[c], tensor + (k + c) * lane);
    }
}

/* ---- blocks ---- */

/* Lanes side by side in the tensor. */
static void read_side_by_side(const roi_lane_form *f, const char *tensor, int64_t pixels, float *block) {
  int64_t step = f->pixel * element_bytes(f->dtype);
  for (int64_t i = 0; i < pixels; i++, tensor += step, block += ROI_LANES) {
    __builtin_prefetch(tensor + AHEAD * step);
    if (f->n == ROI_LANES) read_elements(f->dtype, tensor, ROI_LANES, block);
    else read_first(f->dtype, tensor, f->n, block);
  }
}

/* Pixels i.. of 4 bytes, whose lanes lie apart in the tensor. */
static void read_apart(const roi_lane_form *f, const float *restrict tensor, int64_t i, int64_t pixels,
                       float *restrict block) {
  for (; i < pixels; i++) {
    const float *from = tensor + i * f->pixel;
    float *to = block + i * ROI_LANES;
    int32_t k = 0;
    for (; k + 2 <= f->n; k += 2) {
      to[k] = from[k * f->lane];
      to[k + 1] = from[(k + 1) * f->lane];
    }
    for (; k < ROI_LANES; k++) to[k] = k < f->n ? from[k * f->lane] : 0;
  }
}

void CPU_LEVELED(roi_lanes_read)(const roi_lane_form *f, const void *tensor, int64_t pixels, float *block) {
  const char *from = tensor;
  int64_t bytes = element_bytes(f->dtype), step = f->pixel * bytes, lane = f->lane * bytes, i = 0;
  if (f->fours || f->lane == 1) {
    (f->fours ? read_fours : read_side_by_side)(f, from, pixels, block);
    return;
  }
  for (; f->pixel == 1 && i + 2 <= pixels; i += ROI_LANES) { /* pixels side by side: transposed in blocks */
    int64_t n = pixels - i < ROI_LANES ? pixels - i : ROI_LANES;
    const char *at = from + i * bytes;
    for (int32_t k = 0; k < f->n; k++) __builtin_prefetch(at + k * lane + AHEAD_TURNED * bytes);
    if (n == ROI_LANES && bytes == 4) {
      turn_block((const float *)(const void *)at, f->lane, f->n, block + i * ROI_LANES, ROI_LANES, ROI_LANES);
      continue;
    }
    float rows[ROI_LANES * ROI_LANES] = {0}, turned[ROI_LANES * ROI_LANES];
    for (int32_t k = 0; k < f->n; k++) {
      if (n == ROI_LANES) read_elements(f->dtype, at + k * lane, ROI_LANES, rows + k * ROI_LANES);
      else read_elements(f->dtype, at + k * lane, n, rows + k * ROI_LANES);
    }
    float *to = n == ROI_LANES ? block + i * ROI_LANES : turned;
    turn_block(rows, ROI_LANES, f->n, to, ROI_LANES, ROI_LANES);
    if (to == turned) memcpy(block + i * ROI_LANES, turned, (size_t)n * ROI_LANES * sizeof *block);
  }
  if (bytes == 4) read_apart(f, (const float *)tensor, i, pixels, block);
  for (; i < pixels && bytes == 2; i++) read_lanes(f->dtype, from + i * step, lane, f->n, block + i * ROI_LANES);
}

void CPU_LEVELED(roi_lanes_write)(const roi_lane_form *f, const float *block, int64_t pixels, void *tensor) {
  char *to = tensor;
  int64_t bytes = element_bytes(f->dtype), step = f->pixel * bytes, lane = f->lane * bytes, i = 0;
  if (f->fours) {
    write_fours(f, block, pixels, to);
    return;
  }
  for (; f->lane == 1 && i < pixels; i++) {
    if (f->n == ROI_LANES) write_elements(f->dtype, block + i * ROI_LANES, ROI_LANES, to + i * step);
    else write_first(f->dtype, block + i * ROI_LANES, f->n, to + i * step);
  }
  for (; f->pixel == 1 && i + 2 <= pixels; i += ROI_LANES) {
    int64_t n = pixels - i < ROI_LANES ? pixels - i : ROI_LANES;
    char *at = to + i * bytes;
    if (n == ROI_LANES && bytes == 4) {
      turn_block(block + i * ROI_LANES, ROI_LANES, ROI_LANES, (float *)(void *)at, f->lane, f->n);
      continue;
    }
    float pixels_read[ROI_LANES * ROI_LANES], rows[ROI_LANES * ROI_LANES];
    const float *read = block + i * ROI_LANES;
    if (n < ROI_LANES) {
      memset(pixels_read, 0, sizeof pixels_read);
      memcpy(pixels_read, read, (size_t)n * ROI_LANES * sizeof *read);
      read = pixels_read;
    }
    turn_block(read, ROI_LANES, (int)n, rows, ROI_LANES, f->n);
    for (int32_t k = 0; k < f->n; k++) {
      if (n == ROI_LANES) write_elements(f->dtype, rows + k * ROI_LANES, ROI_LANES, at + k * lane);
      else write_elements(f->dtype, rows + k * ROI_LANES, n, at + k * lane);
    }
  }
  for (; i < pixels; i++) write_lanes(f->dtype, block + i * ROI_LANES, f->n, lane, to + i * step);
}

/* ---- sums of taps ---- */

#define TAPS_FEW 4

/* y = the sum of a bin's taps, of which there are n along x. */
static void sum_bin(const roi_lane_bins *b, int32_t t, int32_t t_end, int32_t u, int32_t n, const float *map,
                    float *y) {
  const int32_t *restrict columns = b->x->index + u, *restrict rows = b->y->index;
  const float *restrict along = b->x->weight + u, *restrict down = b->y->weight;
  lanes sum[VECTORS] = {{0}};
  for (; t < t_end && n > 0; t++) {
    const float *row = map + rows[t] * b->width * ROI_LANES;
    lanes part[VECTORS];
    for (int v = 0; v < VECTORS; v++) part[v] = along[0] * load(row + columns[0] * (int64_t)ROI_LANES + v * LANES);
    for (int32_t k = 1; k < n; k++)
      for (int v = 0; v < VECTORS; v++) part[v] += along[k] * load(row + columns[k] * (int64_t)ROI_LANES + v * LANES);
    for (int v = 0; v < VECTORS; v++) sum[v] += down[t] * part[v];
  }
  for (int v = 0; v < VECTORS; v++) store(y + v * LANES, sum[v]);
}

/* y = the sum of a bin's taps in `n_rows` rows and `n` columns, both constants where it is inlined: the loops unroll.
 */
INLINE void sum_few(const float *const *rows, const float *down, int n_rows, const int32_t *restrict columns,
                    const float *restrict along, int n, float *restrict y) {
  int64_t at[TAPS_FEW];
  for (int k = 0; k < n; k++) at[k] = columns[k] * (int64_t)ROI_LANES;
  for (int v = 0; v < VECTORS; v++) {
    lanes sum = {0};
    for (int t = 0; t < n_rows; t++) {
      lanes part = along[0] * load(rows[t] + at[0] + v * LANES);
      for (int k = 1; k < n; k++) part += along[k] * load(rows[t] + at[k] + v * LANES);
      sum = t ? sum + down[t] * part : down[t] * part;
    }
    store(y + v * LANES, sum);
  }
}

/* One row of bins, whose taps have n_rows rows. */
INLINE void mean_few(const roi_lane_bins *b, int64_t p, int n_rows, const float *map, float *restrict y) {
  const int32_t *restrict begin = b->x->begin, *restrict columns = b->x->index;
  const float *restrict along = b->x->weight, *rows[TAPS_FEW];
  float down[TAPS_FEW];
  int32_t t = b->y->begin[p];
  for (int i = 0; i < n_rows; i++) {
    rows[i] = map + b->y->index[t + i] * b->width * ROI_LANES;
    down[i] = b->y->weight[t + i];
  }
  for (int64_t q = b->q; q < b->after_q; q++, y += ROI_LANES) {
    int32_t u = begin[q], n = begin[q + 1] - u;
    if (n == 4) sum_few(rows, down, n_rows, columns + u, along + u, 4, y);
    else if (n == 3) sum_few(rows, down, n_rows, columns + u, along + u, 3, y);
    else sum_bin(b, t, t + n_rows, u, n, map, y);
  }
}

/* Two samples along an axis have two to four taps. */
static void mean_sparse(const roi_lane_bins *b, const float *map, float *y) {
  int64_t row = (b->after_q - b->q) * ROI_LANES;
  for (int64_t p = b->p; p < b->after_p; p++, y += row) {
    int32_t t = b->y->begin[p], t_end = b->y->begin[p + 1];
    if (t_end - t == 4) {
      mean_few(b, p, 4, map, y);
    } else if (t_end - t == 3) {
      mean_few(b, p, 3, map, y);
    } else {
      for (int64_t q = b->q; q < b->after_q; q++)
        sum_bin(b, t, t_end, b->x->begin[q], b->x->begin[q + 1] - b->x->begin[q], map, y + (q - b->q) * ROI_LANES);
    }
  }
}

#define SUM_ROWS(expression) \
  do { \
    if (first) \
      for (int64_t j = 0; j < n; j++) sums[j] = (expression); \
    else \
      for (int64_t j = 0; j < n; j++) sums[j] += (expression); \
  } while (0)

/* sums = the weighted sum of a row of bins' rows, at the columns that some tap needs */
static void sum_rows(const roi_lane_bins *b, int64_t p, const float *map) {
  float *restrict sums = b->sums;
  int64_t n = b->columns * ROI_LANES, row = b->width * ROI_LANES;
  const int32_t *index = b->y->index;
  const float *w = b->y->weight, *from = map + b->column * ROI_LANES;
  int32_t t = b->y->begin[p], end = b->y->begin[p + 1];
  bool first = true;
  for (; t + 4 <= end; t += 4, first = false) {
    const float *restrict a = from + index[t] * row, *restrict c = from + index[t + 1] * row,
                          *restrict d = from + index[t + 2] * row, *restrict e = from + index[t + 3] * row;
    float wa = w[t], wc = w[t + 1], wd = w[t + 2], we = w[t + 3];
    SUM_ROWS(wa * a[j] + wc * c[j] + wd * d[j] + we * e[j]);
  }
  for (; t + 2 <= end; t += 2, first = false) {
    const float *restrict a = from + index[t] * row, *restrict c = from + index[t + 1] * row;
    float wa = w[t], wc = w[t + 1];
    SUM_ROWS(wa * a[j] + wc * c[j]);
  }
  for (; t < end; t++, first = false) {
    const float *restrict a = from + index[t] * row;
    float wa = w[t];
    SUM_ROWS(wa * a[j]);
  }
}

static void mean_dense(const roi_lane_bins *b, const float *map, float *y) {
  for (int64_t p = b->p; p < b->after_p; p++) {
    bool none = b->y->begin[p] == b->y->begin[p + 1];
    if (!none) sum_rows(b, p, map);
    for (int64_t q = b->q; q < b->after_q; q++, y += ROI_LANES) {
      lanes sum[VECTORS] = {{0}};
      for (int32_t u = b->x->begin[q]; u < b->x->begin[q + 1] && !none; u++) {
        const float *at = b->sums + (b->x->index[u] - b->column) * ROI_LANES;
        for (int v = 0; v < VECTORS; v++) sum[v] += b->x->weight[u] * load(at + v * LANES);
      }
      for (int v = 0; v < VECTORS; v++) store(y + v * LANES, sum[v]);
    }
  }
}

void CPU_LEVELED(roi_lanes_mean)(const roi_lane_bins *b, const float *map, float *y) {
  if (b->dense) mean_dense(b, map, y);
  else mean_sparse(b, map, y);
}

/* ---- their gradients ---- */

/* Adds a bin's gradient to its taps, of which there are n along x. */
INLINE void spread_bin(const roi_lane_bins *b, int32_t t, int32_t t_end, int32_t u, int32_t n, const float *g,
                       float *map) {
  const int32_t *restrict columns = b->x->index + u, *restrict rows = b->y->index;
  const float *restrict along = b->x->weight + u, *restrict down = b->y->weight;
  lanes from[VECTORS];
  for (int v = 0; v < VECTORS; v++) from[v] = load(g + v * LANES);
  for (; t < t_end; t++) {
    if (rows[t] < b->band.first || rows[t] >= b->band.after) continue;
    float *row = map + rows[t] * b->width * ROI_LANES;
    for (int32_t k = 0; k < n; k++) {
      float weight = down[t] * along[k], *at = row + columns[k] * (int64_t)ROI_LANES;
      for (int v = 0; v < VECTORS; v++) store(at + v * LANES, load(at + v * LANES) + weight * from[v]);
    }
  }
}

static void spread_sparse(const roi_lane_bins *b, const float *g, float *map) {
  for (int64_t p = b->p; p < b->after_p; p++)
    for (int64_t q = b->q; q < b->after_q; q++, g += ROI_LANES) {
      int32_t t = b->y->begin[p], t_end = b->y->begin[p + 1], u = b->x->begin[q], n = b->x->begin[q + 1] - u;
      if (n == 4) spread_bin(b, t, t_end, u, 4, g, map);
      else if (n == 2) spread_bin(b, t, t_end, u, 2, g, map);
      else spread_bin(b, t, t_end, u, n, g, map);
    }
}

static void spread_dense(const roi_lane_bins *b, const float *g, float *map) {
  float *restrict sums = b->sums;
  int64_t n = b->columns * ROI_LANES;
  for (int64_t p = b->p; p < b->after_p; p++) {
    memset(sums, 0, (size_t)n * sizeof *sums);
    for (int64_t q = b->q; q < b->after_q; q++, g += ROI_LANES)
      for (int32_t u = b->x->begin[q]; u < b->x->begin[q + 1]; u++) {
        float *at = sums + (b->x->index[u] - b->column) * ROI_LANES;
        for (int v = 0; v < VECTORS; v++)
          store(at + v * LANES, load(at + v * LANES) + b->x->weight[u] * load(g + v * LANES));
      }
    for (int32_t t = b->y->begin[p]; t < b->y->begin[p + 1]; t++) {
      if (b->y->index[t] < b->band.first || b->y->index[t] >= b->band.after) continue;
      float *restrict to = map + (b->y->index[t] * b->width + b->column) * ROI_LANES, weight = b->y->weight[t];
      for (int64_t j = 0; j < n; j++) to[j] += weight * sums[j];
    }
  }
}

void CPU_LEVELED(roi_lanes_mean_back)(const roi_lane_bins *b, const float *g, float *map) {
  if (b->dense) spread_dense(b, g, map);
  else spread_sparse(b, g, map);
}

/* ---- largest pixels ---- */

/* The larger of (most, at) and (v, place). Of equal values, the earlier place if `ties`, else (most, at). A place of
 * nothing is -1, the last one. */
INLINE void keep_most(bool ties, lanes v, lane_places place, lanes *most, lane_places *at) {
#if defined(__AVX512F__)
  __mmask16 more = _mm512_cmp_ps_mask(v, *most, _CMP_GT_OQ);
  if (ties)
    more |= _mm512_mask_cmplt_epu32_mask(_mm512_cmp_ps_mask(v, *most, _CMP_EQ_OQ), (__m512i)place, (__m512i)*at);
  *most = _mm512_mask_mov_ps(*most, more, v);
  *at = (lane_places)_mm512_mask_mov_epi32((__m512i)*at, more, (__m512i)place);
#else
  lane_numbers more = v > *most;
  if (ties) more |= (v == *most) & (place < *at);
  *most = (lanes)(((lane_numbers)v & more) | ((lane_numbers)*most & ~more));
  *at = (place & (lane_places)more) | (*at & ~(lane_places)more);
#endif
}

INLINE lane_places places(uint32_t place) { return (lane_places){0} + place; }
INLINE lane_places load_places(const void *p) { return *(const lane_places *)p; }
INLINE void store_places(void *p, lane_places x) { *(lane_places *)p = x; }

/* The largest pixel of each column over rows begin..end-1, and its number. */
static void most_of_columns(const roi_ranges *r, const float *map, int64_t begin, int64_t end, int64_t first,
                            int64_t after, float *most, float *at) {
  for (int64_t j = first; j < after; j++)
    for (int v = 0; v < VECTORS; v++) {
      lanes m = all(-__FLT_MAX__);
      lane_places place = places((uint32_t)-1);
      for (int64_t i = begin; i < end; i++) {
        int64_t pixel = i * r->width + j;
        keep_most(false, load(map + pixel * ROI_LANES + v * LANES), places((uint32_t)pixel), &m, &place);
      }
      store(most + j * ROI_LANES + v * LANES, m);
      store_places(at + j * ROI_LANES + v * LANES, place);
    }
}

void CPU_LEVELED(roi_lanes_most)(const roi_ranges *r, const float *map, float *scratch, float *y, int32_t *argmax) {
  float *most = scratch, *at = scratch + r->width * ROI_LANES;
  int64_t first = r->width, after = 0;
  for (int64_t q = 0; q < r->bins_x; q++) {
    if (r->x[2 * q] < r->x[2 * q + 1] && r->x[2 * q] < first) first = r->x[2 * q];
    if (r->x[2 * q] < r->x[2 * q + 1] && r->x[2 * q + 1] > after) after = r->x[2 * q + 1];
  }
  for (int64_t p = 0; p < r->bins_y; p++) {
    int64_t begin = r->y[2 * p], end = r->y[2 * p + 1];
    if (begin < end) most_of_columns(r, map, begin, end, first, after, most, at);
    for (int64_t q = 0; q < r->bins_x; q++, y += ROI_LANES, argmax += ROI_LANES) {
      bool empty = begin >= end || r->x[2 * q] >= r->x[2 * q + 1];
      for (int v = 0; v < VECTORS; v++) {
        lanes m = all(empty ? 0 : -__FLT_MAX__);
        lane_places place = places((uint32_t)-1);
        for (int64_t j = r->x[2 * q]; j < r->x[2 * q + 1] && !empty; j++)
          keep_most(true, load(most + j * ROI_LANES + v * LANES), load_places(at + j * ROI_LANES + v * LANES), &m,
                    &place);
        store(y + v * LANES, m);
        store_places(argmax + v * LANES, place);
      }
    }
  }
}

void CPU_LEVELED(roi_lanes_most_back)(const float *g, const int32_t *argmax, int64_t n, int64_t begin, int64_t end,
                                      float *map) {
  for (int64_t k = 0; k < n; k++, g += ROI_LANES, argmax += ROI_LANES)
    for (int i = 0; i < ROI_LANES; i++)
      if (argmax[i] >= begin && argmax[i] < end) map[argmax[i] * (int64_t)ROI_LANES + i] += g[i];
}
