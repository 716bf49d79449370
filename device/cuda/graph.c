/* Graphs of a CUDA device: launches and copies within the device, captured from the queue's stream and replayed. The
 * capture is of this thread only, so that other threads may allocate and launch meanwhile. A call that a graph does not
 * allow is refused and makes end_record fail. A replay checks that every block named in the recording still exists and
 * is the same block. */
#include "base/mem.h"
#include "device/cuda/state.h"

reed_status cuda_record(device_queue *base, reed_diagnosis *diagnosis) {
  cuda_queue *queue = (cuda_queue *)base;
  cuda_device *self = cuda_of(base);
  if (queue->recording)
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device '%s': this queue records a graph already",
                     base->device->name);
  device_graph *graph = mem_calloc(1, sizeof *graph);
  if (!graph) return diag_no_memory(diagnosis, "a graph");
  graph->thread = uv_thread_self();
  reed_status status = cuda_enter(self, diagnosis);
  if (status == REED_OK) {
    status = cuda_begin_work(queue, NULL, diagnosis);
    if (status == REED_OK)
      status = cuda_check(self, self->driver.capture_begin(queue->stream, CU_CAPTURE_THREAD),
                          "a graph cannot be recorded", diagnosis);
    cuda_leave(self);
  }
  if (status != REED_OK) {
    mem_free(graph);
    return status;
  }
  uv_mutex_lock(&self->lock);
  queue->recording = graph;
  uv_mutex_unlock(&self->lock);
  return REED_OK;
}

device_graph *cuda_graph_recording(cuda_device *self) {
  device_graph *found = NULL;
  uv_thread_t here = uv_thread_self();
  uv_mutex_lock(&self->lock);
  for (cuda_queue *queue = self->queues; queue && !found; queue = queue->next)
    if (queue->recording && uv_thread_equal(&queue->recording->thread, &here)) found = queue->recording;
  uv_mutex_unlock(&self->lock);
  return found;
}

void cuda_graph_spoil(device_graph *graph, const char *what) {
  if (!graph->spoilt) graph->spoilt = what;
}

reed_status cuda_graph_refuse(cuda_device *self, device_graph *graph, const char *what, reed_diagnosis *diagnosis) {
  cuda_graph_spoil(graph, what);
  return diag_fail(diagnosis, REED_ERROR_DEVICE, "device '%s': while a graph was recorded its thread %s",
                   self->base.name, what);
}

void cuda_graph_note(cuda_device *self, device_graph *graph, const void *pointer) {
  uv_mutex_lock(&self->lock);
  const cuda_block *block = cuda_blocks_find(&self->blocks, pointer);
  cuda_named named = block ? (cuda_named){block->data, block->serial} : (cuda_named){0};
  uv_mutex_unlock(&self->lock);
  bool known = !block;
  for (size_t i = graph->blocks.n; i-- > 0 && !known;) known = graph->blocks.items[i].serial == named.serial;
  if (!known && !VEC_PUSH(&graph->blocks, named)) graph->failed = true;
}

static cu_result finish(cuda_device *self, cuda_queue *queue, device_graph *graph) {
  cu_graph captured = NULL;
  cu_result result = self->driver.capture_end(queue->stream, &captured);
  if (!result && !graph->spoilt && !graph->failed) result = self->driver.graph_instantiate(&graph->exec, captured, 0);
  if (captured) (void)self->driver.graph_destroy(captured);
  return result;
}

reed_status cuda_end_record(device_queue *base, device_graph **out_graph, reed_diagnosis *diagnosis) {
  cuda_queue *queue = (cuda_queue *)base;
  cuda_device *self = cuda_of(base);
  device_graph *graph = queue->recording;
  if (!graph)
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device '%s': this queue records no graph", base->device->name);
  uv_mutex_lock(&self->lock);
  queue->recording = NULL;
  uv_mutex_unlock(&self->lock);
  reed_status status = cuda_enter_again(self, diagnosis);
  cu_result result = CU_SUCCESS;
  if (status == REED_OK) {
    result = finish(self, queue, graph);
    cuda_release_withheld(queue);
    cuda_leave(self);
  }
  if (status == REED_OK && graph->spoilt) status = cuda_graph_refuse(self, graph, graph->spoilt, diagnosis);
  else if (status == REED_OK && graph->failed) status = diag_no_memory(diagnosis, "a graph");
  else if (status == REED_OK) status = cuda_check(self, result, "the recording of a graph failed", diagnosis);
  if (status == REED_OK) *out_graph = graph;
  else cuda_drop(base->device, graph);
  return status;
}

reed_status cuda_replay(device_queue *base, device_graph *graph, device_span *span, reed_diagnosis *diagnosis) {
  cuda_queue *queue = (cuda_queue *)base;
  cuda_device *self = cuda_of(base);
  if (queue->recording) return cuda_graph_refuse(self, queue->recording, "replayed a graph", diagnosis);
  for (size_t i = 0; i < graph->blocks.n; i++) {
    const cuda_named *named = &graph->blocks.items[i];
    uv_mutex_lock(&self->lock);
    const cuda_block *now = cuda_blocks_find(&self->blocks, named->data);
    bool same = now && now->serial == named->serial;
    uv_mutex_unlock(&self->lock);
    if (!same)
      return diag_fail(diagnosis, REED_ERROR_DEVICE,
                       "device '%s': the block at %p that a graph names was released after it was recorded",
                       base->device->name, (const void *)named->data);
  }
  reed_status status = cuda_enter(self, diagnosis);
  if (status != REED_OK) return status;
  status = cuda_begin_work(queue, span, diagnosis);
  if (status == REED_OK)
    status = cuda_check(self, self->driver.graph_launch(graph->exec, queue->stream), "a graph cannot be replayed",
                        diagnosis);
  if (status == REED_OK) status = cuda_end_work(queue, span, diagnosis);
  cuda_leave(self);
  return status;
}

void cuda_drop(device *base, device_graph *graph) {
  cuda_device *self = (cuda_device *)base;
  if (graph->exec && cuda_enter_again(self, NULL) == REED_OK) {
    (void)self->driver.graph_exec_destroy(graph->exec);
    cuda_leave(self);
  }
  VEC_FREE(&graph->blocks);
  mem_free(graph);
}
