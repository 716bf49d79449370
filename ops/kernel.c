/* Helpers for the kernels of every device: diagnosing a failure, and the kernel for calls whose outputs have no
 * elements. The host's kernels: ops/cpu/. */
#include "ops/kernel.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/desc.h"
#include "base/diag.h"
#include "ops/operands.h"

reed_status reed_kernel_fail(const reed_kernel_call *call, reed_status status, const char *format, ...) {
  if (!call || !call->op || !format) return status;
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  text_buffer inputs = {0};
  operands_append(&inputs, call->op, call->n_inputs, call->inputs);
  status = diag_fail(call->diagnosis, status, "%s node '%s': %s%s", call->op->name, call->node, message,
                     inputs.data && !inputs.failed ? inputs.data : "");
  diag_place_node(call->diagnosis, call->op->name, call->node, NULL);
  text_fini(&inputs);
  return status;
}

static reed_status run_nothing(const void *state, const reed_kernel_buffers *buffers) { return REED_OK; }

bool kernel_is_nothing(const reed_kernel_call *call, reed_kernel *out_kernel) {
  if (call->op->impure) return false;
  for (int32_t i = 0; i < call->n_outputs; i++) {
    const reed_op_output *declared = reed_op_output_at(call->op, i);
    if (call->outputs[i].dtype != REED_NONE &&
        (!declared || declared->bounded || desc_elements(&call->outputs[i]) != 0))
      return false;
  }
  *out_kernel = (reed_kernel){.run = run_nothing};
  return true;
}
