/* Launches of RotaryEmbedding. */
#include "ops/cpu/calls/rotary.h"

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"

reed_status cuda_prepare_rotary(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  rotary r;
  const reed_status status = rotary_read(call, &r);
  if (status) return status;
  rotary_args made = {.items = r.size - r.pairs,
                      .heads = r.heads,
                      .length = r.length,
                      .x_batch = r.x_batch,
                      .x_head = r.x_head,
                      .x_row = r.x_row,
                      .pairs = r.pairs,
                      .apart = r.apart,
                      .step = r.step,
                      .cache_step = r.cache_step,
                      .cache_apart = r.cache_apart,
                      .cache_row = r.cache_row,
                      .cache_batch = r.cache_batch,
                      .places = r.places,
                      .dtype = call->inputs[0].dtype,
                      .head_of_rows = call->inputs[0].rank == 4,
                      .counted = cuda_counted(call)};
  if (cuda_is_counted(call, 0)) made.counted_length = call->input_rooms[0].axis != 0;
  made.n = r.batch * r.heads * r.length * made.items;
  if (made.n) {
    cuda_plan_each(&plan, CUDA_rotary, made.n, &made);
    cuda_plan_count(&plan, offsetof(rotary_args, counted));
    CUDA_INPUT(&plan, rotary_args, x, 0);
    CUDA_INPUT(&plan, rotary_args, cos, 1);
    CUDA_INPUT(&plan, rotary_args, sin, 2);
    if (r.places >= 0) CUDA_INPUT(&plan, rotary_args, ids, 3);
    CUDA_OUTPUT(&plan, rotary_args, y, 0);
    CUDA_FAULT(&plan, rotary_args, fault, launch);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}
