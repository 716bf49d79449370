/* Both views of a call together: plain weights, then channels second (view.h). */
#include "ops/cpu/views/view.h"

reed_status cpu_view_init(const reed_kernel_call *call, uint32_t images, cpu_view *v) {
  const reed_attr *first = reed_attrs_find(call->attrs, "channels_first_input");
  if (first && first->i) images &= ~1u;
  reed_status status = unpack_view_init(call, &v->unpack);
  if (status == REED_OK) status = channels_view_init(v->unpack.call, images, &v->channels);
  v->call = v->channels.call;
  v->last = v->channels.last;
  v->order = v->unpack.packed ? &v->unpack.order : NULL;
  return status;
}
