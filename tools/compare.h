/* Two tensors side by side: what --expect and `vm test` say about a difference. */
#ifndef TOOLS_COMPARE_H_
#define TOOLS_COMPARE_H_

#include <stdio.h>

#include "tools/tool.h"

/* Compares got with want: same shape, same dtype, and |got - want| <= atol + rtol * |want| for every element; NaN equals NaN, an infinity itself.
 * Two dtypes of floats may meet (a reference saved as f16 beside an f32 result): they are compared by value, and the report says so.
 * Writes a report to `out` (NULL: none): one line where all agree; else both shapes, the first mismatches with index, got and want, and the
 * largest errors. Returns true when they agree. */
bool compare_tensors(const char *name, const reed_tensor *got, const reed_tensor *want, double rtol, double atol, FILE *out);

#endif
