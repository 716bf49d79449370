/* Queues of the simulated accelerator: host threads enqueue copies, launches and events. The device's thread runs them
 * (perform.c). Graphs: graph.c. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "device/sim/state.h"

/* ---- queues ---- */

reed_status sim_queue_open(device *base, device_queue_kind kind, device_queue **out_queue, reed_diagnosis *diagnosis) {
  sim_device *self = (sim_device *)base;
  (void)kind; /* one thread runs the work of all queues, in an order that the options decide */
  sim_queue *queue = mem_calloc(1, sizeof *queue);
  if (!queue) return diag_no_memory(diagnosis, "a queue of device 'sim'");
  queue->base.device = base;
  reed_diagnosis_clear(&queue->fault);
  uv_mutex_lock(&self->lock);
  queue->next = self->queues;
  self->queues = queue;
  uv_mutex_unlock(&self->lock);
  *out_queue = &queue->base;
  return REED_OK;
}

void sim_queue_close(device_queue *base) {
  sim_queue *queue = (sim_queue *)base;
  sim_device *self = sim_of(base);
  uv_mutex_lock(&self->lock); /* other threads look for recordings of their own */
  device_graph *graph = queue->recording;
  queue->recording = NULL;
  uv_mutex_unlock(&self->lock);
  if (graph) sim_drop(&self->base, graph);
  sim_wait(queue);
  uv_mutex_lock(&self->lock);
  sim_queue **at = &self->queues;
  while (*at != queue) at = &(*at)->next;
  *at = queue->next;
  uv_mutex_unlock(&self->lock);
  sim_tape_fini(&queue->tape);
  mem_free(queue);
}

reed_status sim_synchronize(device_queue *base, device_error *out_error, reed_diagnosis *diagnosis) {
  sim_queue *queue = (sim_queue *)base;
  if (queue->recording) {
    sim_graph_spoil(queue->recording, "synchronized");
    *out_error = (device_error){0};
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device '%s': a queue was waited for while its graph is recorded",
                     base->device->name);
  }
  sim_wait(queue);
  reed_status status = queue->status;
  queue->skipping = false;
  if (status == REED_OK) return status;
  *out_error = queue->error;
  queue->error = (device_error){0};
  if (diagnosis) *diagnosis = queue->fault;
  reed_diagnosis_clear(&queue->fault);
  queue->status = REED_OK;
  return status;
}

/* ---- copies and launches ---- */

static bool is_pinned(sim_device *self, const void *data, int64_t bytes) {
  const sim_block *block = sim_pages_find(&self->pinned, data);
  return block && block->bytes - ((const char *)data - block->data) >= bytes;
}

static reed_status no_memory(const sim_queue *queue, reed_diagnosis *diagnosis) {
  return diag_fail(diagnosis, REED_ERROR_MEMORY, "device '%s': no host memory to enqueue work",
                   queue->base.device->name);
}

/* Enqueues a copy. A host source that is not pinned is copied to the tape at once; other sources are read when the copy
 * runs. */
static reed_status enqueue_copy(device_queue *base, work_kind kind, void *target, const void *source, int64_t bytes,
                                device_span *span, reed_diagnosis *diagnosis) {
  sim_queue *queue = (sim_queue *)base;
  sim_device *self = sim_of(base);
  assert(bytes >= 0);
  void *staging = NULL;
  work *w;
  if (queue->recording) {
    if (kind != WORK_COPY_WITHIN) {
      sim_graph_spoil(queue->recording, "copied between the host and the device");
      return diag_fail(diagnosis, REED_ERROR_DEVICE, "device '%s': a graph holds no copies from or to the host",
                       base->device->name);
    }
    w = sim_graph_work(queue->recording, kind, 0, &staging);
  } else {
    const void *host = kind == WORK_COPY_IN ? source : target;
    bool stray = kind != WORK_COPY_WITHIN && bytes && !is_pinned(self, host, bytes);
    size_t staged = stray && kind == WORK_COPY_IN ? (size_t)bytes : 0;
    if (stray) atomic_fetch_add(&self->n_unpinned_copies, 1);
    w = sim_work_open(queue, kind, staged, span, &staging);
    if (w && staged) source = memcpy(staging, source, staged);
  }
  if (!w) return no_memory(queue, diagnosis);
  w->copy.target = target;
  w->copy.source = source;
  w->copy.bytes = bytes;
  int64_t call = atomic_fetch_add(&self->n_copies, 1) + 1;
  if (call == self->options.fail_copy) w->fault = call;
  if (!queue->recording) sim_enqueue(queue, w);
  return REED_OK;
}

reed_status sim_copy_in(device_queue *queue, void *target, const void *source, int64_t bytes, device_span *span,
                        reed_diagnosis *diagnosis) {
  return enqueue_copy(queue, WORK_COPY_IN, target, source, bytes, span, diagnosis);
}

reed_status sim_copy_out(device_queue *queue, void *target, const void *source, int64_t bytes, device_span *span,
                         reed_diagnosis *diagnosis) {
  return enqueue_copy(queue, WORK_COPY_OUT, target, source, bytes, span, diagnosis);
}

reed_status sim_copy_within(device_queue *queue, void *target, const void *source, int64_t bytes, device_span *span,
                            reed_diagnosis *diagnosis) {
  return enqueue_copy(queue, WORK_COPY_WITHIN, target, source, bytes, span, diagnosis);
}

reed_status sim_launch(device_queue *base, const reed_kernel *kernel, const reed_kernel_buffers *buffers,
                       int32_t n_inputs, int32_t n_outputs, uint32_t number, device_span *span,
                       reed_diagnosis *diagnosis) {
  sim_queue *queue = (sim_queue *)base;
  sim_device *self = sim_of(base);
  void *operands;
  bool counted = buffers->input_extents != NULL;
  size_t extra = ((size_t)n_inputs * (counted ? 2 : 1) + (size_t)n_outputs) * sizeof(void *);
  work *w = queue->recording ? sim_graph_work(queue->recording, WORK_LAUNCH, extra, &operands)
                             : sim_work_open(queue, WORK_LAUNCH, extra, span, &operands);
  if (!w) return no_memory(queue, diagnosis);
  w->launch.kernel = *kernel;
  w->launch.buffers = (reed_kernel_buffers){.workspace = buffers->workspace, .extents = buffers->extents};
  w->launch.operands = operands;
  w->launch.n_inputs = n_inputs;
  w->launch.n_outputs = n_outputs;
  w->launch.number = number;
  w->launch.counted = counted;
  if (n_inputs) memcpy(w->launch.operands, buffers->inputs, (size_t)n_inputs * sizeof(void *));
  if (n_outputs) memcpy(w->launch.operands + n_inputs, buffers->outputs, (size_t)n_outputs * sizeof(void *));
  if (counted)
    memcpy(w->launch.operands + n_inputs + n_outputs, buffers->input_extents, (size_t)n_inputs * sizeof(void *));
  int64_t call = atomic_fetch_add(&self->n_launches, 1) + 1;
  if (call == self->options.fail_launch) w->fault = call;
  if (!queue->recording) sim_enqueue(queue, w);
  return REED_OK;
}

reed_status sim_poison(device_queue *base, void *data, int64_t bytes) {
  sim_queue *queue = (sim_queue *)base;
  work *w = bytes && !queue->recording ? sim_work_open(queue, WORK_POISON, 0, NULL, NULL) : NULL;
  if (!w) return bytes && !queue->recording ? REED_ERROR_MEMORY : REED_OK;
  w->copy.target = data;
  w->copy.bytes = bytes;
  sim_enqueue(queue, w);
  return REED_OK;
}

/* ---- events ---- */

reed_status sim_event_open(device *self, device_event **out_event, reed_diagnosis *diagnosis) {
  (void)self;
  *out_event = mem_calloc(1, sizeof **out_event);
  return *out_event ? REED_OK : diag_no_memory(diagnosis, "an event of device 'sim'");
}

void sim_event_close(device *self, device_event *event) {
  (void)self;
  mem_free(event);
}

static reed_status enqueue_mark(device_queue *base, work_kind kind, device_event *event, uint64_t number,
                                reed_diagnosis *diagnosis) {
  sim_queue *queue = (sim_queue *)base;
  if (queue->recording) {
    sim_graph_spoil(queue->recording, "used an event");
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device '%s': a graph holds no events", base->device->name);
  }
  work *w = sim_work_open(queue, kind, 0, NULL, NULL);
  if (!w) return no_memory(queue, diagnosis);
  w->mark.event = event;
  w->mark.number = number;
  sim_enqueue(queue, w);
  return REED_OK;
}

reed_status sim_event_record(device_queue *queue, device_event *event, reed_diagnosis *diagnosis) {
  reed_status status = enqueue_mark(queue, WORK_RECORD, event, event->n_recorded + 1, diagnosis);
  if (status == REED_OK) event->n_recorded++;
  return status;
}

reed_status sim_event_wait(device_queue *queue, device_event *event, reed_diagnosis *diagnosis) {
  return event->n_recorded ? enqueue_mark(queue, WORK_WAIT, event, event->n_recorded, diagnosis) : REED_OK;
}

bool sim_event_done(device *base, device_event *event) {
  sim_device *self = (sim_device *)base;
  uv_mutex_lock(&self->lock);
  bool done = event->n_done == event->n_recorded;
  uv_mutex_unlock(&self->lock);
  return done;
}
