/* Shapes of operators that slide a window over the spatial axes: Conv, ConvTranspose, pooling, Col2Im. Common helpers:
 * call.h; of windows, also for deformable convolutions: window.h. */
#include "shapefuncs/window.h"

/* In the order of op.def. */
typedef enum auto_pad { PAD_NOTSET, PAD_SAME_UPPER, PAD_SAME_LOWER, PAD_VALID } auto_pad;

/* Reads strides, dilations and pads of n spatial axes. Convolutions (least 1) may have negative pads, which
 * crop: ONNX has none, but exporters write them and onnxruntime computes them. For pools both Reed and onnxruntime
 * refuse them. */
static reed_status read_steps(reed_shape_call *call, int32_t n, int64_t least, shapecall_window *w) {
  *w = (shapecall_window){.n = n, .in = {1, 2}, .out = {1, 2}, .pad_mode = PAD_NOTSET, .least = least};
  reed_status status = shapecall_ints(call, "strides", n, w->strides);
  if (!status) status = shapecall_ints(call, "dilations", n, w->dilations);
  if (!status) status = shapecall_ints(call, "pads", 2 * n, w->pads);
  return status;
}

/* As read_steps, with auto_pad and the order of the image's axes. */
static reed_status read_window(reed_shape_call *call, int32_t n, int64_t least, shapecall_window *w) {
  reed_status status = read_steps(call, n, least, w);
  w->in = w->out = shapecall_image_of(call, n + 2);
  w->pad_mode = op_attr_word(call->op, call->attrs, "auto_pad");
  if (w->pad_mode != PAD_NOTSET) memset(w->pads, 0, sizeof w->pads);
  return status;
}

/* The extent that the kernel spans: (kernel - 1) * dilation + 1. */
static reed_dim spanned(reed_shape_call *call, const shapecall_window *w, int32_t i) {
  return reed_dim_add(call, reed_dim_mul(call, reed_dim_sub(call, w->kernel[i], 1), w->dilations[i]), 1);
}

/* The number of windows along an axis. A window that fits nowhere is an error for convolutions (least 1); pooling
 * (least 0) gives no elements if the formula says 0. An empty input has no windows. */
static reed_dim whole_extent(reed_shape_call *call, const shapecall_window *w, reed_dim in, reed_dim out,
                             int32_t axis) {
  if (reed_dim_known(call, in) && reed_dim_known(call, out) && in > 0 && out < w->least)
    (void)reed_shape_fail(call, REED_ERROR_SHAPE, w->input, "no window fits extent %lld of axis %d", (long long)in,
                          axis);
  return reed_dim_max(call, out, 0);
}

reed_dim shapecall_windows(reed_shape_call *call, const shapecall_window *w, int32_t i, reed_dim in) {
  int64_t stride = w->strides[i];
  if (w->pad_mode == PAD_SAME_UPPER || w->pad_mode == PAD_SAME_LOWER) return reed_dim_ceildiv(call, in, stride);
  reed_dim from_begin = reed_dim_add(call, in, w->pads[i]);
  reed_dim slack = reed_dim_sub(call, reed_dim_add(call, from_begin, w->pads[w->n + i]), spanned(call, w, i));
  reed_dim out = reed_dim_add(call, reed_dim_floordiv(call, slack, stride), 1);
  if (w->ceil)
    out = reed_dim_min(call, reed_dim_add(call, reed_dim_ceildiv(call, slack, stride), 1),
                       reed_dim_ceildiv(call, from_begin, stride));
  return whole_extent(call, w, in, out, w->in.spatial + i);
}

/* Reads the kernel's extents: W's spatial ones, which the attribute, if given, must repeat. */
static reed_status read_kernel(reed_shape_call *call, shapecall_window *w) {
  const reed_shape_input *weights = &call->inputs[1];
  int64_t given[SHAPECALL_SPATIAL_MOST];
  bool named = reed_attrs_find(call->attrs, "kernel_shape") != NULL;
  reed_status status = named ? shapecall_ints(call, "kernel_shape", w->n, given) : REED_OK;
  for (int32_t i = 0; i < w->n && !status; i++) {
    w->kernel[i] = weights->dims[i + 2];
    if (named)
      status = shapecall_same(call, w->kernel[i], given[i], 1, "the extents of W and kernel_shape", &w->kernel[i]);
    if (!status && shapecall_is(call, w->kernel[i], 0))
      status = reed_shape_fail(call, REED_ERROR_SHAPE, 1, "a kernel without elements");
    if (!status && reed_dim_known(call, w->kernel[i]) && w->kernel[i] > INT32_MAX)
      status = reed_shape_fail(call, REED_ERROR_SHAPE, 1, "kernel extent %lld", (long long)w->kernel[i]);
  }
  return status;
}

/* The common checks of Conv and ConvTranspose: X [N,C,...], W of the same rank, the group, the window. */
static reed_status read_convolution(reed_shape_call *call, shapecall_window *w, int64_t *out_group) {
  const reed_shape_input *x = &call->inputs[0];
  reed_status status = shapecall_min_rank(call, 0, 3);
  if (!status) status = shapecall_rank(call, 1, x->rank);
  if (!status) status = read_window(call, x->rank - 2, 1, w);
  if (!status) status = read_kernel(call, w);
  if (status) return status;
  *out_group = op_attr_int(call->attrs, "group");
  return REED_OK;
}

/* X [N,C,...], W [M,C/group,kernel...] -> [N,M,...]; with channels_last X [N,...,C] -> [N,...,M], but with
 * channels_first_input too X [N,C,...]. */
reed_status shapefn_conv(reed_shape_call *call) {
  const reed_shape_input *x = &call->inputs[0], *weights = &call->inputs[1];
  shapecall_window w;
  int64_t group = 1;
  reed_status status = read_convolution(call, &w, &group);
  if (status) return status;
  if (op_attr_int(call->attrs, "channels_first_input")) w.in = (shapecall_image){1, 2};
  reed_dim channels = reed_dim_mul(call, weights->dims[1], group), dims[REED_MAX_RANK] = {x->dims[0]};
  dims[w.out.channel] = weights->dims[0];
  status = shapecall_same(call, x->dims[w.in.channel], channels, 1, "the channels of X and of W times group", NULL);
  if (!status && reed_dim_known(call, weights->dims[0]) && weights->dims[0] % group)
    status = reed_shape_fail(call, REED_ERROR_SHAPE, 1, "%lld output channels in %lld groups",
                             (long long)weights->dims[0], (long long)group);
  if (status) return status;
  for (int32_t i = 0; i < w.n; i++) dims[w.out.spatial + i] = shapecall_windows(call, &w, i, x->dims[w.in.spatial + i]);
  shapecall_set(call, 0, x->rank, dims);
  return call->status;
}

/* stride * (in - 1) + output_padding + span - pads (ONNX ConvTranspose-22); SAME_*: in * stride; output_shape: as
 * given, the pads follow. */
static reed_dim transposed_extent(reed_shape_call *call, const shapecall_window *w, int32_t i, reed_dim in,
                                  int64_t output_padding) {
  if (w->pad_mode == PAD_SAME_UPPER || w->pad_mode == PAD_SAME_LOWER) return reed_dim_mul(call, in, w->strides[i]);
  reed_dim out = reed_dim_mul(call, reed_dim_sub(call, in, 1), w->strides[i]);
  out = reed_dim_add(call, out, reed_dim_add(call, spanned(call, w, i), output_padding));
  out = reed_dim_sub(call, out, reed_dim_add(call, w->pads[i], w->pads[w->n + i]));
  if (reed_dim_known(call, in) && reed_dim_known(call, out) && in > 0 && out < 0)
    (void)reed_shape_fail(call, REED_ERROR_SHAPE, 0, "pads leave nothing of axis %d: %lld", w->in.spatial + i,
                          (long long)out);
  return reed_dim_max(call, out, 0);
}

/* X [N,C,...], W [C,M/group,kernel...] -> [N,M,...]; with channels_last X [N,...,C] -> [N,...,M] */
reed_status shapefn_conv_transpose(reed_shape_call *call) {
  const reed_shape_input *x = &call->inputs[0], *weights = &call->inputs[1];
  shapecall_window w;
  int64_t group = 1, output_padding[SHAPECALL_SPATIAL_MOST], output_shape[SHAPECALL_SPATIAL_MOST];
  reed_status status = read_convolution(call, &w, &group);
  reed_dim channels = status ? 0 : x->dims[w.in.channel];
  if (!status) status = shapecall_same(call, channels, weights->dims[0], 1, "the channels of X and of W", NULL);
  if (!status && reed_dim_known(call, channels) && channels % group)
    status = reed_shape_fail(call, REED_ERROR_SHAPE, 0, "%lld channels in %lld groups", (long long)channels,
                             (long long)group);
  if (!status) status = shapecall_ints(call, "output_padding", w.n, output_padding);
  if (!status) status = shapecall_ints(call, "output_shape", w.n, output_shape);
  if (status) return status;
  bool given = reed_attrs_find(call->attrs, "output_shape") != NULL;
  reed_dim dims[REED_MAX_RANK] = {x->dims[0]};
  dims[w.out.channel] = reed_dim_mul(call, weights->dims[1], group);
  for (int32_t i = 0; i < w.n; i++)
    dims[w.out.spatial + i] =
        given ? output_shape[i] : transposed_extent(call, &w, i, x->dims[w.in.spatial + i], output_padding[i]);
  shapecall_set(call, 0, x->rank, dims);
  return call->status;
}

/* X [N,C,...] -> [N,C,...], and the indices of MaxPool; [N,...,C] -> [N,...,C] with channels_last */
reed_status shapefn_pool(reed_shape_call *call) {
  const reed_shape_input *x = &call->inputs[0];
  shapecall_window w;
  int64_t kernel[SHAPECALL_SPATIAL_MOST];
  reed_status status = shapecall_min_rank(call, 0, 3);
  if (!status) status = read_window(call, x->rank - 2, 0, &w);
  if (!status) status = shapecall_ints(call, "kernel_shape", x->rank - 2, kernel);
  if (status) return status;
  int64_t n_given;
  if (!reed_attrs_ints(call->attrs, "kernel_shape", &n_given)) /* an empty list, which is absent for shapecall_ints */
    return reed_shape_fail(call, REED_ERROR_SHAPE, -1, "attribute kernel_shape has 0 numbers where %d are wanted", w.n);
  w.ceil = op_attr_int(call->attrs, "ceil_mode") != 0;
  reed_dim dims[REED_MAX_RANK] = {x->dims[0]};
  dims[w.out.channel] = x->dims[w.in.channel];
  for (int32_t i = 0; i < w.n; i++) {
    w.kernel[i] = kernel[i];
    dims[w.out.spatial + i] = shapecall_windows(call, &w, i, x->dims[w.in.spatial + i]);
  }
  for (int32_t i = 0; i < call->n_outputs; i++) shapecall_set(call, i, x->rank, dims);
  return call->status;
}

reed_status shapefn_global_pool(reed_shape_call *call) {
  const reed_shape_input *x = &call->inputs[0];
  reed_status status = shapecall_min_rank(call, 0, 2);
  if (status) return status;
  int32_t channel = shapecall_image_of(call, x->rank).channel;
  reed_dim dims[REED_MAX_RANK] = {x->dims[0], 1, 1, 1, 1, 1, 1, 1};
  dims[channel] = x->dims[channel];
  shapecall_set(call, 0, x->rank, dims);
  return REED_OK;
}

/* The number of spatial axes: of image_shape's and block_shape's numbers, which must be as many; -1 if neither is
 * known. */
static reed_status read_axes(reed_shape_call *call, int32_t *out_n) {
  int64_t image = -1, block = -1;
  reed_status status = shapecall_value_count(call, 1, &image);
  if (!status) status = shapecall_value_count(call, 2, &block);
  if (status) return status;
  if (image >= 0 && block >= 0 && image != block)
    return reed_shape_fail(call, REED_ERROR_SHAPE, 2, "has %lld numbers where image_shape has %lld", (long long)block,
                           (long long)image);
  int64_t n = image >= 0 ? image : block;
  if (!n) return reed_shape_fail(call, REED_ERROR_SHAPE, 1, "wants one number for each axis of an image, not none");
  *out_n = n > REED_MAX_RANK ? REED_MAX_RANK : (int32_t)n;
  return n < 0 ? REED_OK : shapecall_check_rank(call, n + 2);
}

/* The elements of `value` input i, at least `least` each; fresh symbols for a list of unknown
 * length. */
static reed_status read_extents(reed_shape_call *call, int32_t i, int32_t n, int64_t least, reed_dim *out) {
  int64_t count = 0;
  reed_status status = shapecall_value_count(call, i, &count);
  for (int32_t k = 0; k < n && !status; k++) {
    out[k] = count < 0 ? reed_dim_fresh(call) : reed_shape_value(call, i, k);
    if (reed_dim_known(call, out[k]) && out[k] < least)
      status = reed_shape_fail(call, REED_ERROR_VALUE, i, "extent %lld of axis %d", (long long)out[k], k + 2);
  }
  return status ? status : call->status;
}

/* input [N, C * product of block_shape, windows that fit the image] -> [N,C,image_shape...] */
reed_status shapefn_col2im(reed_shape_call *call) {
  const reed_shape_input *x = &call->inputs[0];
  shapecall_window w;
  int32_t n = 0;
  reed_dim dims[REED_MAX_RANK], windows[SHAPECALL_SPATIAL_MOST];
  reed_status status = shapecall_rank(call, 0, 3);
  if (!status) status = read_axes(call, &n);
  if (status) return status;
  if (n < 0) {
    shapecall_unknown(call, 0);
    return REED_OK;
  }
  status = read_steps(call, n, 0, &w);
  if (!status) status = read_extents(call, 1, n, 0, dims + 2);
  if (!status) status = read_extents(call, 2, n, 1, w.kernel);
  if (status) return status;
  for (int32_t i = 0; i < n; i++) windows[i] = shapecall_windows(call, &w, i, dims[2 + i]);
  reed_dim block = shapecall_product(call, w.kernel, n), columns = shapecall_product(call, windows, n);
  if (call->status) return call->status;
  for (int32_t i = 0; i < n; i++)
    if (reed_dim_known(call, w.kernel[i]) && w.kernel[i] > INT32_MAX)
      return reed_shape_fail(call, REED_ERROR_SHAPE, 2, "block extent %lld", (long long)w.kernel[i]);
  bool known = reed_dim_known(call, block);
  if (known && reed_dim_known(call, x->dims[1]) && x->dims[1] % block)
    return reed_shape_fail(call, REED_ERROR_SHAPE, 0, "%lld channels in blocks of %lld elements", (long long)x->dims[1],
                           (long long)block);
  status = shapecall_same(call, x->dims[2], columns, 0, "the columns and the windows that fit the image", NULL);
  if (status) return status;
  dims[0] = x->dims[0];
  dims[1] = known ? reed_dim_floordiv(call, x->dims[1], block) : reed_dim_fresh(call);
  shapecall_set(call, 0, n + 2, dims);
  return call->status;
}
