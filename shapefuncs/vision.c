/* Shapes of torchvision's operators: regions of maps and their gradients. Common helpers: call.h. */
#include "shapefuncs/call.h"

/* ERROR_SHAPE unless the input is an image with or without a batch. */
static reed_status check_image_rank(reed_shape_call *call, int32_t input) {
  int32_t rank = call->inputs[input].rank;
  return rank == 3 || rank == 4
             ? REED_OK
             : reed_shape_fail(call, REED_ERROR_SHAPE, input, "rank %d, 3 or 4 is wanted", (int)rank);
}

/* rois [R,5] beside a map of rank 4, [R,4] beside one of rank 3; of the first map's dtype if that is f32 or f64. */
static reed_status check_regions(reed_shape_call *call, int32_t map_rank) {
  const reed_shape_input *rois = &call->inputs[1];
  reed_status status = shapecall_rank(call, 1, 2);
  return status ? status
                : shapecall_same(call, rois->dims[1], map_rank + 1, 1,
                                 map_rank == 4 ? "the last extent and 5 (number of the image, x1, y1, x2, y2)"
                                               : "the last extent and 4 (x1, y1, x2, y2)",
                                 NULL);
}

static bool is_position_sensitive(const reed_op *op) {
  switch ((int)op_id_of(op)) {
    case OP_ps_roi_align:
    case OP_ps_roi_align_backward:
    case OP_ps_roi_pool:
    case OP_ps_roi_pool_backward: return true;
    default: return false;
  }
}

/* The channels of the bins of a map with `channels`. */
static reed_status bin_channels(reed_shape_call *call, int32_t input, reed_dim channels, int64_t bins,
                                reed_dim *out_channels) {
  *out_channels = channels;
  if (!is_position_sensitive(call->op)) return REED_OK;
  if (reed_dim_known(call, channels) && channels % bins)
    return reed_shape_fail(call, REED_ERROR_SHAPE, input, "%lld channels are no multiple of %lld bins",
                           (long long)channels, (long long)bins);
  *out_channels = reed_dim_floordiv(call, channels, bins);
  return call->status;
}

static reed_status set_bins(reed_shape_call *call, int64_t height, int64_t width) {
  const reed_shape_input *map = &call->inputs[0];
  shapecall_image out = shapecall_plane_of(call, 4);
  reed_dim dims[4] = {call->inputs[1].dims[0]};
  reed_status status =
      bin_channels(call, 0, map->dims[shapecall_plane_of(call, map->rank).channel], height * width, &dims[out.channel]);
  dims[out.spatial] = height;
  dims[out.spatial + 1] = width;
  for (int32_t i = 0; i < call->n_outputs && !status; i++) shapecall_set(call, i, 4, dims);
  return status;
}

/* input [N,C,H,W], rois [R,5], or input [C,H,W], rois [R,4] -> [R,C,pooled_height,pooled_width], and argmax like it; a
 * position-sensitive operator has C / (pooled_height * pooled_width) channels there */
reed_status shapefn_pooled(reed_shape_call *call) {
  reed_status status = check_image_rank(call, 0);
  if (!status) status = check_regions(call, call->inputs[0].rank);
  return status ? status
                : set_bins(call, op_attr_int(call->attrs, "pooled_height"), op_attr_int(call->attrs, "pooled_width"));
}

/* X [N,C,H,W], rois [R,5] -> [R,C,pooled_shape...] (ONNX MaxRoiPool-22) */
reed_status shapefn_max_roi_pool(reed_shape_call *call) {
  int64_t shape[2];
  reed_status status = shapecall_rank(call, 0, 4);
  if (!status) status = check_regions(call, 4);
  if (!status) status = shapecall_ints(call, "pooled_shape", 2, shape);
  return status ? status : set_bins(call, shape[0], shape[1]);
}

/* The extents that `value` input `input` gives; *out_rank -1: their number is not known. */
static reed_status read_shape(reed_shape_call *call, int32_t input, int32_t *out_rank, reed_dim *dims) {
  int64_t n = -1;
  reed_status status = shapecall_value_count(call, input, &n);
  if (status) return status;
  *out_rank = (int32_t)n;
  if (n >= 0 && n != 3 && n != 4)
    return reed_shape_fail(call, REED_ERROR_SHAPE, input, "has %lld numbers, 3 or 4 are wanted", (long long)n);
  for (int32_t k = 0; k < n && !status; k++) {
    dims[k] = reed_shape_value(call, input, k);
    if (reed_dim_known(call, dims[k]) && dims[k] < 0)
      status = reed_shape_fail(call, REED_ERROR_VALUE, input, "extent %lld of axis %d", (long long)dims[k], (int)k);
  }
  return status ? status : call->status;
}

/* grad [R,C,pooled_height,pooled_width], rois, and for roi_pool argmax like grad -> input_shape */
reed_status shapefn_pooled_backward(reed_shape_call *call) {
  const reed_shape_input *grad = &call->inputs[0];
  int32_t shape_input = op_id_of(call->op) == OP_roi_pool_backward ? 3 : 2, rank = -1;
  int64_t height = op_attr_int(call->attrs, "pooled_height"), width = op_attr_int(call->attrs, "pooled_width");
  reed_dim dims[4];
  reed_status status = shapecall_rank(call, 0, 4);
  if (!status) status = shapecall_rank(call, 1, 2);
  if (!status) status = read_shape(call, shape_input, &rank, dims);
  if (status) return status;
  if (rank < 0) {
    shapecall_unknown(call, 0);
    return REED_OK;
  }
  shapecall_image in = shapecall_plane_of(call, rank), out = shapecall_plane_of(call, 4);
  reed_dim channels = 0;
  status = check_regions(call, rank);
  if (!status) status = bin_channels(call, shape_input, dims[in.channel], height * width, &channels);
  if (!status)
    status =
        shapecall_same(call, grad->dims[0], call->inputs[1].dims[0], 0, "the numbers of gradients and regions", NULL);
  if (!status)
    status = shapecall_same(call, grad->dims[out.channel], channels, 0, "the channels of grad and of the bins", NULL);
  if (!status) status = shapecall_same(call, grad->dims[out.spatial], height, 0, "the height and pooled_height", NULL);
  if (!status) status = shapecall_same(call, grad->dims[out.spatial + 1], width, 0, "the width and pooled_width", NULL);
  if (!status && shape_input == 3) status = shapecall_rank(call, 2, 4);
  for (int32_t k = 0; k < 4 && !status && shape_input == 3; k++)
    status = shapecall_same(call, call->inputs[2].dims[k], grad->dims[k], 2, "the extents of argmax and grad", NULL);
  if (!status) shapecall_set(call, 0, rank, dims);
  return status;
}
