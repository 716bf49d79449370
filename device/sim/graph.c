/* Graphs of the simulated accelerator: launches and copies within the device, noted once and replayed. A call that a
 * graph does not allow is refused and makes end_record fail. A replay checks that every block named in the recording
 * still exists and is the same block. Running the work: perform.c. */
#include <string.h>

#include "base/mem.h"
#include "device/sim/state.h"

reed_status sim_record(device_queue *base, reed_diagnosis *diagnosis) {
  sim_queue *queue = (sim_queue *)base;
  sim_device *self = sim_of(base);
  if (queue->recording)
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device '%s': this queue records a graph already",
                     base->device->name);
  device_graph *graph = mem_calloc(1, sizeof *graph);
  if (!graph) return diag_no_memory(diagnosis, "a graph");
  graph->thread = uv_thread_self();
  graph->last = &graph->first;
  uv_mutex_lock(&self->lock);
  queue->recording = graph;
  uv_mutex_unlock(&self->lock);
  return REED_OK;
}

device_graph *sim_graph_recording(sim_device *self) {
  device_graph *found = NULL;
  uv_thread_t here = uv_thread_self();
  uv_mutex_lock(&self->lock);
  for (sim_queue *queue = self->queues; queue && !found; queue = queue->next)
    if (queue->recording && uv_thread_equal(&queue->recording->thread, &here)) found = queue->recording;
  uv_mutex_unlock(&self->lock);
  return found;
}

void sim_graph_spoil(device_graph *graph, const char *what) {
  if (!graph->spoilt) graph->spoilt = what;
}

work *sim_graph_work(device_graph *graph, work_kind kind, size_t extra_bytes, void **out_extra) {
  enum { RECORD_BYTES = (sizeof(graph_work) + 15) / 16 * 16 };
  graph_work *made = mem_calloc(1, RECORD_BYTES + extra_bytes);
  if (!made) {
    graph->failed = true;
    return NULL;
  }
  made->work.kind = kind;
  *out_extra = (char *)made + RECORD_BYTES;
  *graph->last = made;
  graph->last = &made->next;
  return &made->work;
}

/* Notes the block of a pointer that recorded work names. A pointer to host memory is left out: only an operand that the
 * kernel does not read can have one. */
static bool note_block(sim_device *self, device_graph *graph, const void *pointer) {
  const sim_block *block = pointer ? sim_pages_find(&self->pages, pointer) : NULL;
  return !block || VEC_PUSH(&graph->blocks, ((graph_block){block->data, block->serial}));
}

static bool note_blocks(sim_device *self, device_graph *graph) {
  bool noted = true;
  for (const graph_work *g = graph->first; g && noted; g = g->next) {
    const work *w = &g->work;
    if (w->kind == WORK_LAUNCH) {
      int32_t n_extents = w->launch.counted ? w->launch.n_inputs : 0;
      for (int32_t i = 0; i < w->launch.n_inputs + w->launch.n_outputs + n_extents && noted; i++)
        noted = note_block(self, graph, w->launch.operands[i]);
      noted = noted && note_block(self, graph, w->launch.buffers.workspace) &&
              note_block(self, graph, w->launch.buffers.extents);
    } else {
      noted = note_block(self, graph, w->copy.target) && note_block(self, graph, w->copy.source);
    }
  }
  return noted;
}

reed_status sim_end_record(device_queue *base, device_graph **out_graph, reed_diagnosis *diagnosis) {
  sim_queue *queue = (sim_queue *)base;
  sim_device *self = sim_of(base);
  device_graph *graph = queue->recording;
  if (!graph)
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device '%s': this queue records no graph", base->device->name);
  uv_mutex_lock(&self->lock);
  queue->recording = NULL;
  uv_mutex_unlock(&self->lock);
  reed_status status = REED_OK;
  if (graph->spoilt)
    status = diag_fail(diagnosis, REED_ERROR_DEVICE, "device '%s': while a graph was recorded its thread %s",
                       base->device->name, graph->spoilt);
  else if (graph->failed || !note_blocks(self, graph)) status = diag_no_memory(diagnosis, "a graph");
  if (status != REED_OK) {
    sim_drop(&self->base, graph);
    return status;
  }
  *out_graph = graph;
  return REED_OK;
}

reed_status sim_replay(device_queue *base, device_graph *graph, device_span *span, reed_diagnosis *diagnosis) {
  sim_queue *queue = (sim_queue *)base;
  sim_device *self = sim_of(base);
  if (queue->recording) {
    sim_graph_spoil(queue->recording, "replayed a graph");
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device '%s': a graph holds no graphs", base->device->name);
  }
  for (size_t i = 0; i < graph->blocks.n; i++) {
    const graph_block *noted = &graph->blocks.items[i];
    const allocation *now = (const allocation *)sim_pages_find(&self->pages, noted->data);
    if (!now || now->released || now->block.data != noted->data || now->block.serial != noted->serial)
      return diag_fail(diagnosis, REED_ERROR_DEVICE,
                       "device '%s': the block at %p that a graph names was released after it was recorded",
                       base->device->name, (const void *)noted->data);
  }
  work *w = sim_work_open(queue, WORK_REPLAY, 0, span, NULL);
  if (!w) return diag_no_memory(diagnosis, "device 'sim', to replay a graph");
  w->graph = graph;
  sim_enqueue(queue, w);
  return REED_OK;
}

void sim_drop(device *self, device_graph *graph) {
  (void)self;
  for (graph_work *g = graph->first, *next; g; g = next) {
    next = g->next;
    mem_free(g);
  }
  VEC_FREE(&graph->blocks);
  mem_free(graph);
}
