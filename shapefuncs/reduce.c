/* Shapes of reductions: the reduced axes become 1 or are dropped. Common helpers: call.h. */
#include "shapefuncs/call.h"

/* Sets output 0 to in[0] with the axes of the set reduced. */
static void set_reduced(reed_shape_call *call, uint32_t axes, bool keep) {
  const reed_shape_input *in = &call->inputs[0];
  reed_dim dims[REED_MAX_RANK];
  int32_t rank = 0;
  for (int32_t i = 0; i < in->rank; i++) {
    bool reduced = axes & 1u << i;
    if (keep || !reduced) dims[rank++] = reduced ? 1 : in->dims[i];
  }
  shapecall_set(call, 0, rank, dims);
}

/* Without axes all axes are reduced, or none with noop_with_empty_axes (ONNX Reduce*-18). */
reed_status shapefn_reduce(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  bool keep = op_attr_int(call->attrs, "keepdims") != 0, known = true;
  int64_t n = 0;
  int32_t axes[REED_MAX_RANK];
  reed_status status = shapecall_has(call, 1) ? shapecall_value_count(call, 1, &n) : REED_OK;
  if (!status && n > 0) status = shapecall_axes(call, NULL, 1, n, in->rank, axes, &known);
  if (status) return status;
  if (n < 0 || !known) { /* each extent stays or becomes 1 */
    if (keep) shapecall_fresh(call, 0, in->rank);
    else if (n < 0) shapecall_unknown(call, 0);
    else shapecall_fresh(call, 0, in->rank - (int32_t)n);
    return call->status;
  }
  uint32_t reduced = 0;
  for (int64_t k = 0; k < n; k++) reduced |= 1u << axes[k];
  if (n == 0 && !op_attr_int(call->attrs, "noop_with_empty_axes")) reduced = (1u << in->rank) - 1;
  set_reduced(call, reduced, keep);
  return REED_OK;
}

/* An axis of extent 0 has no largest element: it is refused, unless the result is empty itself. */
reed_status shapefn_arg_reduce(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  int32_t axis = 0;
  reed_status status = shapecall_axis(call, op_attr_int(call->attrs, "axis"), in->rank, &axis);
  if (status) return status;
  bool others_empty = false;
  for (int32_t i = 0; i < in->rank; i++)
    others_empty = others_empty || (i != axis && !shapecall_at_least(call, in->dims[i], 1));
  if (shapecall_is(call, in->dims[axis], 0) && !others_empty)
    return reed_shape_fail(call, REED_ERROR_SHAPE, 0, "axis %d has no elements", axis);
  set_reduced(call, 1u << axis, op_attr_int(call->attrs, "keepdims") != 0);
  return REED_OK;
}
