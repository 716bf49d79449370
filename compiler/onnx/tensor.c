/* TensorProto -> dense elements: raw, typed or in an external file. Everything a file says about sizes is checked
 * before memory is taken for it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* ---- external files ---- */

static const char *external_entry(const Onnx__TensorProto *t, const char *key) {
  for (size_t i = 0; i < t->n_external_data; i++)
    if (strcmp(onnx_text(t->external_data[i]->key), key) == 0) return t->external_data[i]->value;
  return NULL;
}

/* A number >= 0 in decimal, all of the text. */
static bool parse_size(const char *text, int64_t *out_value) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno || end == text || *end || value < 0) return false;
  *out_value = value;
  return true;
}

/* Stays below the folder: relative, and no component is "..". */
static bool path_stays_inside(const char *path) {
  if (!*path || *path == '/' || strchr(path, '\\')) return false;
  for (const char *p = path; p; p = strchr(p, '/')) {
    if (*p == '/') p++;
    if (p[0] == '.' && p[1] == '.' && (p[2] == 0 || p[2] == '/')) return false;
  }
  return true;
}

static reed_status read_range(onnx_reader *r, const char *path, const char *where, int64_t offset, void *data,
                              int64_t bytes) {
  reed_status status = REED_OK;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat info;
  if (file < 0 || fstat(file, &info) != 0 || !S_ISREG(info.st_mode))
    status = diag_fail(r->diagnosis, REED_ERROR_IO, "tensor '%s': external file '%s' cannot be read: %s", where, path,
                       file < 0 ? strerror(errno) : "it is not a file");
  else if (offset > info.st_size || bytes > info.st_size - offset)
    status = diag_fail(r->diagnosis, REED_ERROR_FORMAT,
                       "tensor '%s': bytes %lld..%lld are wanted of external file '%s', which has %lld", where,
                       (long long)offset, (long long)(offset + bytes), path, (long long)info.st_size);
  for (int64_t done = 0; status == REED_OK && done < bytes;) {
    ssize_t n = pread(file, (char *)data + done, (size_t)(bytes - done), offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      status = diag_fail(r->diagnosis, REED_ERROR_IO, "tensor '%s': external file '%s' cannot be read: %s", where, path,
                         n < 0 ? strerror(errno) : "it ends early");
    else done += n;
  }
  if (file >= 0) close(file);
  return status;
}

static reed_status read_external(onnx_reader *r, const Onnx__TensorProto *t, const char *where, int64_t bytes,
                                 void *data) {
  const char *location = onnx_text(external_entry(t, "location"));
  const char *offset_text = external_entry(t, "offset"), *length_text = external_entry(t, "length");
  int64_t offset = 0, length = bytes;
  if (!r->folder)
    return diag_fail(r->diagnosis, REED_ERROR_IO,
                     "tensor '%s' is in external file '%s', but no folder for external files is given", where,
                     location);
  if (!path_stays_inside(location))
    return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "tensor '%s': external file '%s' is not below the model's folder",
                     where, location);
  if ((offset_text && !parse_size(offset_text, &offset)) || (length_text && !parse_size(length_text, &length)) ||
      offset > INT64_MAX - bytes)
    return diag_fail(r->diagnosis, REED_ERROR_FORMAT,
                     "tensor '%s': offset '%s' or length '%s' of its external data is not a size", where,
                     onnx_text(offset_text), onnx_text(length_text));
  if (length != bytes)
    return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "tensor '%s' has %lld bytes, its external data says %lld", where,
                     (long long)bytes, (long long)length);
  text_buffer path = {0};
  text_append(&path, "%s/%s", r->folder, location);
  reed_status status =
      path.failed ? diag_no_memory(r->diagnosis, "a path") : read_range(r, path.data, where, offset, data, bytes);
  text_fini(&path);
  return status;
}

/* Bytes the external file has to hold at least; checked before memory is taken for a tensor that claims to be huge. */
static bool external_fits(onnx_reader *r, const Onnx__TensorProto *t, int64_t bytes) {
  const char *location = onnx_text(external_entry(t, "location"));
  if (!r->folder || !path_stays_inside(location)) return true; /* said by read_external */
  text_buffer path = {0};
  text_append(&path, "%s/%s", r->folder, location);
  struct stat info;
  bool fits = path.failed || stat(path.data, &info) != 0 || bytes <= info.st_size;
  text_fini(&path);
  return fits;
}

/* ---- inline data ---- */

/* Elements of the typed field that the dtype uses: their number, and element i written to `element`. */
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

/* The field, in an outline what it stands for. */
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

static void copy_inline(const onnx_reader *r, const Onnx__TensorProto *t, const reed_desc *desc, bool raw, void *data) {
  int64_t n = desc_elements(desc), bytes = desc_bytes(desc);
  if (raw) {
    if (bytes) memcpy(data, raw_data(r, t).data, (size_t)bytes);
    return;
  }
  size_t element = reed_dtype_bytes(desc->dtype);
  for (int64_t i = 0; i < n; i++) typed_element(t, desc->dtype, (size_t)i, (char *)data + (size_t)i * element);
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
  reed_status status = external ? REED_OK : check_inline(r, t, where, &desc, &raw);
  if (status != REED_OK) return status;
  if (external && !external_fits(r, t, bytes))
    return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "tensor '%s': %s is larger than its external file '%s'", where,
                     desc_text(&desc, text, sizeof text), external_entry(t, "location"));
  bool floats = desc.dtype == REED_F32 || desc.dtype == REED_F64 || desc.dtype == REED_F16 || desc.dtype == REED_BF16;
  if (raw && r->outlined && floats && bytes >= IR_WEIGHTS_BYTES) {
    *out_desc = desc;
    *out_data = raw_data(r, t).data;
    return REED_OK;
  }
  char *data = ir_alloc(r->m, (size_t)bytes + 64); /* aligned as kernels like it */
  if (!data) return diag_no_memory(r->diagnosis, "a tensor of the model");
  data = (char *)(((uintptr_t)data + 63) & ~(uintptr_t)63);
  if (external) {
    status = read_external(r, t, where, bytes, data);
    if (status != REED_OK) return status;
  } else {
    copy_inline(r, t, &desc, raw, data);
  }
  if (desc.dtype == REED_BOOL)
    for (int64_t i = 0; i < bytes; i++) data[i] = data[i] != 0;
  *out_desc = desc;
  *out_data = data;
  return REED_OK;
}
