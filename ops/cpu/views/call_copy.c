/* A copy of a call whose operands a view replaces (call_copy.h). */
#include "ops/cpu/views/call_copy.h"

static reed_status copy_operands(const reed_kernel_call *call, call_copy *c) {
  if (call->n_inputs > CALL_COPY_INPUTS || call->n_outputs > CALL_COPY_OUTPUTS || call->attrs->n > CALL_COPY_ATTRS)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "%d inputs, %d outputs and %d attributes in a view",
                            (int)call->n_inputs, (int)call->n_outputs, (int)call->attrs->n);
  c->call = *call;
  for (int32_t i = 0; i < call->n_inputs; i++) {
    c->inputs[i] = call->inputs[i];
    c->host_values[i] = call->host_values[i];
    c->constant[i] = call->constant[i];
  }
  for (int32_t i = 0; i < call->n_outputs; i++) c->outputs[i] = call->outputs[i];
  c->call.inputs = c->inputs;
  c->call.outputs = c->outputs;
  c->call.host_values = c->host_values;
  c->call.constant = c->constant;
  c->call.attrs = &c->attrs;
  return REED_OK;
}

reed_status call_copy_init(const reed_kernel_call *call, call_copy *c) {
  reed_status status = copy_operands(call, c);
  if (status != REED_OK) return status;
  for (int32_t i = 0; i < call->attrs->n; i++) c->items[i] = call->attrs->items[i];
  c->attrs = (reed_attrs){c->items, call->attrs->n};
  return REED_OK;
}

reed_status call_copy_init_with(const reed_kernel_call *call, const reed_attrs *attrs, call_copy *c) {
  c->attrs = *attrs;
  return copy_operands(call, c);
}

reed_attr *call_copy_attr(call_copy *c, const char *name) {
  const reed_attr *found = reed_attrs_find(&c->attrs, name);
  return found ? &c->items[found - c->items] : NULL;
}

void call_copy_drop_attr(call_copy *c, const char *name) {
  reed_attr *attr = call_copy_attr(c, name);
  if (!attr) return;
  memmove(attr, attr + 1, (size_t)(&c->items[--c->attrs.n] - attr) * sizeof *attr);
}
