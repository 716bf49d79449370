/* Reading a TopK call. */
#include "ops/cpu/calls/topk.h"

reed_status topk_read(const reed_kernel_call *call, topk *t) {
  const reed_desc *x = &call->inputs[0], *y = &call->outputs[0];
  int32_t axis = 0;
  if (x->rank < 1 || x->rank != y->rank)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "needs an input of rank 1 or more");
  reed_status status = cpu_axis(call, op_attr_int(call->attrs, "axis"), x->rank, &axis);
  if (status != REED_OK) return status;
  *t = (topk){
      .dtype = x->dtype,
      .team = cpu_env_team(call),
      .largest = op_attr_int(call->attrs, "largest") != 0,
      .with_indices = call->n_outputs > 1 && call->outputs[1].dtype != REED_NONE,
      .outer = cpu_product(x->dims, 0, axis),
      .extent = x->dims[axis],
      .inner = cpu_product(x->dims, axis + 1, x->rank),
      .k = y->dims[axis],
  };
  if (t->k > t->extent)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "%lld elements wanted of %lld on axis %d", (long long)t->k,
                            (long long)t->extent, axis);
  return REED_OK;
}
