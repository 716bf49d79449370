/* The shape of Slice: Python's rule on numbers and symbols. Common helpers: call.h. */
#include "shapefuncs/call.h"

#define NEAR_INFINITY ((int64_t)1 << 62)

/* A start or end counted from 0. A symbolic extent is taken to be far below 2^62, so that INT64_MAX ("to the end")
 * becomes the extent itself, and its negation lies before the first element. *known becomes false for an unknown sign.
 */
static reed_dim counted(reed_shape_call *call, reed_dim at, reed_dim extent, bool *known) {
  int64_t low, high;
  shapecall_range(call, at, &low, &high);
  *known = *known && (low >= 0 || high < 0);
  if (!reed_dim_known(call, extent) && low >= NEAR_INFINITY) return extent;
  if (!reed_dim_known(call, extent) && high <= -NEAR_INFINITY) return -1;
  if (reed_dim_known(call, extent) && reed_dim_known(call, at)) /* clamped, so that nothing below can overflow */
    at = at > extent ? extent : at < -extent - 1 ? -extent - 1 : at;
  return high < 0 ? reed_dim_add(call, at, extent) : at;
}

/* The number of elements from start to end by step. Starts are clamped to the existing elements, ends to one beyond
 * them (ONNX Slice-13). Clamps are written min(end, extent) - max(start, 0) = min(end - start, extent - start, end,
 * extent), which leaves symbols simpler, or left out if the result is 0 either way. */
static reed_dim sliced_extent(reed_shape_call *call, reed_dim extent, reed_dim start, reed_dim end, reed_dim step) {
  bool known = reed_dim_known(call, step);
  int64_t low, high, end_low, end_high;
  shapecall_range(call, start, &low, &high);
  shapecall_range(call, end, &end_low, &end_high);
  if (low < 0 && high == 0 && end_low >= NEAR_INFINITY && known && step == 1) /* symbols: the last -start, or all */
    return symbols_last(call->symbols, extent, reed_dim_sub(call, 0, start));
  start = counted(call, start, extent, &known);
  end = counted(call, end, extent, &known);
  if (!known) return reed_dim_fresh(call);
  if (step < -INT64_MAX) step = -INT64_MAX; /* one element either way */
  reed_dim span;
  if (step > 0) {
    span = reed_dim_min(call, reed_dim_sub(call, end, start), reed_dim_sub(call, extent, start));
    if (!shapecall_at_least(call, start, 0)) span = reed_dim_min(call, span, reed_dim_min(call, end, extent));
  } else {
    reed_dim last = reed_dim_sub(call, extent, 1);
    start = reed_dim_max(call, reed_dim_min(call, start, last), reed_dim_min(call, 0, last));
    span = reed_dim_min(call, reed_dim_sub(call, start, reed_dim_max(call, end, -1)), reed_dim_add(call, start, 1));
  }
  return reed_dim_max(call, reed_dim_ceildiv(call, span, step > 0 ? step : -step), 0);
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
      status = reed_shape_fail(call, REED_ERROR_SHAPE, i, "has %lld elements where starts has %lld", (long long)own,
                               (long long)n);
    if (own >= 0) n = own;
  }
  if (!status && n > in->rank)
    status = reed_shape_fail(call, REED_ERROR_SHAPE, 1, "%lld axes for rank %d", (long long)n, in->rank);
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
    if (shapecall_is(call, step, 0))
      return reed_shape_fail(call, REED_ERROR_VALUE, 4, "the step of axis %d is 0", axes[k]);
    reed_dim *extent = &dims[axes[k]];
    *extent = sliced_extent(call, *extent, reed_shape_value(call, 1, k), reed_shape_value(call, 2, k), step);
  }
  shapecall_set(call, 0, in->rank, dims);
  return call->status;
}
