/* Checked arithmetic on extents and sizes, and text of shapes. A desc's dims are valid (each >= 0, product of bytes
 * fits int64) once desc_check has passed; everything past that point may multiply freely. */
#ifndef BASE_DESC_H_
#define BASE_DESC_H_

#include <stdbool.h>
#include <stddef.h>

#include "reed/operator.h"

/* Number of elements / bytes; -1 on overflow or a negative extent. */
int64_t desc_elements(const reed_desc *desc);
int64_t desc_bytes(const reed_desc *desc);
bool desc_same_dims(const reed_desc *a, const reed_desc *b);
bool desc_equal(const reed_desc *a, const reed_desc *b);
/* "f32[2,3]" into out (always terminated); returns out. */
char *desc_text(const reed_desc *desc, char *out, size_t capacity);
/* "[2,3]" */
char *dims_text(int32_t rank, const int64_t *dims, char *out, size_t capacity);

/* Contents of a reed_attr list copied into memory of their own, sorted by name; freed with attrs_free. */
reed_status attrs_copy(const reed_attr *items, int32_t n, reed_attrs *out_attrs) REED_MUST_CHECK;
void attrs_free(reed_attrs *attrs);
/* The same name, type and value; numbers bit for bit. */
bool attr_equal(const reed_attr *a, const reed_attr *b);

#endif
