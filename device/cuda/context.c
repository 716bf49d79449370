/* Entering and leaving the device's primary context, and the driver's errors as diagnoses. */
#include "device/cuda/state.h"

reed_status cuda_check(const cuda_device *self, cu_result result, const char *what, reed_diagnosis *diagnosis) {
  if (result == CU_SUCCESS) return REED_OK;
  const char *text = NULL;
  self->driver.error_text(result, &text);
  return diag_fail(diagnosis, result == CU_OUT_OF_MEMORY ? REED_ERROR_MEMORY : REED_ERROR_DEVICE,
                   "device '%s': %s: %s (error %d)", self->base.name, what, text ? text : "unknown error", result);
}

reed_status cuda_enter(cuda_device *self, reed_diagnosis *diagnosis) {
  return cuda_check(self, self->driver.context_push(self->context), "the context cannot be entered", diagnosis);
}

reed_status cuda_enter_again(cuda_device *self, reed_diagnosis *diagnosis) {
  return cuda_enter(self, NULL) == REED_OK ? REED_OK : cuda_enter(self, diagnosis);
}

void cuda_leave(cuda_device *self) {
  cu_context own;
  (void)self->driver.context_pop(&own);
}
