/* Tensors that cross the API (reed/tensor.h): a descriptor, an address on a device, strides, and a function that
 * releases the memory. References are counted atomically, because tensors leave their session and may move between
 * threads. The extents never change after opening. On devices: tensor_device.c. DLPack: dlpack.c. */
#include "vm/tensor.h"

#include <string.h>

#include "base/mem.h"
#include "base/strides.h"

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
