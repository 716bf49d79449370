/* Checks of Conv and ConvTranspose calls (convolution.h). */
#include "ops/cpu/calls/convolution.h"

/* Checked here, because the shape function reads no extents of bias and residual. */
reed_status convolution_check_addends(const reed_kernel_call *call) {
  const reed_desc *y = &call->outputs[0];
  char got[96], want[96];
  if (cpu_present(call, 2) && (call->inputs[2].rank != 1 || call->inputs[2].dims[0] != y->dims[1]))
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "bias %s for %lld output channels",
                            desc_text(&call->inputs[2], got, sizeof got), (long long)y->dims[1]);
  reed_desc residual = cpu_present(call, 3) ? call->inputs[3] : *y;
  residual.dtype = y->dtype; /* the call's dtypes were checked with the operator's row */
  if (!desc_equal(&residual, y))
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "residual %s for an output of %s",
                            desc_text(&call->inputs[3], got, sizeof got), desc_text(y, want, sizeof want));
  return REED_OK;
}
