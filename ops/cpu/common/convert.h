/* Conversions between all pairs of dtypes. */
#ifndef OPS_CPU_COMMON_CONVERT_H_
#define OPS_CPU_COMMON_CONVERT_H_

#include "ops/cpu/common/cpu.h"

/* n dense elements from one dtype to another: ONNX Cast (19). out may equal in only if the dtypes have the same size.
 * Out of range: float to integer gives the result of x86's truncation (the integer's minimum for 32 and 64 bit signed,
 * low bits of that for narrower), integer to narrower integer wraps, to bool is "not zero". */
typedef void (*convert_fn)(void *out, const void *in, int64_t n);
convert_fn convert_between(cpu_level level, reed_dtype from, reed_dtype to);

#endif
