/* Launches that a library's plan may carry out in place of Reed's own kernel, by a measured choice. Called within the
 * context and under the libraries' lock, which is taken before the device's. */
#ifndef DEVICE_CUDA_LIBRARY_CALL_H_
#define DEVICE_CUDA_LIBRARY_CALL_H_

#include "device/cuda/remembered.h"
#include "device/cuda/state.h"

enum { LIBRARY_ALIGNMENT = 16, LIBRARY_MOST_WORKSPACE_BYTES = 64 << 20 };
enum { LIBRARY_ALWAYS = 2 }; /* the option's value that takes a plan without a measurement */

/* True if one of the pointers is not aligned as plans expect. */
bool library_is_unaligned(const void *const *pointers, size_t n);

/* Memory of the queue for a plan's workspace; earlier, smaller blocks stay, because graphs name them. False: no memory,
 * or a graph is recorded. */
bool library_find_workspace(cuda_queue *queue, int64_t bytes, void **out_data);

/* A launch that a plan may carry out in place of Reed's own kernel. */
typedef struct library_call {
  const char *spoilt;     /* the reason why a recording fails if the plan does */
  remembered *plan;       /* its choice: OWN from the plan's first failure on */
  library_memory *memory; /* that the plan is of */
  const void *kind;
  /* Enqueues the plan. False: nothing was enqueued. */
  bool (*enqueue)(const struct library_call *call, cuda_queue *queue);
  const cuda_ready *own;
} library_call;

/* Enqueues the plan or, as *out_done false, leaves the launch to the own kernel. The first launch of a kind measures
 * both, and leaves the faster one's result. */
reed_status library_run(const library_call *call, cuda_queue *queue, bool *out_done,
                        reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
