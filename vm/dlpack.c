/* DLPack in both directions (reed/dlpack.h): the legacy and the versioned form share everything but the struct around
 * the DLTensor. Tensors themselves: tensor.c. */
#include "base/mem.h"
#include "base/strides.h"
#include "vm/tensor.h"

static const uint8_t codes[] = {
#define DLPACK_CODE(name, text, bytes, dlpack, onnx) [REED_##name] = dlpack,
    REED_DTYPE_LIST(DLPACK_CODE)
#undef DLPACK_CODE
};

static reed_dtype dtype_of(DLDataType type) {
  if (type.lanes != 1) return REED_NONE;
  for (int d = REED_NONE + 1; d < REED_DTYPE_COUNT; d++)
    if (codes[d] == type.code && reed_dtype_bytes((reed_dtype)d) * 8 == type.bits) return (reed_dtype)d;
  return REED_NONE;
}

/* ---- out of Reed ---- */

/* The shape and strides are the tensor's own: never written to, and alive as long as the managed tensor's reference. */
static DLTensor described(reed_tensor *tensor) {
  return (DLTensor){
      .data = tensor->data,
      .device = {tensor->on ? (DLDeviceType)tensor->on->dlpack_type : kDLCPU, tensor->on ? tensor->on->index : 0},
      .ndim = tensor->desc.rank,
      .dtype = {codes[tensor->desc.dtype], (uint8_t)(8 * reed_dtype_bytes(tensor->desc.dtype)), 1},
      .shape = tensor->desc.dims,
      .strides = tensor->strides};
}

static void drop_exported(DLManagedTensor *self) {
  reed_tensor *tensor = self->manager_ctx;
  reed_tensor_close(&tensor);
  mem_free(self);
}

reed_status reed_tensor_to_dlpack(reed_tensor *tensor, DLManagedTensor **out_managed) {
  if (!tensor || !out_managed) return REED_ERROR_ARGUMENT;
  if (tensor->read_only) return REED_ERROR_UNSUPPORTED;
  DLManagedTensor *managed = mem_calloc(1, sizeof *managed);
  if (!managed) return REED_ERROR_MEMORY;
  managed->dl_tensor = described(tensor);
  if (tensor->dense) managed->dl_tensor.strides = NULL; /* readers of this form may know no strides */
  managed->manager_ctx = reed_tensor_retain(tensor);
  managed->deleter = drop_exported;
  *out_managed = managed;
  return REED_OK;
}

static void drop_exported_versioned(DLManagedTensorVersioned *self) {
  reed_tensor *tensor = self->manager_ctx;
  reed_tensor_close(&tensor);
  mem_free(self);
}

reed_status reed_tensor_to_dlpack_versioned(reed_tensor *tensor, bool copy, DLManagedTensorVersioned **out_managed,
                                            reed_diagnosis *diagnosis) {
  if (!tensor || !out_managed)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "reed_tensor_to_dlpack_versioned: a tensor and a place for the managed one are needed");
  DLManagedTensorVersioned *managed = mem_calloc(1, sizeof *managed);
  if (!managed) return diag_no_memory(diagnosis, "a managed tensor");
  reed_tensor *held = NULL;
  reed_status status = REED_OK;
  if (copy) status = tensor_copy(tensor, tensor->on, &held, diagnosis);
  else held = reed_tensor_retain(tensor);
  if (status != REED_OK) {
    mem_free(managed);
    return status;
  }
  *managed = (DLManagedTensorVersioned){.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
                                        .manager_ctx = held,
                                        .deleter = drop_exported_versioned,
                                        .flags = (held->read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0) |
                                                 (copy ? DLPACK_FLAG_BITMASK_IS_COPIED : 0),
                                        .dl_tensor = described(held)};
  *out_managed = managed;
  return REED_OK;
}

/* ---- into Reed ---- */

/* True if bytes `low` (0 or less) to `high` from the first element, which lies byte_offset bytes after `data`, have
 * addresses of a process or a device: these lie in the lower half of the address space. */
static bool lies_in_memory(const void *data, uint64_t byte_offset, int64_t low, int64_t high) {
  uint64_t first, end;
  return !__builtin_add_overflow((uint64_t)(uintptr_t)data, byte_offset, &first) && (uint64_t)-low <= first &&
         !__builtin_add_overflow(first, (uint64_t)high, &end) && end <= INT64_MAX;
}

/* A tensor over the memory that t describes. On failure nothing is taken. */
static reed_status take(const DLTensor *t, bool read_only, void (*release)(void *context), void *managed,
                        reed_tensor **out_tensor, reed_diagnosis *diagnosis) {
  reed_desc desc = {.dtype = dtype_of(t->dtype), .rank = t->ndim};
  if (desc.dtype == REED_NONE || t->ndim < 0 || t->ndim > REED_MAX_RANK)
    return diag_fail(diagnosis, REED_ERROR_UNSUPPORTED,
                     "no tensor of Reed has DLPack's type code %d with %d bits, %d lanes and rank %d", t->dtype.code,
                     t->dtype.bits, t->dtype.lanes, t->ndim);
  if (t->ndim > 0 && !t->shape) return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "the DLPack tensor has no shape");
  for (int32_t i = 0; i < t->ndim; i++) desc.dims[i] = t->shape[i];
  int64_t dense[REED_MAX_RANK], low, high;
  const int64_t *strides = t->strides ? t->strides : dense;
  if (desc_bytes(&desc) < 0) return diag_fail(diagnosis, REED_ERROR_SHAPE, "the DLPack tensor's extents are no shape");
  strides_of(&desc, -1, 0, dense);
  if (!strides_span(&desc, strides, &low, &high))
    return diag_fail(diagnosis, REED_ERROR_SHAPE, "the DLPack tensor's strides lead out of memory");
  if (t->data && !lies_in_memory(t->data, t->byte_offset, low, high))
    return diag_fail(diagnosis, REED_ERROR_SHAPE,
                     "the DLPack tensor's elements, with byte_offset %llu, lie at no addresses",
                     (unsigned long long)t->byte_offset);
  tensor_memory memory = {.data = t->data ? (char *)t->data + t->byte_offset : NULL,
                          .strides = strides,
                          .read_only = read_only,
                          .release = release,
                          .context = managed};
  if (!memory.data && high > low) return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "the DLPack tensor has no memory");
  device *on = NULL;
  reed_status status = device_of_dlpack((int32_t)t->device.device_type, t->device.device_id,
                                        (const char *)memory.data + low, high - low, &on, diagnosis);
  if (status != REED_OK) return status;
  if (!on->interface->host_memory) memory.on = on;
  if (memory.on && high > low && (uintptr_t)memory.data % (uintptr_t)reed_dtype_bytes(desc.dtype)) {
    device_close(&on); /* a kernel on a card would fail, and the process's context with it */
    return diag_fail(diagnosis, REED_ERROR_UNSUPPORTED,
                     "the DLPack tensor's elements lie at no multiple of their size of %d bytes",
                     (int)reed_dtype_bytes(desc.dtype));
  }
  status = tensor_over(desc.dtype, desc.rank, desc.dims, &memory, out_tensor);
  device_close(&on);
  return status == REED_OK ? status : diag_fail(diagnosis, status, "the DLPack tensor cannot be taken");
}

static void drop_imported(void *context) {
  DLManagedTensor *managed = context;
  if (managed->deleter) managed->deleter(managed);
}

reed_status reed_tensor_from_dlpack(DLManagedTensor *managed, reed_tensor **out_tensor) {
  if (!managed || !out_tensor) return REED_ERROR_ARGUMENT;
  return take(&managed->dl_tensor, false, drop_imported, managed, out_tensor, NULL);
}

static void drop_imported_versioned(void *context) {
  DLManagedTensorVersioned *managed = context;
  if (managed->deleter) managed->deleter(managed);
}

reed_status reed_tensor_from_dlpack_versioned(DLManagedTensorVersioned *managed, reed_tensor **out_tensor,
                                              reed_diagnosis *diagnosis) {
  if (!managed || !out_tensor)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "reed_tensor_from_dlpack_versioned: a managed tensor and a place for the tensor are needed");
  if (managed->version.major != DLPACK_MAJOR_VERSION)
    return diag_fail(diagnosis, REED_ERROR_UNSUPPORTED, "the tensor is of DLPack %u.%u, Reed reads %d",
                     managed->version.major, managed->version.minor, DLPACK_MAJOR_VERSION);
  return take(&managed->dl_tensor, managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY, drop_imported_versioned, managed,
              out_tensor, diagnosis);
}

const reed_tensor *tensor_origin(const reed_tensor *tensor) {
  const DLManagedTensor *managed = tensor->release == drop_imported ? tensor->context : NULL;
  const DLManagedTensorVersioned *versioned = tensor->release == drop_imported_versioned ? tensor->context : NULL;
  if (managed && managed->deleter == drop_exported) return managed->manager_ctx;
  if (versioned && versioned->deleter == drop_exported_versioned) return versioned->manager_ctx;
  return tensor;
}
