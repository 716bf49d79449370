/* The memo of epochs: keys, hits, eviction; layouts that are used again for smaller keys. */
#include <check.h>

#include "reed/reed.h"
#include "tests/suite.h"
#include "tests/vm/hand.h"

static void check_memo(const char *device) {
  reed_session *session = opened(small_epoch, &(reed_session_options){.device = device, .memo_entries = 2});
  check_floats(session, 3, -5);
  check_floats(session, 3, -9);
  ck_assert_double_eq(memo_figure(session, "hits"), 1);
  ck_assert_double_eq(memo_figure(session, "misses"), 1);
  check_floats(session, 0, 0);
  check_floats(session, 7, -3);
  ck_assert_double_eq(memo_figure(session, "evictions"), 1);
  ck_assert_double_eq(memo_figure(session, "entries"), 2);
  check_floats(session, 3, 1);
  ck_assert_double_eq(memo_figure(session, "misses"), 4);
  reed_session_close(&session);
}

START_TEST(a_seen_key_hits_and_the_least_recent_goes_first) {
  check_memo("host");
  check_memo("sim");
}
END_TEST

START_TEST(a_smaller_extent_uses_the_plan_of_a_larger_one) {
  reed_session *session = opened(small_epoch, NULL);
  check_floats(session, 100, 0);
  for (int64_t n = 19; n >= 0; n--) check_floats(session, n, 0);
  ck_assert_double_eq(memo_figure(session, "plans_reused"), 20);
  reed_session_close(&session);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("memo");
  TCase *cases = tcase_create("run");
  tcase_add_checked_fixture(cases, open_diagnosis, close_diagnosis);
  tcase_set_timeout(cases, 120);
  tcase_add_test(cases, a_seen_key_hits_and_the_least_recent_goes_first);
  tcase_add_test(cases, a_smaller_extent_uses_the_plan_of_a_larger_one);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
