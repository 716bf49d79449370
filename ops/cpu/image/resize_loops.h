/* Loops of Resize in double, over elements of several dtypes, and of mode nearest. */
#ifndef OPS_CPU_IMAGE_RESIZE_LOOPS_H_
#define OPS_CPU_IMAGE_RESIZE_LOOPS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ops/cpu/common/cpu.h"
#include "reed/dtype.h"

/* Calls X(DTYPE, type) for each dtype that the loops take. */
#define RESIZE_DTYPES(X) \
  X(REED_F64, double) \
  X(REED_U8, uint8_t) X(REED_I8, int8_t) X(REED_U16, uint16_t) X(REED_I16, int16_t) X(REED_I32, int32_t)

/* line[i] (add: +)= weight * x[at + i], i < n */
CPU_LOOP(void, resize_add_line,
         (reed_dtype dtype, const void *x, int64_t at, double weight, bool add, double *line, int64_t n));
/* y[i] = the sum over k < taps of weight[i * taps + k] * line[index[i * taps + k]], i < n */
CPU_LOOP(void, resize_along,
         (const double *line, const int32_t *index, const float *weight, int64_t taps, double *y, int64_t n));
/* y[at + i] = x[i], i < n; to integers rounded to nearest even and saturated */
CPU_LOOP(void, resize_put, (reed_dtype dtype, const double *x, void *y, int64_t at, int64_t n));
/* y[i] = x[i / factor], i < n * factor, in each of `rows` rows of y, y_step bytes apart; rows is at least 1. Elements
 * have 1, 2, 4 or 8 bytes. */
CPU_LOOP(void, resize_repeat,
         (size_t bytes, const void *x, int64_t factor, void *y, int64_t y_step, int64_t rows, int64_t n));

#endif
