/* Functions of one double that the loops of formulas.def and of reductions call instead of the C library's.
 *
 * As in functions.h they are straight-line code that vectorises at every CPU level. Their files include
 * ops/cpu/uncontracted.h, so that a result has the same bits at each. Errors are below 2 units in the last place over
 * the whole range, subnormal numbers included (tests/ops/cpu says so). The algorithms and constants of exp, log, sin,
 * cos and the reduction by multiples of pi/2 are those of fdlibm (Sun Microsystems, 1993), of cos FreeBSD's version of
 * it; selections replace their branches. NaN stays NaN. */
#ifndef OPS_CPU_COMMON_FUNCTIONS_DOUBLE_H_
#define OPS_CPU_COMMON_FUNCTIONS_DOUBLE_H_

#include "ops/cpu/common/functions.h"

static inline double double_of_bits(uint64_t bits) {
  double d;
  memcpy(&d, &bits, 8);
  return d;
}
static inline uint64_t bits_of_double(double d) {
  uint64_t bits;
  memcpy(&bits, &d, 8);
  return bits;
}

/* Adding it rounds a number below 2^51 to a whole one, which is in the low bits of the sum. */
#define ROUNDS_DOUBLE 0x1.8p+52
#define LN_2_HIGH 6.93147180369123816490e-01 /* 32 bits: its products with whole numbers below 2^20 are exact */
#define LN_2_LOW 1.90821492927058770002e-10

/* ---- exponential ---- */

/* x = n ln 2 + r with |r| <= ln(2)/2; returns e^r - 1. |x| must be below 2^20. *out_half and *out_rest: powers of 2
 * whose product is 2^n, n in -1100 .. 1100. */
static inline double exp_reduced_double(double x, double *out_n, double *out_half, double *out_rest) {
  const double shifted = x * 1.44269504088896338700e+00 + ROUNDS_DOUBLE, n = shifted - ROUNDS_DOUBLE;
  const uint64_t biased = bits_of_double(shifted) - bits_of_double(ROUNDS_DOUBLE) + 2046, half = biased >> 1;
  const double high = x - n * LN_2_HIGH, low = n * LN_2_LOW, r = high - low, t = r * r;
  double p = 4.13813679705723846039e-08;
  p = p * t + -1.65339022054652515390e-06;
  p = p * t + 6.61375632143793436117e-05;
  p = p * t + -2.77777777770155933842e-03;
  p = p * t + 1.66666666666666019037e-01;
  const double c = r - t * p;
  *out_n = n;
  *out_half = double_of_bits(half << 52);
  *out_rest = double_of_bits((biased - half) << 52);
  return high - (low - r * c / (2 - c));
}

/* The scale is applied in two halves so that results down to the smallest subnormal are rounded once. */
static inline double exp_double(double x) {
  double n, half, rest;
  const double m = exp_reduced_double(clamp_f64(x, -746, 710), &n, &half, &rest);
  return (m + 1) * half * rest;
}

static inline double expm1_double(double x) {
  double n, half, rest;
  const double m = exp_reduced_double(clamp_f64(x, -50, 710), &n, &half, &rest), scale = half * rest;
  /* 2^n (m + 1) - 1, where n > 56 makes the 1 vanish and 2^1024 would overflow too early */
  const double y = n > 56 ? (m + 1) * half * rest : m * scale + (scale - 1);
  return n == 0 ? m : y;
}

/* x / (a + b), where the rounding of the sum (Knuth's two-sum) has next to no effect. */
static inline double over_sum_double(double x, double a, double b) {
  const double sum = a + b, part = sum - a, rest = (a - (sum - part)) + (b - part), y = x / sum;
  return y - y * (rest / sum);
}

static inline double tanh_double(double x) {
  const double m = expm1_double(2 * clamp_f64(fabs(x), 0, 22));
  return copysign(over_sum_double(m, m, 2), x);
}

/* ---- logarithm ---- */

/* x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); log(1 + f) = f - f^2/2 + s (f^2/2 + R), s = f / (2 + f), R the
 * rest of 2 atanh(s). */
static inline double log_double(double x) {
  const double scaled = x < 0x1p-1022 ? x * 0x1p+54 : x, less = x < 0x1p-1022 ? 54 : 0;
  const uint64_t root = 0x3fe6a09e667f3bcd /* sqrt(1/2) */, bits = bits_of_double(scaled) - root;
  const uint64_t k = (bits + ((uint64_t)1024 << 52)) >> 52; /* and 1024 */
  const double n = double_of_bits(bits_of_double(0x1p52) | k) - (0x1p52 + 1024) - less;
  const double f = double_of_bits((bits & 0xfffffffffffff) + root) - 1, s = f / (2 + f), z = s * s, w = z * z;
  double even = 1.531383769920937332e-01, odd = 1.479819860511658591e-01;
  even = even * w + 2.222219843214978396e-01;
  even = even * w + 3.999999999940941908e-01;
  odd = odd * w + 1.818357216161805012e-01;
  odd = odd * w + 2.857142874366239149e-01;
  odd = odd * w + 6.666666666666735130e-01;
  const double r = even * w + odd * z, h = 0.5 * f * f;
  double y = n * LN_2_HIGH - ((h - (s * (h + r) + n * LN_2_LOW)) - f);
  y = x == 0 ? -INFINITY : y;
  y = x < 0 ? NAN : y;
  return x < INFINITY ? y : x; /* inf, and NaN, which compares false */
}

/* log(1 + x) for x > -1 of which 1 + x is finite: the error of rounding 1 + x is put back to first order. */
static inline double log1p_finite_double(double x) {
  const double u = 1 + x;
  return log_double(u) + (x - (u - 1)) / u;
}

/* e^-|x| never overflows and keeps the small side exact. */
static inline double sigmoid_double(double x) {
  const double e = exp_double(-fabs(x));
  return over_sum_double(x < 0 ? e : 1, 1, e);
}
static inline double softplus_double(double x) {
  return (x > 0 ? x : x != x ? x : 0) + log1p_finite_double(exp_double(-fabs(x)));
}

/* ---- circular ---- */

/* The largest |x| of sin_double and cos_double. */
#define CIRCULAR_REACH_DOUBLE 0x1p+20

/* x = n pi/2 + r + rest with |r| about pi/4 at most. pi/2 comes in three parts of 33 bits, whose products with n are
 * exact, and a last one: 151 bits, because x may lie within 2^-60 of a multiple. *out_n: n in its low bits. */
static inline double quarter_turns_double(double x, uint64_t *out_n, double *out_rest) {
  const double shifted = x * 6.36619772367581382433e-01 + ROUNDS_DOUBLE, n = shifted - ROUNDS_DOUBLE;
  const double first = x - n * 1.57079632673412561417e+00;
  const double w = n * 6.07710050630396597660e-11, second = first - w, second_rest = (first - second) - w;
  const double v = n * 2.02226624871116645580e-21, third = second - v, third_rest = (second - third) - v;
  const double left = n * 8.47842766036889956997e-32 - third_rest - second_rest, r = third - left;
  *out_n = bits_of_double(shifted);
  *out_rest = (third - r) - left;
  return r;
}

static inline double sin_quarter_double(double r, double rest) {
  const double z = r * r, v = z * r;
  double p = 1.58969099521155010221e-10;
  p = p * z + -2.50507602534068634195e-08;
  p = p * z + 2.75573137070700676789e-06;
  p = p * z + -1.98412698298579493134e-04;
  p = p * z + 8.33333333332248946124e-03;
  return r - ((z * (0.5 * rest - v * p) - rest) - v * -1.66666666666666324348e-01);
}
static inline double cos_quarter_double(double r, double rest) {
  const double z = r * r, h = 0.5 * z, w = 1 - h;
  double p = -1.13596475577881948265e-11;
  p = p * z + 2.08757232129817482790e-09;
  p = p * z + -2.75573143513906633035e-07;
  p = p * z + 2.48015872894767294178e-05;
  p = p * z + -1.38888888888741095749e-03;
  p = p * z + 4.16666666666666019037e-02;
  return w + (((1 - w) - h) + (z * z * p - r * rest));
}

/* The sine of n quarter turns, r and rest. */
static inline double sin_turned_double(uint64_t n, double r, double rest) {
  const uint64_t odd = -(n & 1);
  const double sine = sin_quarter_double(r, rest), cosine = cos_quarter_double(r, rest);
  const uint64_t bits = (bits_of_double(cosine) & odd) | (bits_of_double(sine) & ~odd);
  return double_of_bits(bits ^ (n >> 1) << 63);
}
static inline double sin_double(double x) {
  uint64_t n;
  double rest;
  const double r = quarter_turns_double(x, &n, &rest);
  return x == 0 ? x : sin_turned_double(n, r, rest); /* -0 stays -0 */
}
static inline double cos_double(double x) {
  uint64_t n;
  double rest;
  const double r = quarter_turns_double(x, &n, &rest);
  return sin_turned_double(n + 1, r, rest);
}

/* The functions of formulas.def. */
#undef cos_f64
#undef exp_f64
#undef expm1_f64
#undef log_f64
#undef sin_f64
#undef tanh_f64
#define cos_f64 cos_double
#define exp_f64 exp_double
#define expm1_f64 expm1_double
#define log_f64 log_double
#define sigmoid_f64 sigmoid_double
#define sin_f64 sin_double
#define softplus_f64 softplus_double
#define tanh_f64 tanh_double

#endif
