/* Steps of fused programs on blocks of elements (fused_steps.h). A step runs the same loop (formulas.h) as its operator
 * alone, so f32 results are the same to the bit; f16 and bf16 are computed in f32 and rounded when they are cast. */
#include "ops/cpu/elementwise/fused_steps.h"

#include "ops/cpu/common/strided.h"

void fused_repeat(char *to, int64_t size, int64_t n) {
  uint64_t element = 0;
  memcpy(&element, to, (size_t)size);
  strided_fill(to, &element, size, n);
}

reed_status fused_step_of(const reed_kernel_call *call, const fused_typed *p, int32_t j, fused_run_step *out_step) {
  const fused_typed_step *step = &p->steps[j];
  reed_dtype result = p->dtypes[p->n_inputs + j], held = fused_held(result);
  reed_dtype operand = fused_held(p->dtypes[step->operands[step->formula == OP_Where]]);
  *out_step = (fused_run_step){
      .n_operands = step->n_operands, .parameters = step->parameters, .size = (int64_t)reed_dtype_bytes(held)};
  memcpy(out_step->operands, step->operands, sizeof out_step->operands);
  if (step->formula == OP_Cast) {
    out_step->cast = convert_between(cpu_level_now(), operand, result);
    if (held != result) out_step->widen = convert_between(cpu_level_now(), result, held);
    return REED_OK;
  }
  out_step->fn = elementwise_formula(cpu_level_now(),
                                     step->formula == OP_Where ? elementwise_carrier(operand) : operand, step->formula);
  if (!out_step->fn)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "step %d: there is no such formula for %s", j,
                            reed_dtype_name(operand));
  return REED_OK;
}

int fused_step_run(const fused_run_step *r, const void *const *values, const uint8_t *steps, void *to, int64_t m) {
  const void *operands[FUSED_OPERANDS];
  uint8_t own[FUSED_OPERANDS], any = 0;
  for (int32_t k = 0; k < r->n_operands; k++) {
    operands[k] = values[r->operands[k]];
    any |= own[k] = steps[r->operands[k]];
  }
  int64_t n = any ? m : 1;
  int fault = 0;
  if (r->fn) {
    fault = r->fn(to, operands, own, n, &r->parameters);
  } else if (r->widen) {
    uint16_t narrow[FUSED_BLOCK_MOST];
    r->cast(narrow, operands[0], n);
    r->widen(to, narrow, n);
  } else {
    r->cast(to, operands[0], n);
  }
  if (n < m) fused_repeat(to, r->size, m);
  return fault;
}
