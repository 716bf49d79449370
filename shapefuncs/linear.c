/* Shapes of matrix products: Gemm and MatMul. Common helpers: call.h. */
#include "shapefuncs/call.h"

/* [M,K] x [K,N], each of which may be transposed; C broadcasts to the result. */
reed_status shapefn_gemm(reed_shape_call *call) {
  const reed_shape_input *a = &call->inputs[0], *b = &call->inputs[1];
  int trans_a = op_attr_int(call->attrs, "transA") != 0, trans_b = op_attr_int(call->attrs, "transB") != 0;
  reed_status status = shapecall_rank(call, 0, 2);
  if (!status) status = shapecall_rank(call, 1, 2);
  if (!status) status = shapecall_same(call, a->dims[!trans_a], b->dims[trans_b], 1, "the inner extents", NULL);
  if (status) return status;
  reed_dim dims[2] = {a->dims[trans_a], b->dims[!trans_b]};
  if (shapecall_has(call, 2)) status = shapecall_broadcasts_to(call, 2, 2, dims);
  if (!status) shapecall_set(call, 0, 2, dims);
  return status;
}

/* numpy.matmul: a vector becomes a row (left) or a column (right), and this axis is dropped from the result; the axes
 * before the last two broadcast. */
reed_status shapefn_matmul(reed_shape_call *call) {
  const reed_shape_input *a = &call->inputs[0], *b = &call->inputs[1];
  reed_status status = shapecall_min_rank(call, 0, 1);
  if (!status) status = shapecall_min_rank(call, 1, 1);
  if (!status)
    status = shapecall_same(call, a->dims[a->rank - 1], b->dims[b->rank > 1 ? b->rank - 2 : 0], 1, "the inner extents",
                            NULL);
  if (status) return status;
  reed_dim dims[REED_MAX_RANK];
  int32_t rank = a->rank > 2 ? a->rank - 2 : 0;
  memcpy(dims, a->dims, (size_t)rank * sizeof *dims);
  status = shapecall_broadcast_with(call, 1, b->rank > 2 ? b->rank - 2 : 0, b->dims, &rank, dims);
  if (status) return status;
  if (a->rank > 1) dims[rank++] = a->dims[a->rank - 2];
  if (b->rank > 1) dims[rank++] = b->dims[b->rank - 1];
  if (shapecall_has(call, 2)) status = shapecall_broadcasts_to(call, 2, rank, dims);
  if (!status) shapecall_set(call, 0, rank, dims);
  return status;
}
