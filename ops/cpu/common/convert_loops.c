/* Conversions between f32 and the half dtypes, compiled once per CPU level. */
#include "ops/cpu/common/convert_loops.h"

#include "base/half.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

static void f16_to_f32_run(void *out, const void *in, int64_t n) {
  float *to = out;
  const uint16_t *from = in;
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
#endif
  for (; i < n; i++) to[i] = f16_to_f32(from[i]);
}

static void f16_from_f32_run(void *out, const void *in, int64_t n) {
  uint16_t *to = out;
  const float *from = in;
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i *)(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
  for (; i < n; i++) to[i] = f16_from_f32(from[i]);
}

static void bf16_to_f32_run(void *out, const void *in, int64_t n) {
  float *to = out;
  const uint16_t *from = in;
  for (int64_t i = 0; i < n; i++) to[i] = bf16_to_f32(from[i]);
}

static void bf16_from_f32_run(void *out, const void *in, int64_t n) {
  uint16_t *to = out;
  const float *from = in;
  for (int64_t i = 0; i < n; i++) to[i] = bf16_from_f32(from[i]);
}

convert_half_fn CPU_LEVELED(convert_half)(reed_dtype half, int to_f32) {
  if (half == REED_F16) return to_f32 ? f16_to_f32_run : f16_from_f32_run;
  return to_f32 ? bf16_to_f32_run : bf16_from_f32_run;
}
