/* Two tensors side by side: what --expect and `vm test` say about a difference. */
#ifndef TOOLS_COMPARE_H_
#define TOOLS_COMPARE_H_

#include <stdio.h>

#include "tools/tool.h"

/* How far an output may be off. */
typedef struct tolerance {
  double rtol, atol;
} tolerance;

/* Compares got with want: same shape, same dtype, and |got - want| <= atol + rtol * |want| for every element; NaN
 * equals NaN, an infinity itself. Two dtypes of floats may meet (a reference saved as f16 beside an f32 result): they
 * are compared by value, and the report says so. Writes a report to `out` (NULL: none): one line where all agree; else
 * both shapes, the first mismatches with index, got and want, and the largest errors. Returns true when they agree. */
bool compare_tensors(const char *name, const reed_tensor *got, const reed_tensor *want, tolerance t, FILE *out);

/* From what --rtol and --atol say: the last "NAME=R" of that name, else the last plain "R", else 1e-3 and 1e-5. MISUSE
 * for what is no number. */
int tolerance_find(const words *rtol, const words *atol, const char *name, tolerance *out_tolerance, complaint *c);

#endif
