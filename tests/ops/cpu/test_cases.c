/* The kernel cases themselves (kernel_case.h): a case that fails or crashes hides no other one and is named in full,
 * and cases run on every device that has their call. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

static void add_ones(kernel_case *c, op_id op) {
  case_init(c, op);
  case_filled(c, REED_F32, DIMS(1, 2), (double[]){1, 1});
  case_filled(c, REED_F32, DIMS(2), (double[]){1, 1});
}

/* Six cases: the second, fourth and sixth are wrong, and the fifth crashes. */
START_TEST(wrong_cases) {
  for (int i = 0; i < 6; i++) {
    kernel_case c;
    add_ones(&c, OP_Add);
    if (i == 4 && !c.skipped) raise(SIGKILL);
    case_expect(&c, (double[]){i % 2 ? 3 : 2, 2}, 2);
  }
}
END_TEST

static char told[4096]; /* the failures that Check was told */

static void run_wrong_cases(void) {
  Suite *suite = suite_create("wrong");
  TCase *t = tcase_create("wrong");
  tcase_add_test(t, wrong_cases);
  suite_add_tcase(suite, t);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_SILENT);
  int n = srunner_ntests_failed(runner);
  TestResult **failures = srunner_failures(runner);
  for (int i = 0; i < n; i++) strncat(told, tr_msg(failures[i]), sizeof told - strlen(told) - 1);
  free(failures);
  srunner_free(runner);
}

START_TEST(a_case_that_fails_hides_no_other_one) {
  ck_assert_msg(strncmp(told, "4 of 6 cases failed:", 20) == 0, "%s", told);
  int n_wrong = 0;
  for (const char *at = told; (at = strstr(at, ": element 0 is 2, not 3")); at++) n_wrong++;
  ck_assert_int_eq(n_wrong, 3);
  ck_assert_ptr_nonnull(strstr(told, "case 4: signal 9"));
  const char *line = strstr(told, "Add(f32[1,2], f32[2]) on host at reference, 1 threads, seed 0x");
  ck_assert_msg(line != NULL, "%s", told);
  uint64_t seed = strtoull(strstr(line, "seed ") + 5, NULL, 0);
  kernel_case c;
  setenv("REED_CASE_SEED", "0x77", 1);
  case_init(&c, OP_Add);
  ck_assert(c.seed == 0x77 && seed != 0x77);
}
END_TEST

START_TEST(a_case_names_attributes_threads_and_memory) {
  kernel_case c;
  case_init(&c, OP_Concat);
  case_input(&c, REED_F16, DIMS(3, 1), 1);
  case_absent(&c);
  case_attr_int(&c, "axis", -1);
  case_attr_ints(&c, "sizes", (int64_t[]){2, 3}, 2);
  c.n_threads = 2, c.in_place = 0, c.seed = 5;
  ck_assert_str_eq(case_where(&c),
                   "Concat(f16[3,1], none) {axis=-1, sizes=2x3} on host at reference, 2 threads, seed 0x5, in the "
                   "place of input 0");
  case_close(&c);
}
END_TEST

START_TEST(a_case_runs_on_devices_that_have_its_call) {
  kernel_case c;
  bool has = true;
  add_ones(&c, OP_Add);
  ck_assert_int_eq(case_run_on(&c, "sim?lacks=Add", &has), REED_OK);
  ck_assert(!has);
  ck_assert_int_eq(case_run_on(&c, "sim?only=Add.f64", &has), REED_OK);
  ck_assert(!has);
  ck_assert_int_eq(case_run_on(&c, "sim?only=Add.f32", &has), REED_OK);
  ck_assert(has);
  ck_assert_double_eq(case_get(&c.outputs[0], 1), 2);
  bool sim = false;
  for (const char *const *device = case_devices(); *device; device++) sim |= strncmp(*device, "sim", 3) == 0;
  ck_assert(sim);
  case_close(&c);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("cases");
  TCase *t = tcase_create("cases");
  run_wrong_cases();
  tcase_add_test(t, a_case_that_fails_hides_no_other_one);
  tcase_add_test(t, a_case_names_attributes_threads_and_memory);
  tcase_add_test(t, a_case_runs_on_devices_that_have_its_call);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
