/* Kernels for inputs with room (reed_room) that take every operand for dense: their plan behind copies of these inputs
 * (rooms.h). */
#include "device/cuda/kernels/rooms.h"

#include "base/desc.h"
#include "device/cuda/kernels/move.h"
#include "ops/op.h"
#include "ops/room_call.h"

/* The inputs of a call whose elements are copied, and where their copies lie in the workspace. */
typedef struct room_copies {
  int32_t n;
  int64_t at[REED_MAX_OPERANDS];  /* -1: no copy */
  int64_t bytes, workspace_bytes; /* of the copies; up to their end */
} room_copies;

/* The copies of inputs from number `first` on. */
static room_copies copies_of(const reed_kernel_call *call, int32_t first) {
  room_copies c = {0};
  for (int32_t i = call->n_inputs; i < REED_MAX_OPERANDS; i++) c.at[i] = -1;
  for (int32_t i = 0; i < call->n_inputs; i++) {
    const reed_desc *desc = &call->inputs[i];
    c.at[i] = -1;
    if (i < first || op_has(call->op, REED_OP_EXTENTS_ONLY) || desc->dtype == REED_NONE || !call->input_rooms ||
        !room_has_gaps(desc, &call->input_rooms[i]))
      continue;
    c.n++;
    c.at[i] = c.workspace_bytes;
    c.bytes += desc_bytes(desc);
    c.workspace_bytes = cuda_round_up(c.at[i] + desc_bytes(desc));
  }
  return c;
}

/* True if the plan overwrites rows of a past, and the past is not among the copied inputs. */
static bool saves_rows(const cuda_prepared *dense, const room_copies *copies) {
  return dense->overwrites.n_bytes && copies->at[0] < 0;
}

/* Moves the copies behind the rows that the plan saves, and makes the record's memory large enough for both. */
static void move_behind_saved(room_copies *copies, const overwritten *saved, overwritten *out_record) {
  const int64_t first = cuda_round_up(overwritten_saved_bytes(saved));
  for (int32_t i = 0; i < REED_MAX_OPERANDS; i++)
    if (copies->at[i] >= 0) copies->at[i] += first;
  copies->workspace_bytes += first;
  *out_record = *saved;
  out_record->n_bytes += copies->workspace_bytes - overwritten_saved_bytes(saved);
}

/* Adds the launches of a plan that was made for dense inputs. Its workspace lies behind the copies, saved rows in front
 * of them: these begin the memory that the session gives. */
static void add_launches(cuda_plan *plan, const cuda_prepared *dense, const room_copies *copies) {
  for (uint32_t l = 0; l < dense->n_launches && !plan->failed; l++) {
    const cuda_launch *from = &dense->launches[l];
    cuda_plan_launch(plan, from->kernel, 1, from->shared_bytes, dense->args + from->args_at);
    if (plan->failed) return;
    cuda_launch *made = &plan->launches.items[plan->launches.n - 1];
    for (int d = 0; d < 3; d++) made->grid[d] = from->grid[d];
    made->keeps = from->keeps;
    for (uint32_t i = 0; i < from->n_pointers; i++) {
      const cuda_pointer *p = &dense->pointers[from->first_pointer + i];
      const bool saved = p->source == CUDA_FROM_WORKSPACE && dense->overwrites.n_bytes;
      if (saved && !saves_rows(dense, copies)) continue; /* a copied past is not overwritten */
      const bool copied = p->source == CUDA_FROM_INPUT && copies->at[p->index] >= 0;
      const cuda_source source = copied ? CUDA_FROM_WORKSPACE : (cuda_source)p->source;
      int64_t at = copied ? copies->at[p->index] : 0;
      if (p->source == CUDA_FROM_WORKSPACE && !saved) at = copies->workspace_bytes;
      cuda_plan_pointer(plan, p->field, source, copied ? 0 : p->index, at + p->offset, p->bytes, p->written);
    }
  }
}

/* The kernel for dense copies in the place of these inputs. */
static reed_status prepare_dense(const reed_kernel_call *call, const room_copies *copies,
                                 reed_kernel_prepare_fn prepare, reed_kernel *out_kernel) {
  reed_room rooms[REED_MAX_OPERANDS];
  cuda_call dense = *(const cuda_call *)call;
  for (int32_t i = 0; i < call->n_inputs; i++)
    rooms[i] = copies->at[i] >= 0 ? (reed_room){.axis = -1} : call->input_rooms[i];
  dense.call.input_rooms = rooms;
  return prepare(&dense.call, out_kernel);
}

static void drop(reed_kernel *kernel) {
  if (kernel->free) kernel->free(kernel->state);
  *kernel = (reed_kernel){0};
}

/* The kernel with as few copies as it can do with: a past, which is input 0, stays where it lies if copies of the
 * others are enough, because its rows may be overwritten there. */
static reed_status prepare_inner(const reed_kernel_call *call, reed_kernel_prepare_fn prepare, room_copies *out_copies,
                                 reed_kernel *out_kernel) {
  *out_copies = copies_of(call, 1);
  reed_status status = REED_OK;
  if (out_copies->n > 0) status = prepare_dense(call, out_copies, prepare, out_kernel);
  if (status != REED_OK || (out_kernel->run == cuda_run && out_kernel->reads_rooms)) return status;
  drop(out_kernel);
  *out_copies = copies_of(call, 0);
  return prepare_dense(call, out_copies, prepare, out_kernel);
}

reed_status rooms_prepare(const reed_kernel_call *call, reed_kernel_prepare_fn prepare, reed_kernel *out_kernel) {
  room_copies copies = copies_of(call, 0);
  reed_status status = prepare(call, out_kernel);
  if (status != REED_OK || out_kernel->reads_rooms || copies.n == 0) return status;
  drop(out_kernel);
  reed_kernel inner = {0};
  status = prepare_inner(call, prepare, &copies, &inner);
  if (status != REED_OK || inner.run != cuda_run) {
    *out_kernel = inner;
    return status;
  }
  cuda_plan plan = {.call = call};
  if (saves_rows(inner.state, &copies))
    move_behind_saved(&copies, &((const cuda_prepared *)inner.state)->overwrites, &plan.overwrites);
  for (int32_t i = 0; i < call->n_inputs; i++)
    if (copies.at[i] >= 0) move_to_dense(&plan, i, copies.at[i]);
  add_launches(&plan, inner.state, &copies);
  status = cuda_plan_close(&plan, copies.workspace_bytes + inner.workspace_bytes, out_kernel);
  inner.free(inner.state);
  if (status == REED_OK) {
    out_kernel->reads_rooms = true;
    out_kernel->dense_bytes = copies.bytes;
    out_kernel->apart = inner.apart;
  }
  return status;
}
