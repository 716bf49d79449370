/* Tensors on devices, and copies between devices and the host. */
#include "base/mem.h"
#include "vm/tensor.h"
#include "vm/transfer.h"

/* A block of a device that a tensor owns. */
typedef struct device_block {
  device *on;
  void *data;
} device_block;

static void block_release(void *context) {
  device_block *block = context;
  block->on->interface->release(block->on, block->data, NULL); /* runs end before their tensors are released */
  device_close(&block->on);
  mem_free(block);
}

/* A tensor in a new block of the device. */
static reed_status open_on(device *on, reed_dtype dtype, int32_t rank, const int64_t *dims, reed_tensor **out_tensor,
                           reed_diagnosis *diagnosis) {
  static char none;
  reed_tensor *t;
  reed_status status = tensor_over(dtype, rank, dims, &(tensor_memory){.data = &none, .on = on}, &t);
  if (status != REED_OK) return diag_fail(diagnosis, status, "a tensor of this dtype and these extents cannot be");
  device_block *block = mem_alloc(sizeof *block);
  if (!block) status = diag_no_memory(diagnosis, "a tensor");
  else status = on->interface->allocate(on, t->bytes, 0, &t->data, diagnosis);
  if (status != REED_OK) {
    mem_free(block);
    reed_tensor_close(&t);
    return status;
  }
  *block = (device_block){on, t->data};
  device_retain(on);
  t->release = block_release;
  t->context = block;
  *out_tensor = t;
  return REED_OK;
}

/* The device of that name, or *out_on NULL for the host. */
static reed_status find_device(const char *name, device **out_on, reed_diagnosis *diagnosis) {
  reed_status status = device_open(name, out_on, diagnosis);
  if (status == REED_OK && (*out_on)->interface->host_memory) device_close(out_on);
  return status;
}

reed_status reed_tensor_open_on(const char *device_name, reed_dtype dtype, int32_t rank, const int64_t *dims,
                                reed_tensor **out_tensor, reed_diagnosis *diagnosis) {
  if (!device_name || !out_tensor || (rank > 0 && !dims))
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "reed_tensor_open_on: a device's name, extents and a place for the tensor are needed");
  device *on = NULL;
  reed_status status = find_device(device_name, &on, diagnosis);
  if (status != REED_OK) return status;
  if (on) {
    status = open_on(on, dtype, rank, dims, out_tensor, diagnosis);
    device_close(&on);
  } else if ((status = reed_tensor_open(dtype, rank, dims, out_tensor)) != REED_OK) {
    status = diag_fail(diagnosis, status, "a tensor of this dtype and these extents cannot be");
  }
  return status;
}

reed_status tensor_copy(reed_tensor *tensor, device *on, reed_tensor **out_tensor, reed_diagnosis *diagnosis) {
  reed_tensor *made = NULL;
  const reed_desc *desc = &tensor->desc;
  reed_status status = on ? open_on(on, desc->dtype, desc->rank, desc->dims, &made, diagnosis)
                          : reed_tensor_open(desc->dtype, desc->rank, desc->dims, &made);
  if (status != REED_OK) return on ? status : diag_no_memory(diagnosis, "a tensor");
  transfer_side target = {0}, source = {0};
  status = transfer_open(made, &target, diagnosis);
  if (status == REED_OK) status = transfer_open(tensor, &source, diagnosis);
  if (status == REED_OK) status = transfer(&target, &source, desc, diagnosis);
  transfer_close(&target);
  transfer_close(&source);
  if (status == REED_OK) *out_tensor = made;
  else reed_tensor_close(&made);
  return status;
}

reed_status reed_tensor_to_device(reed_tensor *tensor, const char *device_name, reed_tensor **out_tensor,
                                  reed_diagnosis *diagnosis) {
  if (!tensor || !device_name || !out_tensor)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "reed_tensor_to_device: a tensor, a device's name and a place for the copy are needed");
  device *on = NULL;
  reed_status status = find_device(device_name, &on, diagnosis);
  if (status != REED_OK) return status;
  if (tensor->dense && tensor->on == on) *out_tensor = reed_tensor_retain(tensor);
  else status = tensor_copy(tensor, on, out_tensor, diagnosis);
  device_close(&on);
  return status;
}

reed_status reed_tensor_to_host(reed_tensor *tensor, reed_tensor **out_tensor, reed_diagnosis *diagnosis) {
  return reed_tensor_to_device(tensor, "host", out_tensor, diagnosis);
}
