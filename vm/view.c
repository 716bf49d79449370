/* Views of memory that outputs are bound to (tensor_view). */
#include "vm/history.h"
#include "vm/tensor.h"

static void close_view(void *context) {
  reed_tensor *view = context, *memory = view->base;
  history_leave(tensor_root(memory), view->version);
  reed_tensor_close(&memory);
}

reed_status tensor_view(reed_tensor *memory, const reed_desc *desc, reed_tensor **out_tensor) {
  tensor_memory over = {.data = memory->data, .strides = memory->strides, .on = memory->on, .release = close_view};
  reed_status status = tensor_over(desc->dtype, desc->rank, desc->dims, &over, out_tensor);
  if (status != REED_OK) return REED_ERROR_MEMORY;
  reed_tensor *view = *out_tensor, *root = tensor_root(memory);
  view->context = view;
  view->base = reed_tensor_retain(memory);
  view->version = __atomic_load_n(&root->version, __ATOMIC_ACQUIRE);
  __atomic_fetch_add(&root->n_views, 1, __ATOMIC_ACQ_REL);
  return REED_OK;
}
