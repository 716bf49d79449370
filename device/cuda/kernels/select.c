/* Launches of NonZero and Compress. */
#include <string.h>

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"
#include "ops/cpu/common/common.h"

/* Parts of the workspace, in bytes. */
typedef struct parts {
  int64_t offsets, places; /* where they begin; the total is at 0 */
  int64_t end;
} parts;

/* The launches that list the places of elements of input `input` that are set: in output 0 if `places` is NULL, else in
 * the workspace. */
static parts list_places(cuda_plan *plan, int32_t input, select_args made, bool in_output) {
  made.chunks = (made.n + SELECT_CHUNK - 1) / SELECT_CHUNK;
  const int64_t counted = made.chunks * 8, read = made.n * (int64_t)reed_dtype_bytes((reed_dtype)made.dtype);
  parts p = {.offsets = 64, .places = 64 + (counted + 63) / 64 * 64};
  p.end = p.places + (in_output ? 0 : made.n * 8);
  if (made.chunks) {
    cuda_plan_launch(plan, CUDA_select_count, made.chunks, 0, &made);
    CUDA_PART(plan, select_args, x, CUDA_FROM_INPUT, input, 0, read, false);
    CUDA_PART(plan, select_args, offsets, CUDA_FROM_WORKSPACE, 0, p.offsets, counted, true);
    if (made.counted.factor) cuda_plan_count(plan, offsetof(select_args, counted));
  }
  cuda_plan_launch(plan, CUDA_select_offsets, 1, 0, &made);
  CUDA_PART(plan, select_args, offsets, CUDA_FROM_WORKSPACE, 0, p.offsets, counted, true);
  CUDA_PART(plan, select_args, total, CUDA_FROM_WORKSPACE, 0, 0, 8, true);
  CUDA_PART(plan, select_args, extent, CUDA_FROM_EXTENTS, 0, 0, 8, true);
  if (made.chunks == 0 || made.rank == 0) return p;
  cuda_plan_launch(plan, CUDA_select_write, made.chunks, 0, &made);
  CUDA_PART(plan, select_args, x, CUDA_FROM_INPUT, input, 0, read, false);
  CUDA_PART(plan, select_args, offsets, CUDA_FROM_WORKSPACE, 0, p.offsets, counted, false);
  if (made.counted.factor) cuda_plan_count(plan, offsetof(select_args, counted));
  CUDA_PART(plan, select_args, total, CUDA_FROM_WORKSPACE, 0, 0, 8, false);
  if (in_output) CUDA_OUTPUT(plan, select_args, places, 0);
  else CUDA_PART(plan, select_args, places, CUDA_FROM_WORKSPACE, 0, p.places, made.n * 8, true);
  return p;
}

reed_status cuda_prepare_nonzero(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  cuda_plan plan = {.call = call};
  select_args made = {.n = desc_elements(in), .rank = in->rank, .dtype = in->dtype, .counted = cuda_counted(call)};
  if (made.counted.factor) made.counted_axis = call->input_rooms[0].axis;
  memcpy(made.extents, in->dims, sizeof made.extents);
  const parts p = list_places(&plan, 0, made, true);
  return cuda_plan_close(&plan, p.end, out_kernel);
}

reed_status cuda_prepare_compress(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  const reed_attr *axis_given = reed_attrs_find(call->attrs, "axis");
  const int32_t axis = axis_given ? cpu_axis(axis_given->i, in->rank) : 0;
  cuda_plan plan = {.call = call};
  take_args made = {.outer = axis_given ? cpu_product(in->dims, 0, axis) : 1,
                    .extent = axis_given ? in->dims[axis] : desc_elements(in),
                    .block = axis_given ? cpu_product(in->dims, axis + 1, in->rank) : 1,
                    .size = (int32_t)reed_dtype_bytes(in->dtype)};
  const int64_t given = desc_elements(&call->inputs[1]), n = given < made.extent ? given : made.extent;
  made.n = made.outer * n * made.block;
  const parts p = list_places(&plan, 1, (select_args){.n = n, .extents = {n}, .rank = 1, .dtype = REED_BOOL}, false);
  if (made.n) {
    cuda_plan_each(&plan, CUDA_take, made.n, &made);
    CUDA_INPUT(&plan, take_args, x, 0);
    CUDA_PART(&plan, take_args, places, CUDA_FROM_WORKSPACE, 0, p.places, n * 8, false);
    CUDA_PART(&plan, take_args, total, CUDA_FROM_WORKSPACE, 0, 0, 8, false);
    CUDA_OUTPUT(&plan, take_args, y, 0);
  }
  return cuda_plan_close(&plan, p.end, out_kernel);
}
