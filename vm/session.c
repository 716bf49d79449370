/* Sessions: devices, pools and registers of one thread of execution; opening, running, cancelling, closing.
 * Instructions: interp.c. Devices: devices.c. Runs on another thread: async.c. */
#include <string.h>

#include "vm/session.h"

#include "base/hook.h"
#include "base/team.h"
#include "bytecode/operands.h"
#include "vm/append.h"
#include "vm/border.h"
#include "vm/check.h"
#include "vm/epoch/epoch.h"
#include "vm/epoch/planner.h"
#include "vm/interp.h"
#include "vm/query.h"

#define DEFAULT_MEMO_ENTRIES 64
#define DEFAULT_MEMO_BYTES ((int64_t)64 << 20)
#define DEFAULT_CALL_DEPTH 10000
#define TRIM_BYTES ((int64_t)256 << 10) /* freed together, after which the C library's heap is trimmed */

reed_status reed_session_open(reed_program *program, const reed_session_options *given, reed_session **out_session,
                              reed_diagnosis *diagnosis) {
  if (!program || !out_session)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "reed_session_open: a program and a place for the session are needed");
  reed_session_options options = given ? *given : (reed_session_options){0};
  if (options.n_threads < 0 || options.memory_cap_bytes < 0 || options.memo_entries < 0 || options.memo_bytes < 0 ||
      options.max_call_depth < 0 || options.max_instructions < 0)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "reed_session_open: negative limits mean nothing");
  if (options.graphs < REED_GRAPHS_AUTO || options.graphs > REED_GRAPHS_OFF)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "reed_session_open: `graphs` has no value %d",
                     (int)options.graphs);
  reed_session *s = mem_calloc(1, sizeof *s);
  if (!s) return diag_no_memory(diagnosis, "a session");
  if (!claim_init(&s->claim)) {
    mem_free(s);
    return diag_no_memory(diagnosis, "a session");
  }
  atomic_fetch_add(&program->n_references, 1);
  s->program = program;
  s->run.program = program;
  s->run.max_call_depth = options.max_call_depth ? options.max_call_depth : DEFAULT_CALL_DEPTH;
  s->run.max_instructions = options.max_instructions;
  s->run.cancel_at = options.cancel_at_kernel;
  s->run.profile.spans = options.profile;
  s->devices.graphs.run = &s->run;
  s->devices.graphs.on = options.graphs == REED_GRAPHS_ON || (options.graphs == REED_GRAPHS_AUTO && !options.profile);
  s->run.cancel = &s->claim.cancel;
  s->memo.objects = &s->run.objects;
  s->memo.kernels = &s->kernels;
  s->memo.max_entries = options.memo_entries ? options.memo_entries : DEFAULT_MEMO_ENTRIES;
  s->memo.max_bytes = options.memo_bytes ? options.memo_bytes : DEFAULT_MEMO_BYTES;
  s->memo.n_epochs = program->module->n_epochs;
  s->run.kernels = &s->kernels;
  reed_status status = site_kernels_open(&s->kernels, program->families, program->module->n_sites, diagnosis);
  if (status == REED_OK) status = devices_open(&s->devices, program, &options, s->run.cancel, diagnosis);
  if (status == REED_OK)
    status =
        bindings_open(&s->bindings, reed_program_output_count(program), options.keep_outputs, &s->devices, diagnosis);
  if (status == REED_OK && !(s->memo.epochs = mem_calloc(s->memo.n_epochs, sizeof *s->memo.epochs)))
    status = diag_no_memory(diagnosis, "a session's epochs");
  if (status == REED_OK && program->module->n_ranges) query_bound_outputs(s);
  if (status != REED_OK) {
    reed_session_close(&s);
    return status;
  }
  *out_session = s;
  return REED_OK;
}

/* Drops frames and everything in flight, so that the session can run again. */
static void unwind(reed_session *s) {
  epoch_planner_rest(s->planner);
  devices_forget_graphs(&s->devices);
  if (devices_busy(&s->devices)) (void)!devices_synchronize(&s->devices, &s->run);
  for (size_t i = 0; i < s->run.fetches.n; i++) storage_release(s->run.fetches.items[i].target);
  s->run.fetches.n = 0;
  epoch_abandon(s);
  while (s->run.frames.n) frame_pop(&s->run);
  run_drop_twins(&s->run);
  memo_free_retired(&s->memo);
  devices_trim_outputs(&s->devices);
}

void reed_session_close(reed_session **session) {
  reed_session *s = session ? *session : NULL;
  if (!s) return;
  *session = NULL;
  claim_take_last(&s->claim);
  s->run.diagnosis = &s->run.own_diagnosis;
  unwind(s);
  memo_fini(&s->memo);
  site_kernels_close(&s->kernels);
  active_fini(&s->epoch);
  epoch_planner_close(&s->planner);
  bindings_close(&s->bindings);
  devices_close(&s->devices);
  run_fini(&s->run);
  program_release(s->program);
  claim_fini(&s->claim);
  mem_free(s);
}

void reed_session_cancel(reed_session *s) {
  if (s) claim_cancel(&s->claim);
}

static reed_status run_main(reed_session *s, reed_tensor *const *inputs, size_t n_inputs, reed_tensor **outputs,
                            size_t n_outputs) {
  const module *m = s->run.program->module;
  reed_status status = border_check(s, inputs, n_inputs);
  for (size_t i = 0; i < n_inputs && m->n_ranges && status == REED_OK; i++)
    status = check_ranges(m, i, inputs[i]->desc.rank, inputs[i]->desc.dims, s->run.diagnosis);
  if (status != REED_OK) return status;
  memo_meet_inputs(&s->memo, inputs, n_inputs);
  append_begin(s, inputs);
  status = frame_push(&s->run, 0, 0);
  if (status == REED_OK) status = border_take(s, inputs, n_inputs);
  uint32_t return_pc = 0;
  if (status == REED_OK) status = interp_run(s, &return_pc);
  if (status == REED_OK && devices_busy(&s->devices)) /* a kernel whose result no output needs may have failed */
    status = devices_await_results(&s->devices, &s->run);
  if (status == REED_OK) status = append_keep(s);
  if (status != REED_OK) return status;
  const uint32_t *code = m->code + frame_top(&s->run)->function->code_offset;
  return border_give(s, insn_return_at(code + return_pc).results, n_outputs, outputs);
}

reed_status session_check_call(const reed_session *s, reed_tensor *const *inputs, size_t n_inputs, size_t n_outputs,
                               reed_diagnosis *diagnosis) {
  size_t want_in = reed_program_input_count(s->program), want_out = reed_program_output_count(s->program);
  if (n_inputs != want_in || n_outputs != want_out)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "the model has %zu inputs and %zu outputs, the call gives %zu and takes %zu", want_in, want_out,
                     n_inputs, n_outputs);
  if (n_inputs && !inputs) return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "the list of inputs is NULL");
  for (size_t i = 0; i < n_inputs; i++)
    if (!inputs[i]) return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "input %zu is NULL", i);
  return REED_OK;
}

/* One attempt at a run. Afterwards no work is queued, and the session can run again. */
static reed_status attempt(reed_session *s, reed_tensor *const *inputs, size_t n_inputs, reed_tensor **outputs,
                           size_t n_outputs) {
  reed_diagnosis_clear(s->run.diagnosis);
  s->run.n_instructions = 0;
  profile_begin_run(&s->run.profile);
  devices_note_outputs(&s->devices);
  const random_stream random = s->devices.random;
  reed_tensor *const *used = inputs;
  reed_status status = devices_wait_for_stream(&s->devices, s->run.diagnosis);
  if (status == REED_OK) status = append_restore(s, inputs, n_inputs, &used);
  if (status == REED_OK) status = run_main(s, used, n_inputs, outputs, n_outputs);
  if (status == REED_ERROR_MEMORY) {
    devices_tell_holders(&s->devices, s->run.diagnosis);
    s->devices.random = random;
  }
  unwind(s);
  append_end(s, status == REED_OK, used, outputs);
  append_drop(inputs, n_inputs, &used);
  return status;
}

/* The second attempt at a run that lacked memory. The session keeps nothing for speed, as a new one, and its memory has
 * no headroom. It stays without if this attempt finds the memory that the first one lacked; a run that no session has
 * the memory for changes nothing for later ones. */
static reed_status attempt_bare(reed_session *s, reed_tensor *const *inputs, size_t n_inputs, reed_tensor **outputs,
                                size_t n_outputs) {
  const bool was_exact = s->devices.is_exact;
  memo_forget(&s->memo);
  devices_give_back(&s->devices, true);
  const reed_status status = attempt(s, inputs, n_inputs, outputs, n_outputs);
  if (status == REED_ERROR_MEMORY) devices_give_back(&s->devices, was_exact);
  return status;
}

reed_status session_run_claimed(reed_session *s, reed_tensor *const *inputs, size_t n_inputs, reed_tensor **outputs,
                                size_t n_outputs, reed_diagnosis *diagnosis) {
  s->run.diagnosis = diagnosis ? diagnosis : &s->run.own_diagnosis;
  int64_t begin = clock_now_ns();
  team_enter();
  reed_status status = attempt(s, inputs, n_inputs, outputs, n_outputs);
  if (status == REED_ERROR_MEMORY) status = attempt_bare(s, inputs, n_inputs, outputs, n_outputs);
  memo_end_run(&s->memo, devices_met_sizes(&s->devices));
  int64_t freed;
  if (devices_end_run(&s->devices, &freed) && kernel_cache_end_window(s->program->cache) + freed >= TRIM_BYTES)
    hook_trim();
  team_leave();
  s->run.profile.wall_ns = clock_now_ns() - begin;
  profile_event *event = profile_note(&s->run.profile, PROFILE_RUN, UINT32_MAX, 0);
  if (event) event->span = (device_span){begin, begin + s->run.profile.wall_ns};
  s->run.diagnosis = NULL;
  return status;
}

reed_status reed_session_run(reed_session *s, reed_tensor *const *inputs, size_t n_inputs, reed_tensor **outputs,
                             size_t n_outputs, reed_diagnosis *diagnosis) {
  if (!s || (n_outputs && !outputs))
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "reed_session_run: a session and a place for the outputs are needed");
  reed_status status = session_check_call(s, inputs, n_inputs, n_outputs, diagnosis);
  if (status != REED_OK) return status;
  if (!claim_take(&s->claim, NULL)) return claim_refuse(diagnosis);
  status = devices_mark_stream(&s->devices, diagnosis);
  if (status == REED_OK) status = session_run_claimed(s, inputs, n_inputs, outputs, n_outputs, diagnosis);
  claim_release(&s->claim);
  return status;
}

int64_t reed_session_kernel_count(const reed_session *session) {
  reed_session *s = (reed_session *)session; /* the kernel count is constant while the session is claimed */
  if (!s || !claim_take(&s->claim, NULL)) return 0;
  int64_t n = s->run.profile.n_kernels;
  claim_release(&s->claim);
  return n;
}
