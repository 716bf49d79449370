/* The measure of a thread's jobs: chunks are counted, the longest one is found whoever runs it, a chunk's own jobs are
 * a part of it, and jobs outside of the measure leave it alone. */
#include <check.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "base/chunk_clock.h"
#include "base/team.h"
#include "tests/suite.h"

enum { LONG_NS = 3000000, SHORT_NS = 100000, N_CHUNKS = 16 };

static int64_t ns_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t now_ns(void) { return ns_of(CLOCK_MONOTONIC); }

/* Takes so much of the thread's CPU time. */
static void spend(int64_t ns) {
  for (int64_t end = ns_of(CLOCK_THREAD_CPUTIME_ID) + ns; ns_of(CLOCK_THREAD_CPUTIME_ID) < end;) continue;
}

static void sleeps(void *context, int64_t chunk, int32_t worker) {
  (void)context, (void)chunk, (void)worker;
  nanosleep(&(struct timespec){.tv_nsec = 100 * LONG_NS / 3}, NULL);
}

/* The chunk with the number that the context holds is long. */
static void one_is_long(void *context, int64_t chunk, int32_t worker) {
  (void)worker;
  spend(chunk == *(int64_t *)context ? LONG_NS : SHORT_NS);
}

static void has_jobs(void *context, int64_t chunk, int32_t worker) {
  (void)chunk;
  (void)worker;
  team_run(2, N_CHUNKS, one_is_long, context);
}

/* elapsed_ns: of all chunks. */
static void expect_longest(const team_measure *m, int64_t n_chunks, int64_t elapsed_ns) {
  ck_assert_int_eq(m->n_chunks, n_chunks);
  ck_assert_int_ge(m->longest_ns, LONG_NS);
  ck_assert_int_le(m->longest_ns, elapsed_ns);
}

START_TEST(the_longest_chunk_is_found_in_each_place) {
  for (int32_t n_workers = 1; n_workers <= 3; n_workers++)
    for (int64_t at = 0; at < N_CHUNKS; at += N_CHUNKS - 1) {
      team_measure m;
      int64_t begin = now_ns();
      team_measure_begin(&m);
      (at ? team_run : team_run_lazy)(n_workers, N_CHUNKS, one_is_long, &at);
      team_run(n_workers, N_CHUNKS, one_is_long, &(int64_t){N_CHUNKS}); /* shorter ones change nothing */
      team_measure_end();
      expect_longest(&m, 2 * N_CHUNKS, now_ns() - begin);
      ck_assert_int_gt(m.jobs_ns, 0);
      if (n_workers > 1) continue;
      ck_assert_int_ge(m.jobs_ns, LONG_NS + (2 * N_CHUNKS - 1) * SHORT_NS);
      ck_assert_int_le(m.longest_ns, m.jobs_ns - (2 * N_CHUNKS - 1) * SHORT_NS);
    }
}
END_TEST

START_TEST(a_chunks_jobs_are_a_part_of_it) {
  team_measure m;
  team_measure_begin(&m);
  team_run(1, 1, has_jobs, &(int64_t){0});
  team_measure_end();
  ck_assert_int_eq(m.n_chunks, 1);
  ck_assert_int_ge(m.longest_ns, LONG_NS);
}
END_TEST

START_TEST(time_without_a_cpu_is_no_part_of_a_chunk) {
  team_measure m;
  team_measure_begin(&m);
  team_run(2, 2, sleeps, NULL);
  team_measure_end();
  ck_assert_int_eq(m.n_chunks, 2);
  ck_assert_int_lt(m.longest_ns, 10 * LONG_NS);
  ck_assert_int_ge(m.jobs_ns, 30 * LONG_NS);
}
END_TEST

/* The first chunk sleeps, the second one takes CPU time. */
static void sleeps_or_spends(void *context, int64_t chunk, int32_t worker) {
  if (chunk == 0) sleeps(context, chunk, worker);
  else spend(LONG_NS);
}

START_TEST(time_without_a_cpu_is_no_part_of_the_next_chunk) {
  team_measure m;
  team_measure_begin(&m);
  team_run(1, 2, sleeps_or_spends, NULL);
  team_measure_end();
  ck_assert_int_ge(m.longest_ns, LONG_NS);
  ck_assert_int_lt(m.longest_ns, 10 * LONG_NS);
}
END_TEST

START_TEST(time_without_a_cpu_before_a_chunk_is_no_part_of_it) {
  chunk_clock_begin(UINT64_MAX);
  spend(SHORT_NS);
  ck_assert_int_ge(chunk_clock_end(0), SHORT_NS);
  nanosleep(&(struct timespec){.tv_nsec = LONG_NS}, NULL);
  chunk_clock_begin(UINT64_MAX);
  spend(SHORT_NS);
  ck_assert_int_ge(chunk_clock_end(0), SHORT_NS);
}
END_TEST

START_TEST(a_shorter_chunk_is_not_told) {
  chunk_clock_begin(UINT64_MAX);
  spend(SHORT_NS);
  ck_assert_int_eq(chunk_clock_end(INT64_MAX), 0);
}
END_TEST

START_TEST(jobs_after_the_end_are_not_measured) {
  team_measure first, second;
  team_measure_begin(&first);
  team_measure_end();
  team_measure_begin(&second);
  team_measure_end();
  team_run(2, N_CHUNKS, one_is_long, &(int64_t){N_CHUNKS});
  ck_assert_int_eq(first.n_chunks + second.n_chunks + second.longest_ns + second.jobs_ns, 0);
}
END_TEST

int main(void) {
  TCase *tc = tcase_create("measures");
  tcase_set_timeout(tc, 120);
  tcase_add_test(tc, the_longest_chunk_is_found_in_each_place);
  tcase_add_test(tc, a_chunks_jobs_are_a_part_of_it);
  tcase_add_test(tc, time_without_a_cpu_is_no_part_of_a_chunk);
  tcase_add_test(tc, time_without_a_cpu_is_no_part_of_the_next_chunk);
  tcase_add_test(tc, time_without_a_cpu_before_a_chunk_is_no_part_of_it);
  tcase_add_test(tc, a_shorter_chunk_is_not_told);
  tcase_add_test(tc, jobs_after_the_end_are_not_measured);
  Suite *suite = suite_create("measures of the team");
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
