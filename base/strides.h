/* Strides of tensors, in elements: dense row-major ones, the bytes that a strided tensor covers, and copies between
 * strided tensors in the memory of the host. Negative strides and strides of 0 are allowed. The desc is valid
 * (base/desc.h). */
#ifndef BASE_STRIDES_H_
#define BASE_STRIDES_H_

#include "base/desc.h"

/* The strides of a dense row-major tensor whose memory has `capacity` elements along `axis` (axis -1: as the desc). */
void strides_of(const reed_desc *desc, int32_t axis, int64_t capacity, int64_t *out_strides);
/* True if the elements lie dense in row-major order. Strides of axes of extent 0 or 1 mean nothing. */
bool strides_are_dense(const reed_desc *desc, const int64_t *strides);
/* True if the strides are those of strides_of(desc, axis, *out_capacity), for a capacity of at least the extent. If the
 * strides do not tell the capacity (all extents before the axis are 1, or no elements), it is the extent. */
bool strides_have_room(const reed_desc *desc, const int64_t *strides, int32_t axis, int64_t *out_capacity);
/* True if every element has an address of its own, as far as nested axes show: in ascending order of the strides'
 * sizes, each stride steps over all elements of the axes before. */
bool strides_are_distinct(const reed_desc *desc, const int64_t *strides);
/* The bytes of the tensor relative to its first element: from *out_low (0 or less) up to, without, *out_high. Both are
 * 0 for an empty tensor. False: they do not fit 64 bits. */
bool strides_span(const reed_desc *desc, const int64_t *strides, int64_t *out_low, int64_t *out_high);

/* A strided copy as rows: `bytes` that lie together in both tensors, once for each index of the first `n_axes` axes. */
typedef struct strides_rows {
  int32_t n_axes;
  int64_t n_rows, bytes;
} strides_rows;
strides_rows strides_common_rows(const reed_desc *desc, const int64_t *a, const int64_t *b);
/* The byte offset of a row in the tensor with these strides. */
int64_t strides_row_at(const reed_desc *desc, const int64_t *strides, const strides_rows *rows, int64_t row);

/* Copies every element; the two do not overlap. */
void strides_copy(const reed_desc *desc, void *target, const int64_t *target_strides, const void *source,
                  const int64_t *source_strides);

#endif
