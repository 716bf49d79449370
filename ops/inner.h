/* A kernel inside another one that changes operands on the way, such as their dtype, layout or strides. The wrappers:
 * cpu/views/half.c, channels.c and unpack.c, room_call.c. */
#ifndef OPS_INNER_H_
#define OPS_INNER_H_

#include "reed/operator.h"

/* The first member of a wrapper's state, which is heap memory (base/mem.h). */
typedef struct inner_kernel {
  reed_kernel kernel;
  int64_t workspace_at; /* its workspace begins there in the wrapper's, which has the changed operands before it */
} inner_kernel;

/* Runs the inner kernel on these operands and with all else of the wrapper's own. */
static inline reed_status inner_run(const inner_kernel *inner, const reed_kernel_buffers *outer,
                                    const void *const *inputs, void *const *outputs) {
  reed_kernel_buffers buffers = *outer;
  buffers.inputs = inputs;
  buffers.outputs = outputs;
  buffers.workspace = (char *)outer->workspace + inner->workspace_at;
  return inner->kernel.run(inner->kernel.state, &buffers);
}

/* Ends the preparation of a wrapper. status: the result of preparing the inner kernel. If it is an error, or the inner
 * kernel declines the call (it has no `run`), the state of own_bytes is freed and *out_kernel stays zero. */
reed_status inner_wrap(reed_status status, reed_kernel_run_fn run, void *state, size_t own_bytes,
                       reed_kernel *out_kernel);

#endif
