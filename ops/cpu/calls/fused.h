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

/* As fused_type, for FusedColumns: each result has the output's dtype, and each input has its column. out_rows: the
 * output's extents without the last one. out_strides[k]: the distances in elements of input k along the rows' axes, 0
 * where it broadcasts; the column of the call is not part of them. */
typedef struct fused_rows {
  fused_columns columns;
  reed_desc rows;
  int64_t strides[FUSED_INPUTS][REED_MAX_RANK];
} fused_rows;
reed_status fused_type_columns(const reed_kernel_call *call, fused_typed *out_program,
                               fused_rows *out_rows) REED_MUST_CHECK;

#endif
