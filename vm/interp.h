/* The interpreter loop's entry. Opening sessions, inputs and outputs: session.c. */
#ifndef VM_INTERP_H_
#define VM_INTERP_H_

#include "vm/state.h"

/* Runs the frame on top of the stack until it returns; the frame stays, *out_return_pc is its return instruction. On
 * failure deeper frames stay too. */
reed_status interp_run(reed_session *s, uint32_t *out_return_pc) REED_MUST_CHECK;

#endif
