/* Checked arithmetic on extents and sizes, texts of shapes, and lists of attributes.
 *
 * desc_bytes checks a desc: unless it is -1, no extent is negative and the bytes are at most DESC_BYTES_MOST, so
 * callers may multiply them by 2^15 without checks. */
#ifndef BASE_DESC_H_
#define BASE_DESC_H_

#include <stdbool.h>
#include <stddef.h>

#include "reed/operator.h"

/* Of a tensor: more than a process has addresses for. The product of the extents that are not 0 has the same limit. */
#define DESC_BYTES_MOST ((int64_t)1 << 48)

/* Multiplies a number of elements or bytes by an extent that is not 0. False: above the limit. */
static inline bool desc_multiply(int64_t *n, int64_t extent) {
  return !__builtin_mul_overflow(*n, extent, n) && *n <= DESC_BYTES_MOST;
}

/* The number of elements, and of bytes; -1: above the limit, or a negative extent. */
int64_t desc_elements(const reed_desc *desc);
int64_t desc_bytes(const reed_desc *desc);
bool desc_equal(const reed_desc *a, const reed_desc *b);
/* Writes "f32[2,3]" into `out`, always terminated; returns `out`. */
char *desc_text(const reed_desc *desc, char *out, size_t capacity);
/* As desc_text, without the dtype: "[2,3]". */
char *dims_text(int32_t rank, const int64_t *dims, char *out, size_t capacity);

/* Deep copy of a list of attributes, sorted by name. attrs_free frees the copy. */
reed_status attrs_copy(const reed_attr *items, int32_t n, reed_attrs *out_attrs) REED_MUST_CHECK;
void attrs_free(reed_attrs *attrs);
/* True if name, type and value are equal; numbers are compared bit for bit. */
bool attr_equal(const reed_attr *a, const reed_attr *b);
/* True for an attribute of a caller without the text, list or tensor that its type wants, or of no known type. */
bool attr_lacks_value(const reed_attr *attr);

#endif
