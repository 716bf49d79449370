/* f16 and bf16 operands around an f32 kernel: inputs are widened into the workspace, the kernel runs on f32, outputs
 * are narrowed. Correct on every machine, at the price of two passes over the data. */
#ifndef OPS_CPU_VIEWS_HALF_H_
#define OPS_CPU_VIEWS_HALF_H_

#include "ops/cpu/views/call_copy.h"

static inline bool half_is(reed_dtype dtype) { return dtype == REED_F16 || dtype == REED_BF16; }

/* Element i of a tensor of f32, or of half precision if `half`; NULL of NULL. */
static inline void *half_element(const void *elements, bool half, int64_t i) {
  const int64_t bytes = half ? sizeof(uint16_t) : sizeof(float);
  return elements ? (char *)(uintptr_t)elements + i * bytes : NULL;
}

/* Operands that a kernel takes as halves: bit i is input i, or output i. */
typedef struct half_kept {
  uint32_t inputs, outputs;
} half_kept;

/* Prepares the kernel of `prepare` for the call with every f16 or bf16 operand that is not kept seen as f32. */
reed_status half_prepare_as_f32(const reed_kernel_call *call, half_kept kept, reed_kernel_prepare_fn prepare,
                                reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
