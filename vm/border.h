/* The border of a run: the caller's tensors become registers of main, and main's results become tensors of the caller,
 * with the copies that this needs. Between the two no work is queued. */
#ifndef VM_BORDER_H_
#define VM_BORDER_H_

#include "vm/state.h"

/* Refuses a run whose outputs would be written into memory of its inputs. */
reed_status border_check(const reed_session *s, reed_tensor *const *inputs, size_t n_inputs) REED_MUST_CHECK;
/* Fills main's parameters, which have been pushed. The tensors are borrowed for the run. */
reed_status border_take(reed_session *s, reed_tensor *const *inputs, size_t n_inputs) REED_MUST_CHECK;
/* Makes outputs of the registers that main returns. Every output is checked against its bound memory before any memory
 * is written here. On failure no output is given. */
reed_status border_give(reed_session *s, const uint32_t *results, size_t n_outputs,
                        reed_tensor **outputs) REED_MUST_CHECK;

#endif
