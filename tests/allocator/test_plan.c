/* The arena planner: small plans with known answers, random ones checked block against block, and how far above the
 * lower bound they lie. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/plan.h"
#include "device/device.h"
#include "tests/alloc_hook.h"
#include "tests/suite.h"

static uint64_t random_state;

static int64_t random_below(int64_t n) { /* xorshift64*, Vigna 2016 */
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return (int64_t)((random_state * 0x2545F4914F6CDD1Dull >> 1) % (uint64_t)n);
}

static plan_figures plan_with(plan_interval *intervals, int32_t n, bool apart) {
  plan_figures figures;
  reed_diagnosis *said;
  ck_assert_int_eq(reed_diagnosis_open(&said), REED_OK);
  ck_assert_msg(plan_offsets(intervals, n, apart, &figures, said) == REED_OK, "%s", reed_diagnosis_message(said));
  ck_assert_msg(plan_check(intervals, n, figures.bytes, said) == REED_OK, "%s", reed_diagnosis_message(said));
  ck_assert_int_le(figures.lower_bound, figures.bytes);
  ck_assert_int_le(figures.bytes, figures.bytes_without_reuse);
  reed_diagnosis_close(&said);
  return figures;
}

static plan_figures plan(plan_interval *intervals, int32_t n) { return plan_with(intervals, n, false); }

/* ---- known answers ---- */

START_TEST(plan_of_nothing_needs_nothing) {
  plan_figures figures = plan(NULL, 0);
  ck_assert(figures.bytes == 0 && figures.bytes_without_reuse == 0 && figures.lower_bound == 0);
  plan_interval empty[2] = {{0, 5, 0, -1}, {2, 3, 0, -1}};
  figures = plan(empty, 2);
  ck_assert(figures.bytes == 0 && empty[0].offset == 0 && empty[1].offset == 0);
}
END_TEST

START_TEST(plan_reuses_storage_after_last_use) {
  plan_interval v[3] = {{0, 1, 640}, {1, 2, 64}, {2, 3, 640}};
  plan_figures figures = plan(v, 3);
  ck_assert_int_eq(v[0].offset, v[2].offset);
  ck_assert_int_eq(figures.bytes, 704);
  ck_assert_int_eq(figures.lower_bound, 704);
  ck_assert_int_eq(figures.bytes_without_reuse, 1344);
}
END_TEST

START_TEST(plan_keeps_apart_what_meets_at_one_step) {
  plan_interval v[2] = {{0, 1, 64}, {1, 2, 64}};
  ck_assert_int_eq(plan(v, 2).bytes, 128);
  plan_interval w[2] = {{0, 0, 64}, {1, 2, 64}};
  ck_assert_int_eq(plan(w, 2).bytes, 64);
}
END_TEST

START_TEST(plan_rounds_to_the_alignment) {
  plan_interval v[3] = {{0, 1, 1}, {0, 1, 65}, {0, 1, 64}};
  plan_figures figures = plan(v, 3);
  ck_assert_int_eq(figures.bytes, 64 + 128 + 64);
  ck_assert_int_eq(figures.lower_bound, figures.bytes);
}
END_TEST

START_TEST(plan_finds_the_gap_that_fits_best) {
  /* two gaps open at step 2, of 256 and of 128 bytes; the last block wants 128 */
  plan_interval v[6] = {{0, 3, 1024}, {0, 1, 256}, {0, 3, 512}, {0, 1, 128}, {0, 3, 320}, {2, 3, 128}};
  ck_assert_int_eq(plan(v, 6).bytes, 1024 + 256 + 512 + 128 + 320);
}
END_TEST

/* Each value is made from the one before, with a workspace for one step between: they lie at the two ends in turn. */
START_TEST(plan_leaves_one_stretch_between_the_values_of_a_chain) {
  plan_interval v[12];
  for (int32_t i = 0; i < 6; i++) {
    v[2 * i] = (plan_interval){6 * i, 6 * i + 6, 1330 << 12};
    v[2 * i + 1] = (plan_interval){6 * i + 4, 6 * i + 4, 2050 << 12};
  }
  plan_figures figures = plan(v, 12);
  ck_assert_int_eq(figures.bytes, figures.lower_bound);
}
END_TEST

/* Two workspaces with a value between them, at whose last step the second one is used. */
START_TEST(plan_puts_workspaces_where_workspaces_were) {
  plan_interval v[3] = {{0, 0, 640}, {1, 3, 256}, {2, 2, 512}};
  ck_assert_int_eq(plan_with(v, 3, true).bytes, 768);
  ck_assert_int_eq(v[0].offset, 128);
  ck_assert_int_eq(v[1].offset, 0);
  ck_assert_int_eq(v[2].offset, 256);
  /* two of one step lie one below the other */
  plan_interval w[3] = {{0, 0, 640}, {0, 0, 64}, {1, 2, 256}};
  ck_assert_int_eq(plan_with(w, 3, true).bytes, 704);
  ck_assert_int_eq(w[0].offset, 64);
  ck_assert_int_eq(w[1].offset, 0);
}
END_TEST

/* The values would lie behind a workspace of a chain: a third more. */
START_TEST(plan_takes_little_more_for_workspaces) {
  plan_interval v[12], plain[12];
  for (int32_t i = 0; i < 6; i++) {
    v[2 * i] = (plan_interval){6 * i, 6 * i + 6, 1330 << 12};
    v[2 * i + 1] = (plan_interval){6 * i + 4, 6 * i + 4, 2050 << 12};
  }
  memcpy(plain, v, sizeof v);
  (void)plan(plain, 12);
  plan_figures figures = plan_with(v, 12, true);
  ck_assert_int_eq(figures.bytes, figures.lower_bound);
  for (int32_t i = 0; i < 12; i++) ck_assert_int_eq(v[i].offset, plain[i].offset);
}
END_TEST

START_TEST(plan_takes_steps_of_any_size) {
  plan_interval v[3] = {{INT32_MIN, -5, 64}, {-5, INT32_MAX, 64}, {INT32_MAX, INT32_MAX, 64}};
  ck_assert_int_eq(plan(v, 3).bytes, 128);
}
END_TEST

START_TEST(plan_takes_sizes_near_the_end_of_numbers) {
  plan_interval v[2] = {{0, 1, INT64_MAX / 4}, {1, 2, INT64_MAX / 4}};
  ck_assert_int_ge(plan(v, 2).bytes, INT64_MAX / 2);
}
END_TEST

/* ---- refusals ---- */

START_TEST(plan_refuses_what_is_no_interval) {
  plan_figures figures;
  plan_interval backwards = {3, 2, 64}, negative = {0, 1, -1};
  ck_assert_int_eq(plan_offsets(&backwards, 1, false, &figures, NULL), REED_ERROR_ARGUMENT);
  ck_assert_int_eq(plan_offsets(&negative, 1, false, &figures, NULL), REED_ERROR_ARGUMENT);
}
END_TEST

START_TEST(plan_refuses_more_bytes_than_numbers_hold) {
  plan_figures figures;
  plan_interval one = {0, 1, INT64_MAX}, two[2] = {{0, 1, INT64_MAX / 2 + 1}, {0, 1, INT64_MAX / 2 + 1}};
  ck_assert_int_eq(plan_offsets(&one, 1, false, &figures, NULL), REED_ERROR_MEMORY);
  ck_assert_int_eq(plan_offsets(two, 2, false, &figures, NULL), REED_ERROR_MEMORY);
}
END_TEST

START_TEST(plan_says_when_there_is_no_heap) {
  plan_interval v[2] = {{0, 1, 64}, {1, 2, 64}};
  plan_figures figures;
  alloc_hook_begin();
  ck_assert_int_eq(plan_offsets(v, 2, false, &figures, NULL), REED_OK);
  int64_t requests = alloc_hook_requests();
  for (int64_t n = 1; n <= requests; n++) {
    alloc_hook_fail_at(n);
    ck_assert_int_eq(plan_offsets(v, 2, false, &figures, NULL), REED_ERROR_MEMORY);
    ck_assert(alloc_hook_failed());
  }
  ck_assert_int_eq(alloc_hook_end(), 0);
}
END_TEST

START_TEST(plan_check_finds_every_kind_of_mistake) {
  reed_diagnosis *said;
  ck_assert_int_eq(reed_diagnosis_open(&said), REED_OK);
  plan_interval good[2] = {{0, 1, 100, 0}, {1, 2, 100, 128}};
  ck_assert_int_eq(plan_check(good, 2, 228, said), REED_OK);
  ck_assert_int_eq(plan_check(good, 2, 227, said), REED_ERROR_ARGUMENT);
  plan_interval overlapping[2] = {{0, 1, 100, 0}, {1, 2, 100, 64}};
  ck_assert_int_eq(plan_check(overlapping, 2, 1000, said), REED_ERROR_ARGUMENT);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(said),
                               "blocks 0 (steps 0..1, bytes 0..100) and 1 (steps 1..2, bytes 64..164) overlap"));
  plan_interval unaligned = {0, 1, 8, 32}, below = {0, 1, 8, -64}, beyond = {0, 1, 8, INT64_MAX - 63};
  ck_assert_int_eq(plan_check(&unaligned, 1, 1000, said), REED_ERROR_ARGUMENT);
  ck_assert_int_eq(plan_check(&below, 1, 1000, said), REED_ERROR_ARGUMENT);
  ck_assert_int_eq(plan_check(&beyond, 1, 1000, said), REED_ERROR_ARGUMENT);
  plan_interval apart[2] = {{0, 1, 100, 0}, {2, 3, 100, 0}}, empty[2] = {{0, 1, 100, 0}, {0, 1, 0, 0}};
  ck_assert_int_eq(plan_check(apart, 2, 100, said), REED_OK);
  ck_assert_int_eq(plan_check(empty, 2, 100, said), REED_OK);
  reed_diagnosis_close(&said);
}
END_TEST

/* ---- random plans ---- */

/* Any lengths, any sizes. */
static void make_uniform(plan_interval *v, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    v[i].first = (int32_t)random_below(n);
    v[i].last = v[i].first + (int32_t)random_below(n / 4 + 1);
    v[i].bytes = 1 + random_below(100000);
  }
}

/* As a network's epoch: an output a step, mostly read by the next few, some much later; sizes that shrink in stages; a
 * workspace at some steps. */
static void make_network(plan_interval *v, int32_t n) {
  for (int32_t i = 0, step = 0; i < n; i++) {
    bool workspace = i && random_below(4) == 0;
    if (!workspace) step++;
    int64_t stage = (int64_t)step * 5 / n;
    int64_t base = 4ll * 64 * (25600 >> (2 * stage)) << stage;
    v[i].first = v[i].last = step;
    v[i].bytes = workspace ? base * (1 + random_below(18)) / 4 : base / (1 << random_below(3));
    if (!workspace) v[i].last += 1 + (int32_t)(random_below(6) ? random_below(3) : random_below(n / 3 + 1));
    if (random_below(8) == 0) v[i].bytes = 1 + random_below(200); /* counts, indices, shapes */
  }
}

/* Two sizes only, long and short: where order matters most. */
static void make_two_sizes(plan_interval *v, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    bool big = random_below(2);
    v[i].first = i;
    v[i].last = i + (int32_t)random_below(big ? 4 : 20);
    v[i].bytes = big ? 3072 : 1024;
  }
}

static const struct family {
  const char *name;
  void (*make)(plan_interval *v, int32_t n);
  double mean_limit, worst_limit; /* limits of arena / lower bound, a little above the measured ratios */
} families[] = {
    {"uniform", make_uniform, 1.10, 1.35},
    {"network", make_network, 1.03, 1.30},
    {"two sizes", make_two_sizes, 1.08, 1.40},
};

enum { N_FAMILIES = sizeof families / sizeof *families, MAX_N = 10000 };

static plan_interval intervals[MAX_N];

START_TEST(plan_never_overlaps_and_stays_near_the_lower_bound) {
  const struct family *family = &families[_i];
  double sum = 0, worst = 1;
  int32_t n_plans = 400, n_optimal = 0;
  for (int32_t seed = 1; seed <= n_plans; seed++) {
    random_state = (uint64_t)seed * 0x9E3779B97F4A7C15ull;
    int32_t n = 1 + (int32_t)random_below(seed % 10 == 0 ? 600 : 120);
    family->make(intervals, n);
    const int64_t apart = plan_with(intervals, n, true).bytes;
    plan_figures figures = plan(intervals, n);
    ck_assert_int_le(apart, figures.bytes + (figures.bytes / 16 < 1 << 20 ? figures.bytes / 16 : 1 << 20));
    double ratio = (double)figures.bytes / (double)figures.lower_bound;
    sum += ratio;
    n_optimal += figures.bytes == figures.lower_bound;
    if (ratio > worst) worst = ratio;
  }
  printf("%-10s arena / lower bound: mean %.4f, worst %.4f, %d of %d at the bound\n", family->name, sum / n_plans,
         worst, n_optimal, n_plans);
  ck_assert_double_le(sum / n_plans, family->mean_limit);
  ck_assert_double_le(worst, family->worst_limit);
}
END_TEST

START_TEST(plan_of_thousands_of_intervals_is_cheap_and_sound) {
  static const int32_t sizes[] = {200, 600, 1501, 2000, 4001, MAX_N};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    for (int32_t f = 0; f < N_FAMILIES; f++) {
      random_state = 12345;
      families[f].make(intervals, sizes[k]);
      int64_t us = INT64_MAX;
      plan_figures figures;
      for (int run = 0; run < 5; run++) {
        int64_t begin = clock_now_ns();
        ck_assert_int_eq(plan_offsets(intervals, sizes[k], false, &figures, NULL), REED_OK);
        int64_t took = (clock_now_ns() - begin) / 1000;
        if (took < us) us = took;
      }
      printf("%-10s %5d intervals: %6lld us, arena / lower bound %.4f\n", families[f].name, sizes[k], (long long)us,
             (double)figures.bytes / (double)figures.lower_bound);
      ck_assert_int_eq(plan_check(intervals, sizes[k], figures.bytes, NULL), REED_OK);
    }
}
END_TEST

START_TEST(plan_is_the_same_every_time) {
  static plan_interval again[300];
  random_state = 7;
  make_network(intervals, 300);
  memcpy(again, intervals, sizeof again);
  plan(intervals, 300);
  plan(again, 300);
  for (int32_t i = 0; i < 300; i++) ck_assert_int_eq(again[i].offset, intervals[i].offset);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("plan");
  TCase *tests = tcase_create("plan"), *random = tcase_create("random");
  tcase_set_timeout(random, 120);
  tcase_add_test(tests, plan_of_nothing_needs_nothing);
  tcase_add_test(tests, plan_reuses_storage_after_last_use);
  tcase_add_test(tests, plan_keeps_apart_what_meets_at_one_step);
  tcase_add_test(tests, plan_rounds_to_the_alignment);
  tcase_add_test(tests, plan_finds_the_gap_that_fits_best);
  tcase_add_test(tests, plan_leaves_one_stretch_between_the_values_of_a_chain);
  tcase_add_test(tests, plan_puts_workspaces_where_workspaces_were);
  tcase_add_test(tests, plan_takes_little_more_for_workspaces);
  tcase_add_test(tests, plan_takes_steps_of_any_size);
  tcase_add_test(tests, plan_takes_sizes_near_the_end_of_numbers);
  tcase_add_test(tests, plan_refuses_what_is_no_interval);
  tcase_add_test(tests, plan_refuses_more_bytes_than_numbers_hold);
  tcase_add_test(tests, plan_says_when_there_is_no_heap);
  tcase_add_test(tests, plan_check_finds_every_kind_of_mistake);
  tcase_add_loop_test(random, plan_never_overlaps_and_stays_near_the_lower_bound, 0, N_FAMILIES);
  tcase_add_test(random, plan_of_thousands_of_intervals_is_cheap_and_sound);
  tcase_add_test(random, plan_is_the_same_every_time);
  suite_add_tcase(suite, tests);
  suite_add_tcase(suite, random);
  return suite_run(suite);
}
