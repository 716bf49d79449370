/* The helper's calls, and the addresses of their operands (early.h). The walk that prepares their kernels: plan.c. */
#include "vm/epoch/early.h"

#include <assert.h>

#include "allocator/pool.h"
#include "ops/op.h"
#include "vm/epoch/place.h"
#include "vm/epoch/planner.h"

enum { MOST_LOOKS = 1 << 12 }; /* of a helper that waits for a call: some 50 us */

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/* Waits for the call with this number. False: it will not come, or its kernel is so long in the making that the helper
 * had better take part in that. */
static bool await_call(early_run *e, int32_t number) {
  for (int looks = 0; looks < MOST_LOOKS; looks++) {
    if (atomic_load_explicit(&e->stopped, memory_order_acquire)) return false;
    const bool ended = atomic_load_explicit(&e->ended, memory_order_acquire);
    if (number < atomic_load_explicit(&e->n_ready, memory_order_acquire)) return true;
    if (ended) return false;
    relax();
  }
  return false;
}

static void make_calls(void *context) {
  early_run *e = context;
  while (e->status == REED_OK && await_call(e, e->n_made)) {
    early_call *call = &e->calls[e->n_made];
    e->status = call->run(call->state, &call->buffers);
    e->n_made++;
  }
}

void early_begin(epoch_planner *p) {
  early_run *e = &p->early;
  const vm_device *host = &p->devices->items[0];
  e->begun = false;
  int64_t bytes;
  e->lists = p->has_jobs && p->devices->env.n_threads > 1 && p->devices->n == 1 && !p->run->profile.spans &&
             !p->rooms && !p->run->program->caches.items.n && layout_guess(p, &e->slots, &e->n_slots, &bytes) &&
             place_arena(p->devices, 0, bytes, NULL) == REED_OK && host->arena;
  if (!e->lists) return;
  e->arena = host->arena;
  e->n_listed = e->n_made = 0;
  e->n_pointers = 0;
  e->status = REED_OK;
  e->fault.code = REED_FAULT_NONE;
  atomic_store_explicit(&e->n_ready, 0, memory_order_relaxed);
  atomic_store_explicit(&e->ended, false, memory_order_relaxed);
  atomic_store_explicit(&e->stopped, false, memory_order_relaxed);
}

/* The address of a root's byte; NULL: the root has no slot, or may move. */
static void *root_address(epoch_planner *p, int32_t root, int64_t at) {
  const early_run *e = &p->early;
  const int64_t offset = layout_offset(e->slots, e->n_slots, p->entry, root);
  if (offset < 0 || offset + p->entry->roots.items[root].bytes > pool_capacity(e->arena)) return NULL;
  return (char *)e->arena->data + offset + at;
}

/* The address that the register will have in the run section. False: it is not known. */
static bool register_address(epoch_planner *p, uint32_t reg, void **out_address) {
  const register_note *note = note_of(p, reg);
  const ref *r = reg_of(p, reg);
  if (r->kind != REF_STORED) return false;
  if (note->root != NO_ROOT) return (*out_address = root_address(p, note->root, note->at)) != NULL;
  if (note->outside) return register_address(p, note->outside - 1, out_address);
  *out_address = r->t.data;
  return note->write < 0 || p->entry->writes.items[note->write].value.kind == REF_STORED;
}

/* Appends the addresses of the registers; false: some is not known, or there is no room. */
static bool add_pointers(epoch_planner *p, const uint32_t *registers, uint32_t n) {
  early_run *e = &p->early;
  if (n > EARLY_POINTERS - e->n_pointers) return false;
  for (uint32_t k = 0; k < n; k++) {
    void **to = &e->pointers[e->n_pointers++];
    *to = NULL;
    if (registers[k] != MODULE_ABSENT && !register_address(p, registers[k], to)) return false;
  }
  return true;
}

static bool add_call(epoch_planner *p, const insn_invoke *i, const epoch_kernel *kernel) {
  early_run *e = &p->early;
  const reed_op *op = p->run->program->site_ops[i->site];
  if (e->n_listed == EARLY_CALLS || kernel->counted || kernel->extent_root != NO_ROOT || op->impure ||
      op_id_of(op) == OP_COUNT)
    return false;
  early_call *call = &e->calls[e->n_listed];
  *call = (early_call){
      .run = kernel->prepared->kernel.run, .state = kernel->prepared->kernel.state, .buffers = {.fault = &e->fault}};
  void **in = &e->pointers[e->n_pointers], **out = in + i->n_inputs;
  if (!add_pointers(p, i->inputs, i->n_inputs) || !add_pointers(p, i->outputs, i->n_outputs)) return false;
  call->buffers.inputs = (const void *const *)in;
  call->buffers.outputs = out;
  if (kernel->workspace_root == NO_ROOT) return true;
  return (call->buffers.workspace = root_address(p, kernel->workspace_root, 0)) != NULL;
}

void early_close(epoch_planner *p) {
  early_run *e = &p->early;
  if (e->lists) atomic_store_explicit(&e->ended, true, memory_order_release);
  e->lists = false;
}

void early_list(epoch_planner *p, const uint32_t *w) {
  early_run *e = &p->early;
  if (!e->lists) return;
  const insn_invoke i = insn_invoke_at(w);
  if (!add_call(p, &i, &p->entry->kernels.items[e->n_listed])) return early_close(p);
  atomic_store_explicit(&e->n_ready, ++e->n_listed, memory_order_release);
  if (!e->begun && !(e->begun = team_begin_aside(&e->aside, make_calls, e))) e->lists = false;
}

int32_t early_end(epoch_planner *p, bool planned) {
  early_run *e = &p->early;
  e->lists = false;
  if (!e->begun) return 0;
  e->begun = false;
  atomic_store_explicit(&e->stopped, true, memory_order_release);
  const bool made = team_end_aside(&e->aside);
  const epoch_layout *layouts = p->layouts;
  return made && planned && layouts[0].roots == e->slots && place_keeps_arena(p->devices, p->entry->arenas[0].bytes)
             ? e->n_made
             : 0;
}

reed_status early_result(const epoch_planner *p, int32_t number, const insn_invoke *i,
                         const reed_kernel_buffers *buffers) {
  const early_run *e = &p->early;
#ifndef NDEBUG /* the call was made where the run section has its operands */
  const reed_kernel_buffers *made = &e->calls[number].buffers;
  for (uint32_t k = 0; k < i->n_inputs; k++) assert(made->inputs[k] == buffers->inputs[k]);
  for (uint32_t k = 0; k < i->n_outputs; k++) assert(made->outputs[k] == buffers->outputs[k]);
  assert(made->workspace == buffers->workspace);
#else
  (void)i;
#endif
  if (number + 1 < e->n_made) return REED_OK;
  if (e->status != REED_OK) *buffers->fault = e->fault;
  return e->status;
}
