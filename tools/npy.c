/* Reading and writing .npy files. The header is a Python dict literal; only the part of its grammar that NumPy writes
 * is parsed. */
#include "tools/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plain.h"

/* descr without its byte-order mark; a dtype is written as its first row says */
static const struct {
  const char *kind;
  reed_dtype dtype;
} kinds[] = {
    {"f4", REED_F32}, {"f8", REED_F64},  {"f2", REED_F16},  {"i1", REED_I8},  {"i2", REED_I16},
    {"i4", REED_I32}, {"i8", REED_I64},  {"u1", REED_U8},   {"u2", REED_U16}, {"u4", REED_U32},
    {"u8", REED_U64}, {"b1", REED_BOOL}, {"V2", REED_BF16},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

typedef struct header {
  reed_dtype dtype;
  bool swapped, fortran;
  int32_t rank;
  int64_t dims[REED_MAX_RANK];
} header;

/* ---- the dict ---- */

typedef struct cursor {
  const char *at, *end;
} cursor;

static void skip_space(cursor *p) {
  while (p->at < p->end && strchr(" \t\r\n", *p->at)) p->at++;
}

static bool take(cursor *p, char wanted) {
  skip_space(p);
  if (p->at == p->end || *p->at != wanted) return false;
  p->at++;
  return true;
}

static bool take_word(cursor *p, const char *word) {
  skip_space(p);
  size_t n = strlen(word);
  if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n)) return false;
  p->at += n;
  return true;
}

static bool take_string(cursor *p, char *out, size_t capacity) {
  skip_space(p);
  if (p->at == p->end || (*p->at != '\'' && *p->at != '"')) return false;
  char quote = *p->at++;
  size_t n = 0;
  while (p->at < p->end && *p->at != quote) {
    if (n + 1 == capacity || *p->at == '\\') return false;
    out[n++] = *p->at++;
  }
  out[n] = 0;
  return take(p, quote);
}

static bool take_extent(cursor *p, int64_t *out_extent) {
  skip_space(p);
  const char *begin = p->at;
  int64_t value = 0;
  while (p->at < p->end && *p->at >= '0' && *p->at <= '9')
    if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
        __builtin_add_overflow(value, (int64_t)(*p->at++ - '0'), &value))
      return false;
  *out_extent = value;
  if (p->at == begin) return false;
  take(p, 'L'); /* Python 2 wrote long integers so */
  return true;
}

static int read_descr(const char *name, const char *descr, header *h, complaint *c) {
  bool big = descr[0] == '>';
  const char *kind = strchr("<>|=", descr[0]) && descr[0] ? descr + 1 : descr;
  for (int i = 0; i < N_KINDS; i++)
    if (strcmp(kinds[i].kind, kind) == 0) {
      h->dtype = kinds[i].dtype;
      h->swapped = big;
      return DONE;
    }
  return complain(c, BAD_FILE,
                  "'%s': elements of type '%s' are not supported (floats, integers up to 64 bit and bool are)", name,
                  plain(descr));
}

static int read_shape(const char *name, cursor *p, header *h, complaint *c) {
  if (!take(p, '(')) return complain(c, BAD_FILE, "'%s': the header's shape is not a tuple", name);
  while (!take(p, ')')) {
    if (h->rank == REED_MAX_RANK) return complain(c, BAD_FILE, "'%s': more than %d dimensions", name, REED_MAX_RANK);
    if (!take_extent(p, &h->dims[h->rank]))
      return complain(c, BAD_FILE, "'%s': extent %d of the header's shape is no extent", name, h->rank);
    h->rank++;
    if (!take(p, ',') && (p->at == p->end || *p->at != ')'))
      return complain(c, BAD_FILE, "'%s': the header's shape is not a tuple", name);
  }
  return DONE;
}

static int read_dict(const char *name, cursor p, header *h, complaint *c) {
  char key[32], descr[32];
  unsigned seen = 0;
  if (!take(&p, '{')) return complain(c, BAD_FILE, "'%s': the header is not a dict", name);
  while (!take(&p, '}')) {
    if (!take_string(&p, key, sizeof key) || !take(&p, ':'))
      return complain(c, BAD_FILE, "'%s': the header is damaged", name);
    int status = DONE;
    if (strcmp(key, "descr") == 0) {
      seen |= 1;
      if (!take_string(&p, descr, sizeof descr))
        return complain(c, BAD_FILE, "'%s': structured arrays are not supported", name);
      status = read_descr(name, descr, h, c);
    } else if (strcmp(key, "fortran_order") == 0) {
      seen |= 2;
      h->fortran = take_word(&p, "True");
      if (!h->fortran && !take_word(&p, "False"))
        return complain(c, BAD_FILE, "'%s': fortran_order is neither True nor False", name);
    } else if (strcmp(key, "shape") == 0) {
      if (seen & 4) return complain(c, BAD_FILE, "'%s': the header has two shapes", name);
      seen |= 4;
      status = read_shape(name, &p, h, c);
    } else {
      return complain(c, BAD_FILE, "'%s': unknown header key '%s'", name, plain(key));
    }
    if (status) return status;
    if (!take(&p, ',')) skip_space(&p);
  }
  skip_space(&p);
  if (p.at != p.end) return complain(c, BAD_FILE, "'%s': garbage behind the header", name);
  return seen == 7 ? DONE : complain(c, BAD_FILE, "'%s': the header lacks descr, fortran_order or shape", name);
}

/* ---- the elements ---- */

static void swap_bytes(unsigned char *data, int64_t n, size_t size) {
  for (; n > 0; n--, data += size)
    for (size_t i = 0; i < size / 2; i++) {
      unsigned char t = data[i];
      data[i] = data[size - 1 - i];
      data[size - 1 - i] = t;
    }
}

/* Column-major source to row-major target. */
static void reorder(const header *h, const char *source, char *target, int64_t n, size_t size) {
  int64_t index[REED_MAX_RANK] = {0}, stride[REED_MAX_RANK], step = 1, from = 0;
  for (int32_t i = 0; i < h->rank; i++) stride[i] = step, step *= h->dims[i];
  for (int64_t k = 0; k < n; k++) {
    memcpy(target + (size_t)k * size, source + (size_t)from * size, size);
    for (int32_t i = h->rank - 1; i >= 0; i--) {
      from += stride[i];
      if (++index[i] < h->dims[i]) break;
      from -= stride[i] * h->dims[i];
      index[i] = 0;
    }
  }
}

int npy_read(const char *name, const void *bytes, size_t n, reed_tensor **out_tensor, complaint *c) {
  const unsigned char *b = bytes;
  if (n < 10 || memcmp(b, "\x93NUMPY", 6)) return complain(c, BAD_FILE, "'%s' is no .npy file", name);
  if (b[6] < 1 || b[6] > 3)
    return complain(c, BAD_FILE, "'%s': .npy format version %d.%d is not known (1 to 3 are)", name, b[6], b[7]);
  size_t begin = b[6] == 1 ? 10 : 12, length = b[8] | (size_t)b[9] << 8;
  if (b[6] > 1) {
    if (n < 12) return complain(c, BAD_FILE, "'%s' ends within its header", name);
    length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
  }
  if (length > n - begin) return complain(c, BAD_FILE, "'%s' ends within its header", name);
  header h = {0};
  const char *text = (const char *)b + begin;
  int status = read_dict(name, (cursor){text, text + length}, &h, c);
  if (status) return status;
  reed_tensor *tensor;
  /* the file's own size bounds the allocation: a header that promises more is refused before memory is taken */
  size_t size = reed_dtype_bytes(h.dtype), left = n - begin - length, elements = 1;
  for (int32_t i = 0; i < h.rank; i++)
    if (h.dims[i] && elements && __builtin_mul_overflow(elements, (size_t)h.dims[i], &elements))
      return complain(c, BAD_FILE, "'%s': the header's shape overflows", name);
    else if (!h.dims[i]) elements = 0;
  if (elements > left / size || elements * size != left)
    return complain(c, BAD_FILE, "'%s': the header promises %zu elements of %zu bytes, but %zu bytes follow it", name,
                    elements, size, left);
  reed_status opened = reed_tensor_open(h.dtype, h.rank, h.dims, &tensor);
  if (opened)
    return complain(c, opened == REED_ERROR_MEMORY ? FAILED_RUN : BAD_FILE, "'%s': %s", name, reed_status_text(opened));
  char *data = reed_tensor_data(tensor);
  if (h.fortran) reorder(&h, text + length, data, (int64_t)elements, size);
  else memcpy(data, text + length, left);
  if (h.swapped) swap_bytes((unsigned char *)data, (int64_t)elements, size);
  if (h.dtype == REED_BOOL)
    for (size_t i = 0; i < elements; i++) data[i] = data[i] != 0;
  *out_tensor = tensor;
  return DONE;
}

void npy_write(const reed_tensor *tensor, char **out_bytes, size_t *out_n) {
  reed_dtype dtype = reed_tensor_dtype(tensor), saved = dtype == REED_BF16 ? REED_F32 : dtype;
  const char *kind = "";
  for (int i = N_KINDS - 1; i >= 0; i--)
    if (kinds[i].dtype == saved) kind = kinds[i].kind;
  int64_t n = reed_tensor_elements(tensor);
  size_t size = reed_dtype_bytes(saved), data_bytes = (size_t)n * size;
  char dict[512];
  int length =
      snprintf(dict, sizeof dict, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", size == 1 ? '|' : '<', kind);
  int32_t rank = reed_tensor_rank(tensor);
  for (int32_t i = 0; i < rank; i++)
    length += snprintf(dict + length, sizeof dict - (size_t)length,
                       i + 1 < rank ? "%lld, "
                       : rank == 1  ? "%lld,"
                                    : "%lld",
                       (long long)reed_tensor_dims(tensor)[i]);
  length += snprintf(dict + length, sizeof dict - (size_t)length, "), }");
  /* padded with spaces and a newline so that the data begins at a multiple of 64 */
  size_t header_bytes = ((size_t)length + 11 + 63) / 64 * 64;
  char *bytes = need(header_bytes + data_bytes, 1);
  memset(bytes, ' ', header_bytes);
  memcpy(bytes, "\x93NUMPY\1\0", 8);
  bytes[8] = (char)((header_bytes - 10) & 0xff);
  bytes[9] = (char)((header_bytes - 10) >> 8);
  memcpy(bytes + 10, dict, (size_t)length);
  bytes[header_bytes - 1] = '\n';
  const char *data = reed_tensor_data(tensor);
  if (saved == dtype) {
    if (data_bytes) memcpy(bytes + header_bytes, data, data_bytes);
  } else {
    for (int64_t i = 0; i < n; i++)
      reed_dtype_write(saved, bytes + header_bytes + (size_t)i * size, reed_dtype_read(dtype, data + 2 * i));
  }
  *out_bytes = bytes;
  *out_n = header_bytes + data_bytes;
}
