/* The end of a test program's main: runs the suite, prints failures, returns the exit status. */
#ifndef TESTS_SUITE_H_
#define TESTS_SUITE_H_

#include <check.h>

static inline int suite_run(Suite *suite) {
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}

#endif
