/* The kernel's call, made from an op_call. The shape function's call is made in shapefuncs/shapefn.c. */
#include "ops/call.h"

#include "ops/room_call.h"

/* A call with a counted input needs a kernel that runs at the bound. */
static reed_status check_counts(const op_call *call, const capability_call *asked) {
  for (int32_t i = 0; call->input_rooms && i < call->n_inputs; i++) {
    const reed_room *room = &call->input_rooms[i];
    if (!call->inputs[i].desc || room->axis < 0 || !room->counted) continue;
    if (capability_reads_counts(call->target, asked)) return REED_OK;
    return diag_fail(call->diagnosis, REED_ERROR_UNSUPPORTED,
                     "%s node '%s': the kernel of device '%s' cannot run at the bound of input %d, whose extent only "
                     "the device knows; compile the model for '%s'",
                     call->op->name, call->node, capability_text(call->target), (int)i, capability_text(call->target));
  }
  return REED_OK;
}

/* Fails unless the device's list of capabilities has the call with these dtypes. */
static reed_status check_capability(const op_call *call, const reed_desc *inputs) {
  reed_dtype dtypes[2 * REED_MAX_OPERANDS];
  for (int32_t i = 0; i < call->n_inputs; i++) dtypes[i] = inputs[i].dtype;
  for (int32_t i = 0; i < call->n_outputs; i++) dtypes[call->n_inputs + i] = call->outputs[i].dtype;
  capability_call asked = {.op = call->op,
                           .attrs = call->attrs,
                           .dtypes = dtypes,
                           .n_inputs = call->n_inputs,
                           .n_dtypes = call->n_inputs + call->n_outputs};
  if (capability_has(call->target, &asked)) return check_counts(call, &asked);
  text_buffer text = {0};
  capability_say_lack(call->target, &asked, &text);
  reed_status status =
      diag_fail(call->diagnosis, REED_ERROR_UNSUPPORTED, "%s node '%s': device '%s' has no kernel for %s",
                call->op->name, call->node, capability_text(call->target), text.n ? text.data : call->op->name);
  text_fini(&text);
  return status;
}

reed_status op_call_prepare(const op_call *call, reed_kernel *out_kernel) {
  reed_desc inputs[REED_MAX_OPERANDS];
  const void *values[REED_MAX_OPERANDS];
  bool constant[REED_MAX_OPERANDS];
  *out_kernel = (reed_kernel){0};
  if (!call->prepare)
    return diag_fail(call->diagnosis, REED_ERROR_UNSUPPORTED, "%s node '%s': no kernel on device '%s'", call->op->name,
                     call->node, call->device ? call->device : "host");
  for (int32_t i = 0; i < call->n_inputs; i++) {
    const op_call_input *in = &call->inputs[i];
    inputs[i] = in->desc ? *in->desc : (reed_desc){.dtype = REED_NONE};
    constant[i] = in->desc && in->constant;
    values[i] = constant[i] ? in->data : op_call_value(call, i);
  }
  reed_status status = call->target ? check_capability(call, inputs) : REED_OK;
  if (status != REED_OK) return status;
  reed_kernel_call made = {.op = call->op,
                           .attrs = call->attrs,
                           .node = call->node,
                           .n_inputs = call->n_inputs,
                           .n_outputs = call->n_outputs,
                           .inputs = inputs,
                           .outputs = call->outputs,
                           .host_values = values,
                           .constant = constant,
                           .env = call->env,
                           .diagnosis = call->diagnosis,
                           .input_rooms = call->input_rooms,
                           .output_rooms = call->output_rooms};
  return room_prepare(&made, call->prepare, call->reads_counts, out_kernel);
}
