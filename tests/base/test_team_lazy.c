/* Lazy jobs of the team: short jobs run on the caller alone while the helpers sleep, those of a burst add up until they
 * are worth waking a helper, and a long one is shared from that point on.
 *
 * team.c is compiled into this test, because the test reads how many jobs were published to helpers and how many
 * helpers sleep, and sets the clock: a chunk lasts as long as the test says. */
#include <check.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int set_clock(clockid_t id, struct timespec *out_time);
#define clock_gettime set_clock
#include "base/team.c"
#undef clock_gettime

#include "tests/suite.h"

enum { US = 1000, CHUNK_US = 10 };

static _Atomic int64_t clock_ns = 1000000000;

static int set_clock(clockid_t id, struct timespec *out_time) {
  (void)id;
  int64_t now = atomic_load(&clock_ns);
  *out_time = (struct timespec){.tv_sec = now / 1000000000, .tv_nsec = now % 1000000000};
  return 0;
}

static void pass(int64_t us) { atomic_fetch_add(&clock_ns, us * US); }

/* Lets time pass until all helpers sleep. A helper that does not run meanwhile takes that time for a stall: more time
 * passes until stalls are forgotten. */
static void rest_helpers(void) {
  do {
    pass(1000);
    usleep(200);
  } while (atomic_load(&team.n_asleep) < atomic_load(&team.n_helpers));
  pass((STALLS_KEPT_NS + STALLS_CROWDED_NS) / US);
}

typedef struct work {
  int64_t us; /* that a chunk takes */
  atomic_int runs[64];
} work;

static void spend(void *context, int64_t chunk, int32_t worker) {
  (void)worker;
  work *w = context;
  pass(w->us);
  atomic_fetch_add(&w->runs[chunk], 1);
}

/* True if the job was published to helpers. Every chunk runs once, either way. */
static bool is_shared(int64_t n_chunks, int64_t us) {
  work w = {.us = us};
  uint32_t before = atomic_load(&team.posted);
  team_run_lazy(2, n_chunks, spend, &w);
  for (int64_t i = 0; i < 64; i++) ck_assert_int_eq(w.runs[i], i < n_chunks);
  return atomic_load(&team.posted) != before;
}

START_TEST(short_jobs_with_pauses_wake_nobody) {
  for (int i = 0; i < 100; i++) {
    ck_assert(!is_shared(2, CHUNK_US));
    ck_assert(!is_shared(3, CHUNK_US));
    rest_helpers();
  }
  ck_assert_int_eq(atomic_load(&team.n_helpers), 0);
}
END_TEST

START_TEST(short_jobs_of_a_burst_wake_a_helper) {
  for (int round = 0; round < 2; round++) { /* the second time the helper is there and sleeps */
    for (int i = 0; i < 5; i++) {
      ck_assert(!is_shared(2, CHUNK_US));
      pass(CHUNK_US); /* other kernels */
    }
    ck_assert(is_shared(2, CHUNK_US));
    ck_assert_int_eq(atomic_load(&team.n_helpers), 1);
    rest_helpers();
  }
}
END_TEST

/* Neither chunk ends before the other has begun. */
static void meet(void *context, int64_t chunk, int32_t worker) {
  (void)chunk, (void)worker;
  atomic_int *missing = context;
  atomic_fetch_sub(missing, 1);
  while (atomic_load(missing) > 0) sched_yield();
}

START_TEST(a_helper_that_is_awake_takes_part_at_once) {
  ck_assert(is_shared(LAZY_CHUNKS, CHUNK_US));
  while (!atomic_load(&team.n_polling)) sched_yield(); /* the clock stands still: the helper stays awake */
  atomic_int missing = 2;
  team_run_lazy(2, 2, meet, &missing);
  ck_assert_int_eq(missing, 0);
}
END_TEST

START_TEST(jobs_that_are_worth_it_wake_a_helper) {
  ck_assert(is_shared(LAZY_CHUNKS, CHUNK_US)); /* many chunks */
  rest_helpers();
  ck_assert(!is_shared(1, 10000)); /* nothing to share */
  rest_helpers();
  ck_assert(is_shared(4, 60)); /* few, long ones: from the third on */
  rest_helpers();
  ck_assert(!is_shared(2, 60)); /* long enough, but none is left */
}
END_TEST

/* The number by which team_n_jobs grows with a lazy job. */
static uint64_t n_counted(int64_t n_chunks, int64_t us) {
  uint64_t before = team_n_jobs();
  (void)is_shared(n_chunks, us);
  return team_n_jobs() - before;
}

START_TEST(jobs_that_are_worth_it_are_counted) {
  ck_assert_uint_eq(n_counted(2, CHUNK_US), 0);
  rest_helpers();
  ck_assert_uint_eq(n_counted(LAZY_CHUNKS, CHUNK_US), 1);
  ck_assert_uint_eq(n_counted(2, CHUNK_US), 0); /* short, though a helper that is awake takes part */
  rest_helpers();
  ck_assert_uint_eq(n_counted(4, 60), 1);
  rest_helpers();
  ck_assert_uint_eq(n_counted(2, 60), 0);
  ck_assert_uint_eq(n_counted(2, 60), 1); /* the burst is worth a helper by now */
  rest_helpers();
  work w = {.us = CHUNK_US};
  uint64_t before = team_n_jobs();
  team_run(2, 2, spend, &w);
  ck_assert_uint_eq(team_n_jobs(), before + 1);
  team_run(2, 1, spend, &w);
  team_run(1, 2, spend, &w);
  ck_assert_uint_eq(team_n_jobs(), before + 1);
}
END_TEST

/* Lets a helper poll, and no more time pass than it polls. */
static void start_polling(void) {
  ck_assert(is_shared(LAZY_CHUNKS, CHUNK_US));
  while (!atomic_load(&team.n_polling)) sched_yield();
}

START_TEST(an_expected_job_keeps_a_helper_awake) {
  start_polling();
  for (int i = 0; i < 20; i++) { /* 2 ms, of which a helper polls 150 us unasked */
    pass(100);
    team_expect();
    usleep(300);
    ck_assert_int_eq(atomic_load(&team.n_polling), 1);
  }
  pass(POLL_NS / US + 100);
  while (!atomic_load(&team.n_asleep)) sched_yield();
  team_expect(); /* wakes nobody */
  usleep(2000);
  ck_assert_int_eq(atomic_load(&team.n_asleep), 1);
}
END_TEST

START_TEST(a_helper_is_woken_before_its_job) {
  for (int round = 0; round < 3; round++) {
    start_polling();
    rest_helpers();
    uint32_t posted = atomic_load(&team.posted);
    team_wake(1);
    ck_assert_int_eq(atomic_load(&team.n_asleep), 1);
    team_wake(2);
    ck_assert_int_eq(atomic_load(&team.n_asleep), 0);
    while (!atomic_load(&team.n_polling)) sched_yield();
    team_wake(2); /* it is awake */
    ck_assert_uint_eq(atomic_load(&team.posted), posted);
    atomic_int missing = 2;
    team_run_lazy(2, 2, meet, &missing);
    ck_assert_int_eq(missing, 0);
    rest_helpers();
  }
  ck_assert_int_eq(atomic_load(&team.n_helpers), 1);
}
END_TEST

/* ---- work aside ---- */

typedef struct aside_work {
  atomic_bool begun, may_end, ended;
} aside_work;

static void work_aside(void *context) {
  aside_work *w = context;
  atomic_store(&w->begun, true);
  while (!atomic_load(&w->may_end)) sched_yield();
  work job = {.us = CHUNK_US};
  team_run(2, 4, spend, &job); /* a helper's work may have jobs */
  for (int64_t i = 0; i < 4; i++) ck_assert_int_eq(job.runs[i], 1);
  atomic_store(&w->ended, true);
}

START_TEST(a_helper_works_aside) {
  aside_work w = {0};
  team_aside aside;
  ck_assert(!team_begin_aside(&aside, work_aside, &w)); /* nobody polls */
  for (int round = 0; round < 3; round++) {
    w = (aside_work){0};
    start_polling();
    const uint64_t before = team_n_jobs();
    team_enter();
    ck_assert(team_begin_aside(&aside, work_aside, &w));
    while (!atomic_load(&w.begun)) sched_yield();
    ck_assert(!team_end_aside(&aside, false));
    ck_assert(!atomic_load(&w.ended));
    atomic_store(&w.may_end, true);
    ck_assert(team_end_aside(&aside, true));
    team_leave();
    ck_assert(atomic_load(&w.ended));
    ck_assert_uint_eq(team_n_jobs(), before);
    ck_assert(is_shared(LAZY_CHUNKS, CHUNK_US)); /* the place is free again */
  }
  ck_assert_int_eq(atomic_load(&team.n_callers), 0);
}
END_TEST

START_TEST(work_aside_that_no_helper_takes_is_not_done) {
  for (int waits = 0; waits < 2; waits++) {
    aside_work w = {.may_end = true};
    team_aside aside;
    start_polling();
    rest_helpers();
    atomic_fetch_add(&team.n_polling, 1); /* as if a helper were about to sleep */
    ck_assert(team_begin_aside(&aside, work_aside, &w));
    ck_assert(team_end_aside(&aside, waits == 1));
    atomic_fetch_sub(&team.n_polling, 1);
    ck_assert(is_shared(LAZY_CHUNKS, CHUNK_US)); /* the place is free again, and the helper is well */
    ck_assert(!atomic_load(&w.begun));
  }
}
END_TEST

/* The helper is not there in the child, which waits for nobody and leaves its own jobs alone. */
START_TEST(work_aside_ends_in_the_child_of_a_fork) {
  aside_work w = {0};
  team_aside aside;
  start_polling();
  ck_assert(team_begin_aside(&aside, work_aside, &w));
  while (!atomic_load(&w.begun)) sched_yield();
  const pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    bool good = team_end_aside(&aside, true);
    good &= is_shared(LAZY_CHUNKS, CHUNK_US);
    good &= team_end_aside(&aside, true);
    _exit(good ? 0 : 1);
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  atomic_store(&w.may_end, true);
  ck_assert(team_end_aside(&aside, true));
  ck_assert(atomic_load(&w.ended));
}
END_TEST

START_TEST(nobody_is_woken_on_a_crowded_machine) {
  start_polling();
  rest_helpers();
  atomic_store(&team.stalls.crowded_until, atomic_load(&clock_ns) + STALLS_CROWDED_NS);
  team_wake(2);
  ck_assert_int_eq(atomic_load(&team.n_asleep), 1);
}
END_TEST

int main(void) {
  TCase *tc = tcase_create("lazy jobs");
  tcase_set_timeout(tc, 120);
  tcase_add_test(tc, short_jobs_with_pauses_wake_nobody);
  tcase_add_test(tc, short_jobs_of_a_burst_wake_a_helper);
  tcase_add_test(tc, a_helper_that_is_awake_takes_part_at_once);
  tcase_add_test(tc, jobs_that_are_worth_it_wake_a_helper);
  tcase_add_test(tc, jobs_that_are_worth_it_are_counted);
  tcase_add_test(tc, an_expected_job_keeps_a_helper_awake);
  tcase_add_test(tc, a_helper_is_woken_before_its_job);
  tcase_add_test(tc, a_helper_works_aside);
  tcase_add_test(tc, work_aside_that_no_helper_takes_is_not_done);
  tcase_add_test(tc, work_aside_ends_in_the_child_of_a_fork);
  tcase_add_test(tc, nobody_is_woken_on_a_crowded_machine);
  Suite *suite = suite_create("lazy jobs of the team");
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
