/* The host as a device: plain memory through the allocator hook, and work that is done when the call returns. A failure
 * is therefore the call's own result; synchronize has nothing left to wait for or to report. */
#include <assert.h>
#include <string.h>
#include <uv.h>

#include "base/mem.h"
#include "device/memory.h"
#include "ops/kernel.h"

enum {
  ALIGNMENT = 64,
  ROOM_FROM_BYTES = 4 << 20, /* a block from this size on, which the system gives page by page as it is used, .. */
  ROOM_SHARE = 4,            /* .. may grow by this part of itself: what is not used takes addresses only */
};

typedef struct host_device {
  device base;
  device_memory memory;
} host_device;

/* In front of every block, so that release knows its size. One alignment unit, to keep the block aligned. */
typedef struct block_header {
  _Alignas(ALIGNMENT) int64_t bytes;
  int64_t capacity;
} block_header;

static void host_close(device *self) { mem_free(self); }

static reed_status host_allocate(device *self, int64_t bytes, void **out_data, reed_diagnosis *diagnosis) {
  device_memory *memory = &((host_device *)self)->memory;
  assert(bytes >= 0);
  if (!memory_holds(memory, bytes)) return memory_refuse(memory, "host", bytes, diagnosis);
  int64_t capacity = bytes < ROOM_FROM_BYTES ? bytes : bytes + bytes / ROOM_SHARE;
  block_header *header = mem_alloc_bulk((size_t)capacity + sizeof *header);
  if (!header && capacity > bytes) header = mem_alloc_bulk((size_t)(capacity = bytes) + sizeof *header);
  if (!header) return memory_refuse(memory, "host", bytes, diagnosis);
  header->bytes = bytes;
  header->capacity = capacity;
  memory_add(memory, bytes);
  *out_data = header + 1;
  return REED_OK;
}

static bool host_extend(device *self, void *data, int64_t bytes) {
  device_memory *memory = &((host_device *)self)->memory;
  block_header *header = (block_header *)data - 1;
  assert(bytes >= header->bytes);
  if (bytes > header->capacity || !memory_holds(memory, bytes)) return false;
  memory->live_bytes += bytes - header->bytes;
  if (memory->peak_bytes < memory->live_bytes) memory->peak_bytes = memory->live_bytes;
  header->bytes = bytes;
  return true;
}

static void host_release(device *self, void *data) {
  if (!data) return;
  block_header *header = (block_header *)data - 1;
  ((host_device *)self)->memory.live_bytes -= header->bytes;
  mem_free_aligned(header);
}

static reed_status host_copy(device *self, void *target, const void *source, int64_t bytes, device_span *span,
                             reed_diagnosis *diagnosis) {
  (void)self;
  (void)diagnosis;
  if (span) span->begin_ns = clock_now_ns();
  if (bytes > 0) memmove(target, source, (size_t)bytes);
  if (span) span->end_ns = clock_now_ns();
  return REED_OK;
}

static reed_status host_launch(device *self, const reed_kernel *kernel, const reed_kernel_buffers *buffers,
                               int32_t n_inputs, int32_t n_outputs, uint32_t number, device_span *span,
                               reed_diagnosis *diagnosis) {
  (void)self;
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

static reed_status host_synchronize(device *self, device_error *out_error, reed_diagnosis *diagnosis) {
  (void)self;
  (void)out_error;
  (void)diagnosis;
  return REED_OK;
}

static void host_memory(const device *self, device_memory *out_memory) {
  *out_memory = ((const host_device *)self)->memory;
}

static reed_kernel_prepare_fn host_kernel(const device *self, const reed_op *op) {
  (void)self;
  return kernel_cpu(op);
}

static const device_interface host_interface = {
    .name = "host",
    .host_memory = true,
    .close = host_close,
    .allocate = host_allocate,
    .extend = host_extend,
    .release = host_release,
    .copy_in = host_copy,
    .copy_out = host_copy,
    .copy_within = host_copy,
    .launch = host_launch,
    .synchronize = host_synchronize,
    .memory = host_memory,
    .kernel = host_kernel,
};

reed_status device_open_host(device **out_device, reed_diagnosis *diagnosis) {
  host_device *self = mem_calloc(1, sizeof *self);
  if (!self) return diag_no_memory(diagnosis, "device 'host'");
  self->base.interface = &host_interface;
  self->memory.total_bytes = (int64_t)uv_get_total_memory();
  *out_device = &self->base;
  return REED_OK;
}
