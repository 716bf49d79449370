/* Shapes of deformable convolutions and of their gradients. Common helpers: call.h. */
#include "ops/deform.h"

#include "shapefuncs/window.h"

typedef struct deform {
  deform_operands at;
  deform_steps s;
  int32_t rank; /* of the images: 4, or 3 without a batch */
  shapecall_window w;
  reed_dim images, outputs, out[2], taps;
} deform;

/* ERROR_SHAPE unless `input` is an image like the call's input, with `channels` channels and the extents of the output.
 */
static reed_status check_map(reed_shape_call *call, const deform *d, int32_t input, reed_dim channels,
                             const char *what) {
  const reed_shape_input *map = &call->inputs[input];
  reed_status status = shapecall_rank(call, input, d->rank);
  if (!status) status = shapecall_same(call, map->dims[d->w.in.channel], channels, input, what, NULL);
  if (!status && d->rank == 4)
    status = shapecall_same(call, map->dims[0], d->images, input, "the numbers of images", NULL);
  for (int32_t i = 0; i < 2 && !status; i++)
    status = shapecall_same(call, map->dims[d->w.in.spatial + i], d->out[i], input,
                            i ? "the columns and the output's" : "the rows and the output's", NULL);
  return status;
}

/* Fills in the window's axis i, and the number of windows along it. */
static reed_status set_windows(reed_shape_call *call, deform *d, int32_t i) {
  reed_dim kernel = call->inputs[d->at.weight].dims[2 + i];
  if (shapecall_is(call, kernel, 0) || (reed_dim_known(call, kernel) && kernel > INT32_MAX))
    return reed_shape_fail(call, REED_ERROR_SHAPE, d->at.weight, "kernel extent %lld", (long long)kernel);
  d->w.kernel[i] = kernel;
  d->w.strides[i] = d->s.stride[i];
  d->w.dilations[i] = d->s.dilation[i];
  d->w.pads[i] = d->s.pad_begin[i];
  d->w.pads[2 + i] = d->s.pad_end[i];
  d->out[i] = shapecall_windows(call, &d->w, i, call->inputs[d->at.input].dims[d->w.in.spatial + i]);
  return call->status;
}

static reed_status check_multiple(reed_shape_call *call, reed_dim n, int64_t of, int32_t input, const char *what) {
  if (!reed_dim_known(call, n) || n % of == 0) return REED_OK;
  return reed_shape_fail(call, REED_ERROR_SHAPE, input, "%lld %s in %lld groups", (long long)n, what, (long long)of);
}

/* ONNX's attribute kernel_shape, if given, repeats the extents of the weights. */
static reed_status check_kernel_shape(reed_shape_call *call, const deform *d) {
  int64_t given[2];
  if (!reed_attrs_find(call->attrs, "kernel_shape")) return REED_OK;
  reed_status status = shapecall_ints(call, "kernel_shape", 2, given);
  for (int32_t i = 0; i < 2 && !status; i++)
    status = shapecall_same(call, call->inputs[d->at.weight].dims[2 + i], given[i], d->at.weight,
                            "the extents of W and kernel_shape", NULL);
  return status;
}

/* The numbers in the attributes of ONNX's operator. */
static reed_status check_steps(reed_shape_call *call) {
  int64_t ints[4];
  if (op_id_of(call->op) != OP_DeformConv) return REED_OK;
  reed_status status = shapecall_ints(call, "strides", 2, ints);
  if (!status) status = shapecall_ints(call, "dilations", 2, ints);
  return status ? status : shapecall_ints(call, "pads", 4, ints);
}

static reed_status read_deform(reed_shape_call *call, deform *d) {
  op_id op = op_id_of(call->op);
  bool batched = op == OP_DeformConv;
  *d = (deform){.at = deform_operands_of(op), .s = deform_steps_of(op, call->attrs)};
  const reed_shape_input *x = &call->inputs[d->at.input], *w = &call->inputs[d->at.weight];
  d->rank = x->rank;
  if (x->rank != 4 && (x->rank != 3 || batched))
    return reed_shape_fail(call, REED_ERROR_SHAPE, d->at.input, "rank %d, %s is wanted", (int)x->rank,
                           batched ? "4" : "3 or 4");
  d->w = (shapecall_window){.n = 2, .input = d->at.input, .in = shapecall_plane_of(call, d->rank), .least = 1};
  d->images = d->rank == 4 ? x->dims[0] : 1;
  reed_status status = check_steps(call);
  if (!status) status = shapecall_rank(call, d->at.weight, 4);
  if (!status) status = check_kernel_shape(call, d);
  if (status) return status;
  d->outputs = w->dims[0];
  d->taps = reed_dim_mul(call, w->dims[2], w->dims[3]);
  reed_dim channels = reed_dim_mul(call, w->dims[1], d->s.groups);
  status = shapecall_same(call, x->dims[d->w.in.channel], channels, d->at.weight,
                          "the channels of the input and of the weights times groups", NULL);
  if (!status) status = check_multiple(call, d->outputs, d->s.groups, d->at.weight, "output channels");
  if (!status) status = check_multiple(call, channels, d->s.offset_groups, d->at.input, "channels with offsets");
  for (int32_t i = 0; i < 2 && !status; i++) status = set_windows(call, d, i);
  reed_dim masks = reed_dim_mul(call, d->taps, d->s.offset_groups);
  if (!status)
    status =
        check_map(call, d, d->at.offset, reed_dim_mul(call, masks, 2), "the channels and two for each tap and group");
  if (!status && shapecall_has(call, d->at.mask))
    status = check_map(call, d, d->at.mask, masks, "the channels and one for each tap and group");
  if (!status && d->at.bias >= 0 && shapecall_has(call, d->at.bias)) {
    status = shapecall_rank(call, d->at.bias, 1);
    if (!status)
      status = shapecall_same(call, call->inputs[d->at.bias].dims[0], d->outputs, d->at.bias,
                              "the extent and the output channels", NULL);
  }
  return status ? status : call->status;
}

/* X [N,C,H,W], W [M,C/group,kernel], offset [N,2*offset_group*taps,OH,OW] -> [N,M,OH,OW]; torchvision's operator also
 * without N; with channels_last the channels of X, offset, mask and Y come last */
reed_status shapefn_deform_conv(reed_shape_call *call) {
  deform d;
  reed_status status = read_deform(call, &d);
  if (status) return status;
  reed_dim dims[4] = {d.images};
  dims[d.w.in.channel] = d.outputs;
  for (int32_t i = 0; i < 2; i++) dims[d.w.in.spatial + i] = d.out[i];
  shapecall_set(call, 0, d.rank, dims);
  return REED_OK;
}

/* grad [N,M,OH,OW] and the forward operands -> their gradients, each with its operand's extents */
reed_status shapefn_deform_conv_backward(reed_shape_call *call) {
  deform d;
  reed_status status = read_deform(call, &d);
  if (!status) status = check_map(call, &d, d.at.grad, d.outputs, "the channels and the output channels");
  if (status) return status;
  reed_dim mask[4] = {d.images};
  mask[d.w.in.channel] = reed_dim_mul(call, d.taps, d.s.offset_groups);
  for (int32_t i = 0; i < 2; i++) mask[d.w.in.spatial + i] = d.out[i];
  shapecall_like(call, DEFORM_GRAD_INPUT, d.at.input);
  shapecall_like(call, DEFORM_GRAD_WEIGHT, d.at.weight);
  shapecall_like(call, DEFORM_GRAD_OFFSET, d.at.offset);
  shapecall_set(call, DEFORM_GRAD_MASK, d.rank, mask);
  shapecall_set(call, DEFORM_GRAD_BIAS, 1, &d.outputs);
  return call->status;
}
