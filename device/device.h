/* The device contract between the run loop and the author of a device. Kernels and their calls: reed/operator.h.
 * A device is a loadable module (device/module.h); the host is built in.
 *
 * DEVICE. Opened once in a process, by name, and counted (device_open). All functions that take a `device` may be
 * called from any thread at any time: memory, library handles and thread teams belong to the device and lock
 * themselves.
 *
 * QUEUE. A session has two queues of each device, one for kernels and copies within the device (compute) and one for
 * copies between the host and the device (copies). A queue is used by one thread at a time. Work on a queue runs in
 * order, later than the call that enqueues it. Work on different queues is ordered only by events.
 *
 * EVENT. event_record marks the end of the work enqueued on a queue so far. event_wait makes later work of a queue wait
 * for the event's latest record; an event that was never recorded delays no work. Recording again moves the mark; waits
 * enqueued before keep the old one.
 *
 * MEMORY. A block stays where it is until it is released (pointers are stable), also while it grows in place. `release`
 * names the queue whose work may still use the block. Host memory that a copy reads or writes must stay, unchanged by
 * the host, until the copy has run: until an event recorded after it, or a synchronize. Pinned host memory
 * (allocate_pinned) makes a copy run without the host; other host memory is allowed and may make the call wait or copy.
 *
 * ERRORS. A call that cannot enqueue returns a status and a diagnosis. The next synchronize of a queue reports the
 * first failure of its enqueued work, once: a status and a device_error with the launch's number and the record
 * (reed_fault) that the kernel wrote. The caller formats the record (ops/fault.h). If the record is empty (a lost
 * device, a failed copy), the device has written the diagnosis. Work enqueued after a failure, on this queue or on one
 * that waits for its events, may run or be left out until that synchronize; so kernels must stay inside their buffers
 * whatever their operands hold.
 *
 * GRAPH. Optional. Between record and end_record launches and copies within the device are noted on that queue, not
 * run; replay enqueues them all. While a graph is recorded its thread must not allocate, release or synchronize, and
 * the queue takes no other work. A graph holds the recorded pointers: the blocks and kernel states that it names must
 * stay until it is dropped. Drop a graph after a synchronize. */
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

#define DEVICE_NO_LAUNCH UINT32_MAX

/* A failure of enqueued work, reported by synchronize. */
typedef struct device_error {
  uint32_t launch;  /* the number that `launch` was given; DEVICE_NO_LAUNCH: a copy failed, or the device */
  reed_fault fault; /* the kernel's record; code 0: the failure is in the diagnosis */
} device_error;

typedef enum device_queue_kind { DEVICE_COMPUTE, DEVICE_COPIES } device_queue_kind;

/* The first field of every device's own queue struct. */
typedef struct device_queue {
  device *device;
} device_queue;

typedef struct device_interface {
  /* True for the host only: the host may read and write the device's pointers at any time, and work is done within the
   * call. The call itself then returns a failure, with the kernel's record in buffers->fault. */
  bool host_memory;
  /* The device's kernels take counted rooms (reed_room): they read the true extent from device memory. Otherwise
   * kernels are prepared for the true extents when these are known (ops/bounded_call.h). */
  bool reads_counts;
  /* The device's own kernels of the operators of ops/growth.def write outputs with the strides of their rooms, and
   * leave the rows of a past alone that lies at its place in the output's memory. Kernels of the host do so on any
   * device. */
  bool writes_rooms;
  /* Called when the last reference is dropped; all queues and events are closed before. */
  void (*close)(device *self);

  /* ---- memory ---- */

  /* 64-byte aligned; zero bytes allowed. room_bytes: addresses to keep free after the block for `extend`; 0: none.
   * ERROR_MEMORY with a diagnosis. */
  reed_status (*allocate)(device *self, int64_t bytes, int64_t room_bytes, void **out_data, reed_diagnosis *diagnosis);
  /* Grows a block in place to `bytes`, with its contents, also while work uses it. False: not possible, nothing has
   * changed. NULL: the device never grows blocks. */
  bool (*extend)(device *self, void *data, int64_t bytes);
  /* Releases the block once the work enqueued on `after` so far is done; after NULL: no work uses the block. */
  void (*release)(device *self, void *data, device_queue *after);
  /* Host memory for copies, 64-byte aligned; the host may use it freely. release_pinned: no copy may still use it. */
  reed_status (*allocate_pinned)(device *self, int64_t bytes, void **out_data, reed_diagnosis *diagnosis);
  void (*release_pinned)(device *self, void *data);
  void (*memory)(device *self, device_memory *out_memory);
  /* True if the bytes lie inside one block of the device that is not released. NULL: the device cannot tell. */
  bool (*holds)(device *self, const void *data, int64_t bytes);
  /* The device's list of capabilities, in the text form of ops/capability.h; lives as long as the device. */
  const char *(*target)(const device *self);
  /* This device's kernel for the operator; NULL: none. */
  reed_kernel_prepare_fn (*kernel)(const device *self, const reed_op *op);
  /* The record of the rows that a kernel of an operator of ops/growth.def overwrites, without pieces and elements;
   * lives as long as the kernel. The kernel saves these rows in its workspace (ops/overwritten.h), unless that is NULL.
   * NULL: the kernel overwrites no rows of a past in the output's memory. Without this function no kernel of the device
   * does.
   */
  const struct overwritten *(*overwrites)(const reed_kernel *kernel);

  /* ---- queues ---- */

  reed_status (*queue_open)(device *self, device_queue_kind kind, device_queue **out_queue, reed_diagnosis *diagnosis);
  /* Waits for the queue's work and drops its failures. */
  void (*queue_close)(device_queue *queue);
  /* Host -> device, device -> host, within the device. span NULL or filled by synchronize. */
  reed_status (*copy_in)(device_queue *queue, void *target, const void *source, int64_t bytes, device_span *span,
                         reed_diagnosis *diagnosis);
  reed_status (*copy_out)(device_queue *queue, void *target, const void *source, int64_t bytes, device_span *span,
                          reed_diagnosis *diagnosis);
  reed_status (*copy_within)(device_queue *queue, void *target, const void *source, int64_t bytes, device_span *span,
                             reed_diagnosis *diagnosis);
  /* Enqueues kernel->run with a copy of the buffers' pointers; kernel state must live until synchronize. `number` is
   * returned in device_error.launch if the launch fails. */
  reed_status (*launch)(device_queue *queue, const reed_kernel *kernel, const reed_kernel_buffers *buffers,
                        int32_t n_inputs, int32_t n_outputs, uint32_t number, device_span *span,
                        reed_diagnosis *diagnosis);
  /* Waits for the queue's work. *out_error is written only if the result is not REED_OK. */
  reed_status (*synchronize)(device_queue *queue, device_error *out_error, reed_diagnosis *diagnosis);

  /* ---- events; of queues of one device ---- */

  reed_status (*event_open)(device *self, device_event **out_event, reed_diagnosis *diagnosis);
  /* No enqueued work may name the event. */
  void (*event_close)(device *self, device_event *event);
  reed_status (*event_record)(device_queue *queue, device_event *event, reed_diagnosis *diagnosis);
  reed_status (*event_wait)(device_queue *queue, device_event *event, reed_diagnosis *diagnosis);
  /* True if the work before the event's latest record is done, or the event was never recorded. Does not wait. */
  bool (*event_done)(device *self, device_event *event);

  /* ---- streams of the caller's ---- */

  /* Records the event on a stream of the caller's, as event_record does on a queue. May be called from any thread.
   * stream: DLPack's number (1: CUDA's legacy default stream, 2: the thread's default stream, other positive numbers: a
   * handle of the driver). NULL: callers have no streams on the device. */
  reed_status (*stream_record)(device *self, int64_t stream, device_event *event, reed_diagnosis *diagnosis);

  /* ---- graphs: all four or none ---- */

  reed_status (*record)(device_queue *queue, reed_diagnosis *diagnosis);
  /* Ends the recording, also on failure. ERROR_DEVICE: a call during the recording is not allowed in a graph. */
  reed_status (*end_record)(device_queue *queue, device_graph **out_graph, reed_diagnosis *diagnosis);
  /* ERROR_DEVICE: a block that the graph names was released. Failures report the numbers of the recorded launches.
   * span NULL or filled by synchronize. */
  reed_status (*replay)(device_queue *queue, device_graph *graph, device_span *span, reed_diagnosis *diagnosis);
  void (*drop)(device *self, device_graph *graph);

  /* ---- for tests; NULL: not done ---- */

  /* Overwrites memory in queue order, so that a read of unwritten or released memory shows. */
  reed_status (*poison)(device_queue *queue, void *data, int64_t bytes);
} device_interface;

struct device {
  const device_interface *interface;
  const char *name;           /* for messages: "sim:1" */
  int32_t dlpack_type, index; /* DLDevice of tensors on this device; set by device_open, as the name */
};

/* Opens a device, or takes another reference to the open device of the name. The name: NAME[:NUMBER][?OPTIONS], where
 * NAME is "host", the NAME of a module libreed-NAME.so beside this library, or the path of a module (it holds a '/');
 * NUMBER counts devices of one kind from 0; OPTIONS are the module's own, and another text of options is another
 * device. With one sentence, ERROR_ARGUMENT: an unknown option or number; ERROR_DEVICE: no such module, a module of
 * another version, the device cannot be opened. */
reed_status device_open(const char *name, device **out_device, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* The device that a DLDevice and an address name, with one reference: among the open devices of that type and number
 * the one whose memory holds the bytes; otherwise the kind's device of that number is opened. ERROR_UNSUPPORTED: there
 * is no such device, or the bytes are not its memory. */
reed_status device_of_dlpack(int32_t type, int32_t index, const void *data, int64_t bytes, device **out_device,
                             reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Another reference. */
void device_retain(device *self);
/* Drops a reference and nulls; NULL inside is allowed. */
void device_close(device **self);

/* Monotonic nanoseconds; the one clock of profiles. */
int64_t clock_now_ns(void);

#endif
