/* Asynchronous runs: a session runs on a thread of libuv's pool, and the caller's `done` is called on the thread of its
 * own loop. Runs on the caller's thread: session.c. */
#include <uv.h>

#include "vm/session.h"

typedef struct async_run {
  uv_work_t work;
  reed_session *session;
  reed_tensor **inputs, **outputs;
  size_t n_inputs, n_outputs;
  reed_run_done_fn done;
  void *context;
  int ticket; /* claim_ticket: WAITING until the pool takes the work */
  reed_status status;
  reed_diagnosis diagnosis;
} async_run;

static void run_free(async_run *run) {
  for (size_t i = 0; run->inputs && i < run->n_inputs; i++) reed_tensor_close(&run->inputs[i]);
  mem_free(run->inputs);
  mem_free(run->outputs);
  mem_free(run);
}

/* The session belongs to this run from reed_session_run_async to the end of this function: `done` may run or close it.
 */
static void on_pool_thread(uv_work_t *work) {
  async_run *run = work->data;
  if (!claim_begin(&run->ticket)) { /* the session was closed and must not be touched */
    run->status = diag_fail(&run->diagnosis, REED_ERROR_CANCELLED, "the session was closed before the run began");
    return;
  }
  reed_session *s = run->session;
  run->status = session_run_claimed(s, run->inputs, run->n_inputs, run->outputs, run->n_outputs, &run->diagnosis);
  claim_release(&s->claim);
}

static void on_loop_thread(uv_work_t *work, int uv_status) {
  async_run *run = work->data;
  if (uv_status == UV_ECANCELED) {
    if (claim_begin(&run->ticket)) claim_release(&run->session->claim);
    run->status = diag_fail(&run->diagnosis, REED_ERROR_CANCELLED, "cancelled before it began");
  }
  bool ok = run->status == REED_OK;
  run->done(run->context, run->status, ok ? run->outputs : NULL, ok ? run->n_outputs : 0, &run->diagnosis);
  run_free(run);
}

reed_status reed_session_run_async(reed_session *session, uv_loop_t *loop, reed_tensor *const *inputs, size_t n_inputs,
                                   reed_run_done_fn done, void *context, reed_diagnosis *diagnosis) {
  if (!session || !loop || !done)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "reed_session_run_async: a session, a loop and a callback are needed");
  size_t n_outputs = reed_program_output_count(session->program);
  reed_status status = session_check_call(session, inputs, n_inputs, n_outputs, diagnosis);
  if (status != REED_OK) return status;
  /* claimed as by a run of this thread, because a session that waits for the pool may be closed by another thread */
  if (!claim_take(&session->claim, NULL)) return claim_refuse(diagnosis);
  status = devices_mark_stream(&session->devices, diagnosis);
  claim_release(&session->claim);
  if (status != REED_OK) return status;
  async_run *run = mem_calloc(1, sizeof *run);
  if (!run) return diag_no_memory(diagnosis, "an asynchronous run");
  reed_diagnosis_clear(&run->diagnosis);
  run->n_outputs = n_outputs;
  run->inputs = mem_calloc(n_inputs, sizeof *run->inputs);
  run->outputs = mem_calloc(run->n_outputs, sizeof *run->outputs);
  if (!run->inputs || !run->outputs) {
    run_free(run);
    return diag_no_memory(diagnosis, "an asynchronous run");
  }
  for (; run->n_inputs < n_inputs; run->n_inputs++)
    run->inputs[run->n_inputs] = reed_tensor_retain(inputs[run->n_inputs]);
  if (!claim_take(&session->claim, &run->ticket)) {
    run_free(run);
    return claim_refuse(diagnosis);
  }
  run->session = session;
  run->done = done;
  run->context = context;
  run->work.data = run;
  if (uv_queue_work(loop, &run->work, on_pool_thread, on_loop_thread) == 0) return REED_OK;
  claim_release(&session->claim);
  run_free(run);
  return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "the loop takes no work");
}
