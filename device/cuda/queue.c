/* Queues and events of a CUDA device: a queue is a stream that does not wait for the legacy default stream, and a
 * record for faults of kernels. Spans are measured by pairs of events. Launches: launch.c. Graphs: graph.c. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "device/cuda/state.h"
#include "ops/kernel.h"

/* ---- queues ---- */

reed_status cuda_queue_open(device *base, device_queue_kind kind, device_queue **out_queue, reed_diagnosis *diagnosis) {
  cuda_device *self = (cuda_device *)base;
  (void)kind; /* the driver chooses the engine by the work */
  reed_status status = cuda_enter(self, diagnosis);
  if (status != REED_OK) return status;
  cuda_queue *queue = mem_calloc(1, sizeof *queue);
  if (!queue) {
    status = diag_no_memory(diagnosis, "a queue of device '" CUDA_DEVICE_NAME "'");
  } else {
    queue->base.device = base;
    status = cuda_fault_open(self, &queue->fault, diagnosis);
    if (status == REED_OK)
      status = cuda_check(self, self->driver.stream_create(&queue->stream, CU_NON_BLOCKING), "no stream", diagnosis);
    if (status != REED_OK) {
      cuda_fault_close(self, queue->fault);
      mem_free(queue);
    }
  }
  cuda_leave(self);
  if (status != REED_OK) return status;
  uv_mutex_lock(&self->lock);
  queue->next = self->queues;
  self->queues = queue;
  uv_mutex_unlock(&self->lock);
  *out_queue = &queue->base;
  return REED_OK;
}

static void free_timers(cuda_device *self, cuda_queue *queue) {
  for (size_t i = 0; i < queue->spans.n; i++) {
    (void)self->driver.event_destroy(queue->spans.items[i].begin);
    if (queue->spans.items[i].end) (void)self->driver.event_destroy(queue->spans.items[i].end);
  }
  for (size_t i = 0; i < queue->timers.n; i++) (void)self->driver.event_destroy(queue->timers.items[i]);
  VEC_FREE(&queue->spans);
  VEC_FREE(&queue->timers);
}

void cuda_queue_close(device_queue *base) {
  cuda_queue *queue = (cuda_queue *)base;
  cuda_device *self = cuda_of(base);
  if (queue->recording) {
    device_graph *graph = NULL;
    if (cuda_end_record(base, &graph, NULL) == REED_OK) cuda_drop(base->device, graph);
  }
  uv_mutex_lock(&self->lock);
  cuda_queue **at = &self->queues;
  while (*at != queue) at = &(*at)->next;
  *at = queue->next;
  uv_mutex_unlock(&self->lock);
  if (cuda_enter_again(self, NULL) == REED_OK) {
    (void)self->driver.stream_synchronize(queue->stream);
    if (self->library) self->library->close_queue(queue);
    free_timers(self, queue);
    (void)self->driver.stream_destroy(queue->stream);
    cuda_reap(self, false);
    cuda_leave(self);
  }
  cuda_fault_close(self, queue->fault);
  mem_free(queue);
}

/* ---- spans ---- */

/* Records an event that measures time. */
static cu_result mark(cuda_device *self, cuda_queue *queue, cu_event *out_event) {
  cu_event event = NULL;
  cu_result result = CU_SUCCESS;
  if (queue->timers.n) event = queue->timers.items[--queue->timers.n];
  else result = self->driver.event_create(&event, 0);
  if (!result) result = self->driver.event_record(event, queue->stream);
  if (!result) *out_event = event;
  else if (event) (void)self->driver.event_destroy(event);
  return result;
}

static const char *const no_event = "no event for a span";

static reed_status begin_span(cuda_device *self, cuda_queue *queue, device_span *span, reed_diagnosis *diagnosis) {
  if (!VEC_RESERVE(&queue->spans, queue->spans.n + 1) ||
      !VEC_RESERVE(&queue->timers, queue->timers.n + 2 * queue->spans.n + 4))
    return diag_no_memory(diagnosis, "a span of a device's work");
  cuda_span made = {.span = span, .enqueued_ns = clock_now_ns()};
  reed_status status = cuda_check(self, mark(self, queue, &made.begin), no_event, diagnosis);
  if (status == REED_OK) queue->spans.items[queue->spans.n++] = made;
  return status;
}

reed_status cuda_begin_work(cuda_queue *queue, device_span *span, reed_diagnosis *diagnosis) {
  cuda_device *self = cuda_of(&queue->base);
  if (queue->recording) return REED_OK;
  uint64_t n_given = atomic_load(&self->n_given);
  if (queue->n_seen != n_given) {
    uv_mutex_lock(&self->lock);
    reed_status status = cuda_check(self, self->driver.stream_wait(queue->stream, self->given, 0),
                                    "a queue cannot wait for memory", diagnosis);
    uv_mutex_unlock(&self->lock);
    if (status != REED_OK) return status;
    queue->n_seen = n_given;
  }
  return span ? begin_span(self, queue, span, diagnosis) : REED_OK;
}

reed_status cuda_end_work(cuda_queue *queue, device_span *span, reed_diagnosis *diagnosis) {
  cuda_device *self = cuda_of(&queue->base);
  if (!span || queue->recording) return REED_OK;
  return cuda_check(self, mark(self, queue, &queue->spans.items[queue->spans.n - 1].end), no_event, diagnosis);
}

/* Fills the spans of finished work. The device's clock is set against the host's by an event that the host has just
 * waited for. */
static void fill_spans(cuda_device *self, cuda_queue *queue) {
  cu_event now = NULL;
  bool known = queue->spans.n && !mark(self, queue, &now) && !self->driver.event_synchronize(now);
  const int64_t now_ns = clock_now_ns();
  for (size_t i = 0; i < queue->spans.n; i++) {
    const cuda_span *s = &queue->spans.items[i];
    float begin = 0, end = 0;
    if (known && s->end && !self->driver.event_elapsed(&begin, s->begin, now) &&
        !self->driver.event_elapsed(&end, s->end, now)) {
      int64_t from = now_ns - (int64_t)((double)begin * 1e6), to = now_ns - (int64_t)((double)end * 1e6);
      if (from < s->enqueued_ns) from = s->enqueued_ns;
      *s->span = (device_span){from, to < from ? from : to};
    }
    queue->timers.items[queue->timers.n++] = s->begin;
    if (s->end) queue->timers.items[queue->timers.n++] = s->end;
  }
  if (now) queue->timers.items[queue->timers.n++] = now;
  queue->spans.n = 0;
}

/* ---- waiting ---- */

/* Takes the record of a fault; false: no kernel has filled it. */
static bool take_fault(cuda_queue *queue, device_error *out_error) {
  const cuda_fault *made = queue->fault;
  if (!made->taken) return false;
  *out_error = (device_error){.launch = made->launch,
                              .fault = {.code = made->record.code,
                                        .operand = made->record.operand,
                                        .element = made->record.element,
                                        .value = made->record.value,
                                        .limit = made->record.limit}};
  *queue->fault = (cuda_fault){0};
  return true;
}

reed_status cuda_synchronize(device_queue *base, device_error *out_error, reed_diagnosis *diagnosis) {
  cuda_queue *queue = (cuda_queue *)base;
  cuda_device *self = cuda_of(base);
  *out_error = (device_error){.launch = DEVICE_NO_LAUNCH};
  if (queue->recording) return cuda_graph_refuse(self, queue->recording, "synchronized", diagnosis);
  reed_status status = cuda_enter(self, diagnosis);
  if (status != REED_OK) return status;
  status = cuda_check(self, self->driver.stream_synchronize(queue->stream), "enqueued work failed", diagnosis);
  fill_spans(self, queue);
  cuda_reap(self, false);
  cuda_leave(self);
  if (status != REED_OK || !take_fault(queue, out_error)) return status;
  reed_fault copy = {0};
  return reed_kernel_fault(&(reed_kernel_buffers){.fault = &copy}, (reed_fault_code)out_error->fault.code,
                           out_error->fault.operand, out_error->fault.element, out_error->fault.value,
                           out_error->fault.limit);
}

/* ---- copies ---- */

static bool is_pinned(cuda_device *self, const void *data, int64_t bytes) {
  uv_mutex_lock(&self->lock);
  const cuda_block *block = cuda_blocks_find(&self->pinned, data);
  bool pinned = block && block->bytes - ((const char *)data - block->data) >= bytes;
  uv_mutex_unlock(&self->lock);
  return pinned;
}

/* Refuses a copy from or to the host during a recording; counts one of memory that is not pinned. */
static reed_status before_host_copy(cuda_queue *queue, const void *host, int64_t bytes, reed_diagnosis *diagnosis) {
  cuda_device *self = cuda_of(&queue->base);
  if (queue->recording)
    return cuda_graph_refuse(self, queue->recording, "copied between the host and the device", diagnosis);
  if (bytes && !is_pinned(self, host, bytes)) atomic_fetch_add(&self->n_unpinned_copies, 1);
  return REED_OK;
}

static cu_pointer at(const void *data) { return (cu_pointer)(uintptr_t)data; }

typedef enum copy_kind { COPY_IN, COPY_OUT, COPY_WITHIN, COPY_POISON } copy_kind;

static reed_status copy(cuda_queue *queue, copy_kind kind, void *target, const void *source, int64_t bytes,
                        device_span *span, reed_diagnosis *diagnosis) {
  cuda_device *self = cuda_of(&queue->base);
  const size_t n = (size_t)bytes;
  cu_result result = CU_SUCCESS;
  assert(bytes >= 0);
  reed_status status = cuda_enter(self, diagnosis);
  if (status != REED_OK) return status;
  status = cuda_begin_work(queue, span, diagnosis);
  if (status == REED_OK && n) switch (kind) {
      case COPY_IN: result = self->driver.copy_in(at(target), source, n, queue->stream); break;
      case COPY_OUT: result = self->driver.copy_out(target, at(source), n, queue->stream); break;
      case COPY_WITHIN: result = self->driver.copy_within(at(target), at(source), n, queue->stream); break;
      case COPY_POISON: result = self->driver.fill(at(target), 0xff, n, queue->stream); break;
    }
  if (status == REED_OK) status = cuda_check(self, result, "a copy cannot be enqueued", diagnosis);
  if (status == REED_OK) status = cuda_end_work(queue, span, diagnosis);
  cuda_leave(self);
  return status;
}

reed_status cuda_copy_in(device_queue *base, void *target, const void *source, int64_t bytes, device_span *span,
                         reed_diagnosis *diagnosis) {
  reed_status status = before_host_copy((cuda_queue *)base, source, bytes, diagnosis);
  return status == REED_OK ? copy((cuda_queue *)base, COPY_IN, target, source, bytes, span, diagnosis) : status;
}

reed_status cuda_copy_out(device_queue *base, void *target, const void *source, int64_t bytes, device_span *span,
                          reed_diagnosis *diagnosis) {
  reed_status status = before_host_copy((cuda_queue *)base, target, bytes, diagnosis);
  return status == REED_OK ? copy((cuda_queue *)base, COPY_OUT, target, source, bytes, span, diagnosis) : status;
}

reed_status cuda_copy_within(device_queue *base, void *target, const void *source, int64_t bytes, device_span *span,
                             reed_diagnosis *diagnosis) {
  cuda_queue *queue = (cuda_queue *)base;
  if (queue->recording && bytes) {
    cuda_graph_note(cuda_of(base), queue->recording, target);
    cuda_graph_note(cuda_of(base), queue->recording, source);
  }
  return copy(queue, COPY_WITHIN, target, source, bytes, span, diagnosis);
}

reed_status cuda_poison(device_queue *base, void *data, int64_t bytes) {
  cuda_queue *queue = (cuda_queue *)base;
  return queue->recording ? REED_OK : copy(queue, COPY_POISON, data, NULL, bytes, NULL, NULL);
}

/* ---- events ---- */

reed_status cuda_event_open(device *base, device_event **out_event, reed_diagnosis *diagnosis) {
  cuda_device *self = (cuda_device *)base;
  device_event *event = mem_calloc(1, sizeof *event);
  if (!event) return diag_no_memory(diagnosis, "an event of device '" CUDA_DEVICE_NAME "'");
  reed_status status = cuda_enter(self, diagnosis);
  if (status == REED_OK) {
    status = cuda_check(self, self->driver.event_create(&event->event, CU_EVENT_NO_TIMING), "no event", diagnosis);
    cuda_leave(self);
  }
  if (status == REED_OK) *out_event = event;
  else mem_free(event);
  return status;
}

void cuda_event_close(device *base, device_event *event) {
  cuda_device *self = (cuda_device *)base;
  if (cuda_enter_again(self, NULL) == REED_OK) {
    (void)self->driver.event_destroy(event->event);
    cuda_leave(self);
  }
  mem_free(event);
}

static reed_status mark_order(cuda_queue *queue, device_event *event, bool wait, reed_diagnosis *diagnosis) {
  cuda_device *self = cuda_of(&queue->base);
  if (queue->recording) return cuda_graph_refuse(self, queue->recording, "used an event", diagnosis);
  reed_status status = cuda_enter(self, diagnosis);
  if (status != REED_OK) return status;
  cu_result result = wait ? self->driver.stream_wait(queue->stream, event->event, 0)
                          : self->driver.event_record(event->event, queue->stream);
  status = cuda_check(self, result, wait ? "an event cannot be waited for" : "an event cannot be recorded", diagnosis);
  cuda_leave(self);
  return status;
}

reed_status cuda_event_record(device_queue *queue, device_event *event, reed_diagnosis *diagnosis) {
  return mark_order((cuda_queue *)queue, event, false, diagnosis);
}

reed_status cuda_event_wait(device_queue *queue, device_event *event, reed_diagnosis *diagnosis) {
  return mark_order((cuda_queue *)queue, event, true, diagnosis);
}

bool cuda_event_done(device *base, device_event *event) {
  cuda_device *self = (cuda_device *)base;
  if (cuda_enter_again(self, NULL) != REED_OK) return true;
  const cu_result result = self->driver.event_query(event->event);
  /* without an answer the event is waited for */
  if (result && result != CU_NOT_READY) (void)self->driver.event_synchronize(event->event);
  cuda_leave(self);
  return result != CU_NOT_READY;
}

reed_status cuda_stream_record(device *base, int64_t stream, device_event *event, reed_diagnosis *diagnosis) {
  cuda_device *self = (cuda_device *)base;
  reed_status status = cuda_enter(self, diagnosis);
  if (status != REED_OK) return status;
  /* DLPack's numbers of the default streams are the driver's handles of these (CU_STREAM_LEGACY, CU_STREAM_PER_THREAD)
   */
  const cu_stream callers = (cu_stream)(intptr_t)stream;
  int state = CU_CAPTURE_NONE;
  cu_result result = self->driver.capture_state(callers, &state);
  if (!result && state == CU_CAPTURE_NONE) result = self->driver.event_record(event->event, callers);
  /* An event of a captured stream would draw the queues that wait for it into the capture. */
  if (!result && state != CU_CAPTURE_NONE)
    status = diag_fail(diagnosis, REED_ERROR_UNSUPPORTED,
                       "device '%s': the caller's stream is being captured into a graph, which cannot hold a session's "
                       "run: end the capture first",
                       base->name);
  else
    status =
        cuda_check(self, result, "an event cannot be recorded on the caller's stream, which must be one of this device",
                   diagnosis);
  cuda_leave(self);
  return status;
}
