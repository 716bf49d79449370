/* Tensors that cross the API (reed/tensor.h): a descriptor, a pointer and a function that releases the memory.
 * References are counted atomically, because tensors leave their session and may move between threads. The extents
 * never change after opening. */
#include "vm/tensor.h"

#include <string.h>

#include "base/mem.h"

/* A tensor struct around memory that the caller provides; REED_ERROR_SHAPE for extents that no memory could hold. */
static reed_status wrap(reed_dtype dtype, int32_t rank, const int64_t *dims, reed_tensor **out_tensor) {
  if (reed_dtype_bytes(dtype) == 0) return REED_ERROR_ARGUMENT;
  if (rank < 0 || rank > REED_MAX_RANK) return REED_ERROR_SHAPE;
  if (rank > 0 && !dims) return REED_ERROR_ARGUMENT;
  reed_desc desc = {.dtype = dtype, .rank = rank};
  if (rank > 0) memcpy(desc.dims, dims, sizeof *dims * (size_t)rank);
  if (desc_bytes(&desc) < 0) return REED_ERROR_SHAPE;
  reed_tensor *t = mem_calloc(1, sizeof *t);
  if (!t) return REED_ERROR_MEMORY;
  t->n_references = 1;
  t->desc = desc;
  t->elements = desc_elements(&desc);
  t->bytes = desc_bytes(&desc);
  *out_tensor = t;
  return REED_OK;
}

reed_status reed_tensor_open(reed_dtype dtype, int32_t rank, const int64_t *dims, reed_tensor **out_tensor) {
  if (!out_tensor) return REED_ERROR_ARGUMENT;
  reed_tensor *t;
  reed_status status = wrap(dtype, rank, dims, &t);
  if (status) return status;
  t->data = mem_alloc_aligned((size_t)t->bytes, 64);
  if (!t->data) {
    mem_free(t);
    return REED_ERROR_MEMORY;
  }
  memset(t->data, 0, (size_t)t->bytes);
  t->release = mem_free_aligned;
  t->context = t->data;
  *out_tensor = t;
  return REED_OK;
}

reed_status reed_tensor_open_borrowed(reed_dtype dtype, int32_t rank, const int64_t *dims, void *data,
                                      void (*release)(void *context), void *context, reed_tensor **out_tensor) {
  if (!out_tensor) return REED_ERROR_ARGUMENT;
  reed_tensor *t;
  reed_status status = wrap(dtype, rank, dims, &t);
  if (status) return status;
  if (!data && t->bytes > 0) {
    mem_free(t);
    return REED_ERROR_ARGUMENT;
  }
  t->data = data;
  t->release = release;
  t->context = context;
  *out_tensor = t;
  return REED_OK;
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
  if (t->release) t->release(t->context);
  if (!embedded) mem_free(t);
}

reed_dtype reed_tensor_dtype(const reed_tensor *tensor) { return tensor ? tensor->desc.dtype : REED_NONE; }
int32_t reed_tensor_rank(const reed_tensor *tensor) { return tensor ? tensor->desc.rank : 0; }
const int64_t *reed_tensor_dims(const reed_tensor *tensor) { return tensor ? tensor->desc.dims : NULL; }
int64_t reed_tensor_elements(const reed_tensor *tensor) { return tensor ? tensor->elements : 0; }
int64_t reed_tensor_bytes(const reed_tensor *tensor) { return tensor ? tensor->bytes : 0; }
void *reed_tensor_data(const reed_tensor *tensor) { return tensor ? tensor->data : NULL; }

/* ---- DLPack ---- */

static const uint8_t dlpack_codes[] = {
#define DLPACK_CODE(name, text, bytes, dlpack, onnx) [REED_##name] = dlpack,
    REED_DTYPE_LIST(DLPACK_CODE)
#undef DLPACK_CODE
};

static reed_dtype dtype_of_dlpack(DLDataType type) {
  if (type.lanes != 1) return REED_NONE;
  for (int d = REED_NONE + 1; d < REED_DTYPE_COUNT; d++)
    if (dlpack_codes[d] == type.code && reed_dtype_bytes((reed_dtype)d) * 8 == type.bits) return (reed_dtype)d;
  return REED_NONE;
}

static void drop_exported(DLManagedTensor *self) {
  reed_tensor *tensor = self->manager_ctx;
  reed_tensor_close(&tensor);
  mem_free(self);
}

reed_status reed_tensor_to_dlpack(reed_tensor *tensor, DLManagedTensor **out_managed) {
  if (!tensor || !out_managed) return REED_ERROR_ARGUMENT;
  DLManagedTensor *managed = mem_calloc(1, sizeof *managed);
  if (!managed) return REED_ERROR_MEMORY;
  managed->dl_tensor = (DLTensor){
      .data = tensor->data,
      .device = {kDLCPU, 0},
      .ndim = tensor->desc.rank,
      .dtype = {dlpack_codes[tensor->desc.dtype], (uint8_t)(8 * reed_dtype_bytes(tensor->desc.dtype)), 1},
      .shape = tensor->desc.dims, /* never written to, and alive as long as the reference below */
  };
  managed->manager_ctx = reed_tensor_retain(tensor);
  managed->deleter = drop_exported;
  *out_managed = managed;
  return REED_OK;
}

static void drop_imported(void *context) {
  DLManagedTensor *managed = context;
  if (managed->deleter) managed->deleter(managed);
}

/* True for a dense row-major tensor. Strides of axes of extent 0 or 1 are ignored. */
static bool dense_row_major(const DLTensor *t) {
  if (!t->strides) return true;
  for (int32_t i = 0; i < t->ndim; i++)
    if (t->shape[i] == 0) return true;
  int64_t expected = 1;
  for (int32_t i = t->ndim - 1; i >= 0; i--) {
    if (t->shape[i] != 1 && t->strides[i] != expected) return false;
    if (__builtin_mul_overflow(expected, t->shape[i], &expected)) return false;
  }
  return true;
}

reed_status reed_tensor_from_dlpack(DLManagedTensor *managed, reed_tensor **out_tensor) {
  if (!managed || !out_tensor) return REED_ERROR_ARGUMENT;
  const DLTensor *t = &managed->dl_tensor;
  reed_dtype dtype = dtype_of_dlpack(t->dtype);
  if (t->device.device_type != kDLCPU || dtype == REED_NONE || t->ndim < 0 || t->ndim > REED_MAX_RANK ||
      !dense_row_major(t))
    return REED_ERROR_UNSUPPORTED;
  void *data = t->data ? (char *)t->data + t->byte_offset : NULL;
  return reed_tensor_open_borrowed(dtype, t->ndim, t->shape, data, drop_imported, managed, out_tensor);
}
