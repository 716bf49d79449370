/* Items of work that take longer than a chunk should: each is cut into steps that follow each other, and a step is a
 * chunk. Between two steps any thread may go on with an item, so that no thread waits for more than a step of
 * another one. Not here: work whose parts need nothing of each other (cpu_parallel). */
#ifndef OPS_CPU_COMMON_RELAY_H_
#define OPS_CPU_COMMON_RELAY_H_

#include "ops/cpu/common/common.h"

/* Runs step number `step` of an item. place: 0..team.threads-1, the same for all steps of an item; no two items that
 * have begun have one place at a time, so it may number the memory that an item's steps share. False: the item's last
 * step. */
typedef bool (*cpu_step_fn)(void *context, int64_t item, int64_t step, int32_t place);

/* Calls fn on all steps of the items 0..n-1, which have n_steps steps in all. The calling thread begins with the first
 * items, helpers with the last ones, and each goes on with the item it has begun. ERROR_CANCELLED if the run has been
 * cancelled: some steps may be missing. */
reed_status cpu_relay(cpu_team team, int64_t n, int64_t n_steps, cpu_step_fn fn, void *context) REED_MUST_CHECK;

#endif
