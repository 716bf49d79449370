/* Option `values=1`: kernels are planned for the card, and the host's kernels compute their results, through copies of
 * the operands. So a plan of a large model on the emulated GPU has the card's arenas and launches, and results that
 * shapes may come from, in seconds. */
#include <string.h>

#include "base/desc.h"
#include "base/mem.h"
#include "base/strides.h"
#include "device/cuda/kernels/operators.h"
#include "device/cuda/state.h"
#include "device/loadable.h"
#include "ops/op.h"
#include "ops/room_call.h"

typedef struct by_host {
  reed_kernel card, host;
  overwritten_log log; /* of the host's kernel */
  reed_kernel_env env; /* of the call, with that log; a kernel of a counted call reads it at its runs, too */
  int32_t n_inputs, n_outputs;
  int64_t bytes[]; /* that inputs, then outputs, span; 0: absent */
} by_host;

static reed_status run_elsewhere(const void *state, const reed_kernel_buffers *buffers) {
  return diag_fail(buffers->diagnosis, REED_ERROR_DEVICE, "a kernel of device 'cuda' was run outside of its device");
}

static void free_both(void *state) {
  by_host *k = state;
  if (k->card.free) k->card.free(k->card.state);
  if (k->host.free) k->host.free(k->host.state);
  overwritten_fini(&k->log);
  mem_free(k);
}

/* The bytes from the operand's first element on. */
static int64_t span(const reed_desc *desc, const reed_room *room) {
  int64_t strides[REED_MAX_RANK], low, high = 0;
  if (desc->dtype == REED_NONE) return 0;
  if (!room || room->axis < 0 || room->counted) return desc_bytes(desc);
  strides_of(desc, room->axis, room->capacity, strides);
  return strides_span(desc, strides, &low, &high) ? high : 0;
}

/* Libreed's rows of the operators, by number. The rules of ops/bound.h know this module's own rows, the host's kernels
 * know libreed's. */
static _Atomic(const reed_op *) given_rows[OP_COUNT];

static reed_status prepare_given(const reed_kernel_call *call, reed_kernel *out_kernel) {
  reed_kernel_call given = *call;
  given.op = given_rows[op_id_of(call->op)];
  return loadable_host_kernel(given.op)(&given, out_kernel);
}

static reed_status prepare_both(const reed_kernel_call *call, cuda_math math, reed_kernel *out_kernel) {
  const size_t n = (size_t)(call->n_inputs + call->n_outputs);
  by_host *k = mem_calloc(1, sizeof *k + n * sizeof *k->bytes);
  if (!k) return diag_no_memory(call->diagnosis, "a kernel");
  k->n_inputs = call->n_inputs;
  k->n_outputs = call->n_outputs;
  for (int32_t i = 0; i < call->n_inputs; i++)
    k->bytes[i] = span(&call->inputs[i], call->input_rooms ? &call->input_rooms[i] : NULL);
  for (int32_t i = 0; i < call->n_outputs; i++)
    k->bytes[k->n_inputs + i] = span(&call->outputs[i], call->output_rooms ? &call->output_rooms[i] : NULL);
  reed_status status = cuda_kernel_of(call->op, math)(call, &k->card);
  reed_kernel_call own = *call;
  if (call->env) {
    k->env = *call->env;
    k->env.overwritten = cuda_overwrites(&k->card) ? &k->log : NULL;
    own.env = &k->env;
  }
  own.op = op_builtin_in(call->op->domain, call->op->name);
  given_rows[op_id_of(own.op)] = call->op;
  if (status == REED_OK) status = room_prepare(&own, prepare_given, false, &k->host);
  if (status != REED_OK) {
    free_both(k);
    return status;
  }
  *out_kernel = k->card;
  out_kernel->run = run_elsewhere;
  out_kernel->state = k;
  out_kernel->free = free_both;
  return REED_OK;
}

static reed_status prepare_plain(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_both(call, CUDA_MATH_PLAIN, out_kernel);
}
static reed_status prepare_halves(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_both(call, CUDA_MATH_HALVES, out_kernel);
}
static reed_status prepare_tf32(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_both(call, CUDA_MATH_TF32, out_kernel);
}
static const reed_kernel_prepare_fn prepares[CUDA_MATHS] = {
    [CUDA_MATH_PLAIN] = prepare_plain, [CUDA_MATH_HALVES] = prepare_halves, [CUDA_MATH_TF32] = prepare_tf32};

reed_kernel_prepare_fn cuda_kernel_by_host(const device *base, const reed_op *op) {
  const cuda_math math = ((const cuda_device *)base)->math;
  return cuda_kernel_of(op, math) ? prepares[math] : NULL;
}

bool cuda_is_by_host(const reed_kernel *kernel) { return kernel->run == run_elsewhere; }

const overwritten *cuda_overwrites_by_host(const reed_kernel *kernel) {
  return cuda_overwrites(&((const by_host *)kernel->state)->card);
}

static cu_pointer at(const void *data) { return (cu_pointer)(uintptr_t)data; }

/* Copies of the operands on the host. */
typedef struct copies {
  void *operands[2 * REED_MAX_OPERANDS]; /* inputs, then outputs */
  bool copied[2 * REED_MAX_OPERANDS];    /* false: memory of the host, such as that of a value input */
  bool saves;                            /* rows of output 0 are overwritten, and input 0 is the same copy */
  const int64_t *input_extents[REED_MAX_OPERANDS];
  int64_t counts[REED_MAX_OPERANDS], extents[REED_MAX_OPERANDS];
  void *workspace;
} copies;

static cu_result fetch(const cuda_queue *queue, void *to, const void *from, int64_t bytes) {
  return cuda_of(&queue->base)->driver.copy_out(to, at(from), (size_t)bytes, queue->stream);
}

/* Fills the copies. An output is copied, too, because its kernel may leave a part of it as it is. */
static cu_result begin(const cuda_queue *queue, const by_host *k, const reed_kernel_buffers *given, copies *c,
                       bool *out_failed) {
  cu_result result = CU_SUCCESS;
  c->saves = cuda_overwrites(&k->card) && given->inputs[0] == given->outputs[0];
  for (int32_t i = c->saves; i < k->n_inputs + k->n_outputs && !result; i++) {
    const void *from = i < k->n_inputs ? given->inputs[i] : given->outputs[i - k->n_inputs];
    if (!from || !k->bytes[i]) continue;
    c->operands[i] = (void *)from;
    if (!cuda_holds(queue->base.device, from, k->bytes[i])) continue;
    c->copied[i] = true;
    c->operands[i] = mem_alloc_aligned((size_t)k->bytes[i], 64);
    *out_failed |= !c->operands[i];
    if (c->operands[i]) result = fetch(queue, c->operands[i], from, k->bytes[i]);
  }
  if (c->saves) c->operands[0] = c->operands[k->n_inputs];
  for (int32_t i = 0; given->input_extents && i < k->n_inputs && !result; i++) {
    if (!given->input_extents[i]) continue;
    c->input_extents[i] = &c->counts[i];
    result = fetch(queue, &c->counts[i], given->input_extents[i], sizeof *c->counts);
  }
  if (given->extents && !result) result = fetch(queue, c->extents, given->extents, k->n_outputs * 8);
  if (k->host.workspace_bytes) *out_failed |= !(c->workspace = mem_alloc_aligned((size_t)k->host.workspace_bytes, 64));
  const cu_result done = cuda_of(&queue->base)->driver.stream_synchronize(queue->stream);
  return result ? result : done;
}

/* Writes the rows that the host's kernel has saved where the card's kernel saves them (ops/overwritten.h). */
static cu_result save(const cuda_queue *queue, const by_host *k, void *saved) {
  const cuda_driver *cu = &cuda_of(&queue->base)->driver;
  const overwritten *rows = (const overwritten *)k->log.records;
  int64_t times = 0;
  cu_result result = fetch(queue, &times, saved, sizeof times);
  if (!result) result = cu->stream_synchronize(queue->stream);
  times++;
  if (!result)
    result =
        cu->copy_in(at((char *)saved + sizeof times), rows + 1, (size_t)rows->n_bytes - sizeof *rows, queue->stream);
  return result ? result : cu->copy_in(at(saved), &times, sizeof times, queue->stream);
}

/* Returns the results to the card's memory, and frees the copies. */
static cu_result end(const cuda_queue *queue, const by_host *k, const reed_kernel_buffers *given, copies *c) {
  const cuda_driver *cu = &cuda_of(&queue->base)->driver;
  cu_result result = c->saves && k->log.n_bytes ? save(queue, k, given->workspace) : CU_SUCCESS;
  for (int32_t i = 0; i < k->n_outputs && !result; i++) {
    const void *from = c->operands[k->n_inputs + i];
    if (from && c->copied[k->n_inputs + i])
      result = cu->copy_in(at(given->outputs[i]), from, (size_t)k->bytes[k->n_inputs + i], queue->stream);
  }
  if (given->extents && !result)
    result = cu->copy_in(at(given->extents), c->extents, (size_t)k->n_outputs * 8, queue->stream);
  for (int32_t i = 0; i < k->n_inputs + k->n_outputs; i++) /* copies that are not pinned: the driver has read them */
    if (c->copied[i]) mem_free_aligned(c->operands[i]);
  mem_free_aligned(c->workspace);
  return result;
}

reed_status cuda_launch_by_host(cuda_queue *queue, const reed_kernel *kernel, const reed_kernel_buffers *given,
                                uint32_t number, reed_diagnosis *diagnosis) {
  by_host *k = kernel->state;
  copies c = {0};
  bool failed = false;
  reed_fault fault = {0};
  const cuda_driver *cu = &cuda_of(&queue->base)->driver;
  if (cu->count && k->card.run == cuda_run) cu->count(k->card.state);
  k->log.n_bytes = 0;
  cu_result result = begin(queue, k, given, &c, &failed);
  reed_status status = failed ? diag_no_memory(diagnosis, "copies of a kernel's operands") : REED_OK;
  const reed_kernel_buffers own = {.inputs = (const void *const *)c.operands,
                                   .outputs = c.operands + k->n_inputs,
                                   .workspace = c.workspace,
                                   .extents = c.extents,
                                   .diagnosis = diagnosis,
                                   .fault = &fault,
                                   .input_extents = given->input_extents ? c.input_extents : NULL};
  if (!result && status == REED_OK) status = k->host.run(k->host.state, &own);
  if (fault.code && !queue->fault->taken) { /* told by the next synchronisation, as a fault of the card's kernel */
    *queue->fault = (cuda_fault){1, number, {fault.code, fault.operand, fault.element, fault.value, fault.limit}};
    status = REED_OK;
  }
  const cu_result ended = end(queue, k, given, &c);
  if (status != REED_OK) return status;
  return cuda_check(cuda_of(&queue->base), result ? result : ended, "a kernel's operands cannot be copied", diagnosis);
}
