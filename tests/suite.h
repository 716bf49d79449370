/* For test programs: the CPU level that is asked for, and the end of main, which runs the suite, prints failures and
 * returns the exit status. */
#ifndef TESTS_SUITE_H_
#define TESTS_SUITE_H_

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* True if the process runs references instead of kernels: they share no memory and are not cancelled in the middle. */
static inline bool suite_runs_references(void) {
  const char *level = getenv("REED_CPU");
  return level && strcmp(level, "reference") == 0;
}

static inline int suite_run(Suite *suite) {
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}

#endif
