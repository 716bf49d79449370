/* NVIDIA's libraries (options `cudnn` and `cublas`): at its launch a convolution or product takes either Reed's own
 * kernel or a plan of the library. The faster one is measured once for the call's kind and the binary order of its
 * size, and remembered for the device; a plan is made once for its extents. Weights in the packed order are copied into
 * the library's order once. A call that the library cannot take, and any failure of the library before a launch, means
 * the own kernel, from then on.
 *
 * All state is guarded by the lock, which is taken before the device's. A queue has its own workspaces. While a graph
 * is recorded nothing is opened, planned, measured or allocated: the run before the recording has done so. */
#include "device/cuda/library.h"

#include "base/mem.h"

typedef struct library {
  cuda_library base;
  uv_mutex_t lock; /* guards the fields below */
  weights_copies weights;
  convolutions *convolutions; /* NULL: not asked for */
  products *products;         /* NULL: not asked for */
} library;

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

/* ---- choices ---- */

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

/* ---- the device's functions ---- */

static reed_status launch(cuda_queue *queue, const cuda_ready *own, bool *out_done, reed_diagnosis *diagnosis) {
  library *of = (library *)cuda_of(&queue->base)->library;
  const bool convolution = of->convolutions && convolutions_take(own->kernel),
             product = of->products && products_take(own->kernel);
  *out_done = false;
  if (!convolution && !product) return REED_OK;
  uv_mutex_lock(&of->lock);
  const reed_status status = convolution
                                 ? convolutions_launch(of->convolutions, &of->weights, queue, own, out_done, diagnosis)
                                 : products_launch(of->products, &of->weights, queue, own, out_done, diagnosis);
  uv_mutex_unlock(&of->lock);
  return status;
}

static void forget(cuda_device *self, uint64_t serial, device_queue *after) {
  library *of = (library *)self->library;
  uv_mutex_lock(&of->lock);
  weights_forget(&of->weights, &of->lock, self, serial, after);
  uv_mutex_unlock(&of->lock);
}

static void close_queue(cuda_queue *queue) {
  library *of = (library *)cuda_of(&queue->base)->library;
  if (of->convolutions) convolutions_close_queue(of->convolutions, queue);
  for (size_t i = 0; i < queue->library.workspaces.n; i++)
    cuda_release(queue->base.device, queue->library.workspaces.items[i], NULL);
  VEC_FREE(&queue->library.workspaces);
}

static void close_library(cuda_library *base) {
  library *self = (library *)base;
  if (self->convolutions) convolutions_close(self->convolutions);
  if (self->products) products_close(self->products);
  weights_fini(&self->weights);
  uv_mutex_destroy(&self->lock);
  mem_free(self);
}

reed_status cuda_library_open(const cuda_options *options, cuda_library **out_library, reed_diagnosis *diagnosis) {
  library *made = mem_calloc(1, sizeof *made);
  if (!made || uv_mutex_init_recursive(&made->lock) != 0) { /* a release within asks for copies of weights */
    mem_free(made);
    return diag_no_memory(diagnosis, "the libraries of kernels");
  }
  made->base = (cuda_library){launch, forget, close_queue, close_library};
  made->weights.free_item = TABLE_NONE;
  if (options->cudnn) made->convolutions = convolutions_open(options->cudnn == LIBRARY_ALWAYS);
  if (options->cublas) made->products = products_open(options->cublas == LIBRARY_ALWAYS);
  if ((options->cudnn && !made->convolutions) || (options->cublas && !made->products)) {
    close_library(&made->base);
    return diag_no_memory(diagnosis, "the libraries of kernels");
  }
  *out_library = &made->base;
  return REED_OK;
}
