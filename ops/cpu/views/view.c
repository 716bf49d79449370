/* Both views of a call together: plain weights, then channels second (view.h). */
#include "ops/cpu/views/view.h"

/* The view of a Conv with known facts: one copy of the call, with a list of attributes that was made before. */
static reed_status view_conv(const reed_kernel_call *call, const op_conv_facts *f, uint32_t images, cpu_view *v) {
  if (call->n_inputs < 2 || call->n_inputs > PACKED_INPUTS)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "%d inputs with packed weights", (int)call->n_inputs);
  if (!op_conv_order(f, &call->inputs[1], &v->unpack.order))
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "weights are not packed as attribute %s says", PACKED_ATTR);
  call_copy *copy = &v->channels.copy;
  reed_status status = call_copy_init_with(call, &f->seen, copy);
  if (status != REED_OK) return status;
  v->unpack.call = NULL; /* the call that the unpacked weights need has another list of attributes */
  v->unpack.packed = true;
  v->unpack.constant = call->constant[1] ? call->host_values[1] : NULL;
  copy->inputs[1] = v->unpack.order.plain;
  call_copy_hide_values(copy, 1);
  channels_see_second(copy, images);
  v->channels.call = v->call = &copy->call;
  v->channels.last = v->last = true;
  v->channels.images = images;
  v->order = &v->unpack.order;
  v->facts = f;
  return REED_OK;
}

reed_status cpu_view_init(const reed_kernel_call *call, uint32_t images, cpu_view *v) {
  const op_facts *facts = op_facts_of(call);
  if (facts && facts->conv) return view_conv(call, facts->conv, facts->conv->first_input ? images & ~1u : images, v);
  const reed_attr *first = reed_attrs_find(call->attrs, "channels_first_input");
  if (first && first->i) images &= ~1u;
  reed_status status = unpack_view_init(call, &v->unpack);
  if (status == REED_OK) status = channels_view_init(v->unpack.call, images, &v->channels);
  v->call = v->channels.call;
  v->last = v->channels.last;
  v->facts = NULL;
  v->order = v->unpack.packed ? &v->unpack.order : NULL;
  return status;
}
