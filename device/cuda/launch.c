/* Launches: loads the image of the kernels, and carries out the plans that `prepare` functions made
 * (kernels/kernel.h): copies each args struct, fills its pointers in and calls the driver. */
#include <string.h>

#include "device/cuda/state.h"

enum { SHARED_BYTES_WITHOUT_OPT_IN = 48 << 10, OPERANDS = 512 };

static reed_status load(cuda_device *self, reed_diagnosis *diagnosis) {
  const cuda_driver *cu = &self->driver;
  for (const void *const *image = cu->images; *image; image++) {
    cu_module module = NULL;
    if (!VEC_ROOM(&self->modules)) return diag_no_memory(diagnosis, "the kernels' images");
    cu_result result = cu->module_load(&module, *image);
    if (result == CU_NO_BINARY_FOR_GPU)
      return diag_fail(diagnosis, REED_ERROR_DEVICE,
                       "device '%s': this build has no kernels for the card %s, and its driver cannot compile them",
                       self->base.name, self->card);
    reed_status status = cuda_check(self, result, "the kernels cannot be loaded", diagnosis);
    if (status != REED_OK) return status;
    self->modules.items[self->modules.n++] = module;
  }
  return REED_OK;
}

/* Finds the kernel in one of the images, and checks the size of its args. */
static reed_status find(cuda_device *self, cuda_kernel_id id, reed_diagnosis *diagnosis) {
  const cuda_kernel_info *info = &cuda_kernel_infos[id];
  cu_result result = CU_NOT_FOUND;
  size_t at = 0, bytes = 0;
  for (size_t i = 0; i < self->modules.n && result == CU_NOT_FOUND; i++)
    result = self->driver.module_function(&self->functions[id], self->modules.items[i], info->name);
  if (!result) result = self->driver.function_parameter(self->functions[id], 0, &at, &bytes);
  reed_status status = cuda_check(self, result, info->name, diagnosis);
  if (status == REED_OK && (at != 0 || bytes != info->args_bytes))
    status =
        diag_fail(diagnosis, REED_ERROR_DEVICE, "device '%s': the kernel %s takes %zu bytes of args, the module has %u",
                  self->base.name, info->name, bytes, info->args_bytes);
  return status;
}

reed_status cuda_load_kernels(cuda_device *self, reed_diagnosis *diagnosis) {
  reed_status status = load(self, diagnosis);
  for (int id = 0; id < CUDA_KERNELS && status == REED_OK; id++) status = find(self, (cuda_kernel_id)id, diagnosis);
  return status;
}

/* The address that a pointer takes; NULL for an absent operand. */
static const char *address_of(const cuda_queue *queue, const cuda_pointer *p, const reed_kernel_buffers *buffers) {
  const char *base = NULL;
  switch ((cuda_source)p->source) {
    case CUDA_FROM_INPUT: base = buffers->inputs[p->index]; break;
    case CUDA_FROM_OUTPUT: base = buffers->outputs[p->index]; break;
    case CUDA_FROM_WORKSPACE: base = buffers->workspace; break;
    case CUDA_FROM_EXTENT: base = buffers->input_extents ? (const char *)buffers->input_extents[p->index] : NULL; break;
    case CUDA_FROM_EXTENTS: base = buffers->extents ? (const char *)(buffers->extents + p->index) : NULL; break;
    case CUDA_FROM_FAULT: base = (const char *)queue->fault; break;
    case CUDA_FROM_NUMBER: break;
  }
  return base && p->bytes ? base + p->offset : NULL;
}

/* Fills the launch's args in, and notes its operands for the emulation or the graph that is recorded. */
static size_t fill(cuda_queue *queue, const cuda_pointer *pointers, const cuda_launch *launch,
                   const reed_kernel_buffers *buffers, uint32_t number, char *args, cu_operand *operands) {
  size_t n = 0;
  for (uint32_t i = 0; i < launch->n_pointers; i++) {
    const cuda_pointer *p = &pointers[launch->first_pointer + i];
    if (p->source == CUDA_FROM_NUMBER) {
      memcpy(args + p->field, &number, sizeof number);
      continue;
    }
    const char *address = address_of(queue, p, buffers);
    memcpy(args + p->field, &address, sizeof address);
    if (!address) continue;
    if (n < OPERANDS) operands[n++] = (cu_operand){address, p->bytes, p->written};
    if (queue->recording) cuda_graph_note(cuda_of(&queue->base), queue->recording, address);
  }
  return n;
}

/* True for a launch whose elements are at their places already. */
static bool has_nothing_to_do(const cuda_queue *queue, const cuda_prepared *plan, const cuda_launch *launch,
                              const reed_kernel_buffers *buffers) {
  const cuda_pointer *p = plan->pointers + launch->first_pointer;
  for (uint32_t k = 0; k < launch->keeps; k++)
    if (address_of(queue, &p[2 * k], buffers) != address_of(queue, &p[2 * k + 1], buffers)) return false;
  return launch->keeps > 0;
}

/* Lets launches of the kernel take so much dynamic shared memory. The limit is the kernel's on this device, so that it
 * is never lowered: another thread's launch may be on its way to the driver. */
static cu_result allow_shared(cuda_device *self, cuda_kernel_id id, uint32_t bytes) {
  if (bytes <= SHARED_BYTES_WITHOUT_OPT_IN) return CU_SUCCESS;
  cu_result result = CU_SUCCESS;
  uv_mutex_lock(&self->lock);
  if (bytes > self->shared_bytes[id]) {
    result = self->driver.function_set(self->functions[id], CU_DYNAMIC_SHARED_BYTES, (int)bytes);
    if (!result) self->shared_bytes[id] = bytes;
  }
  uv_mutex_unlock(&self->lock);
  return result;
}

reed_status cuda_launch_ready(cuda_queue *queue, const cuda_ready *ready, reed_diagnosis *diagnosis) {
  cuda_device *self = cuda_of(&queue->base);
  const cuda_driver *cu = &self->driver;
  const cuda_kernel_info *info = &cuda_kernel_infos[ready->kernel];
  void *parameters[] = {(void *)(uintptr_t)ready->args};
  if (cu->operands) cu->operands(ready->operands, ready->n_operands, ready->cancel);
  const bool is_timed = self->profile && !queue->recording;
  cuda_timed timed;
  cu_result result = is_timed ? cuda_profile_begin(queue, &timed) : CU_SUCCESS;
  if (!result) result = allow_shared(self, ready->kernel, ready->shared_bytes);
  if (!result)
    result = cu->launch(self->functions[ready->kernel], ready->grid[0], ready->grid[1], ready->grid[2], info->threads,
                        1, 1, ready->shared_bytes, queue->stream, parameters, NULL);
  if (is_timed) result = cuda_profile_end(queue, &timed, ready->kernel, result);
  if (!result && self->options.check && !queue->recording) result = cu->stream_synchronize(queue->stream);
  return cuda_check(self, result, info->name, diagnosis);
}

static reed_status launch_one(cuda_queue *queue, const cuda_prepared *plan, const cuda_launch *launch,
                              const reed_kernel_buffers *buffers, uint32_t number, reed_diagnosis *diagnosis) {
  const cuda_kernel_info *info = &cuda_kernel_infos[launch->kernel];
  _Alignas(16) char args[CUDA_MAX_ARGS_BYTES];
  cu_operand operands[OPERANDS];
  memcpy(args, plan->args + launch->args_at, info->args_bytes);
  const size_t n = fill(queue, plan->pointers, launch, buffers, number, args, operands);
  const cuda_ready ready = {.kernel = launch->kernel,
                            .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                            .shared_bytes = launch->shared_bytes,
                            .args = args,
                            .operands = operands,
                            .n_operands = n,
                            .cancel = plan->cancel};
  const cuda_library *library = cuda_of(&queue->base)->library;
  bool done = false;
  reed_status status = library ? library->launch(queue, &ready, &done, diagnosis) : REED_OK;
  return status == REED_OK && !done ? cuda_launch_ready(queue, &ready, diagnosis) : status;
}

reed_status cuda_launch_kernel(device_queue *base, const reed_kernel *kernel, const reed_kernel_buffers *buffers,
                               int32_t n_inputs, int32_t n_outputs, uint32_t number, device_span *span,
                               reed_diagnosis *diagnosis) {
  cuda_queue *queue = (cuda_queue *)base;
  cuda_device *self = cuda_of(base);
  (void)n_inputs;
  (void)n_outputs;
  reed_status status = cuda_enter(self, diagnosis);
  if (status != REED_OK) return status;
  status = cuda_begin_work(queue, span, diagnosis);
  if (status == REED_OK && cuda_is_by_host(kernel)) {
    status = cuda_launch_by_host(queue, kernel, buffers, number, diagnosis);
  } else if (status == REED_OK && kernel->run != cuda_run) {
    status = kernel->run(kernel->state, buffers); /* a kernel of libreed that does nothing (ops/kernel.h) */
  } else if (status == REED_OK) {
    const cuda_prepared *plan = kernel->state;
    if (self->driver.count) self->driver.count(plan);
    for (uint32_t i = 0; i < plan->n_launches && status == REED_OK; i++)
      if (!has_nothing_to_do(queue, plan, &plan->launches[i], buffers))
        status = launch_one(queue, plan, &plan->launches[i], buffers, number, diagnosis);
  }
  if (status == REED_OK) status = cuda_end_work(queue, span, diagnosis);
  cuda_leave(self);
  return status;
}

const overwritten *cuda_overwrites(const reed_kernel *kernel) {
  if (cuda_is_by_host(kernel)) return cuda_overwrites_by_host(kernel);
  const cuda_prepared *plan = kernel->state;
  return kernel->run == cuda_run && plan->overwrites.n_bytes ? &plan->overwrites : NULL;
}
