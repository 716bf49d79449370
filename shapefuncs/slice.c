/* The shape of Slice: Python's rule on numbers and symbols. */
#include "shapefuncs/call.h"

#define NEAR_INFINITY ((int64_t)1 << 62)

/* Where a start or end lands: counted from the end when negative, then clamped to low..high. A symbolic extent is taken to be far below 2^62,
 * so that an end of INT64_MAX ("to the end") is the extent itself. *out_known: false where the sign is unknown. */
static reed_dim landing(reed_shape_call *call, reed_dim at, reed_dim extent, reed_dim low, reed_dim high, bool *out_known) {
  int64_t at_low, at_high;
  shapecall_range(call, at, &at_low, &at_high);
  *out_known = *out_known && (at_low >= 0 || at_high < 0);
  if (!reed_dim_known(call, extent) && reed_dim_known(call, at) && at >= NEAR_INFINITY) return high;
  if (!reed_dim_known(call, extent) && reed_dim_known(call, at) && at <= -NEAR_INFINITY) return low;
  if (at_high < 0) at = reed_dim_add(call, at, extent);
  return reed_dim_max(call, low, reed_dim_min(call, at, high));
}

static reed_dim sliced_extent(reed_shape_call *call, reed_dim extent, reed_dim start, reed_dim end, reed_dim step) {
  bool known = reed_dim_known(call, step);
  if (!known) return reed_dim_fresh(call);
  if (step < -INT64_MAX) step = -INT64_MAX; /* one element either way */
  bool forward = step > 0;
  reed_dim last = reed_dim_sub(call, extent, 1);
  reed_dim low = forward ? 0 : -1, high = forward ? extent : last;
  start = landing(call, start, extent, forward ? 0 : reed_dim_min(call, 0, last), high, &known);
  end = landing(call, end, extent, low, high, &known);
  if (!known) return reed_dim_fresh(call);
  reed_dim span = forward ? reed_dim_sub(call, end, start) : reed_dim_sub(call, start, end);
  return reed_dim_max(call, reed_dim_ceildiv(call, span, forward ? step : -step), 0);
}

/* starts, ends and the optional axes (default 0..) and steps (default 1) are lists of one length (ONNX Slice-13). */
reed_status shapefn_slice(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  int32_t axes[REED_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
  int64_t n = -1;
  bool known = true;
  reed_status status = REED_OK;
  for (int32_t i = 1; i < 5 && !status; i++) {
    int64_t own = -1;
    if (!shapecall_has(call, i)) continue;
    status = shapecall_value_count(call, i, &own);
    if (!status && own >= 0 && n >= 0 && own != n)
      status = reed_shape_fail(call, REED_ERROR_SHAPE, i, "has %lld elements where starts has %lld", (long long)own, (long long)n);
    if (own >= 0) n = own;
  }
  if (!status && n > in->rank) status = reed_shape_fail(call, REED_ERROR_SHAPE, 1, "%lld axes for rank %d", (long long)n, in->rank);
  if (!status && n >= 0 && shapecall_has(call, 3)) status = shapecall_axes(call, NULL, 3, n, in->rank, axes, &known);
  if (status) return status;
  if (n < 0 || !known) {
    shapecall_fresh(call, 0, in->rank);
    return call->status;
  }
  reed_dim dims[REED_MAX_RANK];
  memcpy(dims, in->dims, (size_t)in->rank * sizeof *dims);
  for (int64_t k = 0; k < n; k++) {
    reed_dim step = shapecall_has(call, 4) ? reed_shape_value(call, 4, k) : 1;
    if (shapecall_is(call, step, 0)) return reed_shape_fail(call, REED_ERROR_VALUE, 4, "the step of axis %d is 0", axes[k]);
    reed_dim *extent = &dims[axes[k]];
    *extent = sliced_extent(call, *extent, reed_shape_value(call, 1, k), reed_shape_value(call, 2, k), step);
  }
  shapecall_set(call, 0, in->rank, dims);
  return call->status;
}
