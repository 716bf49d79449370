/* Runs whose first kernels a helper thread is to make while their epoch is planned (vm/epoch/early.h). Epochs of tests
 * are too small for that: their kernels have no jobs that are worth waking helpers. */
#ifndef TESTS_VM_EPOCH_EARLY_RUNS_H_
#define TESTS_VM_EPOCH_EARLY_RUNS_H_

#include <unistd.h>

#include "base/team.h"
#include "vm/state.h"

static void early_nothing(void *context, int64_t chunk, int32_t worker) { (void)context, (void)chunk, (void)worker; }

/* The next run of the session finds a helper that polls for work, unless the machine is busy, and takes its epoch for
 * one that is worth it. */
static inline void early_expect(reed_session *session) {
  session->memo.epochs[0].has_jobs = true;
  team_run(2, 64, early_nothing, NULL);
}

/* Between two attempts at a machine that may be busy: helpers do not poll then for a fifth of a second. */
static inline void early_pause(void) { usleep(50000); }

#endif
