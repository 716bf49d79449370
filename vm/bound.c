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
                          reed_shape_output *outputs, bound_count *out_count) {
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
    if (bound_is_counted(r)) {
      operands[i].counter = r->counter;
      operands[i].factor = r->factor;
      operands[i].axis = r->bounded_axis;
    }
  }
  const bound_operand output = {.rank = at_two->rank, .dims = at_two->dims, .axis = at_two->bounded_axis};
  bound_outcome found = {.axis = -1};
  if (bound_has_outputs(call->op, call->n_outputs))
    found = bound_apply(call->op, call->attrs, operands, call->n_inputs, &output, NULL);
  if (found.axis < 0)
    return diag_fail(run->diagnosis, REED_ERROR_SHAPE,
                     "an input has an extent that only its kernel knows, and the operator needs it on the host: %s",
                     bound_reason(call->op));
  for (int32_t k = 0; k < call->n_outputs; k++) outputs[k].bounded_axis = found.axis;
  *out_count = (bound_count){found.input < 0 ? 0 : operands[found.input].counter, found.factor};
  return REED_OK;
}

/* The counted room of a register. Its count's number is that among the counts of the call, in the order of their first
 * operands. */
static reed_room counted_room(const ref *r, bound_count *counts, uint16_t *n) {
  uint16_t i = 0;
  while (i < *n && (counts[i].counter != r->counter || counts[i].factor != r->factor)) i++;
  if (i == *n) counts[(*n)++] = (bound_count){r->counter, r->factor};
  return (reed_room){.axis = r->bounded_axis,
                     .factor = r->factor,
                     .capacity = r->t.desc.dims[r->bounded_axis],
                     .counted = (uint16_t)(i + 1)};
}

bool bound_rooms(const vm_run *run, const insn_invoke *call, reed_room *out_input_rooms, reed_room *out_output_rooms) {
  bound_count counts[2 * REED_MAX_OPERANDS];
  uint16_t n = 0;
  bool any = false;
  for (uint32_t i = 0; i < call->n_inputs; i++) {
    const ref *r = call->inputs[i] == MODULE_ABSENT ? NULL : reg_r(run, call->inputs[i]);
    reed_room *room = &out_input_rooms[i];
    *room = (reed_room){.axis = -1};
    if (r && r->kind == REF_PENDING) *room = counted_room(r, counts, &n);
    else if (r && r->t.room) *room = (reed_room){.axis = r->t.room_axis, .capacity = r->t.room};
    any |= room->axis >= 0;
  }
  if (!any) return false;
  const bool counted = n > 0;
  const reed_op *op = run->program->site_ops[call->site];
  for (uint32_t i = 0; i < call->n_outputs; i++) {
    const ref *r = call->outputs[i] == MODULE_ABSENT ? NULL : reg_r(run, call->outputs[i]);
    reed_room *room = &out_output_rooms[i];
    *room = (reed_room){.axis = -1};
    if (!r) continue;
    if (counted && r->bounded_axis >= 0 && !reed_op_output_at(op, (int32_t)i)->bounded)
      *room = counted_room(r, counts, &n);
    else if (r->t.room) *room = (reed_room){.axis = r->t.room_axis, .capacity = r->t.room};
  }
  return true;
}
