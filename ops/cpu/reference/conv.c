/* Conv and ConvTranspose as sums over taps, accumulated in double. The kernel: ops/cpu/product/conv.c. */
#include "ops/cpu/common/window.h"
#include "ops/cpu/calls/convolution.h"
#include "ops/cpu/formulas/activation.h"
#include "ops/cpu/common/common.h"

#define BLOCK 64 /* outputs of a row summed at a time */

typedef struct convolution {
  window w;
  activation activation;
  bool transposed;
  int n_inputs;
  cpu_team team;
  reed_dtype dtype;
  int64_t images, groups, in_channels, out_channels; /* channels per group */
  int64_t in_plane, out_plane, taps;
  int64_t in_stride[WINDOW_MAX_AXES];
} convolution;

typedef struct convolution_run {
  const convolution *c;
  const reed_kernel_buffers *buffers;
} convolution_run;

/* The input position of tap k of output position o; -1: none. */
static int64_t source(const convolution *c, int32_t axis, int64_t o, int64_t k) {
  const window *w = &c->w;
  int64_t i;
  if (c->transposed) {
    int64_t t = o + w->pad_begin[axis] - k * w->dilation[axis];
    if (t < 0 || t % w->stride[axis] != 0) return -1;
    i = t / w->stride[axis];
  } else {
    i = o * w->stride[axis] - w->pad_begin[axis] + k * w->dilation[axis];
  }
  return i >= 0 && i < w->in[axis] ? i : -1;
}

/* Offset into an input plane of the leading axes' tap number `lead_tap` (row-major over all axes but the last); -1:
 * padding. */
static int64_t lead_source(const convolution *c, const int64_t *lead, int64_t lead_tap) {
  int64_t offset = 0;
  for (int32_t axis = c->w.n - 2; axis >= 0; axis--) {
    int64_t i = source(c, axis, lead[axis], lead_tap % c->w.kernel[axis]);
    if (i < 0) return -1;
    offset += i * c->in_stride[axis];
    lead_tap /= c->w.kernel[axis];
  }
  return offset;
}

/* sum[j] += the products for output positions begin + j of one row of one output channel. */
#define SUM_BLOCK(T, name) \
  static void name(const convolution *c, const T *x, const T *weights, int64_t weight_step, const int64_t *lead, \
                   int64_t begin, int64_t n, double *sum) { \
    int32_t last = c->w.n - 1; \
    int64_t width = c->w.kernel[last], lead_taps = c->taps / width; \
    for (int64_t lead_tap = 0; lead_tap < lead_taps; lead_tap++) { \
      int64_t row = lead_source(c, lead, lead_tap); \
      if (row < 0) continue; \
      for (int64_t k = 0; k < width; k++) { \
        int64_t from[BLOCK]; \
        for (int64_t j = 0; j < n; j++) from[j] = source(c, last, begin + j, k); \
        for (int64_t channel = 0; channel < c->in_channels; channel++) { \
          double weight = (double)weights[channel * weight_step + lead_tap * width + k]; \
          const T *in = x + channel * c->in_plane + row; \
          for (int64_t j = 0; j < n; j++) \
            if (from[j] >= 0) sum[j] += weight * (double)in[from[j]]; \
        } \
      } \
    } \
  }
SUM_BLOCK(float, sum_block_f32)
SUM_BLOCK(double, sum_block_f64)

/* One row of one image and output channel. */
#define CONVOLVE_ROW(T, name, sum_block) \
  static void name(const convolution_run *r, int64_t image, int64_t channel, int64_t row, const int64_t *lead) { \
    const convolution *c = r->c; \
    int64_t width = c->w.out[c->w.n - 1], group = channel / c->out_channels, total_out = c->groups * c->out_channels; \
    const T *bias = r->buffers->inputs[2], *residual = r->buffers->inputs[3]; \
    const T *x = (const T *)r->buffers->inputs[0] + (image * c->groups + group) * c->in_channels * c->in_plane; \
    int64_t weight_at = c->transposed \
                            ? (group * c->in_channels * c->out_channels + channel % c->out_channels) * c->taps \
                            : channel * c->in_channels * c->taps; \
    const T *weights = (const T *)r->buffers->inputs[1] + weight_at; \
    int64_t at = (image * total_out + channel) * c->out_plane + row * width; \
    T *y = (T *)r->buffers->outputs[0] + at; \
    for (int64_t begin = 0; begin < width; begin += BLOCK) { \
      double sum[BLOCK]; \
      int64_t n = width - begin < BLOCK ? width - begin : BLOCK; \
      for (int64_t j = 0; j < n; j++) sum[j] = (bias ? (double)bias[channel] : 0); \
      sum_block(c, x, weights, c->transposed ? c->out_channels * c->taps : c->taps, lead, begin, n, sum); \
      for (int64_t j = 0; j < n; j++) \
        y[begin + j] = (T)activation_at(&c->activation, sum[j] + (residual ? (double)residual[at + begin + j] : 0)); \
    } \
  }
CONVOLVE_ROW(float, convolve_row_f32, sum_block_f32)
CONVOLVE_ROW(double, convolve_row_f64, sum_block_f64)

/* Rows begin..end of (image, channel, leading spatial axes). */
static void convolve(void *context, int64_t begin, int64_t end) {
  const convolution_run *r = context;
  const convolution *c = r->c;
  int64_t rows = c->out_plane / c->w.out[c->w.n - 1], channels = c->groups * c->out_channels;
  for (int64_t i = begin; i < end; i++) {
    int64_t lead[WINDOW_MAX_AXES], row = i % rows, channel = i / rows % channels, image = i / rows / channels;
    for (int64_t axis = c->w.n - 2, rest = row; axis >= 0; axis--) {
      lead[axis] = rest % c->w.out[axis];
      rest /= c->w.out[axis];
    }
    if (c->dtype == REED_F32) convolve_row_f32(r, image, channel, row, lead);
    else convolve_row_f64(r, image, channel, row, lead);
  }
}

static reed_status run_convolution(const void *state, const reed_kernel_buffers *buffers) {
  const convolution *c = state;
  const void *inputs[4] = {NULL};
  for (int i = 0; i < c->n_inputs; i++) inputs[i] = buffers->inputs[i];
  reed_kernel_buffers seen = *buffers;
  seen.inputs = inputs;
  convolution_run r = {c, &seen};
  int64_t rows = c->images * c->groups * c->out_channels * (c->out_plane / c->w.out[c->w.n - 1]);
  int64_t work = rows * c->w.out[c->w.n - 1] * c->taps * c->in_channels;
  return cpu_parallel(cpu_team_for(c->team, work * 4), rows, 1, convolve, &r);
}

static reed_status prepare(const reed_kernel_call *call, bool transposed, reed_kernel *out_kernel) {
  const reed_desc *x = &call->inputs[0], *weights = &call->inputs[1], *y = &call->outputs[0];
  convolution c = {.transposed = transposed, .team = cpu_env_team(call), .n_inputs = call->n_inputs, .dtype = x->dtype};
  if (x->dtype != REED_F32 && x->dtype != REED_F64)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "no kernel for %s", reed_dtype_name(x->dtype));
  if (y->dtype != x->dtype)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "no kernel for %s to %s", reed_dtype_name(x->dtype),
                            reed_dtype_name(y->dtype));
  reed_status status = convolution_check_addends(call);
  if (status != REED_OK) return status;
  (transposed ? window_init_transposed : window_init)(call, weights->dims + 2, &c.w);
  activation_read(call, &c.activation);
  c.images = x->dims[0];
  c.groups = op_attr_int(call->attrs, "group");
  c.in_channels = x->dims[1] / c.groups;
  c.out_channels = y->dims[1] / c.groups;
  c.in_plane = cpu_product(x->dims, 2, x->rank);
  c.out_plane = cpu_product(y->dims, 2, y->rank);
  c.taps = desc_elements(weights) > 0 ? cpu_product(weights->dims, 2, weights->rank)
                                      : 0; /* no channels: no bytes are read */
  cpu_dense_strides(c.w.n, c.w.in, c.in_stride);
  void *state = mem_copy(&c, sizeof c);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_convolution, state);
  return REED_OK;
}

reed_status reference_prepare_conv(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare(call, false, out_kernel);
}

reed_status reference_prepare_conv_transpose(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare(call, true, out_kernel);
}
