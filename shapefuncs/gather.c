/* Shapes of indexed reading and writing: Gather, GatherElements, GatherND, ScatterElements, ScatterND. Common helpers:
 * call.h. */
#include "shapefuncs/call.h"

/* data's extents with the axis replaced by all of indices' */
reed_status shapefn_gather(reed_shape_call *call) {
  const reed_shape_input *data = &call->inputs[0], *indices = &call->inputs[1];
  int32_t axis = 0, rank = 0;
  reed_status status = shapecall_axis(call, op_attr_int(call->attrs, "axis"), data->rank, &axis);
  if (!status) status = shapecall_check_rank(call, data->rank - 1 + indices->rank);
  if (status) return status;
  reed_dim dims[REED_MAX_RANK];
  for (int32_t i = 0; i < axis; i++) dims[rank++] = data->dims[i];
  for (int32_t i = 0; i < indices->rank; i++) dims[rank++] = indices->dims[i];
  for (int32_t i = axis + 1; i < data->rank; i++) dims[rank++] = data->dims[i];
  shapecall_set(call, 0, rank, dims);
  return REED_OK;
}

/* Checks that on the other axes the indices' extents are at most the data's. */
static reed_status check_indices(reed_shape_call *call, int32_t *out_axis) {
  const reed_shape_input *data = &call->inputs[0], *indices = &call->inputs[1];
  reed_status status = shapecall_axis(call, op_attr_int(call->attrs, "axis"), data->rank, out_axis);
  if (!status) status = shapecall_rank(call, 1, data->rank);
  for (int32_t i = 0; i < data->rank && !status; i++) {
    int64_t low, high, unused;
    shapecall_range(call, indices->dims[i], &low, &unused);
    shapecall_range(call, data->dims[i], &unused, &high);
    if (i != *out_axis && low > high)
      status = reed_shape_fail(call, REED_ERROR_SHAPE, 1, "extent %lld of axis %d is beyond the data's %lld",
                               (long long)low, i, (long long)high);
  }
  return status;
}

reed_status shapefn_gather_elements(reed_shape_call *call) {
  int32_t axis;
  reed_status status = check_indices(call, &axis);
  if (!status) shapecall_like(call, 0, 1);
  return status;
}

reed_status shapefn_scatter_elements(reed_shape_call *call) {
  const reed_shape_input *indices = &call->inputs[1], *updates = &call->inputs[2];
  int32_t axis;
  reed_status status = check_indices(call, &axis);
  if (!status) status = shapecall_rank(call, 2, indices->rank);
  for (int32_t i = 0; i < indices->rank && !status; i++)
    status = shapecall_same(call, indices->dims[i], updates->dims[i], 2, "the extents of indices and updates", NULL);
  if (!status) shapecall_like(call, 0, 0);
  return status;
}

/* The extents of data[indices]: the last axis of indices is an index, and the first batch_dims axes are common. Rank -1
 * if the length of an index is unknown. */
static reed_status indexed(reed_shape_call *call, int64_t batch_dims, int32_t *out_rank, reed_dim *out_dims) {
  const reed_shape_input *data = &call->inputs[0], *indices = &call->inputs[1];
  reed_status status = shapecall_min_rank(call, 0, 1);
  if (!status) status = shapecall_min_rank(call, 1, 1);
  if (status) return status;
  if (batch_dims < 0 || batch_dims >= indices->rank || batch_dims > data->rank)
    return reed_shape_fail(call, REED_ERROR_SHAPE, -1, "batch_dims is %lld", (long long)batch_dims);
  for (int32_t i = 0; i < batch_dims && !status; i++)
    status = shapecall_same(call, data->dims[i], indices->dims[i], 1, "the batches of data and indices", NULL);
  if (status) return status;
  reed_dim length = indices->dims[indices->rank - 1];
  if (!reed_dim_known(call, length)) {
    *out_rank = -1;
    return REED_OK;
  }
  if (length > data->rank - batch_dims)
    return reed_shape_fail(call, REED_ERROR_SHAPE, 1, "indices of %lld numbers for %lld axes", (long long)length,
                           (long long)(data->rank - batch_dims));
  int32_t used = (int32_t)(batch_dims + length), rank = 0;
  status = shapecall_check_rank(call, indices->rank - 1 + data->rank - used);
  if (status) return status;
  for (int32_t i = 0; i < indices->rank - 1; i++) out_dims[rank++] = indices->dims[i];
  for (int32_t i = used; i < data->rank; i++) out_dims[rank++] = data->dims[i];
  *out_rank = rank;
  return REED_OK;
}

reed_status shapefn_gather_nd(reed_shape_call *call) {
  int32_t rank = 0;
  reed_dim dims[REED_MAX_RANK];
  reed_status status = indexed(call, op_attr_int(call->attrs, "batch_dims"), &rank, dims);
  if (!status) shapecall_set(call, 0, rank, dims);
  return status;
}

reed_status shapefn_scatter_nd(reed_shape_call *call) {
  const reed_shape_input *updates = &call->inputs[2];
  int32_t rank = 0;
  reed_dim dims[REED_MAX_RANK];
  reed_status status = indexed(call, 0, &rank, dims);
  if (!status && rank >= 0) status = shapecall_rank(call, 2, rank);
  for (int32_t i = 0; i < rank && !status; i++)
    status = shapecall_same(call, dims[i], updates->dims[i], 2, "the extents of what is indexed and of updates", NULL);
  if (!status) shapecall_like(call, 0, 0);
  return status;
}
