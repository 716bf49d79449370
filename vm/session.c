/* Sessions: devices, pools and registers of one thread of execution; opening, running, cancelling, closing. */
#include <omp.h>
#include <string.h>

#include "loader/loader.h"
#include "vm/vm.h"

#define DEFAULT_MEMO_ENTRIES 64
#define DEFAULT_MEMO_BYTES ((int64_t)64 << 20)
#define DEFAULT_CALL_DEPTH 10000

static reed_status open_accelerator(reed_session *s, const reed_session_options *options, reed_diagnosis *diagnosis) {
  const char *name = options->device ? options->device : "host";
  if (strcmp(name, "host") == 0 || s->program->module->n_devices < 2) {
    if (strcmp(name, "host") != 0 && strcmp(name, "sim") != 0) goto unknown;
    return REED_OK; /* module device 1, if there is one, is the host itself: its copies vanish */
  }
  if (strcmp(name, "sim") == 0) {
    device_sim_faults faults = {options->sim_fail_allocation, options->sim_fail_copy, options->sim_fail_launch};
    reed_status status = device_open_sim(s->env.n_threads, &faults, &s->devices[1], diagnosis);
    if (status != REED_OK) return status;
    s->n_devices = 2;
    s->bind[1] = 1;
    return REED_OK;
  }
unknown:
  return diag_fail(diagnosis, REED_ERROR_DEVICE, "there is no device '%s' in this build; known: host, sim", name);
}

/* A packed constant is in memory twice: of the mapped file's copy only what else reads it needs to stay. */
static void forget_constant(const void *m, const void *data, int64_t bytes) { module_forget(m, data, bytes); }

reed_status reed_session_open(reed_program *program, const reed_session_options *given, reed_session **out_session,
                              reed_diagnosis *diagnosis) {
  if (!program || !out_session)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "reed_session_open: a program and a place for the session are needed");
  reed_session_options options = given ? *given : (reed_session_options){0};
  if (options.n_threads < 0 || options.memory_cap_bytes < 0 || options.memo_entries < 0 || options.memo_bytes < 0 ||
      options.max_call_depth < 0 || options.max_instructions < 0)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "reed_session_open: negative limits mean nothing");
  reed_session *s = mem_calloc(1, sizeof *s);
  if (!s) return diag_no_memory(diagnosis, "a session");
  atomic_fetch_add(&program->n_references, 1);
  s->program = program;
  s->env = (reed_kernel_env){.n_threads = options.n_threads ? options.n_threads : omp_get_num_procs(),
                             .cache = program->cache,
                             .constant_packed = forget_constant,
                             .context = program->module};
  s->memo_max_entries = options.memo_entries ? options.memo_entries : DEFAULT_MEMO_ENTRIES;
  s->memo_max_bytes = options.memo_bytes ? options.memo_bytes : DEFAULT_MEMO_BYTES;
  s->max_call_depth = options.max_call_depth ? options.max_call_depth : DEFAULT_CALL_DEPTH;
  s->max_instructions = options.max_instructions;
  s->profile.spans = options.profile;
  s->n_devices = 1;
  atomic_init(&s->cancel, false);
  reed_status status = device_open_host(&s->devices[0], diagnosis);
  if (status == REED_OK) {
    device_memory memory;
    s->devices[0]->interface->memory(s->devices[0], &memory);
    s->max_output_bytes = options.memory_cap_bytes ? options.memory_cap_bytes
                          : memory.total_bytes     ? memory.total_bytes
                                                   : INT64_MAX;
  }
  if (status == REED_OK) status = open_accelerator(s, &options, diagnosis);
  for (int32_t d = 0; status == REED_OK && d < s->n_devices; d++) {
    status = pool_open(s->devices[d], d, options.memory_cap_bytes, &s->pools[d]);
    if (status != REED_OK) status = diag_no_memory(diagnosis, "a pool");
  }
  if (status == REED_OK && output_store_open(&s->outputs) != REED_OK)
    status = diag_no_memory(diagnosis, "a session's output store");
  const module *m = program->module;
  if (status == REED_OK && !(s->epochs = mem_calloc(m->n_epochs, sizeof *s->epochs)))
    status = diag_no_memory(diagnosis, "a session's epochs");
  if (status == REED_OK && s->n_devices > 1 &&
      !(s->device_constants = mem_calloc(m->n_constants, sizeof *s->device_constants)))
    status = diag_no_memory(diagnosis, "a session's constants");
  if (status != REED_OK) {
    reed_session_close(&s);
    return status;
  }
  *out_session = s;
  return REED_OK;
}

reed_status session_allocate(reed_session *s, int32_t device, int64_t bytes, bool returned, storage **out_storage) {
  if (!returned || device != 0 || bytes > s->max_output_bytes)
    return pool_allocate(s->pools[device], bytes, out_storage, s->diagnosis);
  reed_status status = output_allocate(s->outputs, bytes, out_storage);
  return status == REED_OK ? status : diag_no_memory(s->diagnosis, "an output tensor");
}

/* Drops frames and everything in flight, so that the session can run again. */
static void unwind(reed_session *s) {
  if (s->device_busy) (void)!session_synchronize(s);
  for (size_t i = 0; i < s->fetches.n; i++) storage_release(s->fetches.items[i].target);
  s->fetches.n = 0;
  epoch_abandon(s);
  while (s->frames.n) frame_pop(s);
  epoch_free_retired(s);
}

/* After a failure on an accelerator nothing is certain that was on its way there: constants are copied anew, and the
 * memo's entries, which point to them, go. */
static void forget_device(reed_session *s) {
  epoch_forget(s);
  for (size_t i = 0; s->device_constants && i < s->program->module->n_constants; i++) {
    storage_release(s->device_constants[i]);
    s->device_constants[i] = NULL;
  }
}

void reed_session_close(reed_session **session) {
  reed_session *s = *session;
  *session = NULL;
  if (!s) return;
  s->diagnosis = &s->own_diagnosis;
  unwind(s);
  epoch_fini(s);
  forget_device(s);
  mem_free(s->device_constants);
  for (int32_t d = 0; d < VM_MAX_DEVICES; d++) storage_release(s->arenas[d]);
  for (int32_t d = 0; d < VM_MAX_DEVICES; d++)
    if (s->pools[d]) pool_close(&s->pools[d]);
  for (int32_t d = 0; d < VM_MAX_DEVICES; d++) device_close(&s->devices[d]);
  output_store_close(&s->outputs);
  object_heap_fini(&s->objects);
  VEC_FREE(&s->r);
  VEC_FREE(&s->s);
  VEC_FREE(&s->frames);
  VEC_FREE(&s->fetches);
  profile_fini(&s->profile);
  program_release(s->program);
  mem_free(s);
}

void reed_session_cancel(reed_session *s) { atomic_store(&s->cancel, true); }

/* Tensor i of a return instruction as a tensor of the caller's own: pools go with the session, outputs do not. Mostly
 * the epoch has placed it so that it can be given as it is. */
static reed_status give_output(reed_session *s, const ref *r, size_t i, reed_tensor **out_tensor) {
  if (r->kind != REF_STORED || r->t.device != 0)
    return diag_fail(s->diagnosis, REED_ERROR_TYPE, "output %zu is not a host tensor", i);
  reed_tensor *given = output_give(r->t.storage, r->t.data, &r->t.desc);
  if (given) return *out_tensor = given, REED_OK;
  reed_status status = output_open(s->outputs, &r->t.desc, out_tensor);
  if (status != REED_OK) return diag_no_memory(s->diagnosis, "an output tensor");
  if (r->bytes) memcpy(reed_tensor_data(*out_tensor), r->t.data, (size_t)r->bytes);
  return REED_OK;
}

static reed_status run_main(reed_session *s, reed_tensor *const *inputs, size_t n_inputs, reed_tensor **outputs,
                            size_t n_outputs) {
  const module *m = s->program->module;
  reed_status status = frame_push(s, 0, 0);
  if (status != REED_OK) return status;
  for (size_t i = 0; i < n_inputs; i++) {
    const reed_tensor *given = inputs[i];
    reed_desc desc = {.dtype = reed_tensor_dtype(given), .rank = reed_tensor_rank(given)};
    memcpy(desc.dims, reed_tensor_dims(given), sizeof(int64_t) * (size_t)desc.rank);
    *reg_r(s, (uint32_t)i) = (ref){.kind = REF_STORED,
                                   .bounded_axis = -1,
                                   .t = {.desc = desc, .data = reed_tensor_data(given)},
                                   .bytes = reed_tensor_bytes(given)};
  }
  uint32_t return_pc = 0;
  status = interp_run(s, &return_pc);
  if (status != REED_OK) return status;
  if (s->device_busy && (status = session_synchronize(s)) != REED_OK)
    return status; /* a kernel no output waits for may have failed */
  const uint32_t *w = m->code + frame_top(s)->function->code_offset + return_pc;
  for (size_t i = 0; i < n_outputs; i++) {
    status = give_output(s, reg_r(s, w[2 + i]), i, &outputs[i]);
    if (status == REED_OK) continue;
    while (i-- > 0) reed_tensor_close(&outputs[i]);
    return status;
  }
  return REED_OK;
}

reed_status reed_session_run(reed_session *s, reed_tensor *const *inputs, size_t n_inputs, reed_tensor **outputs,
                             size_t n_outputs, reed_diagnosis *diagnosis) {
  size_t want_in = reed_program_input_count(s->program), want_out = reed_program_output_count(s->program);
  if (n_inputs != want_in || n_outputs != want_out)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "the model has %zu inputs and %zu outputs, the call gives %zu and takes %zu", want_in, want_out,
                     n_inputs, n_outputs);
  for (size_t i = 0; i < n_inputs; i++)
    if (!inputs[i]) return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "input %zu is NULL", i);
  s->diagnosis = diagnosis ? diagnosis : &s->own_diagnosis;
  reed_diagnosis_clear(s->diagnosis);
  s->n_instructions = 0;
  profile_begin_run(&s->profile);
  int threads_before = omp_get_max_threads();
  if (threads_before != s->env.n_threads)
    omp_set_num_threads(s->env.n_threads); /* oneDNN takes the calling thread's team */
  int64_t begin = clock_now_ns();
  reed_status status = run_main(s, inputs, n_inputs, outputs, n_outputs);
  unwind(s);
  if (status != REED_OK && s->n_devices > 1) forget_device(s);
  s->profile.wall_ns = clock_now_ns() - begin;
  profile_event *event = profile_note(&s->profile, PROFILE_RUN, UINT32_MAX, 0);
  if (event) event->span = (device_span){begin, begin + s->profile.wall_ns};
  if (threads_before != s->env.n_threads) omp_set_num_threads(threads_before);
  atomic_store(&s->cancel, false);
  s->diagnosis = NULL;
  return status;
}

int64_t reed_session_kernel_count(const reed_session *s) { return s->profile.n_kernels; }
