/* The memo of epochs: keys, hits, eviction; layouts that are used again for smaller keys. The memo by itself:
 * test_entries.c. */
#include <check.h>
#include <stdio.h>

#include "reed/reed.h"
#include "tests/suite.h"
#include "tests/vm/hand.h"
#include "vm/epoch/memo.h"

/* The last run missed in an epoch for this reason. */
static void check_why(reed_session *session, const char *why) {
  char *json, wanted[64];
  snprintf(wanted, sizeof wanted, "\"why\":\"%s\"", why);
  ck_assert_int_eq(reed_session_stats_json(session, &json, diagnosis), REED_OK);
  ck_assert_msg(strstr(json, wanted) != NULL, "%s", json);
  reed_text_free(json);
}

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
  check_floats(session, 3, 1); /* the key of 3 came twice, so the entry of 0 was evicted */
  ck_assert_double_eq(memo_figure(session, "misses"), 3);
  check_floats(session, 0, 0); /* the second sight of the key of 0 */
  ck_assert_double_eq(memo_figure(session, "misses"), 4);
  ck_assert_double_eq(memo_figure(session, "admitted"), 2);
  ck_assert_double_eq(memo_figure(session, "trials"), 1);
  check_floats(session, 3, 1); /* the least recently used of the admitted entries was evicted */
  ck_assert_double_eq(memo_figure(session, "misses"), 5);
  ck_assert_double_eq(memo_figure(session, "missed_sizes"), 3);
  ck_assert_double_eq(memo_figure(session, "missed_not_admitted"), 1);
  ck_assert_double_eq(memo_figure(session, "missed_evicted"), 1);
  check_why(session, "evicted");
  reed_session_close(&session);
}

START_TEST(a_seen_key_hits_and_a_key_seen_once_goes_first) {
  check_memo("host");
  check_memo("sim");
}
END_TEST

/* Sizes that never come back, between two sizes that do: on every device the memo keeps few entries of the former. */
START_TEST(sizes_that_never_come_back_leave_those_that_do) {
  reed_session *session =
      opened(small_epoch, &(reed_session_options){.device = _i ? "sim" : "host", .memo_bytes = 1 << 18});
  for (int64_t i = 0; i < 100; i++) {
    check_floats(session, 10 + i % 2, -5);
    check_floats(session, 100 + i, -5);
  }
  ck_assert_double_eq(memo_figure(session, "hits"), 98);
  ck_assert_double_eq(memo_figure(session, "misses"), 102);
  ck_assert_double_eq(memo_figure(session, "admitted"), 2);
  ck_assert_double_le(memo_figure(session, "trials"), 8);
  ck_assert_double_eq(memo_figure(session, "entries"), 2 + memo_figure(session, "trials"));
  ck_assert_double_le(memo_figure(session, "bytes"), 1 << 16);
  /* the second sight of these keys, whose marks admit them */
  for (int64_t i = 0; i < 50; i++) check_floats(session, 100 + i, -5);
  ck_assert_double_ge(memo_figure(session, "admitted"), 50);
  reed_session_close(&session);
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

/* ---- keys ---- */

#define KEYED(keys, scalars) \
  ".module \"m\" producer \"test\" \"1\" devices 1\n.type x = f32[n, 4] \"x\"\n.site k = Relu (1 -> 1) \"k\"\n" \
  ".inputs x\n.outputs x\n.function main (x) -> (x) registers 2 1\n  s.dim s0, r0, 0\n" \
  "  epoch.enter 0, plan, [" keys "], [" scalars "]\n  shape k, host, [r1], [r0:shape]\nplan: epoch.plan 0\n" \
  "  invoke k, host, [r1], [r0]\n  epoch.end 0\n  return [r1], []\n"

static void check_relu(reed_session *session, int64_t rows, float first) {
  reed_tensor *output;
  ck_assert_int_eq(run_floats(session, rows, first, &output), REED_OK);
  for (int64_t i = 0; i < rows * 4; i++) {
    float x = first + (float)i;
    ck_assert_float_eq(((float *)reed_tensor_data(output))[i], x > 0 ? x : 0);
  }
  reed_tensor_close(&output);
}

/* Misses after: a shape, the same again, other elements, other extents, the first again. */
START_TEST(a_key_holds_what_its_flag_says) {
  static const struct {
    const char *text;
    int misses[5];
  } cases[] = {
      {KEYED("r0:shape", ""), {1, 1, 1, 2, 2}},   {KEYED("r0:value", ""), {1, 1, 2, 3, 3}},
      {KEYED("r0:both", ""), {1, 1, 2, 3, 3}},    {KEYED("r0:shape, r0:value", "s0"), {1, 1, 2, 3, 3}},
      {KEYED("r0:shape", "s0"), {1, 1, 1, 2, 2}},
  };
  reed_session *session = opened(cases[_i].text, NULL);
  static const struct {
    int64_t rows;
    float first;
  } runs[] = {{3, -2}, {3, -2}, {3, -5}, {2, -2}, {3, -2}};
  for (int i = 0; i < 5; i++) {
    check_relu(session, runs[i].rows, runs[i].first);
    ck_assert_double_eq(memo_figure(session, "misses"), cases[_i].misses[i]);
    ck_assert_double_eq(memo_figure(session, "hits"), i + 1 - cases[_i].misses[i]);
    ck_assert_double_eq(memo_figure(session, "missed_sizes"), 1 + (i > 2)); /* the rows are new in runs 0 and 3 */
    ck_assert_double_eq(memo_figure(session, "missed_counts"), cases[_i].misses[i] - 1 - (i > 2));
  }
  reed_session_close(&session);
}
END_TEST

/* Two keys that are admitted, one of which does not come again: its entry goes, and the other one stays. */
START_TEST(an_entry_that_no_run_uses_goes) {
  reed_session *session = opened(small_epoch, &(reed_session_options){.device = _i ? "sim" : "host"});
  for (int i = 0; i < 4; i++) check_floats(session, 10 + i % 2, -5);
  ck_assert_double_eq(memo_figure(session, "admitted"), 2);
  check_floats(session, 12, -5); /* on trial */
  double bytes = memo_figure(session, "bytes");
  for (int i = 0; i < MEMO_IDLE_RUNS - 3; i++) check_floats(session, 11, -5);
  ck_assert_double_eq(memo_figure(session, "entries"), 3);
  check_floats(session, 11, -5);
  ck_assert_double_eq(memo_figure(session, "entries"), 2);
  ck_assert_double_lt(memo_figure(session, "bytes"), bytes);
  for (int i = 0; i < 4; i++) check_floats(session, 11, -5);
  ck_assert_double_eq(memo_figure(session, "entries"), 1);
  ck_assert_double_eq(memo_figure(session, "trials"), 0);
  ck_assert_double_eq(memo_figure(session, "misses"), 3);
  check_floats(session, 10, -5);
  check_why(session, "evicted");
  for (int i = 0; i < 2 * MEMO_IDLE_RUNS; i++) check_floats(session, 10, -5); /* the only one that runs stays */
  ck_assert_double_eq(memo_figure(session, "misses"), 4);
  reed_session_close(&session);
}
END_TEST

/* More elements than a key compares: the epoch is planned anew in each run. */
START_TEST(a_key_of_many_elements_is_not_remembered) {
  reed_session *session = opened(KEYED("r0:value", ""), NULL);
  for (int i = 0; i < 3; i++) check_relu(session, 1 << 13, 5);
  ck_assert_double_eq(memo_figure(session, "misses"), 3);
  ck_assert_double_eq(memo_figure(session, "missed_too_large"), 3);
  ck_assert_double_eq(memo_figure(session, "entries"), 0);
  for (int i = 0; i < 3; i++) check_relu(session, 1 << 12, 5); /* as many elements as a key compares at most */
  ck_assert_double_eq(memo_figure(session, "misses"), 4);
  ck_assert_double_eq(memo_figure(session, "entries"), 1);
  reed_session_close(&session);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("memo");
  TCase *cases = tcase_create("run");
  tcase_add_checked_fixture(cases, open_diagnosis, close_diagnosis);
  tcase_set_timeout(cases, 120);
  tcase_add_test(cases, a_seen_key_hits_and_a_key_seen_once_goes_first);
  tcase_add_loop_test(cases, sizes_that_never_come_back_leave_those_that_do, 0, 2);
  tcase_add_test(cases, a_smaller_extent_uses_the_plan_of_a_larger_one);
  tcase_add_loop_test(cases, a_key_holds_what_its_flag_says, 0, 5);
  tcase_add_loop_test(cases, an_entry_that_no_run_uses_goes, 0, 2);
  tcase_add_test(cases, a_key_of_many_elements_is_not_remembered);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
