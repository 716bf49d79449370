/* The choice between a library's plan and Reed's own kernel (library_call.h): both are measured at the first launch of
 * a kind. */
#include "device/cuda/library_call.h"

bool library_is_unaligned(const void *const *pointers, size_t n) {
  for (size_t i = 0; i < n; i++)
    if ((uintptr_t)pointers[i] % LIBRARY_ALIGNMENT) return true;
  return false;
}

bool library_find_workspace(cuda_queue *queue, int64_t bytes, void **out_data) {
  *out_data = queue->library.workspaces.n ? queue->library.workspaces.items[queue->library.workspaces.n - 1] : NULL;
  if (bytes > queue->library.workspace_bytes) {
    if (queue->recording || !VEC_ROOM(&queue->library.workspaces) ||
        cuda_allocate(queue->base.device, bytes, 0, out_data, NULL) != REED_OK ||
        cuda_begin_work(queue, NULL, NULL) != REED_OK)
      return false;
    queue->library.workspaces.items[queue->library.workspaces.n++] = *out_data;
    queue->library.workspace_bytes = bytes;
  }
  if (queue->recording && *out_data) cuda_graph_note(cuda_of(&queue->base), queue->recording, *out_data);
  return true;
}

/* Enqueues the plan. False: nothing was enqueued, and the own kernel is to run from now on; a recording fails, so that
 * a graph's results are those of its key's first run. */
static bool enqueue(const library_call *call, cuda_queue *queue) {
  if (call->enqueue(call, queue)) return true;
  if (queue->recording) cuda_graph_spoil(queue->recording, call->spoilt);
  else call->plan->choice = CHOICE_OWN;
  return false;
}

/* Runs both after a first run of each, and keeps the faster one's result. */
static reed_status measure(const library_call *call, cuda_queue *queue, reed_diagnosis *diagnosis) {
  const cuda_driver *cu = &cuda_of(&queue->base)->driver;
  cu_event at[3] = {NULL};
  float own_ms = 0, library_ms = 0;
  bool known = true;
  reed_status status = cuda_launch_ready(queue, call->own, diagnosis);
  if (status == REED_OK && enqueue(call, queue)) {
    for (int i = 0; i < 3 && known; i++) known = !cu->event_create(&at[i], 0);
    known = known && !cu->event_record(at[0], queue->stream) &&
            cuda_launch_ready(queue, call->own, diagnosis) == REED_OK && !cu->event_record(at[1], queue->stream) &&
            enqueue(call, queue) && !cu->event_record(at[2], queue->stream) && !cu->event_synchronize(at[2]) &&
            !cu->event_elapsed(&own_ms, at[0], at[1]) && !cu->event_elapsed(&library_ms, at[1], at[2]);
    call->plan->choice = known && library_ms < own_ms ? CHOICE_LIBRARY : CHOICE_OWN;
    if (call->plan->choice == CHOICE_OWN) status = cuda_launch_ready(queue, call->own, diagnosis);
    for (int i = 0; i < 3; i++)
      if (at[i]) (void)cu->event_destroy(at[i]);
  }
  if (status == REED_OK) {
    remembered *habit = remembered_find(&call->memory->habits, call->kind);
    if (!habit) habit = remembered_add(&call->memory->habits, call->kind);
    if (habit) habit->choice = call->plan->choice;
  }
  return status;
}

reed_status library_run(const library_call *call, cuda_queue *queue, bool *out_done, reed_diagnosis *diagnosis) {
  remembered *plan = call->plan;
  if (queue->recording && plan->choice == CHOICE_UNKNOWN) cuda_graph_spoil(queue->recording, call->spoilt);
  if (plan->choice == CHOICE_UNKNOWN) {
    const remembered *habit = remembered_find(&call->memory->habits, call->kind);
    plan->choice = call->memory->always ? CHOICE_LIBRARY : habit ? habit->choice : CHOICE_UNKNOWN;
  }
  if (plan->choice == CHOICE_UNKNOWN && !queue->recording) {
    *out_done = true;
    return measure(call, queue, diagnosis);
  }
  *out_done = plan->choice == CHOICE_LIBRARY && enqueue(call, queue);
  return REED_OK;
}
