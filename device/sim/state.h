/* The structs inside the simulated accelerator: device, queues, work. Host threads allocate memory (sim.c) and enqueue
 * work (queue.c, graph.c). One thread of the device (perform.c) runs the work of all queues. The options choose its
 * order among the orders that queues and events allow. */
#ifndef DEVICE_SIM_STATE_H_
#define DEVICE_SIM_STATE_H_

#include <stdatomic.h>
#include <uv.h>

#include "base/vec.h"
#include "device/memory.h"
#include "device/module.h"
#include "device/sim/pages.h"
#include "device/sim/tape.h"

/* The options after '?' in a name: KEY=NUMBER[&KEY=NUMBER]..., lacks=LIST, only=LIST. */
typedef struct sim_options {
  /* The n-th call (counting from 1) of that kind fails; 0: never. A failing launch or copy is reported by synchronize,
   * as on real hardware. */
  int64_t fail_allocation, fail_copy, fail_launch;
  int64_t seed;     /* 0: queues run in the order of the calls; else the seed chooses among the work that may run */
  int64_t delay_us; /* the longest delay of a copy or launch */
  int64_t late;     /* 1: nothing runs until a host thread waits for it */
  int64_t poison;   /* 1: memory that sessions hand out or take back is overwritten */
  const char *text; /* all options as text; lacks= and only= in it give the list of capabilities (ops/capability.h) */
} sim_options;

typedef enum work_kind {
  WORK_COPY_IN,
  WORK_COPY_OUT,
  WORK_COPY_WITHIN,
  WORK_LAUNCH,
  WORK_RELEASE,
  WORK_RECORD,
  WORK_WAIT,
  WORK_POISON,
  WORK_REPLAY
} work_kind;

struct device_event {
  uint64_t n_recorded; /* records enqueued; host threads only */
  uint64_t n_done;     /* records run; guarded by the device's lock */
  bool failed;         /* the latest record came after a failure */
};

typedef struct work {
  struct work *next;
  uint64_t order; /* number among all work of the device */
  work_kind kind;
  int64_t fault; /* not 0: an option makes this call fail; the call's number among copies or among launches */
  device_span *span;
  union {
    struct {
      char *target;
      const char *source;
      int64_t bytes;
    } copy; /* also WORK_POISON, without a source */
    struct {
      reed_kernel kernel;
      reed_kernel_buffers buffers; /* without its inputs and outputs */
      void **operands;             /* inputs, outputs, then the inputs' extents if `counted` */
      bool counted;
      int32_t n_inputs, n_outputs;
      uint32_t number;
    } launch;
    struct {
      device_event *event;
      uint64_t number;
    } mark;
    device_graph *graph;
  };
} work;

typedef struct graph_work {
  struct graph_work *next;
  work work;
} graph_work;

typedef struct graph_block {
  const char *data;
  uint64_t serial;
} graph_block;

struct device_graph {
  uv_thread_t thread; /* the recording thread */
  graph_work *first, **last;
  VEC_OF(graph_block) blocks;
  const char *spoilt; /* the first call that a graph does not allow */
  bool failed;        /* no memory for a record of work */
};

/* A block of the device, with the record of its release, so that a release never needs memory. */
typedef struct allocation {
  sim_block block; /* first, so that a pointer to the block is one to its allocation */
  work release;
  bool released;
} allocation;

typedef struct sim_queue {
  device_queue base;
  struct sim_queue *next;
  sim_tape tape; /* host threads only */
  device_graph *recording;
  /* Guarded by the device's lock. */
  work *head, *tail;
  int64_t n_pending; /* enqueued and not yet done */
  /* Used by the device's thread while work is pending, by the host otherwise. */
  bool skipping;      /* copies and launches are left out: this queue or one that it waited for has failed */
  reed_status status; /* first failure since the last synchronize */
  device_error error;
  reed_diagnosis fault;
} sim_queue;

typedef struct sim_device {
  device base;
  sim_options options;
  char *target; /* the list of capabilities: "sim", or "sim?lacks=Conv" */
  reed_kernel_prepare_fn (*host_kernel)(const reed_op *op);
  device_figures figures;
  _Atomic int64_t n_copies, n_launches, n_allocations, pinned_bytes, n_unpinned_copies;
  sim_pages pages, pinned;
  uv_thread_t thread;
  uv_mutex_t lock; /* guards the fields below */
  uv_cond_t ready, idle;
  sim_queue *queues;
  uint64_t n_work, random;
  int64_t n_waiting; /* host threads that wait for work */
  bool closing;
} sim_device;

static inline sim_device *sim_of(const device_queue *queue) { return (sim_device *)queue->device; }

/* options.c: as device_options_read. */
reed_status sim_options_read(const char *text, sim_options *out_options, reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* sim.c */
reed_status sim_open(const sim_options *options, const device_services *services, device **out_device,
                     reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* perform.c */
void sim_thread(void *device);

/* work.c */
/* Puts work at the queue's end; wakes the device. */
void sim_enqueue(sim_queue *queue, work *w);
/* A record of work followed by `extra_bytes` (64-byte aligned); NULL: no memory. */
work *sim_work_open(sim_queue *queue, work_kind kind, size_t extra_bytes, device_span *span, void **out_extra);
/* Waits until the queue has no pending work, then frees its records. */
void sim_wait(sim_queue *queue);

/* queue.c */
reed_status sim_queue_open(device *self, device_queue_kind kind, device_queue **out_queue, reed_diagnosis *diagnosis);
void sim_queue_close(device_queue *queue);
reed_status sim_copy_in(device_queue *queue, void *target, const void *source, int64_t bytes, device_span *span,
                        reed_diagnosis *diagnosis);
reed_status sim_copy_out(device_queue *queue, void *target, const void *source, int64_t bytes, device_span *span,
                         reed_diagnosis *diagnosis);
reed_status sim_copy_within(device_queue *queue, void *target, const void *source, int64_t bytes, device_span *span,
                            reed_diagnosis *diagnosis);
reed_status sim_launch(device_queue *queue, const reed_kernel *kernel, const reed_kernel_buffers *buffers,
                       int32_t n_inputs, int32_t n_outputs, uint32_t number, device_span *span,
                       reed_diagnosis *diagnosis);
reed_status sim_synchronize(device_queue *queue, device_error *out_error, reed_diagnosis *diagnosis);
reed_status sim_event_open(device *self, device_event **out_event, reed_diagnosis *diagnosis);
void sim_event_close(device *self, device_event *event);
reed_status sim_event_record(device_queue *queue, device_event *event, reed_diagnosis *diagnosis);
reed_status sim_event_wait(device_queue *queue, device_event *event, reed_diagnosis *diagnosis);
bool sim_event_done(device *self, device_event *event);
reed_status sim_poison(device_queue *queue, void *data, int64_t bytes);

/* graph.c: device_interface's functions */
reed_status sim_record(device_queue *queue, reed_diagnosis *diagnosis);
reed_status sim_end_record(device_queue *queue, device_graph **out_graph, reed_diagnosis *diagnosis);
reed_status sim_replay(device_queue *queue, device_graph *graph, device_span *span, reed_diagnosis *diagnosis);
void sim_drop(device *self, device_graph *graph);
/* A new record of work in the graph; NULL: no memory. */
work *sim_graph_work(device_graph *graph, work_kind kind, size_t extra_bytes, void **out_extra);
/* Notes that a call during the recording is not allowed in a graph, so that end_record fails. */
void sim_graph_spoil(device_graph *graph, const char *what);
/* The graph that the calling thread is recording on any queue of the device; NULL: none. */
device_graph *sim_graph_recording(sim_device *self);

#endif
