/* Giving calls to the helper, and taking their kernels back (tail.h).
 *
 * One word, n_taken, says who prepares a call: the helper moves it on by a few calls at a time, the walk by the call it
 * has come to. So both go through the tail in one direction, the helper mostly ahead of the walk. */
#include "vm/epoch/tail.h"

#include <string.h>

#include "base/hook.h"
#include "vm/call.h"
#include "vm/epoch/planner.h"

enum {
  FORMED_AT_ONCE = 8, /* calls, so that the CPU waits for several places of the kernels' table at a time */
  TAKEN_AT_ONCE = 4,  /* calls, by the helper */
  LEAST_CALLS = 8,    /* fewer are not worth a helper's while */
  LOOKS = 8,          /* of a thread that waits, between two looks at the clock */
  MOST_WAIT_NS = 4000 /* of the walk in one plan, the time of some five kernels */
};

/* The tail's share of the kernels, in parts of SHARES. It adapts itself: a helper whose CPU is far from the caller's
 * takes longer. */
enum { SHARES = 32, FIRST_SHARE = 14, LEAST_SHARE = 4, MOST_SHARE = 20 };

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/* ---- the helper ---- */

static void prepare_call(plan_tail *t, uint32_t number) {
  const tail_call *call = &t->calls[number];
  tail_kernel *k = &t->made[number];
  if (call_prepare_words(t->program, t->devices, call->site, t->words + call->formed.first, &k->kernel) != REED_OK)
    k->kernel = (reed_kernel){0}; /* the walk's attempt has the diagnosis */
  atomic_store_explicit(&k->done, true, memory_order_release);
}

static void prepare_calls(void *context) {
  plan_tail *t = context;
  mem_row *before = rows_use(t->states);
  for (;;) {
    const bool ended = atomic_load_explicit(&t->ended, memory_order_acquire);
    const uint32_t n = atomic_load_explicit(&t->n_ready, memory_order_acquire);
    uint32_t first = atomic_load_explicit(&t->n_taken, memory_order_relaxed);
    if (first >= n) {
      if (ended) break;
      relax();
      continue;
    }
    const uint32_t end = n - first < TAKEN_AT_ONCE ? n : first + TAKEN_AT_ONCE;
    if (!atomic_compare_exchange_strong(&t->n_taken, &first, end)) continue;
    for (uint32_t i = first; i < end; i++) prepare_call(t, i);
  }
  (void)rows_use(before);
}

/* ---- the walk's thread ---- */

/* Frees kernels that nobody has taken. False, unless `waits`: the helper is still at some call. */
static bool finish(plan_tail *t, bool waits) {
  if (!t->begun) return true;
  if (!team_end_aside(&t->aside, waits)) return false;
  t->begun = false;
  for (uint32_t i = 0; i < t->n; i++) {
    const tail_kernel *k = &t->made[i];
    if (atomic_load(&k->done) && k->kernel.free) k->kernel.free(k->kernel.state);
  }
  t->n = 0;
  return true;
}

void tail_rest(plan_tail *t) {
  if (t) (void)finish(t, true);
}

void tail_close(plan_tail **tail) {
  tail_rest(*tail);
  mem_free_aligned(*tail);
  *tail = NULL;
}

/* The number among the base's kernels with which the tail begins; -1: there is none. With an allocator of the program's
 * own there is none, so that the order of its calls does not depend on the helper. */
static int32_t first_of(const epoch_planner *p) {
  const epoch_entry *base = p->base;
  if (!base || !p->has_jobs || p->devices->env.n_threads <= 1 || p->rooms || p->run->profile.spans || !hook_is_libc())
    return -1;
  const int32_t n_made = base->n_kernels - base->n_shared;
  const int32_t wanted = n_made * (p->tail ? p->tail->share : FIRST_SHARE) / SHARES;
  if (wanted < LEAST_CALLS) return -1;
  int32_t number = (int32_t)base->kernels.n;
  for (int32_t n = 0; n < wanted && number > 0;) n += base->kernels.items[--number].made;
  return number;
}

/* Makes an empty tail. NULL: no memory, or the helper is still at a call of the last one. */
static plan_tail *tail_open(epoch_planner *p) {
  plan_tail *t = p->tail;
  if (t && !finish(t, false)) return NULL;
  if (!t && (t = p->tail = mem_alloc_aligned(sizeof *t, 64))) {
    memset(t, 0, sizeof *t);
    t->share = FIRST_SHARE;
  }
  if (!t) return NULL;
  t->n = t->n_formed = t->n_found = 0;
  t->closed = false;
  t->n_words = 0;
  t->waited_ns = 0;
  t->program = p->run->program;
  t->devices = p->devices;
  t->states = &p->kernels->states_aside;
  atomic_store(&t->n_ready, 0);
  atomic_store(&t->n_taken, 0);
  atomic_store(&t->ended, false);
  return t;
}

/* True if the kernel of the call, which has this number among the entry's, has to be prepared as far as the base tells,
 * and may be by any thread. */
static bool is_for_helper(const epoch_planner *p, const insn_invoke *i, int32_t number) {
  const epoch_kernel *before = number < (int32_t)p->base->kernels.n ? &p->base->kernels.items[number] : NULL;
  return before && before->site == i->site && before->made && p->devices->bind[i->device] == 0 &&
         op_id_of(p->run->program->site_ops[i->site]) != OP_COUNT && ahead_is_exact(p, i) &&
         (active_any_changed(p->active, i->inputs, i->n_inputs) ||
          active_any_changed(p->active, i->outputs, i->n_outputs));
}

/* Forms the words of the call, and fetches the place where the search for its kernel begins. False: there is no room.
 */
static bool form_call(epoch_planner *p, const insn_invoke *i) {
  plan_tail *t = p->tail;
  tail_call *call = &t->calls[t->n_formed];
  if (t->n_formed == TAIL_CALLS || !call_form(p->run, p->kernels, 0, i, &call->formed)) return false;
  call->next = i->next;
  call->site = i->site;
  if (!call->formed.listed) return true;
  site_prefetch_slot(p->kernels, &call->formed);
  t->n_formed++;
  return true;
}

/* Gives the formed calls that have no kernel yet to the helper. False: there is no room. */
static bool give_calls(epoch_planner *p) {
  plan_tail *t = p->tail;
  uint32_t n = t->n;
  bool fits = true;
  for (uint32_t k = t->n; k < t->n_formed && fits; k++) {
    tail_call call = t->calls[k];
    if (site_is_likely(p->kernels, &call.formed)) continue;
    fits = call.formed.n <= TAIL_WORDS - t->n_words;
    if (!fits) break;
    memcpy(t->words + t->n_words, p->kernels->words.items + call.formed.first, call.formed.n * sizeof *t->words);
    call.formed.first = t->n_words;
    t->n_words += call.formed.n;
    t->calls[n] = call;
    atomic_store_explicit(&t->made[n++].done, false, memory_order_relaxed);
  }
  site_cut(p->kernels, 0);
  t->n = t->n_formed = n;
  atomic_store_explicit(&t->n_ready, n, memory_order_release);
  if (n && !t->begun) t->begun = team_begin_aside(&t->aside, prepare_calls, t);
  return fits && (t->begun || !n);
}

void tail_begin(epoch_planner *p, const uint32_t *w) {
  const int32_t first = first_of(p);
  plan_tail *t = first >= 0 ? tail_open(p) : NULL;
  if (!t) return;
  site_cut(p->kernels, 0);
  int32_t number = 0;
  for (bool on = true; on; w = insn_next(w)) {
    const insn_id id = insn_id_at(w);
    on = id == INSN_INVOKE || id == INSN_VIEW || id == INSN_COPY || id == INSN_KILL;
    if (id == INSN_INVOKE && number++ >= first) {
      const insn_invoke i = insn_invoke_at(w);
      if (is_for_helper(p, &i, number - 1)) on = form_call(p, &i);
    }
    if (!on || t->n_formed == t->n + FORMED_AT_ONCE) on &= give_calls(p);
  }
  atomic_store_explicit(&t->ended, true, memory_order_release);
  if (!t->begun) t->n = 0;
}

int32_t tail_find(epoch_planner *p, const insn_invoke *i) {
  plan_tail *t = p->tail;
  if (!t || t->n_found >= t->n || t->calls[t->n_found].next != i->next) return -1;
  return (int32_t)t->n_found++;
}

bool tail_form(const epoch_planner *p, int32_t number, site_call *out_call) {
  const site_call *given = &p->tail->calls[number].formed;
  const size_t first = p->kernels->words.n;
  if (!VEC_RESERVE(&p->kernels->words, first + given->n)) return false;
  memcpy(p->kernels->words.items + first, p->tail->words + given->first, given->n * sizeof(int64_t));
  p->kernels->words.n += given->n;
  *out_call = *given;
  out_call->first = first;
  return true;
}

/* Waits for the helper, but not long. */
static bool await(plan_tail *t, const tail_kernel *k) {
  bool done = atomic_load_explicit(&k->done, memory_order_acquire);
  if (done || t->waited_ns >= MOST_WAIT_NS) return done;
  const int64_t begin = clock_now_ns();
  int64_t waited;
  do {
    for (int i = 0; i < LOOKS && !done; i++) {
      relax();
      done = atomic_load_explicit(&k->done, memory_order_acquire);
    }
    waited = clock_now_ns() - begin;
  } while (!done && t->waited_ns + waited < MOST_WAIT_NS);
  t->waited_ns += waited;
  return done;
}

bool tail_take(epoch_planner *p, int32_t number, reed_kernel *out_kernel) {
  plan_tail *t = p->tail;
  tail_kernel *k = &t->made[number];
  uint32_t taken = atomic_load_explicit(&t->n_taken, memory_order_relaxed);
  while (taken <= (uint32_t)number)
    if (atomic_compare_exchange_strong(&t->n_taken, &taken, (uint32_t)number + 1)) return false;
  if (!await(t, k) || !k->kernel.run) return false;
  *out_kernel = k->kernel;
  k->kernel = (reed_kernel){0};
  t->n_helped++;
  return true;
}

void tail_end(epoch_planner *p) {
  plan_tail *t = p->tail;
  if (!t || !t->begun || t->closed) return;
  t->closed = true;
  atomic_store(&t->n_taken, t->n); /* the helper takes no other call */
  t->n_found = t->n;
  if (t->waited_ns > MOST_WAIT_NS / 2) t->share -= t->share >= LEAST_SHARE + 2 ? 2 : 0;
  else if (t->waited_ns == 0 && t->share < MOST_SHARE) t->share++;
  (void)finish(t, false);
}
