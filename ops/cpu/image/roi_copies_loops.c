/* Copies between a tensor and a block of channels side by side (roi_lanes_loops.h), compiled once per CPU level. */
#include "ops/cpu/image/roi_lanes_loops.h"

#include <string.h>

#include "base/half.h"
#include "ops/cpu/common/lanes.h"
#include "ops/cpu/common/turn.h"

#define VECTORS (ROI_LANES / LANES) /* of a pixel */
#define AHEAD 16 /* pixels whose lines are asked for before they are read: neighbours lie far apart */

#define AHEAD_TURNED 64 /* the same, where the pixels of a lane are side by side */

/* ---- elements ---- */

static inline int64_t element_bytes(reed_dtype dtype) { return dtype == REED_F16 || dtype == REED_BF16 ? 2 : 4; }

/* A vector of halves. */
#if defined(__AVX512F__)
INLINE lanes lanes_of(reed_dtype dtype, __m256i halves) {
  if (dtype == REED_F16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
INLINE __m256i halves_of(reed_dtype dtype, lanes x) {
  if (dtype == REED_F16) return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  /* as store_bf16, in fewer instructions than gcc makes of its comparison */
  const __m512i bits = _mm512_castps_si512(x),
                odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1)),
                up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i rounded = _mm512_mask_or_epi32(up, nan, bits, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}
#endif

INLINE lanes load_half(reed_dtype dtype, const uint16_t *p) {
#if defined(__AVX512F__)
  return lanes_of(dtype, _mm256_loadu_si256((const void *)p));
#else
  if (dtype == REED_BF16) return load_bf16(p);
#if defined(__F16C__)
  return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
#else
  lanes x = {0};
  for (int i = 0; i < LANES; i++) x[i] = f16_to_f32(p[i]);
  return x;
#endif
#endif
}
INLINE void store_half(reed_dtype dtype, uint16_t *p, lanes x) {
#if defined(__AVX512F__)
  _mm256_storeu_si256((void *)p, halves_of(dtype, x));
#else
  if (dtype == REED_BF16) {
    store_bf16(p, x);
    return;
  }
#if defined(__F16C__)
  _mm_storeu_si128((void *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
  for (int i = 0; i < LANES; i++) p[i] = f16_from_f32(x[i]);
#endif
#endif
}

/* The halves of a pixel's lanes, side by side. */
static inline void read_halves(reed_dtype dtype, const uint16_t *half, float *to) {
  for (int v = 0; v < ROI_LANES; v += LANES) store(to + v, load_half(dtype, half + v));
}
static inline void write_halves(reed_dtype dtype, const float *from, uint16_t *half) {
  for (int v = 0; v < ROI_LANES; v += LANES) store_half(dtype, half + v, load(from + v));
}

/* A pixel's lanes, side by side. */
static inline void read_elements(reed_dtype dtype, const void *tensor, float *to) {
  if (element_bytes(dtype) == 2) read_halves(dtype, tensor, to);
  else memcpy(to, tensor, ROI_LANES * sizeof *to);
}
static inline void write_elements(reed_dtype dtype, const float *from, void *tensor) {
  if (element_bytes(dtype) == 2) write_halves(dtype, from, tensor);
  else memcpy(tensor, from, ROI_LANES * sizeof *from);
}

/* The first n lanes of a pixel whose lanes are side by side in the tensor; the others are 0. */
static inline void read_first(reed_dtype dtype, const void *tensor, int64_t n, float *pixel) {
  for (int v = 0; v < VECTORS && element_bytes(dtype) == 4; v++)
    store(pixel + v * LANES, load_some((const float *)tensor + v * LANES, lanes_between(0, n - v * LANES)));
  if (element_bytes(dtype) == 4) return;
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  /* not by way of memory: a load after a masked store to it waits until the store has left the core */
  store(pixel, lanes_of(dtype, _mm256_maskz_loadu_epi16(lanes_between(0, n), tensor)));
#else
  uint16_t halves[ROI_LANES] = {0};
  memcpy(halves, tensor, (size_t)n * sizeof *halves);
  read_halves(dtype, halves, pixel);
#endif
}
static inline void write_first(reed_dtype dtype, const float *pixel, int64_t n, void *tensor) {
  if (element_bytes(dtype) == 2) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    _mm256_mask_storeu_epi16(tensor, lanes_between(0, n), halves_of(dtype, load(pixel)));
#else
    uint16_t halves[ROI_LANES];
    write_halves(dtype, pixel, halves);
    memcpy(tensor, halves, (size_t)n * sizeof *halves);
#endif
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
  read_halves(dtype, halves, to);
}
static inline void write_lanes(reed_dtype dtype, const float *from, int32_t n, int64_t lane, char *to) {
  if (element_bytes(dtype) == 4) {
    for (int32_t k = 0; k < n; k++) memcpy(to + k * lane, from + k, sizeof *from);
    return;
  }
  uint16_t halves[ROI_LANES];
  write_halves(dtype, from, halves);
  for (int32_t k = 0; k < n; k++) memcpy(to + k * lane, &halves[k], sizeof halves[k]);
}

/* ---- transposing ---- */

/* A place of elements in rows, `row` elements apart. Rows `rows` .. have no memory: they are zeros and not written. */
typedef struct turned {
  reed_dtype dtype; /* a constant where it is inlined */
  char *at;
  int64_t row;
  int rows;
} turned;

INLINE lanes turn_load(const turned *t, int row) {
  if (row >= t->rows) return all(0);
  const char *from = t->at + row * t->row * element_bytes(t->dtype);
  return t->dtype == REED_F32 ? load((const float *)(const void *)from) : load_half(t->dtype, (const void *)from);
}
INLINE void turn_store(const turned *t, int row, lanes x) {
  if (row >= t->rows) return;
  char *to = t->at + row * t->row * element_bytes(t->dtype);
  if (t->dtype == REED_F32) store((float *)(void *)to, x);
  else store_half(t->dtype, (void *)to, x);
}

/* Transposes LANES x LANES elements. */
INLINE void turn(const turned *from, const turned *to) {
  lanes a[LANES], b[LANES];
  for (int i = 0; i < LANES; i++) a[i] = turn_load(from, i);
  turn_lanes(a, b);
  for (int i = 0; i < LANES; i++) turn_store(to, i, b[i]);
}

/* Transposes ROI_LANES x ROI_LANES elements. */
INLINE void turn_parts(const turned *from, const turned *to) {
  for (int i = 0; i < ROI_LANES; i += LANES)
    for (int j = 0; j < ROI_LANES; j += LANES) {
      turned part = {from->dtype, from->at + (i * from->row + j) * element_bytes(from->dtype), from->row,
                     from->rows - i};
      turned result = {to->dtype, to->at + (j * to->row + i) * element_bytes(to->dtype), to->row, to->rows - j};
      turn(&part, &result);
    }
}

/* Transposes ROI_LANES pixels, side by side in each of n lanes of a tensor, into a block, and back. */
INLINE void turn_in_as(reed_dtype dtype, const char *tensor, int64_t lane, int32_t n, float *block) {
  turn_parts(&(turned){dtype, (char *)(uintptr_t)tensor, lane, n},
             &(turned){REED_F32, (char *)block, ROI_LANES, ROI_LANES});
}
static void turn_in(reed_dtype dtype, const char *tensor, int64_t lane, int32_t n, float *block) {
  if (dtype == REED_BF16) turn_in_as(REED_BF16, tensor, lane, n, block);
  else if (dtype == REED_F16) turn_in_as(REED_F16, tensor, lane, n, block);
  else turn_in_as(REED_F32, tensor, lane, n, block);
}
INLINE void turn_out_as(reed_dtype dtype, const float *block, int64_t lane, int32_t n, char *tensor) {
  turn_parts(&(turned){REED_F32, (char *)(uintptr_t)block, ROI_LANES, ROI_LANES}, &(turned){dtype, tensor, lane, n});
}
static void turn_out(reed_dtype dtype, const float *block, int64_t lane, int32_t n, char *tensor) {
  if (dtype == REED_BF16) turn_out_as(REED_BF16, block, lane, n, tensor);
  else if (dtype == REED_F16) turn_out_as(REED_F16, block, lane, n, tensor);
  else turn_out_as(REED_F32, block, lane, n, tensor);
}

/* ---- four neighbouring elements of each lane ---- */

/* Asks for the lines of a lane some pixels ahead. */
INLINE void ask(const char *lane, int64_t step, int write) {
  if (write) __builtin_prefetch(lane + AHEAD / 2 * step, 1);
  else __builtin_prefetch(lane + AHEAD / 2 * step);
}

/* Halves: eight lanes' four elements become four blocks' eight lanes, and back. */
#if defined(__AVX512BW__) && defined(__AVX512VL__)
/* Places of element c of sixteen lanes in eight lanes' quads and eight more. */
#define OF_EIGHT(c) c, 4 + c, 8 + c, 12 + c, 16 + c, 20 + c, 24 + c, 28 + c
#define OF_QUADS(c) OF_EIGHT(c), OF_EIGHT(32 + c)
static const uint16_t two_blocks[2][32] = {{OF_QUADS(0), OF_QUADS(1)}, {OF_QUADS(2), OF_QUADS(3)}};

/* The quads of a pixel's lanes k .. k + 7. Those from n on are 0. */
INLINE __m512i read_quads(const char *tensor, int64_t lane, int64_t step, int32_t k, int32_t n) {
  __m128i two[4];
  tensor += k * lane;
  for (int p = 0; p < 4; p++, k += 2, tensor += 2 * lane) {
    two[p] = _mm_setzero_si128();
    if (k < n) two[p] = _mm_loadl_epi64((const void *)tensor), ask(tensor, step, 0);
    if (k + 1 >= n) continue;
    two[p] = _mm_unpacklo_epi64(two[p], _mm_loadl_epi64((const void *)(tensor + lane)));
    ask(tensor + lane, step, 0);
  }
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set_m128i(two[1], two[0])), _mm256_set_m128i(two[3], two[2]),
                            1);
}

static void read_four_halves(const roi_lane_form *f, const char *tensor, int64_t pixels, float *block) {
  int64_t step = f->pixel * 2, lane = f->lane * 2;
  for (int64_t i = 0; i < pixels; i++, tensor += step, block += ROI_LANES) {
    const __m512i low = read_quads(tensor, lane, step, 0, f->n), high = read_quads(tensor, lane, step, 8, f->n);
    for (int c = 0; c < ROI_FOURS; c += 2) {
      const __m512i two = _mm512_permutex2var_epi16(low, _mm512_loadu_si512(two_blocks[c / 2]), high);
      store(block + c * f->apart, lanes_of(f->dtype, _mm512_castsi512_si256(two)));
      store(block + (c + 1) * f->apart, lanes_of(f->dtype, _mm512_extracti64x4_epi64(two, 1)));
    }
  }
}
#else
static void read_four_halves(const roi_lane_form *f, const char *tensor, int64_t pixels, float *block) {
  int64_t step = f->pixel * 2, lane = f->lane * 2;
  for (int64_t i = 0; i < pixels; i++, tensor += step, block += ROI_LANES) {
    uint16_t halves[ROI_FOURS][ROI_LANES];
    for (int32_t k = 0; k < ROI_LANES; k += 8) {
      __m128i x[4];
      for (int c = 0; c < 4; c++) {
        int32_t low = k + 2 * c;
        x[c] = _mm_setzero_si128();
        if (low < f->n) x[c] = _mm_loadl_epi64((const void *)(tensor + low * lane)), ask(tensor + low * lane, step, 0);
        if (low + 1 >= f->n) continue;
        x[c] = _mm_unpacklo_epi64(x[c], _mm_loadl_epi64((const void *)(tensor + (low + 1) * lane)));
        ask(tensor + (low + 1) * lane, step, 0);
      }
      __m128i a = _mm_unpacklo_epi16(x[0], x[1]), b = _mm_unpackhi_epi16(x[0], x[1]),
              c = _mm_unpacklo_epi16(x[2], x[3]), d = _mm_unpackhi_epi16(x[2], x[3]), ab = _mm_unpacklo_epi16(a, b),
              cd = _mm_unpacklo_epi16(c, d), ab2 = _mm_unpackhi_epi16(a, b), cd2 = _mm_unpackhi_epi16(c, d);
      _mm_storeu_si128((void *)(halves[0] + k), _mm_unpacklo_epi64(ab, cd));
      _mm_storeu_si128((void *)(halves[1] + k), _mm_unpackhi_epi64(ab, cd));
      _mm_storeu_si128((void *)(halves[2] + k), _mm_unpacklo_epi64(ab2, cd2));
      _mm_storeu_si128((void *)(halves[3] + k), _mm_unpackhi_epi64(ab2, cd2));
    }
    for (int c = 0; c < ROI_FOURS; c++) read_halves(f->dtype, halves[c], block + c * f->apart);
  }
}
#endif

/* Writes n quads of halves, two in a vector. */
INLINE void write_quads(const __m128i *two, int32_t n, int64_t lane, int64_t step, char *to) {
  for (int p = 0; p < n; p++, to += lane) {
    _mm_storel_epi64((void *)to, p & 1 ? _mm_unpackhi_epi64(two[p >> 1], two[p >> 1]) : two[p >> 1]);
    ask(to, step, 1);
  }
}

#if defined(__AVX512BW__) && defined(__AVX512VL__)
/* Places of four elements of eight lanes, 0 to 7 or 8 to 15, in four blocks of halves. */
#define OF_LANE(k) k, ROI_LANES + k, 2 * ROI_LANES + k, 3 * ROI_LANES + k
static const uint16_t eight_lanes[2][32] = {
    {OF_LANE(0), OF_LANE(1), OF_LANE(2), OF_LANE(3), OF_LANE(4), OF_LANE(5), OF_LANE(6), OF_LANE(7)},
    {OF_LANE(8), OF_LANE(9), OF_LANE(10), OF_LANE(11), OF_LANE(12), OF_LANE(13), OF_LANE(14), OF_LANE(15)}};

static void write_four_halves(const roi_lane_form *f, const float *block, int64_t pixels, char *tensor) {
  int64_t step = f->pixel * 2, lane = f->lane * 2;
  for (int64_t i = 0; i < pixels; i++, tensor += step, block += ROI_LANES) {
    __m256i halves[ROI_FOURS];
    for (int c = 0; c < ROI_FOURS; c++) halves[c] = halves_of(f->dtype, load(block + c * f->apart));
    const __m512i low = _mm512_inserti64x4(_mm512_castsi256_si512(halves[0]), halves[1], 1),
                  high = _mm512_inserti64x4(_mm512_castsi256_si512(halves[2]), halves[3], 1);
    for (int32_t k = 0; k < f->n; k += 8) {
      const __m512i eight = _mm512_permutex2var_epi16(low, _mm512_loadu_si512(eight_lanes[k / 8]), high);
      const __m128i two[] = {_mm512_castsi512_si128(eight), _mm512_extracti32x4_epi32(eight, 1),
                             _mm512_extracti32x4_epi32(eight, 2), _mm512_extracti32x4_epi32(eight, 3)};
      write_quads(two, f->n - k < 8 ? f->n - k : 8, lane, step, tensor + k * lane);
    }
  }
}
#else
static void write_four_halves(const roi_lane_form *f, const float *block, int64_t pixels, char *tensor) {
  int64_t step = f->pixel * 2, lane = f->lane * 2;
  for (int64_t i = 0; i < pixels; i++, tensor += step, block += ROI_LANES) {
    uint16_t halves[ROI_FOURS][ROI_LANES];
    for (int c = 0; c < ROI_FOURS; c++) write_halves(f->dtype, block + c * f->apart, halves[c]);
    for (int32_t k = 0; k < f->n; k += 8) {
      __m128i x[4], two[4];
      for (int c = 0; c < 4; c++) x[c] = _mm_loadu_si128((const void *)(halves[c] + k));
      __m128i a = _mm_unpacklo_epi16(x[0], x[1]), b = _mm_unpacklo_epi16(x[2], x[3]),
              c = _mm_unpackhi_epi16(x[0], x[1]), d = _mm_unpackhi_epi16(x[2], x[3]);
      two[0] = _mm_unpacklo_epi32(a, b);
      two[1] = _mm_unpackhi_epi32(a, b);
      two[2] = _mm_unpacklo_epi32(c, d);
      two[3] = _mm_unpackhi_epi32(c, d);
      write_quads(two, f->n - k < 8 ? f->n - k : 8, lane, step, tensor + k * lane);
    }
  }
}
#endif

static void read_fours(const roi_lane_form *f, const char *tensor, int64_t pixels, float *block) {
  int64_t step = f->pixel * 4, lane = f->lane * 4;
  if (element_bytes(f->dtype) == 2) {
    read_four_halves(f, tensor, pixels, block);
    return;
  }
  for (int64_t i = 0; i < pixels; i++, tensor += step, block += ROI_LANES)
    for (int32_t k = 0; k < ROI_LANES; k += ROI_FOURS) {
      __m128 row[ROI_FOURS];
      for (int c = 0; c < ROI_FOURS; c++) {
        row[c] = k + c < f->n ? _mm_loadu_ps((const void *)(tensor + (k + c) * lane)) : _mm_setzero_ps();
        ask(tensor + (k + c) * lane, step, 0);
      }
      _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
      for (int c = 0; c < ROI_FOURS; c++) _mm_storeu_ps(block + c * f->apart + k, row[c]);
    }
}

static void write_fours(const roi_lane_form *f, const float *block, int64_t pixels, char *tensor) {
  int64_t step = f->pixel * 4, lane = f->lane * 4;
  if (element_bytes(f->dtype) == 2) {
    write_four_halves(f, block, pixels, tensor);
    return;
  }
  for (int64_t i = 0; i < pixels; i++, tensor += step, block += ROI_LANES)
    for (int32_t k = 0; k < f->n; k += ROI_FOURS) {
      __m128 row[ROI_FOURS];
      for (int c = 0; c < ROI_FOURS; c++) {
        row[c] = _mm_loadu_ps(block + c * f->apart + k);
        ask(tensor + (k + c) * lane, step, 1);
      }
      _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
      for (int c = 0; c < ROI_FOURS && k + c < f->n; c++) _mm_storeu_ps((void *)(tensor + (k + c) * lane), row[c]);
    }
}

/* ---- blocks ---- */

/* Lanes side by side in the tensor. */
static void read_side_by_side(const roi_lane_form *f, const char *tensor, int64_t pixels, float *block) {
  int64_t step = f->pixel * element_bytes(f->dtype);
  for (int64_t i = 0; i < pixels; i++, tensor += step, block += ROI_LANES) {
    __builtin_prefetch(tensor + AHEAD * step);
    if (f->n == ROI_LANES) read_elements(f->dtype, tensor, block);
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
  for (; f->pixel == 1 && pixels >= ROI_LANES && i < pixels; i += ROI_LANES) { /* pixels side by side */
    if (i > pixels - ROI_LANES) i = pixels - ROI_LANES;                        /* some of them again */
    const char *at = from + i * bytes;
    for (int32_t k = 0; k < f->n; k++) __builtin_prefetch(at + k * lane + AHEAD_TURNED * bytes);
    turn_in(f->dtype, at, f->lane, f->n, block + i * ROI_LANES);
  }
  if (f->pixel == 1 && pixels >= 2 && pixels < ROI_LANES) {
    float rows[ROI_LANES * ROI_LANES];
    for (int32_t k = 0; k < f->n; k++) read_first(f->dtype, from + k * lane, pixels, rows + k * ROI_LANES);
    turn_parts(&(turned){REED_F32, (char *)rows, ROI_LANES, f->n},
               &(turned){REED_F32, (char *)block, ROI_LANES, (int)pixels});
    return;
  }
  if (bytes == 4) read_apart(f, (const float *)tensor, i, pixels, block);
  for (; i < pixels && bytes == 2; i++) read_lanes(f->dtype, from + i * step, lane, f->n, block + i * ROI_LANES);
}

void CPU_LEVELED(roi_lanes_fence)(void) { lanes_fence(); }
bool CPU_LEVELED(roi_lanes_fill_lines)(void) { return LANES_FILL_A_LINE; }

void CPU_LEVELED(roi_lanes_write)(const roi_lane_form *f, const float *block, int64_t pixels, void *tensor) {
  char *to = tensor;
  int64_t bytes = element_bytes(f->dtype), step = f->pixel * bytes, lane = f->lane * bytes, i = 0;
  if (f->fours) {
    write_fours(f, block, pixels, to);
    return;
  }
  for (; f->past && i < pixels; i++)
    for (int v = 0; v < VECTORS; v++)
      store_past((float *)(void *)(to + i * step) + v * LANES, load(block + i * ROI_LANES + v * LANES));
  for (; f->lane == 1 && i < pixels; i++) {
    if (f->n == ROI_LANES) write_elements(f->dtype, block + i * ROI_LANES, to + i * step);
    else write_first(f->dtype, block + i * ROI_LANES, f->n, to + i * step);
  }
  for (; f->pixel == 1 && pixels >= ROI_LANES && i < pixels; i += ROI_LANES) {
    if (i > pixels - ROI_LANES) i = pixels - ROI_LANES;
    turn_out(f->dtype, block + i * ROI_LANES, f->lane, f->n, to + i * bytes);
  }
  if (f->pixel == 1 && pixels >= 2 && pixels < ROI_LANES) {
    float rows[ROI_LANES * ROI_LANES];
    turn_parts(&(turned){REED_F32, (char *)(uintptr_t)block, ROI_LANES, (int)pixels},
               &(turned){REED_F32, (char *)rows, ROI_LANES, f->n});
    for (int32_t k = 0; k < f->n; k++) write_first(f->dtype, rows + k * ROI_LANES, pixels, to + k * lane);
    return;
  }
  for (; i < pixels; i++) write_lanes(f->dtype, block + i * ROI_LANES, f->n, lane, to + i * step);
}
