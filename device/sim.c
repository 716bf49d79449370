/* The simulated accelerator: host memory that the host may not touch, and a thread that does what was enqueued, later
 * and in order. What it is for: a missing copy is a crash, a missing synchronisation a wrong result, and any call can
 * be made to fail, on every machine.
 *
 * The host's side enqueues; the device's thread performs. While it performs one piece of work, only the blocks that
 * this work names are open. After a failure it skips copies and launches until synchronize has reported it. */
#include <assert.h>
#include <omp.h>
#include <string.h>

#include "base/mem.h"
#include "device/memory.h"
#include "device/sim_pages.h"
#include "device/sim_tape.h"
#include "ops/kernel.h"

/* Enqueued records and bytes on their way beyond this make the host wait for the device. */
static const size_t tape_limit_bytes = (size_t)64 << 20;

typedef enum work_kind { WORK_COPY_IN, WORK_COPY_OUT, WORK_COPY_WITHIN, WORK_LAUNCH, WORK_RELEASE } work_kind;

typedef struct work {
  struct work *next;
  work_kind kind;
  int64_t fault; /* 0, or the number of this call among those of its kind: it was chosen to fail */
  device_span *span;
  union {
    struct {
      char *target;
      const char *source;
      int64_t bytes;
    } copy;
    struct {
      reed_kernel kernel;
      reed_kernel_buffers buffers; /* without its inputs and outputs */
      void **operands;             /* inputs, then outputs */
      int32_t n_inputs, n_outputs;
      uint32_t number;
    } launch;
  };
} work;

/* A block and the record of its release, so that releasing never needs memory. */
typedef struct allocation {
  sim_block block; /* first: a block of this device is an allocation */
  work release;
  bool released;
} allocation;

typedef struct sim_device {
  device base;
  int n_threads;
  device_sim_faults faults;
  int64_t n_copies, n_launches, n_allocations;
  device_memory memory;
  sim_pages pages;
  sim_tape tape;

  uv_thread_t thread;
  uv_mutex_t lock; /* of the queue: the five below */
  uv_cond_t ready, idle;
  work *head, *tail;
  int64_t n_pending; /* enqueued and not yet done */
  bool closing;

  /* The device's thread's while work is pending, the host's otherwise. */
  reed_status status; /* first failure since the last synchronize */
  device_error error;
  reed_diagnosis fault;
} sim_device;

/* ---- the device's thread ---- */

/* Opens the block that `bytes` bytes from `pointer` lie in. */
static reed_status open_range(sim_device *self, const char *pointer, int64_t bytes, const char *what,
                              sim_block **opened) {
  sim_block *block = sim_pages_find(&self->pages, pointer);
  if (!block)
    return diag_fail(&self->fault, REED_ERROR_DEVICE, "device 'sim': the %s at %p is not memory of this device", what,
                     (const void *)pointer);
  if (block->bytes - (pointer - block->data) < bytes)
    return diag_fail(&self->fault, REED_ERROR_DEVICE,
                     "device 'sim': the %s, %lld bytes at offset %lld, runs past its block of %lld bytes", what,
                     (long long)bytes, (long long)(pointer - block->data), (long long)block->bytes);
  if (!sim_pages_open(block, opened))
    return diag_fail(&self->fault, REED_ERROR_MEMORY, "device 'sim': no memory for a block of %lld bytes",
                     (long long)block->bytes);
  return REED_OK;
}

static reed_status perform_copy(sim_device *self, const work *w, sim_block **opened) {
  reed_status status = REED_OK;
  if (w->copy.bytes == 0) return REED_OK;
  if (w->kind != WORK_COPY_OUT) status = open_range(self, w->copy.target, w->copy.bytes, "target of a copy", opened);
  if (status == REED_OK && w->kind != WORK_COPY_IN)
    status = open_range(self, w->copy.source, w->copy.bytes, "source of a copy", opened);
  if (status == REED_OK) memmove(w->copy.target, w->copy.source, (size_t)w->copy.bytes);
  return status;
}

/* An input that is not this device's memory is one whose value the kernel got on the host when it was prepared; should
 * it read that pointer all the same, it must not find anything. */
static reed_status perform_launch(sim_device *self, work *w, sim_block **opened) {
  reed_status status = REED_OK;
  void **inputs = w->launch.operands, **outputs = inputs + w->launch.n_inputs;
  reed_kernel_buffers *buffers = &w->launch.buffers;
  for (int32_t i = 0; i < w->launch.n_inputs && status == REED_OK; i++) {
    if (!inputs[i]) continue;
    if (sim_pages_find(&self->pages, inputs[i])) status = open_range(self, inputs[i], 0, "input of a kernel", opened);
    else inputs[i] = self->pages.nowhere;
  }
  for (int32_t i = 0; i < w->launch.n_outputs && status == REED_OK; i++)
    if (outputs[i]) status = open_range(self, outputs[i], 0, "output of a kernel", opened);
  if (status == REED_OK && buffers->workspace)
    status = open_range(self, buffers->workspace, w->launch.kernel.workspace_bytes, "workspace of a kernel", opened);
  if (status == REED_OK && buffers->extents)
    status = open_range(self, (char *)buffers->extents, w->launch.n_outputs * (int64_t)sizeof(int64_t),
                        "list of a kernel's extents", opened);
  if (status != REED_OK) return status;
  buffers->inputs = (const void *const *)inputs;
  buffers->outputs = outputs;
  buffers->diagnosis = &self->fault;
  buffers->fault = &self->error.fault;
  self->error = (device_error){.launch = w->launch.number};
  status = w->launch.kernel.run(w->launch.kernel.state, buffers);
  if (status != REED_OK && !self->error.fault.code && self->fault.status != status)
    return diag_fail(&self->fault, status, "device 'sim': a kernel failed: %s", reed_status_text(status));
  return status;
}

static void perform(sim_device *self, work *w) {
  if (w->kind == WORK_RELEASE) {
    allocation *released = (allocation *)((char *)w - offsetof(allocation, release));
    sim_pages_remove(&self->pages, &released->block);
    mem_free(released);
    return;
  }
  sim_block *opened = NULL;
  device_span span = {.begin_ns = clock_now_ns()};
  if (self->status != REED_OK)
    ; /* skipped */
  else if (w->fault)
    self->status = diag_fail(&self->fault, REED_ERROR_DEVICE, "device 'sim': %s %lld was told to fail",
                             w->kind == WORK_LAUNCH ? "launch" : "copy", (long long)w->fault);
  else self->status = w->kind == WORK_LAUNCH ? perform_launch(self, w, &opened) : perform_copy(self, w, &opened);
  sim_pages_close(&opened);
  span.end_ns = clock_now_ns();
  if (w->span) *w->span = span;
}

static void device_thread(void *context) {
  sim_device *self = context;
  omp_set_num_threads(self->n_threads);
  uv_mutex_lock(&self->lock);
  for (;;) {
    while (!self->head && !self->closing) uv_cond_wait(&self->ready, &self->lock);
    work *w = self->head;
    if (!w) break;
    self->head = w->next;
    uv_mutex_unlock(&self->lock);
    perform(self, w);
    uv_mutex_lock(&self->lock);
    if (--self->n_pending == 0) uv_cond_signal(&self->idle);
  }
  uv_mutex_unlock(&self->lock);
}

/* ---- the host's side ---- */

static void enqueue(sim_device *self, work *w) {
  w->next = NULL;
  uv_mutex_lock(&self->lock);
  if (self->head) self->tail->next = w;
  else self->head = w;
  self->tail = w;
  self->n_pending++;
  uv_cond_signal(&self->ready);
  uv_mutex_unlock(&self->lock);
}

static void wait_until_idle(sim_device *self) {
  uv_mutex_lock(&self->lock);
  while (self->n_pending) uv_cond_wait(&self->idle, &self->lock);
  uv_mutex_unlock(&self->lock);
  sim_tape_rewind(&self->tape);
}

/* A record with `extra_bytes` (64-byte aligned) behind it; NULL: no memory. */
static work *work_open(sim_device *self, work_kind kind, size_t extra_bytes, device_span *span, void **out_extra) {
  enum { RECORD_BYTES = (sizeof(work) + 63) / 64 * 64 };
  if (self->tape.taken > tape_limit_bytes) wait_until_idle(self);
  size_t total;
  work *w =
      __builtin_add_overflow(extra_bytes, (size_t)RECORD_BYTES, &total) ? NULL : sim_tape_take(&self->tape, total);
  if (!w) return NULL;
  *w = (work){.kind = kind, .span = span};
  *out_extra = (char *)w + RECORD_BYTES;
  return w;
}

/* Enqueues a copy; a source on the host is copied aside now, as the caller may change it when this returns. */
static reed_status enqueue_copy(device *base, work_kind kind, void *target, const void *source, int64_t bytes,
                                device_span *span, reed_diagnosis *diagnosis) {
  sim_device *self = (sim_device *)base;
  assert(bytes >= 0);
  void *staging;
  size_t staged = kind == WORK_COPY_IN ? (size_t)bytes : 0;
  work *w = work_open(self, kind, staged, span, &staging);
  if (!w)
    return diag_fail(diagnosis, REED_ERROR_MEMORY, "device 'sim': no host memory to enqueue a copy of %lld bytes",
                     (long long)bytes);
  if (staged) memcpy(staging, source, staged);
  w->copy.target = target;
  w->copy.source = kind == WORK_COPY_IN ? staging : source;
  w->copy.bytes = bytes;
  if (++self->n_copies == self->faults.fail_copy) w->fault = self->n_copies;
  enqueue(self, w);
  return REED_OK;
}

static reed_status sim_copy_in(device *self, void *target, const void *source, int64_t bytes, device_span *span,
                               reed_diagnosis *diagnosis) {
  return enqueue_copy(self, WORK_COPY_IN, target, source, bytes, span, diagnosis);
}

static reed_status sim_copy_out(device *self, void *target, const void *source, int64_t bytes, device_span *span,
                                reed_diagnosis *diagnosis) {
  return enqueue_copy(self, WORK_COPY_OUT, target, source, bytes, span, diagnosis);
}

static reed_status sim_copy_within(device *self, void *target, const void *source, int64_t bytes, device_span *span,
                                   reed_diagnosis *diagnosis) {
  return enqueue_copy(self, WORK_COPY_WITHIN, target, source, bytes, span, diagnosis);
}

static reed_status sim_launch(device *base, const reed_kernel *kernel, const reed_kernel_buffers *buffers,
                              int32_t n_inputs, int32_t n_outputs, uint32_t number, device_span *span,
                              reed_diagnosis *diagnosis) {
  sim_device *self = (sim_device *)base;
  void *operands;
  work *w = work_open(self, WORK_LAUNCH, ((size_t)n_inputs + (size_t)n_outputs) * sizeof(void *), span, &operands);
  if (!w) return diag_no_memory(diagnosis, "device 'sim', to enqueue a kernel");
  w->launch.kernel = *kernel;
  w->launch.buffers = (reed_kernel_buffers){.workspace = buffers->workspace, .extents = buffers->extents};
  w->launch.operands = operands;
  w->launch.n_inputs = n_inputs;
  w->launch.n_outputs = n_outputs;
  w->launch.number = number;
  if (n_inputs) memcpy(w->launch.operands, buffers->inputs, (size_t)n_inputs * sizeof(void *));
  if (n_outputs) memcpy(w->launch.operands + n_inputs, buffers->outputs, (size_t)n_outputs * sizeof(void *));
  if (++self->n_launches == self->faults.fail_launch) w->fault = self->n_launches;
  enqueue(self, w);
  return REED_OK;
}

static reed_status sim_allocate(device *base, int64_t bytes, void **out_data, reed_diagnosis *diagnosis) {
  sim_device *self = (sim_device *)base;
  device_memory *memory = &self->memory;
  assert(bytes >= 0);
  if (++self->n_allocations == self->faults.fail_allocation)
    return diag_fail(diagnosis, REED_ERROR_MEMORY, "device 'sim': allocation %lld was told to fail",
                     (long long)self->n_allocations);
  allocation *made = memory_holds(memory, bytes) ? mem_calloc(1, sizeof *made) : NULL;
  if (!made || sim_pages_add(&self->pages, bytes, &made->block) != REED_OK) {
    mem_free(made);
    return memory_refuse(memory, "sim", bytes, diagnosis);
  }
  made->release.kind = WORK_RELEASE;
  memory_add(memory, bytes);
  *out_data = made->block.data;
  return REED_OK;
}

static void sim_release(device *base, void *data) {
  sim_device *self = (sim_device *)base;
  if (!data) return;
  allocation *made = (allocation *)sim_pages_find(&self->pages, data);
  bool valid = made && made->block.data == data && !made->released;
  assert(valid && "not a block of this device, or released before");
  if (!valid) return;
  made->released = true;
  self->memory.live_bytes -= made->block.bytes;
  enqueue(self, &made->release);
}

static reed_status sim_synchronize(device *base, device_error *out_error, reed_diagnosis *diagnosis) {
  sim_device *self = (sim_device *)base;
  wait_until_idle(self);
  reed_status status = self->status;
  if (status == REED_OK) return status;
  *out_error = self->error;
  self->error = (device_error){0};
  if (diagnosis) *diagnosis = self->fault;
  reed_diagnosis_clear(&self->fault);
  self->status = REED_OK;
  return status;
}

static void sim_memory(const device *self, device_memory *out_memory) {
  *out_memory = ((const sim_device *)self)->memory;
}

static reed_kernel_prepare_fn sim_kernel(const device *self, const reed_op *op) {
  (void)self;
  return kernel_cpu(op);
}

static void sim_close(device *base) {
  sim_device *self = (sim_device *)base;
  wait_until_idle(self);
  for (sim_block *block; (block = sim_pages_first(&self->pages)); wait_until_idle(self)) sim_release(base, block->data);
  uv_mutex_lock(&self->lock);
  self->closing = true;
  uv_cond_signal(&self->ready);
  uv_mutex_unlock(&self->lock);
  uv_thread_join(&self->thread);
  sim_tape_fini(&self->tape);
  uv_cond_destroy(&self->idle);
  uv_cond_destroy(&self->ready);
  uv_mutex_destroy(&self->lock);
  sim_pages_fini(&self->pages);
  mem_free(self);
}

static const device_interface sim_interface = {
    .name = "sim",
    .host_memory = false,
    .close = sim_close,
    .allocate = sim_allocate,
    .release = sim_release,
    .copy_in = sim_copy_in,
    .copy_out = sim_copy_out,
    .copy_within = sim_copy_within,
    .launch = sim_launch,
    .synchronize = sim_synchronize,
    .memory = sim_memory,
    .kernel = sim_kernel,
};

/* Starts the queue and its thread; on failure nothing of them is left. */
static bool start(sim_device *self) {
  if (uv_mutex_init(&self->lock) != 0) return false;
  if (uv_cond_init(&self->ready) != 0) goto no_ready;
  if (uv_cond_init(&self->idle) != 0) goto no_idle;
  if (uv_thread_create(&self->thread, device_thread, self) == 0) return true;
  uv_cond_destroy(&self->idle);
no_idle:
  uv_cond_destroy(&self->ready);
no_ready:
  uv_mutex_destroy(&self->lock);
  return false;
}

reed_status device_open_sim(int n_threads, const device_sim_faults *faults, device **out_device,
                            reed_diagnosis *diagnosis) {
  sim_device *self = mem_calloc(1, sizeof *self);
  if (!self) return diag_no_memory(diagnosis, "device 'sim'");
  self->base.interface = &sim_interface;
  self->n_threads = n_threads > 1 ? n_threads : 1;
  if (faults) self->faults = *faults;
  self->memory.total_bytes = (int64_t)uv_get_total_memory();
  reed_diagnosis_clear(&self->fault);
  reed_status status = sim_pages_init(&self->pages);
  if (status != REED_OK) {
    mem_free(self);
    return diag_no_memory(diagnosis, "pages of device 'sim'");
  }
  if (!start(self)) {
    sim_pages_fini(&self->pages);
    mem_free(self);
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device 'sim': the system gave no thread");
  }
  *out_device = &self->base;
  return REED_OK;
}
