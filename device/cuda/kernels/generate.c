/* Launches of ConstantOfShape, Range, EyeLike, OneHot, Trilu, ReverseSequence and Dropout. */
#include <string.h>

#include "base/desc.h"
#include "base/dtype.h"
#include "device/cuda/kernels/kernel.h"
#include "ops/cpu/common/common.h"

static reed_status prepare_make(const reed_kernel_call *call, make_args made, reed_kernel *out_kernel) {
  const reed_desc *out = &call->outputs[0];
  cuda_plan plan = {.call = call};
  made.n = desc_elements(out);
  made.dtype = out->dtype;
  made.size = (int32_t)reed_dtype_bytes(out->dtype);
  made.is_float = dtype_is_real(out->dtype);
  made.counted = cuda_counted(call);
  if (made.n) {
    cuda_plan_each(&plan, CUDA_make, made.n, &made);
    cuda_plan_count(&plan, offsetof(make_args, counted));
    CUDA_OUTPUT(&plan, make_args, y, 0);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}

reed_status cuda_prepare_constant_of_shape(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_attr *value = reed_attrs_find(call->attrs, "value");
  make_args made = {.kind = MAKE_CONSTANT};
  if (value) memcpy(&made.value, value->data, reed_dtype_bytes(call->outputs[0].dtype));
  return prepare_make(call, made, out_kernel);
}

reed_status cuda_prepare_range(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_dtype dtype = call->outputs[0].dtype;
  const void *start = call->host_values[0], *delta = call->host_values[2];
  make_args made = {.kind = MAKE_RANGE, .start = reed_dtype_read(dtype, start), .delta = reed_dtype_read(dtype, delta)};
  if (!dtype_is_real(dtype)) {
    made.value = (uint64_t)dtype_read_integer(dtype, start);
    made.step = (uint64_t)dtype_read_integer(dtype, delta);
  }
  return prepare_make(call, made, out_kernel);
}

reed_status cuda_prepare_eye_like(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *out = &call->outputs[0];
  make_args made = {.kind = MAKE_EYE,
                    .columns = out->dims[1],
                    .diagonal = cpu_clamp(op_attr_int(call->attrs, "k"), -out->dims[0], out->dims[1])};
  reed_dtype_write(out->dtype, &made.value, 1);
  return prepare_make(call, made, out_kernel);
}

reed_status cuda_prepare_one_hot(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *out = &call->outputs[0];
  cuda_plan plan = {.call = call};
  if (desc_elements(&call->inputs[2]) != 2)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "'values' must have two elements: off and on");
  const int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), out->rank);
  const one_hot_args made = {.n = desc_elements(out),
                             .depth = out->dims[axis],
                             .inner = cpu_product(out->dims, axis + 1, out->rank),
                             .dtype = call->inputs[0].dtype,
                             .size = (int32_t)reed_dtype_bytes(out->dtype),
                             .counted = cuda_counted(call)};
  if (made.n) {
    cuda_plan_each(&plan, CUDA_one_hot, made.n, &made);
    cuda_plan_count(&plan, offsetof(one_hot_args, counted));
    CUDA_INPUT(&plan, one_hot_args, indices, 0);
    CUDA_INPUT(&plan, one_hot_args, values, 2);
    CUDA_OUTPUT(&plan, one_hot_args, y, 0);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}

reed_status cuda_prepare_trilu(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  cuda_plan plan = {.call = call};
  const bool has_k = cpu_present(call, 1);
  if (has_k && desc_elements(&call->inputs[1]) != 1)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "'k' must have one element");
  const trilu_args made = {.n = desc_elements(in),
                           .rows = in->dims[in->rank - 2],
                           .columns = in->dims[in->rank - 1],
                           .size = (int32_t)reed_dtype_bytes(in->dtype),
                           .upper = op_attr_int(call->attrs, "upper") != 0,
                           .counted = cuda_counted(call)};
  if (made.n) {
    cuda_plan_each(&plan, CUDA_trilu, made.n, &made);
    cuda_plan_count(&plan, offsetof(trilu_args, counted));
    CUDA_INPUT(&plan, trilu_args, x, 0);
    if (has_k) CUDA_INPUT(&plan, trilu_args, k, 1);
    CUDA_OUTPUT(&plan, trilu_args, y, 0);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}

reed_status cuda_prepare_reverse_sequence(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  const bool time_first = op_attr_int(call->attrs, "time_axis") == 0;
  cuda_plan plan = {.call = call};
  const reverse_args made = {.n = desc_elements(in),
                             .times = in->dims[!time_first],
                             .batches = in->dims[time_first],
                             .block = cpu_product(in->dims, 2, in->rank),
                             .time_stride = time_first ? in->dims[1] : 1,
                             .size = (int32_t)reed_dtype_bytes(in->dtype),
                             .counted = cuda_counted(call)};
  if (desc_elements(&call->inputs[1]) != made.batches)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "%lld lengths for %lld sequences",
                            (long long)desc_elements(&call->inputs[1]), (long long)made.batches);
  if (made.n) {
    cuda_plan_each(&plan, CUDA_reverse_sequence, made.n, &made);
    cuda_plan_count(&plan, offsetof(reverse_args, counted));
    CUDA_INPUT(&plan, reverse_args, x, 0);
    CUDA_INPUT(&plan, reverse_args, lengths, 1);
    CUDA_OUTPUT(&plan, reverse_args, y, 0);
    CUDA_FAULT(&plan, reverse_args, fault, launch);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}

reed_status cuda_prepare_dropout(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  cuda_plan plan = {.call = call};
  for (int32_t k = 1; k < 3; k++)
    if (cpu_present(call, k) && desc_elements(&call->inputs[k]) != 1)
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "'%s' must have one element", call->op->inputs[k].name);
  const bool with_mask = call->n_outputs > 1 && call->outputs[1].dtype != REED_NONE, has_mode = cpu_present(call, 2);
  const scatter_args copy = {
      .elements = desc_elements(in), .size = (int32_t)reed_dtype_bytes(in->dtype), .counted = cuda_counted(call)};
  const dropout_args made = {.n = with_mask ? copy.elements : 0,
                             .ratio_dtype = cpu_present(call, 1) ? call->inputs[1].dtype : REED_NONE,
                             .counted = copy.counted};
  if (copy.elements) {
    cuda_plan_each(&plan, CUDA_scatter_begin, copy.elements, &copy);
    cuda_plan_count(&plan, offsetof(scatter_args, counted));
    CUDA_INPUT(&plan, scatter_args, x, 0);
    CUDA_OUTPUT(&plan, scatter_args, y, 0);
  }
  if (made.n || has_mode) {
    cuda_plan_each(&plan, CUDA_dropout, made.n ? made.n : 1, &made);
    cuda_plan_count(&plan, offsetof(dropout_args, counted));
    if (cpu_present(call, 1)) CUDA_INPUT(&plan, dropout_args, ratio, 1);
    if (has_mode) CUDA_INPUT(&plan, dropout_args, training, 2);
    if (with_mask) CUDA_OUTPUT(&plan, dropout_args, mask, 1);
    CUDA_FAULT(&plan, dropout_args, fault, launch);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}
