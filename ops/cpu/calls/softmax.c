/* Reading a call of Softmax, LogSoftmax, Hardmax or LpNormalization. */
#include "ops/cpu/calls/softmax.h"

reed_status softmax_read(const reed_kernel_call *call, softmax *out_softmax) {
  const reed_desc *x = &call->inputs[0];
  op_id id = op_id_of(call->op);
  bool flattened = id != OP_LpNormalization && op_attr_int(call->attrs, "flattened") != 0;
  int32_t axis = 0;
  if (x->rank > 0) {
    reed_status status = REED_OK;
    int64_t given = op_attr_int(call->attrs, "axis");
    if (flattened && given == x->rank) axis = x->rank; /* opset 1-12 allow it: one element each */
    else status = cpu_axis(call, given, x->rank, &axis);
    if (status != REED_OK) return status;
  }
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
  return REED_OK;
}
