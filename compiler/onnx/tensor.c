/* TensorProto -> dense elements: raw, in a typed field, or in an external file (external.c). All sizes in the file are
 * checked before memory is allocated for them. */
#include <string.h>

#include "base/cancel.h"
#include "compiler/onnx/reader.h"

reed_dtype onnx_dtype(int32_t number) {
  switch (number) {
#define ONNX_CASE(name, text, bytes, dlpack, onnx) \
  case onnx: return REED_##name;
    REED_DTYPE_LIST(ONNX_CASE)
#undef ONNX_CASE
  }
  return REED_NONE;
}

const char *onnx_dtype_text(int32_t number) {
  static const char *const unsupported[] = {
      [0] = "undefined",     [8] = "string",          [14] = "complex64",  [15] = "complex128",
      [17] = "float8e4m3fn", [18] = "float8e4m3fnuz", [19] = "float8e5m2", [20] = "float8e5m2fnuz",
      [21] = "uint4",        [22] = "int4",           [23] = "float4e2m1", [24] = "float8e8m0"};
  reed_dtype dtype = onnx_dtype(number);
  if (dtype != REED_NONE) return reed_dtype_name(dtype);
  bool listed = number >= 0 && (size_t)number < sizeof unsupported / sizeof *unsupported && unsupported[number];
  return listed ? unsupported[number] : "of an unknown number";
}

/* ---- inline data ---- */

/* The typed field that the dtype uses: its number of elements, and one element of it (typed_element). */
static size_t typed_count(const Onnx__TensorProto *t, reed_dtype dtype) {
  switch (dtype) {
    case REED_F32: return t->n_float_data;
    case REED_F64: return t->n_double_data;
    case REED_I64: return t->n_int64_data;
    case REED_U32:
    case REED_U64: return t->n_uint64_data;
    case REED_F16:
    case REED_BF16:
    case REED_I8:
    case REED_I16:
    case REED_I32:
    case REED_U8:
    case REED_U16:
    case REED_BOOL: return t->n_int32_data;
    case REED_NONE:
    case REED_DTYPE_COUNT: break;
  }
  return 0;
}

static void typed_element(const Onnx__TensorProto *t, reed_dtype dtype, size_t i, void *element) {
  size_t bytes = reed_dtype_bytes(dtype);
  switch (dtype) {
    case REED_F32: memcpy(element, &t->float_data[i], bytes); break;
    case REED_F64: memcpy(element, &t->double_data[i], bytes); break;
    case REED_I64: memcpy(element, &t->int64_data[i], bytes); break;
    case REED_U32:
    case REED_U64: memcpy(element, &t->uint64_data[i], bytes); break; /* the low bytes */
    case REED_F16:                                                    /* bits */
    case REED_BF16:
    case REED_I8:
    case REED_I16:
    case REED_I32:
    case REED_U8:
    case REED_U16:
    case REED_BOOL: memcpy(element, &t->int32_data[i], bytes); break;
    case REED_NONE:
    case REED_DTYPE_COUNT: break;
  }
}

/* The tensor's raw data: the field itself, or, with an outline, the bytes of the model to which the field points. */
static ProtobufCBinaryData raw_data(const onnx_reader *r, const Onnx__TensorProto *t) {
  onnx_place place;
  if (!r->outlined || !t->has_raw_data) return t->raw_data;
  memcpy(&place, t->raw_data.data, sizeof place);
  return (ProtobufCBinaryData){place.n_bytes, (uint8_t *)(uintptr_t)(r->outlined + place.offset)};
}

static reed_status check_inline(onnx_reader *r, const Onnx__TensorProto *t, const char *where, const reed_desc *desc,
                                bool *out_raw) {
  int64_t n = desc_elements(desc), bytes = desc_bytes(desc);
  size_t n_typed = typed_count(t, desc->dtype);
  char text[128];
  size_t n_raw = raw_data(r, t).len;
  *out_raw = t->has_raw_data && (n_raw || !n_typed);
  if (*out_raw && (uint64_t)bytes != n_raw)
    return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "tensor '%s': %s takes %lld bytes, its raw data has %zu", where,
                     desc_text(desc, text, sizeof text), (long long)bytes, n_raw);
  if (!*out_raw && (uint64_t)n != n_typed)
    return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "tensor '%s': %s has %lld elements, its data field has %zu",
                     where, desc_text(desc, text, sizeof text), (long long)n, n_typed);
  return REED_OK;
}

static reed_status copy_inline(const onnx_reader *r, const Onnx__TensorProto *t, const reed_desc *desc, bool raw,
                               void *data) {
  int64_t n = desc_elements(desc), bytes = desc_bytes(desc);
  if (raw) {
    if (bytes) memcpy(data, raw_data(r, t).data, (size_t)bytes);
    return REED_OK;
  }
  size_t element = reed_dtype_bytes(desc->dtype);
  reed_status status = REED_OK;
  for (int64_t i = 0; i < n && status == REED_OK; i++) {
    if (i % CANCEL_ELEMENTS == 0) status = ir_check_cancel(r->m);
    typed_element(t, desc->dtype, (size_t)i, (char *)data + (size_t)i * element);
  }
  return status;
}

reed_status onnx_read_tensor(onnx_reader *r, const Onnx__TensorProto *t, const char *where, reed_desc *out_desc,
                             const void **out_data) {
  *out_data = NULL;
  reed_desc desc = {.dtype = onnx_dtype(t->data_type), .rank = (int32_t)t->n_dims};
  if (desc.dtype == REED_NONE)
    return onnx_unsupported(r, where, "a tensor whose dtype is %s", onnx_dtype_text(t->data_type));
  if (t->n_dims > REED_MAX_RANK)
    return onnx_unsupported(r, where, "a tensor of rank %zu (up to %d)", t->n_dims, REED_MAX_RANK);
  if (t->segment) return onnx_unsupported(r, where, "a tensor stored in segments");
  if (t->n_dims) memcpy(desc.dims, t->dims, t->n_dims * sizeof *t->dims);
  int64_t bytes = desc_bytes(&desc);
  char text[128];
  if (bytes < 0)
    return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "tensor '%s' has impossible extents %s", where,
                     desc_text(&desc, text, sizeof text));
  bool external = t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL, raw = false;
  reed_status status = ir_check_cancel(r->m);
  if (status == REED_OK && !external) status = check_inline(r, t, where, &desc, &raw);
  if (status != REED_OK) return status;
  onnx_external_data outside = {.file = -1};
  if (external && (status = onnx_open_external(r, t, where, bytes, &outside)) != REED_OK) return status;
  bool floats = desc.dtype == REED_F32 || desc.dtype == REED_F64 || desc.dtype == REED_F16 || desc.dtype == REED_BF16;
  if (raw && r->outlined && floats && bytes >= IR_WEIGHTS_BYTES) {
    *out_desc = desc;
    *out_data = raw_data(r, t).data;
    return REED_OK;
  }
  char *data = ir_alloc_elements(r->m, (size_t)bytes);
  if (!data) {
    onnx_close_external(&outside);
    return diag_no_memory(r->diagnosis, "a tensor of the model");
  }
  if (external) status = onnx_read_external(r, &outside, where, bytes, data);
  else status = copy_inline(r, t, &desc, raw, data);
  onnx_close_external(&outside);
  if (status != REED_OK) return status;
  if (desc.dtype == REED_BOOL)
    for (int64_t i = 0; i < bytes; i++) data[i] = data[i] != 0;
  *out_desc = desc;
  *out_data = data;
  return REED_OK;
}
