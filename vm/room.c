/* Views and dense copies of tensors with room (room.h). Copies for kernels are made by the kernels' wrapper
 * (ops/room_call.h). */
#include "vm/room.h"

static int64_t product(const int64_t *dims, int32_t begin, int32_t end) {
  int64_t n = 1;
  for (int32_t i = begin; i < end; i++) n *= dims[i];
  return n;
}

bool room_of_view(const tensor *from, tensor *to) {
  if (!from->room) { /* dense */
    to->room = 0;
    return true;
  }
  const reed_desc *desc = &from->desc;
  int64_t row = product(desc->dims, from->room_axis + 1, desc->rank);
  int32_t found = -1;
  for (int32_t axis = 0; axis < to->desc.rank && (found < 0 || found != from->room_axis); axis++)
    if (to->desc.dims[axis] == desc->dims[from->room_axis] && product(to->desc.dims, axis + 1, to->desc.rank) == row)
      found = axis;
  if (found >= 0) {
    to->room = from->room;
    to->room_axis = found;
    return true;
  }
  int64_t strides[REED_MAX_RANK];
  tensor_strides(from, strides);
  if (!strides_are_dense(desc, strides)) return false;
  to->room = 0;
  return true;
}

bool room_holds(const tensor *t, int32_t axis, const reed_desc *grown) {
  if (axis < 0 || grown->dims[axis] > t->room) return false;
  int32_t low = axis < t->room_axis ? axis : t->room_axis, high = axis < t->room_axis ? t->room_axis : axis;
  for (int32_t i = low; low != high && i <= high; i++)
    if (t->desc.dims[i] != 1) return false;
  return true;
}

reed_status room_copy(reed_session *s, const tensor *from, void *target) {
  int64_t dense[REED_MAX_RANK], strides[REED_MAX_RANK];
  s->run.profile.caches.n_dense++;
  s->run.profile.caches.dense_bytes += desc_bytes(&from->desc);
  tensor_strides(from, strides);
  strides_of(&from->desc, -1, 0, dense);
  if (from->device == 0) {
    strides_copy(&from->desc, target, dense, from->data, strides);
    return REED_OK;
  }
  vm_device *d = &s->devices.items[from->device];
  strides_rows rows = strides_common_rows(&from->desc, dense, strides);
  reed_status status = device_before_launch(d, s->run.diagnosis);
  for (int64_t i = 0; status == REED_OK && rows.bytes > 0 && i < rows.n_rows; i++)
    status = d->on->copy_within(d->compute, (char *)target + strides_row_at(&from->desc, dense, &rows, i),
                                (const char *)from->data + strides_row_at(&from->desc, strides, &rows, i), rows.bytes,
                                NULL, s->run.diagnosis);
  return status;
}

reed_status room_make_dense(reed_session *s, const tensor *from, tensor *out_dense) {
  *out_dense = *from;
  storage_retain(out_dense->storage);
  if (from->room == 0) return REED_OK;
  int64_t strides[REED_MAX_RANK];
  tensor_strides(from, strides);
  out_dense->room = 0;
  if (strides_are_dense(&from->desc, strides)) return REED_OK;
  storage_release(out_dense->storage);
  out_dense->storage = NULL;
  reed_status status = pool_allocate(s->devices.items[from->device].memory, desc_bytes(&from->desc),
                                     &out_dense->storage, s->run.diagnosis);
  if (status != REED_OK) return status;
  out_dense->data = out_dense->storage->data;
  s->devices.items[from->device].at_border = true;
  status = room_copy(s, from, out_dense->data);
  if (status != REED_OK) {
    storage_release(out_dense->storage);
    out_dense->storage = NULL;
  }
  return status;
}
