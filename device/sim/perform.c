/* The device's thread: chooses the queue whose work runs next, and runs that work. During a copy or launch only the
 * blocks that it names are open. After a failure a queue leaves out copies and launches until synchronize has reported
 * the failure; so does a queue that waits for an event recorded after the failure. Enqueuing: queue.c. */
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/random.h"
#include "device/sim/state.h"

/* ---- one piece of work ---- */

/* Opens the block that `bytes` bytes from `pointer` lie in. */
static reed_status open_range(sim_queue *queue, const char *pointer, int64_t bytes, const char *what,
                              sim_block **opened) {
  sim_device *self = sim_of(&queue->base);
  const char *name = self->base.name;
  sim_block *block = sim_pages_find(&self->pages, pointer);
  if (!block)
    return diag_fail(&queue->fault, REED_ERROR_DEVICE, "device '%s': the %s at %p is not memory of this device", name,
                     what, (const void *)pointer);
  if (block->bytes - (pointer - block->data) < bytes)
    return diag_fail(&queue->fault, REED_ERROR_DEVICE,
                     "device '%s': the %s, %lld bytes at offset %lld, runs past its block of %lld bytes", name, what,
                     (long long)bytes, (long long)(pointer - block->data), (long long)block->bytes);
  if (!sim_pages_open(&self->pages, block, opened))
    return diag_fail(&queue->fault, REED_ERROR_MEMORY, "device '%s': no memory for a block of %lld bytes", name,
                     (long long)block->bytes);
  return REED_OK;
}

static reed_status perform_copy(sim_queue *queue, const work *w, sim_block **opened) {
  reed_status status = REED_OK;
  if (w->copy.bytes == 0) return REED_OK;
  if (w->kind != WORK_COPY_OUT) status = open_range(queue, w->copy.target, w->copy.bytes, "target of a copy", opened);
  if (status == REED_OK && w->kind != WORK_COPY_IN && w->kind != WORK_POISON)
    status = open_range(queue, w->copy.source, w->copy.bytes, "source of a copy", opened);
  if (status != REED_OK) return status;
  if (w->kind == WORK_POISON) memset(w->copy.target, SIM_POISON, (size_t)w->copy.bytes);
  else memmove(w->copy.target, w->copy.source, (size_t)w->copy.bytes);
  return REED_OK;
}

/* Runs a launch. An input outside this device's memory has elements that the kernel's `prepare` got on the host. Its
 * pointer is replaced by a closed page, so that a read crashes. */
static reed_status perform_launch(sim_queue *queue, work *w, sim_block **opened) {
  sim_device *self = sim_of(&queue->base);
  reed_status status = REED_OK;
  void **inputs = w->launch.operands, **outputs = inputs + w->launch.n_inputs;
  reed_kernel_buffers *buffers = &w->launch.buffers;
  for (int32_t i = 0; i < w->launch.n_inputs && status == REED_OK; i++) {
    if (!inputs[i]) continue;
    if (sim_pages_find(&self->pages, inputs[i])) status = open_range(queue, inputs[i], 0, "input of a kernel", opened);
    else inputs[i] = self->pages.nowhere;
  }
  for (int32_t i = 0; i < w->launch.n_outputs && status == REED_OK; i++)
    if (outputs[i]) status = open_range(queue, outputs[i], 0, "output of a kernel", opened);
  if (status == REED_OK && buffers->workspace)
    status = open_range(queue, buffers->workspace, w->launch.kernel.workspace_bytes, "workspace of a kernel", opened);
  if (status == REED_OK && buffers->extents)
    status = open_range(queue, (char *)buffers->extents, w->launch.n_outputs * (int64_t)sizeof(int64_t),
                        "list of a kernel's extents", opened);
  void **extents = outputs + w->launch.n_outputs;
  for (int32_t i = 0; w->launch.counted && i < w->launch.n_inputs && status == REED_OK; i++)
    if (extents[i])
      status = open_range(queue, extents[i], (int64_t)sizeof(int64_t), "extent of a kernel's input", opened);
  if (w->launch.counted) buffers->input_extents = (const int64_t *const *)extents;
  if (status != REED_OK) return status;
  buffers->inputs = (const void *const *)inputs;
  buffers->outputs = outputs;
  buffers->diagnosis = &queue->fault;
  buffers->fault = &queue->error.fault;
  queue->error = (device_error){.launch = w->launch.number};
  status = w->launch.kernel.run(w->launch.kernel.state, buffers);
  if (status != REED_OK && !queue->error.fault.code && queue->fault.status != status)
    return diag_fail(&queue->fault, status, "device '%s': a kernel failed: %s", self->base.name,
                     reed_status_text(status));
  return status;
}

/* Runs a launch, a copy or poison, from a queue or a graph. */
static void perform_one(sim_queue *queue, work *w) {
  sim_block *opened = NULL;
  device_span span = {.begin_ns = clock_now_ns()};
  if (!queue->skipping) {
    reed_status status =
        w->fault                 ? diag_fail(&queue->fault, REED_ERROR_DEVICE, "device '%s': %s %lld was told to fail",
                                             queue->base.device->name, w->kind == WORK_LAUNCH ? "launch" : "copy", (long long)w->fault)
        : w->kind == WORK_LAUNCH ? perform_launch(queue, w, &opened)
                                 : perform_copy(queue, w, &opened);
    w->fault = 0; /* a chosen call fails once, also when its graph is replayed */
    if (status != REED_OK) {
      queue->error.launch = w->kind == WORK_LAUNCH ? w->launch.number : DEVICE_NO_LAUNCH;
      queue->status = status;
      queue->skipping = true;
    }
  }
  sim_pages_close(&opened);
  span.end_ns = clock_now_ns();
  if (w->span) *w->span = span;
}

/* ---- the thread ---- */

/* The queue whose first work runs next; NULL: no queue may run. Called under the lock. */
static sim_queue *choose(sim_device *self) {
  sim_queue *chosen = NULL;
  uint64_t n = 0;
  if (self->options.late && !self->n_waiting && !self->closing) return NULL;
  for (sim_queue *queue = self->queues; queue; queue = queue->next) {
    const work *w = queue->head;
    if (!w || (w->kind == WORK_WAIT && w->mark.event->n_done < w->mark.number)) continue;
    n++;
    if (!chosen || (self->options.seed ? random_next(&self->random) % n == 0 : w->order < chosen->head->order))
      chosen = queue;
  }
  return chosen;
}

/* Runs an event's record or wait. Called under the lock. */
static void pass_mark(sim_queue *queue, work *w) {
  device_event *event = w->mark.event;
  if (w->kind == WORK_WAIT) {
    queue->skipping |= event->failed;
  } else {
    event->n_done = w->mark.number;
    event->failed = queue->skipping;
  }
}

static void perform(sim_queue *queue, work *w) {
  if (w->kind == WORK_RELEASE) {
    allocation *released = (allocation *)((char *)w - offsetof(allocation, release));
    sim_pages_remove(&sim_of(&queue->base)->pages, &released->block);
    mem_free(released);
  } else if (w->kind == WORK_REPLAY) {
    device_span span = {.begin_ns = clock_now_ns()};
    for (graph_work *g = w->graph->first; g; g = g->next) perform_one(queue, &g->work);
    span.end_ns = clock_now_ns();
    if (w->span) *w->span = span;
  } else {
    perform_one(queue, w);
  }
}

void sim_thread(void *context) {
  sim_device *self = context;
  uv_mutex_lock(&self->lock);
  for (;;) {
    sim_queue *queue = choose(self);
    if (!queue) {
      if (self->closing) break;
      uv_cond_wait(&self->ready, &self->lock);
      continue;
    }
    work *w = queue->head;
    bool mark = w->kind == WORK_RECORD || w->kind == WORK_WAIT;
    uint64_t delay =
        self->options.delay_us && !mark ? random_next(&self->random) % (uint64_t)(self->options.delay_us + 1) : 0;
    queue->head = w->next;
    if (mark) {
      pass_mark(queue, w);
    } else {
      uv_mutex_unlock(&self->lock);
      if (delay) usleep((unsigned)delay);
      perform(queue, w);
      uv_mutex_lock(&self->lock);
    }
    if (--queue->n_pending == 0) uv_cond_broadcast(&self->idle);
  }
  uv_mutex_unlock(&self->lock);
}
