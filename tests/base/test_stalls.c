/* When a machine counts as crowded, by the stalls that threads note. Times are made up, in nanoseconds. */
#include <check.h>

#include "base/stalls.h"
#include "tests/suite.h"

#define MS ((int64_t)1000000)

static int64_t begin = 5000000 * MS; /* a machine has run for a while */

/* n stalls of `stall` ms each, one every `period` ms; the time after the last. */
static int64_t note(stalls *s, int64_t from, int n, int64_t stall, int64_t period) {
  for (int i = 0; i < n; i++, from += period * MS) stalls_note(s, from, from + stall * MS);
  return from - period * MS + stall * MS;
}

START_TEST(a_few_stalls_are_no_crowd) {
  stalls s = {0};
  ck_assert(!stalls_crowded(&s, begin));
  ck_assert(!stalls_crowded(&s, note(&s, begin, 2, 3, 4)));     /* two in a row */
  ck_assert(!stalls_crowded(&s, note(&s, begin, 2000, 3, 70))); /* one in 70 ms, however long this goes on */
  ck_assert(!stalls_crowded(&s, note(&s, begin, 1000, 2, 2)));  /* stalls of 2 ms are too short */
}
END_TEST

START_TEST(stalls_of_a_tenth_of_the_time_are_a_crowd) {
  stalls s = {0};
  int64_t now = note(&s, begin, 10, 4, 8); /* stalls like those beside one busy process on each CPU */
  ck_assert(stalls_crowded(&s, now));
  ck_assert(stalls_crowded(&s, now + STALLS_CROWDED_NS - 1));
  ck_assert(!stalls_crowded(&s, now + STALLS_CROWDED_NS));
  stalls one = {0};
  ck_assert(stalls_crowded(&one, note(&one, begin, 1, 25, 25)));
}
END_TEST

START_TEST(a_crowd_is_forgotten) {
  stalls s = {0};
  int64_t now = note(&s, begin, 200, 40, 50) + STALLS_KEPT_NS;
  ck_assert(!stalls_crowded(&s, now));
  ck_assert(!stalls_crowded(&s, note(&s, now, 2, 3, 4)));
}
END_TEST

/* Threads read the clock and note their stalls in either order. */
START_TEST(times_may_go_back) {
  stalls s = {0};
  int64_t now = note(&s, begin, 1, 5, 5);
  stalls_note(&s, now - 9 * MS, now - 6 * MS);
  ck_assert(!stalls_crowded(&s, now));
  note(&s, begin, 5, 5, 5);
  ck_assert(stalls_crowded(&s, now));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("stalls");
  TCase *c = tcase_create("stalls");
  tcase_add_test(c, a_few_stalls_are_no_crowd);
  tcase_add_test(c, stalls_of_a_tenth_of_the_time_are_a_crowd);
  tcase_add_test(c, a_crowd_is_forgotten);
  tcase_add_test(c, times_may_go_back);
  suite_add_tcase(suite, c);
  return suite_run(suite);
}
