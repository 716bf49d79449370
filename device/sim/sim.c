/* The simulated accelerator: its memory, opening and closing, and the table of its functions. Queues: queue.c. The
 * device's thread: perform.c. */
#include "device/loadable.h"
#include "device/sim/state.h"

#include <assert.h>

#include "base/mem.h"
#include "ops/kernel.h"

/* False if the calling thread is recording a graph, because memory must not change during a recording. The graph is
 * then spoilt. */
static bool may_change_memory(sim_device *self, const char *what) {
  device_graph *graph = sim_graph_recording(self);
  if (graph) sim_graph_spoil(graph, what);
  return !graph;
}

static reed_status sim_allocate(device *base, int64_t bytes, int64_t room_bytes, void **out_data,
                                reed_diagnosis *diagnosis) {
  sim_device *self = (sim_device *)base;
  assert(bytes >= 0);
  if (!may_change_memory(self, "allocated memory"))
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device '%s': memory was asked for while a graph is recorded",
                     base->name);
  int64_t call = atomic_fetch_add(&self->n_allocations, 1) + 1;
  if (call == self->options.fail_allocation)
    return diag_fail(diagnosis, REED_ERROR_MEMORY, "device '%s': allocation %lld was told to fail", base->name,
                     (long long)call);
  allocation *made = figures_hold(&self->figures, bytes) ? mem_calloc(1, sizeof *made) : NULL;
  if (!made || sim_pages_add(&self->pages, bytes, room_bytes, false, &made->block) != REED_OK) {
    mem_free(made);
    return figures_refuse(&self->figures, base->name, bytes, diagnosis);
  }
  made->release.kind = WORK_RELEASE;
  figures_add(&self->figures, bytes);
  *out_data = made->block.data;
  return REED_OK;
}

static bool sim_extend(device *base, void *data, int64_t bytes) {
  sim_device *self = (sim_device *)base;
  sim_block *block = sim_pages_find(&self->pages, data);
  assert(block && block->data == data && bytes >= block->bytes);
  int64_t more = bytes - block->bytes;
  if (!figures_hold(&self->figures, bytes) || !may_change_memory(self, "grew memory") ||
      !sim_pages_grow(&self->pages, block, bytes))
    return false;
  figures_grow(&self->figures, more);
  return true;
}

static void sim_release(device *base, void *data, device_queue *after) {
  sim_device *self = (sim_device *)base;
  if (!data) return;
  (void)may_change_memory(self, "released memory");
  allocation *made = (allocation *)sim_pages_find(&self->pages, data);
  bool valid = made && made->block.data == data && !made->released;
  assert(valid && "not a block of this device, or released before");
  if (!valid) return;
  made->released = true;
  figures_grow(&self->figures, -made->block.bytes);
  if (after) {
    sim_enqueue((sim_queue *)after, &made->release);
  } else {
    sim_pages_remove(&self->pages, &made->block);
    mem_free(made);
  }
}

static reed_status sim_allocate_pinned(device *base, int64_t bytes, void **out_data, reed_diagnosis *diagnosis) {
  sim_device *self = (sim_device *)base;
  assert(bytes >= 0);
  sim_block *made = figures_hold(&self->figures, bytes) ? mem_calloc(1, sizeof *made) : NULL;
  if (!made || sim_pages_add(&self->pinned, bytes, 0, true, made) != REED_OK) {
    mem_free(made);
    return diag_fail(diagnosis, REED_ERROR_MEMORY, "device '%s': no pinned host memory for %lld bytes", base->name,
                     (long long)bytes);
  }
  atomic_fetch_add(&self->pinned_bytes, bytes);
  *out_data = made->data;
  return REED_OK;
}

static void sim_release_pinned(device *base, void *data) {
  sim_device *self = (sim_device *)base;
  if (!data) return;
  sim_block *block = sim_pages_find(&self->pinned, data);
  bool valid = block && block->data == data;
  assert(valid && "not pinned memory of this device");
  if (!valid) return;
  atomic_fetch_sub(&self->pinned_bytes, block->bytes);
  sim_pages_remove(&self->pinned, block);
  mem_free(block);
}

static void sim_memory(device *base, device_memory *out_memory) {
  sim_device *self = (sim_device *)base;
  figures_read(&self->figures, out_memory);
  out_memory->pinned_bytes = atomic_load(&self->pinned_bytes);
  out_memory->n_unpinned_copies = atomic_load(&self->n_unpinned_copies);
}

static bool sim_holds(device *base, const void *data, int64_t bytes) {
  sim_device *self = (sim_device *)base;
  const sim_block *block = sim_pages_find(&self->pages, data);
  return block && !((const allocation *)block)->released && bytes <= block->bytes - ((const char *)data - block->data);
}

static reed_kernel_prepare_fn sim_kernel(const device *base, const reed_op *op) {
  return kernel_on(op, "sim", ((const sim_device *)base)->host_kernel(op));
}

static const char *sim_target(const device *base) { return ((const sim_device *)base)->target; }

static void sim_close(device *base) {
  sim_device *self = (sim_device *)base;
  assert(!self->queues && "a queue is open");
  uv_mutex_lock(&self->lock);
  self->closing = true;
  uv_cond_signal(&self->ready);
  uv_mutex_unlock(&self->lock);
  uv_thread_join(&self->thread);
  for (sim_block *block; (block = sim_pages_first(&self->pages));) sim_release(base, block->data, NULL);
  for (sim_block *block; (block = sim_pages_first(&self->pinned));) sim_release_pinned(base, block->data);
  uv_cond_destroy(&self->idle);
  uv_cond_destroy(&self->ready);
  uv_mutex_destroy(&self->lock);
  sim_pages_fini(&self->pinned);
  sim_pages_fini(&self->pages);
  mem_free(self->target);
  mem_free(self);
}

/* Two tables, with and without `poison`: the pool poisons memory wherever a device has that function. */
#define FUNCTIONS \
  .close = sim_close, .allocate = sim_allocate, .extend = sim_extend, .release = sim_release, \
  .allocate_pinned = sim_allocate_pinned, .release_pinned = sim_release_pinned, .memory = sim_memory, \
  .holds = sim_holds, .target = sim_target, .kernel = sim_kernel, .queue_open = sim_queue_open, \
  .queue_close = sim_queue_close, .copy_in = sim_copy_in, .copy_out = sim_copy_out, .copy_within = sim_copy_within, \
  .launch = sim_launch, .synchronize = sim_synchronize, .event_open = sim_event_open, .event_close = sim_event_close, \
  .event_record = sim_event_record, .event_wait = sim_event_wait, .event_done = sim_event_done, .record = sim_record, \
  .end_record = sim_end_record, .replay = sim_replay, .drop = sim_drop
static const device_interface plain = {FUNCTIONS}, poisoning = {FUNCTIONS, .poison = sim_poison};

/* Starts the device's thread; on failure nothing of it is left. */
static bool start(sim_device *self) {
  if (uv_mutex_init(&self->lock) != 0) return false;
  if (uv_cond_init(&self->ready) != 0) goto no_ready;
  if (uv_cond_init(&self->idle) != 0) goto no_idle;
  if (uv_thread_create(&self->thread, sim_thread, self) == 0) return true;
  uv_cond_destroy(&self->idle);
no_idle:
  uv_cond_destroy(&self->ready);
no_ready:
  uv_mutex_destroy(&self->lock);
  return false;
}

reed_status sim_open(const sim_options *options, const device_services *services, device **out_device,
                     reed_diagnosis *diagnosis) {
  sim_device *self = mem_calloc(1, sizeof *self);
  if (!self) return diag_no_memory(diagnosis, "device 'sim'");
  self->base.interface = options->poison ? &poisoning : &plain;
  self->options = *options;
  self->target = loadable_target("sim", options->text);
  if (!self->target) {
    mem_free(self);
    return diag_no_memory(diagnosis, "device 'sim'");
  }
  self->random = (uint64_t)options->seed;
  self->host_kernel = services->host_kernel;
  self->figures.total_bytes = figures_machine_bytes();
  reed_status status = sim_pages_init(&self->pages);
  if (status == REED_OK && (status = sim_pages_init(&self->pinned)) != REED_OK) sim_pages_fini(&self->pages);
  if (status != REED_OK) {
    mem_free(self->target);
    mem_free(self);
    return diag_no_memory(diagnosis, "pages of device 'sim'");
  }
  if (!start(self)) {
    sim_pages_fini(&self->pinned);
    sim_pages_fini(&self->pages);
    mem_free(self->target);
    mem_free(self);
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device 'sim': the system gave no thread");
  }
  *out_device = &self->base;
  return REED_OK;
}
