/* A CUDA device: opening and closing a card, and the table of the device's functions. Memory: memory.c. Queues and
 * events: queue.c. Launches: launch.c. Graphs: graph.c. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "device/cuda/kernels/operators.h"
#include "device/cuda/state.h"
#include "device/loadable.h"

/* Unused memory of the pool that the driver keeps for the next allocation. */
static const uint64_t kept_bytes = (uint64_t)32 << 20;

static const char *cuda_target(const device *base) { return ((const cuda_device *)base)->target; }

static reed_kernel_prepare_fn cuda_kernel(const device *base, const reed_op *op) {
  return cuda_kernel_of(op, ((const cuda_device *)base)->math);
}

/* ---- closing ---- */

/* Closes whatever of the device is open. */
static void shut(cuda_device *self) {
  const cuda_driver *cu = &self->driver;
  if (self->context && cuda_enter_again(self, NULL) == REED_OK) {
    if (self->library) self->library->close(self->library);
    self->library = NULL;
    cuda_memory_close(self);
    if (self->given) (void)cu->event_destroy(self->given);
    if (self->returned) (void)cu->event_destroy(self->returned);
    if (self->memory) (void)cu->stream_destroy(self->memory);
    if (self->pool) (void)cu->pool_destroy(self->pool);
    for (size_t i = 0; i < self->modules.n; i++) (void)cu->module_unload(self->modules.items[i]);
    cuda_leave(self);
  }
  if (self->context) (void)cu->context_release(self->ordinal_handle);
  if (cu->init) cuda_driver_close(&self->driver);
  VEC_FREE(&self->modules);
  cuda_profile_close(self->profile);
  uv_mutex_destroy(&self->lock);
  mem_free(self->target);
  mem_free(self);
}

static void cuda_close(device *base) {
  assert(!((cuda_device *)base)->queues && "a queue is open");
  shut((cuda_device *)base);
}

/* Tables with and without `poison`, because the pool poisons memory wherever a device has that function; and one whose
 * kernels run on the host, so that no graph holds them. */
#define FUNCTIONS \
  .reads_counts = true, .writes_rooms = true, .close = cuda_close, .allocate = cuda_allocate, .extend = cuda_extend, \
  .release = cuda_release, .allocate_pinned = cuda_allocate_pinned, .release_pinned = cuda_release_pinned, \
  .memory = cuda_memory, .holds = cuda_holds, .target = cuda_target, .queue_open = cuda_queue_open, \
  .queue_close = cuda_queue_close, .copy_in = cuda_copy_in, .copy_out = cuda_copy_out, \
  .copy_within = cuda_copy_within, .launch = cuda_launch_kernel, .synchronize = cuda_synchronize, \
  .event_open = cuda_event_open, .event_close = cuda_event_close, .event_record = cuda_event_record, \
  .event_wait = cuda_event_wait, .event_done = cuda_event_done, .stream_record = cuda_stream_record
#define ON_CARD \
  .kernel = cuda_kernel, .overwrites = cuda_overwrites, .record = cuda_record, .end_record = cuda_end_record, \
  .replay = cuda_replay, .drop = cuda_drop
static const device_interface plain = {FUNCTIONS, ON_CARD}, poisoning = {FUNCTIONS, ON_CARD, .poison = cuda_poison},
                              by_host = {FUNCTIONS, .kernel = cuda_kernel_by_host, .overwrites = cuda_overwrites};

/* ---- opening ---- */

/* Finds the card and checks that it can do what the module relies on. */
static reed_status find_card(cuda_device *self, int32_t index, reed_diagnosis *diagnosis) {
  const cuda_driver *cu = &self->driver;
  int n = 0, pools = 0, virtual_memory = 0, opt_in = 0, major = 0, minor = 0;
  size_t total = 0;
  cu_result result = cu->device_count(&n);
  if (!result && index >= n)
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device '%s:%d': %s has %d GPU%s, numbered from 0", CUDA_DEVICE_NAME,
                     (int)index, CUDA_DEVICE_NAME, n, n == 1 ? "" : "s");
  self->ordinal = cu->first_ordinal + (int)index;
  if (!result) result = cu->device_get(&self->ordinal_handle, self->ordinal);
  if (!result) result = cu->device_name(self->card, (int)sizeof self->card, self->ordinal_handle);
  if (!result) result = cu->device_attribute(&pools, CU_MEMORY_POOLS, self->ordinal_handle);
  if (!result) result = cu->device_attribute(&virtual_memory, CU_VIRTUAL_MEMORY, self->ordinal_handle);
  if (!result) result = cu->device_attribute(&opt_in, CU_SHARED_BYTES_OPT_IN, self->ordinal_handle);
  if (!result) result = cu->device_attribute(&major, CU_CAPABILITY_MAJOR, self->ordinal_handle);
  if (!result) result = cu->device_attribute(&minor, CU_CAPABILITY_MINOR, self->ordinal_handle);
  if (!result) result = cu->device_memory(&total, self->ordinal_handle);
  reed_status status = cuda_check(self, result, "the card cannot be queried", diagnosis);
  if (status != REED_OK) return status;
  if (!pools || !virtual_memory)
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device '%s': the card %s has no %s, which Reed needs",
                     self->base.name, self->card, pools ? "virtual memory management" : "memory pools");
  if (self->options.tf32 && !cuda_has_tensor_cores(major))
    return diag_fail(diagnosis, REED_ERROR_DEVICE,
                     "device '%s': tf32=1 needs a card of compute capability 8.0 or newer, the card %s has %d.%d",
                     self->base.name, self->card, major, minor);
  self->math = !cuda_has_tensor_cores(major) ? CUDA_MATH_PLAIN : self->options.tf32 ? CUDA_MATH_TF32 : CUDA_MATH_HALVES;
  self->figures.total_bytes = (int64_t)total;
  self->shared_bytes_opt_in = opt_in;
  return REED_OK;
}

/* Refuses a driver that cannot load this build's kernels. */
static reed_status check_version(const cuda_device *self, reed_diagnosis *diagnosis) {
  int version = 0;
  reed_status status = cuda_check(self, self->driver.driver_version(&version), "the driver has no version", diagnosis);
  if (status != REED_OK || version / 1000 >= CUDA_BUILT_FOR) return status;
  return diag_fail(
      diagnosis, REED_ERROR_DEVICE,
      "device '%s': the NVIDIA driver is too old: it is for CUDA %d.%d, this build needs one for CUDA %d.0",
      self->base.name, version / 1000, version % 1000 / 10, CUDA_BUILT_FOR);
}

/* Makes the device's objects, within its context. */
static reed_status make(cuda_device *self, reed_diagnosis *diagnosis) {
  const cuda_driver *cu = &self->driver;
  const cu_location here = {CU_ON_DEVICE, self->ordinal};
  uint64_t threshold = kept_bytes;
  reed_status status = cuda_load_kernels(self, diagnosis);
  if (status != REED_OK) return status;
  cu_result result = cu->granularity(
      &self->granularity, &(cu_allocation_properties){.type = CU_PINNED, .location = here}, CU_GRANULARITY_RECOMMENDED);
  if (!result) result = cu->pool_create(&self->pool, &(cu_pool_properties){.type = CU_PINNED, .location = here});
  if (!result) result = cu->pool_set(self->pool, CU_POOL_RELEASE_THRESHOLD, &threshold);
  if (!result) result = cu->stream_create(&self->memory, CU_NON_BLOCKING);
  if (!result) result = cu->event_create(&self->given, CU_EVENT_NO_TIMING);
  if (!result) result = cu->event_create(&self->returned, CU_EVENT_NO_TIMING);
  status = cuda_check(self, result, "the device cannot be opened", diagnosis);
  if (status != REED_OK || (!self->options.cudnn && !self->options.cublas)) return status;
  return cuda_library_open(&self->options, &self->library, diagnosis);
}

static reed_status start(cuda_device *self, int32_t index, reed_diagnosis *diagnosis) {
  reed_status status = check_version(self, diagnosis);
  if (status == REED_OK) status = find_card(self, index, diagnosis);
  if (status == REED_OK)
    status = cuda_check(self, self->driver.context_retain(&self->context, self->ordinal_handle),
                        "the card has no context for this process", diagnosis);
  if (status == REED_OK) status = cuda_enter(self, diagnosis);
  if (status != REED_OK) return status;
  status = make(self, diagnosis);
  cuda_leave(self);
  return status;
}

reed_status cuda_open(int32_t index, const char *options, device **out_device, reed_diagnosis *diagnosis) {
  cuda_options read;
  reed_status status = cuda_options_read(options, &read, diagnosis);
  if (status != REED_OK) return status;
  cuda_device *self = mem_calloc(1, sizeof *self);
  if (!self || uv_mutex_init(&self->lock) != 0) {
    mem_free(self);
    return diag_no_memory(diagnosis, "device '" CUDA_DEVICE_NAME "'");
  }
  self->base.interface = read.values ? &by_host : read.poison ? &poisoning : &plain;
  self->base.name = CUDA_DEVICE_NAME; /* for messages until device_open has set the whole name */
  self->options = read;
  self->target = loadable_target(CUDA_DEVICE_NAME, options);
  status = self->target ? cuda_driver_open(options, &self->driver, diagnosis)
                        : diag_no_memory(diagnosis, "device '" CUDA_DEVICE_NAME "'");
  if (status == REED_OK) status = start(self, index, diagnosis);
  if (status == REED_OK && *self->options.profile)
    status = cuda_profile_open(self->options.profile, &self->profile, diagnosis);
  if (status == REED_OK) *out_device = &self->base;
  else shut(self);
  return status;
}
