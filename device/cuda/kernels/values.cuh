/* Elements of every dtype as values in registers: the bits of an element in 64, halves as f32. Reading, writing and
 * converting them, as the host does (ops/cpu/common/convert.c). */
#ifndef DEVICE_CUDA_KERNELS_VALUES_CUH_
#define DEVICE_CUDA_KERNELS_VALUES_CUH_

#include "device/cuda/kernels/ptx.cuh"

template <class T> static __device__ inline T value_as(uint64_t bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T> static __device__ inline uint64_t value_of(T value) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}

/* An element, as it is held. */
static __device__ inline uint64_t value_load(int dtype, const void *data, int64_t i) {
  switch (dtype) {
    case REED_F16: return value_of(f32_of_f16(static_cast<const uint16_t *>(data)[i]));
    case REED_BF16: return value_of(f32_of_bf16(static_cast<const uint16_t *>(data)[i]));
    case REED_F32:
    case REED_I32:
    case REED_U32: return static_cast<const uint32_t *>(data)[i];
    case REED_F64:
    case REED_I64:
    case REED_U64: return static_cast<const uint64_t *>(data)[i];
    case REED_I16:
    case REED_U16: return static_cast<const uint16_t *>(data)[i];
    default: return static_cast<const uint8_t *>(data)[i];
  }
}

/* An element as it is held, from its bits in memory; and back. */
static __device__ inline uint64_t value_held(int dtype, uint64_t bits) {
  if (dtype == REED_F16) return value_of(f32_of_f16(static_cast<uint16_t>(bits)));
  return dtype == REED_BF16 ? value_of(f32_of_bf16(static_cast<uint16_t>(bits))) : bits;
}
static __device__ inline uint64_t value_bits(int dtype, uint64_t held) {
  if (dtype == REED_F16) return f16_of_f32(value_as<float>(held));
  return dtype == REED_BF16 ? bf16_of_f32(value_as<float>(held)) : held;
}

/* Writes a value held for the dtype. */
static __device__ inline void value_store(int dtype, void *data, int64_t i, uint64_t value) {
  switch (dtype) {
    case REED_F16: static_cast<uint16_t *>(data)[i] = f16_of_f32(value_as<float>(value)); break;
    case REED_BF16: static_cast<uint16_t *>(data)[i] = bf16_of_f32(value_as<float>(value)); break;
    case REED_F32:
    case REED_I32:
    case REED_U32: static_cast<uint32_t *>(data)[i] = static_cast<uint32_t>(value); break;
    case REED_F64:
    case REED_I64:
    case REED_U64: static_cast<uint64_t *>(data)[i] = value; break;
    case REED_I16:
    case REED_U16: static_cast<uint16_t *>(data)[i] = static_cast<uint16_t>(value); break;
    default: static_cast<uint8_t *>(data)[i] = static_cast<uint8_t>(value); break;
  }
}

static __device__ inline bool dtype_is_float(int dtype) {
  return dtype == REED_F32 || dtype == REED_F64 || dtype == REED_F16 || dtype == REED_BF16;
}

/* A float held as `dtype`, in double. */
static __device__ inline double value_real(int dtype, uint64_t value) {
  return dtype == REED_F64 ? value_as<double>(value) : static_cast<double>(value_as<float>(value));
}

/* An integer or truth value, in 64 bits; those of U64 as they are. */
static __device__ inline int64_t value_whole(int dtype, uint64_t value) {
  switch (dtype) {
    case REED_I8: return value_as<int8_t>(value);
    case REED_I16: return value_as<int16_t>(value);
    case REED_I32: return value_as<int32_t>(value);
    case REED_BOOL: return (value & 0xff) != 0;
    default: return static_cast<int64_t>(value);
  }
}

/* Keys of 32 or 64 bits whose ascending order is that of the elements: NaN is larger than every number, -0 equals 0. */
static __device__ inline uint64_t value_key(int dtype, int bits, uint64_t value) {
  const uint64_t mask = bits == 64 ? ~uint64_t(0) : 0xffffffffu, sign = uint64_t(1) << (bits - 1);
  if (dtype_is_float(dtype)) {
    const double v = value_real(dtype, value);
    return v != v ? mask : v == 0 ? sign : value & sign ? ~value & mask : value | sign;
  }
  const bool is_unsigned = dtype == REED_U8 || dtype == REED_U16 || dtype == REED_U32 || dtype == REED_U64;
  return is_unsigned ? value : (static_cast<uint64_t>(value_whole(dtype, value)) ^ sign) & mask;
}

/* Float to integer: values out of range and NaN become the minimum, as on the host. */
static __device__ inline int32_t i32_of_real(double v) {
  return v > -2147483649.0 && v < 2147483648.0 ? static_cast<int32_t>(v) : INT32_MIN;
}
static __device__ inline int64_t i64_of_real(double v) {
  return v >= -9223372036854775808.0 && v < 9223372036854775808.0 ? static_cast<int64_t>(v) : INT64_MIN;
}
static __device__ inline uint64_t u64_of_real(double v) {
  if (v >= 9223372036854775808.0 && v < 18446744073709551616.0) return static_cast<uint64_t>(v);
  return static_cast<uint64_t>(i64_of_real(v));
}

static __device__ inline uint64_t convert_real(double v, int to) {
  switch (to) {
    case REED_F32: return value_of(static_cast<float>(v));
    case REED_F64: return value_of(v);
    case REED_F16: return value_of(f32_of_f16(f16_of_f64(v)));
    case REED_BF16: return value_of(f32_of_bf16(bf16_of_f32(static_cast<float>(v))));
    case REED_I8:
    case REED_U8: return value_of(static_cast<uint8_t>(i32_of_real(v)));
    case REED_I16:
    case REED_U16: return value_of(static_cast<uint16_t>(i32_of_real(v)));
    case REED_I32: return value_of(i32_of_real(v));
    case REED_U32: return value_of(static_cast<uint32_t>(i64_of_real(v)));
    case REED_I64: return value_of(i64_of_real(v));
    case REED_U64: return u64_of_real(v);
    default: return v != 0;
  }
}

static __device__ inline uint64_t convert_whole(int64_t v, bool is_unsigned, int to) {
  const uint64_t bits = static_cast<uint64_t>(v);
  switch (to) {
    case REED_F32: return value_of(is_unsigned ? static_cast<float>(bits) : static_cast<float>(v));
    case REED_F64: return value_of(is_unsigned ? static_cast<double>(bits) : static_cast<double>(v));
    case REED_F16:
      return value_of(f32_of_f16(f16_of_f64(is_unsigned ? static_cast<double>(bits) : static_cast<double>(v))));
    case REED_BF16:
      return value_of(f32_of_bf16(bf16_of_f32(is_unsigned ? static_cast<float>(bits) : static_cast<float>(v))));
    case REED_I8:
    case REED_U8: return bits & 0xff;
    case REED_I16:
    case REED_U16: return bits & 0xffff;
    case REED_I32:
    case REED_U32: return bits & 0xffffffffu;
    case REED_I64:
    case REED_U64: return bits;
    default: return v != 0;
  }
}

/* The value held for dtype `from` as it is held for dtype `to`, rounded to that dtype. */
static __device__ inline uint64_t value_convert(int from, int to, uint64_t value) {
  if (from == to) return value;
  if (dtype_is_float(from)) return convert_real(value_real(from, value), to);
  return convert_whole(value_whole(from, value), from == REED_U64, to);
}

#endif
