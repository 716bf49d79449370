/* Between the parts of epoch.plan: the walk (plan.c), which registers share memory (share.c), where memory lies
 * (layout.c). */
#ifndef VM_EPOCH_PLANNER_H_
#define VM_EPOCH_PLANNER_H_

#include "bytecode/operands.h"
#include "base/vec.h"
#include "vm/epoch/memo.h"
#include "vm/run.h"

#define NO_ROOT (-1)

typedef struct register_note {
  uint32_t stamp;
  int32_t root;  /* NO_ROOT: memory from outside the epoch, or none yet */
  int64_t at;    /* byte of the root where it begins */
  uint32_t mark; /* of the last look ahead that met it */
  int32_t write; /* index into the entry's writes; -1: not written by the shape section */
} register_note;

/* Scratch of one session's epoch.plan. The pointers are those of the plan being made. */
typedef struct epoch_planner {
  vm_run *run;
  vm_devices *devices;
  epoch_entry *entry;
  register_note *registers;
  size_t n_registers;
  uint32_t stamp, mark;
  int32_t end;                     /* step of epoch.end, once the walk is done */
  VEC_OF(int32_t) alive;           /* per root: registers attached */
  VEC_OF(plan_interval) intervals; /* of one device */
} epoch_planner;

/* Closes the scratch and nulls. */
void epoch_planner_close(epoch_planner **planner);

static inline register_note *note_of(epoch_planner *p, uint32_t reg) {
  register_note *note = &p->registers[reg];
  if (note->stamp != p->stamp) *note = (register_note){.stamp = p->stamp, .root = NO_ROOT, .write = -1};
  return note;
}

/* The root of the input whose memory output 0 may take over: the operator allows it, sizes agree, the input fills that
 * memory, and the kills that follow the invoke end every register on it. NO_ROOT: none. */
int32_t share_in_place(epoch_planner *p, const insn_invoke *i);
/* The root of input 0 where that output is a stretch of it and may lie there, from byte *out_at on; NO_ROOT: it must
 * not. */
int32_t share_part(epoch_planner *p, const insn_invoke *i, uint32_t output, const reed_kernel *kernel, int64_t *out_at);
/* Makes the inputs of an operator that joins them (Concat) parts of the root of the whole where they can be born there.
 */
void share_join(epoch_planner *p, const insn_invoke *i, int32_t whole);

/* Gives every root its offset: the epoch's last layout where every root fits its slot (*out_reused), else a new one,
 * which *layout becomes. On error *layout is unchanged. */
reed_status layout_roots(epoch_planner *p, epoch_layout *layout, bool *out_reused) REED_MUST_CHECK;

#endif
