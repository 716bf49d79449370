/* External data: tensors in files beside the model. The model names these files, and models come from untrusted
 * sources. So a file must lie, with all links followed, in the model's folder or in the folder of the model's own
 * resolved path (Hugging Face's cache is a folder of links into a folder of files). Other files are read only where the
 * caller allows it. Tensors in the model itself: tensor.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "compiler/onnx/reader.h"

static const char *entry(const Onnx__TensorProto *t, const char *key) {
  for (size_t i = 0; i < t->n_external_data; i++)
    if (strcmp(onnx_text(t->external_data[i]->key), key) == 0) return t->external_data[i]->value;
  return NULL;
}

/* Parses a decimal number >= 0 that is the whole text. */
static bool parse_size(const char *text, int64_t *out_value) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno || end == text || *end || value < 0) return false;
  *out_value = value;
  return true;
}

/* ---- which files may be read ---- */

/* True when the path, as written, stays below the folder: it is relative, and its ".." never leave the folder. */
static bool stays_below(const char *path) {
  int64_t depth = 0;
  if (!*path || *path == '/') return false;
  while (*path) {
    size_t n = strcspn(path, "/");
    if (n == 2 && path[0] == '.' && path[1] == '.') depth--;
    else if (n > 0 && !(n == 1 && path[0] == '.')) depth++;
    if (depth < 0) return false;
    path += n;
    path += strspn(path, "/");
  }
  return true;
}

/* True when the file lies in the folder; both paths are resolved. */
static bool lies_in(const char *file, const char *folder) {
  size_t n = strlen(folder);
  if (n == 1) return true; /* "/" */
  return strncmp(file, folder, n) == 0 && (file[n] == '/' || file[n] == 0);
}

/* Cuts a resolved path, in place, to its folder. */
static void cut_to_folder(char *path) {
  char *slash = strrchr(path, '/');
  if (slash) slash[slash == path] = 0;
}

/* Memory from realpath belongs to the C library and is freed with free(). */
static bool is_allowed(const onnx_external *e, const char *resolved) {
  char *folder = realpath(e->folder, NULL), *model = e->model ? realpath(e->model, NULL) : NULL;
  if (model) cut_to_folder(model);
  bool allowed = (folder && lies_in(resolved, folder)) || (model && lies_in(resolved, model));
  free(folder);
  free(model);
  return allowed;
}

static reed_status not_allowed(onnx_reader *r, const char *where, const char *location, const char *resolved) {
  return diag_fail(r->diagnosis, REED_ERROR_FORMAT,
                   "tensor '%s': external file '%s'%s%s%s is not below the model's folder '%s': it is read only if the "
                   "option external_anywhere is set (--external-anywhere)",
                   where, location, resolved ? " ('" : "", resolved ? resolved : "", resolved ? "')" : "",
                   r->external->folder);
}

/* Opens the file at `path`, if it may be read; the model calls it `location`. */
static reed_status open_file(onnx_reader *r, const char *where, const char *path, const char *location, int *out_file,
                             int64_t *out_bytes) {
  const onnx_external *e = r->external;
  char *resolved = realpath(path, NULL);
  struct stat info;
  int file = -1;
  reed_status status = REED_OK;
  if (resolved && !e->anywhere && !is_allowed(e, resolved)) {
    status = not_allowed(r, where, location, resolved);
  } else {
    /* O_NOFOLLOW: no link is followed any more; O_NONBLOCK: a pipe without a writer does not block */
    if (resolved) file = open(resolved, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0 || fstat(file, &info) != 0 || !S_ISREG(info.st_mode))
      status = diag_fail(r->diagnosis, REED_ERROR_IO, "tensor '%s': external file '%s' cannot be read: %s", where, path,
                         file < 0 ? strerror(errno) : "it is not a file");
  }
  if (status == REED_OK && e->reading) e->reading(e->reading_context, resolved);
  free(resolved);
  if (status != REED_OK) {
    if (file >= 0) close(file);
    return status;
  }
  *out_file = file;
  *out_bytes = info.st_size;
  return REED_OK;
}

/* ---- a tensor's part of a file ---- */

static reed_status find_range(onnx_reader *r, const Onnx__TensorProto *t, const char *where, int64_t bytes,
                              int64_t *out_offset) {
  const char *offset_text = entry(t, "offset"), *length_text = entry(t, "length");
  int64_t offset = 0, length = bytes;
  if ((offset_text && !parse_size(offset_text, &offset)) || (length_text && !parse_size(length_text, &length)) ||
      offset > INT64_MAX - bytes)
    return diag_fail(r->diagnosis, REED_ERROR_FORMAT,
                     "tensor '%s': offset '%s' or length '%s' of its external data is not a size", where,
                     onnx_text(offset_text), onnx_text(length_text));
  if (length != bytes)
    return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "tensor '%s' has %lld bytes, its external data says %lld", where,
                     (long long)bytes, (long long)length);
  *out_offset = offset;
  return REED_OK;
}

reed_status onnx_open_external(onnx_reader *r, const Onnx__TensorProto *t, const char *where, int64_t bytes,
                               onnx_external_data *out_data) {
  const char *location = onnx_text(entry(t, "location"));
  onnx_external_data data = {.file = -1};
  int64_t file_bytes = 0;
  if (!r->external || !r->external->folder)
    return diag_fail(r->diagnosis, REED_ERROR_IO,
                     "tensor '%s' is in external file '%s', but no folder for external files is given", where,
                     location);
  if (!r->external->anywhere && !stays_below(location)) return not_allowed(r, where, location, NULL);
  reed_status status = find_range(r, t, where, bytes, &data.offset);
  if (status != REED_OK) return status;
  text_buffer path = {0};
  text_append(&path, *location == '/' ? "%s%s" : "%s/%s", *location == '/' ? "" : r->external->folder, location);
  status = path.failed ? diag_no_memory(r->diagnosis, "a path")
                       : open_file(r, where, path.data, location, &data.file, &file_bytes);
  text_fini(&path);
  if (status == REED_OK && (data.offset > file_bytes || bytes > file_bytes - data.offset)) {
    status = diag_fail(r->diagnosis, REED_ERROR_FORMAT,
                       "tensor '%s': bytes %lld..%lld are wanted of external file '%s', which has %lld", where,
                       (long long)data.offset, (long long)(data.offset + bytes), location, (long long)file_bytes);
    onnx_close_external(&data);
  }
  if (status == REED_OK) *out_data = data;
  return status;
}

reed_status onnx_read_external(onnx_reader *r, const onnx_external_data *data, const char *where, int64_t bytes,
                               void *elements) {
  for (int64_t done = 0; done < bytes;) {
    reed_status status = ir_check_cancel(r->m);
    if (status != REED_OK) return status;
    int64_t part = bytes - done < CANCEL_BYTES ? bytes - done : CANCEL_BYTES;
    ssize_t n = pread(data->file, (char *)elements + done, (size_t)part, data->offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return diag_fail(r->diagnosis, REED_ERROR_IO, "tensor '%s': its external file cannot be read: %s", where,
                       n < 0 ? strerror(errno) : "it ends early");
    done += n;
  }
  return REED_OK;
}

void onnx_close_external(onnx_external_data *data) {
  if (data->file >= 0) close(data->file);
  data->file = -1;
}
