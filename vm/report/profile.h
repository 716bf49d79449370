/* Notes of the interpreter on a run: figures of the last run (always) and spans (on request). Their output as JSON:
 * figures.c.
 *
 * Notes take memory only in a run that is larger than any before it. Spans live in blocks whose addresses never change,
 * because devices fill in begin and end later. Spans beyond PROFILE_MAX_EVENTS are counted as dropped. */
#ifndef VM_REPORT_PROFILE_H_
#define VM_REPORT_PROFILE_H_

#include "base/vec.h"
#include "bytecode/module.h"
#include "device/device.h"

#define PROFILE_BLOCK_EVENTS 1024
#define PROFILE_MAX_EVENTS (1 << 20)
#define PROFILE_MAX_NOTES (1 << 16) /* epochs, copies and read-backs kept of one run */

#define PROFILE_KIND_LIST(X) \
  X(RUN, "run") \
  X(EPOCH, "epoch") \
  X(ENTER, "enter") \
  X(SHAPE, "shape") \
  X(PLAN, "plan") \
  X(LAUNCH, "launch") \
  X(SYNC, "sync") \
  X(SHAPE_FUNCTION, "shape function") \
  X(HOST_KERNEL, "host kernel") \
  X(PREPARE, "prepare") \
  X(KERNEL, "kernel") \
  X(COPY, "copy") \
  X(GRAPH, "graph") \
  X(MEMORY, "memory")

typedef enum profile_kind {
#define PROFILE_KIND_ENUM_(name, text) PROFILE_##name,
  PROFILE_KIND_LIST(PROFILE_KIND_ENUM_)
#undef PROFILE_KIND_ENUM_
} profile_kind;

typedef struct profile_event {
  device_span span;
  int64_t bytes;     /* of a copy, or of a kernel's operands; of a graph: its launches */
  const char *what;  /* of a kernel: op_cost */
  double operations; /* of a kernel: op_cost */
  /* of a kernel of the host: its chunks, time of the longest one and of the work outside of chunks */
  int64_t n_chunks, longest_ns, alone_ns;
  uint32_t index; /* call site or epoch, by kind; UINT32_MAX: none */
  uint8_t kind;   /* profile_kind */
  uint8_t reason; /* copies: copy_reason */
  int8_t device, source_device;
} profile_event;

typedef struct profile_block {
  struct profile_block *next;
  size_t n;
  profile_event events[PROFILE_BLOCK_EVENTS];
} profile_block;

/* One execution of an epoch in the last run. */
typedef struct profile_epoch {
  uint32_t epoch;
  bool hit;
  int32_t why; /* of a miss: memo_miss (vm/epoch/memo.h) */
  int32_t n_shape_functions, n_kernels;
  int32_t n_repeated, n_shared; /* of a miss: results of shape functions and prepared kernels that it found */
  int64_t shared_bytes;         /* of these kernels */
  int64_t enter_ns, shape_ns, plan_ns, run_ns;
  int64_t begin_ns;
  struct {
    int64_t bytes, without_reuse, lower_bound;
  } arenas[MODULE_MAX_DEVICES];
} profile_epoch;

/* A copy between devices. Direction PROFILE_NO_COPY: a data dependence that needs no copy, because both module devices
 * are one physical device. */
typedef enum profile_direction {
  PROFILE_NO_COPY,
  PROFILE_TO_HOST,
  PROFILE_TO_DEVICE,
  PROFILE_WITHIN,
  PROFILE_ON_HOST
} profile_direction;
typedef struct profile_copy {
  profile_direction direction;
  copy_reason reason;
  bool readback; /* read back to the host between two epochs */
  int64_t bytes;
  /* The operator's input for which the copy is made. site UINT32_MAX: no operator; input is then the index of the
   * model's input or output, or of the constant. */
  uint32_t site, input;
  uint32_t after_epoch; /* index into epochs of the run; UINT32_MAX: before the first */
  uint32_t why;         /* of an extent: the string that says why the host needs it; PROFILE_NO_REASON: not known */
} profile_copy;
#define PROFILE_NO_REASON UINT32_MAX

/* Caches of the last run (growth.h), and copies of tensors with room for kernels and views that read no strides. */
typedef struct profile_caches {
  int64_t n_in_place, in_place_bytes; /* bytes of the past that were not copied */
  int64_t n_copied, copied_bytes;
  int64_t n_dense, dense_bytes;
} profile_caches;

typedef struct profile {
  bool spans;
  profile_block *first, *last, *spare;
  int64_t n_events, n_dropped;
  VEC_OF(profile_epoch) epochs;
  VEC_OF(profile_copy) copies;
  profile_caches caches;
  int64_t wall_ns, n_kernels, n_syncs, n_notes_dropped;
} profile;

/* Forgets the last run's figures (spans stay until they are fetched). */
void profile_begin_run(profile *p);
/* A new event, whose span the caller or a device fills in; NULL: spans are off, or there are too many. */
profile_event *profile_note(profile *p, profile_kind kind, uint32_t index, int8_t device);
void profile_note_copy(profile *p, const profile_copy *copy);
profile_epoch *profile_note_epoch(profile *p, uint32_t epoch);
void profile_forget_spans(profile *p);
void profile_fini(profile *p);

#endif
