/* Items of several steps (relay.h). A chunk of the team (base/team.h) is a right to run one step of whatever item is
 * free: which one, the thread chooses when it takes the chunk, so that a thread never waits for the step that another
 * one is in the middle of. A thread that finds no free item gives its right up. Rights that are missing at the end are
 * given out again, as often as items are left. */
#include "ops/cpu/common/relay.h"

#include <stdatomic.h>

#include "base/team.h"

#define RIGHTS_MOST 32768 /* at a time: the team would join more chunks than that */

/* The item that a thread has begun, and counts of the place. The members change only while `busy` is held. */
typedef struct place {
  _Alignas(64) atomic_bool busy;
  int64_t item, step; /* item -1: none */
  int64_t n_steps, n_ended;
} place;

typedef struct relay {
  cpu_team team;
  int64_t n;
  cpu_step_fn fn;
  void *context;
  _Atomic int64_t n_first, n_last, n_begun; /* items begun by the caller, by helpers, and rights to begin one */
  place places[TEAM_MAX_WORKERS];
} relay;

/* The next item for a thread; -1: all have been begun. */
static int64_t begin_item(relay *r, bool is_caller) {
  if (atomic_fetch_add(&r->n_begun, 1) >= r->n) return -1;
  return is_caller ? atomic_fetch_add(&r->n_first, 1) : r->n - 1 - atomic_fetch_add(&r->n_last, 1);
}

/* Runs the next step of a place's item. begins: a place without an item gets one. False: nothing was to be run, or
 * another thread is in the middle of it. */
static bool run_step(relay *r, int32_t number, bool begins) {
  place *p = &r->places[number];
  if (atomic_exchange_explicit(&p->busy, true, memory_order_acquire)) return false;
  if (p->item < 0 && begins) {
    p->item = begin_item(r, number == 0);
    p->step = 0;
  }
  bool runs = p->item >= 0;
  if (runs) {
    bool goes_on = r->fn(r->context, p->item, p->step++, number);
    p->n_steps++;
    if (!goes_on) {
      p->item = -1;
      p->n_ended++;
    }
  }
  atomic_store_explicit(&p->busy, false, memory_order_release);
  return runs;
}

/* A right is a range of one. */
static void run_right(void *context, int64_t begin, int64_t end, int32_t worker) {
  (void)begin;
  (void)end;
  relay *r = context;
  if (run_step(r, worker, true)) return;
  for (int32_t i = 0; i < r->team.threads; i++)
    if (i != worker && run_step(r, i, false)) return;
}

reed_status cpu_relay(cpu_team team, int64_t n, int64_t n_steps, cpu_step_fn fn, void *context) {
  if (team.threads > TEAM_MAX_WORKERS) team.threads = TEAM_MAX_WORKERS;
  relay r;
  r.team = team;
  r.n = n;
  r.fn = fn;
  r.context = context;
  atomic_init(&r.n_first, 0);
  atomic_init(&r.n_last, 0);
  atomic_init(&r.n_begun, 0);
  for (int32_t i = 0; i < team.threads; i++) {
    r.places[i] = (place){.item = -1};
    atomic_init(&r.places[i].busy, false);
  }
  reed_status status = cpu_cancelled(&team) ? REED_ERROR_CANCELLED : REED_OK;
  for (int64_t left = n; left > 0 && status == REED_OK;) {
    const int64_t wanted = n_steps > left ? n_steps : left, rights = wanted < RIGHTS_MOST ? wanted : RIGHTS_MOST;
    team.threads = left < team.threads ? (int32_t)left : team.threads;
    team.chunks = (int32_t)rights;
    status = cpu_parallel_scratch(team, rights, 1, run_right, &r);
    for (int32_t i = 0; i < r.team.threads; i++) {
      n_steps -= r.places[i].n_steps;
      left -= r.places[i].n_ended;
      r.places[i].n_steps = r.places[i].n_ended = 0;
    }
  }
  return status;
}
