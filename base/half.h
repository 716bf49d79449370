/* Conversions of IEEE 754 binary16 and bfloat16 to and from float, in plain integer arithmetic, so that the bits are
 * the same on every machine. Fast kernels use the CPU's own conversions, whose bits are the same but for NaN payloads.
 */
#ifndef BASE_HALF_H_
#define BASE_HALF_H_

#include <stdint.h>
#include <string.h>

static inline float f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 0x1f, mantissa = h & 0x3ff, bits;
  if (exponent == 0x1f) {
    bits = sign | 0x7f800000u | mantissa << 13;
  } else if (exponent) {
    bits = sign | (exponent + 112) << 23 | mantissa << 13;
  } else {
    float f = (float)mantissa * 0x1p-24f; /* zero and subnormals are exact multiples of 2^-24 */
    memcpy(&bits, &f, 4);
    bits |= sign;
  }
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

/* Rounds a double once, to nearest even (rounding to float first could round twice). */
static inline uint16_t f16_from_f64(double d) {
  uint64_t bits;
  memcpy(&bits, &d, 8);
  uint16_t sign = (uint16_t)(bits >> 48 & 0x8000u);
  int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
  uint64_t mantissa = bits & 0xfffffffffffffull;
  if (exponent == 1024) return (uint16_t)(sign | 0x7c00u | (mantissa ? 0x200u | (uint16_t)(mantissa >> 42) : 0));
  if (exponent > 15) return (uint16_t)(sign | 0x7c00u);
  if (exponent < -25) return sign;
  mantissa |= 1ull << 52;
  int shift = exponent >= -14 ? 42 : 42 + (-14 - exponent);
  uint64_t kept = mantissa >> shift, rest = mantissa & ((1ull << shift) - 1), half = 1ull << (shift - 1);
  if (rest > half || (rest == half && (kept & 1))) kept++;
  /* `kept` holds the implicit bit of normal numbers; a carry of the rounding moves into the exponent */
  uint32_t out = exponent >= -14 ? (uint32_t)kept + ((uint32_t)(exponent + 14) << 10) : (uint32_t)kept;
  return (uint16_t)(sign | out);
}

static inline uint16_t f16_from_f32(float f) { return f16_from_f64(f); }

static inline float bf16_to_f32(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

static inline uint16_t bf16_from_f32(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1), quiet = bits | 0x400000u;
  int is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return (uint16_t)((is_nan ? quiet : rounded) >> 16); /* no branch: loops over it become vectors */
}

#endif
