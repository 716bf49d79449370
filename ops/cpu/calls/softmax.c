/* Reading a call of Softmax, LogSoftmax, Hardmax or LpNormalization. */
#include "ops/cpu/calls/softmax.h"

void softmax_read(const reed_kernel_call *call, softmax *out_softmax) {
  const reed_desc *x = &call->inputs[0];
  op_id id = op_id_of(call->op);
  bool flattened = id != OP_LpNormalization && op_attr_int(call->attrs, "flattened") != 0;
  int32_t axis = 0;
  if (x->rank > 0) axis = cpu_axis(op_attr_int(call->attrs, "axis"), x->rank);
  int32_t after = flattened || x->rank == 0 ? x->rank : axis + 1;
  *out_softmax = (softmax){
      .dtype = x->dtype,
      .kind = id == OP_LogSoftmax        ? SOFTMAX_LOG
              : id == OP_Hardmax         ? SOFTMAX_HARD
              : id == OP_LpNormalization ? SOFTMAX_LP
                                         : SOFTMAX,
      .p = id == OP_LpNormalization ? op_attr_int(call->attrs, "p") : 0,
      .team = cpu_env_team(call),
      .level = cpu_level_now(),
      .outer = cpu_product(x->dims, 0, axis),
      .axis = cpu_product(x->dims, axis, after),
      .inner = cpu_product(x->dims, after, x->rank),
  };
}
