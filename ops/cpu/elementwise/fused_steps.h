/* One step of a fused program on a block of elements, for Fused and FusedColumns. */
#ifndef OPS_CPU_ELEMENTWISE_FUSED_STEPS_H_
#define OPS_CPU_ELEMENTWISE_FUSED_STEPS_H_

#include "ops/cpu/calls/fused.h"
#include "ops/cpu/common/convert.h"
#include "ops/cpu/formulas/formulas.h"

#define FUSED_BLOCK_MOST 1024 /* elements of a block */

typedef struct fused_run_step {
  elementwise_fn fn;      /* NULL: Cast */
  convert_fn cast, widen; /* widen: back from f16 or bf16 to f32; NULL: no need */
  int32_t n_operands, operands[FUSED_OPERANDS];
  elementwise_parameters parameters;
  int64_t size; /* bytes of an element of the result */
  int32_t slot; /* the kernel's own number */
} fused_run_step;

/* The dtype in which a block holds values of this dtype. */
static inline reed_dtype fused_held(reed_dtype dtype) {
  return dtype == REED_F16 || dtype == REED_BF16 ? REED_F32 : dtype;
}

/* Step j of the program; its slot is 0. ERROR_UNSUPPORTED: there is no such formula for the dtype. */
reed_status fused_step_of(const reed_kernel_call *call, const fused_typed *program, int32_t j,
                          fused_run_step *out_step) REED_MUST_CHECK;
/* Writes m elements of the result, at most FUSED_BLOCK_MOST. values: of the inputs and of the earlier steps; steps[k]:
 * 1, or 0 for a value of one element. Returns whether a division of integers failed. */
int fused_step_run(const fused_run_step *step, const void *const *values, const uint8_t *steps, void *to, int64_t m);
/* Repeats the element at `to` n times. */
void fused_repeat(char *to, int64_t size, int64_t n);

#endif
