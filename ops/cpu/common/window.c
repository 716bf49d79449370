/* Reading the windows of convolutions and pools from a call's attributes (window.h). */
#include "ops/cpu/common/window.h"

#include "ops/facts.h"

/* Reads attribute `name` of n ints into out; an absent attribute has the row's number for each axis. The shape
 * function has checked number and range. */
static void read_ints(const reed_kernel_call *call, const char *name, int64_t n, int64_t *out) {
  int64_t n_given;
  const int64_t *given = reed_attrs_ints(call->attrs, name, &n_given);
  const int64_t each = given ? 0 : op_attr_each(call->op, name);
  for (int64_t i = 0; i < n; i++) out[i] = given ? given[i] : each;
}

/* Reads everything except the pads. */
static void read_geometry(const reed_kernel_call *call, const int64_t *kernel, window *w) {
  const reed_desc *x = &call->inputs[0], *y = &call->outputs[0];
  *w = (window){.n = x->rank - 2};
  for (int32_t i = 0; i < w->n; i++) {
    w->in[i] = x->dims[2 + i];
    w->out[i] = y->dims[2 + i];
    w->kernel[i] = kernel[i];
  }
  read_ints(call, "strides", w->n, w->stride);
  read_ints(call, "dilations", w->n, w->dilation);
}

/* Divides an axis's padding into begin and end, for SAME_LOWER or SAME_UPPER. A stride larger than the kernel makes the
 * total negative: then there is no padding, and windows begin at the input's start (ONNX leaves this case open). */
static void cut_same(window *w, int32_t i, bool lower) {
  int64_t total = (w->out[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - w->in[i];
  if (total < 0) total = 0;
  w->pad_begin[i] = (lower ? total + 1 : total) / 2;
  w->pad_end[i] = total - w->pad_begin[i];
}

static void read_pads(const reed_kernel_call *call, window *w) {
  int64_t pads[2 * WINDOW_MAX_AXES];
  read_ints(call, "pads", 2 * w->n, pads);
  memcpy(w->pad_begin, pads, (size_t)w->n * sizeof *pads);
  memcpy(w->pad_end, pads + w->n, (size_t)w->n * sizeof *pads);
}

void window_init(const reed_kernel_call *call, const int64_t *kernel, window *w) {
  read_geometry(call, kernel, w);
  const char *auto_pad = op_attr_string(call->attrs, "auto_pad");
  if (strcmp(auto_pad, "NOTSET") == 0) read_pads(call, w);
  for (int32_t i = 0; i < w->n && strncmp(auto_pad, "SAME", 4) == 0; i++)
    cut_same(w, i, strcmp(auto_pad, "SAME_LOWER") == 0);
}

void window_init_conv(const reed_kernel_call *call, const op_conv_facts *f, window *w) {
  const reed_desc *x = &call->inputs[0], *y = &call->outputs[0];
  *w = (window){.n = f->n_axes};
  for (int32_t i = 0; i < w->n; i++) {
    w->in[i] = x->dims[2 + i];
    w->out[i] = y->dims[2 + i];
    w->kernel[i] = f->order.plain.dims[2 + i];
    w->stride[i] = f->strides[i];
    w->dilation[i] = f->dilations[i];
    if (f->auto_pad == FACTS_PAD_NOTSET) {
      w->pad_begin[i] = f->pads[i];
      w->pad_end[i] = f->pads[f->n_axes + i];
    } else if (f->auto_pad != FACTS_PAD_VALID) {
      cut_same(w, i, f->auto_pad == FACTS_PAD_SAME_LOWER);
    }
  }
}

void window_init_transposed(const reed_kernel_call *call, const int64_t *kernel, window *w) {
  read_geometry(call, kernel, w);
  const char *auto_pad = op_attr_string(call->attrs, "auto_pad");
  int64_t n_shape;
  bool shape_given = reed_attrs_ints(call->attrs, "output_shape", &n_shape) != NULL && n_shape > 0;
  bool same = strncmp(auto_pad, "SAME", 4) == 0;
  if (!shape_given && strcmp(auto_pad, "NOTSET") == 0) read_pads(call, w);
  if (!shape_given && !same) return;
  int64_t output_padding[WINDOW_MAX_AXES];
  read_ints(call, "output_padding", w->n, output_padding);
  for (int32_t i = 0; i < w->n; i++) {
    int64_t total =
        (w->in[i] - 1) * w->stride[i] + output_padding[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - w->out[i];
    if (total < 0) total = 0;
    /* ONNX ConvTranspose: SAME_UPPER puts the odd pad at the end, all other modes at the beginning */
    if (strcmp(auto_pad, "SAME_UPPER") == 0) w->pad_begin[i] = total / 2;
    else w->pad_begin[i] = total - total / 2;
    w->pad_end[i] = total - w->pad_begin[i];
  }
}

void window_init_image(const reed_kernel_call *call, const int64_t *kernel, window *w) {
  const reed_desc *y = &call->outputs[0];
  *w = (window){.n = y->rank - 2};
  read_ints(call, "strides", w->n, w->stride);
  read_ints(call, "dilations", w->n, w->dilation);
  read_pads(call, w);
  for (int32_t i = 0; i < w->n; i++) {
    w->in[i] = y->dims[2 + i];
    w->kernel[i] = kernel[i];
    int64_t slack = w->in[i] + w->pad_begin[i] + w->pad_end[i] - (kernel[i] - 1) * w->dilation[i] - 1;
    w->out[i] = slack < 0 ? 0 : slack / w->stride[i] + 1;
  }
}
