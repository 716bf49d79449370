/* Arithmetic on strides, and strided copies row by row (strides.h). */
#include "base/strides.h"

#include <stdlib.h>
#include <string.h>

void strides_of(const reed_desc *desc, int32_t axis, int64_t capacity, int64_t *out_strides) {
  int64_t step = 1;
  for (int32_t i = desc->rank - 1; i >= 0; i--) {
    out_strides[i] = step;
    int64_t extent = i == axis ? capacity : desc->dims[i];
    step *= extent > 0 ? extent : 1;
  }
}

static bool is_empty(const reed_desc *desc) {
  for (int32_t i = 0; i < desc->rank; i++)
    if (desc->dims[i] == 0) return true;
  return false;
}

bool strides_are_dense(const reed_desc *desc, const int64_t *strides) {
  if (is_empty(desc)) return true;
  int64_t step = 1;
  for (int32_t i = desc->rank - 1; i >= 0; i--) {
    if (desc->dims[i] != 1 && strides[i] != step) return false;
    step *= desc->dims[i];
  }
  return true;
}

bool strides_have_room(const reed_desc *desc, const int64_t *strides, int32_t axis, int64_t *out_capacity) {
  if (axis < 0 || axis >= desc->rank) return false;
  *out_capacity = desc->dims[axis];
  if (strides_are_dense(desc, strides)) return true;
  int64_t expected[REED_MAX_RANK], row = 1; /* row: elements of one index of the axis */
  for (int32_t i = axis + 1; i < desc->rank; i++) row *= desc->dims[i];
  int32_t outer = axis - 1;
  while (outer >= 0 && desc->dims[outer] == 1) outer--; /* extents between it and the axis are 1 */
  if (outer < 0 || strides[outer] % row != 0 || strides[outer] / row < desc->dims[axis]) return false;
  *out_capacity = strides[outer] / row;
  strides_of(desc, axis, *out_capacity, expected);
  for (int32_t i = 0; i < desc->rank; i++)
    if (desc->dims[i] != 1 && strides[i] != expected[i]) return false;
  return true;
}

bool strides_are_distinct(const reed_desc *desc, const int64_t *strides) {
  if (is_empty(desc)) return true;
  bool done[REED_MAX_RANK] = {false};
  int64_t reach = 0; /* of the axes that are done */
  for (int32_t n = 0; n < desc->rank; n++) {
    int32_t least = -1;
    for (int32_t i = 0; i < desc->rank; i++)
      if (!done[i] && (least < 0 || llabs(strides[i]) < llabs(strides[least]))) least = i;
    done[least] = true;
    if (desc->dims[least] == 1) continue;
    if (llabs(strides[least]) <= reach) return false;
    reach += (desc->dims[least] - 1) * llabs(strides[least]);
  }
  return true;
}

bool strides_span(const reed_desc *desc, const int64_t *strides, int64_t *out_low, int64_t *out_high) {
  int64_t size = (int64_t)reed_dtype_bytes(desc->dtype), low = 0, high = size;
  *out_low = *out_high = 0;
  if (is_empty(desc)) return true;
  for (int32_t i = 0; i < desc->rank; i++) {
    int64_t reach;
    if (desc->dims[i] == 1) continue;
    if (__builtin_mul_overflow(desc->dims[i] - 1, strides[i], &reach) || __builtin_mul_overflow(reach, size, &reach) ||
        __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
      return false;
  }
  int64_t bytes;
  if (__builtin_sub_overflow(high, low, &bytes)) return false;
  *out_low = low;
  *out_high = high;
  return true;
}

strides_rows strides_common_rows(const reed_desc *desc, const int64_t *a, const int64_t *b) {
  strides_rows rows = {.n_axes = desc->rank, .n_rows = 1, .bytes = (int64_t)reed_dtype_bytes(desc->dtype)};
  int64_t step = 1;
  while (rows.n_axes > 0) {
    int32_t axis = rows.n_axes - 1;
    if (desc->dims[axis] != 1 && (a[axis] != step || b[axis] != step)) break;
    step *= desc->dims[axis];
    rows.bytes *= desc->dims[axis];
    rows.n_axes--;
  }
  for (int32_t i = 0; i < rows.n_axes; i++) rows.n_rows *= desc->dims[i];
  return rows;
}

int64_t strides_row_at(const reed_desc *desc, const int64_t *strides, const strides_rows *rows, int64_t row) {
  int64_t at = 0;
  for (int32_t i = rows->n_axes - 1; i >= 0; i--) {
    at += row % desc->dims[i] * strides[i];
    row /= desc->dims[i];
  }
  return at * (int64_t)reed_dtype_bytes(desc->dtype);
}

void strides_copy(const reed_desc *desc, void *target, const int64_t *target_strides, const void *source,
                  const int64_t *source_strides) {
  strides_rows rows = strides_common_rows(desc, target_strides, source_strides);
  if (rows.bytes == 0) return;
  int64_t size = (int64_t)reed_dtype_bytes(desc->dtype), index[REED_MAX_RANK] = {0};
  char *to = target;
  const char *from = source;
  for (int64_t row = 0; row < rows.n_rows; row++) {
    memcpy(to, from, (size_t)rows.bytes);
    for (int32_t i = rows.n_axes - 1; i >= 0; i--) { /* the next index */
      to += target_strides[i] * size;
      from += source_strides[i] * size;
      if (++index[i] < desc->dims[i]) break;
      index[i] = 0;
      to -= target_strides[i] * size * desc->dims[i];
      from -= source_strides[i] * size * desc->dims[i];
    }
  }
}
