/* Rows that are joined to a cache: a launch of kernel `cache` in an operator's plan. */
#ifndef DEVICE_CUDA_KERNELS_CACHE_H_
#define DEVICE_CUDA_KERNELS_CACHE_H_

#include "device/cuda/kernels/kernel.h"

/* Elements of an input to places of an output: coordinates below `extents`, strides in elements. */
typedef struct cache_rows {
  int64_t extents[4], from[4], to[4];
  int32_t x_input, y_output;
  int64_t x_bytes, y_bytes; /* that the operands span */
  int64_t y_offset;         /* elements of the output before the first of these */
  int64_t size;             /* bytes of an element */
  bool keeps;               /* the elements may be at their places already: then nothing is copied */
} cache_rows;

/* Adds the launch; nothing if there are no elements. */
void cache_add_rows(cuda_plan *plan, const cache_rows *rows);

#endif
