/* Circular and hyperbolic functions of a float, and their inverses, for the loops of formulas.def.
 *
 * As in functions.h they are straight-line code that vectorises at every CPU level, with errors below 3 units in the
 * last place (tests/ops/cpu says so). Reductions are those of Cephes (Moshier, Methods and Programs for Mathematical
 * Functions, 1989). The polynomials were fitted at Chebyshev nodes in double, for the least largest relative error of
 * the function, which is given with each. NaN stays NaN. */
#ifndef OPS_CPU_COMMON_TRIGONOMETRY_H_
#define OPS_CPU_COMMON_TRIGONOMETRY_H_

#include "ops/cpu/common/functions.h"

#define HALF_PI 0x1.921fb6p+0f
#define HALF_PI_REST -0x1.777a5cp-25f /* pi/2 - HALF_PI */
#define LN_2 0x1.62e43p-1f

static inline float with_sign_of(float sign, float x) { return __builtin_copysignf(x, sign); }

/* ---- circular ---- */

/* The largest |x| of sin_f32, cos_f32 and tan_f32. */
#define CIRCULAR_REACH 0x1p+17f

/* x = n pi/2 + r with |r| below 0.8. n is rounded in float, which is off by 2^-7 at most up to CIRCULAR_REACH; r is
 * computed in double from a pi/2 of 30 bits, whose products with n are exact, and the rest. */
static inline float quarter_turns(float x, int32_t *out_n) {
  const float shifted = x * 0x1.45f306p-1f + 0x1.8p+23f;
  const double n = (double)(shifted - 0x1.8p+23f);
  *out_n = (int32_t)(bits_of_float(shifted) - 0x4b400000u);
  return (float)(((double)x - n * 0x1.921fb548p+0) - n * -0x1.de973dcb3b39ap-31);
}

/* For |r| up to 0.8; relative errors 9e-9 and 1e-9. */
static inline float sin_quarter(float r) {
  const float z = r * r;
  float p = -0.000195030676f;
  p = p * z + 0.00833207089f;
  p = p * z + -0.166666538f;
  return r + r * (z * p);
}
static inline float cos_quarter(float r) {
  const float z = r * r;
  float p = 2.44191942e-05f;
  p = p * z + -0.00138871942f;
  p = p * z + 0.0416666418f;
  return (1 - 0.5f * z) + z * z * p;
}

static inline float sin_f32(float x) {
  int32_t n;
  const float r = quarter_turns(x, &n), y = n & 1 ? cos_quarter(r) : sin_quarter(r);
  return x == 0 ? x : n & 2 ? -y : y; /* -0 stays -0 */
}
static inline float cos_f32(float x) {
  int32_t n;
  const float r = quarter_turns(x, &n), y = n & 1 ? sin_quarter(r) : cos_quarter(r);
  return (n + 1) & 2 ? -y : y;
}
/* Relative error 4e-9. */
static inline float tan_f32(float x) {
  int32_t n;
  const float r = quarter_turns(x, &n), z = r * r;
  float p = 0.00458402233f;
  p = p * z + -0.000327852147f;
  p = p * z + 0.0111615947f;
  p = p * z + 0.0211580545f;
  p = p * z + 0.0540836118f;
  p = p * z + 0.133324578f;
  p = p * z + 0.333333552f;
  const float y = r + r * (z * p);
  return x == 0 ? x : n & 1 ? -1 / y : y;
}

/* asin(x) / x - 1 of z = x^2 up to 1/4; relative error 6e-9. */
static inline float asin_excess(float z) {
  float p = 0.0421662852f;
  p = p * z + 0.0241795257f;
  p = p * z + 0.0454703756f;
  p = p * z + 0.0749529749f;
  p = p * z + 0.166667521f;
  return p * z;
}
/* Beyond 1/2 asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)). */
static inline float asin_f32(float x) {
  const float a = abs_f32(x), half = 0.5f * (1 - a), z = a > 0.5f ? half : a * a, s = a > 0.5f ? sqrt_f32(half) : a;
  const float y = s + s * asin_excess(z);
  return with_sign_of(x, a > 0.5f ? HALF_PI - (2 * y - HALF_PI_REST) : y);
}
static inline float acos_f32(float x) {
  const float a = abs_f32(x), half = 0.5f * (1 - a), z = a > 0.5f ? half : a * a, s = a > 0.5f ? sqrt_f32(half) : x;
  const float y = s + s * asin_excess(z);
  return a > 0.5f ? (x < 0 ? 2 * HALF_PI - (2 * y - 2 * HALF_PI_REST) : 2 * y) : HALF_PI - (y - HALF_PI_REST);
}
/* Beyond tan(pi/8) pi/4 + atan((x - 1) / (x + 1)), beyond tan(3 pi/8) pi/2 - atan(1 / x). Relative error 3e-9. */
static inline float atan_f32(float x) {
  const float a = abs_f32(x);
  const float above = a > 2.41421356f    ? -1
                      : a > 0.414213562f ? a - 1
                                         : a,
              below = a > 2.41421356f    ? a
                      : a > 0.414213562f ? a + 1
                                         : 1;
  const float from = a > 2.41421356f    ? HALF_PI
                     : a > 0.414213562f ? HALF_PI / 2
                                        : 0,
              rest = a > 2.41421356f    ? HALF_PI_REST
                     : a > 0.414213562f ? HALF_PI_REST / 2
                                        : 0;
  const float t = above / below, z = t * t;
  float p = -0.0607725121f;
  p = p * z + 0.105934486f;
  p = p * z + -0.142434865f;
  p = p * z + 0.199984685f;
  p = p * z + -0.333333164f;
  return with_sign_of(x, from + (t + (t * (z * p) + rest)));
}

/* ---- hyperbolic ---- */

/* e^a / 2 for a >= 0; infinite only if the result is out of range. */
static inline float half_exp(float a) {
  float n;
  int32_t e;
  const float m = exp_reduced(a < 90 ? a : a != a ? a : 90, &n, &e);
  const int32_t half = e >> 1;
  return (m + 1) * power_of_two(half) * power_of_two(e - half - 1);
}
/* Up to 1 a polynomial with the relative error 5e-9. */
static inline float sinh_f32(float x) {
  const float a = abs_f32(x), z = x * x, h = half_exp(a);
  float p = 2.81695134e-06f;
  p = p * z + 0.000198361595f;
  p = p * z + 0.0083333496f;
  p = p * z + 0.166666672f;
  return a < 1 ? x + x * (z * p) : with_sign_of(x, h - 0.25f / h);
}
static inline float cosh_f32(float x) {
  const float h = half_exp(abs_f32(x));
  return h + 0.25f / h;
}

/* log(1 + x) for x > -1 */
static inline float log1p_f32(float x) {
  const float y = log1p_finite(x), u = 1 + x;
  return u < INFINITY ? y : log_f32(u);
}
/* log(a + sqrt(a^2 + sign)), where a^2 is so large that a rounded sum has no effect. */
#define HYPERBOLIC_FAR 0x1p+13f
/* Up to 1/2 a polynomial with the relative error 2e-9. The sign is set last, so that -0 stays -0. */
static inline float asinh_f32(float x) {
  const float a = abs_f32(x), far = log_f32(a) + LN_2, b = a > HYPERBOLIC_FAR ? HYPERBOLIC_FAR : a, z = b * b;
  float p = -0.0132375006f;
  p = p * z + 0.0281691086f;
  p = p * z + -0.0443845131f;
  p = p * z + 0.0749865174f;
  p = p * z + -0.166666433f;
  const float near = log1p_f32(b + z / (1 + sqrt_f32(z + 1)));
  return with_sign_of(x, a < 0.5f ? a + a * (z * p) : a > HYPERBOLIC_FAR ? far : near);
}
static inline float acosh_f32(float x) {
  const float far = log_f32(x) + LN_2, t = (x > HYPERBOLIC_FAR ? HYPERBOLIC_FAR : x) - 1;
  const float near = log1p_f32(t + sqrt_f32(t * (t + 2)));
  return x < 1 ? NAN : x > HYPERBOLIC_FAR ? far : near;
}
/* Up to 1/2 a polynomial with the relative error 5e-9. */
static inline float atanh_f32(float x) {
  const float a = abs_f32(x), z = x * x;
  float p = 0.176691011f;
  p = p * z + 0.0513583645f;
  p = p * z + 0.118237272f;
  p = p * z + 0.14222762f;
  p = p * z + 0.200025186f;
  p = p * z + 0.333333015f;
  const float near = x + x * (z * p), far = with_sign_of(x, 0.5f * log1p_f32((a + a) / (1 - a)));
  return a < 0.5f ? near : far;
}

#endif
