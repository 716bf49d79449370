/* Transposing blocks of LANES x LANES floats in registers, for loop files. */
#ifndef OPS_CPU_COMMON_TURN_H_
#define OPS_CPU_COMMON_TURN_H_

#include "ops/cpu/common/lanes.h"

#if defined(__AVX512F__)
#define TURN_LOW(a, b) _mm512_unpacklo_ps(a, b)
#define TURN_HIGH(a, b) _mm512_unpackhi_ps(a, b)
#define TURN_LOW2(a, b) _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)))
#define TURN_HIGH2(a, b) _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)))
#elif defined(__AVX2__)
#define TURN_LOW(a, b) _mm256_unpacklo_ps(a, b)
#define TURN_HIGH(a, b) _mm256_unpackhi_ps(a, b)
#define TURN_LOW2(a, b) _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)))
#define TURN_HIGH2(a, b) _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)))
#else
#define TURN_LOW(a, b) _mm_unpacklo_ps(a, b)
#define TURN_HIGH(a, b) _mm_unpackhi_ps(a, b)
#define TURN_LOW2(a, b) _mm_movelh_ps(a, b)
#define TURN_HIGH2(a, b) _mm_movehl_ps(b, a)
#endif

/* out[c][r] = a[r][c], for LANES rows; a is overwritten. */
INLINE void turn_lanes(lanes *a, lanes *out) {
  lanes b[LANES];
  for (int i = 0; i < LANES; i += 2) {
    b[i] = TURN_LOW(a[i], a[i + 1]);
    b[i + 1] = TURN_HIGH(a[i], a[i + 1]);
  }
  /* a[4k + c] becomes, in quarter L of the vector, column 4L + c of rows 4k .. 4k + 3 */
  for (int i = 0; i < LANES; i += 4) {
    a[i] = TURN_LOW2(b[i], b[i + 2]);
    a[i + 1] = TURN_HIGH2(b[i], b[i + 2]);
    a[i + 2] = TURN_LOW2(b[i + 1], b[i + 3]);
    a[i + 3] = TURN_HIGH2(b[i + 1], b[i + 3]);
  }
  for (int c = 0; c < 4; c++) {
#if defined(__AVX512F__)
    lanes even = _mm512_shuffle_f32x4(a[c], a[4 + c], 0x88), odd = _mm512_shuffle_f32x4(a[c], a[4 + c], 0xdd),
          even2 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0x88),
          odd2 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0xdd);
    out[c] = _mm512_shuffle_f32x4(even, even2, 0x88);
    out[4 + c] = _mm512_shuffle_f32x4(odd, odd2, 0x88);
    out[8 + c] = _mm512_shuffle_f32x4(even, even2, 0xdd);
    out[12 + c] = _mm512_shuffle_f32x4(odd, odd2, 0xdd);
#elif defined(__AVX2__)
    out[c] = _mm256_permute2f128_ps(a[c], a[4 + c], 0x20);
    out[4 + c] = _mm256_permute2f128_ps(a[c], a[4 + c], 0x31);
#else
    out[c] = a[c];
#endif
  }
}

#endif
