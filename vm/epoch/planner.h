/* Types and functions that the files of epoch.plan share: the walk (plan.c), its scratch (planner.c), registers that
 * share memory (share.c), offsets in the arenas (layout.c), calls that come next (ahead.c), calls that a helper thread
 * has (tail.c). The rest of the VM sees only epoch.h. */
#ifndef VM_EPOCH_PLANNER_H_
#define VM_EPOCH_PLANNER_H_

#include "bytecode/operands.h"
#include "base/vec.h"
#include "vm/epoch/active.h"
#include "vm/epoch/ahead.h"
#include "vm/epoch/memo.h"
#include "vm/epoch/tail.h"
#include "vm/run.h"

#define NO_ROOT (-1)

typedef struct register_note {
  uint32_t stamp;
  int32_t root;  /* the root that holds the register's elements; NO_ROOT: memory from outside the epoch, or none yet */
  int64_t at;    /* byte of the root where the elements begin */
  uint32_t mark; /* number of the last look-ahead that met the register */
  int32_t write; /* index into the entry's writes; -1: not written by the shape section */
} register_note;

/* Scratch of epoch.plan, one per session. run, devices, kernels, active, entry and base are borrowed for the plan in
 * progress. */
typedef struct epoch_planner {
  vm_run *run;
  vm_devices *devices;
  site_kernels *kernels;
  epoch_active *active; /* which registers differ from those in the base */
  epoch_entry *entry;
  const epoch_entry *base;  /* so far its plan has the same kernels on the same roots; NULL: there is none */
  ref *r;                   /* registers of the frame */
  const uint32_t *returned; /* program->returned in main; NULL in other functions */
  bool has_jobs;            /* the run section is likely to have jobs for helper threads */
  bool rooms;               /* some register has room in this run or had in the base's */
  register_note *registers;
  size_t n_registers;
  uint32_t stamp, mark;
  ahead_list ahead;      /* the calls that come next */
  plan_tail *tail;       /* the calls whose kernels a helper prepares; NULL: none yet */
  int32_t end;           /* step of epoch.end, once the walk is done */
  VEC_OF(int32_t) alive; /* per root: registers attached */
  VEC_OF(int32_t) dying; /* per root: registers that die at the instruction in hand; 0 between two questions */
  VEC_OF(plan_interval) intervals; /* of one device */
} epoch_planner;

/* The session's scratch, which is made at first need, for a plan of the open epoch. */
reed_status epoch_planner_begin(reed_session *s, epoch_planner **out_planner) REED_MUST_CHECK;
/* Returns when no helper has anything of the planner's any more. NULL: there is no planner yet. */
void epoch_planner_rest(epoch_planner *p);
/* Closes the scratch and nulls. */
void epoch_planner_close(epoch_planner **planner);

static inline register_note *note_of(epoch_planner *p, uint32_t reg) {
  register_note *note = &p->registers[reg];
  if (note->stamp != p->stamp) *note = (register_note){.stamp = p->stamp, .root = NO_ROOT, .write = -1};
  return note;
}

static inline ref *reg_of(const epoch_planner *p, uint32_t reg) { return &p->r[reg]; }

/* Drops the base if it holds the register, the target of a copy or a view, on another root. Which copies have roots
 * depends on where the inputs lie, so that roots of the same number could be those of different copies. */
static inline void compare_root(epoch_planner *p, uint32_t reg) {
  const int32_t write = note_of(p, reg)->write;
  if (p->base && write >= 0 && p->base->writes.items[write].root != p->entry->writes.items[write].root) p->base = NULL;
}

/* True if input k of the operator may give its memory to output 0. */
static inline bool share_may_give(const reed_op *op, uint32_t k) {
  return op->alias == REED_ALIAS_INPLACE || (op->alias == REED_ALIAS_INPLACE_FIRST && k == 0) ||
         (op->alias == REED_ALIAS_INPLACE_LAST && (int32_t)k == op->n_inputs - 1);
}
/* The root of an input whose memory output 0 may take over; NO_ROOT: none. Conditions: operator and kernel allow it,
 * dtype, element count and device agree, the input fills the root, and the kills right after the invoke kill every
 * register on the root. */
int32_t share_in_place(epoch_planner *p, const insn_invoke *i, const reed_kernel *kernel);
/* The root of input 0 if the output is a contiguous part of input 0 and may lie in its memory, from byte *out_at of the
 * root on; else NO_ROOT. */
int32_t share_part(epoch_planner *p, const insn_invoke *i, uint32_t output, const reed_kernel *kernel, int64_t *out_at);
/* True if a part may outlive the other registers of the root that holds it: it has half of the root's bytes. */
static inline bool share_is_large(int64_t part_bytes, int64_t root_bytes) { return part_bytes >= root_bytes / 2; }
/* For an operator that joins its inputs (Concat): makes inputs parts of the output's root `whole` where their kernels
 * can write into it directly.
 */
void share_join(epoch_planner *p, const insn_invoke *i, int32_t whole);

/* Gives every root its offset. One of the epoch's EPOCH_LAYOUTS layouts is used again if every root fits its slot in
 * it, and the entry fills it well enough (*out_reused true); else a new one is packed. On error the layouts are
 * unchanged.
 */
reed_status layout_roots(epoch_planner *p, epoch_layout *layouts, bool *out_reused) REED_MUST_CHECK;

#endif
