/* Data movement by shapes alone: Reshape and its like, Concat, Split, Transpose, Tile, Slice, DepthToSpace,
 * SpaceToDepth and others as one or more strided copies (common/strided.h). Movement by indices is in gather.c and
 * scatter.c. The reference: reference/movement.c. */
#include "ops/cpu/move/movement.h"

#include "ops/cpu/common/strided.h"

/* One copy per output (Split) or per input (Concat), or a single one. */
typedef struct movement_state {
  int32_t n;
  bool joins;       /* copy i reads input i; else it writes output i */
  int64_t *part_at; /* reed_kernel.part_at; memory after the copies */
  strided_copy copies[];
} movement_state;

static reed_status run_movement(const void *state, const reed_kernel_buffers *buffers) {
  const movement_state *s = state;
  reed_status status = REED_OK;
  for (int32_t i = 0; i < s->n && status == REED_OK; i++)
    status = strided_run(&s->copies[i], buffers->inputs[s->joins ? i : 0], buffers->outputs[s->joins ? 0 : i]);
  return status;
}

/* Opens a kernel of n copies, which the caller then plans; NULL: no memory. */
static movement_state *open_movement(const reed_kernel_call *call, int32_t n, bool joins, reed_kernel *out_kernel) {
  movement_state *s = mem_calloc(1, sizeof *s + (size_t)n * (sizeof *s->copies + sizeof *s->part_at));
  if (!s) return NULL;
  s->n = n;
  s->part_at = (int64_t *)&s->copies[n];
  s->joins = joins;
  cpu_kernel_set(out_kernel, run_movement, s);
  return s;
}

/* Notes the outputs' offsets in the input, after all copies are planned. */
static void note_parts(movement_state *s, reed_kernel *out_kernel) {
  for (int32_t i = 0; i < s->n; i++)
    s->part_at[i] = s->copies[i].rank == 0 && s->copies[i].n == 1 ? s->copies[i].from_offset : -1;
  out_kernel->part_at = s->part_at;
}

/* A kernel of one copy whose target is output 0, dense over `extents`, read with from_strides (elements) from
 * from_offset on. */
static reed_status prepare_dense(const reed_kernel_call *call, int32_t rank, const int64_t *extents,
                                 const int64_t *from_strides, int64_t from_offset, reed_kernel *out_kernel) {
  movement_state *s = open_movement(call, 1, false, out_kernel);
  if (!s) return cpu_no_memory(call);
  int64_t to_strides[STRIDED_MAX_RANK];
  cpu_dense_strides(rank, extents, to_strides);
  strided_plan(&s->copies[0], rank, extents, from_strides, from_offset, to_strides, 0,
               (int64_t)reed_dtype_bytes(call->outputs[0].dtype), cpu_env_team(call));
  note_parts(s, out_kernel);
  return REED_OK;
}

/* As prepare_dense, for from_strides that have been made from cpu_input_strides of input 0. */
static reed_status prepare_roomy(const reed_kernel_call *call, int32_t rank, const int64_t *extents,
                                 const int64_t *from_strides, int64_t from_offset, reed_kernel *out_kernel) {
  reed_status status = prepare_dense(call, rank, extents, from_strides, from_offset, out_kernel);
  out_kernel->reads_rooms = status == REED_OK && cpu_rooms_only(call, 1);
  return status;
}

reed_status movement_prepare_part(const reed_kernel_call *call, int64_t offset, reed_kernel *out_kernel) {
  int64_t n = desc_elements(&call->outputs[0]);
  return prepare_dense(call, 1, &n, &(int64_t){1}, offset, out_kernel);
}

/* Flatten Identity Reshape Squeeze Unsqueeze: same elements, other extents. */
reed_status cpu_prepare_copy(const reed_kernel_call *call, reed_kernel *out_kernel) {
  int64_t n = desc_elements(&call->outputs[0]);
  if (n != desc_elements(&call->inputs[0]))
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "input and output differ in their number of elements");
  const reed_desc *in = &call->inputs[0];
  int64_t from_strides[REED_MAX_RANK];
  if (cpu_rooms_only(call, 0)) return movement_prepare_part(call, 0, out_kernel);
  cpu_input_strides(call, 0, from_strides);
  return prepare_roomy(call, in->rank, in->dims, from_strides, 0, out_kernel);
}

/* Concat: copy i writes input i after the inputs before it along the axis. An input that lies at its place in the
 * output's memory, with the same strides, is not copied. */
reed_status cpu_prepare_concat(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *out = &call->outputs[0];
  int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), out->rank);
  movement_state *s = open_movement(call, call->n_inputs, true, out_kernel);
  if (!s) return cpu_no_memory(call);
  int64_t to_strides[REED_MAX_RANK], from_strides[REED_MAX_RANK], offset = 0;
  cpu_output_strides(call, 0, to_strides);
  for (int32_t i = 0; i < call->n_inputs; i++) {
    const reed_desc *in = &call->inputs[i];
    cpu_input_strides(call, i, from_strides);
    strided_plan(&s->copies[i], in->rank, in->dims, from_strides, 0, to_strides, offset,
                 (int64_t)reed_dtype_bytes(out->dtype), cpu_env_team(call));
    offset += in->dims[axis] * to_strides[axis];
  }
  out_kernel->reads_rooms = true;
  return REED_OK;
}

/* Split: copy i reads the next part along the axis; output i gives its length. */
reed_status cpu_prepare_split(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), in->rank);
  movement_state *s = open_movement(call, call->n_outputs, false, out_kernel);
  if (!s) return cpu_no_memory(call);
  int64_t to_strides[REED_MAX_RANK], from_strides[REED_MAX_RANK], offset = 0;
  cpu_input_strides(call, 0, from_strides);
  for (int32_t i = 0; i < call->n_outputs; i++) {
    const reed_desc *out = &call->outputs[i];
    cpu_output_strides(call, i, to_strides);
    strided_plan(&s->copies[i], out->rank, out->dims, from_strides, offset, to_strides, 0,
                 (int64_t)reed_dtype_bytes(in->dtype), cpu_env_team(call));
    offset += out->dims[axis] * from_strides[axis];
  }
  note_parts(s, out_kernel);
  out_kernel->reads_rooms = true;
  return REED_OK;
}

reed_status cpu_prepare_transpose(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0], *out = &call->outputs[0];
  int64_t n_perm, strides[REED_MAX_RANK], from_strides[REED_MAX_RANK];
  const int64_t *perm = reed_attrs_ints(call->attrs, "perm", &n_perm);
  cpu_input_strides(call, 0, strides);
  for (int32_t d = 0; d < out->rank; d++) from_strides[d] = strides[perm && n_perm ? perm[d] : in->rank - 1 - d];
  return prepare_roomy(call, out->rank, out->dims, from_strides, 0, out_kernel);
}

reed_status cpu_prepare_expand(const reed_kernel_call *call, reed_kernel *out_kernel) {
  int64_t from_strides[REED_MAX_RANK];
  if (!cpu_broadcast_strides(&call->inputs[0], &call->outputs[0], from_strides))
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "the input does not broadcast to the output");
  const reed_desc *in = &call->inputs[0], *out = &call->outputs[0];
  int64_t strides[REED_MAX_RANK];
  cpu_input_strides(call, 0, strides);
  for (int32_t d = 0; d < in->rank; d++)
    if (from_strides[out->rank - in->rank + d] != 0) from_strides[out->rank - in->rank + d] = strides[d];
  return prepare_roomy(call, out->rank, out->dims, from_strides, 0, out_kernel);
}

/* Tile: each dim becomes (repeat, extent), the first with stride 0. */
reed_status cpu_prepare_tile(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0], *out = &call->outputs[0];
  int64_t dense[REED_MAX_RANK], extents[STRIDED_MAX_RANK], from_strides[STRIDED_MAX_RANK];
  cpu_dense_strides(in->rank, in->dims, dense);
  for (int32_t d = 0; d < in->rank; d++) {
    extents[2 * d] = in->dims[d] ? out->dims[d] / in->dims[d] : 0;
    from_strides[2 * d] = 0;
    extents[2 * d + 1] = in->dims[d];
    from_strides[2 * d + 1] = dense[d];
  }
  return prepare_dense(call, 2 * in->rank, extents, from_strides, 0, out_kernel);
}

/* Slice (ONNX 13): starts beyond the ends are clamped as the shape function did; the extent is the output's. */
reed_status cpu_prepare_slice(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0], *out = &call->outputs[0];
  int64_t from_strides[REED_MAX_RANK], offset = 0;
  cpu_input_strides(call, 0, from_strides);
  bool has_axes = cpu_present(call, 3), has_steps = cpu_present(call, 4);
  int64_t n = desc_elements(&call->inputs[1]);
  for (int64_t k = 0; k < n; k++) {
    int32_t d =
        has_axes ? cpu_axis(cpu_index_at(call->inputs[3].dtype, call->host_values[3], k), in->rank) : (int32_t)k;
    int64_t start = cpu_index_at(call->inputs[1].dtype, call->host_values[1], k);
    int64_t step = has_steps ? cpu_index_at(call->inputs[4].dtype, call->host_values[4], k) : 1;
    if (start < 0) start = start < -in->dims[d] ? -1 : start + in->dims[d];
    if (step > 0) start = start < 0 ? 0 : start;
    if (step < 0) start = start < 0 ? 0 : start >= in->dims[d] ? in->dims[d] - 1 : start;
    if (out->dims[d] == 0) continue;
    offset += start * from_strides[d];
    /* with one element the step is never taken and might overflow */
    from_strides[d] = out->dims[d] == 1 ? 0 : from_strides[d] * step;
  }
  return prepare_roomy(call, out->rank, out->dims, from_strides, offset, out_kernel);
}

/* DepthToSpace: channels as (b, b, C) for mode DCR or (C, b, b) for CRD; output [N, C, H, b, W, b], channels last [N,
 * H, b, W, b, C]. */
reed_status cpu_prepare_depth_to_space(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const int64_t *in = call->inputs[0].dims, b = op_attr_int(call->attrs, "blocksize");
  bool crd = strcmp(op_attr_string(call->attrs, "mode"), "CRD") == 0;
  if (op_attr_int(call->attrs, "channels_last")) {
    int64_t c = in[3] / (b * b), block = crd ? 1 : c;
    const int64_t extents[] = {in[0], in[1], b, in[2], b, c};
    const int64_t from_strides[] = {in[1] * in[2] * in[3], in[2] * in[3], b * block, in[3], block, crd ? b * b : 1};
    return prepare_dense(call, 6, extents, from_strides, 0, out_kernel);
  }
  int64_t plane = in[2] * in[3], c = in[1] / (b * b), block = crd ? plane : c * plane;
  const int64_t extents[] = {in[0], c, in[2], b, in[3], b};
  const int64_t from_strides[] = {in[1] * plane, crd ? b * b * plane : plane, in[3], b * block, 1, block};
  return prepare_dense(call, 6, extents, from_strides, 0, out_kernel);
}

/* SpaceToDepth: output [N, b, b, C, H/b, W/b], channels last [N, H/b, W/b, b, b, C]. */
reed_status cpu_prepare_space_to_depth(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const int64_t *in = call->inputs[0].dims, b = op_attr_int(call->attrs, "blocksize");
  if (op_attr_int(call->attrs, "channels_last")) {
    const int64_t extents[] = {in[0], in[1] / b, in[2] / b, b, b, in[3]}, row = in[2] * in[3];
    const int64_t from_strides[] = {in[1] * row, b * row, b * in[3], row, in[3], 1};
    return prepare_dense(call, 6, extents, from_strides, 0, out_kernel);
  }
  int64_t plane = in[2] * in[3];
  const int64_t extents[] = {in[0], b, b, in[1], in[2] / b, in[3] / b};
  const int64_t from_strides[] = {in[1] * plane, in[3], 1, plane, b * in[3], b};
  return prepare_dense(call, 6, extents, from_strides, 0, out_kernel);
}
