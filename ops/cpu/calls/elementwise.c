/* Checks of element-wise calls (elementwise.h). */
#include "ops/cpu/calls/elementwise.h"

static reed_status check_clip(const reed_kernel_call *call) {
  for (int32_t k = 1; k < 3; k++)
    if (cpu_present(call, k) && desc_elements(&call->inputs[k]) != 1)
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "'%s' must have one element", call->op->inputs[k].name);
  return REED_OK;
}

reed_status elementwise_check(const reed_kernel_call *call) {
  return op_id_of(call->op) == OP_Clip ? check_clip(call) : REED_OK;
}
