/* Looking ahead in a run section that is being planned. The kernels of a model's other sizes lie in memory that the
 * kernels of the last run have pushed out of the CPU's caches, so a search costs some hundred nanoseconds of waiting.
 * The walk (plan.c) therefore looks at several calls at a time: their words are formed, and the memory of their kernels
 * is fetched for all of them at once. */
#ifndef VM_EPOCH_AHEAD_H_
#define VM_EPOCH_AHEAD_H_

#include "bytecode/operands.h"
#include "vm/site.h"

enum { AHEAD_CALLS = 16 };

typedef struct ahead_call {
  const uint32_t *next; /* of the `invoke`: the instruction behind it */
  uint32_t site;
  site_call formed; /* n 0: the call is not formed ahead */
  uint32_t number;  /* of the kernel that the call may find */
  int32_t tail;     /* the call's number in the tail (tail.h); -1: none */
} ahead_call;

/* The calls from the last `invoke` on at which the list was made. */
typedef struct ahead_list {
  ahead_call calls[AHEAD_CALLS];
  uint32_t n, at; /* at: of the next call */
} ahead_list;

struct epoch_planner;

/* True if no operand's room or count can be part of the call's words. */
bool ahead_is_exact(const struct epoch_planner *p, const insn_invoke *i);

/* Begins the walk, and fetches the lists of the base, which the walk compares with its own. */
void ahead_begin(struct epoch_planner *p);
/* Goes to the invoke at w. The list is made anew, from w on, if its calls are used up. */
void ahead_go(struct epoch_planner *p, const uint32_t *w);
/* The kernel of the invoke i, to which ahead_go went last, on a physical device, as call_prepare gives it. The kernel
 * may be one that a helper has prepared (tail.h). */
reed_status ahead_prepare(struct epoch_planner *p, const insn_invoke *i, int32_t device, site_kernel **out_kernel,
                          bool *out_made) REED_MUST_CHECK;

#endif
