/* Checks of CumSum calls (scan.h). */
#include "ops/cpu/calls/scan.h"

reed_status cumsum_check(const reed_kernel_call *call) {
  if (desc_elements(&call->inputs[1]) == 1) return REED_OK;
  return reed_kernel_fail(call, REED_ERROR_SHAPE, "'axis' must have one element");
}
