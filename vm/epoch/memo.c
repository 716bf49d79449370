/* The memo: finding, admitting, remembering and evicting entries. Keys: key.c. Contents of an entry: plan.c.
 *
 * The rule of admission is that of the 2Q cache (Johnson and Shasha, "2Q: a low overhead high performance buffer
 * management replacement algorithm", 1994): a short queue of new entries, marks of those that left it, and a list by
 * last use of entries whose keys came again. */
#include "vm/epoch/memo.h"

#include <string.h>

#include "base/fetch.h"
#include "base/hash.h"
#include "base/hook.h"
#include "base/rows.h"
#include "vm/epoch/replay_list.h"
#include "vm/epoch/variant_list.h"
#include "vm/tensor.h"

enum {
  TRIM_SHARE = 4,   /* the heap is trimmed when freed entries leave gaps of this part of the memo's bytes */
  TRIALS = 4,       /* entries on trial that each epoch may have, whatever their bytes are */
  TRIAL_SHARE = 64, /* more entries may be on trial while all epochs' trials take this part of the memo's bytes */
  FREED_AT_ONCE = 4 /* retired entries */
};

/* Drops a reference to a kernel, if there is one. */
static void drop_kernel(epoch_memo *memo, site_kernel *k) {
  if (k && k->n_references == 1) memo->figures.freed_bytes += k->bytes;
  site_release(memo->kernels, k);
}

/* Frees the whole after its last variant. The variant owned the content of the whole's places. */
static void drop_whole(epoch_memo *memo, const epoch_entry *variant) {
  epoch_entry *whole = variant->whole;
  variant_places *p = whole->places;
  if (p->written == variant) p->written = NULL;
  if (p->run == variant) p->run = NULL;
  if (--p->n_users > 0) return;
  for (size_t i = 0; i < p->writes.n; i++) whole->writes.items[p->writes.items[i].write].value = (ref){0};
  for (size_t i = 0; i < p->calls.n; i++) whole->kernels.items[p->calls.items[i].kernel].prepared = NULL;
  memo_free_entry(memo, whole);
}

static void free_content(epoch_memo *memo, variant_content *c) {
  for (size_t i = 0; c && i < c->n_values; i++) storage_release(c->values[i].storage);
  for (size_t i = 0; c && i < c->n_kernels; i++) drop_kernel(memo, c->kernels[i]);
  mem_free(c);
}

enum { FETCHED_AHEAD = 4 }; /* kernels */

/* Fetches the state of a kernel that will be freed soon into the CPU's caches, and the struct of a later one, which
 * tells where its state is. */
static void fetch_state(const epoch_entry *e, size_t number) {
  const size_t later = number + FETCHED_AHEAD;
  if (later < e->kernels.n) fetch_line(e->kernels.items[later].prepared);
  const site_kernel *k = number < e->kernels.n ? e->kernels.items[number].prepared : NULL;
  if (k) fetch_line(k->kernel.state);
}

void memo_free_entry(epoch_memo *memo, epoch_entry *e) {
  memo->figures.freed_bytes += e->bytes;
  if (e->whole) drop_whole(memo, e);
  free_content(memo, e->content);
  variant_places_close(&e->places);
  replay_free(&e->replay);
  graph_list_fini(&e->graphs);
  for (size_t i = 0; i < e->writes.n; i++) ref_clear(memo->objects, &e->writes.items[i].value);
  for (size_t i = 0; i < e->kernels.n; i++) {
    fetch_state(e, i + FETCHED_AHEAD);
    drop_kernel(memo, e->kernels.items[i].prepared);
  }
  for (size_t i = 0; i < e->host_kernels.n; i++) drop_kernel(memo, e->host_kernels.items[i]);
  for (size_t i = 0; i < e->values.n; i++) storage_release(e->values.items[i]);
  VEC_FREE(&e->writes);
  VEC_FREE(&e->scalars);
  VEC_FREE(&e->roots);
  VEC_FREE(&e->kernels);
  VEC_FREE(&e->copies);
  VEC_FREE(&e->values);
  VEC_FREE(&e->host_kernels);
  mem_free(e->key);
  mem_free(e);
}

static void unlink_global(epoch_memo *memo, epoch_entry *e) {
  *(e->newer ? &e->newer->older : &memo->newest) = e->older;
  *(e->older ? &e->older->newer : &memo->oldest) = e->newer;
  e->newer = e->older = NULL;
}

static void link_newest(epoch_memo *memo, epoch_entry *e) {
  e->older = memo->newest;
  e->newer = NULL;
  *(memo->newest ? &memo->newest->newer : &memo->oldest) = e;
  memo->newest = e;
  e->used = ++memo->time;
  e->run = memo->runs;
}

/* The list of the entry's epoch that has it. */
static entry_list *list_of(epoch_memo *memo, const epoch_entry *e) {
  epoch_state *state = &memo->epochs[e->epoch];
  return e->trial_bytes ? &state->on_trial : &state->admitted;
}

static void leave_list(entry_list *list, epoch_entry *e) {
  *(e->before ? &e->before->after : &list->newest) = e->after;
  *(e->after ? &e->after->before : &list->oldest) = e->before;
  e->before = e->after = NULL;
}

static void join_list(entry_list *list, epoch_entry *e) {
  e->after = list->newest;
  e->before = NULL;
  *(list->newest ? &list->newest->before : &list->oldest) = e;
  list->newest = e;
}

/* The chain that has the epoch's entries whose keys have this hash. */
static epoch_entry **chain_of(epoch_memo *memo, uint32_t epoch, uint64_t hash) {
  return &memo->chains[(hash ^ hash >> 32 ^ epoch * (uint64_t)61) % MEMO_CHAINS];
}

static void leave_chain(epoch_memo *memo, const epoch_entry *e) {
  epoch_entry **at = chain_of(memo, e->epoch, e->hash);
  while (*at != e) at = &(*at)->next;
  *at = e->next;
}

void memo_retire(epoch_memo *memo, epoch_entry *e) {
  e->next = memo->retired;
  memo->retired = e;
}

void memo_keep_unremembered(epoch_memo *memo, epoch_entry *e) {
  epoch_entry **last = &memo->epochs[e->epoch].unremembered;
  if (*last) memo_retire(memo, *last);
  *last = e;
}

void memo_free_retired(epoch_memo *memo) {
  for (int i = 0; memo->retired && i < FREED_AT_ONCE; i++) {
    epoch_entry *e = memo->retired;
    memo->retired = e->next;
    memo_free_entry(memo, e);
  }
  /* The C library's heap keeps freed pages. Entries that come and go take each other's place; a memo that shrinks
   * leaves gaps. */
  if (memo->figures.freed_bytes <= memo->max_bytes / TRIM_SHARE) return;
  memo->figures.freed_bytes = 0;
  hook_trim();
}

/* Counts bytes that the memo has taken. */
static void count_bytes(epoch_memo *memo, int64_t bytes) {
  memo->figures.bytes += bytes;
  memo->figures.freed_bytes -= bytes < memo->figures.freed_bytes ? bytes : memo->figures.freed_bytes;
}

/* Counts the bytes of the kernels that no other remembered entry uses. */
static void count_kernel(epoch_memo *memo, site_kernel *k) {
  if (k->n_remembered++ == 0) count_bytes(memo, k->bytes);
}

static void discount_kernel(epoch_memo *memo, site_kernel *k) {
  if (--k->n_remembered == 0) memo->figures.bytes -= k->bytes;
}

/* True if the kernel with this number in a whole is a variant's. */
static bool is_place(const epoch_entry *e, size_t kernel, size_t *call) {
  if (!e->places || *call == e->places->calls.n || e->places->calls.items[*call].kernel != kernel) return false;
  ++*call;
  return true;
}

/* Counts the entry's bytes and its kernels'. */
static void count_own(epoch_memo *memo, const epoch_entry *e) {
  count_bytes(memo, e->bytes);
  for (size_t i = 0, call = 0; i < e->kernels.n; i++)
    if (!is_place(e, i, &call)) count_kernel(memo, e->kernels.items[i].prepared);
  for (size_t i = 0; e->content && i < e->content->n_kernels; i++) count_kernel(memo, e->content->kernels[i]);
  for (size_t i = 0; i < e->host_kernels.n; i++) count_kernel(memo, e->host_kernels.items[i]);
}

/* And those of its whole if it is the first remembered variant. */
static void count_entry(epoch_memo *memo, const epoch_entry *e) {
  count_own(memo, e);
  if (e->whole && e->whole->places->n_remembered++ == 0) count_own(memo, e->whole);
}

static void discount_own(epoch_memo *memo, const epoch_entry *e) {
  memo->figures.bytes -= e->bytes;
  for (size_t i = 0, call = 0; i < e->kernels.n; i++)
    if (!is_place(e, i, &call)) discount_kernel(memo, e->kernels.items[i].prepared);
  for (size_t i = 0; e->content && i < e->content->n_kernels; i++) discount_kernel(memo, e->content->kernels[i]);
  for (size_t i = 0; i < e->host_kernels.n; i++) discount_kernel(memo, e->host_kernels.items[i]);
}

static void discount_entry(epoch_memo *memo, const epoch_entry *e) {
  discount_own(memo, e);
  if (e->whole && --e->whole->places->n_remembered == 0) discount_own(memo, e->whole);
}

/* ---- admission ---- */

/* The mark of an epoch's key. Equal hashes in several epochs have places far from each other. */
static uint64_t mark_of(uint32_t epoch, uint64_t hash) { return hash + epoch * (uint64_t)401; }

static void begin_trial(epoch_memo *memo, epoch_entry *e, int64_t bytes) {
  e->trial_bytes = bytes;
  memo->epochs[e->epoch].n_trials++;
  memo->figures.trials++;
  memo->figures.trial_bytes += bytes;
}

static void end_trial(epoch_memo *memo, epoch_entry *e) {
  memo->epochs[e->epoch].n_trials--;
  memo->figures.trials--;
  memo->figures.trial_bytes -= e->trial_bytes;
  e->trial_bytes = 0;
}

/* ---- eviction ---- */

static void evict(epoch_memo *memo, epoch_entry *e) {
  leave_list(list_of(memo, e), e);
  leave_chain(memo, e);
  if (e->trial_bytes) {
    marks_leave(&memo->tried, mark_of(e->epoch, e->hash));
    end_trial(memo, e);
  } else {
    marks_leave(&memo->evicted, mark_of(e->epoch, e->hash));
  }
  memo->epochs[e->epoch].n_entries--;
  unlink_global(memo, e);
  memo->figures.evictions++;
  memo->figures.entries--;
  discount_entry(memo, e);
  e->remembered = false;
  memo_retire(memo, e);
}

/* The epoch's least recent entry that is on trial, or admitted, other than the newest; NULL: none. */
static epoch_entry *least_recent(const epoch_state *state, bool on_trial, const epoch_entry *newest) {
  epoch_entry *last = on_trial ? state->on_trial.oldest : state->admitted.oldest;
  return last == newest ? NULL : last; /* the newest is the oldest too: there is no other */
}

/* Evicts entries over the bounds, but never the newest: of the epoch's own, those on trial beyond its share and then
 * the admitted ones; of all epochs, the least recently used ones while all together are too large. */
static void evict_to_bounds(epoch_memo *memo, epoch_entry *newest, bool device_busy) {
  epoch_state *state = &memo->epochs[newest->epoch];
  int64_t share = memo->max_entries / 2 < TRIALS ? memo->max_entries / 2 : TRIALS; /* of few entries, half */
  if (share < 1) share = 1;
  for (;;) {
    bool too_many = state->n_entries > memo->max_entries;
    bool many_trials = state->n_trials > share;
    if (!too_many && !(many_trials && memo->figures.trial_bytes > memo->max_bytes / TRIAL_SHARE)) break;
    epoch_entry *last = least_recent(state, many_trials, newest);
    if (!last) last = least_recent(state, !many_trials, newest);
    if (!last) break;
    evict(memo, last);
  }
  while (memo->figures.bytes > memo->max_bytes && memo->oldest != newest) evict(memo, memo->oldest);
  if (!device_busy) memo_free_retired(memo);
}

static int64_t entry_bytes(const epoch_entry *e) {
  int64_t bytes = (int64_t)(sizeof *e + e->n_key * sizeof(int64_t) + e->writes.capacity * sizeof(epoch_write) +
                            e->scalars.capacity * sizeof(epoch_scalar) + e->roots.capacity * sizeof(epoch_root) +
                            e->kernels.capacity * sizeof(epoch_kernel) + e->copies.capacity * sizeof(epoch_copy) +
                            e->host_kernels.capacity * sizeof(site_kernel *)) +
                  (e->content ? e->content->bytes : 0);
  for (size_t i = 0; i < e->values.n; i++) bytes += e->values.items[i]->bytes;
  return bytes;
}

void memo_remember(epoch_memo *memo, epoch_entry *e, bool device_busy) {
  epoch_state *state = &memo->epochs[e->epoch];
  VEC_FIT(&e->writes);
  VEC_FIT(&e->scalars);
  VEC_FIT(&e->roots);
  VEC_FIT(&e->kernels);
  VEC_FIT(&e->copies);
  VEC_FIT(&e->values);
  VEC_FIT(&e->host_kernels);
  e->bytes = entry_bytes(e);
  e->remembered = true;
  epoch_entry **chain = chain_of(memo, e->epoch, e->hash);
  e->next = *chain;
  *chain = e;
  state->n_entries++;
  link_newest(memo, e);
  memo->figures.entries++;
  int64_t before = memo->figures.bytes;
  count_entry(memo, e);
  if (marks_take(&memo->tried, mark_of(e->epoch, e->hash))) memo->figures.admitted++;
  else begin_trial(memo, e, memo->figures.bytes - before);
  join_list(list_of(memo, e), e);
  evict_to_bounds(memo, e, device_busy);
}

/* The entry's content of the places, with the entry's references. */
static variant_content *content_of(const epoch_entry *e, const variant_places *p) {
  variant_content *c = variant_content_open(p);
  int64_t *word = c ? c->words : NULL;
  for (size_t i = 0; c && i < p->writes.n; i++)
    word = variant_put(c, word, &e->writes.items[p->writes.items[i].write].value);
  for (size_t i = 0; c && i < p->calls.n; i++)
    c->kernels[c->n_kernels++] = e->kernels.items[p->calls.items[i].kernel].prepared;
  for (size_t i = 0; c && i < p->roots.n; i++) c->root_bytes[i] = e->roots.items[p->roots.items[i].root].bytes;
  return c;
}

bool memo_divide(epoch_memo *memo, epoch_entry *e, epoch_entry *whole, struct variant_places *places) {
  epoch_entry kept = *e;
  memset(&kept.writes, 0, sizeof kept.writes);
  memset(&kept.scalars, 0, sizeof kept.scalars);
  memset(&kept.roots, 0, sizeof kept.roots);
  memset(&kept.kernels, 0, sizeof kept.kernels);
  memset(&kept.copies, 0, sizeof kept.copies);
  memset(&kept.values, 0, sizeof kept.values);
  memset(&kept.host_kernels, 0, sizeof kept.host_kernels);
  memset(&kept.graphs, 0, sizeof kept.graphs);
  if (!(kept.content = content_of(e, places))) return false;
  kept.replay = NULL; /* the whole's */
  kept.whole = whole;
  kept.bytes = entry_bytes(&kept);
  *whole = *e;
  whole->newer = whole->older = whole->after = whole->before = whole->next = NULL;
  whole->key = NULL;
  whole->n_key = 0;
  whole->trial_bytes = 0;
  whole->places = places;
  places->n_users = places->n_remembered = 1;
  places->written = places->run = e;
  memo->figures.bytes += kept.bytes; /* the whole counts the rest of the entry's bytes, which were counted as one */
  *e = kept;
  return true;
}

void memo_add_bytes(epoch_memo *memo, epoch_entry *e, int64_t bytes, bool device_busy) {
  e->bytes += bytes;
  count_bytes(memo, bytes);
  evict_to_bounds(memo, e, device_busy);
}

epoch_entry *memo_latest(const epoch_memo *memo, uint32_t epoch) {
  epoch_entry *admitted = memo->epochs[epoch].admitted.newest, *on_trial = memo->epochs[epoch].on_trial.newest;
  if (!admitted || !on_trial) return admitted ? admitted : on_trial;
  return admitted->used > on_trial->used ? admitted : on_trial;
}

epoch_entry *memo_peek(epoch_memo *memo, uint32_t epoch, uint64_t hash, const int64_t *key, size_t n_key) {
  for (epoch_entry *e = *chain_of(memo, epoch, hash); e; e = e->next)
    if (e->hash == hash && e->epoch == epoch && e->n_key == n_key &&
        (n_key == 0 || memcmp(e->key, key, n_key * sizeof(int64_t)) == 0))
      return e;
  return NULL;
}

/* Admits an entry, and makes it the most recently used. */
static void use_again(epoch_memo *memo, epoch_entry *e) {
  leave_list(list_of(memo, e), e);
  if (e->trial_bytes) {
    end_trial(memo, e);
    memo->figures.admitted++;
  }
  join_list(list_of(memo, e), e);
  e->run = memo->runs;
  if (memo->newest != e) {
    unlink_global(memo, e);
    link_newest(memo, e);
  }
}

epoch_entry *memo_find(epoch_memo *memo, uint32_t epoch, uint64_t hash, const int64_t *key, size_t n_key) {
  epoch_entry *e = memo_peek(memo, epoch, hash, key, n_key);
  if (e) use_again(memo, e);
  return e;
}

void memo_renew(epoch_memo *memo, epoch_entry *e, epoch_entry *made) {
  epoch_entry had = *e;
  variant_places *p = e->whole->places;
  if (p->written == e) p->written = NULL;
  if (p->run == e) p->run = NULL;
  use_again(memo, e);
  leave_chain(memo, e);
  discount_own(memo, e);
  e->hash = made->hash;
  e->arenas[0] = made->arenas[0];
  e->dense_bytes = made->dense_bytes;
  e->n_shape_functions = made->n_shape_functions;
  e->n_repeated = made->n_repeated;
  e->n_shared = made->n_shared;
  e->shared_bytes = made->shared_bytes;
  e->key = made->key, made->key = had.key;
  e->content = made->content, made->content = had.content;
  memcpy(&e->values, &made->values, sizeof e->values);
  memcpy(&made->values, &had.values, sizeof e->values);
  memcpy(&e->host_kernels, &made->host_kernels, sizeof e->host_kernels);
  memcpy(&made->host_kernels, &had.host_kernels, sizeof e->host_kernels);
  e->bytes = entry_bytes(e);
  count_own(memo, e);
  epoch_entry **chain = chain_of(memo, e->epoch, e->hash);
  e->next = *chain;
  *chain = e;
  memo_free_entry(memo, made);
  memo->figures.hits++;
  memo->figures.renewed++;
}

/* ---- reasons of misses ---- */

void memo_meet_inputs(epoch_memo *memo, reed_tensor *const *inputs, size_t n_inputs) {
  uint64_t hash = n_inputs;
  for (size_t i = 0; i < n_inputs; i++) {
    const reed_desc *desc = &inputs[i]->desc;
    hash = hash_bytes(desc->dims, sizeof *desc->dims * (size_t)desc->rank, hash + (uint64_t)desc->dtype);
  }
  memo->sizes_are_new = !marks_has(&memo->sizes, hash);
  if (memo->sizes_are_new) marks_leave(&memo->sizes, hash);
}

void memo_end_run(epoch_memo *memo, bool several_sizes) {
  memo->runs++;
  if (memo->oldest && memo->runs - memo->oldest->run > MEMO_IDLE_RUNS) evict(memo, memo->oldest);
  int64_t grown = memo->figures.bytes - memo->most_bytes;
  if (grown > 0) memo->most_bytes = memo->figures.bytes;
  const bool missed = memo->figures.misses != memo->misses_before;
  memo->misses_before = memo->figures.misses;
  if (several_sizes && !missed) rows_renew();
  reserve_renew(&memo->reserve, grown, several_sizes ? memo->max_bytes - memo->figures.bytes : 0, missed);
}

memo_miss memo_count_miss(epoch_memo *memo, uint32_t epoch, uint64_t hash, bool memoizable, bool lengths) {
  uint64_t mark = mark_of(epoch, hash);
  memo_miss why = lengths ? MEMO_MISS_LENGTH : memo->sizes_are_new ? MEMO_MISS_SIZE : MEMO_MISS_COUNT;
  if (!memoizable) why = MEMO_MISS_LARGE;
  else if (marks_has(&memo->tried, mark)) why = MEMO_MISS_TRIAL;
  else if (marks_take(&memo->evicted, mark)) why = MEMO_MISS_EVICTED;
  memo->figures.misses++;
  memo->figures.missed[why]++;
  reserve_use(&memo->reserve, true);
  return why;
}

void memo_forget(epoch_memo *memo) {
  while (memo->oldest) evict(memo, memo->oldest);
  for (size_t i = 0; memo->epochs && i < memo->n_epochs; i++) {
    epoch_state *state = &memo->epochs[i];
    if (state->unremembered) memo_retire(memo, state->unremembered);
    state->unremembered = NULL;
    for (int k = 0; k < EPOCH_LAYOUTS; k++) {
      mem_free(state->layouts[k].roots);
      state->layouts[k] = (epoch_layout){0};
    }
  }
  while (memo->retired) memo_free_retired(memo);
}

void memo_fini(epoch_memo *memo) {
  memo_forget(memo);
  mem_free(memo->epochs);
  reserve_fini(&memo->reserve);
  marks_close(&memo->tried);
  marks_close(&memo->evicted);
  marks_close(&memo->sizes);
  memo->epochs = NULL;
}
