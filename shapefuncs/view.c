/* Shapes of views: the same elements under other extents. Flatten, Reshape, Squeeze, Unsqueeze. Common helpers: call.h.
 */
#include "shapefuncs/call.h"

reed_status shapefn_flatten(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  int64_t axis = op_attr_int(call->attrs, "axis");
  if (axis < -(int64_t)in->rank || axis > in->rank)
    return reed_shape_fail(call, REED_ERROR_SHAPE, -1, "axis %lld is out of range for rank %d", (long long)axis,
                           in->rank);
  if (axis < 0) axis += in->rank;
  reed_dim dims[2] = {shapecall_product(call, in->dims, (int32_t)axis),
                      shapecall_product(call, in->dims + axis, in->rank - (int32_t)axis)};
  shapecall_set(call, 0, 2, dims);
  return call->status;
}

/* The target of a Reshape while it is computed. */
typedef struct reshape {
  int32_t rank, infer_at; /* infer_at: the axis whose extent follows from the number of elements; -1: none */
  bool exact; /* every extent but the inferred one is known, as a number or symbol, not only as "some extent" */
  bool copied[REED_MAX_RANK];
  reed_dim dims[REED_MAX_RANK];
} reshape;

static reed_status reshape_extent(reed_shape_call *call, reshape *to, int32_t i, reed_dim wanted, bool other_infers) {
  const reed_shape_input *data = &call->inputs[0];
  bool allow_zero = op_attr_int(call->attrs, "allowzero") != 0;
  to->dims[i] = wanted;
  if (!reed_dim_known(call, wanted)) {
    /* A symbol may be -1 only if no other extent is inferred: then it is "some extent"; otherwise it is an extent
     * itself. A symbol that is 0 at run time would copy an extent; models that compute such a shape mean 0, which then
     * is the copied extent of their data too. */
    if (!other_infers && !shapecall_at_least(call, wanted, 0)) {
      to->dims[i] = reed_dim_fresh(call);
      to->exact = false;
    } else {
      to->copied[i] = i < data->rank && reed_dim_equal(call, wanted, data->dims[i]);
    }
    return call->status;
  }
  if (wanted < -1) return reed_shape_fail(call, REED_ERROR_VALUE, 1, "extent %lld", (long long)wanted);
  if (wanted == 0 && !allow_zero) {
    if (data->rank < 0) {
      to->dims[i] = reed_dim_fresh(call);
      to->exact = false;
      return call->status;
    }
    if (i >= data->rank)
      return reed_shape_fail(call, REED_ERROR_SHAPE, 1, "0 at %d copies an extent that the data does not have", i);
    to->dims[i] = data->dims[i];
    to->copied[i] = true;
  }
  return REED_OK;
}

/* The inferred extent is the quotient of data and target after the copied extents have been cancelled. Cancelling first
 * lets [0,364] be viewed as [0,-1,4], whose plain quotient is 0/0. */
static reed_status reshape_infer(reed_shape_call *call, reshape *to) {
  const reed_shape_input *data = &call->inputs[0];
  char from[256], target[256];
  if (data->rank < 0 || !to->exact) {
    to->dims[to->infer_at] = reed_dim_fresh(call);
    return call->status;
  }
  reed_dim have = 1, want = 1, rest_of_data[REED_MAX_RANK], rest_of_target[REED_MAX_RANK];
  int32_t n_have = 0, n_want = 0;
  for (int32_t i = 0; i < data->rank; i++)
    if (i >= to->rank || !to->copied[i]) rest_of_data[n_have++] = data->dims[i];
  for (int32_t i = 0; i < to->rank; i++)
    if (i != to->infer_at && !to->copied[i]) rest_of_target[n_want++] = to->dims[i];
  have = shapecall_product(call, rest_of_data, n_have);
  want = shapecall_product(call, rest_of_target, n_want);
  if (call->status) return call->status;
  bool known = reed_dim_known(call, have) && reed_dim_known(call, want);
  if (shapecall_is(call, want, 0) || (known && have % want))
    return reed_shape_fail(call, REED_ERROR_SHAPE, 1, "cannot view %s as %s",
                           shapecall_dims_text(call, data->rank, data->dims, from, sizeof from),
                           shapecall_dims_text(call, to->rank, to->dims, target, sizeof target));
  to->dims[to->infer_at] = reed_dim_floordiv(call, have, want);
  return call->status;
}

static reed_status reshape_check(reed_shape_call *call, const reshape *to) {
  const reed_shape_input *data = &call->inputs[0];
  char from[256], target[256];
  if (data->rank < 0) return REED_OK;
  reed_dim have = shapecall_product(call, data->dims, data->rank), want = shapecall_product(call, to->dims, to->rank);
  if (call->status || !reed_dim_known(call, have) || !reed_dim_known(call, want) || have == want) return call->status;
  return reed_shape_fail(call, REED_ERROR_SHAPE, 1, "cannot view %s (%lld elements) as %s (%lld elements)",
                         shapecall_dims_text(call, data->rank, data->dims, from, sizeof from), (long long)have,
                         shapecall_dims_text(call, to->rank, to->dims, target, sizeof target), (long long)want);
}

/* 0 copies an extent unless allowzero is set; one -1 follows from the number of elements (ONNX Reshape-14). */
reed_status shapefn_reshape(reed_shape_call *call) {
  int64_t rank = 0;
  reed_status status = shapecall_value_count(call, 1, &rank);
  if (!status) status = shapecall_check_rank(call, rank);
  if (status) return status;
  if (rank < 0) {
    shapecall_unknown(call, 0);
    return REED_OK;
  }
  reshape to = {.rank = (int32_t)rank, .infer_at = -1, .exact = true};
  reed_dim wanted[REED_MAX_RANK];
  bool has_zero = false;
  for (int32_t i = 0; i < rank; i++) {
    wanted[i] = reed_shape_value(call, 1, i);
    has_zero = has_zero || shapecall_is(call, wanted[i], 0);
    if (!shapecall_is(call, wanted[i], -1)) continue;
    if (to.infer_at >= 0) return reed_shape_fail(call, REED_ERROR_VALUE, 1, "more than one extent is -1");
    to.infer_at = i;
  }
  if (to.infer_at >= 0 && has_zero && op_attr_int(call->attrs, "allowzero"))
    return reed_shape_fail(call, REED_ERROR_VALUE, 1, "0 and -1 together with allowzero");
  for (int32_t i = 0; i < rank && !status; i++)
    if (i != to.infer_at) status = reshape_extent(call, &to, i, wanted[i], to.infer_at >= 0);
  if (to.infer_at >= 0) to.dims[to.infer_at] = -1; /* for the message */
  if (!status && to.infer_at >= 0) status = reshape_infer(call, &to);
  if (!status) status = reshape_check(call, &to);
  if (status) return status;
  shapecall_set(call, 0, to.rank, to.dims);
  return REED_OK;
}

/* Without axes every extent of 1 is dropped: the rank is known only if every extent is provably 1 or provably not 1. */
static reed_status squeeze_ones(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  reed_dim dims[REED_MAX_RANK];
  int32_t rank = 0;
  for (int32_t i = 0; i < in->rank; i++) {
    if (!reed_dim_known(call, in->dims[i]) && !shapecall_at_least(call, in->dims[i], 2)) {
      shapecall_unknown(call, 0);
      return REED_OK;
    }
    if (!shapecall_is(call, in->dims[i], 1)) dims[rank++] = in->dims[i];
  }
  shapecall_set(call, 0, rank, dims);
  return REED_OK;
}

reed_status shapefn_squeeze(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  if (!shapecall_has(call, 1)) return squeeze_ones(call);
  int64_t n = 0;
  bool known = false;
  int32_t axes[REED_MAX_RANK];
  reed_status status = shapecall_value_count(call, 1, &n);
  if (!status && n < 0) {
    shapecall_unknown(call, 0);
    return REED_OK;
  }
  if (!status) status = shapecall_axes(call, NULL, 1, n, in->rank, axes, &known);
  if (status) return status;
  if (!known) {
    shapecall_fresh(call, 0, in->rank - (int32_t)n);
    return call->status;
  }
  uint32_t dropped = 0;
  for (int64_t k = 0; k < n; k++) {
    int64_t low, high;
    shapecall_range(call, in->dims[axes[k]], &low, &high);
    if (low > 1 || high < 1)
      return reed_shape_fail(call, REED_ERROR_SHAPE, 1, "axis %d cannot go: its extent is not 1", axes[k]);
    dropped |= 1u << axes[k];
  }
  reed_dim dims[REED_MAX_RANK];
  int32_t rank = 0;
  for (int32_t i = 0; i < in->rank; i++)
    if (!(dropped & 1u << i)) dims[rank++] = in->dims[i];
  shapecall_set(call, 0, rank, dims);
  return REED_OK;
}

reed_status shapefn_unsqueeze(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  int64_t n = 0;
  bool known = false;
  int32_t axes[REED_MAX_RANK];
  reed_status status = shapecall_value_count(call, 1, &n);
  if (!status && n < 0) {
    shapecall_unknown(call, 0);
    return REED_OK;
  }
  if (!status) status = shapecall_check_rank(call, n);
  if (!status) status = shapecall_check_rank(call, n + in->rank);
  if (!status) status = shapecall_axes(call, NULL, 1, n, in->rank + (int32_t)n, axes, &known);
  if (status) return status;
  int32_t rank = in->rank + (int32_t)n, from = 0;
  if (!known) {
    shapecall_fresh(call, 0, rank);
    return call->status;
  }
  uint32_t added = 0;
  for (int64_t k = 0; k < n; k++) added |= 1u << axes[k];
  reed_dim dims[REED_MAX_RANK];
  for (int32_t i = 0; i < rank; i++) dims[i] = added & 1u << i ? 1 : in->dims[from++];
  shapecall_set(call, 0, rank, dims);
  return REED_OK;
}
