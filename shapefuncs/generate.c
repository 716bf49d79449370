/* Shapes of operators that make tensors from numbers, and of shapes as data: Shape, Size, Constant, ConstantOfShape,
 * Range, EyeLike, OneHot. Common helpers: call.h. */
#include <math.h>

#include "base/dtype.h"
#include "shapefuncs/call.h"

/* start and end clamp to 0..rank (opset 15) */
reed_status shapefn_shape(reed_shape_call *call) {
  const reed_shape_input *data = &call->inputs[0];
  if (data->rank < 0) {
    shapecall_fresh(call, 0, 1);
    return REED_OK;
  }
  int64_t ends[2] = {op_attr_int(call->attrs, "start"), reed_attrs_int(call->attrs, "end", data->rank)};
  for (int i = 0; i < 2; i++) {
    if (ends[i] < 0) ends[i] += data->rank;
    if (ends[i] < 0) ends[i] = 0;
    if (ends[i] > data->rank) ends[i] = data->rank;
  }
  reed_dim count = ends[1] > ends[0] ? ends[1] - ends[0] : 0;
  shapecall_set(call, 0, 1, &count);
  return REED_OK;
}

reed_status shapefn_size(reed_shape_call *call) {
  shapecall_set(call, 0, 0, NULL);
  return REED_OK;
}

reed_status shapefn_constant(reed_shape_call *call) {
  const reed_attr *value = reed_attrs_find(call->attrs, "value");
  if (!value || value->type != REED_ATTR_TENSOR)
    return reed_shape_fail(call, REED_ERROR_TYPE, -1, "has no tensor attribute value");
  shapecall_set(call, 0, value->desc.rank, value->desc.dims);
  return REED_OK;
}

reed_status shapefn_eye_like(reed_shape_call *call) {
  reed_status status = shapecall_rank(call, 0, 2);
  if (!status) shapecall_like(call, 0, 0);
  return status;
}

/* Reads the one number of `depth`, of any dtype. */
static reed_status read_depth(reed_shape_call *call, reed_dim *out_depth) {
  if (!dtype_is_real(call->inputs[1].dtype)) return shapecall_scalar(call, 1, out_depth);
  int64_t n = 0;
  double depth;
  reed_status status = shapecall_value_count(call, 1, &n);
  if (status) return status;
  if (n != 1 && n != -1) return reed_shape_fail(call, REED_ERROR_SHAPE, 1, "wants one number, not %lld", (long long)n);
  if (!reed_shape_value_f64(call, 1, 0, &depth)) {
    *out_depth = reed_dim_fresh(call);
    return call->status;
  }
  if (!(depth >= 0 && depth < 0x1p60)) return reed_shape_fail(call, REED_ERROR_VALUE, 1, "depth is %g", depth);
  *out_depth = (int64_t)depth;
  return REED_OK;
}

/* The indices' extents with `depth` inserted at the axis. */
reed_status shapefn_one_hot(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  reed_dim depth = 0, dims[REED_MAX_RANK];
  int32_t axis = 0;
  reed_status status = read_depth(call, &depth);
  if (!status && in->rank < 0) {
    shapecall_unknown(call, 0);
    return REED_OK;
  }
  if (!status) status = shapecall_check_rank(call, in->rank + 1);
  if (!status) status = shapecall_axis(call, op_attr_int(call->attrs, "axis"), in->rank + 1, &axis);
  if (status) return status;
  if (reed_dim_known(call, depth) && depth < 0)
    return reed_shape_fail(call, REED_ERROR_VALUE, 1, "depth is %lld", (long long)depth);
  for (int32_t i = 0; i <= in->rank; i++) dims[i] = i == axis ? depth : in->dims[i - (i > axis)];
  shapecall_set(call, 0, in->rank + 1, dims);
  return REED_OK;
}

reed_status shapefn_constant_of_shape(reed_shape_call *call) {
  const reed_attr *value = reed_attrs_find(call->attrs, "value");
  if (value && value->n != 1)
    return reed_shape_fail(call, REED_ERROR_SHAPE, -1, "attribute value has %lld elements, not one",
                           (long long)value->n);
  int64_t rank = 0;
  reed_status status = shapecall_value_count(call, 0, &rank);
  if (!status) status = shapecall_check_rank(call, rank);
  if (status) return status;
  if (rank < 0) {
    shapecall_unknown(call, 0);
    return REED_OK;
  }
  reed_dim dims[REED_MAX_RANK];
  for (int64_t k = 0; k < rank; k++) dims[k] = reed_shape_value(call, 0, k);
  shapecall_set(call, 0, (int32_t)rank, dims);
  return REED_OK;
}

/* max(ceil((limit - start) / delta), 0) with the difference in the inputs' own precision, as in numpy.arange, unless it
 * overflows there. */
static reed_status range_of_floats(reed_shape_call *call, reed_dim *out_count) {
  double number[3];
  for (int32_t i = 0; i < 3; i++)
    if (!reed_shape_value_f64(call, i, 0, &number[i])) {
      *out_count = reed_dim_fresh(call);
      return call->status;
    }
  double difference =
      call->inputs[0].dtype == REED_F32 ? (double)(float)(number[1] - number[0]) : number[1] - number[0];
  double count = ceil(isinf(difference) ? number[1] / number[2] - number[0] / number[2] : difference / number[2]);
  if (number[2] == 0 || isnan(count) || count >= 0x1p60)
    return reed_shape_fail(call, REED_ERROR_VALUE, 2, "no count of steps from %g to %g by %g", number[0], number[1],
                           number[2]);
  *out_count = count > 0 ? (int64_t)count : 0;
  return REED_OK;
}

/* The number of elements of an integer range; the difference of limit and start, and the number, are up to 2^64 - 1. */
static reed_status range_of_numbers(reed_shape_call *call, int64_t start, int64_t limit, int64_t delta,
                                    reed_dim *out_count) {
  bool up = delta > 0;
  uint64_t span = up ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
  uint64_t step = up ? (uint64_t)delta : 0 - (uint64_t)delta, count = 0;
  if (up ? start < limit : start > limit) count = (span - 1) / step + 1;
  if (count > INT64_MAX)
    return reed_shape_fail(call, REED_ERROR_VALUE, 2, "no count of steps from %lld to %lld by %lld", (long long)start,
                           (long long)limit, (long long)delta);
  *out_count = (int64_t)count;
  return REED_OK;
}

static reed_status range_of_ints(reed_shape_call *call, reed_dim *out_count) {
  reed_dim start = 0, limit = 0, delta = 0;
  reed_status status = shapecall_scalar(call, 0, &start);
  if (!status) status = shapecall_scalar(call, 1, &limit);
  if (!status) status = shapecall_scalar(call, 2, &delta);
  if (status) return status;
  if (!reed_dim_known(call, delta)) {
    *out_count = reed_dim_fresh(call);
    return REED_OK;
  }
  if (delta == 0) return reed_shape_fail(call, REED_ERROR_VALUE, 2, "the step is 0");
  if (reed_dim_known(call, start) && reed_dim_known(call, limit))
    return range_of_numbers(call, start, limit, delta, out_count);
  if (delta < -INT64_MAX) delta = -INT64_MAX; /* -delta must be a number; the count is the same */
  reed_dim span = delta > 0 ? reed_dim_sub(call, limit, start) : reed_dim_sub(call, start, limit);
  *out_count = reed_dim_max(call, reed_dim_ceildiv(call, span, delta > 0 ? delta : -delta), 0);
  return call->status;
}

reed_status shapefn_range(reed_shape_call *call) {
  reed_dim count = 0;
  for (int32_t i = 0; i < 3; i++) {
    int64_t n = 0;
    reed_status status = shapecall_value_count(call, i, &n);
    if (status) return status;
    if (n != 1 && n != -1)
      return reed_shape_fail(call, REED_ERROR_SHAPE, i, "wants one number, not %lld", (long long)n);
  }
  reed_status status =
      dtype_is_real(call->inputs[0].dtype) ? range_of_floats(call, &count) : range_of_ints(call, &count);
  if (status) return status;
  shapecall_set(call, 0, 1, &count);
  return REED_OK;
}
