/* The host as a device: memory through the allocator hook, and work that is done when the call returns. So the call
 * itself returns a failure, and queues, events and synchronize do nothing. The host's kernels: ops/cpu/. */
#include "device/host.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "device/memory.h"
#include "ops/kernel.h"

enum {
  /* A block of this size or more gets room to grow. The room takes addresses only, because the system gives pages at
   * their first use. */
  ROOM_FROM_BYTES = 4 << 20,
  ROOM_SHARE = 4, /* the room is a quarter of the block, if the caller asks for no more; the heap keeps no more free */
};

typedef struct host_device {
  device base;
  device_figures figures;
} host_device;

/* Lies before every block, so that release knows its size. One alignment unit long, so that the block is aligned. */
typedef struct block_header {
  _Alignas(64) int64_t bytes;
  int64_t capacity;
} block_header;

static void host_close(device *self) { mem_free(self); }

static reed_status host_allocate(device *self, int64_t bytes, int64_t room_bytes, void **out_data,
                                 reed_diagnosis *diagnosis) {
  device_figures *figures = &((host_device *)self)->figures;
  assert(bytes >= 0);
  if (!figures_hold(figures, bytes)) return figures_refuse(figures, "host", bytes, diagnosis);
  const size_t head = sizeof(block_header);
  int64_t capacity = bytes < ROOM_FROM_BYTES ? bytes : bytes + bytes / ROOM_SHARE;
  if (room_bytes > capacity && mem_addresses_are_free((size_t)room_bytes + head)) capacity = room_bytes;
  block_header *header = mem_alloc_bulk_room((size_t)bytes + head, (size_t)capacity + head);
  if (!header && capacity > bytes) /* the system may refuse so many addresses */
    header = mem_alloc_bulk((size_t)(capacity = bytes) + head);
  if (!header) return figures_refuse(figures, "host", bytes, diagnosis);
  header->bytes = bytes;
  header->capacity = capacity;
  figures_add(figures, bytes);
  *out_data = header + 1;
  return REED_OK;
}

static bool host_extend(device *self, void *data, int64_t bytes) {
  device_figures *figures = &((host_device *)self)->figures;
  block_header *header = (block_header *)data - 1;
  assert(bytes >= header->bytes);
  if (bytes > header->capacity || !figures_hold(figures, bytes)) return false;
  figures_grow(figures, bytes - header->bytes);
  mem_extend_bulk(header, (size_t)header->bytes + sizeof *header, (size_t)bytes + sizeof *header);
  header->bytes = bytes;
  return true;
}

static void host_release(device *self, void *data, device_queue *after) {
  (void)after;
  if (!data) return;
  block_header *header = (block_header *)data - 1;
  figures_grow(&((host_device *)self)->figures, -header->bytes);
  mem_free_aligned(header);
}

static reed_status host_allocate_pinned(device *self, int64_t bytes, void **out_data, reed_diagnosis *diagnosis) {
  return host_allocate(self, bytes, 0, out_data, diagnosis);
}

static void host_release_pinned(device *self, void *data) { host_release(self, data, NULL); }

static void host_memory(device *self, device_memory *out_memory) {
  figures_read(&((host_device *)self)->figures, out_memory);
}

static const char *host_target(const device *self) {
  (void)self;
  return "host";
}

static reed_kernel_prepare_fn host_kernel(const device *self, const reed_op *op) {
  (void)self;
  return kernel_cpu(op);
}

static reed_status host_queue_open(device *self, device_queue_kind kind, device_queue **out_queue,
                                   reed_diagnosis *diagnosis) {
  (void)kind;
  device_queue *queue = mem_alloc(sizeof *queue);
  if (!queue) return diag_no_memory(diagnosis, "a queue of device 'host'");
  queue->device = self;
  *out_queue = queue;
  return REED_OK;
}

static void host_queue_close(device_queue *queue) { mem_free(queue); }

static reed_status host_copy(device_queue *queue, void *target, const void *source, int64_t bytes, device_span *span,
                             reed_diagnosis *diagnosis) {
  (void)queue;
  (void)diagnosis;
  if (span) span->begin_ns = clock_now_ns();
  if (bytes > 0) memmove(target, source, (size_t)bytes);
  if (span) span->end_ns = clock_now_ns();
  return REED_OK;
}

static reed_status host_launch(device_queue *queue, const reed_kernel *kernel, const reed_kernel_buffers *buffers,
                               int32_t n_inputs, int32_t n_outputs, uint32_t number, device_span *span,
                               reed_diagnosis *diagnosis) {
  (void)queue;
  (void)n_inputs;
  (void)n_outputs;
  (void)number;
  reed_kernel_buffers own = *buffers;
  own.diagnosis = diagnosis;
  if (span) span->begin_ns = clock_now_ns();
  reed_status status = kernel->run(kernel->state, &own);
  if (span) span->end_ns = clock_now_ns();
  return status;
}

static reed_status host_synchronize(device_queue *queue, device_error *out_error, reed_diagnosis *diagnosis) {
  (void)queue;
  (void)out_error;
  (void)diagnosis;
  return REED_OK;
}

/* All work is done when its call returns, so every event has happened. */
static reed_status host_event_open(device *self, device_event **out_event, reed_diagnosis *diagnosis) {
  (void)diagnosis;
  *out_event = (device_event *)self;
  return REED_OK;
}

static void host_event_close(device *self, device_event *event) {
  (void)self;
  (void)event;
}

static reed_status host_event(device_queue *queue, device_event *event, reed_diagnosis *diagnosis) {
  (void)queue;
  (void)event;
  (void)diagnosis;
  return REED_OK;
}

static bool host_event_done(device *self, device_event *event) {
  (void)self;
  (void)event;
  return true;
}

static const device_interface host_interface = {
    .host_memory = true,
    .close = host_close,
    .allocate = host_allocate,
    .extend = host_extend,
    .release = host_release,
    .allocate_pinned = host_allocate_pinned,
    .release_pinned = host_release_pinned,
    .memory = host_memory,
    .target = host_target,
    .kernel = host_kernel,
    .queue_open = host_queue_open,
    .queue_close = host_queue_close,
    .copy_in = host_copy,
    .copy_out = host_copy,
    .copy_within = host_copy,
    .launch = host_launch,
    .synchronize = host_synchronize,
    .event_open = host_event_open,
    .event_close = host_event_close,
    .event_record = host_event,
    .event_wait = host_event,
    .event_done = host_event_done,
};

reed_status host_open(device **out_device, reed_diagnosis *diagnosis) {
  host_device *self = mem_calloc(1, sizeof *self);
  if (!self) return diag_no_memory(diagnosis, "device 'host'");
  self->base.interface = &host_interface;
  self->figures.total_bytes = figures_machine_bytes();
  *out_device = &self->base;
  return REED_OK;
}
