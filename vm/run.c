/* Frames, limits, and the diagnosis of a failed run. Instructions: interp.c. */
#include "vm/run.h"
#include "base/diag.h"
#include "ops/fault.h"
#include "vm/site.h"

#include <string.h>

/* Registers above the top frame's are empty, without references: so a call costs nothing for registers that it does not
 * use. */
static bool room_for_registers(vm_run *run, size_t n_r, size_t n_s) {
  size_t had = run->r.capacity;
  if (run->r.n + n_r > had) {
    if (!VEC_RESERVE(&run->r, run->r.n + n_r)) return false;
    memset(run->r.items + had, 0, (run->r.capacity - had) * sizeof(ref));
  }
  return VEC_RESERVE(&run->s, run->s.n + n_s);
}

reed_status frame_push(vm_run *run, uint32_t function, uint32_t return_pc) {
  const module_function *f = &run->program->module->functions[function];
  if ((int64_t)run->frames.n >= run->max_call_depth)
    return diag_fail(run->diagnosis, REED_ERROR_LIMIT, "calls nest deeper than %lld", (long long)run->max_call_depth);
  frame made = {
      .function = f, .function_index = function, .return_pc = return_pc, .r_base = run->r.n, .s_base = run->s.n};
  if (!room_for_registers(run, f->n_r, f->n_s) || !VEC_PUSH(&run->frames, made))
    return diag_no_memory(run->diagnosis, "registers of a call");
  if (f->n_s) memset(run->s.items + run->s.n, 0, f->n_s * sizeof(int64_t));
  run->r.n += f->n_r;
  run->s.n += f->n_s;
  return REED_OK;
}

void frame_pop(vm_run *run) {
  frame *f = frame_top(run);
  for (size_t i = f->r_base; i < run->r.n; i++)
    if (run->r.items[i].kind != REF_EMPTY) ref_clear(&run->objects, &run->r.items[i]);
  run->r.n = f->r_base;
  run->s.n = f->s_base;
  run->frames.n--;
}

reed_status run_add_twin(vm_run *run, ref *r, int32_t device, void *data, storage *owner) {
  if (!VEC_PUSH(&run->twins, ((run_twin){r->t.data, device, data, owner})))
    return diag_no_memory(run->diagnosis, "list of tensors on devices");
  storage_retain(owner);
  r->resident = (uint8_t)device;
  return REED_OK;
}

const run_twin *run_find_twin(const vm_run *run, const ref *r, int32_t device) {
  if (!device || r->resident != device) return NULL;
  for (size_t i = run->twins.n; i-- > 0;) /* memory may have been given out again: the latest counts */
    if (run->twins.items[i].host == r->t.data && run->twins.items[i].device == device) return &run->twins.items[i];
  return NULL;
}

void run_drop_twins(vm_run *run) {
  for (size_t i = 0; i < run->twins.n; i++) storage_release(run->twins.items[i].storage);
  run->twins.n = 0;
}

void run_fini(vm_run *run) {
  VEC_FREE(&run->twins);

  object_heap_fini(&run->objects);
  VEC_FREE(&run->r);
  VEC_FREE(&run->s);
  VEC_FREE(&run->frames);
  VEC_FREE(&run->fetches);
  profile_fini(&run->profile);
}

reed_status run_check_limits(vm_run *run) {
  reed_status status = run_check_cancel(run);
  if (status != REED_OK) return status;
  if (run->max_instructions && run->n_instructions > run->max_instructions)
    return diag_fail(run->diagnosis, REED_ERROR_LIMIT, "more than %lld instructions", (long long)run->max_instructions);
  return REED_OK;
}

void run_place_failure(vm_run *run, uint32_t pc) {
  const module *m = run->program->module;
  const frame *f = frame_top(run);
  diag_place_code(run->diagnosis, m->strings[f->function->name], pc);
  for (size_t i = 0; i < m->n_debug; i++)
    if (m->debug[i].function == f->function_index && m->debug[i].pc == pc) {
      diag_place_node(run->diagnosis, NULL, m->strings[m->debug[i].node], NULL);
      return;
    }
}

reed_status at_site(vm_run *run, uint32_t site, reed_status status) {
  if (status == REED_OK) return REED_OK;
  const module_site *c = &run->program->module->sites[site];
  const char *op = string_of(run, c->op), *node = string_of(run, c->node);
  if (status == REED_ERROR_CANCELLED) status = diag_cancelled(run->diagnosis);
  if (run->diagnosis->status == REED_OK)
    status = diag_fail(run->diagnosis, status, "%s node '%s' failed: %s", op, node, reed_status_text(status));
  diag_place_node(run->diagnosis, op, node, NULL);
  return status;
}

reed_status at_kernel(vm_run *run, uint32_t site, const site_kernel *kernel, reed_status status) {
  if (status == REED_OK || !run->fault.code) return at_site(run, site, status);
  reed_desc descs[REED_MAX_OPERANDS];
  op_call_input inputs[REED_MAX_OPERANDS];
  const int32_t n = kernel ? site_kernel_inputs(kernel, descs) : 0;
  for (int32_t i = 0; i < n; i++) inputs[i] = (op_call_input){.desc = descs[i].dtype == REED_NONE ? NULL : &descs[i]};
  const op_call call = {.op = run->program->site_ops[site],
                        .node = string_of(run, run->program->module->sites[site].node),
                        .n_inputs = n,
                        .inputs = inputs,
                        .diagnosis = run->diagnosis};
  status = fault_say(&run->fault, &call);
  run->fault.code = REED_FAULT_NONE;
  return at_site(run, site, status);
}

reed_status at_launch(vm_run *run, uint32_t number, reed_status status) {
  const site_kernel *kernel;
  const uint32_t site = site_of_launch(run->kernels, number, &kernel);
  return at_kernel(run, site, kernel, status);
}

reed_status not_a_tensor(vm_run *run, const ref *r, const char *what) {
  static const char *const kinds[] = {"nothing",
                                      "none",
                                      "a tensor without memory",
                                      "a tensor",
                                      "a tensor whose extent is not fetched",
                                      "a tensor being fetched",
                                      "an object"};
  return diag_fail(run->diagnosis, REED_ERROR_TYPE, "%s is needed, the register holds %s", what, kinds[r->kind]);
}
