/* Checks of element-wise calls (elementwise.h). */
#include "ops/cpu/calls/elementwise.h"

#include "ops/cpu/formulas/formulas.h"

static reed_status check_clip(const reed_kernel_call *call) {
  for (int32_t k = 1; k < 3; k++)
    if (cpu_present(call, k) && desc_elements(&call->inputs[k]) != 1)
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "'%s' must have one element", call->op->inputs[k].name);
  return REED_OK;
}

reed_status elementwise_check(const reed_kernel_call *call) {
  op_id id = op_id_of(call->op);
  if (id == OP_Clip) return check_clip(call);
  if (id == OP_Where && call->inputs[1].dtype != call->inputs[2].dtype)
    return reed_kernel_fail(call, REED_ERROR_TYPE, "X and Y differ in dtype");
  if (id != OP_Where && elementwise_choice(call->op, call->attrs) == FORMULA_COUNT)
    return reed_kernel_fail(call, REED_ERROR_VALUE, "an attribute has a value that is not known");
  return REED_OK;
}
