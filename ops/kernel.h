/* Kernels inside Reed: the environment a prepared kernel may use, and how a device's kernel for an operator is found.
 * The kernel interface itself is public: reed/operator.h. */
#ifndef OPS_KERNEL_H_
#define OPS_KERNEL_H_

#include <string.h>

#include "ops/op.h"

/* Belongs to a program (the weight cache) and a session (threads); kernels borrow it while preparing. */
typedef struct reed_kernel_env {
  int n_threads;              /* of the OpenMP team a kernel may use; >= 1 */
  struct kernel_cache *cache; /* packed weights and primitives shared by a program's sessions; NULL: none */
  /* A kernel tells that it keeps a constant in a form of its own and will not read its elements any more; NULL: nobody
   * wants to know. Any thread. */
  void (*constant_packed)(const void *context, const void *data, int64_t bytes);
  const void *context;
  const int *cancel; /* base/cancel.h: kernels poll it while they run; outlives the kernels. NULL: nobody asks */
} reed_kernel_env;

/* The host's kernel for op (ops/cpu); NULL for control flow. */
reed_kernel_prepare_fn kernel_cpu(const reed_op *op);

/* The operator's kernel for devices of one name: its own for that name, else the host's where the device runs that too
 * (NULL: it does not). */
static inline reed_kernel_prepare_fn kernel_on(const reed_op *op, const char *device,
                                               reed_kernel_prepare_fn host_kernel) {
  for (int32_t i = 0; i < op->n_kernels; i++)
    if (strcmp(op->kernels[i].device, device) == 0) return op->kernels[i].prepare;
  return host_kernel;
}

/* True where no output can have an element: *out_kernel does nothing then, on any device, and the operator's own is not
 * asked: it may rely on an output with elements (a bounded one: with room for some). The inputs may be of any extents
 * here (2^60 rows without columns), which a loop over them would not come back from. */
bool kernel_is_nothing(const reed_kernel_call *call, reed_kernel *out_kernel);

/* Things built once per program and shared by all sessions: packed weights by (constant's address, layout key).
 * Thread-safe. */
typedef struct kernel_cache kernel_cache;
reed_status kernel_cache_open(kernel_cache **out_cache) REED_MUST_CHECK;
void kernel_cache_close(kernel_cache **cache);
/* The value under `key` (key_bytes bytes), building it with build(context, &value) when it is not there. Values live
 * until the cache closes or, over its limit of bytes, until no user retains them; release each gotten value with
 * kernel_cache_release. */
typedef struct kernel_cache_value {
  void *data;
  void (*free)(void *data);
  int64_t bytes;
} kernel_cache_value;
reed_status kernel_cache_get(kernel_cache *cache, const void *key, size_t key_bytes,
                             reed_status (*build)(void *context, kernel_cache_value *out_value), void *context,
                             void **out_data) REED_MUST_CHECK;
void kernel_cache_release(kernel_cache *cache, void *data);

#endif
