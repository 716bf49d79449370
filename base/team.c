/* The helper threads (team.h). Not here: the work of a chunk (ops/cpu/common/common.h) and the count of CPUs
 * (processors.c).
 *
 * A call of team_run publishes a job in one of a few static places. One word, the gate, holds the job's generation, the
 * number of helpers that have joined, and the numbers of chunks taken from the first and from the last on. The caller
 * takes the first chunks and helpers the last ones, so that a thread mostly reads what it wrote itself in the job
 * before: caches of two cores are far from each other. A thread takes a chunk by one compare-and-swap of the gate. A
 * helper reads the other members before; they change only while the gate is closed, and every job has a generation of
 * its own, so a swap that succeeds shows that they belong to this job. The job ends when as many chunks are done as it
 * has; a helper that only looks at a place is not waited for. */
#include "base/team.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "base/chunk_clock.h"
#include "base/clock.h"
#include "base/processors.h"
#include "base/stalls.h"

#define PLACES 32               /* jobs at a time; more callers than that work alone */
#define POLL_NS 150000          /* of a helper without work, before it sleeps */
#define WORTH_WAKING_NS 100000  /* of a caller's work in team_run_lazy, for which it wakes helpers */
#define LAZY_CHUNKS 8           /* a lazy job of fewer chunks may be short */
#define WAIT_NS 30000           /* of a caller for chunks that helpers are in the middle of, before it sleeps */
#define LOOKS_PER_TIME_CHECK 16 /* of a loop that polls */

#define END_BITS 16
#define HELPER_BITS 7
#define CLOSED (((uint64_t)1 << END_BITS) - 1) /* no job has so many chunks */
#define MAX_CHUNKS (CLOSED - 1)
#define ONE_LAST ((uint64_t)1 << END_BITS)
#define ONE_HELPER (ONE_LAST << END_BITS)
#define ONE_GENERATION (ONE_HELPER << HELPER_BITS)
_Static_assert(TEAM_MAX_WORKERS <= 1 << HELPER_BITS, "the gate counts the helpers");

typedef struct job {
  _Alignas(64) _Atomic uint64_t gate; /* from the top: generation, helpers that have joined, chunks taken by them, by
                                         the caller */
  /* these change only while the gate is closed */
  _Atomic(team_fn *) fn;
  _Atomic(void *) context;
  _Atomic uint32_t n_chunks;
  _Atomic uint32_t max_helpers;
  _Atomic int32_t cpu; /* on which the caller published the job */
  _Alignas(64) _Atomic uint32_t n_done;
  atomic_bool used;    /* a caller has the place */
  atomic_bool waiting; /* the caller sleeps */
  sem_t finished;      /* wakes it */
} job;

static struct {
  job jobs[PLACES];
  _Alignas(64) _Atomic uint32_t posted; /* counts jobs and, at the end, the call to leave */
  _Atomic int32_t n_places;             /* places ever used: those before have had a job */
  _Atomic int32_t n_callers;            /* threads between team_enter and team_leave */
  _Atomic int32_t n_cpus;               /* 0: not counted yet */
  _Atomic int32_t n_polling, n_asleep;
  _Atomic int64_t expected_ns;           /* the last call of team_expect */
  _Atomic int64_t alone_ns, alone_until; /* lazy jobs' time while no helper was awake, and the end of the last one */
  stalls stalls;
  atomic_bool leaving;
  sem_t work; /* wakes helpers */
  pthread_mutex_t starting;
  _Atomic int32_t n_helpers; /* changes with `starting` locked */
  pthread_t helpers[TEAM_MAX_WORKERS];
} team;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local int32_t n_entered; /* calls of team_enter without team_leave */
static _Thread_local uint64_t n_jobs;   /* worth waking helpers */
static _Thread_local team_measure *measure;
static _Atomic int32_t n_measuring; /* threads that have a measure */

/* ---- polling ---- */

static int64_t now_ns(void) { return clock_read_ns(CLOCK_MONOTONIC); }

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/* Beside processes that want the CPUs, nobody polls: the scheduler counts the time that a thread spends polling against
 * the thread's next chunks, and it lets a thread that wakes run before those that always run. */
static bool is_crowded(int64_t now) { return stalls_crowded(&team.stalls, now); }

/* ---- chunks ---- */

/* Takes a chunk of the job. joins: the thread's first one as a helper; *out_worker becomes its number then, and
 * *generation the job's. *out_worker: the thread's number before, 0 for the caller. Otherwise a place with another
 * generation has none: there the thread has no number yet. */
static bool take(job *j, bool joins, uint64_t *generation, uint32_t *out_chunk, int32_t *out_worker, team_fn **out_fn,
                 void **out_context) {
  uint64_t gate = atomic_load_explicit(&j->gate, memory_order_acquire);
  for (;;) {
    uint64_t n_first = gate & CLOSED, n_last = gate / ONE_LAST & CLOSED,
             n_joined = gate / ONE_HELPER & ((1 << HELPER_BITS) - 1),
             n_chunks = atomic_load_explicit(&j->n_chunks, memory_order_relaxed);
    bool helps = joins || *out_worker > 0;
    if (!joins && gate / ONE_GENERATION != *generation) return false;
    if (n_first == CLOSED || n_first + n_last >= n_chunks) return false;
    if (joins && n_joined >= atomic_load_explicit(&j->max_helpers, memory_order_relaxed)) return false;
    *out_fn = atomic_load_explicit(&j->fn, memory_order_relaxed);
    *out_context = atomic_load_explicit(&j->context, memory_order_relaxed);
    uint64_t taken = gate + (helps ? ONE_LAST : 1) + (joins ? ONE_HELPER : 0);
    if (atomic_compare_exchange_weak_explicit(&j->gate, &gate, taken, memory_order_acq_rel, memory_order_acquire)) {
      *out_chunk = (uint32_t)(helps ? n_chunks - 1 - n_last : n_first);
      if (joins) *out_worker = (int32_t)n_joined + 1;
      *generation = gate / ONE_GENERATION;
      return true;
    }
  }
}

/* Runs one chunk after the other until none is left. generation: of the caller's job; a helper takes it as it joins.
 * Returns the number of chunks that the thread has run. */
static uint32_t run_chunks(job *j, bool joins, uint64_t generation) {
  uint32_t n = 0, chunk;
  int32_t worker = 0;
  team_fn *fn;
  void *context;
  while (take(j, joins, &generation, &chunk, &worker, &fn, &context)) {
    joins = false;
    fn(context, chunk, worker);
    n++;
    /* released so that the caller sees what the chunk wrote */
    uint32_t n_chunks = atomic_load_explicit(&j->n_chunks, memory_order_relaxed);
    bool is_last = atomic_fetch_add(&j->n_done, 1) + 1 == n_chunks;
    if (is_last && atomic_exchange(&j->waiting, false)) sem_post(&j->finished);
  }
  return n;
}

/* ---- helpers ---- */

/* A helper on its caller's CPU would only run in the caller's stead, and the scheduler puts it there gladly: where it
 * has run before, or where it was woken from, as soon as no other CPU is idle. So it goes elsewhere before it takes a
 * chunk, which the caller would have to wait for. */
static void keep_off_caller(const job *j, processors_off *off) {
  int32_t cpu = atomic_load_explicit(&j->cpu, memory_order_relaxed);
  if (cpu >= 0 && cpu == sched_getcpu()) processors_leave(cpu, off);
}

/* Runs chunks of every job that is open. False: there was none. */
static bool help(processors_off *off) {
  uint32_t n = 0;
  int32_t n_places = atomic_load_explicit(&team.n_places, memory_order_acquire);
  for (int32_t i = 0; i < n_places; i++) {
    job *j = &team.jobs[i];
    if ((atomic_load_explicit(&j->gate, memory_order_acquire) & CLOSED) == CLOSED) continue;
    keep_off_caller(j, off);
    n += run_chunks(j, true, 0);
  }
  return n > 0;
}

/* Counted when it is first needed, because that takes as long as a small program's first run. */
static int32_t cpus(void) {
  int32_t n = atomic_load_explicit(&team.n_cpus, memory_order_relaxed);
  if (!n) atomic_store(&team.n_cpus, n = processors_count());
  return n;
}

/* The most helpers that a job is worth. Several callers at a time have a CPU each, and helpers the CPUs that are left;
 * one caller gets as many helpers as it asks for. */
static int32_t helpers_worth(int32_t wanted) {
  int32_t n_callers = atomic_load_explicit(&team.n_callers, memory_order_relaxed);
  if (n_callers <= 1) return wanted;
  int32_t left = cpus() - n_callers;
  return wanted <= left ? wanted : left > 0 ? left : 0;
}

/* True if a helper that has polled long enough goes on, because some caller expects a job. */
static bool is_expected(int64_t now) {
  return now < atomic_load_explicit(&team.expected_ns, memory_order_relaxed) + POLL_NS && !is_crowded(now) &&
         helpers_worth(1) > 0;
}

/* Polls for a job newer than `posted`. False: none came in time. */
static bool poll_for_work(uint32_t posted) {
  bool found = false;
  int64_t now = now_ns(), end = now + POLL_NS;
  if (is_crowded(now) || helpers_worth(1) == 0) return false;
  atomic_fetch_add(&team.n_polling, 1);
  do {
    int64_t before = now;
    for (int i = 0; i < LOOKS_PER_TIME_CHECK && !found; i++) {
      relax();
      found = atomic_load_explicit(&team.posted, memory_order_acquire) != posted;
    }
    now = now_ns();
    stalls_note(&team.stalls, before, now);
  } while (!found && (now < end || is_expected(now)));
  atomic_fetch_sub(&team.n_polling, 1);
  return found;
}

/* Takes one helper out of the sleeping ones: the caller must post `work` for it, or be it. */
static bool claim_asleep(void) {
  int32_t n = atomic_load(&team.n_asleep);
  while (n > 0 && !atomic_compare_exchange_weak(&team.n_asleep, &n, n - 1)) continue;
  return n > 0;
}

static void sleep_for_work(uint32_t posted) {
  atomic_fetch_add(&team.n_asleep, 1);
  if (atomic_load(&team.posted) != posted && claim_asleep()) return;
  while (sem_wait(&team.work) != 0) continue; /* interrupted */
}

static void *be_helper(void *unused) {
  processors_off off = {0};
  for (;;) {
    uint32_t posted = atomic_load(&team.posted);
    if (atomic_load(&team.leaving)) return unused;
    if (!help(&off) && !poll_for_work(posted)) sleep_for_work(posted);
  }
}

/* Signals belong to the program's own threads, but for those of a chunk's own faults, such as a mapped file that was
 * made shorter: the system ends a process that blocks them. */
static bool start_one(pthread_t *out_thread) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
  sigset_t all, before;
  sigfillset(&all);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&all, faults[i]);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool ok = pthread_create(out_thread, NULL, be_helper, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return ok;
}

/* Sees to it that there are n helpers, as far as the system gives threads. */
static void start(int32_t n) {
  if (atomic_load_explicit(&team.n_helpers, memory_order_relaxed) >= n) return;
  pthread_mutex_lock(&team.starting);
  int32_t have = atomic_load(&team.n_helpers);
  while (have < n && !atomic_load(&team.leaving) && start_one(&team.helpers[have])) have++;
  atomic_store(&team.n_helpers, have);
  pthread_mutex_unlock(&team.starting);
}

/* ---- process ---- */

static void init_places(void) {
  for (int32_t i = 0; i < PLACES; i++) {
    job *j = &team.jobs[i];
    /* a generation that no job has had, for team_end_aside in the child of a fork */
    const uint64_t generation = atomic_load(&j->gate) / ONE_GENERATION * ONE_GENERATION + ONE_GENERATION;
    atomic_store(&j->gate, generation | CLOSED);
    atomic_store(&j->used, false);
    atomic_store(&j->waiting, false);
    sem_init(&j->finished, 0, 0);
  }
  pthread_mutex_init(&team.starting, NULL);
  sem_init(&team.work, 0, 0);
}

/* In the child of a fork: there are no helpers, and whoever had a place is gone. */
static void begin_child(void) {
  atomic_store(&team.n_helpers, 0);
  atomic_store(&team.n_callers, n_entered > 0); /* by the thread that forked */
  atomic_store(&team.n_polling, 0);
  atomic_store(&team.n_asleep, 0);
  init_places();
}

static void init(void) {
  init_places();
  pthread_atfork(NULL, NULL, begin_child);
}

void team_assume_processors(int32_t n) {
  pthread_once(&once, init);
  atomic_store(&team.n_cpus, n);
}

/* Before the library's code is unmapped. */
__attribute__((destructor)) static void leave(void) {
  if (!atomic_load(&team.n_helpers)) return;
  atomic_store(&team.leaving, true);
  pthread_mutex_lock(&team.starting);
  int32_t n = atomic_exchange(&team.n_helpers, 0);
  atomic_fetch_add(&team.posted, 1);
  while (claim_asleep()) sem_post(&team.work);
  pthread_mutex_unlock(&team.starting);
  for (int32_t i = 0; i < n; i++) pthread_join(team.helpers[i], NULL);
}

/* ---- callers ---- */

void team_enter(void) {
  if (n_entered++ == 0) atomic_fetch_add(&team.n_callers, 1);
}

void team_leave(void) {
  if (--n_entered == 0) atomic_fetch_sub(&team.n_callers, 1);
}

static job *place_take(void) {
  for (int32_t i = 0; i < PLACES; i++) {
    if (atomic_load_explicit(&team.jobs[i].used, memory_order_relaxed) || atomic_exchange(&team.jobs[i].used, true))
      continue;
    int32_t n = atomic_load(&team.n_places);
    while (n <= i && !atomic_compare_exchange_weak(&team.n_places, &n, i + 1)) continue;
    return &team.jobs[i];
  }
  return NULL;
}

/* Wakes helpers for a job that has room for `wanted` of them. */
static void wake(int32_t wanted) {
  atomic_fetch_add(&team.posted, 1);
  int32_t n = wanted - atomic_load(&team.n_polling);
  while (n-- > 0 && claim_asleep()) sem_post(&team.work);
}

void team_expect(void) { atomic_store_explicit(&team.expected_ns, now_ns(), memory_order_relaxed); }

void team_wake(int32_t n_workers) {
  if (n_workers <= 1 || is_crowded(now_ns())) return;
  team_expect();
  int32_t n = helpers_worth(n_workers - 1) - atomic_load(&team.n_polling);
  while (n-- > 0 && claim_asleep()) sem_post(&team.work);
}

uint64_t team_n_jobs(void) { return n_jobs; }

static bool is_done(job *j, uint32_t n_chunks) { return atomic_load(&j->n_done) == n_chunks; }

/* Waits for the chunks that helpers are in the middle of. */
static void wait_for_others(job *j, uint32_t n_chunks) {
  if (is_done(j, n_chunks)) return;
  int64_t begin = now_ns(), now = begin, end = is_crowded(begin) ? begin : begin + WAIT_NS;
  while (now < end) {
    for (int i = 0; i < LOOKS_PER_TIME_CHECK; i++) {
      if (is_done(j, n_chunks)) return;
      relax();
    }
    now = now_ns();
  }
  while (!is_done(j, n_chunks)) {
    atomic_store(&j->waiting, true);
    if (is_done(j, n_chunks) && atomic_exchange(&j->waiting, false)) return;
    while (sem_wait(&j->finished) != 0) continue; /* a helper of an earlier job may also have posted */
    stalls_note(&team.stalls, begin, now_ns());
  }
}

static void run_alone(int64_t n_chunks, team_fn *fn, void *context) {
  for (int64_t i = 0; i < n_chunks; i++) fn(context, i, 0);
}

/* Opens the job's gate. Returns its generation, in the gate's place. */
static uint64_t publish(job *j, team_fn *fn, void *context, uint32_t n_chunks, uint32_t n_helpers) {
  const uint64_t gate = atomic_load_explicit(&j->gate, memory_order_relaxed);
  atomic_store_explicit(&j->fn, fn, memory_order_relaxed);
  atomic_store_explicit(&j->context, context, memory_order_relaxed);
  atomic_store_explicit(&j->n_chunks, n_chunks, memory_order_relaxed);
  atomic_store_explicit(&j->max_helpers, n_helpers, memory_order_relaxed);
  atomic_store_explicit(&j->cpu, sched_getcpu(), memory_order_relaxed);
  atomic_store_explicit(&j->n_done, 0, memory_order_relaxed);
  const uint64_t generation = gate / ONE_GENERATION * ONE_GENERATION + ONE_GENERATION;
  atomic_store_explicit(&j->gate, generation, memory_order_release);
  return generation;
}

/* Gives the place of a job back, all of whose chunks are done. */
static void withdraw(job *j, uint64_t generation) {
  atomic_store_explicit(&j->gate, generation | CLOSED, memory_order_release);
  atomic_store_explicit(&j->used, false, memory_order_release);
}

/* The caller's chunks and those of up to `wanted` helpers. */
static void run_together(int32_t wanted, int64_t n_chunks, team_fn *fn, void *context) {
  int32_t n_helpers = helpers_worth(wanted);
  job *j = NULL;
  if (n_helpers > 0) {
    start(wanted); /* some may be in the middle of other callers' chunks */
    j = place_take();
  }
  if (!j) return run_alone(n_chunks, fn, context);
  const uint64_t generation = publish(j, fn, context, (uint32_t)n_chunks, (uint32_t)n_helpers);
  wake(n_helpers);
  run_chunks(j, false, generation / ONE_GENERATION);
  wait_for_others(j, (uint32_t)n_chunks);
  withdraw(j, generation);
}

/* ---- work aside ---- */

/* The helper's jobs are those of a caller that has entered already. */
static void run_aside(void *context, int64_t chunk, int32_t worker) {
  (void)chunk, (void)worker;
  team_aside *a = context;
  n_entered++;
  a->fn(a->context);
  n_entered--;
}

bool team_begin_aside(team_aside *out_aside, team_aside_fn *fn, void *context) {
  job *j = atomic_load(&team.n_polling) > 0 && helpers_worth(1) > 0 ? place_take() : NULL;
  if (!j) return false;
  *out_aside = (team_aside){.fn = fn, .context = context, .job = j};
  out_aside->generation = publish(j, run_aside, out_aside, 1, 1);
  atomic_fetch_add(&team.posted, 1);
  return true;
}

bool team_end_aside(team_aside *a, bool waits) {
  job *j = a->job;
  uint64_t gate = atomic_load(&j->gate);
  if (gate / ONE_GENERATION != a->generation / ONE_GENERATION) return true; /* a child of a fork has other jobs */
  const bool came = gate != a->generation || !atomic_compare_exchange_strong(&j->gate, &gate, a->generation | CLOSED);
  if (came && !is_done(j, 1)) {
    if (!waits) return false;
    wait_for_others(j, 1);
  }
  withdraw(j, a->generation);
  return true;
}

/* More chunks than a gate can count: several become one. */
typedef struct grouped {
  team_fn *fn;
  void *context;
  int64_t n_chunks, per_group;
} grouped;

static void run_group(void *context, int64_t group, int32_t worker) {
  const grouped *g = context;
  int64_t end = (group + 1) * g->per_group;
  for (int64_t i = group * g->per_group; i < end && i < g->n_chunks; i++) g->fn(g->context, i, worker);
}

/* ---- lazy jobs ---- */

static bool is_helper_awake(void) { return atomic_load(&team.n_helpers) > atomic_load(&team.n_asleep); }

/* Runs chunks of a lazy job on the caller until the work of the lazy jobs is worth waking helpers. Returns the number
 * of chunks that have run. Jobs that follow each other add up, because a helper that is woken stays awake between them;
 * after a pause in which it would fall asleep the sum starts again. Sums of several callers at a time may be lost. */
static int64_t run_first_chunks(int64_t n_chunks, team_fn *fn, void *context) {
  int64_t before = now_ns(), sum = 0, n = 0;
  if (before - atomic_load_explicit(&team.alone_until, memory_order_relaxed) < POLL_NS)
    sum = atomic_load_explicit(&team.alone_ns, memory_order_relaxed);
  while (n < n_chunks && sum < WORTH_WAKING_NS) {
    fn(context, n++, 0);
    int64_t now = now_ns();
    sum += now - before;
    before = now;
  }
  atomic_store_explicit(&team.alone_ns, sum, memory_order_relaxed);
  atomic_store_explicit(&team.alone_until, before, memory_order_relaxed);
  return n;
}

/* The chunks of a job that are left. */
typedef struct rest {
  team_fn *fn;
  void *context;
  int64_t first;
} rest;

static void run_rest(void *context, int64_t chunk, int32_t worker) {
  const rest *r = context;
  r->fn(r->context, r->first + chunk, worker);
}

static void run_eager(int32_t n_workers, int64_t n_chunks, team_fn *fn, void *context) {
  if (n_workers > TEAM_MAX_WORKERS) n_workers = TEAM_MAX_WORKERS;
  if (n_workers > n_chunks) n_workers = (int32_t)n_chunks;
  if (n_workers <= 1) return run_alone(n_chunks, fn, context);
  if (n_chunks > (int64_t)MAX_CHUNKS) {
    int64_t per_group = n_chunks / (int64_t)MAX_CHUNKS + 1;
    grouped g = {fn, context, n_chunks, per_group};
    return run_eager(n_workers, (n_chunks + per_group - 1) / per_group, run_group, &g);
  }
  pthread_once(&once, init);
  team_enter();
  run_together(n_workers - 1, n_chunks, fn, context);
  team_leave();
}

static void run_lazy(int32_t n_workers, int64_t n_chunks, team_fn *fn, void *context) {
  const bool alone = n_workers > 1 && n_chunks < LAZY_CHUNKS && !is_helper_awake();
  const int64_t first = alone ? run_first_chunks(n_chunks, fn, context) : 0;
  n_jobs += n_workers > 1 && (n_chunks >= LAZY_CHUNKS || (alone && first < n_chunks));
  if (first == 0) return run_eager(n_workers, n_chunks, fn, context);
  run_eager(n_workers, n_chunks - first, run_rest, &(rest){fn, context, first});
}

/* ---- measures ---- */

typedef void run_fn(int32_t n_workers, int64_t n_chunks, team_fn *fn, void *context);

typedef struct measured {
  team_fn *fn;
  void *context;
  uint64_t number; /* of the job, counted from 1 over all threads */
  _Atomic int64_t longest_ns;
} measured;

static void run_measured_chunk(void *context, int64_t chunk, int32_t worker) {
  measured *m = context;
  chunk_clock_begin(m->number);
  m->fn(m->context, chunk, worker);
  int64_t longest = atomic_load(&m->longest_ns), ns = chunk_clock_end(longest);
  while (longest < ns && !atomic_compare_exchange_weak(&m->longest_ns, &longest, ns)) continue;
}

/* A chunk's own jobs are a part of the chunk. */
static void run_measured(run_fn *run, int32_t n_workers, int64_t n_chunks, team_fn *fn, void *context) {
  team_measure *to = measure;
  static _Atomic uint64_t n_measured;
  measured m = {.fn = fn, .context = context, .number = atomic_fetch_add(&n_measured, 1) + 1};
  int64_t begin = now_ns();
  measure = NULL;
  run(n_workers, n_chunks, run_measured_chunk, &m);
  measure = to;
  to->jobs_ns += now_ns() - begin;
  to->n_chunks += n_chunks;
  int64_t longest = atomic_load(&m.longest_ns);
  if (to->longest_ns < longest) to->longest_ns = longest;
}

static bool is_measured(void) { return atomic_load_explicit(&n_measuring, memory_order_relaxed) > 0 && measure; }

void team_measure_begin(team_measure *out_measure) {
  *out_measure = (team_measure){0};
  measure = out_measure;
  atomic_fetch_add(&n_measuring, 1);
}

void team_measure_end(void) {
  measure = NULL;
  atomic_fetch_sub(&n_measuring, 1);
}

/* ---- jobs ---- */

void team_run_lazy(int32_t n_workers, int64_t n_chunks, team_fn *fn, void *context) {
  if (is_measured()) run_measured(run_lazy, n_workers, n_chunks, fn, context);
  else run_lazy(n_workers, n_chunks, fn, context);
}

void team_run(int32_t n_workers, int64_t n_chunks, team_fn *fn, void *context) {
  n_jobs += n_workers > 1 && n_chunks > 1;
  if (is_measured()) run_measured(run_eager, n_workers, n_chunks, fn, context);
  else run_eager(n_workers, n_chunks, fn, context);
}
