/* Epochs as the interpreter sees them: enter, plan, end, and the two ways out of a failed run. */
#ifndef VM_EPOCH_EPOCH_H_
#define VM_EPOCH_EPOCH_H_

#include "vm/state.h"

/* epoch.enter: forms the key; a hit restores the registers, a miss begins a shape section. */
reed_status epoch_enter(reed_session *s, const uint32_t *w, bool *out_hit) REED_MUST_CHECK;
/* epoch.plan: plans the run section that begins at pc_after_plan, remembers the entry, gives out memory. */
reed_status epoch_plan(reed_session *s, uint32_t pc_after_plan) REED_MUST_CHECK;
void epoch_end(reed_session *s);
/* Leaves an epoch that failed half-way. */
void epoch_abandon(reed_session *s);

#endif
