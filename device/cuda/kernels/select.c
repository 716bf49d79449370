/* Launches of NonZero and Compress. */
#include "device/cuda/kernels/select.h"

#include <string.h>

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"
#include "ops/cpu/common/common.h"

cuda_places cuda_plan_places(cuda_plan *plan, const cuda_choice *choice, select_args made) {
  made.chunks = (made.n + SELECT_CHUNK - 1) / SELECT_CHUNK;
  const int64_t counted = made.chunks * 8, read = made.n * (int64_t)reed_dtype_bytes((reed_dtype)made.dtype);
  cuda_places p = {.total = choice->begin, .offsets = choice->begin + 64};
  p.places = p.offsets + cuda_round_up(counted);
  p.end = p.places + (choice->in_output ? 0 : cuda_round_up(made.n * 8));
  if (made.chunks) {
    cuda_plan_launch(plan, CUDA_select_count, made.chunks, 0, &made);
    CUDA_PART(plan, select_args, x, choice->source, choice->input, choice->at, read, false);
    CUDA_PART(plan, select_args, offsets, CUDA_FROM_WORKSPACE, 0, p.offsets, counted, true);
    if (made.counted.factor) cuda_plan_count(plan, offsetof(select_args, counted));
  }
  cuda_plan_launch(plan, CUDA_select_offsets, 1, 0, &made);
  CUDA_PART(plan, select_args, offsets, CUDA_FROM_WORKSPACE, 0, p.offsets, counted, true);
  CUDA_PART(plan, select_args, total, CUDA_FROM_WORKSPACE, 0, p.total, 8, true);
  if (choice->reports) CUDA_PART(plan, select_args, extent, CUDA_FROM_EXTENTS, 0, 0, 8, true);
  if (made.chunks == 0 || made.rank == 0) return p;
  cuda_plan_launch(plan, CUDA_select_write, made.chunks, 0, &made);
  CUDA_PART(plan, select_args, x, choice->source, choice->input, choice->at, read, false);
  CUDA_PART(plan, select_args, offsets, CUDA_FROM_WORKSPACE, 0, p.offsets, counted, false);
  if (made.counted.factor) cuda_plan_count(plan, offsetof(select_args, counted));
  CUDA_PART(plan, select_args, total, CUDA_FROM_WORKSPACE, 0, p.total, 8, false);
  if (choice->in_output) CUDA_OUTPUT(plan, select_args, places, 0);
  else CUDA_PART(plan, select_args, places, CUDA_FROM_WORKSPACE, 0, p.places, made.n * 8, true);
  return p;
}

take_args cuda_slices(const reed_kernel_call *call) {
  const cpu_slices x = cpu_slices_of(call);
  return (take_args){
      .outer = x.outer, .extent = x.n, .block = x.block, .size = (int32_t)reed_dtype_bytes(call->inputs[0].dtype)};
}

void cuda_plan_take(cuda_plan *plan, take_args made, int64_t n, int64_t places, int64_t total) {
  made.n = made.outer * n * made.block;
  if (!made.n) return;
  const bool counted = cuda_is_counted(plan->call, 0);
  if (counted) made.counted = cuda_counted(plan->call);
  cuda_plan_each(plan, CUDA_take, made.n, &made);
  if (counted) cuda_plan_count(plan, offsetof(take_args, counted));
  CUDA_INPUT(plan, take_args, x, 0);
  CUDA_PART(plan, take_args, places, CUDA_FROM_WORKSPACE, 0, places, n * 8, false);
  CUDA_PART(plan, take_args, total, CUDA_FROM_WORKSPACE, 0, total, 8, false);
  CUDA_OUTPUT(plan, take_args, y, 0);
}

reed_status cuda_prepare_nonzero(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  cuda_plan plan = {.call = call};
  select_args made = {.n = desc_elements(in), .rank = in->rank, .dtype = in->dtype, .counted = cuda_counted(call)};
  if (made.counted.factor) made.counted_axis = call->input_rooms[0].axis;
  memcpy(made.extents, in->dims, sizeof made.extents);
  const cuda_choice choice = {.source = CUDA_FROM_INPUT, .in_output = true, .reports = true};
  const cuda_places p = cuda_plan_places(&plan, &choice, made);
  return cuda_plan_close(&plan, p.end, out_kernel);
}

reed_status cuda_prepare_compress(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  const take_args slices = cuda_slices(call);
  const int64_t given = desc_elements(&call->inputs[1]), n = given < slices.extent ? given : slices.extent;
  const select_args condition = {.n = n, .extents = {n}, .rank = 1, .dtype = REED_BOOL, .counted = cuda_counted(call)};
  const cuda_places p =
      cuda_plan_places(&plan, &(cuda_choice){.source = CUDA_FROM_INPUT, .input = 1, .reports = true}, condition);
  cuda_plan_take(&plan, slices, n, p.places, p.total);
  return cuda_plan_close(&plan, p.end, out_kernel);
}
