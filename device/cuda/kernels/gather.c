/* Launches of Gather, GatherND and GatherElements. */
#include <string.h>

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"
#include "ops/cpu/common/common.h"

/* Turns elements into vectors where blocks are whole vectors. */
static void by_vectors(gather_args *a) {
  const int64_t elements = 16 / a->size;
  if (a->counted_part == COUNTED_BLOCK || a->block % elements || a->batch % elements) return;
  if (a->counted.factor && a->n / elements % a->counted.capacity) return;
  a->n /= elements;
  a->block /= elements;
  a->batch /= elements;
  for (int32_t c = 0; c < a->n_components; c++) a->strides[c] /= elements;
  a->size = 16;
}

static reed_status close_gather(const reed_kernel_call *call, gather_args *made, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  made->unit = made->size;
  by_vectors(made);
  if (made->n) {
    cuda_plan_each(&plan, CUDA_gather, made->n, made);
    const bool indices = made->counted_part == COUNTED_INDICES;
    if (made->counted.factor) cuda_plan_extent(&plan, offsetof(gather_args, counted), indices ? 1 : 0);
    if (made->rows.factor) cuda_plan_extent(&plan, offsetof(gather_args, rows), 0);
    CUDA_INPUT(&plan, gather_args, x, 0);
    CUDA_INPUT(&plan, gather_args, indices, 1);
    CUDA_OUTPUT(&plan, gather_args, y, 0);
    CUDA_FAULT(&plan, gather_args, fault, launch);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}

static gather_args gather_of(const reed_kernel_call *call) {
  const bool indices = cuda_is_counted(call, 1); /* of data that are counted too the indices' axis is the counted one */
  return (gather_args){.counted = indices ? cuda_counted_by(call, 1) : cuda_counted(call),
                       .rows = indices && cuda_is_counted(call, 0) ? cuda_counted_by(call, 0) : (counted_extent){0},
                       .counted_part = indices ? COUNTED_INDICES : COUNTED_OUTER,
                       .n = desc_elements(&call->outputs[0]),
                       .size = (int32_t)reed_dtype_bytes(call->inputs[0].dtype),
                       .index_size = (int32_t)reed_dtype_bytes(call->inputs[1].dtype)};
}

reed_status cuda_prepare_gather(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *data = &call->inputs[0];
  const int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), data->rank);
  gather_args made = gather_of(call);
  made.n_indices = desc_elements(&call->inputs[1]);
  made.block = cpu_product(data->dims, axis + 1, data->rank);
  made.batch = data->dims[axis] * made.block;
  made.n_components = 1;
  made.extents[0] = data->dims[axis];
  if (made.counted_part == COUNTED_OUTER && cuda_is_counted(call, 0) && call->input_rooms[0].axis > axis)
    made.counted_part = COUNTED_BLOCK;
  made.strides[0] = made.block;
  return close_gather(call, &made, out_kernel);
}

reed_status cuda_prepare_gather_nd(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *data = &call->inputs[0], *indices = &call->inputs[1];
  const int64_t batch_dims = op_attr_int(call->attrs, "batch_dims");
  if (indices->rank < 1 || batch_dims < 0 || batch_dims >= indices->rank || batch_dims > data->rank ||
      indices->dims[indices->rank - 1] > data->rank - batch_dims)
    return reed_kernel_fail(call, REED_ERROR_SHAPE,
                            "indices of rank %d do not index data of rank %d with %lld batch dims", indices->rank,
                            data->rank, (long long)batch_dims);
  const int32_t batch = (int32_t)batch_dims, n = (int32_t)indices->dims[indices->rank - 1];
  gather_args made = gather_of(call);
  made.n_components = n;
  made.n_indices = cpu_product(indices->dims, batch, indices->rank - 1);
  made.indices_batch = made.n_indices * n;
  made.block = cpu_product(data->dims, batch + n, data->rank);
  made.batch = cpu_product(data->dims, batch, data->rank);
  int64_t stride = made.block;
  for (int32_t d = n - 1; d >= 0; d--) {
    made.extents[d] = data->dims[batch + d];
    made.strides[d] = stride;
    stride *= made.extents[d];
  }
  return close_gather(call, &made, out_kernel);
}

reed_status cuda_prepare_gather_elements(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *data = &call->inputs[0], *out = &call->outputs[0];
  cuda_plan plan = {.call = call};
  gather_elements_args made = {.n = desc_elements(out),
                               .size = (int32_t)reed_dtype_bytes(data->dtype),
                               .index_size = (int32_t)reed_dtype_bytes(call->inputs[1].dtype),
                               .rank = data->rank,
                               .axis = cpu_axis(op_attr_int(call->attrs, "axis"), data->rank),
                               .counted = cuda_counted(call)};
  made.extent = data->dims[made.axis];
  memcpy(made.extents, out->dims, sizeof made.extents);
  cpu_dense_strides(data->rank, data->dims, made.strides);
  if (made.n) {
    cuda_plan_each(&plan, CUDA_gather_elements, made.n, &made);
    cuda_plan_count(&plan, offsetof(gather_elements_args, counted));
    CUDA_INPUT(&plan, gather_elements_args, x, 0);
    CUDA_INPUT(&plan, gather_elements_args, indices, 1);
    CUDA_OUTPUT(&plan, gather_elements_args, y, 0);
    CUDA_FAULT(&plan, gather_elements_args, fault, launch);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}
