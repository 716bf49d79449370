/* Reading a Fused call: formulas and dtypes of its program's steps. */
#include "ops/cpu/calls/fused.h"

#include "ops/cpu/formulas/formulas.h"
#include "ops/facts.h"

/* The result's dtype by the rule of op.def; REED_NONE for operands whose dtypes do not agree. */
static reed_dtype result_dtype(const fused_typed *p, const fused_step *from, const fused_typed_step *step) {
  const reed_op_output *rule = &from->op->outputs[0];
  if (rule->type_rule == REED_TYPE_ATTR) {
    reed_attrs attrs = fused_attrs(from);
    int64_t to = op_attr_int(&attrs, rule->type_attr);
    return to > REED_NONE && to < REED_DTYPE_COUNT ? (reed_dtype)to : REED_NONE;
  }
  int32_t first = step->formula == OP_Where ? 1 : 0;
  for (int32_t k = first; k < step->n_operands; k++)
    if (p->dtypes[step->operands[k]] != p->dtypes[step->operands[first]]) return REED_NONE;
  if (first && p->dtypes[step->operands[0]] != REED_BOOL) return REED_NONE;
  return rule->type_rule == REED_TYPE_FIXED ? (reed_dtype)rule->type_arg : p->dtypes[step->operands[first]];
}

static reed_status type_step(const reed_kernel_call *call, const fused_step *from, fused_typed *p, int32_t j) {
  reed_attrs attrs = fused_attrs(from);
  fused_typed_step *step = &p->steps[j];
  step->formula = elementwise_choice(from->op, &attrs);
  if (step->formula == FORMULA_COUNT)
    return reed_kernel_fail(call, REED_ERROR_VALUE, "step %d: an attribute has a value that is not known", j);
  step->parameters = elementwise_parameters_of(step->formula, &attrs);
  step->n_operands = from->n_operands;
  memcpy(step->operands, from->operands, sizeof step->operands);
  for (int32_t k = 1; step->formula == OP_Clip && k < 3; k++)
    if (step->operands[k] >= p->n_inputs || desc_elements(&call->inputs[step->operands[k]]) != 1)
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "step %d: a bound of Clip is no input of one element", j);
  reed_dtype dtype = result_dtype(p, from, step);
  if (dtype == REED_NONE)
    return reed_kernel_fail(call, REED_ERROR_TYPE, "step %d: the dtypes of %s's operands do not fit", j,
                            from->op->name);
  p->dtypes[p->n_inputs + j] = dtype;
  return REED_OK;
}

static reed_status type_steps(const reed_kernel_call *call, fused_typed *p) {
  fused_program read;
  const fused_program *program = op_facts_program(op_facts_of(call), call->n_inputs);
  const char *wrong = program ? NULL : fused_read(call->attrs, call->n_inputs, &read);
  if (wrong) return reed_kernel_fail(call, REED_ERROR_VALUE, "program: %s", wrong);
  if (!program) program = &read;
  p->n_inputs = call->n_inputs;
  p->n_steps = program->n_steps;
  for (int32_t k = 0; k < p->n_inputs; k++) p->dtypes[k] = call->inputs[k].dtype;
  for (int32_t j = 0; j < p->n_steps; j++) {
    reed_status status = type_step(call, &program->steps[j], p, j);
    if (status != REED_OK) return status;
  }
  return REED_OK;
}

reed_status fused_type(const reed_kernel_call *call, fused_typed *p) {
  const reed_status status = type_steps(call, p);
  if (status != REED_OK) return status;
  reed_dtype last = p->dtypes[p->n_inputs + p->n_steps - 1];
  if (last != call->outputs[0].dtype)
    return reed_kernel_fail(call, REED_ERROR_TYPE, "the program gives %s, not %s", reed_dtype_name(last),
                            reed_dtype_name(call->outputs[0].dtype));
  return REED_OK;
}

/* The strides of an input [rows..., width] along the output's rows. False: it does not broadcast to them, or has no
 * such column. */
static bool row_strides(const reed_desc *input, int32_t column, const reed_desc *rows, int64_t *out_strides) {
  const int64_t width = input->rank ? input->dims[input->rank - 1] : 1;
  reed_desc own = *input;
  own.rank -= own.rank > 0;
  if ((column >= width && desc_elements(rows)) || !cpu_broadcast_strides(&own, rows, out_strides)) return false;
  for (int32_t d = 0; d < rows->rank; d++) out_strides[d] *= width;
  return true;
}

reed_status fused_type_columns(const reed_kernel_call *call, fused_typed *p, fused_rows *r) {
  const reed_desc *out = &call->outputs[0];
  reed_status status = type_steps(call, p);
  if (status != REED_OK) return status;
  const char *wrong = fused_read_columns(call->attrs, call->n_inputs, &r->columns);
  if (wrong) return reed_kernel_fail(call, REED_ERROR_VALUE, "columns: %s", wrong);
  for (int32_t j = 0; j < r->columns.n_results; j++) {
    if (r->columns.results[j] >= p->n_inputs + p->n_steps)
      return reed_kernel_fail(call, REED_ERROR_VALUE, "result %d is no value of the program", j);
    const reed_dtype dtype = p->dtypes[r->columns.results[j]];
    if (dtype != out->dtype)
      return reed_kernel_fail(call, REED_ERROR_TYPE, "result %d is %s, not %s", j, reed_dtype_name(dtype),
                              reed_dtype_name(out->dtype));
  }
  if (out->rank < 1 || out->dims[out->rank - 1] != r->columns.n_results)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "the output has not one column for each result");
  r->rows = *out;
  r->rows.rank--;
  for (int32_t k = 0; k < p->n_inputs; k++)
    if (!row_strides(&call->inputs[k], r->columns.columns[k], &r->rows, r->strides[k]))
      return reed_kernel_fail(call, REED_ERROR_SHAPE,
                              "input %d does not broadcast to the output's rows, or has no column %d", k,
                              r->columns.columns[k]);
  return REED_OK;
}
