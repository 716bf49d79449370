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

/* An input's extents and count, and the elements that a shape function reads. */
static bound_operand operand_of(const vm_run *run, uint32_t site, uint32_t input, int32_t i) {
  const uint32_t number = INSN_REGISTER(input);
  if (number == MODULE_ABSENT) return (bound_operand){.rank = -1};
  const ref *r = reg_r(run, number);
  const reed_desc *desc = &r->t.desc;
  bound_operand o = {.rank = desc->rank, .dims = desc->dims, .dtype = desc->dtype};
  if (op_reads_value(run->program->site_ops[site], &run->program->site_attrs[site], i)) {
    o.values = r->constant ? run->program->module->constants[r->constant - 1].data : r->t.data;
    o.n_values = desc_elements(desc);
  }
  if (bound_is_counted(r)) {
    o.counter = r->counter;
    o.factor = r->factor;
    o.axis = r->bounded_axis;
  }
  return o;
}

uint32_t bound_counter_of(const vm_run *run, const insn_shape *call, int32_t axis, const uint32_t *calls, size_t n) {
  const reed_op *op = run->program->site_ops[call->site];
  bound_operand mine[REED_MAX_OPERANDS], others[REED_MAX_OPERANDS];
  const bound_report report = {op, mine, (int32_t)call->n_inputs, axis};
  for (uint32_t i = 0; i < call->n_inputs; i++) mine[i] = operand_of(run, call->site, call->inputs[i], (int32_t)i);
  for (size_t k = 0; k < n; k++) {
    const insn_shape other = insn_shape_at(run_code(run) + calls[k]);
    if (run->program->site_ops[other.site] != op || other.n_inputs != call->n_inputs) continue;
    uint32_t first = 0;
    while (other.outputs[first] == MODULE_ABSENT) first++;
    const ref *made = reg_r(run, other.outputs[first]);
    for (uint32_t i = 0; i < other.n_inputs; i++) others[i] = operand_of(run, other.site, other.inputs[i], (int32_t)i);
    if (bound_same_report(&report, &(bound_report){op, others, (int32_t)other.n_inputs, made->bounded_axis}, NULL))
      return made->counter;
  }
  return 0;
}

reed_status bound_outputs(vm_run *run, uint32_t site, const uint32_t *inputs, const op_call *call,
                          const reed_shape_output *at_two, reed_shape_output *outputs, bound_count *out_count) {
  bound_operand operands[REED_MAX_OPERANDS];
  for (int32_t i = 0; i < call->n_inputs; i++) {
    const reed_desc *desc = call->inputs[i].desc;
    operands[i] = operand_of(run, site, inputs[i], i);
    if (desc) operands[i].dims = desc->dims;
  }
  const bound_operand output = {.rank = at_two->rank, .dims = at_two->dims, .axis = at_two->bounded_axis};
  bound_outcome found = {.axis = -1, .exact = false};
  if (bound_has_outputs(call->op, call->n_outputs))
    found = bound_apply(call->op, call->attrs, operands, call->n_inputs, &output, NULL);
  if (found.axis < 0 && !found.exact)
    return diag_fail(run->diagnosis, REED_ERROR_SHAPE,
                     "an input has an extent that only its kernel knows, and the operator needs it on the host: %s",
                     bound_reason(call->op));
  for (int32_t k = 0; k < call->n_outputs; k++)
    if (!reed_op_output_at(call->op, k)->bounded) outputs[k].bounded_axis = found.axis;
  *out_count = (bound_count){found.input < 0 ? 0 : operands[found.input].counter, found.factor,
                             found.input < 0 && !found.exact && bound_follows(call->op)};
  return REED_OK;
}

/* The counted room of a register. Its count's number is that among the counts of the call, in the order of their first
 * operands. */
static reed_room counted_room(const ref *r, bound_count *counts, uint16_t *n) {
  uint16_t i = 0;
  while (i < *n && (counts[i].counter != r->counter || counts[i].factor != r->factor)) i++;
  if (i == *n) counts[(*n)++] = (bound_count){.counter = r->counter, .factor = r->factor};
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
