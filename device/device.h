/* A device: memory, copies, kernels in order on one stream. The run loop knows nothing else of hardware.
 *
 * Work (copy_in, copy_out, copy_within, launch) is enqueued and runs in order, possibly later and on another thread;
 * synchronize waits for all of it and returns the first failure since the last synchronize; what was enqueued behind a
 * failure is skipped until then. A device that works within the call (host) reports a failure from the call itself. A
 * device belongs to one session and is used by one thread at a time. */
#ifndef DEVICE_DEVICE_H_
#define DEVICE_DEVICE_H_

#include "base/diag.h"
#include "reed/operator.h"

typedef struct device device;

/* Begin and end of one launch or copy on the device's own clock, in nanoseconds of clock_now_ns; valid after
 * synchronize. */
typedef struct device_span {
  int64_t begin_ns, end_ns;
} device_span;

typedef struct device_memory {
  int64_t total_bytes, live_bytes, peak_bytes; /* of this device object; total 0: unknown */
  int64_t n_allocations;
} device_memory;

/* A failure of work that ran later. */
typedef struct device_error {
  uint32_t launch;  /* the number that `launch` was given */
  reed_fault fault; /* what its kernel recorded; code 0: the failure was told in the diagnosis */
} device_error;

typedef struct device_interface {
  const char *name; /* "host", "sim", "cuda" */
  /* Pointers of this device may be read and written by the host at any time (host only). */
  bool host_memory;
  void (*close)(device *self);
  /* 64-byte aligned; zero bytes allowed. ERROR_MEMORY with a diagnosis. */
  reed_status (*allocate)(device *self, int64_t bytes, void **out_data, reed_diagnosis *diagnosis);
  /* Makes memory larger where it lies, its contents staying: false where that cannot be, and nothing has changed. NULL:
   * never. */
  bool (*extend)(device *self, void *data, int64_t bytes);
  /* In stream order: memory may still be used by work already enqueued. */
  void (*release)(device *self, void *data);
  /* Host -> device; `source` may be reused when this returns. span NULL or filled by synchronize. */
  reed_status (*copy_in)(device *self, void *target, const void *source, int64_t bytes, device_span *span,
                         reed_diagnosis *diagnosis);
  /* Device -> host; `target` holds the bytes after synchronize. */
  reed_status (*copy_out)(device *self, void *target, const void *source, int64_t bytes, device_span *span,
                          reed_diagnosis *diagnosis);
  reed_status (*copy_within)(device *self, void *target, const void *source, int64_t bytes, device_span *span,
                             reed_diagnosis *diagnosis);
  /* Enqueues kernel->run with a copy of the buffers' pointers; kernel state must live until synchronize. `number` comes
   * back in the record of a failure. A device that works within the call fills buffers->fault. */
  reed_status (*launch)(device *self, const reed_kernel *kernel, const reed_kernel_buffers *buffers, int32_t n_inputs,
                        int32_t n_outputs, uint32_t number, device_span *span, reed_diagnosis *diagnosis);
  /* *out_error is written where the result is not REED_OK. */
  reed_status (*synchronize)(device *self, device_error *out_error, reed_diagnosis *diagnosis);
  void (*memory)(const device *self, device_memory *out_memory);
  /* This device's kernel for the operator; NULL: none. */
  reed_kernel_prepare_fn (*kernel)(const device *self, const reed_op *op);
} device_interface;

struct device {
  const device_interface *interface;
};

/* Runs everything at once on the calling thread. */
reed_status device_open_host(device **out_device, reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* An accelerator made of host memory: pages closed (PROT_NONE) to the host outside kernels and copies, work run later
 * and in order on a thread of its own. A kernel's inputs that are not its memory (values that `prepare` got on the
 * host) reach `run` as an address that may not be read. n_threads: OpenMP threads for its kernels. */
typedef struct device_sim_faults {
  /* The n-th call (counting from 1) of that kind fails; 0: never. A failing launch or copy is reported by synchronize,
   * as on real hardware. */
  int64_t fail_allocation, fail_copy, fail_launch;
} device_sim_faults;
reed_status device_open_sim(int n_threads, const device_sim_faults *faults, device **out_device,
                            reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* Closes and nulls; waits for enqueued work. NULL inside is allowed. */
void device_close(device **self);

/* Monotonic nanoseconds; the one clock of profiles. */
int64_t clock_now_ns(void);

#endif
