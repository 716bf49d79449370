/* Floats made of constants (kept.h). */
#include "ops/cpu/common/kept.h"

#include "base/desc.h"
#include "base/mem.h"

typedef struct making {
  int64_t bytes;
  cpu_keep_fn fn;
  const void *context;
} making;

static reed_status make(void *context, kernel_cache_value *out_value) {
  const making *m = context;
  float *made = mem_alloc_bulk((size_t)m->bytes);
  if (!made) return REED_ERROR_MEMORY;
  (void)mem_warm(made, (size_t)m->bytes, NULL); /* all pages at once: a fault for each would take as long as packing */
  const reed_status status = m->fn(m->context, made);
  if (status != REED_OK) mem_free_aligned(made);
  else *out_value = (kernel_cache_value){made, mem_free_aligned, m->bytes};
  return status;
}

reed_status cpu_keep(const reed_kernel_call *call, int32_t input, const void *key, size_t key_bytes, int64_t n,
                     cpu_keep_fn fn, const void *context, float **out_kept) {
  making m = {n * (int64_t)sizeof(float), fn, context};
  void *kept;
  if (kernel_cache_get(call->env->cache, key, key_bytes, make, &m, &kept) != REED_OK) return cpu_no_memory(call);
  *out_kept = kept;
  if (call->env->constant_packed)
    call->env->constant_packed(call->env->context, call->host_values[input], desc_bytes(&call->inputs[input]));
  return REED_OK;
}
