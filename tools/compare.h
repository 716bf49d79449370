/* Comparing two tensors, and the report on a difference, for --expect and `vm test`. */
#ifndef TOOLS_COMPARE_H_
#define TOOLS_COMPARE_H_

#include <stdio.h>

#include "tools/tool.h"

/* The largest difference of an output that counts as equal. */
typedef struct tolerance {
  double rtol, atol;
} tolerance;

/* Compares got with want: same shape, same dtype, and |got - want| <= atol + rtol * |want| for every element; NaN
 * equals NaN, an infinity itself; with an infinite atol any elements are equal. Two dtypes of floats may meet (a
 * reference saved as f16 beside an f32 result): they are compared by value, and the report says so. Writes a report to
 * `out` (NULL: none): one line where all agree; else both shapes, the first mismatches with index, got and want, and
 * the largest errors. Returns true when they agree. */
bool compare_tensors(const char *name, const reed_tensor *got, const reed_tensor *want, tolerance t, FILE *out);

/* The tolerance for an output, from the flags --rtol and --atol: the last "NAME=R" with this name, else the last plain
 * "R", else 1e-3 and 1e-5. MISUSE for a text that is no number. */
int tolerance_find(const words *rtol, const words *atol, const char *name, tolerance *out_tolerance, complaint *c);

#endif
