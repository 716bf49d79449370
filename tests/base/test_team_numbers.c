/* A helper's worker number belongs to one job. The helper is held between its last chunk of one job and its look for
 * the next chunk, until the caller's next job is open and has given the same number to another helper.
 *
 * team.c is compiled into this test, because the test reads a job's place and holds the helper in sem_post: the helper
 * that has run a job's last chunk wakes its caller by that call, and nothing lies between the call and the look for the
 * next chunk. */
#include <check.h>
#include <sched.h>
#include <semaphore.h>
#include <unistd.h>

static int post_and_wait(sem_t *finished);
#define sem_post post_and_wait
#include "base/team.c"
#undef sem_post

#include "tests/suite.h"

static struct {
  atomic_int n_first;   /* helpers in a chunk of the first job */
  atomic_int n_second;  /* the same of the second job */
  atomic_int numbers;   /* the sum of 1 << worker over the helpers of n_second */
  sem_t second_is_open; /* a helper is in a chunk of the second job */
} seen;

static _Thread_local bool is_held; /* true in the helper that ran a chunk of the first job */

static int post_and_wait(sem_t *finished) {
  int status = sem_post(finished);
  if (is_held) {
    is_held = false;
    while (sem_wait(&seen.second_is_open) != 0) continue;
  }
  return status;
}

/* The caller's chunk ends first, and the helper's chunk when the caller sleeps. */
static void run_first(void *context, int64_t chunk, int32_t worker) {
  (void)context, (void)chunk;
  if (worker == 0) {
    while (!atomic_load(&seen.n_first)) sched_yield();
    return;
  }
  is_held = true;
  atomic_fetch_add(&seen.n_first, 1);
  while (!atomic_load(&team.jobs[0].waiting)) sched_yield();
}

/* Three chunks that run at a time: the caller's, a new helper's, and then the first job's helper's. */
static void run_second(void *context, int64_t chunk, int32_t worker) {
  (void)context, (void)chunk;
  if (worker > 0) {
    atomic_fetch_add(&seen.numbers, 1 << worker);
    if (atomic_fetch_add(&seen.n_second, 1) == 0) sem_post(&seen.second_is_open);
  }
  while (atomic_load(&seen.n_second) < 2) sched_yield();
}

START_TEST(a_helper_gets_a_new_number_with_each_job) {
  ck_assert_int_eq(sem_init(&seen.second_is_open, 0, 0), 0);
  team_run(2, 2, run_first, NULL);
  team_run(3, 3, run_second, NULL);
  int numbers = atomic_load(&seen.numbers);
  ck_assert_int_eq(numbers, 1 << 1 | 1 << 2);
}
END_TEST

int main(void) {
  TCase *tc = tcase_create("numbers");
  tcase_add_test(tc, a_helper_gets_a_new_number_with_each_job);
  Suite *suite = suite_create("numbers of the team's workers");
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
