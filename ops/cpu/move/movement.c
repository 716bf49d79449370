/* Data movement by shapes alone: Reshape and its like, Concat, Split, Transpose, Tile, Slice, DepthToSpace,
 * SpaceToDepth and others as one or more strided copies (common/strided.h). Movement by indices is in gather.c and
 * scatter.c. The reference: reference/movement.c. */
#include "ops/cpu/move/movement.h"

#include "ops/cpu/calls/rearrangement.h"
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

/* A kernel of one copy that rearranges input 0. */
static reed_status prepare_rearrangement(const reed_kernel_call *call, rearrangement_fn read, reed_kernel *out_kernel) {
  rearrangement r;
  reed_status status = read(call, &r);
  if (status) return status;
  return (r.roomy ? prepare_roomy : prepare_dense)(call, r.rank, r.extents, r.from, r.offset, out_kernel);
}

reed_status cpu_prepare_transpose(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_rearrangement(call, rearrangement_of_transpose, out_kernel);
}

reed_status cpu_prepare_expand(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_rearrangement(call, rearrangement_of_expand, out_kernel);
}

reed_status cpu_prepare_tile(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_rearrangement(call, rearrangement_of_tile, out_kernel);
}

reed_status cpu_prepare_slice(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_rearrangement(call, rearrangement_of_slice, out_kernel);
}

reed_status cpu_prepare_depth_to_space(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_rearrangement(call, rearrangement_of_depth_to_space, out_kernel);
}

reed_status cpu_prepare_space_to_depth(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_rearrangement(call, rearrangement_of_space_to_depth, out_kernel);
}
