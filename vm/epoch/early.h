/* The first kernels of a run section, while the section is still being planned. The calling thread prepares one kernel
 * after the other; a helper thread (base/team.h), which has nothing to do meanwhile, runs those that are prepared, in
 * their order. When the plan is done, the run section passes over the calls that have run.
 *
 * A kernel needs addresses before the plan has any. The epoch's last layout (layout.c) has a slot for each root, and
 * most new sizes fit it. So the calls are made in the slots of that layout, in the arena that is there. If the plan has
 * another layout in the end, or another arena, their results are forgotten, and the run section makes all calls:
 * kernels of the list read memory from outside of the epoch, and write the arena alone, in which nothing else lies.
 *
 * The list ends at the first call that needs more than that: a tensor that outlives the epoch, a part of another root,
 * a count that a kernel reports, an operator that is impure or the program's own. */
#ifndef VM_EPOCH_EARLY_H_
#define VM_EPOCH_EARLY_H_

#include <stdatomic.h>

#include "base/team.h"
#include "bytecode/operands.h"
#include "vm/epoch/memo.h"

enum {
  EARLY_CALLS = 64,     /* a helper runs 5 to 20 while an epoch is planned */
  EARLY_POINTERS = 256, /* of all operands */
};

typedef struct early_call {
  reed_kernel_run_fn run;
  const void *state; /* of a kernel to which the entry has a reference */
  reed_kernel_buffers buffers;
} early_call;

typedef struct early_run {
  bool lists;                      /* calls are put on the list */
  bool begun;                      /* `aside` is the helper's */
  const struct layout_root *slots; /* borrowed from the layout */
  size_t n_slots;
  const storage *arena; /* borrowed from the devices */
  int32_t n_listed;     /* the calling thread's own count */
  size_t n_pointers;
  team_aside aside;
  _Atomic int32_t n_ready; /* calls that the helper may make */
  atomic_bool ended;       /* there will be no others */
  atomic_bool stopped;     /* the call in hand is the last */
  /* the helper's, and the calling thread's after the end */
  int32_t n_made;     /* calls that have returned */
  reed_status status; /* of the last of them; the others are REED_OK */
  reed_fault fault;
  early_call calls[EARLY_CALLS];
  void *pointers[EARLY_POINTERS];
} early_run;

struct epoch_planner;

/* Begins a list of an epoch's first calls, if it is to have one. */
void early_begin(struct epoch_planner *p);
/* Lists the call of the `invoke` that the walk has planned last, or ends the list. */
void early_list(struct epoch_planner *p, const uint32_t *w);
/* Ends the list. The helper may still make the calls that are on it. */
void early_close(struct epoch_planner *p);
/* Waits for the call in hand. planned: the entry has its layout. Returns the number of calls that the run section need
 * not make. */
int32_t early_end(struct epoch_planner *p, bool planned);
/* The status of a call that the run section need not make; buffers: the call's there, for its fault. */
reed_status early_result(const struct epoch_planner *p, int32_t number, const insn_invoke *i,
                         const reed_kernel_buffers *buffers) REED_MUST_CHECK;

#endif
