/* Reading the windows of convolutions and pools from a call's attributes (window.h). */
#include "ops/cpu/common/window.h"

/* Reads attribute `name` of n ints into out; an absent attribute gives `otherwise` everywhere. Fails unless all are >=
 * least. */
static reed_status read_ints(const reed_kernel_call *call, const char *name, int64_t n, int64_t otherwise,
                             int64_t least, int64_t *out) {
  int64_t n_given;
  const int64_t *given = reed_attrs_ints(call->attrs, name, &n_given);
  if (given && n_given != 0 && n_given != n)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "%s has %lld numbers, the input needs %lld", name,
                            (long long)n_given, (long long)n);
  for (int64_t i = 0; i < n; i++) {
    out[i] = given && n_given ? given[i] : otherwise;
    if (out[i] < least || out[i] > INT32_MAX)
      return reed_kernel_fail(call, REED_ERROR_VALUE, "%s %lld is out of range", name, (long long)out[i]);
  }
  return REED_OK;
}

/* Reads everything except the pads. */
static reed_status read_geometry(const reed_kernel_call *call, const int64_t *kernel, window *w) {
  const reed_desc *x = &call->inputs[0], *y = &call->outputs[0];
  if (x->rank < 3 || x->rank != y->rank || x->rank > REED_MAX_RANK)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "needs an input of rank 3 to %d, not %d", REED_MAX_RANK, x->rank);
  *w = (window){.n = x->rank - 2};
  for (int32_t i = 0; i < w->n; i++) {
    w->in[i] = x->dims[2 + i];
    w->out[i] = y->dims[2 + i];
    w->kernel[i] = kernel[i];
    if (kernel[i] < 1 || kernel[i] > INT32_MAX)
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "kernel extent %lld", (long long)kernel[i]);
  }
  reed_status status = read_ints(call, "strides", w->n, 1, 1, w->stride);
  if (status != REED_OK) return status;
  return read_ints(call, "dilations", w->n, 1, 1, w->dilation);
}

/* Divides the padding `total` into begin and end by auto_pad. A stride larger than the kernel makes `total` negative:
 * then there is no padding, and windows begin at the input's start (ONNX leaves this case open). */
static void cut_pads(const char *auto_pad, int64_t total, int64_t *out_begin, int64_t *out_end) {
  bool lower = strcmp(auto_pad, "SAME_LOWER") == 0;
  if (total < 0) total = 0;
  *out_begin = (lower ? total + 1 : total) / 2;
  *out_end = total - *out_begin;
}

static reed_status read_pads(const reed_kernel_call *call, window *w) {
  int64_t pads[2 * WINDOW_MAX_AXES];
  reed_status status = read_ints(call, "pads", 2 * w->n, 0, INT32_MIN, pads);
  if (status != REED_OK) return status;
  memcpy(w->pad_begin, pads, (size_t)w->n * sizeof *pads);
  memcpy(w->pad_end, pads + w->n, (size_t)w->n * sizeof *pads);
  return REED_OK;
}

reed_status window_init(const reed_kernel_call *call, const int64_t *kernel, window *w) {
  reed_status status = read_geometry(call, kernel, w);
  if (status != REED_OK) return status;
  const char *auto_pad = op_attr_string(call->attrs, "auto_pad");
  if (strcmp(auto_pad, "NOTSET") == 0) return read_pads(call, w);
  if (strcmp(auto_pad, "VALID") == 0) return REED_OK;
  for (int32_t i = 0; i < w->n; i++) {
    int64_t total = (w->out[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - w->in[i];
    cut_pads(auto_pad, total, &w->pad_begin[i], &w->pad_end[i]);
  }
  return REED_OK;
}

reed_status window_init_transposed(const reed_kernel_call *call, const int64_t *kernel, window *w) {
  reed_status status = read_geometry(call, kernel, w);
  if (status != REED_OK) return status;
  const char *auto_pad = op_attr_string(call->attrs, "auto_pad");
  int64_t n_shape;
  bool shape_given = reed_attrs_ints(call->attrs, "output_shape", &n_shape) != NULL && n_shape > 0;
  bool same = strncmp(auto_pad, "SAME", 4) == 0;
  if (!shape_given && !same && strcmp(auto_pad, "VALID") != 0) return read_pads(call, w);
  if (!shape_given && !same) return REED_OK;
  int64_t output_padding[WINDOW_MAX_AXES];
  status = read_ints(call, "output_padding", w->n, 0, 0, output_padding);
  if (status != REED_OK) return status;
  for (int32_t i = 0; i < w->n; i++) {
    int64_t total =
        (w->in[i] - 1) * w->stride[i] + output_padding[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - w->out[i];
    if (total < 0) total = 0;
    /* ONNX ConvTranspose: SAME_UPPER puts the odd pad at the end, all other modes at the beginning */
    if (strcmp(auto_pad, "SAME_UPPER") == 0) w->pad_begin[i] = total / 2;
    else w->pad_begin[i] = total - total / 2;
    w->pad_end[i] = total - w->pad_begin[i];
  }
  return REED_OK;
}

reed_status window_init_image(const reed_kernel_call *call, const int64_t *kernel, window *w) {
  const reed_desc *y = &call->outputs[0];
  *w = (window){.n = y->rank - 2};
  reed_status status = read_ints(call, "strides", w->n, 1, 1, w->stride);
  if (status == REED_OK) status = read_ints(call, "dilations", w->n, 1, 1, w->dilation);
  if (status == REED_OK) status = read_pads(call, w);
  for (int32_t i = 0; i < w->n && status == REED_OK; i++) {
    if (kernel[i] < 1 || kernel[i] > INT32_MAX)
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "block extent %lld", (long long)kernel[i]);
    w->in[i] = y->dims[2 + i];
    w->kernel[i] = kernel[i];
    int64_t slack = w->in[i] + w->pad_begin[i] + w->pad_end[i] - (kernel[i] - 1) * w->dilation[i] - 1;
    w->out[i] = slack < 0 ? 0 : slack / w->stride[i] + 1;
  }
  return status;
}

reed_status window_kernel_shape(const reed_kernel_call *call, const int64_t **out_kernel) {
  int64_t n, axes = call->inputs[0].rank - 2;
  const int64_t *kernel = reed_attrs_ints(call->attrs, "kernel_shape", &n);
  if (!kernel || n != axes)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "kernel_shape has %lld numbers, the input needs %lld",
                            (long long)(kernel ? n : 0), (long long)axes);
  *out_kernel = kernel;
  return REED_OK;
}
