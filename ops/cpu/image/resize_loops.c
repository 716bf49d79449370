/* The innermost loops of Resize in double and in mode nearest (resize_loops.h), compiled once per CPU level. */
#include "ops/cpu/image/resize_loops.h"

#include <string.h>

#include "ops/cpu/common/lanes.h"

#define NEAREST_EVEN 0x1.8p52 /* numbers below 2^51 lose their fraction, rounded to nearest even, if it is added */

void CPU_LEVELED(resize_add_line)(reed_dtype dtype, const void *x, int64_t at, double weight, bool add, double *line,
                                  int64_t n) {
#define ADD_LINE(DTYPE, T) \
  if (dtype == DTYPE) { \
    const T *from = (const T *)x + at; \
    if (add) \
      for (int64_t i = 0; i < n; i++) line[i] += weight * (double)from[i]; \
    else \
      for (int64_t i = 0; i < n; i++) line[i] = weight * (double)from[i]; \
  }
  RESIZE_DTYPES(ADD_LINE)
#undef ADD_LINE
}

void CPU_LEVELED(resize_along)(const double *line, const int32_t *index, const float *weight, int64_t taps, double *y,
                               int64_t n) {
  if (taps == 2) {
    for (int64_t i = 0; i < n; i++)
      y[i] = (double)weight[2 * i] * line[index[2 * i]] + (double)weight[2 * i + 1] * line[index[2 * i + 1]];
    return;
  }
  for (int64_t i = 0; i < n; i++, index += taps, weight += taps) {
    double sum = 0;
    for (int64_t k = 0; k < taps; k++) sum += (double)weight[k] * line[index[k]];
    y[i] = sum;
  }
}

static inline double limited(double v, double least, double most) {
  v = v > least ? v : least;
  return v < most ? v : most;
}

void CPU_LEVELED(resize_put)(reed_dtype dtype, const double *x, void *y, int64_t at, int64_t n) {
#define PUT_INTEGERS(T, least, most) \
  for (int64_t i = 0; i < n; i++) \
  ((T *)y)[at + i] = (T)(int32_t)(limited(x[i], least, most) + NEAREST_EVEN - NEAREST_EVEN)
  if (dtype == REED_F64)
    for (int64_t i = 0; i < n; i++) ((double *)y)[at + i] = x[i];
  if (dtype == REED_U8) PUT_INTEGERS(uint8_t, 0, UINT8_MAX);
  if (dtype == REED_I8) PUT_INTEGERS(int8_t, INT8_MIN, INT8_MAX);
  if (dtype == REED_U16) PUT_INTEGERS(uint16_t, 0, UINT16_MAX);
  if (dtype == REED_I16) PUT_INTEGERS(int16_t, INT16_MIN, INT16_MAX);
  if (dtype == REED_I32) PUT_INTEGERS(int32_t, INT32_MIN, INT32_MAX);
#undef PUT_INTEGERS
}

/* Elements of 4 bytes, each twice. n is at least LANES; the last vector has some elements of the one before it. */
static void repeat_twice(const float *x, char *y, int64_t y_step, int64_t rows, int64_t n) {
  for (int64_t i = 0; i < n; i += LANES) {
    const int64_t at = i + LANES <= n ? i : n - LANES;
    const lanes v = disordered(load(x + at));
    for (int64_t r = 0; r < rows; r++) store_pairs((float *)(y + r * y_step) + 2 * at, v, v);
  }
}

void CPU_LEVELED(resize_repeat)(size_t bytes, const void *x, int64_t factor, void *y, int64_t y_step, int64_t rows,
                                int64_t n) {
  if (bytes == sizeof(float) && factor == 2 && n >= LANES) {
    repeat_twice(x, y, y_step, rows, n);
    return;
  }
#define REPEAT(T) \
  case sizeof(T): { \
    const T *restrict from = x; \
    T *restrict to = y; \
    if (factor == 2) \
      for (int64_t i = 0; i < n; i++) to[2 * i] = to[2 * i + 1] = from[i]; \
    else \
      for (int64_t i = 0; i < n; i++) \
        for (int64_t k = 0; k < factor; k++) to[i * factor + k] = from[i]; \
    break; \
  }
  switch (bytes) {
    REPEAT(uint8_t)
    REPEAT(uint16_t)
    REPEAT(uint32_t)
    REPEAT(uint64_t)
  }
#undef REPEAT
  for (int64_t r = 1; r < rows; r++) memcpy((char *)y + r * y_step, y, (size_t)(n * factor) * bytes);
}
