/* The team of helper threads: every chunk runs once, the caller sees all results, no call waits for a helper
 * without a chunk, workers' numbers within a call (between calls: test_team_numbers.c), many callers, calls inside of
 * chunks, the child of a fork. Then the count of CPUs, from the files of control groups as systems write them. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/processors.h"
#include "base/team.h"
#include "tests/suite.h"

#ifdef __SANITIZE_THREAD__ /* its threads do not outlive the fork of a process with several */
enum { MAY_FORK = 0 };
#else
enum { MAY_FORK = 1 };
#endif

enum { MANY = 3000 };

/* ---- chunks ---- */

typedef struct counts {
  int runs[MANY]; /* plain: a chunk is one thread's, and team_run makes its writes visible */
  atomic_int in_use[TEAM_MAX_WORKERS];
  int32_t n_workers;
  int spin;
  atomic_bool wrong;
} counts;

static void count(void *context, int64_t chunk, int32_t worker) {
  counts *c = context;
  if (worker < 0 || worker >= c->n_workers || atomic_fetch_add(&c->in_use[worker], 1)) atomic_store(&c->wrong, true);
  for (volatile int i = 0; i < c->spin; i++) continue;
  c->runs[chunk]++;
  atomic_fetch_sub(&c->in_use[worker], 1);
}

static void each_chunk_runs_once(int32_t n_workers, int64_t n, int spin, counts *c) {
  memset(c->runs, 0, sizeof c->runs);
  c->n_workers = n_workers;
  c->spin = spin;
  team_run(n_workers, n, count, c);
  int64_t bad = -1; /* one assertion for all chunks, because an assertion takes Check's lock and a write */
  for (int64_t i = 0; i < MANY; i++)
    if (c->runs[i] != (i < n)) bad = i;
  ck_assert_msg(bad < 0, "chunk %lld of %lld ran %d times", (long long)bad, (long long)n, bad < 0 ? 0 : c->runs[bad]);
  ck_assert(!atomic_load(&c->wrong));
}

static void *run_many(void *seed) {
  unsigned random = *(unsigned *)seed;
  counts *c = calloc(1, sizeof *c);
  for (int i = 0; i < 40; i++) {
    int32_t n_workers = 1 + rand_r(&random) % 5;
    int64_t n = rand_r(&random) % (i % 50 ? 40 : MANY);
    each_chunk_runs_once(n_workers, n, rand_r(&random) % 200, c);
  }
  free(c);
  return NULL;
}

START_TEST(every_chunk_runs_once) { run_many(&(unsigned){1}); }
END_TEST

START_TEST(many_callers_share_the_helpers) {
  enum { CALLERS = 36 }; /* more callers than the team has places for jobs */
  pthread_t threads[CALLERS];
  unsigned seeds[CALLERS];
  for (unsigned i = 0; i < CALLERS; i++) {
    seeds[i] = i;
    ck_assert_int_eq(pthread_create(&threads[i], NULL, run_many, &seeds[i]), 0);
  }
  for (int i = 0; i < CALLERS; i++) pthread_join(threads[i], NULL);
}
END_TEST

static void count_inside(void *context, int64_t chunk, int32_t worker) {
  (void)chunk, (void)worker;
  atomic_int *total = context;
  counts *c = calloc(1, sizeof *c);
  c->n_workers = 3;
  team_run(3, 50, count, c);
  for (int i = 0; i < 50; i++) atomic_fetch_add(total, c->runs[i] == 1);
  free(c);
}

START_TEST(chunks_may_call_the_team) {
  atomic_int total = 0;
  team_run(4, 20, count_inside, &total);
  ck_assert_int_eq(total, 20 * 50);
}
END_TEST

/* More chunks than the word that hands them out can count. */
static void add(void *context, int64_t chunk, int32_t worker) {
  atomic_llong *sum = (atomic_llong *)context + 16 * worker;
  atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + chunk, memory_order_relaxed);
}

START_TEST(more_chunks_than_24_bits_count) {
  atomic_llong sums[32] = {0};
  int64_t n = ((int64_t)1 << 24) + 5;
  team_run(2, n, add, sums);
  ck_assert_int_eq(sums[0] + sums[16], n * (n - 1) / 2);
}
END_TEST

/* ---- waiting ---- */

typedef struct meeting {
  sem_t go, held;
  atomic_int n_held;
  pthread_t caller;
  atomic_int elsewhere; /* chunks that another thread than the caller has run */
} meeting;

/* A helper that gets a chunk stays in it; the caller's own chunks wait for a helper to be held. */
static void hold_helper(void *context, int64_t chunk, int32_t worker) {
  (void)chunk;
  meeting *m = context;
  if (worker > 0) {
    atomic_fetch_add(&m->n_held, 1);
    sem_post(&m->held);
    while (sem_wait(&m->go) != 0) continue;
  } else {
    while (sem_wait(&m->held) != 0) continue;
    sem_post(&m->held);
  }
}

static void *hold(void *context) {
  team_run(2, 2, hold_helper, context);
  return NULL;
}

static void note_thread(void *context, int64_t chunk, int32_t worker) {
  (void)chunk;
  meeting *m = context;
  if (worker != 0 || !pthread_equal(pthread_self(), m->caller)) atomic_fetch_add(&m->elsewhere, 1);
}

/* The only helper of this process is held in another caller's chunk: a call for two workers must end without it. If the
 * caller waited for helpers that have begun nothing, this test would hang. */
static void runs_beside_a_held_helper(void) {
  meeting m = {.caller = pthread_self()};
  team_assume_processors(8); /* the second caller asks for a helper only if CPUs are left */
  pthread_t holder;
  sem_init(&m.go, 0, 0);
  sem_init(&m.held, 0, 0);
  ck_assert_int_eq(pthread_create(&holder, NULL, hold, &m), 0);
  while (sem_wait(&m.held) != 0) continue;
  sem_post(&m.held);
  for (int i = 0; i < 1000; i++) team_run(2, 16, note_thread, &m);
  ck_assert_int_eq(m.elsewhere, 0);
  sem_post(&m.go);
  pthread_join(holder, NULL);
  ck_assert_int_eq(m.n_held, 1);
}

/* A process of its own, so that nothing else has started helpers. */
START_TEST(nothing_waits_for_a_helper_that_has_no_chunk) {
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    alarm(60);
    runs_beside_a_held_helper();
    _exit(0);
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
}
END_TEST

/* The caller's chunks last until a helper has run one. */
static void wait_for_help(void *context, int64_t chunk, int32_t worker) {
  meeting *m = context;
  note_thread(m, chunk, worker);
  while (atomic_load(&m->elsewhere) == 0) sched_yield();
}

/* Another caller and its helper are in the middle of chunks meanwhile. */
START_TEST(callers_leave_each_other_the_processors) {
  meeting m = {.caller = pthread_self()};
  pthread_t holder;
  sem_init(&m.go, 0, 0);
  sem_init(&m.held, 0, 0);
  ck_assert_int_eq(pthread_create(&holder, NULL, hold, &m), 0);
  while (sem_wait(&m.held) != 0) continue;
  team_assume_processors(2);
  for (int i = 0; i < 1000; i++) team_run(3, 16, note_thread, &m);
  ck_assert_int_eq(m.elsewhere, 0);
  team_assume_processors(3);
  team_run(3, 16, wait_for_help, &m);
  ck_assert_int_gt(m.elsewhere, 0);
  sem_post(&m.held);
  sem_post(&m.go);
  pthread_join(holder, NULL);
  team_assume_processors(processors_count());
}
END_TEST

/* Chunks so long that a helper would take some. */
static void note_thread_slowly(void *context, int64_t chunk, int32_t worker) {
  note_thread(context, chunk, worker);
  usleep(200);
}

static void *enter_and_wait(void *context) {
  meeting *m = context;
  team_enter();
  sem_post(&m->held);
  while (sem_wait(&m->go) != 0) continue;
  team_enter();
  team_leave(); /* the inner call's end changes nothing */
  sem_post(&m->held);
  while (sem_wait(&m->go) != 0) continue;
  team_leave();
  return NULL;
}

/* Another thread is between team_enter and team_leave, and has no job. */
START_TEST(a_thread_that_has_entered_keeps_a_processor) {
  meeting m = {.caller = pthread_self()};
  pthread_t entered;
  sem_init(&m.go, 0, 0);
  sem_init(&m.held, 0, 0);
  team_assume_processors(2);
  ck_assert_int_eq(pthread_create(&entered, NULL, enter_and_wait, &m), 0);
  for (int turn = 0; turn < 2; turn++) {
    while (sem_wait(&m.held) != 0) continue;
    for (int i = 0; i < 20; i++) team_run(2, 16, note_thread_slowly, &m);
    ck_assert_int_eq(m.elsewhere, 0);
    sem_post(&m.go);
  }
  pthread_join(entered, NULL);
  team_run(2, 16, wait_for_help, &m);
  ck_assert_int_gt(m.elsewhere, 0);
  team_assume_processors(processors_count());
}
END_TEST

static void count_helped(void *context, int64_t chunk, int32_t worker) {
  (void)chunk;
  if (worker > 0) atomic_fetch_add((atomic_int *)context, 1);
  usleep(1000);
}

/* True if a helper takes part in one of many jobs of 20 ms: on a crowded machine it may miss dozens. */
static bool helpers_help(void) {
  atomic_int helped = 0;
  for (int tries = 0; tries < 1000 && !helped; tries++) team_run(2, 20, count_helped, &helped);
  return helped > 0;
}

START_TEST(helpers_help_also_after_a_pause) {
  for (int i = 0; i < 3; i++) {
    ck_assert(helpers_help());
    usleep(20000); /* helpers sleep by now */
  }
}
END_TEST

/* Worker of each chunk. */
typedef struct taken {
  int32_t worker[20];
  atomic_int helped;
} taken;

static void note_worker(void *context, int64_t chunk, int32_t worker) {
  taken *t = context;
  t->worker[chunk] = worker;
  count_helped(&t->helped, chunk, worker);
}

/* A thread then meets the same part of the work in job after job. */
START_TEST(the_caller_takes_the_first_chunks_and_helpers_the_last) {
  for (int32_t n_workers = 2; n_workers < 4; n_workers++) {
    taken t = {.helped = 0};
    for (int tries = 0; tries < 1000 && !t.helped; tries++) team_run(n_workers, 20, note_worker, &t);
    ck_assert_int_gt(t.helped, 0);
    bool helpers = false;
    for (int i = 0; i < 20; i++) {
      if (t.worker[i] > 0) helpers = true;
      else ck_assert(!helpers);
    }
    ck_assert(helpers);
  }
}
END_TEST

/* A chunk lasts until as many threads as the job has workers are in chunks: each thread runs one chunk. */
static void wait_for_all(void *context, int64_t chunk, int32_t worker) {
  (void)chunk, (void)worker;
  atomic_int *missing = context;
  atomic_fetch_sub(missing, 1);
  while (atomic_load(missing) > 0) usleep(200);
}

/* Returns once all helpers of the process run chunks. No machine is too busy for it; without helpers it never returns.
 */
static void meet_all_helpers(int32_t n_workers) {
  atomic_int missing = n_workers;
  team_run(n_workers, n_workers, wait_for_all, &missing);
}

/* Before the fork all helpers are met: a thread that is still being started may hold a lock of the sanitizers' heap
 * (gcc 12), which no thread of the child would release. */
START_TEST(the_child_of_a_fork_has_helpers_of_its_own) {
  enum { WORKERS = 5 }; /* the most workers that run_many asks for */
  run_many(&(unsigned){2});
  meet_all_helpers(WORKERS);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    signal(SIGALRM, SIG_DFL); /* Check's handler would kill the parent, too */
    alarm(200);
    run_many(&(unsigned){3});
    meet_all_helpers(WORKERS);
    _exit(0);
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(status == 0, "the child ended with status %d (%d: it has no helpers)", status, SIGALRM);
  run_many(&(unsigned){4});
}
END_TEST

/* ---- CPUs ---- */

/* The nth CPU of the affinity, or -1. */
static int nth_cpu(const cpu_set_t *set, int n) {
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, set) && n-- == 0) return i;
  return -1;
}

static void pin(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
}

/* A thread that never lets its CPU be idle. */
typedef struct hog {
  int cpu;
  atomic_bool end;
} hog;

static void *be_hog(void *context) {
  hog *h = context;
  pin(h->cpu);
  while (!atomic_load(&h->end)) continue;
  return NULL;
}

typedef struct seen {
  int caller; /* the caller's CPU */
  atomic_int together, apart;
} seen;

static void note_cpu(void *context, int64_t chunk, int32_t worker) {
  (void)chunk;
  seen *s = context;
  if (worker > 0) atomic_fetch_add(sched_getcpu() == s->caller ? &s->together : &s->apart, 1);
  usleep(300);
}

/* With every other CPU busy the scheduler would let the helper run on its caller's, which is often idle here. */
START_TEST(a_helper_keeps_off_its_callers_cpu) {
  cpu_set_t all;
  ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
  int n_cpus = CPU_COUNT(&all);
  if (n_cpus < 2) return;
  meet_all_helpers(2);
  for (int turn = 0; turn < 2; turn++) { /* in the second turn the caller moves to the helper's CPU */
    seen s = {.caller = nth_cpu(&all, turn)};
    pin(s.caller);
    hog *hogs = calloc((size_t)n_cpus, sizeof *hogs);
    pthread_t *threads = calloc((size_t)n_cpus, sizeof *threads);
    for (int i = 0; i < n_cpus; i++) {
      hogs[i].cpu = nth_cpu(&all, i);
      if (i != turn) ck_assert_int_eq(pthread_create(&threads[i], NULL, be_hog, &hogs[i]), 0);
    }
    for (int tries = 0; tries < 5000 && s.apart < 20; tries++) team_run(2, 20, note_cpu, &s);
    for (int i = 0; i < n_cpus; i++) {
      atomic_store(&hogs[i].end, true);
      if (i != turn) pthread_join(threads[i], NULL);
    }
    free(hogs), free(threads);
    ck_assert_int_eq(s.together, 0);
    ck_assert_int_ge(s.apart, 20);
    ck_assert_int_eq(sched_setaffinity(0, sizeof all, &all), 0);
  }
}
END_TEST

/* A thread that keeps off CPU a may return to it when it leaves CPU b. An affinity that other code sets meanwhile is
 * obeyed. */
START_TEST(a_thread_leaves_only_for_cpus_that_it_is_allowed) {
  cpu_set_t all, now;
  ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
  if (CPU_COUNT(&all) < 2) return;
  int a = nth_cpu(&all, 0), b = nth_cpu(&all, 1);
  processors_off off = {0};
  processors_leave(a, &off);
  ck_assert_int_ne(sched_getcpu(), a);
  processors_leave(b, &off);
  ck_assert_int_ne(sched_getcpu(), b);
  sched_getaffinity(0, sizeof now, &now);
  ck_assert(CPU_ISSET(a, &now) && !CPU_ISSET(b, &now));
  ck_assert_int_eq(CPU_COUNT(&now), CPU_COUNT(&all) - 1);
  pin(b);
  processors_leave(b, &off);
  ck_assert_int_eq(sched_getcpu(), b);
  sched_getaffinity(0, sizeof now, &now);
  ck_assert_int_eq(CPU_COUNT(&now), 1);
  ck_assert_int_eq(sched_setaffinity(0, sizeof all, &all), 0);
}
END_TEST

static char root[64];

static void make_root(void) {
  strcpy(root, "cgroups.XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(root));
}

static void remove_root(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", root);
  ck_assert_int_eq(system(command), 0);
}

/* Writes a file below the root, with its folders. */
static void put(const char *path, const char *text) {
  char full[512], *slash;
  snprintf(full, sizeof full, "%s/%s", root, path);
  for (slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(full, 0755);
    *slash = '/';
  }
  FILE *file = fopen(full, "w");
  ck_assert_ptr_nonnull(file);
  fputs(text, file);
  fclose(file);
}

static void expect(int32_t n) { ck_assert_int_eq(processors_of_groups(root), n); }

START_TEST(quotas_of_version_2_count) {
  expect(0); /* no file at all */
  put("proc/self/cgroup", "0::/pod/box\n");
  expect(0);
  put("sys/fs/cgroup/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
  expect(0);
  put("sys/fs/cgroup/pod/cpu.max",
      "250000 100000\n"); /* the quota of the enclosing group; two and a half CPUs are worth three threads */
  expect(3);
  put("sys/fs/cgroup/pod/box/cpu.max", "50000 100000\n");
  expect(1);
  put("sys/fs/cgroup/pod/box/cpu.max", "400000 100000\n");
  expect(3);
  put("proc/self/cgroup", "0::/\n"); /* as a container sees itself */
  expect(0);
  put("sys/fs/cgroup/cpu.max", "200000 100000\n");
  expect(2);
  put("proc/self/cgroup", "0::/elsewhere/unseen\n"); /* the host's path, which the container can not see */
  expect(2);
  put("sys/fs/cgroup/cpu.max", "nonsense\n");
  expect(0);
}
END_TEST

START_TEST(quotas_of_version_1_count) {
  put("proc/self/cgroup", "5:memory:/a\n3:cpuset:/b\n2:cpu,cpuacct:/docker/x\n1:name=systemd:/c\n");
  expect(0);
  put("sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000\n");
  expect(0);
  put("sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "150000\n");
  expect(2);
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n");
  expect(1);
  put("proc/self/cgroup", "2:cpuacct:/docker/x\n");
  expect(0);
}
END_TEST

/* A folder named by the list of controllers, without the link "cpu" beside it. */
START_TEST(quotas_of_version_1_count_under_the_name_of_all_controllers) {
  put("proc/self/cgroup", "7:cpuset:/b\n4:cpuacct,cpu:/docker/x\n");
  put("sys/fs/cgroup/cpuacct,cpu/docker/x/cpu.cfs_quota_us", "300000\n");
  put("sys/fs/cgroup/cpuacct,cpu/docker/x/cpu.cfs_period_us", "100000\n");
  expect(3);
  put("sys/fs/cgroup/cpuacct,cpu/cpu.cfs_quota_us", "10000\n");
  put("sys/fs/cgroup/cpuacct,cpu/cpu.cfs_period_us", "100000\n");
  expect(1);
}
END_TEST

/* Version 2 is mounted beside version 1, whose groups have no quota. */
START_TEST(quotas_of_version_2_count_beside_version_1) {
  put("proc/self/cgroup", "2:cpu,cpuacct:/\n0::/user.slice\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  expect(0);
  put("sys/fs/cgroup/unified/user.slice/cpu.max", "max 100000\n");
  expect(0);
  put("sys/fs/cgroup/unified/cpu.max", "nan 100000\n");
  expect(0);
  put("sys/fs/cgroup/unified/cpu.max", "150000 100000\n");
  expect(2);
}
END_TEST

START_TEST(affinity_counts) {
  cpu_set_t before, one;
  ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
  int32_t all = processors_count();
  ck_assert_int_ge(all, 1);
  ck_assert_int_le(all, CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
  ck_assert_int_eq(processors_count(), 1);
  ck_assert_int_eq(sched_setaffinity(0, sizeof before, &before), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("team");
  TCase *chunks = tcase_create("chunks"), *waiting = tcase_create("waiting"), *cpus = tcase_create("CPUs");
  tcase_set_timeout(chunks, 300);
  tcase_set_timeout(waiting, 300);
  tcase_add_test(chunks, every_chunk_runs_once);
  tcase_add_test(chunks, many_callers_share_the_helpers);
  tcase_add_test(chunks, chunks_may_call_the_team);
  tcase_add_test(chunks, more_chunks_than_24_bits_count);
  if (MAY_FORK) tcase_add_test(waiting, nothing_waits_for_a_helper_that_has_no_chunk);
  tcase_add_test(waiting, callers_leave_each_other_the_processors);
  tcase_add_test(waiting, a_thread_that_has_entered_keeps_a_processor);
  tcase_add_test(waiting, helpers_help_also_after_a_pause);
  tcase_add_test(waiting, the_caller_takes_the_first_chunks_and_helpers_the_last);
  if (MAY_FORK) tcase_add_test(waiting, the_child_of_a_fork_has_helpers_of_its_own);
  tcase_add_test(waiting, a_helper_keeps_off_its_callers_cpu);
  tcase_add_test(waiting, a_thread_leaves_only_for_cpus_that_it_is_allowed);
  tcase_add_checked_fixture(cpus, make_root, remove_root);
  tcase_add_test(cpus, quotas_of_version_2_count);
  tcase_add_test(cpus, quotas_of_version_1_count);
  tcase_add_test(cpus, quotas_of_version_1_count_under_the_name_of_all_controllers);
  tcase_add_test(cpus, quotas_of_version_2_count_beside_version_1);
  tcase_add_test(cpus, affinity_counts);
  suite_add_tcase(suite, chunks);
  suite_add_tcase(suite, waiting);
  suite_add_tcase(suite, cpus);
  return suite_run(suite);
}
