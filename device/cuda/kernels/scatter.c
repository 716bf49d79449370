/* Launches of ScatterElements and ScatterND. */
#include <string.h>

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"
#include "ops/cpu/common/common.h"

/* The operands of a launch, by bits. */
enum {
  USES_DATA = 1,
  USES_INDICES = 2,
  USES_UPDATES = 4,
  USES_Y = 8,
  USES_SLOTS = 16,
  USES_STARTS = 32,
  USES_LIST = 64
};

static void add_launch(cuda_plan *plan, cuda_kernel_id kernel, const scatter_args *made, int64_t threads,
                       unsigned uses) {
  const int64_t slots = made->n_slots * 8, starts = 64 + cuda_round_up(slots), list = starts + cuda_round_up(slots);
  if (threads == 0) return;
  cuda_plan_each(plan, kernel, threads, made);
  if (made->counted.factor) cuda_plan_extent(plan, offsetof(scatter_args, counted), 0);
  if (made->updated.factor) cuda_plan_extent(plan, offsetof(scatter_args, updated), 1);
  if (uses & USES_DATA) CUDA_INPUT(plan, scatter_args, x, 0);
  if (uses & USES_INDICES) CUDA_INPUT(plan, scatter_args, indices, 1);
  if (uses & USES_INDICES) CUDA_FAULT(plan, scatter_args, fault, launch);
  if (uses & USES_UPDATES) CUDA_INPUT(plan, scatter_args, updates, 2);
  if (uses & USES_Y) CUDA_OUTPUT(plan, scatter_args, y, 0);
  if (uses & USES_SLOTS) CUDA_PART(plan, scatter_args, slots, CUDA_FROM_WORKSPACE, 0, 64, slots, true);
  if (uses & USES_STARTS) CUDA_PART(plan, scatter_args, taken, CUDA_FROM_WORKSPACE, 0, 0, 8, true);
  if (uses & USES_STARTS) CUDA_PART(plan, scatter_args, starts, CUDA_FROM_WORKSPACE, 0, starts, slots, true);
  if (uses & USES_LIST) CUDA_PART(plan, scatter_args, list, CUDA_FROM_WORKSPACE, 0, list, made->n * 8, true);
}

static reed_status prepare_scatter(const reed_kernel_call *call, scatter_args *made, reed_kernel *out_kernel) {
  const reed_desc *data = &call->inputs[0];
  cuda_plan plan = {.call = call};
  made->elements = desc_elements(data);
  made->size = (int32_t)reed_dtype_bytes(data->dtype);
  made->dtype = data->dtype;
  made->index_size = (int32_t)reed_dtype_bytes(call->inputs[1].dtype);
  if (cuda_is_counted(call, 0)) made->counted = cuda_counted_by(call, 0);
  if (cuda_is_counted(call, 1)) made->updated = cuda_counted_by(call, 1);
  made->reduction = op_attr_word(call->op, call->attrs, "reduction");
  if (!made->n) made->n_slots = 0; /* a copy */
  const int64_t begin = made->elements > made->n_slots ? made->elements : made->n_slots;
  const unsigned all = USES_SLOTS | USES_STARTS | USES_LIST;
  add_launch(&plan, CUDA_scatter_begin, made, begin ? begin : 1, USES_DATA | USES_Y | USES_SLOTS | USES_STARTS);
  if (made->reduction) {
    add_launch(&plan, CUDA_scatter_count, made, made->n, USES_INDICES | USES_SLOTS);
    add_launch(&plan, CUDA_scatter_place, made, made->n_slots, USES_SLOTS | USES_STARTS);
    add_launch(&plan, CUDA_scatter_list, made, made->n, USES_INDICES | all);
    add_launch(&plan, CUDA_scatter_sort, made, made->n_slots, all);
    add_launch(&plan, CUDA_scatter_reduce, made, made->n_slots * made->block, USES_UPDATES | USES_Y | all);
  } else {
    add_launch(&plan, CUDA_scatter_claim, made, made->n, USES_INDICES | USES_SLOTS);
    add_launch(&plan, CUDA_scatter_replace, made, made->n * made->block,
               USES_INDICES | USES_UPDATES | USES_Y | USES_SLOTS);
  }
  return cuda_plan_close(&plan, 64 + 2 * cuda_round_up(made->n_slots * 8) + (made->reduction ? made->n * 8 : 0),
                         out_kernel);
}

reed_status cuda_prepare_scatter_elements(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *data = &call->inputs[0], *indices = &call->inputs[1];
  scatter_args made = {.n = desc_elements(indices),
                       .n_slots = desc_elements(data),
                       .block = 1,
                       .rank = data->rank,
                       .axis = cpu_axis(op_attr_int(call->attrs, "axis"), data->rank)};
  memcpy(made.walk, indices->dims, sizeof made.walk);
  memcpy(made.extents, data->dims, sizeof made.extents);
  cpu_dense_strides(data->rank, data->dims, made.strides);
  return prepare_scatter(call, &made, out_kernel);
}

reed_status cuda_prepare_scatter_nd(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *data = &call->inputs[0], *indices = &call->inputs[1], *updates = &call->inputs[2];
  const int64_t k = indices->rank ? indices->dims[indices->rank - 1] : -1;
  bool fits = k >= 0 && k <= data->rank && updates->rank == indices->rank - 1 + data->rank - (int32_t)k;
  for (int32_t d = 0; d < updates->rank && fits; d++)
    fits = updates->dims[d] == (d < indices->rank - 1 ? indices->dims[d] : data->dims[k + d - (indices->rank - 1)]);
  if (!fits) return reed_kernel_fail(call, REED_ERROR_SHAPE, "data, indices and updates do not agree");
  scatter_args made = {.n = cpu_product(indices->dims, 0, indices->rank - 1),
                       .n_slots = cpu_product(data->dims, 0, (int32_t)k),
                       .block = cpu_product(data->dims, (int32_t)k, data->rank),
                       .axis = -1,
                       .n_components = (int32_t)k,
                       .counted_component = cuda_is_counted(call, 0) ? call->input_rooms[0].axis : -1};
  memcpy(made.extents, data->dims, sizeof made.extents);
  cpu_dense_strides((int32_t)k, data->dims, made.strides);
  return prepare_scatter(call, &made, out_kernel);
}
