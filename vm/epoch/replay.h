/* The run section of a memo entry as a flat list of kernel calls with their pointers, which later hits of the entry
 * call one after the other: without reading code, and without touching registers that the section kills, or that die
 * behind its end. The list is made at the entry's first hit, because many entries are never hit.
 *
 * The interpreter executes a run section itself while the entry is new, while spans are collected, and where the
 * section has kernels of an accelerator, copies between devices or moves of registers. Effects, errors, counters and
 * the kernels' order are the same. */
#ifndef VM_EPOCH_REPLAY_H_
#define VM_EPOCH_REPLAY_H_

#include "vm/state.h"

/* The list of the entry under execution, whose run section begins at the word `pc` of the top frame's function; made if
 * there is none yet. The entry's scalars are in their registers. NULL: the interpreter has to execute the section. */
const struct replay *replay_of(reed_session *s, uint32_t pc);
/* Gives the section its memory for one run, and writes the registers that the section leaves alive. On failure the run
 * must end. */
reed_status replay_place(reed_session *s) REED_MUST_CHECK;
/* Calls the kernels of the entry's list, which has been placed. *pc becomes the word of the section's `epoch.end`, or,
 * on failure, of the `invoke` that failed. */
reed_status replay_run(reed_session *s, uint32_t *pc) REED_MUST_CHECK;

#endif
