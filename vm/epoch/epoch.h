/* Epochs as the interpreter sees them: enter, end, and the two ways out of a failed run. */
#ifndef VM_EPOCH_EPOCH_H_
#define VM_EPOCH_EPOCH_H_

#include "vm/state.h"

/* epoch.enter, the word `*pc` of the function, which is at w: forms the key. A miss begins a shape section. A hit
 * restores the registers, or runs the whole run section if the entry has a list of its calls (replay.h). *pc becomes
 * the word where the execution continues, or, on failure, the word that failed. */
reed_status epoch_enter(reed_session *s, const uint32_t *w, uint32_t *pc) REED_MUST_CHECK;
/* epoch.end. *pc: the word where the execution continues. */
reed_status epoch_end(reed_session *s, uint32_t *pc) REED_MUST_CHECK;
/* Leaves an epoch that failed half-way. */
void epoch_abandon(reed_session *s);

#endif
