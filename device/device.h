/* The device contract: everything the run loop knows of hardware, and everything the author of a device has to know.
 * A device is a loadable module (device/module.h); the host is built in.
 *
 * DEVICE. Opened once in a process, by name, and counted (device_open). All functions that take a `device` may be
 * called from any thread at any time: memory, library handles and thread teams belong to the device and lock
 * themselves.
 *
 * QUEUE. A session has two queues of each device, one for kernels and copies within the device (compute) and one for
 * copies between the host and the device (copies). A queue is used by one thread at a time. Work on a queue runs in
 * order, later than the call and on the device's own time. Work on different queues has no order but through events.
 *
 * EVENT. event_record marks the end of the work that a queue has so far. event_wait makes the work that a queue gets
 * from now on wait for the latest record of the event so far; an event that was never recorded holds up nobody.
 * Recording again moves the mark; waits enqueued before keep the old one.
 *
 * MEMORY. A block stays where it is until it is released (pointers are stable), also while it grows in place. `release`
 * names the queue whose work may still use the block. Host memory that a copy reads or writes must stay, unchanged by
 * the host, until the copy has run: until an event recorded after it, or a synchronize. Pinned host memory
 * (allocate_pinned) makes a copy run without the host; other host memory is allowed and may make the call wait or copy.
 *
 * ERRORS. A call that cannot enqueue returns a status and a diagnosis. Work that fails later is told by the next
 * synchronize of its queue, once: the first failure, as a status and a device_error, which holds the launch's number
 * and the record (reed_fault) that the kernel wrote; the caller makes the sentence (ops/fault.h). Where the record is
 * empty (a lost device, a failed copy) the device has put the sentence into the diagnosis. What is enqueued behind a
 * failure, on this queue or on one that waits for its events, may run or be left out until that synchronize: kernels
 * must therefore stay inside their buffers whatever their operands hold.
 *
 * GRAPH. Optional. Between record and end_record launches and copies within the device are noted on that queue, not
 * run; replay enqueues them all. While a graph is recorded its thread must not allocate, release or synchronize, and
 * the queue takes no other work. A graph holds pointers as they were: every block it names must stay, and kernel states
 * too, until it is dropped; drop it after a synchronize. */
#ifndef DEVICE_DEVICE_H_
#define DEVICE_DEVICE_H_

#include "base/diag.h"
#include "reed/operator.h"

typedef struct device device;
typedef struct device_event device_event; /* opaque */
typedef struct device_graph device_graph; /* opaque */

/* Begin and end of one launch or copy on the device's own clock, in nanoseconds of clock_now_ns; valid after
 * synchronize. */
typedef struct device_span {
  int64_t begin_ns, end_ns;
} device_span;

typedef struct device_memory {
  int64_t total_bytes, live_bytes, peak_bytes; /* of this device in this process; total 0: unknown */
  int64_t n_allocations;
  int64_t pinned_bytes;      /* of the host */
  int64_t n_unpinned_copies; /* copies from or to host memory that was not pinned */
} device_memory;

/* A failure of work that ran later. */
typedef struct device_error {
  uint32_t launch;  /* the number that `launch` was given */
  reed_fault fault; /* what its kernel recorded; code 0: the failure was told in the diagnosis */
} device_error;

typedef enum device_queue_kind { DEVICE_COMPUTE, DEVICE_COPIES } device_queue_kind;

/* A device's own queues begin with this. */
typedef struct device_queue {
  device *device;
} device_queue;

typedef struct device_interface {
  /* Pointers of this device may be read and written by the host at any time, and all work is done within the call (the
   * host only). A failure is then the call's own, and a kernel's record is in buffers->fault. */
  bool host_memory;
  /* The last reference is gone; all queues and events are closed. */
  void (*close)(device *self);

  /* ---- memory ---- */

  /* 64-byte aligned; zero bytes allowed. room_bytes: addresses to keep free behind the block for `extend`; 0: none.
   * ERROR_MEMORY with a diagnosis. */
  reed_status (*allocate)(device *self, int64_t bytes, int64_t room_bytes, void **out_data, reed_diagnosis *diagnosis);
  /* Makes memory larger where it lies, its contents staying, while work uses it; false where that cannot be, and
   * nothing has changed. NULL: never. */
  bool (*extend)(device *self, void *data, int64_t bytes);
  /* Once the work that `after` has so far is done; after NULL: no work uses the block. */
  void (*release)(device *self, void *data, device_queue *after);
  /* Host memory for copies, 64-byte aligned; the host may use it freely. release_pinned: no copy uses it any more. */
  reed_status (*allocate_pinned)(device *self, int64_t bytes, void **out_data, reed_diagnosis *diagnosis);
  void (*release_pinned)(device *self, void *data);
  void (*memory)(device *self, device_memory *out_memory);
  /* What the device can run, in the words of ops/capability.h; lives as long as the device. */
  const char *(*target)(const device *self);
  /* This device's kernel for the operator; NULL: none. */
  reed_kernel_prepare_fn (*kernel)(const device *self, const reed_op *op);

  /* ---- queues ---- */

  /* n_threads: of the host that one kernel may use, where kernels run on the host. */
  reed_status (*queue_open)(device *self, device_queue_kind kind, int n_threads, device_queue **out_queue,
                            reed_diagnosis *diagnosis);
  /* Waits for the queue's work; failures of it are forgotten. */
  void (*queue_close)(device_queue *queue);
  /* Host -> device, device -> host, within the device. span NULL or filled by synchronize. */
  reed_status (*copy_in)(device_queue *queue, void *target, const void *source, int64_t bytes, device_span *span,
                         reed_diagnosis *diagnosis);
  reed_status (*copy_out)(device_queue *queue, void *target, const void *source, int64_t bytes, device_span *span,
                          reed_diagnosis *diagnosis);
  reed_status (*copy_within)(device_queue *queue, void *target, const void *source, int64_t bytes, device_span *span,
                             reed_diagnosis *diagnosis);
  /* Enqueues kernel->run with a copy of the buffers' pointers; kernel state must live until synchronize. `number` comes
   * back in the record of a failure. */
  reed_status (*launch)(device_queue *queue, const reed_kernel *kernel, const reed_kernel_buffers *buffers,
                        int32_t n_inputs, int32_t n_outputs, uint32_t number, device_span *span,
                        reed_diagnosis *diagnosis);
  /* Waits for the queue's work. *out_error is written where the result is not REED_OK. */
  reed_status (*synchronize)(device_queue *queue, device_error *out_error, reed_diagnosis *diagnosis);

  /* ---- events; of queues of one device ---- */

  reed_status (*event_open)(device *self, device_event **out_event, reed_diagnosis *diagnosis);
  /* No work that names it may be enqueued. */
  void (*event_close)(device *self, device_event *event);
  reed_status (*event_record)(device_queue *queue, device_event *event, reed_diagnosis *diagnosis);
  reed_status (*event_wait)(device_queue *queue, device_event *event, reed_diagnosis *diagnosis);
  /* Whether the work before the event's latest record is done; does not wait. True for one never recorded. */
  bool (*event_done)(device *self, device_event *event);

  /* ---- graphs: all four or none ---- */

  reed_status (*record)(device_queue *queue, reed_diagnosis *diagnosis);
  /* Ends the recording, also on failure: ERROR_DEVICE where something was done that a graph must not do. */
  reed_status (*end_record)(device_queue *queue, device_graph **out_graph, reed_diagnosis *diagnosis);
  /* ERROR_DEVICE where a block that the graph names is gone or another block now. Failures keep their launches'
   * numbers. */
  reed_status (*replay)(device_queue *queue, device_graph *graph, reed_diagnosis *diagnosis);
  void (*drop)(device *self, device_graph *graph);

  /* ---- for tests; NULL: not done ---- */

  /* Overwrites memory in queue order, so that a read of what was never written, or of what was given back, shows. */
  reed_status (*poison)(device_queue *queue, void *data, int64_t bytes);
} device_interface;

struct device {
  const device_interface *interface;
  const char *name; /* as messages say it: "sim:1" */
};

/* Opens a device, or takes another reference to the one of that name. The name: NAME[:NUMBER][?OPTIONS], where NAME is
 * "host", the NAME of a module libreed-NAME.so beside this library, or the path of a module (it holds a '/'); NUMBER
 * counts devices of one kind from 0; OPTIONS are the module's own, and another text of options is another device.
 * ERROR_DEVICE with one sentence: no such module, not of this version, an option or number that it does not know. */
reed_status device_open(const char *name, device **out_device, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Another reference. */
void device_retain(device *self);
/* Drops a reference and nulls; NULL inside is allowed. */
void device_close(device **self);

/* Monotonic nanoseconds; the one clock of profiles. */
int64_t clock_now_ns(void);

#endif
