/* Instructions without tensors, through the public API: scalars, branches, recursion, ADTs, closures, sequences,
 * limits. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "reed/reed.h"
#include "tests/suite.h"
#include "tests/vm/hand.h"

/* Runs a module without inputs whose one output is an i64 scalar. */
static int64_t value_of(const char *text) {
  reed_session *session = opened(text, NULL);
  reed_tensor *output;
  reed_status status = reed_session_run(session, NULL, 0, &output, 1, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  int64_t value = *(int64_t *)reed_tensor_data(output);
  reed_tensor_close(&output);
  reed_session_close(&session);
  return value;
}

static reed_status failure_of(const char *text, const reed_session_options *options) {
  reed_session *session = opened(text, options);
  reed_tensor *output;
  reed_status status = REED_OK;
  for (int i = 0; i < 2; i++) { /* a session runs again after a failure */
    status = reed_session_run(session, NULL, 0, &output, 1, diagnosis);
    ck_assert_int_ne(status, REED_OK);
    ck_assert_str_ne(reed_diagnosis_function(diagnosis), "");
    ck_assert_int_ge(reed_diagnosis_pc(diagnosis), 0);
  }
  reed_session_close(&session);
  return status;
}

#define HEADER \
  ".module \"m\" producer \"test\" \"1\" devices 1\n.type t0 = i64[] \"out\"\n.type t1 = object\n.inputs\n.outputs " \
  "t0\n"

static const char fibonacci[] = HEADER ".function main () -> (t0) registers 1 2\n"
                                       "  s.const s0, 20\n"
                                       "  call fib, [], [s1], [], [s0]\n"
                                       "  r.scalar r0, s1, i64\n"
                                       "  return [r0], []\n"
                                       ".function fib (| 1) -> (| 1) registers 0 5\n"
                                       "  s.const s1, 2\n"
                                       "  s.lt s2, s0, s1\n"
                                       "  branch.ifnot s2, more\n"
                                       "  return [], [s0]\n"
                                       "more:\n"
                                       "  s.const s1, 1\n"
                                       "  s.sub s3, s0, s1\n"
                                       "  call fib, [], [s4], [], [s3]\n"
                                       "  s.sub s3, s3, s1\n"
                                       "  call fib, [], [s2], [], [s3]\n"
                                       "  s.add s4, s4, s2\n"
                                       "  return [], [s4]\n";

START_TEST(functions_recurse) { ck_assert_int_eq(value_of(fibonacci), 6765); }
END_TEST

/* A list of 1..n as ADTs (tag 0: nil, 1: cons), summed by recursion. */
#define LIST_PROGRAM(n) \
  HEADER \
  ".function main () -> (t0) registers 3 5\n" \
  "  s.const s0, 1\n" \
  "  s.const s1, " #n "\n" \
  "  s.const s2, 1\n" \
  "  adt.make r0, 0, []\n" \
  "head:\n" \
  "  s.le s3, s0, s1\n" \
  "  branch.ifnot s3, done\n" \
  "  r.scalar r1, s0, i64\n" \
  "  adt.make r0, 1, [r1, r0]\n" \
  "  s.add s0, s0, s2\n" \
  "  jump head\n" \
  "done:\n" \
  "  call sum, [], [s4], [r0], []\n" \
  "  r.scalar r2, s4, i64\n" \
  "  return [r2], []\n" \
  ".function sum (t1) -> (| 1) registers 3 3\n" \
  "  adt.tag s0, r0\n" \
  "  branch.if s0, cons\n" \
  "  return [], [s0]\n" \
  "cons:\n" \
  "  adt.get r1, r0, 0\n" \
  "  adt.get r2, r0, 1\n" \
  "  call sum, [], [s1], [r2], []\n" \
  "  assert.shape r1, t0\n" \
  "  s.item s2, r1\n" \
  "  s.add s1, s1, s2\n" \
  "  return [], [s1]\n"

START_TEST(lists_are_built_and_summed_by_recursion) { ck_assert_int_eq(value_of(LIST_PROGRAM(1000)), 500500); }
END_TEST

START_TEST(recursion_deeper_than_the_limit_is_an_error) {
  ck_assert_int_eq(failure_of(LIST_PROGRAM(1000), &(reed_session_options){.max_call_depth = 100}), REED_ERROR_LIMIT);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(diagnosis), "100"));
}
END_TEST

START_TEST(closures_capture_and_sequences_grow) {
  ck_assert_int_eq(value_of(HEADER ".function main () -> (t0) registers 6 5\n"
                                   "  s.const s0, 30\n"
                                   "  r.scalar r0, s0, i64\n"
                                   "  closure.make r1, plus, [r0]\n"
                                   "  seq.make r2\n"
                                   "  s.const s1, 12\n"
                                   "  r.scalar r3, s1, i64\n"
                                   "  call.closure r1, [r4], [r3]\n"
                                   "  seq.push r2, r4\n"
                                   "  seq.push r2, r3\n"
                                   "  s.const s2, 0\n"
                                   "  seq.get r5, r2, s2\n"
                                   "  assert.shape r5, t0\n"
                                   "  s.item s3, r5\n"
                                   "  seq.length s4, r2\n"
                                   "  s.mul s3, s3, s4\n"
                                   "  r.scalar r5, s3, i64\n"
                                   "  return [r5], []\n"
                                   ".function plus (t0, t0) -> (t0) registers 3 2\n"
                                   "  s.item s0, r0\n"
                                   "  s.item s1, r1\n"
                                   "  s.add s0, s0, s1\n"
                                   "  r.scalar r2, s0, i64\n"
                                   "  return [r2], []\n"),
                   84);
}
END_TEST

START_TEST(an_optional_is_asked_before_it_is_unwrapped) {
  ck_assert_int_eq(value_of(HEADER ".function main () -> (t0) registers 4 4\n"
                                   "  opt.none r0\n"
                                   "  opt.has s0, r0\n"
                                   "  s.const s1, 41\n"
                                   "  r.scalar r1, s1, i64\n"
                                   "  opt.has s2, r1\n"
                                   "  opt.get r2, r1\n"
                                   "  assert.shape r2, t0\n"
                                   "  s.item s3, r2\n"
                                   "  s.add s3, s3, s2\n"
                                   "  s.add s3, s3, s0\n"
                                   "  r.scalar r3, s3, i64\n"
                                   "  return [r3], []\n"),
                   42);
  ck_assert_int_eq(
      failure_of(HEADER
                 ".function main () -> (t0) registers 2 1\n  opt.none r0\n  opt.get r1, r0\n  assert.shape r1, t0\n"
                 "  return [r1], []\n",
                 NULL),
      REED_ERROR_TYPE);
}
END_TEST

START_TEST(overflow_division_by_zero_and_fail_are_errors) {
  static const struct {
    const char *body;
    reed_status status;
  } cases[] = {
      {"  s.const s0, 9223372036854775807\n  s.const s1, 1\n  s.add s0, s0, s1\n", REED_ERROR_VALUE},
      {"  s.const s0, -9223372036854775808\n  s.const s1, -1\n  s.div s0, s0, s1\n", REED_ERROR_VALUE},
      {"  s.const s0, 7\n  s.const s1, 0\n  s.mod s0, s0, s1\n", REED_ERROR_VALUE},
      {"  s.const s0, 7\n  s.const s1, 1\n  branch.ifnot s1, on\n  fail \"no way\"\non:\n", REED_ERROR_FAILED}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "%s.function main () -> (t0) registers 1 2\n%s  r.scalar r0, s0, i64\n  return [r0], []\n", HEADER,
             cases[i].body);
    ck_assert_int_eq(failure_of(text, NULL), cases[i].status);
  }
}
END_TEST

START_TEST(division_rounds_down) {
  ck_assert_int_eq(value_of(HEADER
                            ".function main () -> (t0) registers 1 4\n"
                            "  s.const s0, -7\n  s.const s1, 2\n  s.div s2, s0, s1\n  s.mod s3, s0, s1\n" /* -4, 1 */
                            "  s.const s1, 10\n  s.mul s2, s2, s1\n  s.add s2, s2, s3\n"
                            "  r.scalar r0, s2, i64\n  return [r0], []\n"),
                   -39);
}
END_TEST

static const char endless[] = HEADER ".function main () -> (t0) registers 1 1\n"
                                     "  s.const s0, 1\n"
                                     "  r.scalar r0, s0, i64\n"
                                     "again:\n"
                                     "  branch.if s0, again\n"
                                     "  return [r0], []\n";

START_TEST(an_endless_loop_ends_with_the_instruction_budget) {
  ck_assert_int_eq(failure_of(endless, &(reed_session_options){.max_instructions = 100000}), REED_ERROR_LIMIT);
}
END_TEST

static void *cancel_soon(void *session) {
  usleep(20000);
  reed_session_cancel(session);
  return NULL;
}

START_TEST(an_endless_loop_is_cancelled_from_another_thread) {
  reed_session *session = opened(endless, NULL);
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, cancel_soon, session), 0);
  reed_tensor *output;
  ck_assert_int_eq(reed_session_run(session, NULL, 0, &output, 1, diagnosis), REED_ERROR_CANCELLED);
  pthread_join(thread, NULL);
  reed_session_close(&session);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("interpreter");
  TCase *cases = tcase_create("run");
  tcase_add_checked_fixture(cases, open_diagnosis, close_diagnosis);
  tcase_set_timeout(cases, 120);
  tcase_add_test(cases, functions_recurse);
  tcase_add_test(cases, lists_are_built_and_summed_by_recursion);
  tcase_add_test(cases, recursion_deeper_than_the_limit_is_an_error);
  tcase_add_test(cases, closures_capture_and_sequences_grow);
  tcase_add_test(cases, an_optional_is_asked_before_it_is_unwrapped);
  tcase_add_test(cases, overflow_division_by_zero_and_fail_are_errors);
  tcase_add_test(cases, division_rounds_down);
  tcase_add_test(cases, an_endless_loop_ends_with_the_instruction_budget);
  tcase_add_test(cases, an_endless_loop_is_cancelled_from_another_thread);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
