/* The team of a kernel's work (ops/cpu/common/common.h): threads, chunks, and whether the work is brief. */
#include <check.h>

#include "ops/cpu/common/common.h"
#include "tests/suite.h"

START_TEST(only_work_that_is_not_worth_waking_a_helper_is_brief) {
  const cpu_team all = {.threads = 2, .chunks = 1};
  ck_assert(!all.brief); /* a kernel that counts no work */
  ck_assert(cpu_team_for(all, 2 * CPU_WORK_PER_THREAD).brief);
  ck_assert(!cpu_team_for(all, CPU_WORK_WORTH_WAKING).brief);
  cpu_team few = cpu_team_for(all, 100 * CPU_WORK_WORTH_WAKING);
  few.chunks = 2; /* two long chunks, as of a recurrent kernel */
  ck_assert(!few.brief);
  ck_assert(!cpu_team_for(cpu_team_for(all, 0), CPU_WORK_WORTH_WAKING).brief); /* the last count holds */
}
END_TEST

int main(void) {
  TCase *tc = tcase_create("teams");
  tcase_add_test(tc, only_work_that_is_not_worth_waking_a_helper_is_brief);
  Suite *suite = suite_create("teams of kernels");
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
