/* The end of a test program's main: its suite is run, failures are printed, the result is the exit status. */
#ifndef TESTS_SUITE_H_
#define TESTS_SUITE_H_

#include <check.h>

#include "tests/suite.h"

static inline int suite_run(Suite *suite) {
  return suite_run(suite);
}

#endif
