/* Kernels inside Reed: the environment a prepared kernel may use, and how a device's kernel for an operator is found.
 * The kernel interface itself is public: reed/operator.h. */
#ifndef OPS_KERNEL_H_
#define OPS_KERNEL_H_

#include <string.h>

#include "ops/op.h"

/* The surroundings of a prepared kernel: the program's weight cache and the session's threads. Kernels borrow it while
 * preparing. */
typedef struct reed_kernel_env {
  int n_threads;              /* the most threads that may work on a kernel at a time; >= 1 */
  struct kernel_cache *cache; /* packed weights and primitives shared by a program's sessions; NULL: none */
  /* Called by a kernel, on any thread, that keeps a constant in a form of its own and will not read the constant's
   * elements any more; NULL: not wanted */
  void (*constant_packed)(const void *context, const void *data, int64_t bytes);
  const void *context;
  const int *cancel; /* base/cancel.h: kernels poll it while they run; outlives the kernels. NULL: not polled */
  struct overwritten_log *overwritten; /* ops/overwritten.h, of the session; NULL: nothing is overwritten */
  struct random_stream *random;        /* ops/random.h, of the session, which outlives the kernels; NULL: none */
} reed_kernel_env;

/* The host's kernel for op (ops/cpu); NULL for control flow. */
reed_kernel_prepare_fn kernel_cpu(const reed_op *op);

/* The operator's kernel for devices of this name: the custom operator's own kernel for the name, otherwise host_kernel
 * (NULL for a device that cannot run host kernels). */
static inline reed_kernel_prepare_fn kernel_on(const reed_op *op, const char *device,
                                               reed_kernel_prepare_fn host_kernel) {
  for (int32_t i = 0; i < op->n_kernels; i++)
    if (strcmp(op->kernels[i].device, device) == 0) return op->kernels[i].prepare;
  return host_kernel;
}

/* True for a call whose outputs can have no elements: *out_kernel then does nothing, on any device. The operator's own
 * kernel is not asked, because it may rely on outputs with elements (or, if bounded, with room for some). Inputs may
 * have any extents here, such as 2^60 rows without columns, over which a loop would not end. */
bool kernel_is_nothing(const reed_kernel_call *call, reed_kernel *out_kernel);

/* Values that are built once per program and shared by all its sessions, such as packed weights by (constant's address,
 * layout key). Thread-safe. */
typedef struct kernel_cache kernel_cache;
reed_status kernel_cache_open(kernel_cache **out_cache) REED_MUST_CHECK;
void kernel_cache_close(kernel_cache **cache);
/* The value under `key` (key_bytes bytes); an absent value is built with build(context, &value). An unreferenced value
 * lives until the cache closes, needs its place for newer ones, or several windows of runs have passed. Every gotten
 * value is released with kernel_cache_release. */
typedef struct kernel_cache_value {
  void *data;
  void (*free)(void *data);
  int64_t bytes;
} kernel_cache_value;
reed_status kernel_cache_get(kernel_cache *cache, const void *key, size_t key_bytes,
                             reed_status (*build)(void *context, kernel_cache_value *out_value), void *context,
                             void **out_data) REED_MUST_CHECK;
void kernel_cache_release(kernel_cache *cache, void *data);
/* The end of a session's window of runs: frees values that no kernel has held for several windows, and returns their
 * bytes. */
int64_t kernel_cache_end_window(kernel_cache *cache);
/* The values in the cache, held or not, and their bytes. */
void kernel_cache_count(kernel_cache *cache, int64_t *out_values, int64_t *out_bytes);

#endif
