/* Plain weights in front of packed ones (unpack.h): changing the call, and unpacking the weights in each run. */
#include "ops/cpu/views/unpack.h"

#include "ops/inner.h"

reed_status unpack_view_init(const reed_kernel_call *call, unpack_view *v) {
  v->call = call;
  v->constant = NULL;
  v->packed = packed_is(call->op, call->attrs);
  if (!v->packed) return REED_OK;
  if (call->n_inputs < 2 || call->n_inputs > PACKED_INPUTS)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "%d inputs with packed weights", (int)call->n_inputs);
  if (!packed_order_read(call->op, call->attrs, &call->inputs[1], &v->order))
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "weights are not packed as attribute %s says", PACKED_ATTR);
  reed_status status = call_copy_init(call, &v->copy);
  if (status != REED_OK) return status;
  v->constant = call->constant[1] ? call->host_values[1] : NULL;
  v->copy.inputs[1] = v->order.plain;
  call_copy_hide_values(&v->copy, 1);
  call_copy_drop_attr(&v->copy, PACKED_ATTR);
  v->call = &v->copy.call;
  return REED_OK;
}

typedef struct unpacked {
  inner_kernel inner;
  packed_order order;
  int32_t n_inputs;
} unpacked;

static reed_status run_unpacked(const void *state, const reed_kernel_buffers *buffers) {
  const unpacked *u = state;
  const void *inputs[PACKED_INPUTS];
  for (int32_t i = 0; i < u->n_inputs; i++) inputs[i] = buffers->inputs[i];
  packed_unpack(&u->order, buffers->inputs[1], buffers->workspace);
  inputs[1] = buffers->workspace;
  return inner_run(&u->inner, buffers, inputs, buffers->outputs);
}

reed_status unpack_prepare(const unpack_view *view, reed_kernel_prepare_fn prepare, reed_kernel *out_kernel) {
  unpacked *u = mem_calloc(1, sizeof *u);
  if (!u) return cpu_no_memory(view->call);
  u->order = view->order;
  u->n_inputs = view->call->n_inputs;
  u->inner.workspace_at = call_copy_next(0, desc_bytes(&view->order.plain));
  return inner_wrap(prepare(view->call, &u->inner.kernel), run_unpacked, u, sizeof *u, out_kernel);
}
