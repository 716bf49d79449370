/* Conversions between all pairs of dtypes, one loop each, made from a list of sources and a list of targets. Compiled
 * once per CPU level. */
#include "ops/cpu/common/convert_pairs.h"

#include <stdint.h>

#include "base/half.h"

/* Float to integer as x86's truncating conversions compute it: values out of range and NaN become the minimum. */
static inline int32_t i32_of(double v) { return v > -2147483649.0 && v < 2147483648.0 ? (int32_t)v : INT32_MIN; }
static inline int64_t i64_of(double v) { return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN; }
static inline uint64_t u64_of(double v) {
  if (v >= 0x1p63 && v < 0x1p64) return (uint64_t)v;
  return (uint64_t)i64_of(v);
}

/* Sources: name, memory type, value of element x, class of that value */
#define SOURCES(X) \
  X(F32, float, x, FLOAT) \
  X(F64, double, x, FLOAT) \
  X(F16, uint16_t, f16_to_f32(x), FLOAT) \
  X(BF16, uint16_t, bf16_to_f32(x), FLOAT) \
  X(I8, int8_t, x, INT) \
  X(I16, int16_t, x, INT) \
  X(I32, int32_t, x, INT) \
  X(I64, int64_t, x, INT) \
  X(U8, uint8_t, x, INT) \
  X(U16, uint16_t, x, INT) \
  X(U32, uint32_t, x, INT) \
  X(U64, uint64_t, x, INT) \
  X(BOOL, uint8_t, (x != 0), INT)

/* Targets: name, memory type, element from a FLOAT value v, from an INT value v */
#define TARGETS(X, ...) \
  X(F32, float, (float)v, (float)v, __VA_ARGS__) \
  X(F64, double, (double)v, (double)v, __VA_ARGS__) \
  X(F16, uint16_t, f16_from_f64((double)v), f16_from_f64((double)v), __VA_ARGS__) \
  X(BF16, uint16_t, bf16_from_f32((float)v), bf16_from_f32((float)v), __VA_ARGS__) \
  X(I8, int8_t, (int8_t)i32_of(v), (int8_t)v, __VA_ARGS__) \
  X(I16, int16_t, (int16_t)i32_of(v), (int16_t)v, __VA_ARGS__) \
  X(I32, int32_t, i32_of(v), (int32_t)v, __VA_ARGS__) \
  X(I64, int64_t, i64_of(v), (int64_t)v, __VA_ARGS__) \
  X(U8, uint8_t, (uint8_t)i32_of(v), (uint8_t)v, __VA_ARGS__) \
  X(U16, uint16_t, (uint16_t)i32_of(v), (uint16_t)v, __VA_ARGS__) \
  X(U32, uint32_t, (uint32_t)i64_of(v), (uint32_t)v, __VA_ARGS__) \
  X(U64, uint64_t, u64_of(v), (uint64_t)v, __VA_ARGS__) \
  X(BOOL, uint8_t, v != 0, v != 0, __VA_ARGS__)

#define PICK_FLOAT(from_float, from_int) from_float
#define PICK_INT(from_float, from_int) from_int

#define PAIR(to_name, to_type, from_float, from_int, from_name, from_type, value, class) \
  static void from_name##_to_##to_name(void *out, const void *in, int64_t n) { \
    to_type *to = out; \
    const from_type *from = in; \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) { \
      const from_type x = from[i]; \
      const __typeof__(value) v = value; \
      to[i] = PICK_##class(from_float, from_int); \
    } \
  }
#define ALL_TARGETS(...) TARGETS(PAIR, __VA_ARGS__)
SOURCES(ALL_TARGETS)

#define ENTRY(to_name, to_type, from_float, from_int, from_name, ...) \
  [REED_##from_name][REED_##to_name] = from_name##_to_##to_name,
#define ALL_ENTRIES(...) TARGETS(ENTRY, __VA_ARGS__)
static const convert_fn conversions[REED_DTYPE_COUNT][REED_DTYPE_COUNT] = {SOURCES(ALL_ENTRIES)};

convert_fn CPU_LEVELED(convert_pair)(reed_dtype from, reed_dtype to) { return conversions[from][to]; }
