/* Reading a TopK call. */
#include "ops/cpu/calls/topk.h"

void topk_read(const reed_kernel_call *call, topk *t) {
  const reed_desc *x = &call->inputs[0], *y = &call->outputs[0];
  int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), x->rank);
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
}
