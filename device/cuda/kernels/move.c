/* Launches that move elements by places: Concat, Split, Transpose, Slice and their like, and Pad. Movement by
 * indices: gather.c. */
#include "base/desc.h"
#include "device/cuda/kernels/move.h"
#include "ops/bound.h"
#include "ops/cpu/calls/rearrangement.h"
#include "ops/cpu/common/common.h"

/* Places of elements in memory. */
typedef struct move_side {
  cuda_source source;
  int32_t index;
  const int64_t *strides;
  int64_t offset;
  int64_t bytes; /* that the pointer covers */
  int64_t at;    /* of the pointer in its source */
} move_side;

/* Copies that one launch of `moves` makes. */
typedef struct move_batch {
  moves_args made;
  move_side from[MOVES_PARTS], to[MOVES_PARTS];
  int64_t blocks;
} move_batch;

/* A copy of counted rows of input 0 that reports their number. */
typedef struct move_cut {
  int64_t start, end, step, row; /* of move_args */
} move_cut;

/* Divides the strides larger than that of the counted axis, backwards or not, by the bound; the kernel multiplies them
 * by the count. */
static uint32_t scale(int32_t rank, int64_t *strides, int64_t of_axis, int64_t capacity) {
  uint32_t scaled = 0;
  for (int32_t d = 0; d < rank; d++) {
    if ((strides[d] < 0 ? -strides[d] : strides[d]) <= of_axis) continue;
    strides[d] /= capacity;
    scaled |= 1u << d;
  }
  return scaled;
}

void move_by_vectors(const move_places *p, int64_t capacity) {
  const int64_t elements = 16 / *p->size, last = p->rank - 1;
  int64_t all = *p->from_offset | *p->to_offset;
  if (p->rank == 0 || p->from[last] != 1 || p->to[last] != 1) return;
  for (int32_t d = 0; d < last; d++) all |= p->from[d] | p->to[d];
  all |= p->extents[last];
  if (all % elements || *p->n / elements % capacity) return;
  for (int32_t d = 0; d < last; d++) {
    p->from[d] /= elements;
    p->to[d] /= elements;
  }
  p->extents[last] /= elements;
  *p->from_offset /= elements;
  *p->to_offset /= elements;
  *p->n /= elements;
  *p->size = 16;
}

/* Adds the launch of the batch, if it has parts, and begins another. */
static void close_batch(cuda_plan *plan, move_batch *batch) {
  const moves_args *made = &batch->made;
  if (made->n_parts > 0) {
    uint32_t keeps = (uint32_t)made->n_parts;
    cuda_plan_launch(plan, CUDA_moves, batch->blocks, 0, made);
    for (int32_t k = 0; k < made->n_parts; k++) {
      const move_side *from = &batch->from[k], *to = &batch->to[k];
      CUDA_PART(plan, moves_args, parts[k].x, from->source, from->index, from->at, from->bytes, false);
      CUDA_PART(plan, moves_args, parts[k].y, to->source, to->index, to->at, to->bytes, true);
      if (!made->parts[k].keeps) keeps = 0;
    }
    cuda_plan_keeps(plan, keeps);
    if (made->counted.factor) cuda_plan_count(plan, offsetof(moves_args, counted));
  }
  *batch = (move_batch){0};
}

/* True if all places, and their number, have 32 bits, and no stride waits for the count. */
static bool has_part(const move_args *made, const move_side *from, const move_side *to) {
  return made->rank <= MOVES_DIMS && made->n <= INT32_MAX && from->bytes / made->unit <= INT32_MAX &&
         to->bytes / made->unit <= INT32_MAX && !made->from_scaled && !made->to_scaled && !made->from_outer;
}

/* Adds the copy to the batch. */
static void add_part(cuda_plan *plan, move_batch *batch, const move_args *made, move_side from, move_side to,
                     bool keeps) {
  if (batch->made.n_parts == MOVES_PARTS) close_batch(plan, batch);
  const int32_t k = batch->made.n_parts++, absent = MOVES_DIMS - made->rank;
  move_part *part = &batch->made.parts[k];
  *part = (move_part){.n = (uint32_t)(made->counted.factor ? made->n / made->counted.capacity : made->n),
                      .first_block = (uint32_t)batch->blocks,
                      .from_offset = (uint32_t)made->from_offset,
                      .to_offset = (uint32_t)made->to_offset,
                      .size = (uint8_t)made->size,
                      .unit = (uint8_t)made->unit,
                      .splits = (uint8_t)(made->rank ? made->rank - 1 : 0),
                      .keeps = keeps};
  for (int32_t d = 0; d < MOVES_DIMS; d++) {
    part->extents[d] = d < absent ? 1 : (uint32_t)made->extents[d - absent];
    part->from[d] = d < absent ? 0 : (uint32_t)made->from[d - absent];
    part->to[d] = d < absent ? 0 : (uint32_t)made->to[d - absent];
  }
  batch->made.counted = made->counted;
  batch->from[k] = from;
  batch->to[k] = to;
  batch->blocks += blocks_for(CUDA_moves, made->n);
}

/* Adds a copy of elements of `size` bytes to the batch, or a launch of its own; nothing if there are none. With
 * `counted`, dim 0 has the call's count, and both sides are dense. `cut` NULL: all rows, none reported. `keeps`: both
 * sides have the same places, so nothing is copied if they are the same memory. */
static void add_move(cuda_plan *plan, move_batch *batch, int32_t rank, const int64_t *extents, int64_t size,
                     move_side from, move_side to, bool counted, const move_cut *cut, bool keeps) {
  move_args made = {
      .n = 1, .size = (int32_t)size, .unit = (int32_t)size, .from_offset = from.offset, .to_offset = to.offset};
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
  if (made.n == 0 && !cut) return;
  if (cut) {
    made.counted = cuda_counted(plan->call);
    made.start = cut->start;
    made.end = cut->end;
    made.step = cut->step;
    made.row = cut->row;
  } else if (counted) {
    const int64_t outer = from.strides[0] * (made.counted = cuda_counted(plan->call)).capacity;
    if (outer > 0) { /* the offset has the first places along the axes before and behind the counted one */
      made.from_outer = from.offset / outer * from.strides[0];
      made.from_offset = from.offset % outer;
    }
    made.from_scaled = scale(made.rank, made.from, from.strides[0], made.counted.capacity);
    made.to_scaled = scale(made.rank, made.to, to.strides[0], made.counted.capacity);
  }
  if (!cut)
    move_by_vectors(&(move_places){made.extents, made.from, made.to, &made.from_offset, &made.to_offset, &made.n,
                                   made.rank, &made.size},
                    counted ? made.counted.capacity : 1);
  made.from_outer /= made.size / made.unit;
  if (!cut && has_part(&made, &from, &to)) {
    add_part(plan, batch, &made, from, to, keeps);
    return;
  }
  cuda_plan_each(plan, CUDA_move, made.n ? made.n : 1, &made);
  CUDA_PART(plan, move_args, x, from.source, from.index, from.at, from.bytes, false);
  CUDA_PART(plan, move_args, y, to.source, to.index, to.at, to.bytes, true);
  cuda_plan_keeps(plan, keeps);
  if (counted || cut) cuda_plan_count(plan, offsetof(move_args, counted));
  if (cut) CUDA_PART(plan, move_args, reported, CUDA_FROM_EXTENTS, 0, 0, sizeof(int64_t), true);
}

/* The bytes that an operand with these strides spans. */
static int64_t span(const reed_desc *desc, const int64_t *strides) {
  int64_t last = 0;
  if (desc_elements(desc) == 0) return 0;
  for (int32_t d = 0; d < desc->rank; d++) last += (desc->dims[d] - 1) * strides[d];
  return (last + 1) * (int64_t)reed_dtype_bytes(desc->dtype);
}

/* The dim of a copy of all of input 0 that has the count, which the copy walks first; -1: none. Of a count of at most 1
 * any dim of extent 1 serves, because no stride is scaled: Expand gives such a dim the stride 0. */
static int32_t counted_dim(const reed_kernel_call *call, int32_t rank, const int64_t *extents, const int64_t *from,
                           const int64_t *in_strides) {
  if (cuda_counted_input(call) != 0) return -1;
  const reed_room *room = &call->input_rooms[0];
  for (int32_t d = 0; d < rank; d++)
    if (extents[d] == room->capacity && (room->capacity == 1 || from[d] == in_strides[room->axis])) return d;
  return -1;
}

/* The dim that stands at place d when dim `first` (-1: none) is walked first. */
static int32_t walked(int32_t first, int32_t d) { return first < 0 || d > first ? d : d ? d - 1 : first; }

/* The cut of a call that reports the count of output 0: only extents of 1 stand before the counted axis. */
static bool cut_of(const reed_kernel_call *call, move_cut *out_cut) {
  if (!bound_is_reported(call, 0)) return false;
  const int32_t axis = call->output_rooms[0].axis;
  out_cut->row = cpu_product(call->outputs[0].dims, axis + 1, call->outputs[0].rank);
  return bound_cut(call, axis, &out_cut->start, &out_cut->end, &out_cut->step);
}

/* A kernel of one copy: output 0, dense over `extents`, from input 0 by from_strides from from_offset on. */
static reed_status prepare_dense(const reed_kernel_call *call, int32_t rank, const int64_t *extents,
                                 const int64_t *from_strides, int64_t from_offset, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  int64_t to_strides[MOVE_DIMS], in_strides[REED_MAX_RANK];
  cpu_dense_strides(rank, extents, to_strides);
  cpu_input_strides(call, 0, in_strides);
  move_cut cut;
  const bool reports = cut_of(call, &cut);
  const int32_t first = reports ? -1 : counted_dim(call, rank, extents, from_strides, in_strides);
  int64_t walk[MOVE_DIMS], from[MOVE_DIMS], to[MOVE_DIMS];
  for (int32_t d = 0; d < rank; d++) {
    const int32_t of = walked(first, d);
    walk[d] = extents[of], from[d] = from_strides[of], to[d] = to_strides[of];
  }
  move_batch batch = {0};
  add_move(&plan, &batch, rank, walk, (int64_t)reed_dtype_bytes(call->outputs[0].dtype),
           (move_side){CUDA_FROM_INPUT, 0, from, from_offset, span(&call->inputs[0], in_strides)},
           (move_side){CUDA_FROM_OUTPUT, 0, to, 0, desc_bytes(&call->outputs[0])}, first >= 0, reports ? &cut : NULL,
           false);
  close_batch(&plan, &batch);
  return cuda_plan_close(&plan, 0, out_kernel);
}

/* As prepare_dense, for from_strides made of the room's strides of input 0. */
static reed_status prepare_roomy(const reed_kernel_call *call, int32_t rank, const int64_t *extents,
                                 const int64_t *from_strides, int64_t from_offset, reed_kernel *out_kernel) {
  const reed_status status = prepare_dense(call, rank, extents, from_strides, from_offset, out_kernel);
  out_kernel->reads_rooms = status == REED_OK && cpu_rooms_only(call, 1);
  return status;
}

void move_to_dense(cuda_plan *plan, int32_t input, int64_t workspace_at) {
  const reed_desc *in = &plan->call->inputs[input];
  int64_t from[REED_MAX_RANK], to[REED_MAX_RANK];
  cpu_input_strides(plan->call, input, from);
  cpu_dense_strides(in->rank, in->dims, to);
  move_batch batch = {0};
  add_move(plan, &batch, in->rank, in->dims, (int64_t)reed_dtype_bytes(in->dtype),
           (move_side){CUDA_FROM_INPUT, input, from, 0, span(in, from)},
           (move_side){CUDA_FROM_WORKSPACE, 0, to, 0, desc_bytes(in), .at = workspace_at}, false, NULL, false);
  close_batch(plan, &batch);
}

reed_status cuda_prepare_copy(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  int64_t strides[REED_MAX_RANK];
  if (desc_elements(&call->outputs[0]) != desc_elements(in))
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "input and output differ in their number of elements");
  cpu_input_strides(call, 0, strides);
  return prepare_roomy(call, in->rank, in->dims, strides, 0, out_kernel);
}

static bool same_places(const reed_desc *desc, const int64_t *a, const int64_t *b) {
  for (int32_t d = 0; d < desc->rank; d++)
    if (desc->dims[d] != 1 && a[d] != b[d]) return false;
  return true;
}

/* Concat of counted rows: a launch for each input, which begins behind the rows that the launch before has counted. The
 * sums lie in the workspace, the last one is the count of the output. */
static reed_status prepare_join(const reed_kernel_call *call, int32_t axis, reed_kernel *out_kernel) {
  const reed_desc *out = &call->outputs[0];
  const int64_t row = cpu_product(out->dims, axis + 1, out->rank), at = sizeof(int64_t);
  cuda_plan plan = {.call = call};
  for (int32_t i = 0; i < call->n_inputs; i++) {
    const reed_desc *in = &call->inputs[i];
    const bool last = i == call->n_inputs - 1;
    const int32_t counted = cuda_is_counted(call, i) ? i : cuda_counted_input(call);
    const int64_t n = desc_elements(in);
    const join_args made = {.rows = in->dims[axis],
                            .row = row,
                            .size = (int32_t)reed_dtype_bytes(out->dtype),
                            .is_counted = counted == i,
                            .counted = cuda_counted_by(call, counted)};
    cuda_plan_each(&plan, CUDA_join, n ? n : 1, &made);
    cuda_plan_extent(&plan, offsetof(join_args, counted), counted);
    CUDA_INPUT(&plan, join_args, x, i);
    CUDA_OUTPUT(&plan, join_args, y, 0);
    if (i) CUDA_PART(&plan, join_args, before, CUDA_FROM_WORKSPACE, 0, (i - 1) * at, at, false);
    CUDA_PART(&plan, join_args, after, last ? CUDA_FROM_EXTENTS : CUDA_FROM_WORKSPACE, 0, last ? 0 : i * at, at, true);
  }
  return cuda_plan_close(&plan, call->n_inputs * at, out_kernel);
}

/* An input that lies at its place in the output is not copied. Of a cache, whose past may be long, it has a launch of
 * its own, which is left out. */
reed_status cuda_prepare_concat(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *out = &call->outputs[0];
  const int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), out->rank);
  if (bound_is_reported(call, 0)) return prepare_join(call, axis, out_kernel);
  cuda_plan plan = {.call = call};
  int64_t to[REED_MAX_RANK], from[REED_MAX_RANK], offset = 0;
  cpu_output_strides(call, 0, to);
  const int32_t counted = cuda_counted_input(call) < 0 ? -1 : call->output_rooms[0].axis;
  const bool is_cache = counted < 0 && call->output_rooms && call->output_rooms[0].axis >= 0;
  move_batch batch = {0};
  for (int32_t i = 0; i < call->n_inputs; i++) {
    const reed_desc *in = &call->inputs[i];
    int64_t walk[REED_MAX_RANK], walk_from[REED_MAX_RANK], walk_to[REED_MAX_RANK];
    cpu_input_strides(call, i, from);
    for (int32_t d = 0; d < in->rank; d++) {
      const int32_t of = walked(counted, d);
      walk[d] = in->dims[of], walk_from[d] = from[of], walk_to[d] = to[of];
    }
    const int64_t size = (int64_t)reed_dtype_bytes(out->dtype), at = offset * size;
    const bool keeps = same_places(in, from, to);
    add_move(&plan, &batch, in->rank, walk, size, (move_side){CUDA_FROM_INPUT, i, walk_from, 0, span(in, from)},
             (move_side){CUDA_FROM_OUTPUT, 0, walk_to, 0, span(out, to) - at, at}, counted >= 0, NULL, keeps);
    if (is_cache && keeps) close_batch(&plan, &batch);
    offset += in->dims[axis] * to[axis];
  }
  close_batch(&plan, &batch);
  const reed_status status = cuda_plan_close(&plan, 0, out_kernel);
  out_kernel->reads_rooms = status == REED_OK;
  return status;
}

reed_status cuda_prepare_split(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  const int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), in->rank);
  cuda_plan plan = {.call = call};
  int64_t to[REED_MAX_RANK], from[REED_MAX_RANK], offset = 0;
  move_batch batch = {0};
  cpu_input_strides(call, 0, from);
  for (int32_t i = 0; i < call->n_outputs; i++) {
    const reed_desc *out = &call->outputs[i];
    cpu_output_strides(call, i, to);
    add_move(&plan, &batch, out->rank, out->dims, (int64_t)reed_dtype_bytes(in->dtype),
             (move_side){CUDA_FROM_INPUT, 0, from, offset, span(in, from)},
             (move_side){CUDA_FROM_OUTPUT, i, to, 0, span(out, to)}, cuda_is_counted(call, 0), NULL, false);
    offset += out->dims[axis] * from[axis];
  }
  close_batch(&plan, &batch);
  const reed_status status = cuda_plan_close(&plan, 0, out_kernel);
  out_kernel->reads_rooms = status == REED_OK;
  return status;
}

/* A kernel of one copy that rearranges input 0. */
static reed_status prepare_rearrangement(const reed_kernel_call *call, rearrangement_fn read, reed_kernel *out_kernel) {
  rearrangement r;
  reed_status status = read(call, &r);
  if (status) return status;
  return (r.roomy ? prepare_roomy : prepare_dense)(call, r.rank, r.extents, r.from, r.offset, out_kernel);
}

reed_status cuda_prepare_transpose(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_rearrangement(call, rearrangement_of_transpose, out_kernel);
}

reed_status cuda_prepare_expand(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_rearrangement(call, rearrangement_of_expand, out_kernel);
}

reed_status cuda_prepare_tile(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_rearrangement(call, rearrangement_of_tile, out_kernel);
}

reed_status cuda_prepare_slice(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_rearrangement(call, rearrangement_of_slice, out_kernel);
}

reed_status cuda_prepare_depth_to_space(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_rearrangement(call, rearrangement_of_depth_to_space, out_kernel);
}

reed_status cuda_prepare_space_to_depth(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_rearrangement(call, rearrangement_of_space_to_depth, out_kernel);
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
    made.counted = cuda_counted(call);
    cuda_plan_each(&plan, CUDA_pad, made.n, &made);
    cuda_plan_count(&plan, offsetof(pad_args, counted));
    CUDA_INPUT(&plan, pad_args, x, 0);
    if (cpu_present(call, 2) && desc_elements(&call->inputs[2]) > 0) CUDA_INPUT(&plan, pad_args, value, 2);
    CUDA_OUTPUT(&plan, pad_args, y, 0);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}
