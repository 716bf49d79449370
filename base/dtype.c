/* Names, sizes and conversions of dtypes (reed/dtype.h). */
#include "reed/dtype.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

size_t reed_dtype_bytes(reed_dtype dtype) {
  switch (dtype) {
#define BYTES_CASE(name, text, bytes, dlpack, onnx) \
  case REED_##name: return bytes;
    REED_DTYPE_LIST(BYTES_CASE)
#undef BYTES_CASE
    case REED_NONE:
    case REED_DTYPE_COUNT: break;
  }
  return 0;
}

const char *reed_dtype_name(reed_dtype dtype) {
  switch (dtype) {
#define NAME_CASE(name, text, bytes, dlpack, onnx) \
  case REED_##name: return text;
    REED_DTYPE_LIST(NAME_CASE)
#undef NAME_CASE
    case REED_NONE: return "none";
    case REED_DTYPE_COUNT: break;
  }
  return "?";
}

reed_dtype reed_dtype_parse(const char *text) {
  if (!text) return REED_NONE;
#define PARSE_LINE(name, name_text, bytes, dlpack, onnx) \
  if (strcmp(text, name_text) == 0) return REED_##name;
  REED_DTYPE_LIST(PARSE_LINE)
#undef PARSE_LINE
  return REED_NONE;
}

double reed_dtype_read(reed_dtype dtype, const void *element) {
  if (!element) return 0;
#define READ_AS(T) \
  do { \
    T value; \
    memcpy(&value, element, sizeof value); \
    return (double)value; \
  } while (0)
  switch (dtype) {
    case REED_F32: READ_AS(float);
    case REED_F64: READ_AS(double);
    case REED_I8: READ_AS(int8_t);
    case REED_I16: READ_AS(int16_t);
    case REED_I32: READ_AS(int32_t);
    case REED_I64: READ_AS(int64_t);
    case REED_U8: READ_AS(uint8_t);
    case REED_U16: READ_AS(uint16_t);
    case REED_U32: READ_AS(uint32_t);
    case REED_U64: READ_AS(uint64_t);
    case REED_BOOL: return *(const uint8_t *)element != 0;
    case REED_F16: {
      uint16_t bits;
      memcpy(&bits, element, 2);
      return f16_to_f32(bits);
    }
    case REED_BF16: {
      uint16_t bits;
      memcpy(&bits, element, 2);
      return bf16_to_f32(bits);
    }
    case REED_NONE:
    case REED_DTYPE_COUNT: break;
  }
#undef READ_AS
  return 0;
}

/* Limits are compared as doubles: (double)INT64_MAX is 2^63, so >= saturates it. */
void reed_dtype_write(reed_dtype dtype, void *element, double value) {
  if (!element) return;
#define WRITE_INT(T, low, high) \
  do { \
    T converted = isnan(value) ? 0 : value <= (double)(low) ? (low) : value >= (double)(high) ? (high) : (T)value; \
    memcpy(element, &converted, sizeof converted); \
    return; \
  } while (0)
  switch (dtype) {
    case REED_F32: {
      float converted = (float)value;
      memcpy(element, &converted, 4);
      return;
    }
    case REED_F64: memcpy(element, &value, 8); return;
    case REED_F16: {
      uint16_t bits = f16_from_f64(value);
      memcpy(element, &bits, 2);
      return;
    }
    case REED_BF16: {
      uint16_t bits = bf16_from_f32((float)value);
      memcpy(element, &bits, 2);
      return;
    }
    case REED_I8: WRITE_INT(int8_t, INT8_MIN, INT8_MAX);
    case REED_I16: WRITE_INT(int16_t, INT16_MIN, INT16_MAX);
    case REED_I32: WRITE_INT(int32_t, INT32_MIN, INT32_MAX);
    case REED_I64: WRITE_INT(int64_t, INT64_MIN, INT64_MAX);
    case REED_U8: WRITE_INT(uint8_t, 0, UINT8_MAX);
    case REED_U16: WRITE_INT(uint16_t, 0, UINT16_MAX);
    case REED_U32: WRITE_INT(uint32_t, 0, UINT32_MAX);
    case REED_U64: WRITE_INT(uint64_t, 0, UINT64_MAX);
    case REED_BOOL: *(uint8_t *)element = value != 0; return;
    case REED_NONE:
    case REED_DTYPE_COUNT: break;
  }
#undef WRITE_INT
}
