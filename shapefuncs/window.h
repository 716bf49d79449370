/* Windows that slide over the spatial axes of an image, for shape functions of several files. */
#ifndef SHAPEFUNCS_WINDOW_H_
#define SHAPEFUNCS_WINDOW_H_

#include "shapefuncs/call.h"

#define SHAPECALL_SPATIAL_MOST (REED_MAX_RANK - 2)

typedef struct shapecall_window {
  int32_t n;               /* spatial axes */
  int32_t input;           /* number of X */
  shapecall_image in, out; /* axes of X and of Y */
  int32_t pad_mode;
  bool ceil;     /* pooling only */
  int64_t least; /* windows there must be */
  reed_dim kernel[SHAPECALL_SPATIAL_MOST];
  int64_t strides[SHAPECALL_SPATIAL_MOST], dilations[SHAPECALL_SPATIAL_MOST];
  int64_t pads[2 * SHAPECALL_SPATIAL_MOST]; /* begins, then ends; 0 unless pad_mode is NOTSET */
} shapecall_window;

/* How many windows there are along spatial axis i, whose extent is `in`:
 *   SAME_*:  ceil(in / stride)
 *   floor:   floor((in + pads - span) / stride) + 1
 *   ceil:    ceil((in + pads - span) / stride) + 1, less those that would start beyond the input and its begin padding
 * (ONNX pooling-22). A window that fits nowhere is ERROR_SHAPE where there must be one. */
reed_dim shapecall_windows(reed_shape_call *call, const shapecall_window *w, int32_t i, reed_dim in);

#endif
