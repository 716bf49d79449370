/* Launches of reductions, arg reductions and softmax. */
#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"
#include "ops/cpu/calls/softmax.h"
#include "ops/cpu/common/common.h"

/* Marks the reduced axes (ONNX 18): those in `axes`; if it is absent or empty all axes, or none with
 * noop_with_empty_axes. */
static void reduced_axes(const reed_kernel_call *call, bool *out_reduced) {
  const int32_t rank = call->inputs[0].rank;
  const int64_t n = cpu_present(call, 1) ? desc_elements(&call->inputs[1]) : 0;
  const bool all = n == 0 && !op_attr_int(call->attrs, "noop_with_empty_axes");
  for (int32_t d = 0; d < rank; d++) out_reduced[d] = all;
  for (int64_t k = 0; k < n; k++) out_reduced[cpu_axis(((const int64_t *)call->host_values[1])[k], rank)] = true;
}

/* Appends a dim to a list in which neighbours of one walk are joined. */
static void add_dim(int64_t extent, int64_t stride, int64_t *extents, int64_t *strides, int32_t *n) {
  if (extent == 1) return;
  if (*n && strides[*n - 1] == stride * extent) {
    extents[*n - 1] *= extent;
    strides[*n - 1] = stride;
    return;
  }
  extents[*n] = extent;
  strides[(*n)++] = stride;
}

enum {
  BLOCK = 256,
  LONG_ROW = 1024 /* longer rows of Softmax take a block, others a warp */
};

/* Threads an output: more where an output has many elements, and where there are few outputs. apart: neighbouring
 * outputs read neighbouring elements, so that one thread each is enough if there are many. */
static int32_t lanes_of(int64_t outputs, int64_t n, bool apart) {
  int32_t lanes = 1;
  const int64_t most = apart && outputs >= 4096 ? 1 : BLOCK;
  while (lanes < most && 2 * lanes <= n) lanes *= 2;
  return lanes;
}

reed_status cuda_prepare_reduce(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  cuda_plan plan = {.call = call};
  bool reduced[REED_MAX_RANK];
  int64_t strides[REED_MAX_RANK];
  reduce_args made = {.outputs = 1, .n = 1, .dtype = in->dtype, .op = (int32_t)op_id_of(call->op)};
  reduced_axes(call, reduced);
  cpu_dense_strides(in->rank, in->dims, strides);
  for (int32_t d = 0; d < in->rank; d++) {
    if (reduced[d]) add_dim(in->dims[d], strides[d], made.reduced, made.reduced_strides, &made.n_reduced);
    else add_dim(in->dims[d], strides[d], made.kept, made.kept_strides, &made.n_kept);
    *(reduced[d] ? &made.n : &made.outputs) *= in->dims[d];
  }
  made.lanes = lanes_of(made.outputs, made.n, made.n_reduced && made.reduced_strides[made.n_reduced - 1] != 1);
  made.splits = made.lanes == BLOCK ? cuda_splits(made.outputs, made.n) : 1;
  const int64_t parts = made.splits > 1 ? made.outputs * made.splits * (int64_t)sizeof *made.parts : 0;
  if (made.outputs) {
    cuda_plan_each(&plan, CUDA_reduce, made.outputs * made.splits * made.lanes, &made);
    CUDA_INPUT(&plan, reduce_args, x, 0);
    if (parts) {
      CUDA_PART(&plan, reduce_args, parts, CUDA_FROM_WORKSPACE, 0, 0, parts, true);
      cuda_plan_launch(&plan, CUDA_reduce_join, made.outputs, 0, &made);
      CUDA_PART(&plan, reduce_args, parts, CUDA_FROM_WORKSPACE, 0, 0, parts, false);
    }
    CUDA_OUTPUT(&plan, reduce_args, y, 0);
  }
  return cuda_plan_close(&plan, parts, out_kernel);
}

reed_status cuda_prepare_arg_reduce(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  cuda_plan plan = {.call = call};
  const int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), in->rank);
  arg_reduce_args made = {.outputs = desc_elements(&call->outputs[0]),
                          .axis = in->rank ? in->dims[axis] : 1,
                          .inner = cpu_product(in->dims, axis + 1, in->rank),
                          .dtype = in->dtype,
                          .smallest = op_id_of(call->op) == OP_ArgMin,
                          .last = op_attr_int(call->attrs, "select_last_index") != 0,
                          .counted = cuda_counted(call)};
  made.lanes = lanes_of(made.outputs, made.axis, made.inner != 1);
  made.splits = made.lanes == BLOCK ? cuda_splits(made.outputs, made.axis) : 1;
  const int64_t parts = made.splits > 1 ? made.outputs * made.splits * (int64_t)sizeof *made.parts : 0;
  if (made.outputs) {
    cuda_plan_each(&plan, CUDA_arg_reduce, made.outputs * made.splits * made.lanes, &made);
    CUDA_INPUT(&plan, arg_reduce_args, x, 0);
    cuda_plan_count(&plan, offsetof(arg_reduce_args, counted));
    if (parts) {
      CUDA_PART(&plan, arg_reduce_args, parts, CUDA_FROM_WORKSPACE, 0, 0, parts, true);
      cuda_plan_launch(&plan, CUDA_arg_reduce_join, made.outputs, 0, &made);
      CUDA_PART(&plan, arg_reduce_args, parts, CUDA_FROM_WORKSPACE, 0, 0, parts, false);
      cuda_plan_count(&plan, offsetof(arg_reduce_args, counted));
    }
    CUDA_OUTPUT(&plan, arg_reduce_args, y, 0);
  }
  return cuda_plan_close(&plan, parts, out_kernel);
}

reed_status cuda_prepare_softmax(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  softmax s;
  softmax_read(call, &s);
  softmax_args made = {.rows = s.outer * s.inner,
                       .axis = s.axis,
                       .inner = s.inner,
                       .power = s.p,
                       .dtype = s.dtype,
                       .kind = s.kind,
                       .counted = cuda_counted(call)};
  made.lanes = made.axis <= LONG_ROW ? 32 : BLOCK;
  made.splits = cuda_splits(made.rows, made.axis);
  const int64_t parts = made.splits > 1 ? made.rows * made.splits * (int64_t)sizeof *made.parts : 0;
  if (made.rows && made.axis && parts) {
    cuda_plan_launch(&plan, CUDA_softmax_parts, made.rows * made.splits, 0, &made);
    CUDA_INPUT(&plan, softmax_args, x, 0);
    CUDA_PART(&plan, softmax_args, parts, CUDA_FROM_WORKSPACE, 0, 0, parts, true);
    cuda_plan_count(&plan, offsetof(softmax_args, counted));
  }
  if (made.rows && made.axis) {
    cuda_plan_each(&plan, CUDA_softmax, made.rows * made.splits * made.lanes, &made);
    CUDA_INPUT(&plan, softmax_args, x, 0);
    CUDA_PART(&plan, softmax_args, parts, CUDA_FROM_WORKSPACE, 0, 0, parts, false);
    CUDA_OUTPUT(&plan, softmax_args, y, 0);
    cuda_plan_count(&plan, offsetof(softmax_args, counted));
  }
  return cuda_plan_close(&plan, parts, out_kernel);
}
