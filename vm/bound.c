/* Bounds of counted registers: reads extents from registers and applies the rule of ops/bound.h. The rule itself is not
 * here. */
#include "vm/bound.h"

#include "base/diag.h"
#include "ops/bound.h"

const ref *bound_first(const vm_run *run, const uint32_t *inputs, uint32_t n_inputs) {
  for (uint32_t i = 0; i < n_inputs; i++) {
    uint32_t number = INSN_REGISTER(inputs[i]);
    if (number != MODULE_ABSENT && bound_is_counted(reg_r(run, number))) return reg_r(run, number);
  }
  return NULL;
}

reed_status bound_outputs(vm_run *run, uint32_t site, const uint32_t *inputs, uint32_t n_inputs,
                          const reed_shape_input *given, const reed_shape_output *at_two, reed_shape_output *outputs,
                          uint32_t n_outputs) {
  const reed_op *op = run->program->site_ops[site];
  bound_operand operands[REED_MAX_OPERANDS];
  for (uint32_t i = 0; i < n_inputs; i++) {
    uint32_t number = INSN_REGISTER(inputs[i]);
    operands[i] = (bound_operand){.rank = -1};
    if (number == MODULE_ABSENT) continue;
    const ref *r = reg_r(run, number);
    operands[i] = (bound_operand){.rank = given[i].rank, .dims = given[i].dims};
    if (bound_is_counted(r)) operands[i].counter = r->counter, operands[i].axis = r->bounded_axis;
  }
  bound_operand output = {.rank = at_two->rank, .dims = at_two->dims};
  int32_t axis = n_outputs == 1 ? bound_output_axis(op, &run->program->site_attrs[site], operands, (int32_t)n_inputs,
                                                    &output, NULL, NULL)
                                : -1;
  if (axis < 0)
    return diag_fail(run->diagnosis, REED_ERROR_SHAPE,
                     "an input has an extent that only its kernel knows; this operator needs it on the host");
  outputs[0].bounded_axis = axis;
  return REED_OK;
}

bool bound_rooms(const vm_run *run, const insn_invoke *call, reed_room *out_input_rooms, reed_room *out_output_rooms) {
  const reed_op *op = run->program->site_ops[call->site];
  bool any = false;
  for (uint32_t i = 0; i < call->n_inputs; i++) {
    out_input_rooms[i] = (reed_room){.axis = -1};
    const ref *r = call->inputs[i] == MODULE_ABSENT ? NULL : reg_r(run, call->inputs[i]);
    if (!r || r->kind != REF_PENDING) continue;
    out_input_rooms[i] =
        (reed_room){.axis = r->bounded_axis, .capacity = r->t.desc.dims[r->bounded_axis], .counted = true};
    any = true;
  }
  for (uint32_t i = 0; any && i < call->n_outputs; i++) {
    out_output_rooms[i] = (reed_room){.axis = -1};
    const ref *r = call->outputs[i] == MODULE_ABSENT ? NULL : reg_r(run, call->outputs[i]);
    if (!r || r->bounded_axis < 0 || reed_op_output_at(op, (int32_t)i)->bounded) continue;
    out_output_rooms[i] =
        (reed_room){.axis = r->bounded_axis, .capacity = r->t.desc.dims[r->bounded_axis], .counted = true};
  }
  return any;
}
