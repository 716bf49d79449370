/* The functions of one float or double that the formulas of ops/cpu/formulas/formulas.def call, by the names that those
 * have there. */
#ifndef DEVICE_CUDA_KERNELS_FUNCTIONS_CUH_
#define DEVICE_CUDA_KERNELS_FUNCTIONS_CUH_

#include "device/cuda/kernels/dialect.cuh"

#define FUNCTION_LIST(X) \
  X(acos, acosf) \
  X(acosh, acoshf) \
  X(asin, asinf) \
  X(asinh, asinhf) \
  X(atan, atanf) \
  X(atanh, atanhf) \
  X(cos, cosf) \
  X(cosh, coshf) \
  X(sin, sinf) \
  X(sinh, sinhf) \
  X(tan, tanf) \
  X(ceil, ceilf) \
  X(floor, floorf) \
  X(rint, rintf) \
  X(sqrt, sqrtf) \
  X(exp, expf) \
  X(expm1, expm1f) \
  X(log, logf) \
  X(tanh, tanhf) \
  X(erf, erff)
#define FUNCTION(name, name_f32) \
  static __device__ inline float name##_f32(float x) { return name_f32(x); } \
  static __device__ inline double name##_f64(double x) { return name(x); }
FUNCTION_LIST(FUNCTION)
#undef FUNCTION
#undef FUNCTION_LIST
static __device__ inline float abs_f32(float x) { return fabsf(x); }
static __device__ inline double abs_f64(double x) { return fabs(x); }
static __device__ inline float pow_f32(float a, float b) { return powf(a, b); }
static __device__ inline double pow_f64(double a, double b) { return pow(a, b); }
static __device__ inline float fmod_f32(float a, float b) { return fmodf(a, b); }
static __device__ inline double fmod_f64(double a, double b) { return fmod(a, b); }
#define largest_f32 3.40282346638528859812e38f
#define largest_f64 1.79769313486231570815e308

#define FUNCTIONS(T, TAG, log1p, copysign) \
  /* NaN stays; low above high gives high */ \
  static __device__ inline T clamp_##TAG(T x, T low, T high) { \
    const T raised = x < low ? low : x; \
    return raised > high ? high : raised; \
  } \
  /* e^-|x| never overflows and keeps the small side exact */ \
  static __device__ inline T sigmoid_##TAG(T x) { \
    const T e = exp_##TAG(-abs_##TAG(x)); \
    return (x < 0 ? e : 1) / (1 + e); \
  } \
  static __device__ inline T softplus_##TAG(T x) { \
    return (x > 0 ? x : x != x ? x : 0) + log1p(exp_##TAG(-abs_##TAG(x))); \
  } \
  static __device__ inline T mod_##TAG(T a, T b) { \
    const T r = fmod_##TAG(a, b); \
    return r == 0 ? copysign(r, b) : (r < 0) != (b < 0) ? r + b : r; \
  }
FUNCTIONS(float, f32, log1pf, copysignf)
FUNCTIONS(double, f64, log1p, copysign)
#undef FUNCTIONS

/* Rounds towards zero; a value out of range becomes the nearest in range, NaN becomes 0. */
static __device__ inline int64_t whole_of(double x) {
  return x >= 9223372036854775808.0    ? INT64_MAX
         : x <= -9223372036854775808.0 ? -INT64_MAX
         : x == x                      ? static_cast<int64_t>(x)
                                       : 0;
}

/* a to the b modulo 2^64, by squaring. */
static __device__ inline uint64_t integer_power(uint64_t a, uint64_t b) {
  uint64_t y = 1;
  for (; b; b >>= 1, a *= a)
    if (b & 1) y *= a;
  return y;
}

#endif
