/* The steps of Fused and FusedColumns, one element at a time, each rounded to its dtype. The kernels:
 * ops/cpu/elementwise/fused.c, fused_columns.c. */
#include "ops/cpu/calls/fused.h"
#include "ops/cpu/reference/elements.h"
#include "ops/cpu/reference/elementwise.h"
#include "ops/cpu/common/common.h"

typedef struct cell {
  char bytes[8];
} cell;

typedef struct fused_reference {
  fused_typed program;
  reed_desc out, inputs[FUSED_INPUTS];
} fused_reference;

/* All steps on cells that hold the inputs' elements. */
static reed_status run_steps(const fused_reference *s, cell *cells, const reed_kernel_buffers *buffers) {
  int fault = 0;
  for (int32_t j = 0; j < s->program.n_steps; j++) {
    const fused_typed_step *step = &s->program.steps[j];
    int32_t to = s->program.n_inputs + j;
    reed_dtype dtypes[FUSED_OPERANDS];
    const void *operands[FUSED_OPERANDS];
    for (int32_t k = 0; k < step->n_operands; k++) {
      operands[k] = cells[step->operands[k]].bytes;
      dtypes[k] = s->program.dtypes[step->operands[k]];
    }
    bool known = true;
    reed_dtype result = s->program.dtypes[to];
    char *out = cells[to].bytes;
    if (step->formula == OP_Cast) reference_convert(dtypes[0], operands[0], result, out, 0);
    else if (step->formula == OP_Where) memcpy(out, operands[*(const uint8_t *)operands[0] ? 1 : 2], sizeof(cell));
    else
      known =
          reference_formula(step->formula, &step->parameters, step->n_operands, dtypes, operands, result, out, &fault);
    if (!known) return reed_kernel_fault(buffers, REED_FAULT_FORMULA, -1, -1, dtypes[0], 0);
  }
  return fault ? reed_kernel_fault(buffers, REED_FAULT_DIVISION, -1, -1, 0, 0) : REED_OK;
}

static reed_status run(const void *state, const reed_kernel_buffers *buffers) {
  const fused_reference *s = state;
  int64_t n = desc_elements(&s->out), at[REED_MAX_RANK];
  size_t size = reed_dtype_bytes(s->out.dtype);
  cell cells[FUSED_VALUES];
  reed_status status = REED_OK;
  for (int64_t i = 0; i < n && status == REED_OK; i++) {
    reference_coordinates(&s->out, i, at);
    for (int32_t k = 0; k < s->program.n_inputs; k++) {
      size_t bytes = reed_dtype_bytes(s->inputs[k].dtype);
      memcpy(cells[k].bytes,
             (const char *)buffers->inputs[k] + (size_t)reference_linear(&s->inputs[k], at, s->out.rank) * bytes,
             bytes);
    }
    status = run_steps(s, cells, buffers);
    memcpy((char *)buffers->outputs[0] + (size_t)i * size, cells[s->program.n_inputs + s->program.n_steps - 1].bytes,
           size);
  }
  return status;
}

reed_status reference_prepare_fused(const reed_kernel_call *call, reed_kernel *out_kernel) {
  fused_reference *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  reed_status status = fused_type(call, &s->program);
  if (status != REED_OK) {
    mem_free(s);
    return status;
  }
  s->out = call->outputs[0];
  memcpy(s->inputs, call->inputs, (size_t)call->n_inputs * sizeof *s->inputs);
  cpu_kernel_set(out_kernel, run, s);
  return REED_OK;
}

/* ---- FusedColumns ---- */

typedef struct columns_reference {
  fused_reference fused; /* out: the rows, with the output's dtype */
  fused_columns columns;
} columns_reference;

static reed_status run_columns(const void *state, const reed_kernel_buffers *buffers) {
  const columns_reference *s = state;
  const reed_desc *rows = &s->fused.out;
  const int64_t n = desc_elements(rows);
  const size_t size = reed_dtype_bytes(rows->dtype);
  int64_t at[REED_MAX_RANK];
  cell cells[FUSED_VALUES];
  reed_status status = REED_OK;
  for (int64_t i = 0; i < n && status == REED_OK; i++) {
    reference_coordinates(rows, i, at);
    for (int32_t k = 0; k < s->fused.program.n_inputs; k++) {
      reed_desc input = s->fused.inputs[k];
      const int64_t width = input.rank ? input.dims[input.rank - 1] : 1;
      const size_t bytes = reed_dtype_bytes(input.dtype);
      input.rank -= input.rank > 0;
      const int64_t place = reference_linear(&input, at, rows->rank) * width + s->columns.columns[k];
      memcpy(cells[k].bytes, (const char *)buffers->inputs[k] + (size_t)place * bytes, bytes);
    }
    status = run_steps(&s->fused, cells, buffers);
    for (int32_t j = 0; j < s->columns.n_results; j++)
      memcpy((char *)buffers->outputs[0] + (size_t)(i * s->columns.n_results + j) * size,
             cells[s->columns.results[j]].bytes, size);
  }
  return status;
}

reed_status reference_prepare_fused_columns(const reed_kernel_call *call, reed_kernel *out_kernel) {
  fused_rows rows;
  columns_reference *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  reed_status status = fused_type_columns(call, &s->fused.program, &rows);
  if (status != REED_OK) {
    mem_free(s);
    return status;
  }
  s->fused.out = rows.rows;
  s->columns = rows.columns;
  memcpy(s->fused.inputs, call->inputs, (size_t)call->n_inputs * sizeof *s->fused.inputs);
  cpu_kernel_set(out_kernel, run_columns, s);
  return REED_OK;
}
