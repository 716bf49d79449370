/* The structs inside a CUDA device: the device, its blocks of memory, queues, graphs. Every function enters the
 * device's primary context (cuda_enter) and leaves it, because another library of the process (torch) may use the
 * driver on the same thread: the caller's current context is the same before and after a call. */
#ifndef DEVICE_CUDA_STATE_H_
#define DEVICE_CUDA_STATE_H_

#include <stdatomic.h>
#include <uv.h>

#include "base/vec.h"
#include "device/cuda/driver/driver.h"
#include "device/cuda/kernels/kernel.h"
#include "device/memory.h"
#include "device/module.h"

/* The options after '?' in a name that are not the driver's: KEY=NUMBER, profile=FILE, lacks=LIST, only=LIST. */
enum { CUDA_PROFILE_PATH = 512 };
typedef struct cuda_options {
  int64_t check;  /* 1: every launch is waited for, so that a failure names its launch */
  int64_t poison; /* 1: memory that sessions hand out or take back is overwritten */
  int64_t values; /* 1: the host's kernels compute the results (by_host.c) */
  int64_t tf32;   /* 1: products of f32 round their operands to tf32, for tensor cores */
  int64_t cudnn;  /* 1: convolutions by cuDNN where a measurement says so; 2: where it has a plan (library_call.c) */
  int64_t cublas; /* the same of products by cuBLASLt */
  char profile[CUDA_PROFILE_PATH]; /* the file that takes the profile of kernels (profile.c); empty: none */
} cuda_options;

/* Pages mapped into a block's reserved addresses, one after another. */
typedef struct cuda_mapping {
  size_t at, bytes;
} cuda_mapping;

typedef struct cuda_block {
  struct cuda_block *next; /* in the list of retired blocks */
  char *data;
  int64_t bytes;
  uint64_t serial; /* number of the block among all ever made, which tells it from a later block at the same address */
  size_t reserved; /* bytes of addresses; 0: the block is from the driver's pool, or pinned */
  size_t mapped;
  VEC_OF(cuda_mapping) mappings;
  cu_event done; /* of a block with reserved addresses: its last work, recorded at its release */
} cuda_block;

/* Blocks ordered by address; the device's lock guards it. */
typedef struct cuda_blocks {
  VEC_OF(cuda_block *) items;
} cuda_blocks;

typedef struct cuda_span {
  device_span *span;
  cu_event begin, end;
  int64_t enqueued_ns;
} cuda_span;

struct device_event {
  cu_event event;
};

typedef struct cuda_named {
  const char *data;
  uint64_t serial;
} cuda_named;

struct device_graph {
  uv_thread_t thread; /* the recording thread */
  cu_graph_exec exec;
  VEC_OF(cuda_named) blocks;
  const char *spoilt; /* the first call that a graph does not allow */
  bool failed;        /* no memory for a name */
};

/* A queue's handle of cuDNN and its workspaces of both libraries (library_call.c). */
typedef struct cuda_library_queue {
  struct cudnnContext *cudnn;
  VEC_OF(void *) workspaces; /* the latest is the largest */
  int64_t workspace_bytes;   /* of the latest */
} cuda_library_queue;

typedef struct cuda_queue {
  device_queue base;
  struct cuda_queue *next;
  cu_stream stream;
  cuda_fault *fault; /* pinned; kernels of this queue write it */
  uint64_t n_seen;   /* of the device's n_given: allocations that the stream's work comes after */
  device_graph *recording;
  cuda_block *withheld; /* released while a graph was recorded */
  VEC_OF(cuda_span) spans;
  VEC_OF(cu_event) timers; /* free events for spans */
  cuda_library_queue library;
} cuda_queue;

struct cuda_ready;
struct cuda_device;
/* The libraries of kernels, as the files that they are built on call them. All functions are called within the context.
 */
typedef struct cuda_library {
  /* Enqueues the launch by a library, if it is one that the library takes and is chosen for; *out_done says so. */
  reed_status (*launch)(cuda_queue *queue, const struct cuda_ready *own, bool *out_done,
                        reed_diagnosis *diagnosis) REED_MUST_CHECK;
  /* A block is released after the queue's work (NULL: none uses it): so are the copies of weights in it. */
  void (*forget)(struct cuda_device *self, uint64_t serial, device_queue *after);
  /* Gives back the queue's handles and workspaces of the libraries, when the queue's work is done. */
  void (*close_queue)(cuda_queue *queue);
  /* When no queue is open. */
  void (*close)(struct cuda_library *self);
} cuda_library;

typedef struct cuda_device {
  device base;
  cuda_options options;
  cuda_driver driver;
  cu_device ordinal_handle;
  int ordinal;
  cu_context context;
  VEC_OF(cu_module) modules;
  cu_function functions[CUDA_KERNELS];
  char *target;   /* the list of capabilities */
  char card[256]; /* the card's name */
  int64_t shared_bytes_opt_in;
  cuda_math math;
  cuda_library *library;        /* NULL: not asked for */
  struct cuda_profile *profile; /* NULL: not asked for */
  size_t granularity;
  cu_pool pool;
  cu_stream memory;         /* allocations and releases of the pool, in order */
  cu_event given, returned; /* the latest allocation; the latest work before a release */
  _Atomic uint64_t n_given; /* allocations so far: queues wait for `given` when it has changed */
  device_figures figures;
  _Atomic int64_t pinned_bytes, n_unpinned_copies;
  uv_mutex_t lock; /* guards the fields below */
  cuda_blocks blocks, pinned;
  cuda_block *retired; /* released blocks with reserved addresses that work may still use */
  uint64_t n_serials;
  cuda_queue *queues;
  uint32_t shared_bytes[CUDA_KERNELS];      /* that the driver was told to allow launches of a kernel; 0: its default */
  VEC_OF(cuda_fault *) faults, fault_pages; /* free records; pinned pages of records */
} cuda_device;

/* True if a card of compute capability `major`.x has the instructions of product_mma.cuh. */
static inline bool cuda_has_tensor_cores(int major) { return major >= 8; }

static inline cuda_device *cuda_of(const device_queue *queue) { return (cuda_device *)queue->device; }

/* ---- context.c ---- */

/* Makes the device's context the calling thread's. ERROR_DEVICE. */
reed_status cuda_enter(cuda_device *self, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* The same for a function that gives something back or ends something: an entering that has failed is tried once more,
 * because what is not given back is lost. */
reed_status cuda_enter_again(cuda_device *self, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Gives the thread the context that it had before cuda_enter. */
void cuda_leave(cuda_device *self);
/* REED_OK for CU_SUCCESS, otherwise a diagnosis with the driver's words: "device 'cuda': no kernel: <text> (error
 * 719)". */
reed_status cuda_check(const cuda_device *self, cu_result result, const char *what,
                       reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* ---- options.c ---- */

/* ERROR_DEVICE names the unknown option. */
reed_status cuda_options_read(const char *text, cuda_options *out_options, reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* ---- memory.c ---- */

reed_status cuda_allocate(device *self, int64_t bytes, int64_t room_bytes, void **out_data, reed_diagnosis *diagnosis);
bool cuda_extend(device *self, void *data, int64_t bytes);
void cuda_release(device *self, void *data, device_queue *after);
reed_status cuda_allocate_pinned(device *self, int64_t bytes, void **out_data, reed_diagnosis *diagnosis);
void cuda_release_pinned(device *self, void *data);
void cuda_memory(device *self, device_memory *out_memory);
bool cuda_holds(device *self, const void *data, int64_t bytes);
/* Returns the blocks that were released while the queue recorded a graph. Called within the context. */
void cuda_release_withheld(cuda_queue *queue);
/* The block that holds `pointer`, or ends there; NULL: none. Called under the lock. */
cuda_block *cuda_blocks_find(const cuda_blocks *blocks, const void *pointer);
/* Gives retired blocks back whose work is done; `all`: waits for nothing and asks nothing. Called within the context.
 */
void cuda_reap(cuda_device *self, bool all);
/* Gives all memory back; no work uses it. Called within the context. */
void cuda_memory_close(cuda_device *self);
/* A fault record, zeroed. Called within the context. */
reed_status cuda_fault_open(cuda_device *self, cuda_fault **out_fault, reed_diagnosis *diagnosis) REED_MUST_CHECK;
void cuda_fault_close(cuda_device *self, cuda_fault *fault);

/* ---- queue.c ---- */

reed_status cuda_queue_open(device *self, device_queue_kind kind, device_queue **out_queue, reed_diagnosis *diagnosis);
void cuda_queue_close(device_queue *queue);
reed_status cuda_copy_in(device_queue *queue, void *target, const void *source, int64_t bytes, device_span *span,
                         reed_diagnosis *diagnosis);
reed_status cuda_copy_out(device_queue *queue, void *target, const void *source, int64_t bytes, device_span *span,
                          reed_diagnosis *diagnosis);
reed_status cuda_copy_within(device_queue *queue, void *target, const void *source, int64_t bytes, device_span *span,
                             reed_diagnosis *diagnosis);
reed_status cuda_synchronize(device_queue *queue, device_error *out_error, reed_diagnosis *diagnosis);
reed_status cuda_event_open(device *self, device_event **out_event, reed_diagnosis *diagnosis);
void cuda_event_close(device *self, device_event *event);
reed_status cuda_event_record(device_queue *queue, device_event *event, reed_diagnosis *diagnosis);
reed_status cuda_event_wait(device_queue *queue, device_event *event, reed_diagnosis *diagnosis);
bool cuda_event_done(device *self, device_event *event);
reed_status cuda_stream_record(device *self, int64_t stream, device_event *event, reed_diagnosis *diagnosis);
reed_status cuda_poison(device_queue *queue, void *data, int64_t bytes);
/* Begins work on the queue, within the context: later work comes after all allocations made so far, and a span's begin
 * is recorded. Ended by cuda_end_work, on success only. */
reed_status cuda_begin_work(cuda_queue *queue, device_span *span, reed_diagnosis *diagnosis) REED_MUST_CHECK;
reed_status cuda_end_work(cuda_queue *queue, device_span *span, reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* ---- launch.c ---- */

reed_status cuda_launch_kernel(device_queue *queue, const reed_kernel *kernel, const reed_kernel_buffers *buffers,
                               int32_t n_inputs, int32_t n_outputs, uint32_t number, device_span *span,
                               reed_diagnosis *diagnosis);
/* device_interface.overwrites */
const overwritten *cuda_overwrites(const reed_kernel *kernel);
/* A launch with its addresses filled in. */
typedef struct cuda_ready {
  cuda_kernel_id kernel;
  uint32_t grid[3], shared_bytes;
  const void *args;
  const cu_operand *operands; /* for the emulation, as all below */
  size_t n_operands;
  const int *cancel; /* NULL: the launch is never cut short */
} cuda_ready;
/* Enqueues the launch. Called within the context. */
reed_status cuda_launch_ready(cuda_queue *queue, const cuda_ready *ready, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Loads the image of the kernels. Called within the context. */
reed_status cuda_load_kernels(cuda_device *self, reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* ---- profile.c ---- */

typedef struct cuda_profile cuda_profile;
/* The events around one launch. */
typedef struct cuda_timed {
  cu_event begin, end;
} cuda_timed;
/* ERROR_DEVICE: the file cannot be written. */
reed_status cuda_profile_open(const char *path, cuda_profile **out_profile, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Before a launch on the queue. Also after a failure cuda_profile_end follows, which destroys the events. */
cu_result cuda_profile_begin(cuda_queue *queue, cuda_timed *out_timed) REED_MUST_CHECK;
/* After the launch, whose result is `result`: waits for the launch and counts its time. The first failure is returned.
 */
cu_result cuda_profile_end(cuda_queue *queue, cuda_timed *timed, cuda_kernel_id kernel,
                           cu_result result) REED_MUST_CHECK;
/* Writes the lines; NULL: nothing. */
void cuda_profile_close(cuda_profile *self);

/* ---- library.c ---- */

reed_status cuda_library_open(const cuda_options *options, cuda_library **out_library,
                              reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* ---- by_host.c ---- */

/* The device's kernels with option `values=1`. */
reed_kernel_prepare_fn cuda_kernel_by_host(const device *base, const reed_op *op);
bool cuda_is_by_host(const reed_kernel *kernel);
/* As cuda_overwrites, of such a kernel. */
const overwritten *cuda_overwrites_by_host(const reed_kernel *kernel);
/* Runs such a kernel: waits for the queue's work, and enqueues copies of the results. Called within the context. */
reed_status cuda_launch_by_host(cuda_queue *queue, const reed_kernel *kernel, const reed_kernel_buffers *given,
                                uint32_t number, reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* ---- graph.c ---- */

reed_status cuda_record(device_queue *queue, reed_diagnosis *diagnosis);
reed_status cuda_end_record(device_queue *queue, device_graph **out_graph, reed_diagnosis *diagnosis);
reed_status cuda_replay(device_queue *queue, device_graph *graph, device_span *span, reed_diagnosis *diagnosis);
void cuda_drop(device *self, device_graph *graph);
/* Notes the block of a pointer that recorded work names; memory of others is left out. */
void cuda_graph_note(cuda_device *self, device_graph *graph, const void *pointer);
/* The graph that the calling thread is recording on any queue of the device; NULL: none. */
device_graph *cuda_graph_recording(cuda_device *self);
/* Notes that a call during the recording is not allowed in a graph, so that end_record fails. */
void cuda_graph_spoil(device_graph *graph, const char *what);

/* Notes the same, and fails the call with the sentence that end_record will say. */
reed_status cuda_graph_refuse(cuda_device *self, device_graph *graph, const char *what,
                              reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* ---- describe.c ---- */

void cuda_describe(const device *opened, json_writer *json);

/* ---- device.c ---- */

reed_status cuda_open(int32_t index, const char *options, device **out_device,
                      reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
