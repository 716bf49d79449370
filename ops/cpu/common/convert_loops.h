/* Conversions between f32 and the half dtypes, one set of loops a CPU level. */
#ifndef OPS_CPU_COMMON_CONVERT_LOOPS_H_
#define OPS_CPU_COMMON_CONVERT_LOOPS_H_

#include "ops/cpu/common/cpu.h"

typedef void (*convert_half_fn)(void *out, const void *in, int64_t n);
/* The conversion between f32 and `half`, which is f16 or bf16. */
CPU_LOOP(convert_half_fn, convert_half, (reed_dtype half, int to_f32));

#endif
