/* The choice between the forms of a Winograd convolution and the direct one, by CPU level and width of units. */
#include "ops/cpu/product/winograd.h"
#include "tests/suite.h"

/* Weights whose transform would take more than WINOGRAD_STORED_MOST bytes are not kept. */
START_TEST(large_weights_are_not_stored) {
  winograd_problem p = {
      .images = 1, .channels = 512, .outputs = 512, .in = {14, 14}, .out = {14, 14}, .pad = {1, 1}, .stride = {1, 1}};
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
    p.activation.level = level;
    winograd_form form;
    if (winograd_choose(&p, true, &form)) ck_assert(!form.stored);
  }
}
END_TEST

/* Units that compute whole vectors multiply twice as fast, but read and transform weights at the same rate: a map of
 * few pixels is computed directly. A map of 14x14 keeps transformed weights, larger ones need none. */
START_TEST(whole_units_transform_fewer_weights) {
  static const char *const units[] = {"half", "whole"};
  for (int whole = 0; whole < 2; whole++) {
    cpu_units_use(units[whole]);
    ck_assert(cpu_units_are_whole() == whole);
    for (int32_t side = 7; side <= 56; side *= 2) {
      const int32_t channels = 3584 / side;
      winograd_problem p = {.images = 1,
                            .channels = channels,
                            .outputs = channels,
                            .in = {side, side},
                            .out = {side, side},
                            .pad = {1, 1},
                            .stride = {1, 1},
                            .activation = {.level = CPU_AVX512}};
      winograd_form form;
      ck_assert(winograd_choose(&p, true, &form) == (side > 7 || !whole));
      if (side > 7) ck_assert(form.stored == (side == 14));
    }
  }
  cpu_units_use(NULL);
}
END_TEST

/* A word that names no width leaves the machine's own. */
START_TEST(other_words_leave_the_machines_units) {
  cpu_units_use(NULL);
  const bool own = cpu_units_are_whole();
  cpu_units_use("quarter");
  ck_assert(cpu_units_are_whole() == own);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("winograd choice");
  TCase *t = tcase_create("all");
  tcase_add_test(t, large_weights_are_not_stored);
  tcase_add_test(t, whole_units_transform_fewer_weights);
  tcase_add_test(t, other_words_leave_the_machines_units);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
