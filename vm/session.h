/* Runs of a session, for reed_session_run and reed_session_run_async. */
#ifndef VM_SESSION_H_
#define VM_SESSION_H_

#include "vm/state.h"

/* Checks the numbers of inputs and outputs against the session's model, and that no input is NULL. */
reed_status session_check_call(const reed_session *s, reed_tensor *const *inputs, size_t n_inputs, size_t n_outputs,
                               reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* A checked run; the caller holds the claim. */
reed_status session_run_claimed(reed_session *s, reed_tensor *const *inputs, size_t n_inputs, reed_tensor **outputs,
                                size_t n_outputs, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
