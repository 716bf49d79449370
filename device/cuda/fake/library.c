/* Parts that the stand-ins for NVIDIA's libraries share: their handles are counted, their calls fail when told, and
 * their work is Reed's own kernels on the caller's stream. */
#include "device/cuda/fake/state.h"

void fake_library_count(fake_world *world, fake_kind kind, int64_t by) {
  uv_mutex_lock(&world->lock);
  world->n_live[kind] += by;
  uv_mutex_unlock(&world->lock);
}

bool fake_library_fails(fake_world *world, int64_t *n_calls, int64_t failing) {
  uv_mutex_lock(&world->lock);
  const bool told = ++*n_calls == failing;
  uv_mutex_unlock(&world->lock);
  return told;
}

cu_result fake_library_launch(cu_module module, cu_stream stream, const char *kernel, int64_t blocks,
                              unsigned shared_bytes, const void *args, const cu_operand *operands, size_t n) {
  cu_function function = NULL;
  void *parameters[] = {(void *)(uintptr_t)args};
  cu_result result = fake_module_function(&function, module, kernel);
  if (!result && shared_bytes > SIMT_SHARED_DEFAULT)
    result = fake_function_set(function, CU_DYNAMIC_SHARED_BYTES, (int)shared_bytes);
  if (result) return result;
  fake_operands(operands, n, NULL);
  fake_tell_library();
  return fake_launch(function, (unsigned)blocks, 1, 1, function->kernel->threads, 1, 1, shared_bytes, stream,
                     parameters, NULL);
}
