/* Shapes of element-wise operators: the input's shape, or the shape that the inputs broadcast to. Common helpers:
 * call.h. */
#include "ops/fused.h"
#include "shapefuncs/call.h"

static reed_status like_input(reed_shape_call *call) {
  for (int32_t i = 0; i < call->n_outputs; i++) shapecall_like(call, i, 0);
  return REED_OK;
}

reed_status shapefn_elementwise(reed_shape_call *call) { return like_input(call); }
/* min and max are scalars, whose values do not affect the shape */
reed_status shapefn_clip(reed_shape_call *call) { return like_input(call); }
reed_status shapefn_cast(reed_shape_call *call) { return like_input(call); }
reed_status shapefn_identity(reed_shape_call *call) { return like_input(call); }
/* output and mask */
reed_status shapefn_dropout(reed_shape_call *call) { return like_input(call); }

reed_status shapefn_cumsum(reed_shape_call *call) {
  reed_status status = shapecall_min_rank(call, 0, 1);
  return status ? status : like_input(call);
}

/* All inputs against each other (ONNX: multidirectional broadcasting). */
reed_status shapefn_broadcast(reed_shape_call *call) {
  reed_dim dims[REED_MAX_RANK];
  int32_t rank = 0;
  for (int32_t i = 0; i < call->n_inputs; i++) {
    reed_status status = shapecall_broadcast_with(call, i, call->inputs[i].rank, call->inputs[i].dims, &rank, dims);
    if (status) return status;
  }
  shapecall_set(call, 0, rank, dims);
  return REED_OK;
}

reed_status shapefn_fused(reed_shape_call *call) { return shapefn_broadcast(call); }

/* The rows of all inputs against each other, and a column for each result. */
reed_status shapefn_fused_columns(reed_shape_call *call) {
  reed_dim dims[REED_MAX_RANK];
  int32_t rank = 0;
  int64_t n_results;
  if (!reed_attrs_ints(call->attrs, "results", &n_results) || n_results < 1 || n_results > FUSED_RESULTS)
    return reed_shape_fail(call, REED_ERROR_VALUE, -1, "makes no columns, or too many");
  for (int32_t i = 0; i < call->n_inputs; i++) {
    const int32_t rows = call->inputs[i].rank - (call->inputs[i].rank > 0);
    reed_status status = shapecall_broadcast_with(call, i, rows, call->inputs[i].dims, &rank, dims);
    if (status) return status;
  }
  if (rank == REED_MAX_RANK) return reed_shape_fail(call, REED_ERROR_SHAPE, -1, "has too many axes with its columns");
  dims[rank++] = n_results;
  shapecall_set(call, 0, rank, dims);
  return REED_OK;
}

/* X and Y have one dtype, the condition its own. */
reed_status shapefn_where(reed_shape_call *call) {
  reed_dtype x = call->inputs[1].dtype, y = call->inputs[2].dtype;
  if (x != y)
    return reed_shape_fail(call, REED_ERROR_TYPE, 2, "is %s where X is %s", reed_dtype_name(y), reed_dtype_name(x));
  return shapefn_broadcast(call);
}

/* The slope must broadcast to X (ONNX: unidirectional broadcasting). */
reed_status shapefn_prelu(reed_shape_call *call) {
  reed_status status = shapecall_broadcasts_to(call, 1, call->inputs[0].rank, call->inputs[0].dims);
  return status ? status : like_input(call);
}
