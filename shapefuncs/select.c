/* Shapes that depend on the data (Compress, NonZero, Unique, NonMaxSuppression: here an upper bound, the kernel reports
 * the extent), and TopK. Common helpers: call.h. */
#include "shapefuncs/call.h"

static reed_status set_bounded(reed_shape_call *call, int32_t output, int32_t rank, const reed_dim *dims,
                               int32_t bounded_axis) {
  shapecall_set(call, output, rank, dims);
  if (output < call->n_outputs) call->outputs[output].bounded_axis = bounded_axis;
  return call->status;
}

/* The bound is the smaller of the condition's length and the number of elements to choose from. */
reed_status shapefn_compress(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0], *condition = &call->inputs[1];
  bool flat = !reed_attrs_find(call->attrs, "axis");
  if ((in->rank < 0 && !flat) || condition->rank < 0) { /* a rank that is not known has no bounded axis either */
    shapecall_unknown(call, 0);
    return REED_OK;
  }
  reed_status status = shapecall_rank(call, 1, 1);
  if (status) return status;
  if (flat) {
    reed_dim all = in->rank < 0 ? reed_dim_fresh(call) : shapecall_product(call, in->dims, in->rank);
    reed_dim bound = reed_dim_min(call, condition->dims[0], all);
    return set_bounded(call, 0, 1, &bound, 0);
  }
  int32_t axis = 0;
  status = shapecall_axis(call, op_attr_int(call->attrs, "axis"), in->rank, &axis);
  if (status) return status;
  reed_dim dims[REED_MAX_RANK];
  memcpy(dims, in->dims, (size_t)in->rank * sizeof *dims);
  dims[axis] = reed_dim_min(call, condition->dims[0], dims[axis]);
  return set_bounded(call, 0, in->rank, dims, axis);
}

/* One column per nonzero element, one row per axis (a scalar has no axes: ONNX NonZero-13). */
reed_status shapefn_nonzero(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  reed_dim dims[2] = {in->rank, 0};
  if (in->rank < 0) dims[0] = reed_dim_fresh(call), dims[1] = reed_dim_fresh(call);
  else dims[1] = shapecall_product(call, in->dims, in->rank);
  return set_bounded(call, 0, 2, dims, 1);
}

/* Without an axis X counts as flat. Every element, or slice along the axis, may differ from all others. The outputs:
 * those that differ, where each occurs first, for each of X the number of its equal, and how often each occurs. */
reed_status shapefn_unique(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  bool flat = !reed_attrs_find(call->attrs, "axis");
  int32_t axis = 0, rank = flat ? 1 : in->rank;
  reed_dim dims[REED_MAX_RANK] = {0}, bound;
  if (rank < 0) { /* a rank that is not known has no bounded axis either */
    shapecall_unknown(call, 0);
    bound = reed_dim_fresh(call);
  } else if (flat) {
    bound = in->rank < 0 ? reed_dim_fresh(call) : shapecall_product(call, in->dims, in->rank);
    dims[0] = bound;
  } else {
    reed_status status = shapecall_axis(call, op_attr_int(call->attrs, "axis"), rank, &axis);
    if (status) return status;
    memcpy(dims, in->dims, (size_t)rank * sizeof *dims);
    bound = dims[axis];
  }
  if (rank >= 0) set_bounded(call, 0, rank, dims, axis);
  set_bounded(call, 1, 1, &bound, 0);
  shapecall_set(call, 2, 1, &bound);
  set_bounded(call, 3, 1, &bound, 0);
  return call->status;
}

/* boxes [B,S,4], scores [B,C,S]: at most max_output_boxes_per_class of each of the B*C classes (0 and absent: none,
 * ONNX NonMaxSuppression-11). */
reed_status shapefn_nms(reed_shape_call *call) {
  const reed_shape_input *boxes = &call->inputs[0], *scores = &call->inputs[1];
  reed_status status = shapecall_rank(call, 0, 3);
  if (!status) status = shapecall_rank(call, 1, 3);
  if (!status) status = shapecall_same(call, boxes->dims[2], 4, 0, "the last extent and 4", NULL);
  if (!status)
    status = shapecall_same(call, boxes->dims[0], scores->dims[0], 1, "the batches of boxes and scores", NULL);
  if (!status)
    status = shapecall_same(call, boxes->dims[1], scores->dims[2], 1, "the numbers of boxes and of scores", NULL);
  reed_dim per_class = 0;
  if (!status && shapecall_has(call, 2)) status = shapecall_scalar(call, 2, &per_class);
  if (status) return status;
  per_class = reed_dim_min(call, reed_dim_max(call, per_class, 0), boxes->dims[1]);
  reed_dim factors[3] = {scores->dims[0], scores->dims[1], per_class};
  reed_dim dims[2] = {shapecall_product(call, factors, 3), 3};
  return set_bounded(call, 0, 2, dims, 0);
}

/* dets [n,4], scores [n], idxs [n] -> at most n (torchvision's nms, and batched_nms with idxs). */
reed_status shapefn_torch_nms(reed_shape_call *call) {
  const reed_shape_input *dets = &call->inputs[0];
  reed_status status = shapecall_rank(call, 0, 2);
  if (!status) status = shapecall_same(call, dets->dims[1], 4, 0, "the last extent and 4", NULL);
  for (int32_t i = 1; i < 3 && !status; i++) {
    if (!shapecall_has(call, i)) continue;
    status = shapecall_rank(call, i, 1);
    if (!status)
      status = shapecall_same(call, dets->dims[0], call->inputs[i].dims[0], i,
                              i == 1 ? "the numbers of boxes and of scores" : "the numbers of boxes and of idxs", NULL);
  }
  return status ? status : set_bounded(call, 0, 1, dets->dims, 0);
}

reed_status shapefn_topk(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  int32_t axis = 0;
  reed_dim k = 0;
  reed_status status = shapecall_axis(call, op_attr_int(call->attrs, "axis"), in->rank, &axis);
  if (!status) status = shapecall_scalar(call, 1, &k);
  if (status) return status;
  int64_t k_low, k_high, extent_low, extent_high;
  shapecall_range(call, k, &k_low, &k_high);
  shapecall_range(call, in->dims[axis], &extent_low, &extent_high);
  if (k_high < 0) return reed_shape_fail(call, REED_ERROR_VALUE, 1, "k is %lld", (long long)k_high);
  if (op_attr_int(call->attrs, "at_most")) k = reed_dim_min(call, k, in->dims[axis]);
  else if (k_low > extent_high)
    return reed_shape_fail(call, REED_ERROR_VALUE, 1, "k is %lld, axis %d has %lld elements", (long long)k_low, axis,
                           (long long)extent_high);
  reed_dim dims[REED_MAX_RANK];
  memcpy(dims, in->dims, (size_t)in->rank * sizeof *dims);
  dims[axis] = k;
  for (int32_t i = 0; i < call->n_outputs; i++) shapecall_set(call, i, in->rank, dims);
  return REED_OK;
}
