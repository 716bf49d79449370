/* Shapes of normalisations: Y has the input's shape; the statistics have shapes of their own. Common helpers: call.h.
 */
#include "shapefuncs/call.h"

/* X [N,C,...], or [N,...,C] with channels_last; scale, B, mean and variance [C]: scale and B have one dtype, mean and
 * variance another. */
reed_status shapefn_batch_norm(reed_shape_call *call) {
  const reed_shape_input *in = call->inputs;
  reed_status status = shapecall_min_rank(call, 0, 2);
  for (int32_t i = 1; i <= 3 && !status; i += 2) {
    status = shapecall_rank(call, i, 1);
    if (!status)
      status = shapecall_same(call, in[0].dims[shapecall_image_of(call, in[0].rank).channel], in[i].dims[0], i,
                              "the numbers of channels", NULL);
    if (!status && in[i].dtype != in[i + 1].dtype)
      status = reed_shape_fail(call, REED_ERROR_TYPE, i + 1, "is %s, not %s", reed_dtype_name(in[i + 1].dtype),
                               reed_dtype_name(in[i].dtype));
  }
  if (status) return status;
  bool training = op_attr_int(call->attrs, "training_mode") != 0;
  if (call->n_outputs > 1 && !training)
    return reed_shape_fail(call, REED_ERROR_UNSUPPORTED, -1, "running statistics without training_mode");
  shapecall_like(call, 0, 0);
  for (int32_t i = 1; i < call->n_outputs; i++) shapecall_like(call, i, 3);
  return REED_OK;
}

/* InstanceNormalization, and GroupNormalization, whose groups have equally many channels. */
reed_status shapefn_instance_norm(reed_shape_call *call) {
  const reed_shape_input *x = &call->inputs[0];
  reed_status status = shapecall_min_rank(call, 0, 2);
  if (status) return status;
  int64_t groups = reed_attrs_int(call->attrs, "num_groups", 1);
  reed_dim channels = x->dims[shapecall_image_of(call, x->rank).channel];
  if (reed_dim_known(call, channels) && channels % groups)
    return reed_shape_fail(call, REED_ERROR_SHAPE, 0, "%lld channels in %lld groups", (long long)channels,
                           (long long)groups);
  shapecall_like(call, 0, 0);
  return REED_OK;
}

/* Mean and InvStdDev keep the axes before `axis`; the other axes become 1. */
reed_status shapefn_layer_norm(reed_shape_call *call) {
  const reed_shape_input *x = &call->inputs[0];
  if (x->rank < 0) {
    for (int32_t i = 0; i < call->n_outputs; i++) shapecall_unknown(call, i);
    return REED_OK;
  }
  int32_t axis = 0;
  reed_status status = shapecall_axis(call, op_attr_int(call->attrs, "axis"), x->rank, &axis);
  if (status) return status;
  reed_dim dims[REED_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  memcpy(dims, x->dims, (size_t)axis * sizeof *dims);
  shapecall_like(call, 0, 0);
  for (int32_t i = 1; i < call->n_outputs; i++) shapecall_set(call, i, x->rank, dims);
  return REED_OK;
}

reed_status shapefn_softmax(reed_shape_call *call) {
  int32_t axis;
  reed_status status = shapecall_axis(call, op_attr_int(call->attrs, "axis"), call->inputs[0].rank, &axis);
  if (!status) shapecall_like(call, 0, 0);
  return status;
}
