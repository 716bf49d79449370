/* Products with packed weights of half precision and an X of f32, or of bf16 beside weights in pairs, for kernels that
 * take f32 weights: the weights are widened once a program, or in each run if they are no constants or the call has no
 * cache. */
#ifndef OPS_CPU_VIEWS_WIDEN_H_
#define OPS_CPU_VIEWS_WIDEN_H_

#include "ops/cpu/views/call_copy.h"
#include "ops/packed.h"

/* True if input 1, the weights, is f16 or bf16 and input 0 f32, or bf16 beside weights in pairs. */
bool widen_needed(const reed_kernel_call *call);
/* True if weights of half precision can be widened once a program. `constant`: the weights, or NULL. */
static inline bool widen_once(const reed_kernel_call *call, const void *constant) {
  return constant && call->env && call->env->cache;
}
/* Widens packed weights of half precision, all of the order's matrices, to f32 without pairs. */
void widen_packed(const packed_order *order, cpu_level level, const void *packed, float *to);
/* Prepares the kernel of `prepare` for the call with weights of f32, without pairs. */
reed_status widen_prepare(const reed_kernel_call *call, reed_kernel_prepare_fn prepare,
                          reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
