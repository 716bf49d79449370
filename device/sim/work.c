/* Records of work, which a host thread puts into a queue and waits for. Kinds of work: queue.c, graph.c. Running the
 * work: perform.c. */
#include "device/sim/state.h"

/* When the tape holds more bytes than this, the host waits until the queue is empty. */
static const size_t tape_limit_bytes = (size_t)64 << 20;

void sim_wait(sim_queue *queue) {
  sim_device *self = sim_of(&queue->base);
  uv_mutex_lock(&self->lock);
  self->n_waiting++;
  uv_cond_signal(&self->ready);
  while (queue->n_pending) uv_cond_wait(&self->idle, &self->lock);
  self->n_waiting--;
  uv_mutex_unlock(&self->lock);
  sim_tape_rewind(&queue->tape);
}

void sim_enqueue(sim_queue *queue, work *w) {
  sim_device *self = sim_of(&queue->base);
  w->next = NULL;
  uv_mutex_lock(&self->lock);
  w->order = self->n_work++;
  if (queue->head) queue->tail->next = w;
  else queue->head = w;
  queue->tail = w;
  queue->n_pending++;
  uv_cond_signal(&self->ready);
  uv_mutex_unlock(&self->lock);
}

work *sim_work_open(sim_queue *queue, work_kind kind, size_t extra_bytes, device_span *span, void **out_extra) {
  enum { RECORD_BYTES = (sizeof(work) + 63) / 64 * 64 };
  if (queue->tape.taken > tape_limit_bytes) sim_wait(queue);
  size_t total;
  work *w =
      __builtin_add_overflow(extra_bytes, (size_t)RECORD_BYTES, &total) ? NULL : sim_tape_take(&queue->tape, total);
  if (!w) return NULL;
  *w = (work){.kind = kind, .span = span};
  if (out_extra) *out_extra = (char *)w + RECORD_BYTES;
  return w;
}
