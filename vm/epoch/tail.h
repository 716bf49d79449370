/* The tail of a run section that is being planned: its last calls, whose kernels a helper thread prepares while the
 * walk (plan.c) prepares those of the first ones. To prepare a kernel is arithmetic in some kilobytes of code, so two
 * threads are done in little more than half of the time. A call goes to the helper as its words (vm/site.h), because
 * these are a few lines of the cache, and comes back as a reed_kernel. The entry is the same, whoever has prepared a
 * kernel.
 *
 * The walk never waits long: a kernel that the helper has not begun, or is too long at, is prepared by the walk. */
#ifndef VM_EPOCH_TAIL_H_
#define VM_EPOCH_TAIL_H_

#include <stdatomic.h>

#include "base/team.h"
#include "bytecode/operands.h"
#include "vm/site.h"

enum { TAIL_CALLS = 128, TAIL_WORDS = 8192 };

typedef struct tail_call {
  const uint32_t *next; /* of the `invoke`: the instruction behind it */
  uint32_t site;
  site_call formed; /* the words; of a call with a number below plan_tail.n they lie in plan_tail.words */
} tail_call;

typedef struct tail_kernel {
  reed_kernel kernel; /* zeros if it could not be prepared, or the walk has taken it */
  atomic_bool done;   /* by the helper, which touches it no more */
} tail_kernel;

/* Of a session. A helper reads the calls below n_ready and their words, which stay until it rests. */
typedef struct plan_tail {
  tail_call calls[TAIL_CALLS]; /* in the order of the run section */
  uint32_t n, n_formed;        /* given to the helper; with those whose words are formed */
  uint32_t n_found;            /* of the n, those that the walk has come to */
  int64_t words[TAIL_WORDS];
  size_t n_words;
  bool begun;  /* the helper has been given calls, and may be at work */
  bool closed; /* the walk of these calls is over */
  team_aside aside;
  int32_t share;     /* of the kernels that have to be prepared, the part that the tail has */
  int64_t waited_ns; /* by the walk for the helper */
  int64_t n_helped;  /* kernels so far that the walk has taken from helpers */
  const struct reed_program *program;
  struct vm_devices *devices;
  mem_row *states;
  _Alignas(64) _Atomic uint32_t n_ready; /* = n, for the helper */
  atomic_bool ended;                     /* n_ready stays as it is */
  _Alignas(64) _Atomic uint32_t n_taken; /* calls that some thread prepares or has prepared; the others follow them */
  _Alignas(64) tail_kernel made[TAIL_CALLS];
} plan_tail;

struct epoch_planner;

/* Gives the last calls of the section, which begins at w, to a helper, if one is awake, and the base's plan had enough
 * kernels to prepare. */
void tail_begin(struct epoch_planner *p, const uint32_t *w);
/* The number of the invoke's call in the tail; -1: the tail does not have it. The walk asks for its invokes in their
 * order. */
int32_t tail_find(struct epoch_planner *p, const insn_invoke *i);
/* Appends the words of the call with this number to the session's list. False: no memory. */
bool tail_form(const struct epoch_planner *p, int32_t number, site_call *out_call) REED_MUST_CHECK;
/* True if the helper has prepared the kernel of the call with this number, which the caller takes. False: the caller
 * has to prepare it. */
bool tail_take(struct epoch_planner *p, int32_t number, reed_kernel *out_kernel);
/* Ends the tail after the walk. The helper may still be at one of its calls. */
void tail_end(struct epoch_planner *p);
/* Returns when the helper is at no call any more. NULL: there is no tail yet. */
void tail_rest(plan_tail *tail);
/* tail_rest, and nulls. */
void tail_close(plan_tail **tail);

#endif
