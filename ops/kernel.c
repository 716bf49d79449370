/* What kernels of every device share: how they say what is wrong. */
#include "ops/kernel.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/diag.h"

reed_status reed_kernel_fail(const reed_kernel_call *call, reed_status status, const char *format, ...) {
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  status = diag_fail(call->diagnosis, status, "%s node '%s': %s", call->op->name, call->node, message);
  diag_place_node(call->diagnosis, call->op->name, call->node, NULL);
  return status;
}
