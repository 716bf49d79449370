/* A prepared kernel for inputs with room along an axis: the kernel itself if it reads strides, otherwise the kernel on
 * dense copies of these inputs (room_call.h). */
#include "ops/room_call.h"

#include "base/desc.h"
#include "base/diag.h"
#include "base/mem.h"
#include "base/strides.h"
#include "ops/bounded_call.h"
#include "ops/inner.h"

#define ALIGN_BYTES 63 /* of copies in the workspace, less 1 */

/* A dense copy of an input. */
typedef struct room_copy {
  int32_t input;
  reed_desc desc;
  int64_t dense[REED_MAX_RANK], strides[REED_MAX_RANK];
  int64_t offset; /* in the workspace */
} room_copy;

typedef struct room_call {
  inner_kernel inner;
  int32_t n_inputs, n_copies;
  room_copy copies[];
} room_call;

bool room_has_gaps(const reed_desc *desc, const reed_room *room) {
  if (!room || room->axis < 0 || room->counted || room->capacity == desc->dims[room->axis]) return false;
  int64_t strides[REED_MAX_RANK];
  strides_of(desc, room->axis, room->capacity, strides);
  return !strides_are_dense(desc, strides);
}

static reed_status run_room(const void *state, const reed_kernel_buffers *buffers) {
  const room_call *r = state;
  const void *inputs[REED_MAX_OPERANDS];
  for (int32_t i = 0; i < r->n_inputs; i++) inputs[i] = buffers->inputs[i];
  for (int32_t i = 0; i < r->n_copies; i++) {
    const room_copy *c = &r->copies[i];
    void *to = (char *)buffers->workspace + c->offset;
    strides_copy(&c->desc, to, c->dense, buffers->inputs[c->input], c->strides);
    inputs[c->input] = to;
  }
  return inner_run(&r->inner, buffers, inputs, buffers->outputs);
}

/* The number of inputs with gaps whose elements the kernel may read; *out_outputs: the number of such outputs. */
static int32_t count_gaps(const reed_kernel_call *call, int32_t *out_outputs) {
  int32_t n = 0;
  *out_outputs = 0;
  if (op_has(call->op, REED_OP_EXTENTS_ONLY)) return 0;
  for (int32_t i = 0; call->input_rooms && i < call->n_inputs; i++)
    n += call->inputs[i].dtype != REED_NONE && room_has_gaps(&call->inputs[i], &call->input_rooms[i]);
  for (int32_t i = 0; call->output_rooms && i < call->n_outputs; i++)
    *out_outputs += call->outputs[i].dtype != REED_NONE && room_has_gaps(&call->outputs[i], &call->output_rooms[i]);
  return n;
}

/* Prepares the kernel for dense inputs and plans their copies. */
static reed_status prepare_dense(const reed_kernel_call *call, int32_t n_copies, reed_kernel_prepare_fn prepare,
                                 bool reads_counts, reed_kernel *out_kernel) {
  reed_room rooms[REED_MAX_OPERANDS];
  reed_kernel_call dense = *call;
  room_call *r = mem_calloc(1, sizeof *r + (size_t)n_copies * sizeof *r->copies);
  if (!r) return diag_no_memory(call->diagnosis, "a kernel");
  int64_t bytes = 0;
  r->n_inputs = call->n_inputs;
  for (int32_t i = 0; i < call->n_inputs; i++) {
    rooms[i] = call->input_rooms[i];
    if (call->inputs[i].dtype == REED_NONE || !room_has_gaps(&call->inputs[i], &rooms[i])) continue;
    room_copy *c = &r->copies[r->n_copies++];
    *c = (room_copy){.input = i, .desc = call->inputs[i], .offset = r->inner.workspace_at};
    strides_of(&c->desc, -1, 0, c->dense);
    strides_of(&c->desc, rooms[i].axis, rooms[i].capacity, c->strides);
    bytes += desc_bytes(&c->desc);
    r->inner.workspace_at = (c->offset + desc_bytes(&c->desc) + ALIGN_BYTES) & ~(int64_t)ALIGN_BYTES;
    rooms[i] = (reed_room){.axis = -1};
  }
  dense.input_rooms = rooms;
  reed_status status = bounded_prepare(&dense, prepare, reads_counts, &r->inner.kernel);
  status = inner_wrap(status, run_room, r, sizeof *r + (size_t)n_copies * sizeof *r->copies, out_kernel);
  if (status == REED_OK) out_kernel->dense_bytes = bytes;
  return status;
}

reed_status room_prepare(const reed_kernel_call *call, reed_kernel_prepare_fn prepare, bool reads_counts,
                         reed_kernel *out_kernel) {
  int32_t n_outputs, n_inputs = count_gaps(call, &n_outputs);
  reed_status status = bounded_prepare(call, prepare, reads_counts, out_kernel);
  if (status != REED_OK || n_inputs + n_outputs == 0 || out_kernel->reads_rooms) return status;
  if (out_kernel->free) out_kernel->free(out_kernel->state);
  *out_kernel = (reed_kernel){0};
  if (n_outputs)
    return diag_fail(call->diagnosis, REED_ERROR_UNSUPPORTED, "%s node '%s': the kernel writes no output with room",
                     call->op->name, call->node);
  return prepare_dense(call, n_inputs, prepare, reads_counts, out_kernel);
}
