/* Helpers of shape functions (shapefuncs/call.h): checks and sums that several operator families share. */
#include "shapefuncs/call.h"

#include <stdio.h>

void shapecall_range(const reed_shape_call *call, reed_dim d, int64_t *out_low, int64_t *out_high) {
  *out_low = *out_high = d;
  if (call->symbols) symbols_range(call->symbols, d, out_low, out_high);
}

bool shapecall_at_least(const reed_shape_call *call, reed_dim d, int64_t n) {
  int64_t low, high;
  shapecall_range(call, d, &low, &high);
  return low >= n;
}

reed_dim shapecall_product(reed_shape_call *call, const reed_dim *dims, int32_t n) {
  reed_dim product = 1;
  for (int32_t i = 0; i < n; i++)
    if (shapecall_is(call, dims[i], 0)) return 0; /* the product is 0 for any other extents */
  for (int32_t i = 0; i < n; i++) product = reed_dim_mul(call, product, dims[i]);
  return product;
}

reed_status shapecall_value_count(reed_shape_call *call, int32_t input, int64_t *out_count) {
  const reed_shape_input *in = &call->inputs[input];
  if (in->rank > 1)
    return reed_shape_fail(call, REED_ERROR_SHAPE, input, "wants a list of numbers, not a tensor of rank %d", in->rank);
  *out_count = in->rank < 0 || (in->rank == 1 && !reed_dim_known(call, in->dims[0])) ? -1
               : in->rank == 1                                                       ? in->dims[0]
                                                                                     : 1;
  return REED_OK;
}

reed_status shapecall_scalar(reed_shape_call *call, int32_t input, reed_dim *out_value) {
  int64_t count = 0;
  reed_status status = shapecall_value_count(call, input, &count);
  if (status) return status;
  if (count != 1 && count != -1)
    return reed_shape_fail(call, REED_ERROR_SHAPE, input, "wants one number, not %lld", (long long)count);
  *out_value = reed_shape_value(call, input, 0);
  return call->status;
}

reed_status shapecall_rank(reed_shape_call *call, int32_t input, int32_t rank) {
  if (call->inputs[input].rank == rank) return REED_OK;
  return reed_shape_fail(call, REED_ERROR_SHAPE, input, "wants rank %d, not %d", rank, call->inputs[input].rank);
}

reed_status shapecall_min_rank(reed_shape_call *call, int32_t input, int32_t rank) {
  if (call->inputs[input].rank >= rank) return REED_OK;
  return reed_shape_fail(call, REED_ERROR_SHAPE, input, "wants rank %d or more, not %d", rank,
                         call->inputs[input].rank);
}

reed_status shapecall_check_rank(reed_shape_call *call, int64_t rank) {
  if (rank <= REED_MAX_RANK) return REED_OK;
  return reed_shape_fail(call, REED_ERROR_UNSUPPORTED, -1, "gives rank %lld; the largest is %d", (long long)rank,
                         REED_MAX_RANK);
}

reed_status shapecall_axis(reed_shape_call *call, int64_t axis, int32_t rank, int32_t *out_axis) {
  if (axis < -(int64_t)rank || axis >= rank)
    return reed_shape_fail(call, REED_ERROR_SHAPE, -1, "axis %lld is out of range for rank %d", (long long)axis, rank);
  *out_axis = (int32_t)(axis < 0 ? axis + rank : axis);
  return REED_OK;
}

reed_status shapecall_axes(reed_shape_call *call, const int64_t *ints, int32_t input, int64_t n, int32_t rank,
                           int32_t *out_axes, bool *out_known) {
  uint32_t seen = 0;
  *out_known = true;
  if (n > rank)
    return reed_shape_fail(call, REED_ERROR_SHAPE, ints ? -1 : input, "%lld axes for rank %d", (long long)n, rank);
  for (int64_t k = 0; k < n; k++) {
    reed_dim axis = ints ? ints[k] : reed_shape_value(call, input, k);
    if (call->status) return call->status;
    if (!ints && !reed_dim_known(call, axis)) {
      *out_known = false;
      continue;
    }
    reed_status status = shapecall_axis(call, axis, rank, &out_axes[k]);
    if (status) return status;
    if (seen & 1u << out_axes[k])
      return reed_shape_fail(call, REED_ERROR_SHAPE, ints ? -1 : input, "axis %d is named twice", out_axes[k]);
    seen |= 1u << out_axes[k];
  }
  return REED_OK;
}

static bool differ(const reed_shape_call *call, reed_dim a, reed_dim b) {
  int64_t a_low, a_high, b_low, b_high;
  shapecall_range(call, a, &a_low, &a_high);
  shapecall_range(call, b, &b_low, &b_high);
  return a_high < b_low || b_high < a_low;
}

reed_status shapecall_same(reed_shape_call *call, reed_dim a, reed_dim b, int32_t input, const char *what,
                           reed_dim *out_dim) {
  char a_text[64], b_text[64];
  if (differ(call, a, b))
    return reed_shape_fail(call, REED_ERROR_SHAPE, input, "%s must agree: %s and %s", what,
                           shapecall_dim_text(call, a, a_text), shapecall_dim_text(call, b, b_text));
  if (call->symbols) symbols_demand_equal(call->symbols, a, b);
  if (out_dim) *out_dim = reed_dim_known(call, a) ? a : b;
  return REED_OK;
}

/* The extent that a and b broadcast to; false: they do not broadcast. */
static bool broadcast_dim(reed_shape_call *call, reed_dim a, reed_dim b, reed_dim *out) {
  bool known = reed_dim_known(call, a) && reed_dim_known(call, b);
  if (known && a != b && a != 1 && b != 1) return false;
  if (!known) symbols_demand_broadcast(call->symbols, a, b);
  *out = known ? (a == 1 ? b : a) : symbols_broadcast(call->symbols, a, b);
  return true;
}

reed_status shapecall_broadcast_with(reed_shape_call *call, int32_t input, int32_t other_rank, const reed_dim *other,
                                     int32_t *rank, reed_dim *dims) {
  char a_text[256], b_text[256];
  int32_t wide = *rank > other_rank ? *rank : other_rank;
  reed_status status = shapecall_check_rank(call, wide);
  if (status) return status;
  reed_dim result[REED_MAX_RANK];
  for (int32_t i = 0; i < wide; i++) {
    int32_t a = i - (wide - *rank), b = i - (wide - other_rank);
    if (!broadcast_dim(call, a < 0 ? 1 : dims[a], b < 0 ? 1 : other[b], &result[i]))
      return reed_shape_fail(call, REED_ERROR_SHAPE, input, "cannot broadcast %s with %s",
                             shapecall_dims_text(call, *rank, dims, a_text, sizeof a_text),
                             shapecall_dims_text(call, other_rank, other, b_text, sizeof b_text));
  }
  *rank = wide;
  memcpy(dims, result, (size_t)wide * sizeof *dims);
  return REED_OK;
}

reed_status shapecall_broadcasts_to(reed_shape_call *call, int32_t input, int32_t rank, const reed_dim *dims) {
  char from[256], to[256];
  const reed_shape_input *in = &call->inputs[input];
  bool ok = in->rank <= rank;
  for (int32_t i = 0; ok && i < in->rank; i++) {
    reed_dim own = in->dims[i], target = dims[rank - in->rank + i];
    ok = !differ(call, own, target) || !differ(call, own, 1);
  }
  if (ok) return REED_OK;
  return reed_shape_fail(call, REED_ERROR_SHAPE, input, "cannot broadcast %s to %s",
                         shapecall_dims_text(call, in->rank, in->dims, from, sizeof from),
                         shapecall_dims_text(call, rank, dims, to, sizeof to));
}

void shapecall_set(reed_shape_call *call, int32_t i, int32_t rank, const reed_dim *dims) {
  if (i >= call->n_outputs) return;
  call->outputs[i].rank = rank;
  if (rank > 0) memcpy(call->outputs[i].dims, dims, (size_t)rank * sizeof *dims);
}

void shapecall_like(reed_shape_call *call, int32_t i, int32_t input) {
  shapecall_set(call, i, call->inputs[input].rank, call->inputs[input].dims);
}

void shapecall_unknown(reed_shape_call *call, int32_t i) { shapecall_set(call, i, -1, NULL); }

void shapecall_fresh(reed_shape_call *call, int32_t i, int32_t rank) {
  reed_dim dims[REED_MAX_RANK];
  for (int32_t k = 0; k < rank; k++) dims[k] = reed_dim_fresh(call);
  shapecall_set(call, i, rank, dims);
}

reed_status shapecall_ints(reed_shape_call *call, const char *name, int32_t n, int64_t *out_ints) {
  const reed_op_attr *row = op_attr_row(call->op, name);
  int64_t n_given, otherwise = row && row->each ? *row->each : 0;
  const int64_t *given = reed_attrs_ints(call->attrs, name, &n_given);
  for (int32_t i = 0; i < n; i++) out_ints[i] = given && i < n_given ? given[i] : otherwise;
  if (given && n_given != n)
    return reed_shape_fail(call, REED_ERROR_SHAPE, -1, "attribute %s has %lld numbers where %d are wanted", name,
                           (long long)n_given, n);
  return REED_OK;
}
