/* Tensors that cross the API (reed/tensor.h): a descriptor, an address on a device, strides, and a function that
 * releases the memory. References are counted atomically, because tensors leave their session and may move between
 * threads. The extents never change after opening. DLPack: dlpack.c. */
#include "vm/tensor.h"

#include <string.h>

#include "base/mem.h"
#include "base/strides.h"
#include "vm/history.h"
#include "vm/transfer.h"

reed_status tensor_over(reed_dtype dtype, int32_t rank, const int64_t *dims, const tensor_memory *memory,
                        reed_tensor **out_tensor) {
  if (reed_dtype_bytes(dtype) == 0) return REED_ERROR_ARGUMENT;
  if (rank < 0 || rank > REED_MAX_RANK) return REED_ERROR_SHAPE;
  if (rank > 0 && !dims) return REED_ERROR_ARGUMENT;
  reed_desc desc = {.dtype = dtype, .rank = rank};
  if (rank > 0) memcpy(desc.dims, dims, sizeof *dims * (size_t)rank);
  if (desc_bytes(&desc) < 0) return REED_ERROR_SHAPE;
  int64_t low, high;
  if (memory->strides && !strides_span(&desc, memory->strides, &low, &high)) return REED_ERROR_SHAPE;
  if (!memory->data && desc_bytes(&desc) > 0) return REED_ERROR_ARGUMENT;
  reed_tensor *t = mem_calloc(1, sizeof *t);
  if (!t) return REED_ERROR_MEMORY;
  t->n_references = 1;
  t->desc = desc;
  t->dense = !memory->strides || strides_are_dense(&desc, memory->strides);
  if (t->dense) strides_of(&desc, -1, 0, t->strides);
  else memcpy(t->strides, memory->strides, sizeof(int64_t) * (size_t)rank);
  t->read_only = memory->read_only;
  t->elements = desc_elements(&desc);
  t->bytes = desc_bytes(&desc);
  t->data = memory->data;
  t->on = memory->on;
  if (t->on) device_retain(t->on);
  t->release = memory->release;
  t->context = memory->context;
  *out_tensor = t;
  return REED_OK;
}

reed_tensor *tensor_root(reed_tensor *tensor) {
  while (tensor->base) tensor = tensor->base;
  return tensor;
}

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

/* The bytes that the tensor covers: *out_begin up to, but not including, *out_end. Equal addresses: no bytes. */
static void range_of(const reed_tensor *tensor, const char **out_begin, const char **out_end) {
  int64_t low, high;
  (void)strides_span(&tensor->desc, tensor->strides, &low, &high); /* checked when the tensor was made */
  *out_begin = (const char *)tensor->data + low;
  *out_end = (const char *)tensor->data + high;
}

bool tensor_overlap(const reed_tensor *a, const reed_tensor *b) {
  const char *a_begin, *a_end, *b_begin, *b_end;
  range_of(a, &a_begin, &a_end);
  range_of(b, &b_begin, &b_end);
  return a->on == b->on && a_begin < a_end && b_begin < b_end && a_begin < b_end && b_begin < a_end;
}

reed_status reed_tensor_open(reed_dtype dtype, int32_t rank, const int64_t *dims, reed_tensor **out_tensor) {
  if (!out_tensor) return REED_ERROR_ARGUMENT;
  static char none;
  tensor_memory memory = {.data = &none, .release = mem_free_aligned};
  reed_tensor *t;
  reed_status status = tensor_over(dtype, rank, dims, &memory, &t);
  if (status) return status;
  t->data = t->context = mem_calloc_bulk((size_t)t->bytes);
  if (!t->data) {
    mem_free(t);
    return REED_ERROR_MEMORY;
  }
  *out_tensor = t;
  return REED_OK;
}

reed_status reed_tensor_open_borrowed(reed_dtype dtype, int32_t rank, const int64_t *dims, void *data,
                                      void (*release)(void *context), void *context, reed_tensor **out_tensor) {
  if (!out_tensor) return REED_ERROR_ARGUMENT;
  return tensor_over(dtype, rank, dims, &(tensor_memory){.data = data, .release = release, .context = context},
                     out_tensor);
}

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

reed_tensor *reed_tensor_retain(reed_tensor *tensor) {
  if (tensor) __atomic_fetch_add(&tensor->n_references, 1, __ATOMIC_RELAXED);
  return tensor;
}

void reed_tensor_close(reed_tensor **tensor) {
  reed_tensor *t = tensor ? *tensor : NULL;
  if (!t) return;
  *tensor = NULL;
  if (__atomic_fetch_sub(&t->n_references, 1, __ATOMIC_ACQ_REL) != 1) return;
  bool embedded = t->embedded; /* `release` frees the struct too */
  device *on = t->on;
  if (t->release) t->release(t->context);
  device_close(&on);
  if (!embedded) mem_free(t);
}

reed_dtype reed_tensor_dtype(const reed_tensor *tensor) { return tensor ? tensor->desc.dtype : REED_NONE; }
int32_t reed_tensor_rank(const reed_tensor *tensor) { return tensor ? tensor->desc.rank : 0; }
const int64_t *reed_tensor_dims(const reed_tensor *tensor) { return tensor ? tensor->desc.dims : NULL; }
int64_t reed_tensor_elements(const reed_tensor *tensor) { return tensor ? tensor->elements : 0; }
int64_t reed_tensor_bytes(const reed_tensor *tensor) { return tensor ? tensor->bytes : 0; }
void *reed_tensor_data(const reed_tensor *tensor) { return tensor && !tensor->on ? tensor->data : NULL; }
void *reed_tensor_address(const reed_tensor *tensor) { return tensor ? tensor->data : NULL; }
const int64_t *reed_tensor_strides(const reed_tensor *tensor) { return tensor ? tensor->strides : NULL; }
bool reed_tensor_is_dense(const reed_tensor *tensor) { return tensor && tensor->dense; }
bool reed_tensor_is_read_only(const reed_tensor *tensor) { return tensor && tensor->read_only; }
const char *reed_tensor_device(const reed_tensor *tensor) {
  return !tensor ? "" : tensor->on ? tensor->on->name : "host";
}
