/* Counts that stay on the device, in the args of kernels (args.h). C, C++ and CUDA read this file. */
#ifndef DEVICE_CUDA_KERNELS_COUNTED_H_
#define DEVICE_CUDA_KERNELS_COUNTED_H_

#include <stdint.h>

/* The true extent of the counted axis, of which the host knew only the bound when the args were made. Counted operands
 * lie dense for the true extent. */
typedef struct counted_extent {
  const int64_t *count; /* NULL: all extents are exact */
  int64_t capacity;     /* the bound */
  int64_t factor;       /* the true extent is the count times this */
} counted_extent;

#endif
