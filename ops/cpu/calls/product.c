/* Reading a MatMul or Gemm call: extents and strides of its matrices and of the batch. */
#include "ops/cpu/calls/product.h"

#include "base/desc.h"

static reed_status misfit(const reed_kernel_call *call) {
  char a[96], b[96], y[96];
  return reed_kernel_fail(call, REED_ERROR_SHAPE, "%s times %s does not give %s",
                          desc_text(&call->inputs[0], a, sizeof a), desc_text(&call->inputs[1], b, sizeof b),
                          desc_text(&call->outputs[0], y, sizeof y));
}

/* Strides of an operand's batch extents at the coordinates of Y's. False if they do not broadcast. */
static bool read_batch(const product *p, const reed_desc *operand, int32_t operand_batch, const int64_t *strides,
                       int64_t *out) {
  for (int32_t i = p->batch_rank - 1, k = operand_batch - 1; i >= 0; i--, k--) {
    int64_t extent = k >= 0 ? operand->dims[k] : 1;
    if (extent != 1 && extent != p->batch_dims[i]) return false;
    out[i] = extent == 1 ? 0 : strides[k];
  }
  return operand_batch <= p->batch_rank;
}

static reed_status read_matmul(const reed_kernel_call *call, product *p) {
  const reed_desc *a = &call->inputs[0], *b = &call->inputs[1], *y = &call->outputs[0];
  if (a->rank < 1 || b->rank < 1) return misfit(call);
  bool row = a->rank == 1, column = b->rank == 1;
  p->m = row ? 1 : a->dims[a->rank - 2];
  p->k = a->dims[a->rank - 1];
  p->n = column ? 1 : b->dims[b->rank - 1];
  p->batch_rank = y->rank - !row - !column;
  if (p->batch_rank < 0 || (column ? b->dims[0] : b->dims[b->rank - 2]) != p->k) return misfit(call);
  memcpy(p->batch_dims, y->dims, (size_t)p->batch_rank * sizeof *p->batch_dims);
  int64_t a_strides[REED_MAX_RANK], b_strides[REED_MAX_RANK];
  cpu_input_strides(call, 0, a_strides);
  cpu_input_strides(call, 1, b_strides);
  p->a_row = row ? p->k : a_strides[a->rank - 2];
  p->a_column = 1;
  p->b_row = column ? 1 : b_strides[b->rank - 2];
  p->b_column = 1;
  if (!read_batch(p, a, row ? 0 : a->rank - 2, a_strides, p->a_batch) ||
      !read_batch(p, b, column ? 0 : b->rank - 2, b_strides, p->b_batch))
    return misfit(call);
  return REED_OK;
}

static reed_status read_gemm(const reed_kernel_call *call, product *p) {
  const reed_desc *a = &call->inputs[0], *b = &call->inputs[1];
  bool trans_a = op_attr_int(call->attrs, "transA") != 0, trans_b = op_attr_int(call->attrs, "transB") != 0;
  if (a->rank != 2 || b->rank != 2 || call->outputs[0].rank != 2) return misfit(call);
  p->m = a->dims[trans_a];
  p->k = a->dims[!trans_a];
  p->n = b->dims[!trans_b];
  if (b->dims[trans_b] != p->k) return misfit(call);
  int64_t a_strides[REED_MAX_RANK], b_strides[REED_MAX_RANK];
  cpu_input_strides(call, 0, a_strides);
  cpu_input_strides(call, 1, b_strides);
  p->a_row = trans_a ? 1 : a_strides[0];
  p->a_column = trans_a ? a_strides[0] : 1;
  p->b_row = trans_b ? 1 : b_strides[0];
  p->b_column = trans_b ? b_strides[0] : 1;
  p->alpha = op_attr_float(call->attrs, "alpha");
  p->beta = op_attr_float(call->attrs, "beta");
  return REED_OK;
}

bool product_one_each(const product *p, const int64_t *strides, int64_t matrix) {
  for (int32_t i = p->batch_rank - 1; i >= 0; i--) {
    if (p->batch_dims[i] != 1 && strides[i] != matrix) return false;
    matrix *= p->batch_dims[i];
  }
  return true;
}

bool product_only_one(const product *p, const int64_t *strides) {
  for (int32_t i = 0; i < p->batch_rank; i++)
    if (strides[i] != 0 && p->batch_dims[i] != 1) return false;
  return true;
}

reed_status product_read(const reed_kernel_call *call, bool gemm, product *p) {
  const reed_desc *y = &call->outputs[0];
  *p = (product){.dtype = call->inputs[0].dtype, .team = cpu_env_team(call), .alpha = 1, .beta = 1};
  reed_status status = gemm ? read_gemm(call, p) : read_matmul(call, p);
  if (status != REED_OK) return status;
  activation_read(call, &p->activation);
  p->batch = cpu_product(p->batch_dims, 0, p->batch_rank);
  if (desc_elements(y) != p->batch * p->m * p->n) return misfit(call);
  p->has_c = cpu_present(call, 2) && p->beta != 0;
  if (p->has_c) {
    int64_t strides[REED_MAX_RANK];
    if (!cpu_broadcast_strides(&call->inputs[2], y, strides)) {
      char c[96], to[96];
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "%s does not broadcast to %s",
                              desc_text(&call->inputs[2], c, sizeof c), desc_text(y, to, sizeof to));
    }
    memcpy(p->c_batch, strides, (size_t)p->batch_rank * sizeof *strides);
    int32_t axis = p->batch_rank;
    bool row = !gemm && call->inputs[0].rank == 1, column = !gemm && call->inputs[1].rank == 1;
    p->c_row = row ? 0 : strides[axis++];
    p->c_column = column ? 0 : strides[axis];
  }
  p->has_residual = cpu_present(call, 3);
  if (p->has_residual && !desc_equal(&call->inputs[3], y)) return misfit(call);
  p->exact_ints = p->alpha == 1 && p->beta == 1 && p->activation.kind == ACTIVATION_NONE;
  return REED_OK;
}
