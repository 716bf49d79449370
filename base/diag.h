/* Diagnosis: the message and the place of a failure, in one struct of fixed size, so that reporting "out of memory"
 * needs no memory. Records of failed kernels: ops/fault.h.
 *
 * A diagnosis is built once, at the fault; callers further up only add the place (function, pc, node) if it is missing,
 * and figures that the fault's place does not know (diag_add).
 */
#ifndef BASE_DIAG_H_
#define BASE_DIAG_H_

#include "base/cancel.h"
#include "reed/status.h"

struct reed_diagnosis {
  reed_status status;
  int64_t pc; /* -1 unknown */
  char message[2048];
  char function[128];
  char operator_name[64];
  char node[256];
  char input[128];
};

/* Replaces the diagnosis by `status` and the formatted message, and returns `status`. `diagnosis` may be NULL.
 */
reed_status diag_fail(reed_diagnosis *diagnosis, reed_status status, const char *format, ...)
    REED_PRINTF(3, 4) REED_MUST_CHECK;
/* Adds to the message. `diagnosis` may be NULL. */
void diag_add(reed_diagnosis *diagnosis, const char *format, ...) REED_PRINTF(2, 3);
/* Fails with ERROR_MEMORY and the message "out of memory: <what>". */
reed_status diag_no_memory(reed_diagnosis *diagnosis, const char *what) REED_MUST_CHECK;
/* Fails with ERROR_CANCELLED. */
reed_status diag_cancelled(reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Fails with ERROR_CANCELLED if the flag is raised. */
static inline reed_status diag_check_cancel(reed_diagnosis *diagnosis, const int *cancel) {
  return cancel_asked(cancel) ? diag_cancelled(diagnosis) : REED_OK;
}
/* Sets each part of the place that is not NULL here and not set yet. */
void diag_place_node(reed_diagnosis *diagnosis, const char *operator_name, const char *node, const char *input);
void diag_place_code(reed_diagnosis *diagnosis, const char *function, int64_t pc);

#endif
