/* Words of the benchmarks' command lines (bench/arguments.h, bench/steps.h, bench/inputs.h): each form, and malformed
 * words. */
#include <check.h>
#include <stdlib.h>

#include "bench/arguments.h"
#include "bench/inputs.h"
#include "bench/steps.h"

START_TEST(integers_end_where_their_digits_end) {
  const char *text = "120x7", *end = NULL;
  int64_t value = 0;
  ck_assert(argument_digits(text, &end, &value));
  ck_assert_int_eq(value, 120);
  ck_assert_ptr_eq(end, text + 3);
  ck_assert(argument_digits("9223372036854775807", &end, &value));
  ck_assert_int_eq(value, INT64_MAX);
  ck_assert(!argument_digits("9223372036854775808", &end, &value));
  ck_assert(!argument_digits("", &end, &value) && !argument_digits("-1", &end, &value) &&
            !argument_digits(" 1", &end, &value) && !argument_digits("x", &end, &value));
  ck_assert_int_eq(argument_integer("--threads", "2", 1, 2), 2);
  ck_assert(argument_number("--bound", "2.5") == 2.5);
}
END_TEST

static const char *const no_integers[] = {
    "", "x", "2x", "2.", "1e3", "-1", "+1", " 1", "1 ", "200..800", "0", "5", "99999999999999999999"};
static const char *const no_numbers[] = {"", "x", "2x", "2,5", "-1", "nan", "inf", "1 "};

START_TEST(a_word_that_is_no_integer_of_the_range_ends_the_program) {
  (void)argument_integer("--threads", no_integers[_i], 1, 4);
}
END_TEST

START_TEST(a_word_that_is_no_number_ends_the_program) { (void)argument_number("--bound", no_numbers[_i]); }
END_TEST

START_TEST(extents_have_three_forms) {
  static const char *const good[] = {"h=7", "h=0", "past=100+", "height=200:800", "w=5:5", "?=3", "a b=1"};
  static const char *const bad[] = {"h=200..800", "h=200:", "h=:800",   "h=800:200", "h=200-800",   "h=7x",
                                    "h=7+1",      "h=+",    "h=",       "h",         "=7",          "h=-7",
                                    "h=200:800:", "h=1:2+", "h=20O:80", "h=7 ",      "h=32:640/32", "h=0:9999999999"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) ck_assert_msg(!steps_fault(good[i]), "%s", good[i]);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) ck_assert_msg(steps_fault(bad[i]), "%s", bad[i]);
}
END_TEST

START_TEST(drawn_extents_lie_in_their_ranges) {
  steps_extents e = {.n = 3, .words = {"a=7", "b=100+", "c=3:5"}};
  bool seen[3] = {false};
  for (int step = 0; step < 100; step++) {
    steps_draw(&e, step);
    ck_assert_int_eq(steps_extent(&e, "a"), 7);
    ck_assert_int_eq(steps_extent(&e, "b"), 100 + step);
    ck_assert(e.drawn[2] >= 3 && e.drawn[2] <= 5);
    seen[e.drawn[2] - 3] = true;
  }
  ck_assert(seen[0] && seen[1] && seen[2]);
}
END_TEST

START_TEST(inputs_are_extents_and_a_value) {
  static const char *const bad[] = {"",     "x",     "2x",     "2xx3", "2y3",
                                    "2x3=", "2x3=a", "2x3=1x", "-2",   "1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1"};
  reed_tensor *t = NULL;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    ck_assert_msg(input_of_text(REED_F32, bad[i], &t) == REED_ERROR_VALUE, "%s", bad[i]);
  ck_assert_int_eq(input_of_text(REED_F32, "2x3=1.5", &t), REED_OK);
  ck_assert_int_eq(reed_tensor_elements(t), 6);
  ck_assert(((float *)reed_tensor_data(t))[5] == 1.5f);
  reed_tensor_close(&t);
  ck_assert_int_eq(input_of_text(REED_I64, "=16000", &t), REED_OK);
  ck_assert_int_eq(reed_tensor_rank(t), 0);
  ck_assert_int_eq(*(int64_t *)reed_tensor_data(t), 16000);
  reed_tensor_close(&t);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("arguments");
  TCase *tc = tcase_create("words");
  tcase_add_test(tc, integers_end_where_their_digits_end);
  tcase_add_loop_exit_test(tc, a_word_that_is_no_integer_of_the_range_ends_the_program, 2, 0,
                           (int)(sizeof no_integers / sizeof *no_integers));
  tcase_add_loop_exit_test(tc, a_word_that_is_no_number_ends_the_program, 2, 0,
                           (int)(sizeof no_numbers / sizeof *no_numbers));
  tcase_add_test(tc, extents_have_three_forms);
  tcase_add_test(tc, drawn_extents_lie_in_their_ranges);
  tcase_add_test(tc, inputs_are_extents_and_a_value);
  suite_add_tcase(suite, tc);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
