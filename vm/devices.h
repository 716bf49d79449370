/* The devices of a session: which device a module device is bound to, its two queues and their order, pools and arenas,
 * host slots of copies, the store of outputs. The instructions that use them: call.c, copy.c, epoch/. */
#ifndef VM_DEVICES_H_
#define VM_DEVICES_H_

#include "allocator/pool.h"
#include "base/vec.h"
#include "device/device.h"
#include "ops/capability.h"
#include "ops/kernel.h"
#include "ops/overwritten.h"
#include "ops/random.h"
#include "reed/reed.h"
#include "vm/constants.h"
#include "vm/output.h"
#include "vm/run.h"
#include "vm/stretch.h"
#include "vm/tensor.h"

/* One device as the session uses it. On the host (number 0) only device, memory and arena are set. */
typedef struct vm_device {
  device *device;
  int8_t number;                /* in the session */
  capability *target;           /* the accelerator's list of capabilities */
  const device_interface *on;   /* the device's functions */
  device_queue *compute;        /* kernels and copies within the device */
  device_queue *copies;         /* copies from and to the host */
  device_event *computed;       /* the end of compute's work, when copies last had to wait for it */
  device_event *copied;         /* the end of copies' work, when compute last had to wait for it */
  pool *memory;                 /* tensors that outlive an epoch */
  pool *slots;                  /* pinned host memory that copies read and write */
  storage *arena;               /* memory of the epoch being executed */
  int64_t arena_bytes;          /* the most that an epoch of the present window of runs has asked of it */
  bool arena_is_read;           /* host only: copies that read the arena were enqueued since the last synchronisation */
  program_constants *constants; /* of the program on this device, shared with other sessions */
  output_store *outputs;        /* of results that become tensors of the caller; on the host: pinned for pinned_by */
  stretch stretch;              /* launches that wait for their graph */
  stretch_state *graphs;        /* of the session */
  VEC_OF(storage *) held;       /* slots and sources of copies in flight: until the next synchronisation */
  bool busy;                    /* work was enqueued since the last synchronisation */
  bool has_launches, has_copies; /* work that the other queue has not waited for yet */
  bool at_border; /* memory was given out since copies last waited for compute, and older kernels may still use it */
} vm_device;

typedef struct vm_devices {
  vm_device items[MODULE_MAX_DEVICES];
  int32_t n;                        /* physical devices: 1 if all module devices are bound to the host */
  int32_t bind[MODULE_MAX_DEVICES]; /* module device -> physical device */
  bool keeps_outputs;       /* some output stays on its device: results come from the devices' stores of outputs */
  int32_t pinned_by;        /* the accelerator in whose pinned memory outputs and the host's arena lie; 0: none */
  int64_t max_output_bytes; /* larger outputs are left to the pool, whose diagnosis names the cause */
  int64_t cap_bytes;
  int64_t object_bytes; /* of sequences and other objects, in the heap: counted towards the host's cap */
  int64_t headroom;     /* the most of a block (pool_set_headroom); 0: the model has one size */
  bool is_exact;        /* a run lacked memory: blocks have no headroom, nor do an epoch's layouts (epoch/layout.c) */
  int64_t stream;       /* of the caller, 0: none */
  int32_t stream_on;    /* its device */
  device_event *begun;  /* of that device: the stream's work before a run; NULL: no stream was ever set */
  stretch_state graphs;
  reed_kernel_env env;         /* for the `prepare` functions of kernels */
  overwritten_log overwritten; /* rows of the caller's memory that kernels of the run have overwritten */
  random_stream random;        /* of the session's random numbers */
} vm_devices;

/* Opens the devices that options->device names, and binds the module devices to them. *devices is zeroed before.
 * cancel: the flag that kernels poll (base/cancel.h). After a failure devices_close must still be called. */
reed_status devices_open(vm_devices *devices, reed_program *program, const reed_session_options *options,
                         const int *cancel, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Marks the end of the work that the stream has so far. Called on the caller's thread, because the default stream of a
 * thread (number 2) is another one on each thread. */
reed_status devices_mark_stream(vm_devices *devices, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Adds to the diagnosis of full memory what the session, its program's constants and its outputs hold on each
 * accelerator. */
void devices_tell_holders(const vm_devices *devices, reed_diagnosis *diagnosis);
/* Both queues of the stream's device wait for the work before the mark. */
reed_status devices_wait_for_stream(vm_devices *devices, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Closes all devices. Only outputs may still refer to their memory. */
void devices_close(vm_devices *devices);
/* True if work is enqueued that no synchronisation has waited for. */
bool devices_busy(const vm_devices *devices);
/* Waits for every queue; the first failure of queued work is reported here, in the diagnosis of the run. */
reed_status devices_synchronize(vm_devices *devices, vm_run *run) REED_MUST_CHECK;
/* The same before the run reads results. ERROR_CANCELLED: the run was cancelled, and an emulated device may have left
 * work out. */
reed_status devices_await_results(vm_devices *devices, vm_run *run) REED_MUST_CHECK;
/* Storage that is asked of a device. */
typedef struct storage_request {
  int64_t bytes;
  bool returned; /* the tensor may become an output there: from the store of outputs; else from the pool */
  int64_t most;  /* the bytes that such an output has at most; 0: not known */
  bool cold;     /* perhaps only the beginning is ever written (a tensor at its bound) */
} storage_request;

/* Both the store of outputs and the pool count towards the device's cap. */
reed_status devices_allocate(vm_devices *devices, int32_t device, storage_request request, storage **out_storage,
                             reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* The objects of the session have `bytes` now. ERROR_MEMORY: more than the host's cap allows. */
reed_status devices_count_objects(vm_devices *devices, int64_t bytes, reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* A tensor of the caller, with undefined elements, from the device's store of outputs. */
reed_status devices_open_output(vm_devices *devices, int32_t device, const reed_desc *desc, reed_tensor **out_tensor,
                                reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Gives blocks of outputs that callers have closed back to the devices, but for a few. */
void devices_trim_outputs(vm_devices *devices);
/* After an attempt at a run that lacked memory: gives all unused memory back, so that nothing that an earlier run has
 * left is missing in the next attempt. */
void devices_give_back(vm_devices *devices, bool is_exact);
/* The pool from which the device's arena comes: pinned memory for the host's in a session with an accelerator. */
pool *devices_arena_pool(vm_devices *devices, int32_t device);
/* The end of a run, with no work queued: pools, arenas and stores of outputs give back what the last runs did not need.
 * Returns true at the end of a window of runs (POOL_WINDOW). *out_heap_bytes: what the stores of outputs have freed in
 * the C library's heap because later runs have smaller outputs. */
bool devices_end_run(vm_devices *devices, int64_t *out_heap_bytes);
/* Tells the devices' pools the bytes that outputs hold, which count towards the caps. Called at the beginning of a run,
 * because callers give outputs back at any time. */
void devices_note_outputs(vm_devices *devices);

/* The device's number in the session, 0 for NULL, the host; -1: the session has no such device. */
static inline int32_t devices_find(const vm_devices *devices, const device *on) {
  if (!on) return 0;
  for (int32_t i = 1; i < devices->n; i++)
    if (devices->items[i].device == on) return i;
  return -1;
}

/* True if a copy in a run section reads the host's arena, so that the epoch's plan holds its source. from, to: physical
 * devices. */
static inline bool devices_plan_copy(const vm_devices *devices, int32_t from, int32_t to) {
  return from == 0 && to == devices->pinned_by && to != 0;
}

/* ---- work on one accelerator, in the session's order ---- */

/* To be called before a kernel or a copy within the device is enqueued: launches that wait for their graph are
 * enqueued, and compute waits for the copies enqueued so far. */
reed_status device_before_launch(vm_device *d, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* The second half of device_before_launch, for launches that wait. */
reed_status device_order_launches(vm_device *d, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* The session meets a second size: from now on blocks of any size get an eighth more. */
void devices_meet_sizes(vm_devices *devices);
static inline bool devices_met_sizes(const vm_devices *devices) { return devices->headroom == INT64_MAX; }
/* Launches of the run section that begins now may wait for their graphs, which are kept in the list. */
void devices_begin_graphs(vm_devices *devices, graph_list *graphs);
/* The section's end: enqueues all launches that wait. */
reed_status devices_end_graphs(vm_devices *devices) REED_MUST_CHECK;
/* The section failed: forgets them. */
void devices_forget_graphs(vm_devices *devices);
/* Pinned host memory that a copy reads, inside `owner`. */
typedef struct copy_slot {
  storage *owner;
  void *data;
} copy_slot;
/* Copies bytes of the host to the device. The bytes are first put into the slot (NULL: a new slot) unless source is the
 * slot itself, and the copy reads the slot. The slot must not change before the next synchronisation; the source may
 * change when the function returns. in_plan: no other tensor uses the target's memory from the beginning of the epoch
 * on, so the copy need not wait for kernels of this epoch. */
reed_status device_copy_in(vm_device *d, const tensor *target, const void *source, int64_t bytes, const copy_slot *slot,
                           bool in_plan, device_span *span, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Copies to memory of the host and waits; used when one module device is bound to the host and another is not. */
reed_status device_fetch(vm_device *from, vm_run *run, void *target, const tensor *source, int64_t bytes,
                         device_span *span) REED_MUST_CHECK;
/* Copies between accelerators, through slots of both; waits for the first one's copies. */
reed_status device_copy_across(vm_device *from, vm_device *to, vm_run *run, const tensor *target, const tensor *source,
                               int64_t bytes, bool in_plan, device_span *span) REED_MUST_CHECK;
/* Begins a copy to `target`, a slot or an output. Keeps references to target and source_storage (NULL allowed) until
 * the next synchronisation. */
reed_status device_copy_out(vm_device *d, storage *target, storage *source_storage, const void *source, int64_t bytes,
                            device_span *span, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
