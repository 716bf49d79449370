/* Launches that move elements by places: Concat, Split, Transpose, Slice and their like, and Pad. Movement by
 * indices: gather.c. */
#include <string.h>

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"
#include "ops/cpu/common/common.h"

/* Places of elements in memory. */
typedef struct move_side {
  cuda_source source;
  int32_t index;
  const int64_t *strides;
  int64_t offset;
  int64_t bytes; /* that the pointer covers */
} move_side;

/* Adds a launch that copies elements of `size` bytes; nothing if there are none. */
static void move_launch(cuda_plan *plan, int32_t rank, const int64_t *extents, int64_t size, move_side from,
                        move_side to) {
  move_args made = {.n = 1, .size = (int32_t)size, .from_offset = from.offset, .to_offset = to.offset};
  for (int32_t d = 0; d < rank; d++) {
    made.n *= extents[d];
    if (extents[d] == 1) continue;
    const int32_t last = made.rank - 1;
    const bool joins =
        made.rank && made.from[last] == from.strides[d] * extents[d] && made.to[last] == to.strides[d] * extents[d];
    const int32_t at = joins ? last : made.rank++;
    made.extents[at] = joins ? made.extents[at] * extents[d] : extents[d];
    made.from[at] = from.strides[d];
    made.to[at] = to.strides[d];
  }
  if (made.n == 0) return;
  memcpy(cuda_plan_launch(plan, CUDA_move, blocks_for(CUDA_move, made.n), 1, 1, 0), &made, sizeof made);
  CUDA_PART(plan, move_args, x, from.source, from.index, 0, from.bytes, false);
  CUDA_PART(plan, move_args, y, to.source, to.index, 0, to.bytes, true);
}

/* The bytes that an operand with these strides spans. */
static int64_t span(const reed_desc *desc, const int64_t *strides) {
  int64_t last = 0;
  if (desc_elements(desc) == 0) return 0;
  for (int32_t d = 0; d < desc->rank; d++) last += (desc->dims[d] - 1) * strides[d];
  return (last + 1) * (int64_t)reed_dtype_bytes(desc->dtype);
}

/* A kernel of one copy: output 0, dense over `extents`, from input 0 by from_strides from from_offset on. */
static reed_status prepare_dense(const reed_kernel_call *call, int32_t rank, const int64_t *extents,
                                 const int64_t *from_strides, int64_t from_offset, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  int64_t to_strides[MOVE_DIMS], in_strides[REED_MAX_RANK];
  cpu_dense_strides(rank, extents, to_strides);
  cpu_input_strides(call, 0, in_strides);
  move_launch(&plan, rank, extents, (int64_t)reed_dtype_bytes(call->outputs[0].dtype),
              (move_side){CUDA_FROM_INPUT, 0, from_strides, from_offset, span(&call->inputs[0], in_strides)},
              (move_side){CUDA_FROM_OUTPUT, 0, to_strides, 0, desc_bytes(&call->outputs[0])});
  return cuda_plan_close(&plan, 0, out_kernel);
}

/* As prepare_dense, for from_strides made of the room's strides of input 0. */
static reed_status prepare_roomy(const reed_kernel_call *call, int32_t rank, const int64_t *extents,
                                 const int64_t *from_strides, int64_t from_offset, reed_kernel *out_kernel) {
  const reed_status status = prepare_dense(call, rank, extents, from_strides, from_offset, out_kernel);
  out_kernel->reads_rooms = status == REED_OK && cpu_rooms_only(call, 1);
  return status;
}

reed_status cuda_prepare_copy(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  int64_t strides[REED_MAX_RANK];
  if (desc_elements(&call->outputs[0]) != desc_elements(in))
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "input and output differ in their number of elements");
  cpu_input_strides(call, 0, strides);
  return prepare_roomy(call, in->rank, in->dims, strides, 0, out_kernel);
}

reed_status cuda_prepare_concat(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *out = &call->outputs[0];
  const int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), out->rank);
  cuda_plan plan = {.call = call};
  int64_t to[REED_MAX_RANK], from[REED_MAX_RANK], offset = 0;
  cpu_output_strides(call, 0, to);
  for (int32_t i = 0; i < call->n_inputs; i++) {
    const reed_desc *in = &call->inputs[i];
    cpu_input_strides(call, i, from);
    move_launch(&plan, in->rank, in->dims, (int64_t)reed_dtype_bytes(out->dtype),
                (move_side){CUDA_FROM_INPUT, i, from, 0, span(in, from)},
                (move_side){CUDA_FROM_OUTPUT, 0, to, offset, span(out, to)});
    offset += in->dims[axis] * to[axis];
  }
  const reed_status status = cuda_plan_close(&plan, 0, out_kernel);
  out_kernel->reads_rooms = status == REED_OK;
  return status;
}

reed_status cuda_prepare_split(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  const int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), in->rank);
  cuda_plan plan = {.call = call};
  int64_t to[REED_MAX_RANK], from[REED_MAX_RANK], offset = 0;
  cpu_input_strides(call, 0, from);
  for (int32_t i = 0; i < call->n_outputs; i++) {
    const reed_desc *out = &call->outputs[i];
    cpu_output_strides(call, i, to);
    move_launch(&plan, out->rank, out->dims, (int64_t)reed_dtype_bytes(in->dtype),
                (move_side){CUDA_FROM_INPUT, 0, from, offset, span(in, from)},
                (move_side){CUDA_FROM_OUTPUT, i, to, 0, span(out, to)});
    offset += out->dims[axis] * from[axis];
  }
  const reed_status status = cuda_plan_close(&plan, 0, out_kernel);
  out_kernel->reads_rooms = status == REED_OK;
  return status;
}

reed_status cuda_prepare_transpose(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0], *out = &call->outputs[0];
  int64_t n_perm, strides[REED_MAX_RANK], from[REED_MAX_RANK];
  const int64_t *perm = reed_attrs_ints(call->attrs, "perm", &n_perm);
  cpu_input_strides(call, 0, strides);
  for (int32_t d = 0; d < out->rank; d++) from[d] = strides[perm && n_perm ? perm[d] : in->rank - 1 - d];
  return prepare_roomy(call, out->rank, out->dims, from, 0, out_kernel);
}

reed_status cuda_prepare_expand(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0], *out = &call->outputs[0];
  int64_t from[REED_MAX_RANK], strides[REED_MAX_RANK];
  if (!cpu_broadcast_strides(in, out, from))
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "the input does not broadcast to the output");
  cpu_input_strides(call, 0, strides);
  for (int32_t d = 0; d < in->rank; d++)
    if (from[out->rank - in->rank + d] != 0) from[out->rank - in->rank + d] = strides[d];
  return prepare_roomy(call, out->rank, out->dims, from, 0, out_kernel);
}

/* Each dim becomes (repeat, extent), the first with stride 0. */
reed_status cuda_prepare_tile(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0], *out = &call->outputs[0];
  int64_t dense[REED_MAX_RANK], extents[MOVE_DIMS], from[MOVE_DIMS];
  cpu_dense_strides(in->rank, in->dims, dense);
  for (int32_t d = 0; d < in->rank; d++) {
    extents[2 * d] = in->dims[d] ? out->dims[d] / in->dims[d] : 0;
    from[2 * d] = 0;
    extents[2 * d + 1] = in->dims[d];
    from[2 * d + 1] = dense[d];
  }
  return prepare_dense(call, 2 * in->rank, extents, from, 0, out_kernel);
}

/* Starts beyond the ends are clamped as the shape function did; the extent is the output's. */
reed_status cuda_prepare_slice(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0], *out = &call->outputs[0];
  const bool has_axes = cpu_present(call, 3), has_steps = cpu_present(call, 4);
  int64_t from[REED_MAX_RANK], offset = 0;
  cpu_input_strides(call, 0, from);
  for (int64_t k = 0; k < desc_elements(&call->inputs[1]); k++) {
    const int32_t d =
        has_axes ? cpu_axis(cpu_index_at(call->inputs[3].dtype, call->host_values[3], k), in->rank) : (int32_t)k;
    int64_t start = cpu_index_at(call->inputs[1].dtype, call->host_values[1], k);
    const int64_t step = has_steps ? cpu_index_at(call->inputs[4].dtype, call->host_values[4], k) : 1;
    if (start < 0) start = start < -in->dims[d] ? -1 : start + in->dims[d];
    if (step > 0) start = start < 0 ? 0 : start;
    if (step < 0) start = start < 0 ? 0 : start >= in->dims[d] ? in->dims[d] - 1 : start;
    if (out->dims[d] == 0) continue;
    offset += start * from[d];
    /* with one element the step is never taken and might overflow */
    from[d] = out->dims[d] == 1 ? 0 : from[d] * step;
  }
  return prepare_roomy(call, out->rank, out->dims, from, offset, out_kernel);
}

/* Channels as (b, b, C) for mode DCR or (C, b, b) for CRD; output [N, C, H, b, W, b], channels last [N, H, b, W, b, C].
 */
reed_status cuda_prepare_depth_to_space(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const int64_t *in = call->inputs[0].dims, b = op_attr_int(call->attrs, "blocksize");
  const bool crd = strcmp(op_attr_string(call->attrs, "mode"), "CRD") == 0;
  if (op_attr_int(call->attrs, "channels_last")) {
    const int64_t c = in[3] / (b * b), block = crd ? 1 : c;
    const int64_t extents[] = {in[0], in[1], b, in[2], b, c};
    const int64_t from[] = {in[1] * in[2] * in[3], in[2] * in[3], b * block, in[3], block, crd ? b * b : 1};
    return prepare_dense(call, 6, extents, from, 0, out_kernel);
  }
  const int64_t plane = in[2] * in[3], c = in[1] / (b * b), block = crd ? plane : c * plane;
  const int64_t extents[] = {in[0], c, in[2], b, in[3], b};
  const int64_t from[] = {in[1] * plane, crd ? b * b * plane : plane, in[3], b * block, 1, block};
  return prepare_dense(call, 6, extents, from, 0, out_kernel);
}

/* Output [N, b, b, C, H/b, W/b], channels last [N, H/b, W/b, b, b, C]. */
reed_status cuda_prepare_space_to_depth(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const int64_t *in = call->inputs[0].dims, b = op_attr_int(call->attrs, "blocksize");
  if (op_attr_int(call->attrs, "channels_last")) {
    const int64_t extents[] = {in[0], in[1] / b, in[2] / b, b, b, in[3]}, row = in[2] * in[3];
    const int64_t from[] = {in[1] * row, b * row, b * in[3], row, in[3], 1};
    return prepare_dense(call, 6, extents, from, 0, out_kernel);
  }
  const int64_t plane = in[2] * in[3];
  const int64_t extents[] = {in[0], b, b, in[1], in[2] / b, in[3] / b};
  const int64_t from[] = {in[1] * plane, in[3], 1, plane, b * in[3], b};
  return prepare_dense(call, 6, extents, from, 0, out_kernel);
}

/* ---- Pad ---- */

static int64_t cropped(int64_t pad, int64_t extent) { return pad >= 0 ? 0 : pad < -extent ? extent : -pad; }

static void pad_dim(pad_args *a, int32_t d, int64_t extent, int64_t before, int64_t after) {
  a->first[d] = cropped(before, extent);
  const int64_t left = extent - a->first[d] - cropped(after, extent);
  a->extent[d] = left > 0 ? left : 0;
  a->before[d] = before > 0 ? before : 0;
}

reed_status cuda_prepare_pad(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0], *out = &call->outputs[0];
  const int64_t *pads = call->host_values[1], n = desc_elements(&call->inputs[1]) / 2;
  const bool has_axes = cpu_present(call, 3);
  cuda_plan plan = {.call = call};
  pad_args made = {.n = desc_elements(out),
                   .rank = in->rank,
                   .size = (int32_t)reed_dtype_bytes(in->dtype),
                   .mode = op_attr_string(call->attrs, "mode")[0]};
  for (int32_t d = 0; d < in->rank; d++) {
    made.extents[d] = out->dims[d];
    pad_dim(&made, d, in->dims[d], 0, 0);
  }
  for (int64_t k = 0; k < n; k++) {
    const int32_t d =
        has_axes ? cpu_axis(cpu_index_at(call->inputs[3].dtype, call->host_values[3], k), in->rank) : (int32_t)k;
    pad_dim(&made, d, in->dims[d], pads[k], pads[n + k]);
  }
  cpu_dense_strides(in->rank, in->dims, made.strides);
  if (made.n) {
    memcpy(cuda_plan_launch(&plan, CUDA_pad, blocks_for(CUDA_pad, made.n), 1, 1, 0), &made, sizeof made);
    CUDA_INPUT(&plan, pad_args, x, 0);
    if (cpu_present(call, 2) && desc_elements(&call->inputs[2]) > 0) CUDA_INPUT(&plan, pad_args, value, 2);
    CUDA_OUTPUT(&plan, pad_args, y, 0);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}
