/* Bounds of counted registers: reads extents from registers and applies the rule of ops/bound.h. The rule itself is not
 * here. */
#include "vm/bound.h"

#include "base/desc.h"
#include "base/diag.h"
#include "ops/bound.h"

const ref *bound_first(const vm_run *run, const uint32_t *inputs, uint32_t n_inputs) {
  for (uint32_t i = 0; i < n_inputs; i++) {
    uint32_t number = INSN_REGISTER(inputs[i]);
    if (number != MODULE_ABSENT && bound_is_counted(reg_r(run, number))) return reg_r(run, number);
  }
  return NULL;
}

reed_status bound_outputs(vm_run *run, const uint32_t *inputs, const op_call *call, const reed_shape_output *at_two,
                          reed_shape_output *outputs) {
  bound_operand operands[REED_MAX_OPERANDS];
  for (int32_t i = 0; i < call->n_inputs; i++) {
    const reed_desc *desc = call->inputs[i].desc;
    operands[i] = (bound_operand){.rank = -1};
    if (!desc) continue;
    operands[i] = (bound_operand){.rank = desc->rank, .dims = desc->dims, .dtype = desc->dtype};
    if (op_reads_value(call->op, call->attrs, i)) {
      operands[i].values = call->inputs[i].data;
      operands[i].n_values = desc_elements(desc);
    }
    const ref *r = reg_r(run, INSN_REGISTER(inputs[i]));
    if (bound_is_counted(r)) operands[i].counter = r->counter, operands[i].axis = r->bounded_axis;
  }
  bound_operand output = {.rank = at_two->rank, .dims = at_two->dims};
  int32_t axis = -1;
  if (call->n_outputs == 1)
    axis = bound_output_axis(call->op, call->attrs, operands, call->n_inputs, &output, NULL, NULL);
  if (axis < 0)
    return diag_fail(run->diagnosis, REED_ERROR_SHAPE,
                     "an input has an extent that only its kernel knows, and the operator needs it on the host: %s",
                     bound_reason(call->op));
  outputs[0].bounded_axis = axis;
  return REED_OK;
}

/* The room of a register: counted if only the device knows the extent. */
static reed_room room_of(const ref *r) {
  if (r->kind == REF_PENDING)
    return (reed_room){.axis = r->bounded_axis, .capacity = r->t.desc.dims[r->bounded_axis], .counted = true};
  return r->t.room ? (reed_room){.axis = r->t.room_axis, .capacity = r->t.room} : (reed_room){.axis = -1};
}

bool bound_rooms(const vm_run *run, const insn_invoke *call, reed_room *out_input_rooms, reed_room *out_output_rooms) {
  bool any = false, counted = false;
  for (uint32_t i = 0; i < call->n_inputs; i++) {
    const ref *r = call->inputs[i] == MODULE_ABSENT ? NULL : reg_r(run, call->inputs[i]);
    out_input_rooms[i] = r ? room_of(r) : (reed_room){.axis = -1};
    any |= out_input_rooms[i].axis >= 0;
    counted |= out_input_rooms[i].counted;
  }
  if (!any) return false;
  const reed_op *op = run->program->site_ops[call->site];
  for (uint32_t i = 0; i < call->n_outputs; i++) {
    const ref *r = call->outputs[i] == MODULE_ABSENT ? NULL : reg_r(run, call->outputs[i]);
    out_output_rooms[i] = (reed_room){.axis = -1};
    if (!r) continue;
    if (counted && r->bounded_axis >= 0 && !reed_op_output_at(op, (int32_t)i)->bounded)
      out_output_rooms[i] =
          (reed_room){.axis = r->bounded_axis, .capacity = r->t.desc.dims[r->bounded_axis], .counted = true};
    else if (r->t.room) out_output_rooms[i] = (reed_room){.axis = r->t.room_axis, .capacity = r->t.room};
  }
  return true;
}
