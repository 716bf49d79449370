/* Inside the interpreter: program, session, frames, epochs. Nothing outside vm/ includes this. */
#ifndef VM_VM_H_
#define VM_VM_H_

#include <stdatomic.h>

#include "allocator/plan.h"
#include "allocator/pool.h"
#include "bytecode/insn.h"
#include "bytecode/module.h"
#include "device/device.h"
#include "ops/kernel.h"
#include "reed/reed.h"
#include "vm/object.h"
#include "vm/report/profile.h"
#include "vm/tensor.h"

#define VM_MAX_DEVICES 2 /* module devices: the host and one accelerator */

/* ---- program: immutable, counted, shared by threads ---- */

struct reed_program {
  atomic_int n_references;
  module *module;
  const reed_registry *registry;
  const reed_op **site_ops; /* per site, resolved at opening */
  bool *returned;           /* per r register of main: what it holds may become an output */
  kernel_cache *cache;
};

/* Drops one reference; NULL is allowed. */
void program_release(reed_program *program);

/* ---- epochs ---- */

/* What a memo entry's tensors share: an interval of an arena, a block of storage, or a part of another root (an input
 * that was born in its place in what joins it). Registers that alias (views, in-place) share one root. */
typedef struct epoch_root {
  int32_t device;
  bool outlives; /* storage of its own; else arena */
  bool returned; /* then of the outputs' store; else of the pool */
  int32_t first, last;
  int64_t bytes;
  int32_t inside; /* a later root that this one is a part of, at byte `at`; -1: none */
  int32_t top;    /* the root that has the memory: the last one inside which this is, or itself */
  int64_t at;
  int64_t offset; /* of this root in the arena, or in top's storage */
} epoch_root;

/* A register that the shape section wrote. root -1: `value` is complete as it is (host value, constant, none); else its
 * memory is that root's. */
typedef struct epoch_write {
  uint32_t reg;
  int32_t root;
  int64_t at;          /* byte of the root */
  int32_t extent_root; /* -1: exact */
  int32_t extent_index;
  ref value; /* counted references of the entry's own */
} epoch_write;

typedef struct epoch_scalar {
  uint32_t reg;
  int64_t value;
} epoch_scalar;

typedef struct epoch_kernel {
  reed_kernel kernel;
  uint32_t site;
  int32_t workspace_root; /* -1: none */
  int32_t extent_root;    /* -1: none */
} epoch_kernel;

/* Everything known of one epoch under one key. */
typedef struct epoch_entry {
  struct epoch_entry *newer, *older; /* global least-recently-used list */
  struct epoch_entry *next;          /* same epoch, most recent first */
  uint32_t epoch;
  uint64_t hash;
  int64_t *key;
  size_t n_key;
  VEC_OF(epoch_write) writes;
  VEC_OF(epoch_scalar) scalars;
  VEC_OF(epoch_root) roots;
  VEC_OF(epoch_kernel) kernels;
  VEC_OF(storage *) values; /* memory of the host values that the shape section computed */
  plan_figures arenas[VM_MAX_DEVICES];
  int32_t n_shape_functions, n_kernels;
  int64_t bytes;   /* of the entry itself, for the memo's bound */
  bool remembered; /* in the memo; else it lives until the next synchronisation */
} epoch_entry;

/* The last arena layout of an epoch: serves again whenever every tensor fits its slot. */
typedef struct epoch_layout {
  epoch_root *roots;
  size_t n_roots;
  plan_figures arenas[VM_MAX_DEVICES];
} epoch_layout;

typedef struct epoch_state {
  epoch_entry *entries;
  int32_t n_entries;
  epoch_layout layout;
} epoch_state;

/* ---- session ---- */

typedef struct frame {
  const module_function *function;
  uint32_t function_index;
  uint32_t return_pc; /* of the caller's call instruction */
  size_t r_base, s_base;
} frame;

typedef struct pending_fetch {
  size_t r_index; /* in the session's r stack */
  storage *target;
  bool extent;
} pending_fetch;

struct reed_session {
  reed_program *program;
  device *devices[VM_MAX_DEVICES];
  pool *pools[VM_MAX_DEVICES];
  int32_t n_devices;            /* physical ones: 1 when module device 1 is bound to the host */
  int32_t bind[VM_MAX_DEVICES]; /* module device -> physical device */
  storage **device_constants;   /* per constant on physical device 1, made on first use; NULL without one */
  reed_kernel_env env;
  object_heap objects;
  output_store *outputs;
  int64_t max_output_bytes; /* larger ones are left to the pool, which says why they can not be */

  VEC_OF(ref) r; /* register stacks of all frames */
  VEC_OF(int64_t) s;
  VEC_OF(frame) frames;
  VEC_OF(pending_fetch) fetches;

  storage *arenas[VM_MAX_DEVICES];
  epoch_state *epochs;          /* per module epoch */
  epoch_entry *newest, *oldest; /* all remembered entries */
  epoch_entry *retired;         /* evicted or never remembered: freed after the next synchronisation (linked by next) */
  epoch_entry *current;         /* of the epoch being executed; NULL outside */
  bool in_shape_section, current_hit;
  size_t kernel_cursor;            /* next of current->kernels */
  VEC_OF(storage *) root_storages; /* of current->roots that outlive the epoch */
  VEC_OF(int64_t) key;             /* scratch */
  uint32_t *stamps; /* per register of the current function: epoch entry counter when written in this shape section */
  size_t n_stamps;
  uint32_t stamp;
  storage *value_chunk; /* host memory being filled with shape-section values */
  int64_t value_used;
  struct epoch_planner *planner; /* scratch of epoch.plan */

  struct {
    int64_t hits, misses, evictions, entries, bytes, layouts_reused, freed_bytes /* since the heap was trimmed */;
  } memo;
  int64_t memo_max_entries, memo_max_bytes, max_call_depth, max_instructions;
  int64_t n_instructions;
  atomic_bool cancel;
  bool device_busy; /* work enqueued since the last synchronisation */
  profile profile;
  reed_fault fault;          /* of the host kernel or launch that failed; at_site makes it the diagnosis */
  reed_diagnosis *diagnosis; /* of the run in progress; never NULL during one */
  reed_diagnosis own_diagnosis;
};

/* Runs the frame on top of the stack until it returns; the frame stays, *out_return_pc is its return instruction. On
 * failure deeper frames stay too. */
reed_status interp_run(reed_session *s, uint32_t *out_return_pc) REED_MUST_CHECK;
/* A new frame for a function; registers empty. */
reed_status frame_push(reed_session *s, uint32_t function, uint32_t return_pc) REED_MUST_CHECK;
void frame_pop(reed_session *s);

/* Instruction work, one function each; `w` is the instruction's first word, registers are relative to the top frame. */
reed_status exec_shape(reed_session *s, const uint32_t *w) REED_MUST_CHECK;
reed_status exec_invoke(reed_session *s, const uint32_t *w) REED_MUST_CHECK;
reed_status exec_copy(reed_session *s, const uint32_t *w) REED_MUST_CHECK;
reed_status exec_view(reed_session *s, ref *target, const ref *source) REED_MUST_CHECK;
/* r.move: in a shape section elements that a key brought are copied. */
reed_status exec_move(reed_session *s, uint32_t target, uint32_t source) REED_MUST_CHECK;
reed_status exec_constant(reed_session *s, ref *target, uint32_t constant, int32_t device) REED_MUST_CHECK;
reed_status exec_scalar_tensor(reed_session *s, ref *target, int64_t value, reed_dtype dtype) REED_MUST_CHECK;
reed_status exec_alloc(reed_session *s, ref *r) REED_MUST_CHECK;
reed_status exec_readback(reed_session *s, const uint32_t *w) REED_MUST_CHECK;
reed_status exec_extent(reed_session *s, ref *r) REED_MUST_CHECK;
reed_status exec_sync(reed_session *s) REED_MUST_CHECK;
/* seq.stack, seq.join */
reed_status exec_stack(reed_session *s, ref *target, const ref *sequence, const module_type *type, int32_t device,
                       bool join) REED_MUST_CHECK;
reed_status exec_assert_shape(reed_session *s, const ref *r, const module_type *type) REED_MUST_CHECK;
reed_status exec_assert_dim(reed_session *s, const ref *r, uint32_t axis, int64_t extent,
                            const module_type *type) REED_MUST_CHECK;
reed_status exec_item(reed_session *s, const ref *r, int64_t *out_value) REED_MUST_CHECK;

/* Shape function of a call whose operands are registers: items as RFS_IN encodes them (flags ignored, the table's are
 * used). */
reed_status call_shape(reed_session *s, uint32_t site, const uint32_t *inputs, uint32_t n_inputs,
                       reed_shape_output *outputs, uint32_t n_outputs) REED_MUST_CHECK;
/* Prepares the site's kernel on a physical device for the registers' present extents. */
reed_status call_prepare(reed_session *s, uint32_t site, int32_t device, const uint32_t *outputs, uint32_t n_outputs,
                         const uint32_t *inputs, uint32_t n_inputs, reed_kernel *out_kernel) REED_MUST_CHECK;
/* Waits for every device; the first failure of queued work is reported here. Retired entries are freed. */
reed_status session_synchronize(reed_session *s) REED_MUST_CHECK;
/* Storage for what may become an output, else of the device's pool. */
reed_status session_allocate(reed_session *s, int32_t device, int64_t bytes, bool returned,
                             storage **out_storage) REED_MUST_CHECK;
/* Host memory for a value of the shape section being executed (64-byte aligned, counted by the entry). */
reed_status epoch_value_memory(reed_session *s, int64_t bytes, void **out_data, storage **out_storage) REED_MUST_CHECK;

/* Epochs (vm/epoch/epoch.c, vm/epoch/plan.c). */
reed_status epoch_enter(reed_session *s, const uint32_t *w, bool *out_hit) REED_MUST_CHECK;
reed_status epoch_plan(reed_session *s, uint32_t pc_after_plan) REED_MUST_CHECK;
void epoch_end(reed_session *s);
/* Gives every planned register its memory for this run. */
reed_status epoch_place(reed_session *s, bool restore) REED_MUST_CHECK;
/* Notes that the shape section wrote a register. */
reed_status epoch_note_write(reed_session *s, uint32_t reg) REED_MUST_CHECK;
reed_status epoch_note_scalar(reed_session *s, uint32_t reg) REED_MUST_CHECK;
/* Leaves an epoch that failed half-way. */
void epoch_abandon(reed_session *s);
void epoch_free_retired(reed_session *s);
/* Empties the memo; no work may be queued on a device. */
void epoch_forget(reed_session *s);
void epoch_fini(reed_session *s);

static inline frame *frame_top(reed_session *s) { return &s->frames.items[s->frames.n - 1]; }
static inline ref *reg_r(reed_session *s, uint32_t i) { return &s->r.items[frame_top(s)->r_base + i]; }
static inline int64_t *reg_s(reed_session *s, uint32_t i) { return &s->s.items[frame_top(s)->s_base + i]; }

#endif
