/* The formulas on f32, and the conversions between f32 and the half dtypes that are computed in it. Compiled once per
 * CPU level. */
#include "base/half.h"
#include "ops/cpu/formulas/formulas.h"
#include "ops/cpu/formulas/functions.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

#define IF_FLOAT(...) __VA_ARGS__
#define IF_SIGNED(...)
#define IF_UNSIGNED(...)
#define IF_INT(...)
#define IF_BOOL(...)
#define T float
#define W float
#define TAG f32
#define FN(f) f##_f32
#include "ops/cpu/formulas/formula_template.h"

elementwise_fn CPU_LEVELED(elementwise_f32)(int formula);
elementwise_fn CPU_LEVELED(elementwise_f32)(int formula) { return loops_f32[formula]; }

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

convert_fn CPU_LEVELED(convert_half)(reed_dtype half, int to_f32);
convert_fn CPU_LEVELED(convert_half)(reed_dtype half, int to_f32) {
  if (half == REED_F16) return to_f32 ? f16_to_f32_run : f16_from_f32_run;
  return to_f32 ? bf16_to_f32_run : bf16_from_f32_run;
}
