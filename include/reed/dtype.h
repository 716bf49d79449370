/* Element types: the one list, from which every table of dtypes expands, and reading and writing of single elements. */
#ifndef REED_DTYPE_H_
#define REED_DTYPE_H_

#include "reed/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NAME, text, bytes, DLPack type code (0 int, 1 uint, 2 float, 4 bfloat, 6 bool), ONNX TensorProto.DataType */
#define REED_DTYPE_LIST(X) \
  X(F32, "f32", 4, 2, 1) \
  X(F64, "f64", 8, 2, 11) \
  X(F16, "f16", 2, 2, 10) \
  X(BF16, "bf16", 2, 4, 16) \
  X(I8, "i8", 1, 0, 3) \
  X(I16, "i16", 2, 0, 5) \
  X(I32, "i32", 4, 0, 6) \
  X(I64, "i64", 8, 0, 7) \
  X(U8, "u8", 1, 1, 2) \
  X(U16, "u16", 2, 1, 4) \
  X(U32, "u32", 4, 1, 12) \
  X(U64, "u64", 8, 1, 13) \
  X(BOOL, "bool", 1, 6, 9)

/* REED_NONE stands for "no tensor": an optional input that is absent. The numbers are part of the module format. */
typedef enum reed_dtype {
  REED_NONE = 0,
#define REED_DTYPE_ENUM_(name, text, bytes, dlpack, onnx) REED_##name,
  REED_DTYPE_LIST(REED_DTYPE_ENUM_)
#undef REED_DTYPE_ENUM_
      REED_DTYPE_COUNT
} reed_dtype;

/* Bytes of one element; 0 for REED_NONE and for numbers that are no dtype. */
REED_API size_t reed_dtype_bytes(reed_dtype dtype);
/* The dtype's text, such as "f32"; "none" for REED_NONE; "?" for a number that is no dtype. Static storage. */
REED_API const char *reed_dtype_name(reed_dtype dtype);
/* The dtype with this text; REED_NONE for an unknown text. */
REED_API reed_dtype reed_dtype_parse(const char *text);
/* Element -> double and back for any dtype (f16/bf16 round to nearest even; integers saturate, NaN gives 0). */
REED_API double reed_dtype_read(reed_dtype dtype, const void *element);
REED_API void reed_dtype_write(reed_dtype dtype, void *element, double value);

#ifdef __cplusplus
}
#endif
#endif
