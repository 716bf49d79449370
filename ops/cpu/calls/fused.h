/* A Fused call's program with formulas and dtypes instead of operators and attributes, for the kernel and the
 * reference. The program's text is read by ops/fused.h. */
#ifndef OPS_CPU_CALLS_FUSED_H_
#define OPS_CPU_CALLS_FUSED_H_

#include "ops/cpu/common/common.h"
#include "ops/cpu/formulas/formulas.h"
#include "ops/fused.h"

typedef struct fused_typed_step {
  int formula; /* formula number; OP_Cast and OP_Where stand for themselves */
  int32_t n_operands, operands[FUSED_OPERANDS];
  elementwise_parameters parameters;
} fused_typed_step;

typedef struct fused_typed {
  int32_t n_inputs, n_steps;
  fused_typed_step steps[FUSED_STEPS];
  reed_dtype dtypes[FUSED_VALUES]; /* of the inputs, then of the steps' results */
} fused_typed;

/* Reads and checks the call's program: the operands' dtypes agree, Clip's bounds are inputs of one element, the last
 * step gives the output's dtype. */
reed_status fused_type(const reed_kernel_call *call, fused_typed *out_program) REED_MUST_CHECK;

#endif
