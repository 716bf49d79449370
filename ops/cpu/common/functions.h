/* Functions of one float or double that the loops of formulas.def call. Circular and hyperbolic ones of floats:
 * trigonometry.h.
 *
 * The float ones are straight-line code without tables, branches or library calls, so that a loop over them vectorises
 * at every CPU level; their errors are below 3 units in the last place over the whole range, subnormal results of exp
 * included (tests/ops/cpu says so). They need -fno-trapping-math and must not be compiled with -ffast-math: the
 * roundings below are exact on purpose. */
#ifndef OPS_CPU_COMMON_FUNCTIONS_H_
#define OPS_CPU_COMMON_FUNCTIONS_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float float_of_bits(uint32_t bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
static inline uint32_t bits_of_float(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return bits;
}

/* Rounds towards zero; a value out of range becomes the nearest in range, NaN becomes 0. */
static inline int64_t whole_of(double x) {
  return x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? -INT64_MAX : x == x ? (int64_t)x : 0;
}

static inline float abs_f32(float x) { return __builtin_fabsf(x); }
static inline float ceil_f32(float x) { return __builtin_ceilf(x); }
static inline float floor_f32(float x) { return __builtin_floorf(x); }
static inline float rint_f32(float x) { return __builtin_rintf(x); }
static inline float sqrt_f32(float x) { return __builtin_sqrtf(x); }
static inline float fmod_f32(float a, float b) { return fmodf(a, b); }

/* NaN stays; low above high gives high. */
static inline float clamp_f32(float x, float low, float high) {
  float raised = x < low ? low : x;
  return raised > high ? high : raised;
}

/* x = n ln 2 + r with |r| <= ln(2)/2 (Cody and Waite's two-part ln 2), e^r - 1 by its Taylor series to r^7/7!
 * (remainder 5e-9 of 1). n comes as a float's bits: adding 1.5 * 2^23 leaves the integer in the low mantissa bits. |x|
 * must be below 2^20. */
static inline float exp_reduced(float x, float *out_n, int32_t *out_exponent) {
  float shifted = x * 0x1.715476p+0f + 0x1.8p+23f;
  float n = shifted - 0x1.8p+23f;
  float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  *out_n = n;
  *out_exponent = (int32_t)(bits_of_float(shifted) - 0x4b400000u);
  float p = r * (float)(1.0 / 5040) + (float)(1.0 / 720);
  p = p * r + (float)(1.0 / 120);
  p = p * r + (float)(1.0 / 24);
  p = p * r + (float)(1.0 / 6);
  p = p * r + 0.5f;
  return p * r * r + r;
}

/* 2^e for e in -126..127. */
static inline float power_of_two(int32_t e) { return float_of_bits((uint32_t)(e + 127) << 23); }

/* The scale is applied in two halves so that results down to the smallest subnormal are rounded once. */
static inline float exp_f32(float x) {
  float n, clamped = clamp_f32(x, -110.0f, 90.0f);
  int32_t e;
  float m = exp_reduced(clamped, &n, &e);
  int32_t half = e >> 1;
  return (m + 1) * power_of_two(half) * power_of_two(e - half);
}

/* e^x for x <= 0: its scale is raised so far that it is a normal number, and put back in the end, so that subnormal
 * results are rounded once. NaN stays NaN. */
static inline float exp_falling(float x) {
  float n, clamped = x < -110.0f ? -110.0f : x;
  int32_t e;
  float m = exp_reduced(clamped, &n, &e);
  return (m + 1) * power_of_two(e + 64) * 0x1p-64f;
}

/* e^x for |x| below 87, where one factor of 2 is enough; NaN stays NaN. */
static inline float exp_near(float x) {
  float n;
  int32_t e;
  float m = exp_reduced(x, &n, &e);
  return m * power_of_two(e) + power_of_two(e);
}

/* e^x - 1 for x in 0..87; NaN stays NaN. */
static inline float expm1_near(float x) {
  float n;
  int32_t e;
  float m = exp_reduced(x, &n, &e), scale = power_of_two(e);
  return m * scale + (scale - 1);
}

static inline float expm1_f32(float x) {
  float n, clamped = clamp_f32(x, -20.0f, 90.0f);
  int32_t e;
  float m = exp_reduced(clamped, &n, &e);
  int32_t half = e >> 1;
  float scale = power_of_two(half), rest = power_of_two(e - half);
  /* 2^e (m + 1) - 1, where e >= 25 makes the 1 vanish and 2^128 would overflow too early */
  float y = e > 25 ? (m + 1) * scale * rest : m * (scale * rest) + (scale * rest - 1);
  return e == 0 ? m : y;
}

/* fdlibm's reduction: x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); log(1+f) = f - f^2/2 + s (f^2/2 + R), s = f /
 * (2 + f), R the rest of 2 atanh(s). */
static inline float log_f32(float x) {
  int subnormal = x < 0x1p-126f;
  float scaled = subnormal ? x * 0x1p+25f : x;
  uint32_t bits = bits_of_float(scaled) - 0x3f3504f3u; /* sqrt(1/2) */
  int32_t k = (int32_t)bits >> 23;
  float f = float_of_bits((bits & 0x007fffffu) + 0x3f3504f3u) - 1;
  float s = f / (2 + f), z = s * s;
  float r = z * (float)(2.0 / 11) + (float)(2.0 / 9);
  r = r * z + (float)(2.0 / 7);
  r = r * z + (float)(2.0 / 5);
  r = r * z + (float)(2.0 / 3);
  r = r * z;
  float h = 0.5f * f * f, n = (float)(subnormal ? k - 25 : k);
  float y = n * 0x1.62e4p-1f - ((h - (s * (h + r) + n * 0x1.7f7d1cp-20f)) - f);
  y = x == 0 ? -INFINITY : y;
  y = x < 0 ? NAN : y;
  return x < INFINITY ? y : x; /* inf, and NaN, which compares false */
}

/* log(1 + x) for x > -1 of which 1 + x is finite: the error of rounding 1 + x is put back to first order. */
static inline float log1p_finite(float x) {
  float u = 1 + x;
  return log_f32(u) + (x - (u - 1)) / u;
}

/* e^-|x| never overflows and keeps the small side exact. */
static inline float sigmoid_f32(float x) {
  float e = exp_falling(-abs_f32(x));
  return (x < 0 ? e : 1) / (1 + e);
}
static inline float softplus_f32(float x) {
  return (x > 0 ? x : x != x ? x : 0) + log1p_finite(exp_falling(-abs_f32(x)));
}

static inline float tanh_f32(float x) {
  float m = expm1_near(2 * clamp_f32(abs_f32(x), 0, 10));
  float y = m / (m + 2);
  return __builtin_copysignf(y, x);
}

/* Up to 1 a polynomial in x^2 for erf(x)/x; beyond, 1 - e^-q with a polynomial q for -log(erfc(x)) in |x| - 2. Both
 * were fitted at Chebyshev nodes in double (relative errors 4e-11 and 3e-9). From 4 on erf is 1 in float. */
static inline float erf_f32(float x) {
  float a = abs_f32(x), z = x * x;
  float p = -9.67359028e-06f;
  p = p * z + 0.000112682537f;
  p = p * z + -0.000848439639f;
  p = p * z + 0.00522105349f;
  p = p * z + -0.0268654376f;
  p = p * z + 0.112837829f;
  p = p * z + -0.376126379f;
  p = p * z + 1.12837923f;
  float u = clamp_f32(a, 0, 4) - 2;
  float q = -1.6140616e-06f;
  q = q * u + 1.97656373e-05f;
  q = q * u + -0.000135275724f;
  q = q * u + 0.000733500579f;
  q = q * u + -0.00357104093f;
  q = q * u + 0.0164646246f;
  q = q * u + 0.923750937f;
  q = q * u + 4.41816092f;
  q = q * u + 5.36494112f;
  float far = 1 - exp_near(-q);
  return a < 1 ? x * p : x != x ? x : __builtin_copysignf(far, x);
}

static inline float mod_f32(float a, float b) {
  float r = fmodf(a, b);
  return r == 0 ? __builtin_copysignf(r, b) : (r < 0) != (b < 0) ? r + b : r;
}
static inline float pow_f32(float a, float b) { return powf(a, b); }
#define largest_f32 __FLT_MAX__

/* Double: the C library's. Loops that vectorise have those of functions_double.h. */
#define largest_f64 __DBL_MAX__
#define acos_f64 acos
#define acosh_f64 acosh
#define asin_f64 asin
#define asinh_f64 asinh
#define atan_f64 atan
#define atanh_f64 atanh
#define cos_f64 cos
#define cosh_f64 cosh
#define sin_f64 sin
#define sinh_f64 sinh
#define tan_f64 tan
#define abs_f64 fabs
#define ceil_f64 ceil
#define floor_f64 floor
#define rint_f64 rint
#define sqrt_f64 sqrt
#define exp_f64 exp
#define expm1_f64 expm1
#define log_f64 log
#define tanh_f64 tanh
#define erf_f64 erf
#define pow_f64 pow
#define fmod_f64 fmod
static inline double clamp_f64(double x, double low, double high) {
  double raised = x < low ? low : x;
  return raised > high ? high : raised;
}
/* Below -700 e^-x would overflow; 1 + e^x is 1 there. */
static inline double sigmoid_f64(double x) { return x < -700 ? exp(x) : 1 / (1 + exp(-x)); }
static inline double softplus_f64(double x) { return (x > 0 ? x : x != x ? x : 0) + log1p(exp(-fabs(x))); }
static inline double mod_f64(double a, double b) {
  double r = fmod(a, b);
  return r == 0 ? copysign(r, b) : (r < 0) != (b < 0) ? r + b : r;
}

/* a to the b modulo 2^64, by squaring. */
static inline uint64_t integer_power(uint64_t a, uint64_t b) {
  uint64_t y = 1;
  for (; b; b >>= 1, a *= a)
    if (b & 1) y *= a;
  return y;
}

#endif
