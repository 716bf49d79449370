/* A vector of floats as wide as the CPU level that a loop file is compiled for. */
#ifndef OPS_CPU_COMMON_LANES_H_
#define OPS_CPU_COMMON_LANES_H_

#include <immintrin.h>
#include <stdbool.h>

#include "ops/cpu/common/cpu.h"

#if defined(__AVX512F__)
#define LANES 16
#define LANES_MIN _mm512_min_ps
#define LANES_MAX _mm512_max_ps
#elif defined(__AVX2__)
#define LANES 8
#define LANES_MIN _mm256_min_ps
#define LANES_MAX _mm256_max_ps
#else
#define LANES 4
#define LANES_MIN _mm_min_ps
#define LANES_MAX _mm_max_ps
#endif

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline)) CPU_UNCHECKED

INLINE lanes load(const float *p) { return *(const lanes *)p; }
INLINE void store(float *p, lanes x) { *(lanes *)p = x; }

/* The same for bf16 in memory, rounded as by bf16_from_f32 (base/half.h); the instruction of AVX512-BF16 makes denormal
 * numbers 0. */
typedef uint16_t half_lanes __attribute__((vector_size(2 * LANES), aligned(2), may_alias));
typedef uint32_t bit_lanes __attribute__((vector_size(4 * LANES)));
INLINE lanes load_bf16(const uint16_t *p) {
  return (lanes)(__builtin_convertvector(*(const half_lanes *)p, bit_lanes) << 16);
}
INLINE void store_bf16(uint16_t *p, lanes x) {
#ifdef __AVX512BF16__
  _mm256_storeu_si256((__m256i *)(void *)p, (__m256i)_mm512_cvtneps_pbh(x));
#else
  const bit_lanes bits = (bit_lanes)x, rounded = bits + 0x7fff + (bits >> 16 & 1), is_nan = (bit_lanes)(x != x);
  *(half_lanes *)p = __builtin_convertvector(((is_nan & (bits | 0x400000)) | (~is_nan & rounded)) >> 16, half_lanes);
#endif
}
/* Vectors of f32, or of bf16 if `half`, at element i. */
INLINE const char *lanes_at(const void *p, bool half, int64_t i) {
  return (const char *)p + i * (half ? (int64_t)sizeof(uint16_t) : (int64_t)sizeof(float));
}
INLINE lanes load_either(const void *p, bool half, int64_t i) {
  const char *at = lanes_at(p, half, i);
  return half ? load_bf16((const uint16_t *)at) : load((const float *)at);
}
INLINE void store_either(void *p, bool half, int64_t i, lanes x) {
  if (half) store_bf16((uint16_t *)p + i, x);
  else store((float *)p + i, x);
}
/* True if a vector is a whole line of the cache, so that store_past writes lines without reading them. */
enum { LANES_FILL_A_LINE = LANES == 16 };
/* Writes a line past the caches. p: aligned to a line. lanes_fence comes before another thread may read it. */
INLINE void store_past(float *p, lanes x) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, (__m512)x);
#else
  store(p, x);
#endif
}
INLINE void lanes_fence(void) {
#if defined(__AVX512F__)
  _mm_sfence();
#endif
}
INLINE lanes all(float x) { return x - (lanes){0}; }

/* Keeps x in a register: gcc reads memory again at each use otherwise. */
INLINE lanes held(lanes x) {
  __asm__("" : "+v"(x));
  return x;
}

/* NaN stays NaN, because LANES_MIN and LANES_MAX return their second operand if one operand is NaN. */
INLINE lanes between(lanes x, lanes low, lanes high) { return LANES_MIN(high, LANES_MAX(low, x)); }

/* The larger of a and b; NaN if either is NaN. */
INLINE lanes larger(lanes a, lanes b) {
#if defined(__AVX512F__)
  return _mm512_mask_mov_ps(LANES_MAX(a, b), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a);
#elif defined(__AVX2__)
  return _mm256_blendv_ps(LANES_MAX(a, b), a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
#else
  __m128 nan = _mm_cmpunord_ps(a, a);
  return _mm_or_ps(_mm_andnot_ps(nan, LANES_MAX(a, b)), _mm_and_ps(nan, a));
#endif
}

/* The largest element; NaN if there is one. */
INLINE float largest_of(lanes x) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q) ? __builtin_nanf("") : _mm512_reduce_max_ps(x);
#else
  float most = x[0];
  for (int k = 1; k < LANES; k++) most = most >= x[k] || most != most ? most : x[k];
  return most;
#endif
}

/* The sum of the elements, added in double. */
INLINE double sum_of_lanes(lanes x) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_pd(_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x)) +
                              _mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1)));
#else
  double sums[4] = {0};
  for (int k = 0; k < LANES; k++) sums[k % 4] += (double)x[k];
  return sums[0] + sums[1] + (sums[2] + sums[3]);
#endif
}

/* Lanes in which NaN was met: marked() adds those in which a or b is. */
#if defined(__AVX512F__)
typedef __mmask16 nan_marks;
INLINE nan_marks marked(nan_marks marks, lanes a, lanes b) {
  return (nan_marks)(marks | _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q));
}
INLINE bool any_marked(nan_marks marks) { return marks != 0; }
#elif defined(__AVX2__)
typedef __m256 nan_marks;
INLINE nan_marks marked(nan_marks marks, lanes a, lanes b) {
  return _mm256_or_ps(marks, _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}
INLINE bool any_marked(nan_marks marks) { return _mm256_movemask_ps(marks) != 0; }
#else
typedef __m128 nan_marks;
INLINE nan_marks marked(nan_marks marks, lanes a, lanes b) { return _mm_or_ps(marks, _mm_cmpunord_ps(a, b)); }
INLINE bool any_marked(nan_marks marks) { return _mm_movemask_ps(marks) != 0; }
#endif

/* ---- some lanes ---- */

#if defined(__AVX512F__)
typedef __mmask16 lane_mask;
#elif defined(__AVX2__)
typedef __m256i lane_mask;
#else
typedef unsigned lane_mask;
#endif

/* Lanes begin <= i < end; both may lie outside of the vector. */
INLINE lane_mask lanes_between(int64_t begin, int64_t end) {
  int low = begin < 0 ? 0 : begin > LANES ? LANES : (int)begin, high = end < low ? low : end > LANES ? LANES : (int)end;
#if defined(__AVX2__) && !defined(__AVX512F__)
  __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(low), lane),
                             _mm256_cmpgt_epi32(_mm256_set1_epi32(high), lane));
#else
  return (lane_mask)(((1u << high) - 1) & ~((1u << low) - 1));
#endif
}

/* Loads the lanes of the mask; touches no memory of the others, which are 0. */
INLINE lanes load_some(const float *p, lane_mask mask) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(mask, p);
#elif defined(__AVX2__)
  return _mm256_maskload_ps(p, mask);
#else
  lanes x = {0};
  for (int i = 0; i < LANES; i++)
    if (mask >> i & 1) x[i] = p[i];
  return x;
#endif
}

/* As load_some, with the lanes of `otherwise` in place of the others. */
INLINE lanes load_masked(const float *p, lane_mask mask, lanes otherwise) {
#if defined(__AVX512F__)
  return _mm512_mask_loadu_ps(otherwise, mask, p);
#elif defined(__AVX2__)
  return _mm256_blendv_ps(otherwise, _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask));
#else
  lanes x = otherwise;
  for (int i = 0; i < LANES; i++)
    if (mask >> i & 1) x[i] = p[i];
  return x;
#endif
}

/* Stores the first n lanes, fewer than all. Masked stores of AVX2 take dozens of cycles on some CPUs. */
INLINE void store_first(float *p, lanes x, int64_t n) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, lanes_between(0, n), x);
#else
#if defined(__AVX2__)
  __m128 four = _mm256_castps256_ps128(x);
  if (n & 4) {
    _mm_storeu_ps(p, four);
    p += 4;
    four = _mm256_extractf128_ps(x, 1);
  }
#else
  __m128 four = x;
#endif
  if (n & 2) {
    _mm_storel_pi((__m64 *)(void *)p, four);
    p += 2;
    four = _mm_movehl_ps(four, four);
  }
  if (n & 1) _mm_store_ss(p, four);
#endif
}

/* Stores the last n lanes. */
INLINE void store_last(float *p, lanes x, int n) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, (__mmask16)(0xffffu << (LANES - n)), x);
#elif defined(__AVX2__)
  _mm256_maskstore_ps(
      p, _mm256_cmpgt_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(LANES - n - 1)), x);
#else
  if (n == 3) p[1] = x[1];
  if (n >= 2) p[2] = x[2];
  p[3] = x[3];
#endif
}

/* ---- every second element ---- */

/* The elements with even (odd) numbers of a, then b, in an order that ordered() turns into the usual one. */
INLINE lanes evens(lanes a, lanes b) {
#if defined(__AVX512F__)
  return _mm512_shuffle_ps(a, b, 0x88);
#elif defined(__AVX2__)
  return _mm256_shuffle_ps(a, b, 0x88);
#else
  return _mm_shuffle_ps(a, b, 0x88);
#endif
}
INLINE lanes odds(lanes a, lanes b) {
#if defined(__AVX512F__)
  return _mm512_shuffle_ps(a, b, 0xdd);
#elif defined(__AVX2__)
  return _mm256_shuffle_ps(a, b, 0xdd);
#else
  return _mm_shuffle_ps(a, b, 0xdd);
#endif
}
INLINE lanes ordered(lanes x) {
#if defined(__AVX512F__)
  return _mm512_castpd_ps(_mm512_permutexvar_pd(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), _mm512_castps_pd(x)));
#elif defined(__AVX2__)
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8));
#else
  return x;
#endif
}
/* LANES consecutive elements in the order of evens(). */
INLINE lanes disordered(lanes x) {
#if defined(__AVX512F__)
  return _mm512_castpd_ps(_mm512_permutexvar_pd(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), _mm512_castps_pd(x)));
#elif defined(__AVX2__)
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8));
#else
  return x;
#endif
}

/* The vectors whose evens() and odds() are a and b. */
INLINE void store_pairs(float *y, lanes a, lanes b) {
#if defined(__AVX512F__)
  store(y, _mm512_unpacklo_ps(a, b));
  store(y + LANES, _mm512_unpackhi_ps(a, b));
#elif defined(__AVX2__)
  store(y, _mm256_unpacklo_ps(a, b));
  store(y + LANES, _mm256_unpackhi_ps(a, b));
#else
  store(y, _mm_unpacklo_ps(a, b));
  store(y + LANES, _mm_unpackhi_ps(a, b));
#endif
}

#endif
