/* Whether other processes want the CPUs, as threads notice that expected to run and did not. A few stalls are the
 * hypervisor's or a short task's, which leave the CPUs to this process again; a tenth of the time is a busy machine. */
#ifndef BASE_STALLS_H_
#define BASE_STALLS_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define STALLS_LEAST_NS 2000000     /* of a thread that polls or waits and does not run: a stall */
#define STALLS_ENOUGH_NS 20000000   /* so much of it within STALLS_KEPT_NS: the machine is crowded */
#define STALLS_KEPT_NS 300000000    /* after which a stall is forgotten */
#define STALLS_CROWDED_NS 200000000 /* how long the last stall of a crowded machine counts */

/* All 0 at first. */
typedef struct stalls {
  _Atomic int64_t at, sum, crowded_until;
} stalls;

/* A thread that expected to run or to be woken soon after `before` runs again. Of two threads that note a stall at a
 * time, one's may be lost. */
void stalls_note(stalls *s, int64_t before_ns, int64_t now_ns);

static inline bool stalls_crowded(const stalls *s, int64_t now_ns) {
  return now_ns < atomic_load_explicit(&s->crowded_until, memory_order_relaxed);
}

#endif
