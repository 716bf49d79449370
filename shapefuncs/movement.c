/* Shapes of data movement along whole axes: Concat, DepthToSpace, SpaceToDepth, Expand, Tile, Transpose, Trilu,
 * ReverseSequence, Pad, Split, TensorScatter. Common helpers: call.h. */
#include "shapefuncs/call.h"

reed_status shapefn_concat(reed_shape_call *call) {
  const reed_shape_input *first = &call->inputs[0];
  int32_t axis = 0;
  reed_dim dims[REED_MAX_RANK];
  reed_status status = shapecall_axis(call, op_attr_int(call->attrs, "axis"), first->rank, &axis);
  if (status) return status;
  memcpy(dims, first->dims, (size_t)first->rank * sizeof *dims);
  for (int32_t i = 1; i < call->n_inputs; i++) {
    status = shapecall_rank(call, i, first->rank);
    for (int32_t k = 0; k < first->rank && !status; k++) {
      reed_dim own = call->inputs[i].dims[k];
      if (k == axis) dims[k] = reed_dim_add(call, dims[k], own);
      else status = shapecall_same(call, dims[k], own, i, "extents beside the axis", &dims[k]);
    }
    if (status) return status;
  }
  shapecall_set(call, 0, first->rank, dims);
  return call->status;
}

/* Reads the block size of [N,C,H,W]. */
static reed_status block_of(reed_shape_call *call, int64_t *out_block) {
  reed_status status = shapecall_rank(call, 0, 4);
  if (status) return status;
  *out_block = op_attr_int(call->attrs, "blocksize");
  return REED_OK;
}

static reed_dim divide_evenly(reed_shape_call *call, reed_dim d, int64_t by, const char *what) {
  if (reed_dim_known(call, d) && d % by)
    (void)reed_shape_fail(call, REED_ERROR_SHAPE, 0, "%s %lld does not divide by %lld", what, (long long)d,
                          (long long)by);
  return reed_dim_floordiv(call, d, by);
}

reed_status shapefn_depth_to_space(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  int64_t block = 1;
  reed_status status = block_of(call, &block);
  if (status) return status;
  shapecall_image image = shapecall_image_of(call, 4);
  reed_dim dims[4] = {in->dims[0]};
  dims[image.channel] = divide_evenly(call, in->dims[image.channel], block * block, "the number of channels");
  for (int32_t i = 0; i < 2; i++) dims[image.spatial + i] = reed_dim_mul(call, in->dims[image.spatial + i], block);
  shapecall_set(call, 0, 4, dims);
  return call->status;
}

reed_status shapefn_space_to_depth(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  int64_t block = 1;
  reed_status status = block_of(call, &block);
  if (status) return status;
  shapecall_image image = shapecall_image_of(call, 4);
  reed_dim dims[4] = {in->dims[0]};
  dims[image.channel] = reed_dim_mul(call, in->dims[image.channel], block * block);
  for (int32_t i = 0; i < 2; i++)
    dims[image.spatial + i] = divide_evenly(call, in->dims[image.spatial + i], block, i ? "the width" : "the height");
  shapecall_set(call, 0, 4, dims);
  return call->status;
}

/* The result is the broadcast of data and shape, not the shape itself (ONNX Expand-13). */
reed_status shapefn_expand(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  int64_t n = 0;
  reed_status status = shapecall_value_count(call, 1, &n);
  if (!status) status = shapecall_check_rank(call, n);
  if (status) return status;
  if (n < 0) {
    shapecall_unknown(call, 0);
    return REED_OK;
  }
  reed_dim wanted[REED_MAX_RANK], dims[REED_MAX_RANK];
  for (int32_t k = 0; k < n; k++) {
    wanted[k] = reed_shape_value(call, 1, k);
    if (reed_dim_known(call, wanted[k]) && wanted[k] < 0)
      return reed_shape_fail(call, REED_ERROR_VALUE, 1, "extent %lld", (long long)wanted[k]);
  }
  int32_t rank = in->rank;
  memcpy(dims, in->dims, (size_t)rank * sizeof *dims);
  status = shapecall_broadcast_with(call, 1, (int32_t)n, wanted, &rank, dims);
  if (status) return status;
  shapecall_set(call, 0, rank, dims);
  return call->status;
}

reed_status shapefn_tile(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  int64_t n = 0;
  reed_status status = shapecall_value_count(call, 1, &n);
  if (status) return status;
  if (n >= 0 && n != in->rank)
    return reed_shape_fail(call, REED_ERROR_SHAPE, 1, "%lld repeats for rank %d", (long long)n, in->rank);
  reed_dim dims[REED_MAX_RANK];
  for (int32_t k = 0; k < in->rank; k++) {
    reed_dim repeats = reed_shape_value(call, 1, k);
    if (reed_dim_known(call, repeats) && repeats < 0)
      return reed_shape_fail(call, REED_ERROR_VALUE, 1, "repeats of %lld", (long long)repeats);
    dims[k] = reed_dim_mul(call, in->dims[k], repeats);
  }
  shapecall_set(call, 0, in->rank, dims);
  return call->status;
}

/* the last two axes are matrices */
reed_status shapefn_trilu(reed_shape_call *call) {
  reed_status status = shapecall_min_rank(call, 0, 2);
  if (!status) shapecall_like(call, 0, 0);
  return status;
}

/* batch_axis and time_axis are 0 and 1, or 1 and 0; a length per sequence */
reed_status shapefn_reverse_sequence(reed_shape_call *call) {
  int64_t batch = op_attr_int(call->attrs, "batch_axis"), time = op_attr_int(call->attrs, "time_axis");
  reed_status status = shapecall_min_rank(call, 0, 2);
  if (!status) status = shapecall_rank(call, 1, 1);
  if (status) return status;
  if ((batch != 0 && batch != 1) || time != 1 - batch)
    return reed_shape_fail(call, REED_ERROR_VALUE, -1, "batch_axis %lld and time_axis %lld are not 0 and 1",
                           (long long)batch, (long long)time);
  if (call->inputs[0].rank >= 0)
    status = shapecall_same(call, call->inputs[0].dims[batch], call->inputs[1].dims[0], 1,
                            "the numbers of sequences and of lengths", NULL);
  if (!status) shapecall_like(call, 0, 0);
  return status;
}

reed_status shapefn_transpose(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  int64_t n;
  const int64_t *perm = reed_attrs_ints(call->attrs, "perm", &n);
  if (in->rank < 0) {
    if (perm && n <= REED_MAX_RANK) shapecall_fresh(call, 0, (int32_t)n);
    else shapecall_unknown(call, 0);
    return call->status;
  }
  if (perm && n != in->rank)
    return reed_shape_fail(call, REED_ERROR_SHAPE, -1, "attribute perm has %lld axes for rank %d", (long long)n,
                           in->rank);
  reed_dim dims[REED_MAX_RANK];
  uint32_t seen = 0;
  for (int32_t k = 0; k < in->rank; k++) {
    int64_t from = perm ? perm[k] : in->rank - 1 - k;
    if (from < 0 || from >= in->rank || (seen & 1u << from))
      return reed_shape_fail(call, REED_ERROR_SHAPE, -1, "attribute perm: %lld is out of range or there twice",
                             (long long)from);
    seen |= 1u << from;
    dims[k] = in->dims[from];
  }
  shapecall_set(call, 0, in->rank, dims);
  return REED_OK;
}

/* One axis of Pad: negative pads crop. Modes other than `constant` repeat the cropped input, so at least one element
 * must remain. */
static reed_status pad_axis(reed_shape_call *call, reed_dim begin, reed_dim end, bool constant, reed_dim *dim) {
  reed_dim own = *dim;
  *dim = reed_dim_add(call, own, reed_dim_add(call, begin, end));
  if (call->status || !reed_dim_known(call, own) || !reed_dim_known(call, begin) || !reed_dim_known(call, end))
    return call->status;
  reed_dim left = reed_dim_add(call, own, reed_dim_add(call, begin < 0 ? begin : 0, end < 0 ? end : 0));
  if (call->status || (*dim >= 0 && (constant || left > 0 || *dim == 0))) return call->status;
  return reed_shape_fail(call, REED_ERROR_SHAPE, 1, "cannot pad an extent of %lld by %lld and %lld", (long long)own,
                         (long long)begin, (long long)end);
}

/* Begins of all axes, then ends of all axes (ONNX Pad-19). */
reed_status shapefn_pad(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  int32_t axes[REED_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
  int64_t n_axes = in->rank, n_pads = 0;
  bool known = true;
  bool constant = strcmp(op_attr_string(call->attrs, "mode"), "constant") == 0;
  reed_status status = shapecall_value_count(call, 1, &n_pads);
  if (!status && shapecall_has(call, 3)) status = shapecall_value_count(call, 3, &n_axes);
  if (!status && shapecall_has(call, 3) && n_axes >= 0)
    status = shapecall_axes(call, NULL, 3, n_axes, in->rank, axes, &known);
  if (status) return status;
  if (n_axes >= 0 && n_pads >= 0 && n_pads != 2 * n_axes)
    return reed_shape_fail(call, REED_ERROR_SHAPE, 1, "%lld pads for %lld axes", (long long)n_pads, (long long)n_axes);
  if (n_axes < 0 || !known) {
    shapecall_fresh(call, 0, in->rank);
    return call->status;
  }
  reed_dim dims[REED_MAX_RANK];
  memcpy(dims, in->dims, (size_t)in->rank * sizeof *dims);
  for (int32_t k = 0; k < n_axes && !status; k++) {
    reed_dim begin = reed_shape_value(call, 1, k), end = reed_shape_value(call, 1, n_axes + k);
    status = pad_axis(call, begin, end, constant, &dims[axes[k]]);
  }
  if (status) return status;
  shapecall_set(call, 0, in->rank, dims);
  return call->status;
}

/* Sizes from the input: they must add up to the extent. */
static reed_status split_given(reed_shape_call *call, int32_t axis, reed_dim *sizes) {
  int64_t n = 0;
  reed_status status = shapecall_value_count(call, 1, &n);
  if (status) return status;
  if (n >= 0 && n != call->n_outputs)
    return reed_shape_fail(call, REED_ERROR_SHAPE, 1, "%lld sizes for %d outputs", (long long)n, call->n_outputs);
  reed_dim sum = 0;
  for (int32_t i = 0; i < call->n_outputs; i++) {
    sizes[i] = reed_shape_value(call, 1, i);
    if (reed_dim_known(call, sizes[i]) && sizes[i] < 0)
      return reed_shape_fail(call, REED_ERROR_VALUE, 1, "size %lld", (long long)sizes[i]);
    sum = reed_dim_add(call, sum, sizes[i]);
  }
  if (call->status) return call->status;
  return shapecall_same(call, sum, call->inputs[0].dims[axis], 1, "the sum of the sizes and the extent", NULL);
}

/* Equal parts, except the last one, which may be smaller (ONNX Split-18); if rounding up leaves no elements for a part,
 * it is empty. */
static reed_status split_evenly(reed_shape_call *call, int32_t axis, reed_dim *sizes) {
  int64_t n = reed_attrs_int(call->attrs, "num_outputs", call->n_outputs);
  if (n != call->n_outputs)
    return reed_shape_fail(call, REED_ERROR_SHAPE, -1, "num_outputs is %lld, there are %d", (long long)n,
                           call->n_outputs);
  reed_dim extent = call->inputs[0].dims[axis], part = reed_dim_ceildiv(call, extent, n);
  for (int32_t i = 0; i < n; i++) {
    reed_dim rest = reed_dim_max(call, reed_dim_sub(call, extent, reed_dim_mul(call, part, i)), 0);
    sizes[i] = reed_dim_min(call, part, rest);
  }
  return call->status;
}

reed_status shapefn_split(reed_shape_call *call) {
  const reed_shape_input *in = &call->inputs[0];
  int32_t axis = 0;
  reed_dim sizes[REED_MAX_OPERANDS], dims[REED_MAX_RANK];
  if (call->n_outputs < 1 || call->n_outputs > REED_MAX_OPERANDS)
    return reed_shape_fail(call, REED_ERROR_SHAPE, -1, "%d outputs", call->n_outputs);
  reed_status status = shapecall_axis(call, op_attr_int(call->attrs, "axis"), in->rank, &axis);
  if (!status) status = shapecall_has(call, 1) ? split_given(call, axis, sizes) : split_evenly(call, axis, sizes);
  if (status) return status;
  memcpy(dims, in->dims, (size_t)in->rank * sizeof *dims);
  for (int32_t i = 0; i < call->n_outputs; i++) {
    dims[axis] = sizes[i];
    shapecall_set(call, i, in->rank, dims);
  }
  return REED_OK;
}

/* The extent of the result along the axis: the cache's, or operand `rows` if that is more. */
static reed_status scattered_rows(reed_shape_call *call, reed_dim *rows) {
  reed_dim least;
  if (!shapecall_has(call, 3)) return REED_OK;
  if (strcmp(op_attr_string(call->attrs, "mode"), "linear") != 0)
    return reed_shape_fail(call, REED_ERROR_SHAPE, 3, "more rows for a circle");
  reed_status status = shapecall_scalar(call, 3, &least);
  if (!status) *rows = reed_dim_max(call, *rows, least);
  return status ? status : call->status;
}

/* The update has the result's extents, but for a smaller one along the axis, which is not the first. */
reed_status shapefn_tensor_scatter(reed_shape_call *call) {
  const reed_shape_input *cache = &call->inputs[0], *update = &call->inputs[1];
  reed_dim dims[REED_MAX_RANK];
  int32_t axis = 0;
  reed_status status = shapecall_min_rank(call, 0, 2);
  if (!status) status = shapecall_rank(call, 1, cache->rank);
  if (!status) status = shapecall_axis(call, op_attr_int(call->attrs, "axis"), cache->rank, &axis);
  if (!status && axis == 0) status = reed_shape_fail(call, REED_ERROR_SHAPE, 0, "attribute axis is the batch");
  for (int32_t d = 0; d < cache->rank && !status; d++)
    if (d != axis) status = shapecall_same(call, cache->dims[d], update->dims[d], 1, "extents beside the axis", NULL);
  if (!status) memcpy(dims, cache->dims, (size_t)cache->rank * sizeof *dims);
  if (!status) status = scattered_rows(call, &dims[axis]);
  if (!status && reed_dim_known(call, dims[axis]) && reed_dim_known(call, update->dims[axis]) &&
      update->dims[axis] > dims[axis])
    status = reed_shape_fail(call, REED_ERROR_SHAPE, 1, "%lld rows for a cache of %lld", (long long)update->dims[axis],
                             (long long)dims[axis]);
  if (!status && shapecall_has(call, 2)) {
    status = shapecall_rank(call, 2, 1);
    if (!status) status = shapecall_same(call, cache->dims[0], call->inputs[2].dims[0], 2, "the batches", NULL);
  }
  if (!status) shapecall_set(call, 0, cache->rank, dims);
  return status;
}
