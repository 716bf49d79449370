/* Transfers of tensors (transfer.h). A strided copy on a device is a copy for each row that is dense on both sides; if
 * rows are so short that most of the time would go into their launches, the bytes make a detour through the host. */
#include "vm/transfer.h"

#include "base/mem.h"
#include "base/strides.h"

enum {
  MANY_ROWS = 64,    /* fewer rows are copied one by one, however short */
  SHORT_ROW = 16384, /* bytes: a copy of a row costs some microseconds, as much as moving this many bytes */
};

static reed_status wait(device_queue *queue, reed_status status, reed_diagnosis *diagnosis) {
  device_error error = {0};
  reed_status waited = queue->device->interface->synchronize(queue, &error, status == REED_OK ? diagnosis : NULL);
  return status == REED_OK ? waited : status;
}

typedef reed_status (*copy_fn)(device_queue *queue, void *target, const void *source, int64_t bytes, device_span *span,
                               reed_diagnosis *diagnosis);

static reed_status copy_rows(device_queue *queue, copy_fn copy, const transfer_side *target,
                             const transfer_side *source, const reed_desc *desc, reed_diagnosis *diagnosis) {
  strides_rows rows = strides_common_rows(desc, target->strides, source->strides);
  reed_status status = REED_OK;
  for (int64_t i = 0; rows.bytes && i < rows.n_rows && status == REED_OK; i++)
    status =
        copy(queue, (char *)target->data + strides_row_at(desc, target->strides, &rows, i),
             (const char *)source->data + strides_row_at(desc, source->strides, &rows, i), rows.bytes, NULL, diagnosis);
  return wait(queue, status, diagnosis);
}

/* The side's bytes in memory of the host, gaps included: *out_block is the memory, *out_host the side there. */
static reed_status fetch_span(const transfer_side *side, const reed_desc *desc, void **out_block,
                              transfer_side *out_host, reed_diagnosis *diagnosis) {
  int64_t low, high;
  (void)strides_span(desc, side->strides, &low, &high); /* of an existing tensor */
  char *block = mem_alloc_bulk((size_t)(high - low));
  if (!block) return diag_no_memory(diagnosis, "a copy of a tensor");
  reed_status status =
      side->on->interface->copy_out(side->copies, block, (const char *)side->data + low, high - low, NULL, diagnosis);
  status = wait(side->copies, status, diagnosis);
  if (status != REED_OK) {
    mem_free_aligned(block);
    return status;
  }
  *out_block = block;
  *out_host = (transfer_side){.data = block - low, .strides = side->strides};
  return REED_OK;
}

/* Host -> device, in the order of the queue that poisons new memory. The gaps between the target's elements are not
 * written, because they may belong to another tensor. */
static reed_status to_device(const transfer_side *target, const transfer_side *source, const reed_desc *desc,
                             reed_diagnosis *diagnosis) {
  copy_fn copy_in = target->on->interface->copy_in;
  strides_rows rows = strides_common_rows(desc, target->strides, source->strides);
  if (rows.n_rows <= MANY_ROWS || rows.bytes >= SHORT_ROW || !strides_are_dense(desc, target->strides))
    return copy_rows(target->compute, copy_in, target, source, desc, diagnosis);
  int64_t bytes = desc_bytes(desc);
  void *block = mem_alloc_bulk((size_t)bytes);
  if (!block) return diag_no_memory(diagnosis, "a copy of a tensor");
  strides_copy(desc, block, target->strides, source->data, source->strides);
  reed_status status = copy_in(target->compute, target->data, block, bytes, NULL, diagnosis);
  status = wait(target->compute, status, diagnosis);
  mem_free_aligned(block);
  return status;
}

/* Device -> host, or through the host to a device. */
static reed_status by_host(const transfer_side *target, const transfer_side *source, const reed_desc *desc,
                           reed_diagnosis *diagnosis) {
  strides_rows rows = strides_common_rows(desc, target->strides, source->strides);
  if (!target->on && (rows.n_rows <= MANY_ROWS || rows.bytes >= SHORT_ROW))
    return copy_rows(source->copies, source->on->interface->copy_out, target, source, desc, diagnosis);
  void *block = NULL;
  transfer_side host;
  reed_status status = fetch_span(source, desc, &block, &host, diagnosis);
  if (status != REED_OK) return status;
  if (target->on) status = to_device(target, &host, desc, diagnosis);
  else strides_copy(desc, target->data, target->strides, host.data, host.strides);
  mem_free_aligned(block);
  return status;
}

reed_status transfer(const transfer_side *target, const transfer_side *source, const reed_desc *desc,
                     reed_diagnosis *diagnosis) {
  if (desc_elements(desc) == 0) return REED_OK;
  if (!target->on && !source->on) {
    strides_copy(desc, target->data, target->strides, source->data, source->strides);
    return REED_OK;
  }
  if (!source->on) return to_device(target, source, desc, diagnosis);
  strides_rows rows = strides_common_rows(desc, target->strides, source->strides);
  if (target->on == source->on && (rows.n_rows <= MANY_ROWS || rows.bytes >= SHORT_ROW))
    return copy_rows(target->compute, target->on->interface->copy_within, target, source, desc, diagnosis);
  return by_host(target, source, desc, diagnosis);
}

reed_status transfer_open(const reed_tensor *tensor, transfer_side *out_side, reed_diagnosis *diagnosis) {
  transfer_side side = {.data = tensor->data, .strides = tensor->strides, .on = tensor->on};
  reed_status status = REED_OK;
  if (side.on) status = side.on->interface->queue_open(side.on, DEVICE_COMPUTE, &side.compute, diagnosis);
  if (side.on && status == REED_OK)
    status = side.on->interface->queue_open(side.on, DEVICE_COPIES, &side.copies, diagnosis);
  if (status == REED_OK) *out_side = side;
  else transfer_close(&side);
  return status;
}

void transfer_close(transfer_side *side) {
  if (side->compute) side->on->interface->queue_close(side->compute);
  if (side->copies) side->on->interface->queue_close(side->copies);
  side->compute = side->copies = NULL;
}
