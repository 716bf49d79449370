/* The geometry of a sliding window, shared by convolutions and pools. Spatial axes only (those after batch and
 * channel). */
#ifndef OPS_CPU_COMMON_WINDOW_H_
#define OPS_CPU_COMMON_WINDOW_H_

#include "ops/cpu/common/common.h"

#define WINDOW_MAX_AXES (REED_MAX_RANK - 2)

typedef struct window {
  int32_t n; /* spatial axes */
  int64_t in[WINDOW_MAX_AXES], out[WINDOW_MAX_AXES];
  int64_t kernel[WINDOW_MAX_AXES], stride[WINDOW_MAX_AXES], dilation[WINDOW_MAX_AXES];
  int64_t pad_begin[WINDOW_MAX_AXES], pad_end[WINDOW_MAX_AXES];
} window;

/* Reads the window over x's spatial axes that gives y's, from the attributes strides, dilations, pads and auto_pad;
 * `kernel` (one extent an axis) comes from the weights or from kernel_shape. The shape function has checked all of
 * them. */
void window_init(const reed_kernel_call *call, const int64_t *kernel, window *out_window);
/* As window_init for a Conv with known facts. */
struct op_conv_facts;
void window_init_conv(const reed_kernel_call *call, const struct op_conv_facts *facts, window *out_window);
/* As window_init for a transposed convolution: `in` is x's extent, `out` y's; pads follow ONNX ConvTranspose (opset
 * 11), output_shape and auto_pad included. */
void window_init_transposed(const reed_kernel_call *call, const int64_t *kernel, window *out_window);
/* As window_init for windows over output 0, an image, that tile nothing: `in` is the image's extent, `kernel` a
 * block's, and `out`, the number of windows that fit, is computed. */
void window_init_image(const reed_kernel_call *call, const int64_t *kernel, window *out_window);

/* Leaves out axes of extent 1 with one tap (of several at least one axis stays), so that a sequence that is written as
 * an image of one column is a sequence. */
static inline void window_drop_units(window *w) {
  int32_t n = 0;
  for (int32_t i = 0; i < w->n; i++) {
    bool unit = w->in[i] == 1 && w->out[i] == 1 && w->kernel[i] == 1 && w->pad_begin[i] == 0;
    if (unit && (n > 0 || i + 1 < w->n)) continue;
    w->in[n] = w->in[i], w->out[n] = w->out[i], w->kernel[n] = w->kernel[i];
    w->stride[n] = w->stride[i], w->dilation[n] = w->dilation[i];
    w->pad_begin[n] = w->pad_begin[i], w->pad_end[n] = w->pad_end[i];
    n++;
  }
  w->n = n;
}

/* Turns a window over one axis into one over an image of one row. */
static inline void window_as_row(window *w) {
  w->n = 2;
  w->in[1] = w->in[0], w->out[1] = w->out[0], w->kernel[1] = w->kernel[0];
  w->stride[1] = w->stride[0], w->dilation[1] = w->dilation[0];
  w->pad_begin[1] = w->pad_begin[0], w->pad_end[1] = w->pad_end[0];
  w->in[0] = w->out[0] = w->kernel[0] = w->stride[0] = w->dilation[0] = 1;
  w->pad_begin[0] = w->pad_end[0] = 0;
}

/* Taps of one axis that fall inside the input for output position o: first..first+n-1 of the kernel. */
typedef struct window_taps {
  int64_t first, n, start; /* start: input position of tap `first` */
} window_taps;
static inline window_taps window_taps_at(const window *w, int32_t axis, int64_t o) {
  int64_t origin = o * w->stride[axis] - w->pad_begin[axis], d = w->dilation[axis];
  int64_t first = origin < 0 ? (-origin + d - 1) / d : 0;
  int64_t end = w->in[axis] > origin ? (w->in[axis] - origin + d - 1) / d : 0;
  if (end > w->kernel[axis]) end = w->kernel[axis];
  return (window_taps){first, end > first ? end - first : 0, origin + first * d};
}

/* Output positions begin..end-1 of an axis have windows inside the input; those before and after have taps in the
 * padding. begin <= end. */
static inline void window_whole(const window *w, int32_t axis, int64_t *out_begin, int64_t *out_end) {
  int64_t out = w->out[axis], stride = w->stride[axis], pad = w->pad_begin[axis],
          reach = (w->kernel[axis] - 1) * w->dilation[axis] + 1;
  int64_t begin = pad > 0 ? (pad + stride - 1) / stride : 0;
  int64_t end = w->in[axis] + pad >= reach ? (w->in[axis] + pad - reach) / stride + 1 : 0;
  *out_begin = begin < out ? begin : out;
  *out_end = end > out ? out : end < *out_begin ? *out_begin : end;
}

/* The share of an axis's taps that lie inside the input, of all windows together. */
static inline double window_share_inside(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation,
                                         int64_t pad) {
  int64_t inside = 0;
  for (int64_t tap = 0; tap < kernel; tap++) { /* it is inside in windows begin..end-1 */
    const int64_t before = pad - tap * dilation, begin = before > 0 ? (before + stride - 1) / stride : 0,
                  reach = in + before > 0 ? (in + before + stride - 1) / stride : 0, end = reach < out ? reach : out;
    if (end > begin) inside += end - begin;
  }
  return (double)inside / (double)(out * kernel);
}

#endif
