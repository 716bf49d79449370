/* Stretches of launches that become graphs. A stretch is a maximal series of launches on one accelerator within a run
 * section. In a run with a list of graphs (a hit of the memo) launches are not enqueued but wait here; the stretch ends
 * where other work needs the queue's order, at the latest at the end of the section. It is then recorded as a graph,
 * replayed, or, if a pointer differs from the recorded one, enqueued launch by launch.
 *
 * The first run of a memo entry enqueues launches as they come, the second records, the third replays. Pointers of
 * outputs and keys may take turns between a few blocks, so that a stretch keeps a few graphs. A list of pointers that
 * no graph of the stretch has runs without a graph, and is recorded when it comes again. Whatever fails in recording or
 * replaying costs the graph, never the run.
 *
 * While launches wait, the stretch holds the memory of their operands: a register may be killed meanwhile, and its
 * block must not be given back, poisoned or used for anything else before the launches are enqueued. A copy from the
 * host inside an epoch needs no end of the stretch: the launches wait for it, and it waits for no kernel of its epoch.
 */
#ifndef VM_STRETCH_H_
#define VM_STRETCH_H_

#include "allocator/pool.h"
#include "base/vec.h"
#include "device/device.h"

struct vm_device;
struct vm_run;

enum { STRETCH_GRAPHS = 4, STRETCH_LEAST_LAUNCHES = 2 };

/* One list of words (kernels and pointers of the launches) of a stretch. */
typedef struct stretch_graph {
  device_graph *graph; /* NULL: the words were seen once */
  const void **words;  /* NULL: a free place */
  size_t n_words;
  uint64_t used; /* number of the last use, for choosing the oldest */
  bool refused;  /* by the device; not tried again */
} stretch_graph;

typedef struct stretch_graphs {
  device *device; /* on which the graphs were recorded */
  stretch_graph items[STRETCH_GRAPHS];
} stretch_graphs;

/* The graphs of a memo entry, by stretch of its run section. Freed with the entry, whose kernels they name. */
typedef struct graph_list {
  VEC_OF(stretch_graphs) stretches;
  uint64_t n_uses;
  int64_t bytes; /* of host memory */
} graph_list;

/* A launch that waits. Its pointers: inputs, outputs, workspace, extents, then the inputs' extents if counted. */
typedef struct stretch_launch {
  const reed_kernel *kernel;
  uint32_t number; /* by which the device reports its failure (vm/site.h) */
  int32_t n_inputs, n_outputs;
  bool counted;
  size_t word; /* of its kernel, before its pointers */
} stretch_launch;

/* The launches that wait on one device. */
typedef struct stretch {
  VEC_OF(stretch_launch) launches;
  VEC_OF(const void *) words;
  VEC_OF(storage *) held;
  VEC_OF(device_graph *) replaced; /* graphs to be dropped when no work is queued */
} stretch;

typedef struct stretch_figures {
  int64_t captured, replayed;
  int64_t moved;   /* stretches that ran without a graph because a pointer had moved */
  int64_t refused; /* recordings and replays that the device refused */
} stretch_figures;

/* The graphs of a session's present epoch. */
typedef struct stretch_state {
  bool on;            /* graphs are wanted */
  graph_list *graphs; /* of the entry under execution; NULL: launches are enqueued at once */
  size_t next;        /* stretch */
  struct vm_run *run; /* of the session */
  stretch_figures figures;
} stretch_state;

/* Adds a launch to the device's stretch. held: storage of its operands, n_held of them, NULL allowed. */
reed_status stretch_add(struct vm_device *d, const reed_kernel *kernel, const reed_kernel_buffers *buffers,
                        int32_t n_inputs, int32_t n_outputs, uint32_t number, storage *const *held, int32_t n_held,
                        reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Ends the device's stretch: enqueues what waits. */
reed_status stretch_end(struct vm_device *d) REED_MUST_CHECK;
/* Forgets what waits, after a failure. */
void stretch_forget(struct vm_device *d);
/* After a synchronisation: drops graphs that were replaced. */
void stretch_drop_replaced(struct vm_device *d);
void stretch_fini(struct vm_device *d);
/* Drops the graphs; no work may be queued on their device. */
void graph_list_fini(graph_list *graphs);

#endif
