/* Owning an inner kernel (inner.h). */
#include "ops/inner.h"

#include "base/mem.h"

static void inner_free(void *state) {
  inner_kernel *inner = state;
  if (inner->kernel.free) inner->kernel.free(inner->kernel.state);
  mem_free(inner);
}

reed_status inner_wrap(reed_status status, reed_kernel_run_fn run, void *state, size_t own_bytes,
                       reed_kernel *out_kernel) {
  const inner_kernel *inner = state;
  if (status != REED_OK || !inner->kernel.run) {
    inner_free(state);
    return status;
  }
  *out_kernel = (reed_kernel){.run = run,
                              .state = state,
                              .free = inner_free,
                              .workspace_bytes = inner->workspace_at + inner->kernel.workspace_bytes,
                              .state_bytes = (int64_t)own_bytes + inner->kernel.state_bytes,
                              .variant = inner->kernel.variant,
                              .apart = inner->kernel.apart};
  return REED_OK;
}
