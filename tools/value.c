/* Parsing VALUE (value.h). Strict: text left over after a number, a type or a list is an error, whose message names the
 * expected text. */
#include "tools/value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "tools/files.h"
#include "tools/flags.h"
#include "tools/npy.h"

/* ---- types ---- */

/* The number of characters of the "12x" at the text; 0: there is no extent. */
static size_t take_extent(const char *text, size_t n, int64_t *out_extent) {
  size_t i = 0;
  int64_t value = 0;
  for (; i < n && text[i] >= '0' && text[i] <= '9'; i++)
    if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
        __builtin_add_overflow(value, (int64_t)(text[i] - '0'), &value))
      return 0;
  *out_extent = value;
  return i;
}

static bool parse_type(const char *text, size_t n, bool need_dtype, reed_desc *out_desc) {
  reed_desc desc = {0};
  for (;;) {
    int64_t extent;
    size_t used = take_extent(text, n, &extent);
    if (!used) break;
    if (desc.rank == REED_MAX_RANK) return false;
    desc.dims[desc.rank++] = extent;
    text += used, n -= used;
    if (n == 0 && !need_dtype) {
      *out_desc = desc;
      return true;
    }
    if (n == 0 || *text != 'x') return false;
    text++, n--;
  }
  char name[8];
  if (n == 0 || n >= sizeof name) return false;
  memcpy(name, text, n);
  name[n] = 0;
  desc.dtype = reed_dtype_parse(name);
  *out_desc = desc;
  return desc.dtype != REED_NONE;
}

bool value_parse_type(const char *text, size_t n, reed_desc *out_desc) { return parse_type(text, n, true, out_desc); }
bool value_parse_extents(const char *text, reed_desc *out_desc) {
  return parse_type(text, strlen(text), false, out_desc);
}

bool value_looks_like(const char *text) {
  const char *equals = strchr(text, '=');
  reed_desc desc;
  return text[0] == '@' || (equals && value_parse_type(text, (size_t)(equals - text), &desc));
}

/* ---- elements ---- */

static bool is_float(reed_dtype dtype) {
  return dtype == REED_F32 || dtype == REED_F64 || dtype == REED_F16 || dtype == REED_BF16;
}

/* Smallest and largest of an integer dtype. */
static void range_of(reed_dtype dtype, int64_t *out_low, uint64_t *out_high) {
  bool is_unsigned = dtype == REED_U8 || dtype == REED_U16 || dtype == REED_U32 || dtype == REED_U64;
  unsigned bits = 8 * (unsigned)reed_dtype_bytes(dtype);
  *out_low = is_unsigned || dtype == REED_BOOL ? 0 : INT64_MIN >> (64 - bits);
  *out_high = dtype == REED_BOOL ? 1 : is_unsigned ? UINT64_MAX >> (64 - bits) : (uint64_t)INT64_MAX >> (64 - bits);
}

static void store_integer(reed_dtype dtype, void *element, uint64_t bits) {
  memcpy(element, &bits, reed_dtype_bytes(dtype)); /* little-endian */
}

static bool parse_integer(reed_dtype dtype, const char *text, void *element) {
  int64_t low;
  uint64_t high, bits;
  range_of(dtype, &low, &high);
  if (dtype == REED_BOOL && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)) {
    store_integer(dtype, element, text[0] == 't');
    return true;
  }
  bool negative = *text == '-';
  const char *digits = text + (negative || *text == '+');
  if (*digits < '0' || *digits > '9') return false;
  char *end;
  errno = 0;
  uint64_t magnitude = strtoull(digits, &end, 10);
  if (*end || errno) return false;
  if (negative ? magnitude > (uint64_t)0 - (uint64_t)low : magnitude > high) return false;
  bits = negative ? 0 - magnitude : magnitude;
  store_integer(dtype, element, bits);
  return true;
}

static bool parse_element(reed_dtype dtype, const char *text, void *element) {
  double value;
  if (!is_float(dtype)) return parse_integer(dtype, text, element);
  if (!parse_real(text, &value)) return false;
  reed_dtype_write(dtype, element, value);
  return true;
}

static int parse_elements(const char *text, const char *whole, reed_tensor *tensor, complaint *c) {
  reed_dtype dtype = reed_tensor_dtype(tensor);
  size_t size = reed_dtype_bytes(dtype);
  int64_t wanted = reed_tensor_elements(tensor), n = 0;
  char *data = reed_tensor_data(tensor), *copy = need_text(text), *rest = copy;
  _Alignas(8) char splat[8];
  int status = DONE;
  for (char *item; *text && (item = strsep(&rest, ",")) != NULL; n++) {
    if (!parse_element(dtype, item, n == 0 ? splat : n < wanted ? data + (size_t)n * size : splat)) {
      status = complain(c, MISUSE, "value '%.60s': element %lld, '%.40s', is no %s", whole, (long long)n, item,
                        reed_dtype_name(dtype));
      goto done;
    }
    if (n == 0 && wanted > 0) memcpy(data, splat, size);
  }
  if (n == 1)
    for (int64_t i = 1; i < wanted; i++) memcpy(data + (size_t)i * size, splat, size);
  else if (n != wanted)
    status = complain(c, MISUSE, "value '%.60s': %lld element%s expected (or one for all), %lld given", whole,
                      (long long)wanted, wanted == 1 ? "" : "s", (long long)n);
done:
  free(copy);
  return status;
}

void value_random(reed_tensor *tensor, uint64_t seed) {
  reed_dtype dtype = reed_tensor_dtype(tensor);
  size_t size = reed_dtype_bytes(dtype);
  char *element = reed_tensor_data(tensor);
  for (int64_t n = reed_tensor_elements(tensor); n > 0; n--, element += size) {
    uint64_t bits = random_next(&seed);
    if (is_float(dtype)) reed_dtype_write(dtype, element, (double)(bits >> 40) * 0x1p-24);
    else if (dtype == REED_BOOL) store_integer(dtype, element, bits >> 63);
    else store_integer(dtype, element, size == 1 ? bits >> 56 : (bits >> 32) % 10);
  }
}

/* ---- files ---- */

int value_read_file(const char *path, const picture_form *form, const reed_value_info *wanted, reed_tensor **out_tensor,
                    complaint *c) {
  char *bytes;
  size_t n;
  int status = file_read(path, &bytes, &n, c);
  if (status) return status;
  if (has_extension(path, "npy") || (n >= 6 && memcmp(bytes, "\x93NUMPY", 6) == 0)) {
    status = npy_read(path, bytes, n, out_tensor, c);
  } else if (has_extension(path, "png") || has_extension(path, "jpg") || has_extension(path, "jpeg")) {
    rgb_picture picture;
    status = picture_read(path, bytes, n, &picture, c);
    if (!status) {
      status = picture_to_tensor(&picture, form, wanted, out_tensor, c);
      picture_fini(&picture);
    }
  } else {
    status = complain(c, BAD_FILE, "'%s': only .npy, .png and .jpg files can be read", path);
  }
  free(bytes);
  return status;
}

int value_parse(const char *text, const picture_form *form, const reed_value_info *wanted, reed_tensor **out_tensor,
                complaint *c) {
  if (text[0] == '@') return value_read_file(text + 1, form, wanted, out_tensor, c);
  const char *equals = strchr(text, '=');
  reed_desc desc;
  if (!equals && access(text, F_OK) == 0)
    return complain(c, MISUSE, "value '%.60s': a file is written @%.60s", text, text);
  if (!equals || !value_parse_type(text, (size_t)(equals - text), &desc))
    return complain(
        c, MISUSE,
        "value '%.60s': expected @FILE, or extents and a dtype, '=' and elements, such as 2x3xf32=1,2,3,4,5,6", text);
  reed_tensor *tensor;
  reed_status opened = reed_tensor_open(desc.dtype, desc.rank, desc.dims, &tensor);
  if (opened)
    return complain(c, opened == REED_ERROR_MEMORY ? FAILED_RUN : MISUSE, "value '%.60s': %s", text,
                    reed_status_text(opened));
  int status = DONE;
  int64_t seed;
  const char *elements = equals + 1;
  if (strncmp(elements, "rand:", 5) == 0) {
    if (parse_int(elements + 5, &seed)) value_random(tensor, (uint64_t)seed);
    else
      status = complain(c, MISUSE, "value '%.60s': expected a whole number as the seed behind 'rand:', not '%.40s'",
                        text, elements + 5);
  } else {
    status = parse_elements(elements, text, tensor, c);
  }
  if (status) {
    reed_tensor_close(&tensor);
    return status;
  }
  *out_tensor = tensor;
  return DONE;
}
