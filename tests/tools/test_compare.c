/* Comparison with tolerances: equality, and the report on a difference. */
#include "tools/compare.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tools/value.h"
#include "tests/suite.h"

static reed_tensor *value(const char *text) {
  complaint c = {0};
  reed_tensor *t = NULL;
  ck_assert_msg(value_parse(text, NULL, NULL, &t, &c) == DONE, "%s", c.text);
  return t;
}

static bool compare(const char *got, const char *want, tolerance t, char **out_report) {
  reed_tensor *a = value(got), *b = value(want);
  char *report;
  size_t n;
  FILE *out = open_memstream(&report, &n);
  bool equal = compare_tensors("y", a, b, t, out);
  ck_assert(equal == compare_tensors("y", a, b, t, NULL));
  fclose(out);
  reed_tensor_close(&a);
  reed_tensor_close(&b);
  if (out_report) *out_report = report;
  else free(report);
  return equal;
}

START_TEST(tolerances_are_relative_to_the_reference) {
  ck_assert(compare("f32=100.05", "f32=100", (tolerance){1e-3, 0}, NULL));
  ck_assert(!compare("f32=100.2", "f32=100", (tolerance){1e-3, 0}, NULL));
  ck_assert(compare("f32=0.000001", "f32=0", (tolerance){0, 1e-5}, NULL));
  ck_assert(!compare("f32=0.00002", "f32=0", (tolerance){0, 1e-5}, NULL));
  ck_assert(compare("0x3xf32=", "0x3xf32=", (tolerance){0, 0}, NULL));
}
END_TEST

START_TEST(nan_and_infinity_equal_themselves_only) {
  ck_assert(compare("3xf32=nan,inf,-inf", "3xf32=nan,inf,-inf", (tolerance){0, 0}, NULL));
  ck_assert(!compare("f32=inf", "f32=-inf", (tolerance){1, 1}, NULL));
  ck_assert(!compare("f32=1", "f32=nan", (tolerance){1, 1}, NULL));
  ck_assert(!compare("f32=1", "f32=inf", (tolerance){1, 1}, NULL));
}
END_TEST

START_TEST(integers_are_compared_as_integers) {
  ck_assert(!compare("i64=9007199254740993", "i64=9007199254740992", (tolerance){0, 0}, NULL));
  ck_assert(!compare("2xbool=0,1", "2xbool=1,1", (tolerance){0, 0}, NULL));
}
END_TEST

START_TEST(dtypes_must_agree_but_for_floats) {
  char *report;
  ck_assert(compare("2xf32=0.5,0.3334", "2xf16=0.5,0.3334", (tolerance){1e-3, 0}, &report));
  ck_assert_msg(strstr(report, "f16 reference compared by value") != NULL, "%s", report);
  free(report);
  ck_assert(!compare("i32=1", "i64=1", (tolerance){0, 0}, &report));
  ck_assert_msg(strstr(report, "got i32[], want i64[]") != NULL, "%s", report);
  free(report);
  ck_assert(!compare("2x3xf32=1", "3x2xf32=1", (tolerance){0, 0}, &report));
  ck_assert_msg(strstr(report, "got f32[2,3], want f32[3,2]") != NULL, "%s", report);
  free(report);
}
END_TEST

START_TEST(the_report_names_first_mismatches_and_largest_errors) {
  char *report;
  ck_assert(!compare("2x4xf32=1,2,3,4,5,6,7,8", "2x4xf32=1,2.5,3,4,5,6,7,10", (tolerance){0, 0}, &report));
  static const char *const words[] = {"2 of 8 elements differ", "f32[2,4]", "at [0,1]  got 2  want 2.5",
                                      "at [1,3]  got 8  want 10", "largest error 2 absolute at [1,3], 0.2 relative"};
  for (int i = 0; i < 5; i++) ck_assert_msg(strstr(report, words[i]) != NULL, "'%s' is not in: %s", words[i], report);
  free(report);
}
END_TEST

START_TEST(the_last_tolerance_of_a_name_counts) {
  const char *rtol_items[] = {"0.5", "masks=0.25", "0.125"}, *bad[] = {"masks=x"};
  words rtol = {rtol_items, 3}, atol = {0}, wrong = {bad, 1};
  tolerance t;
  complaint c = {0};
  ck_assert_int_eq(tolerance_find(&rtol, &atol, "masks", &t, &c), DONE);
  ck_assert(t.rtol == 0.25 && t.atol == 1e-5);
  ck_assert_int_eq(tolerance_find(&rtol, &atol, "boxes", &t, &c), DONE);
  ck_assert(t.rtol == 0.125);
  ck_assert_int_eq(tolerance_find(&atol, &wrong, "boxes", &t, &c), MISUSE);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("comparison");
  TCase *all = tcase_create("comparison");
  tcase_add_test(all, tolerances_are_relative_to_the_reference);
  tcase_add_test(all, nan_and_infinity_equal_themselves_only);
  tcase_add_test(all, integers_are_compared_as_integers);
  tcase_add_test(all, dtypes_must_agree_but_for_floats);
  tcase_add_test(all, the_report_names_first_mismatches_and_largest_errors);
  tcase_add_test(all, the_last_tolerance_of_a_name_counts);
  suite_add_tcase(suite, all);
  return suite_run(suite);
}
