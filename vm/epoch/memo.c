/* The memo: finding, admitting, remembering and evicting entries. Keys: key.c. Contents of an entry: plan.c.
 *
 * The rule of admission is that of the 2Q cache (Johnson and Shasha, "2Q: a low overhead high performance buffer
 * management replacement algorithm", 1994): a short queue of new entries, marks of those that left it, and a list by
 * last use of entries whose keys came again. */
#include "vm/epoch/memo.h"

#include <string.h>

#include "base/hook.h"
#include "vm/epoch/replay_list.h"
#include "vm/epoch/variant_list.h"

enum {
  TRIM_SHARE = 4,   /* the heap is trimmed when freed entries leave gaps of this part of the memo's bytes */
  TRIALS = 4,       /* entries on trial that each epoch may have, whatever their bytes are */
  TRIAL_SHARE = 64, /* more entries may be on trial while all epochs' trials take this part of the memo's bytes */
  N_MARKS = 1024,
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
  if (--p->n_users > 0) return;
  for (size_t i = 0; i < p->writes.n; i++) whole->writes.items[p->writes.items[i]].value = (ref){0};
  for (size_t i = 0; i < p->calls.n; i++) whole->kernels.items[p->calls.items[i].kernel].prepared = NULL;
  memo_free_entry(memo, whole);
}

void memo_free_entry(epoch_memo *memo, epoch_entry *e) {
  memo->figures.freed_bytes += e->bytes;
  if (e->whole) drop_whole(memo, e);
  variant_places_close(&e->places);
  replay_free(&e->replay);
  graph_list_fini(&e->graphs);
  for (size_t i = 0; i < e->writes.n; i++) ref_clear(memo->objects, &e->writes.items[i].value);
  for (size_t i = 0; i < e->kernels.n; i++) drop_kernel(memo, e->kernels.items[i].prepared);
  for (size_t i = 0; i < e->host_kernels.n; i++) drop_kernel(memo, e->host_kernels.items[i]);
  for (size_t i = 0; i < e->values.n; i++) storage_release(e->values.items[i]);
  VEC_FREE(&e->writes);
  VEC_FREE(&e->scalars);
  VEC_FREE(&e->roots);
  VEC_FREE(&e->kernels);
  VEC_FREE(&e->copies);
  VEC_FREE(&e->values);
  VEC_FREE(&e->host_kernels);
  VEC_FREE(&e->root_bytes);
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

/* Counts the entry's bytes and its kernels', and those of its whole if it is the first remembered variant. */
static void count_entry(epoch_memo *memo, const epoch_entry *e) {
  count_bytes(memo, e->bytes);
  for (size_t i = 0, call = 0; i < e->kernels.n; i++)
    if (!is_place(e, i, &call)) count_kernel(memo, e->kernels.items[i].prepared);
  for (size_t i = 0; i < e->host_kernels.n; i++) count_kernel(memo, e->host_kernels.items[i]);
  if (e->whole && e->whole->places->n_remembered++ == 0) count_entry(memo, e->whole);
}

static void discount_entry(epoch_memo *memo, const epoch_entry *e) {
  memo->figures.bytes -= e->bytes;
  for (size_t i = 0, call = 0; i < e->kernels.n; i++)
    if (!is_place(e, i, &call)) discount_kernel(memo, e->kernels.items[i].prepared);
  for (size_t i = 0; i < e->host_kernels.n; i++) discount_kernel(memo, e->host_kernels.items[i]);
  if (e->whole && --e->whole->places->n_remembered == 0) discount_entry(memo, e->whole);
}

/* ---- admission ---- */

/* The mark of an epoch's key, never 0. Equal hashes in several epochs have places far from each other. */
static uint64_t mark_of(uint32_t epoch, uint64_t hash) { return (hash + epoch * (uint64_t)401) | (uint64_t)1 << 63; }

static uint64_t *mark_place(const epoch_memo *memo, uint64_t mark) { return &memo->marks[mark % N_MARKS]; }

/* Leaves the key's mark, in the place of an older one. Without memory for marks there are none. */
static void leave_mark(epoch_memo *memo, const epoch_entry *e) {
  if (!memo->marks && !(memo->marks = mem_calloc(N_MARKS, sizeof *memo->marks))) return;
  uint64_t mark = mark_of(e->epoch, e->hash);
  *mark_place(memo, mark) = mark;
}

/* True if the key's mark was there, which is taken away. */
static bool take_mark(epoch_memo *memo, const epoch_entry *e) {
  uint64_t mark = mark_of(e->epoch, e->hash);
  if (!memo->marks || *mark_place(memo, mark) != mark) return false;
  *mark_place(memo, mark) = 0;
  return true;
}

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
  epoch_state *state = &memo->epochs[e->epoch];
  if (e->trial_bytes) {
    leave_mark(memo, e);
    end_trial(memo, e);
  }
  for (epoch_entry **at = &state->entries; *at; at = &(*at)->next)
    if (*at == e) {
      *at = e->next;
      break;
    }
  state->n_entries--;
  unlink_global(memo, e);
  memo->figures.evictions++;
  memo->figures.entries--;
  discount_entry(memo, e);
  e->remembered = false;
  memo_retire(memo, e);
}

/* The epoch's least recent entry that is on trial, or admitted, other than the newest; NULL: none. */
static epoch_entry *least_recent(const epoch_state *state, bool on_trial, const epoch_entry *newest) {
  epoch_entry *last = NULL;
  for (epoch_entry *e = state->entries; e; e = e->next)
    if ((e->trial_bytes > 0) == on_trial && e != newest) last = e;
  return last;
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
  int64_t bytes =
      (int64_t)(sizeof *e + e->n_key * sizeof(int64_t) + e->writes.capacity * sizeof(epoch_write) +
                e->scalars.capacity * sizeof(epoch_scalar) + e->roots.capacity * sizeof(epoch_root) +
                e->kernels.capacity * sizeof(epoch_kernel) + e->copies.capacity * sizeof(epoch_copy) +
                e->host_kernels.capacity * sizeof(site_kernel *) + e->root_bytes.capacity * sizeof(int64_t));
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
  e->next = state->entries;
  state->entries = e;
  state->n_entries++;
  link_newest(memo, e);
  memo->figures.entries++;
  int64_t before = memo->figures.bytes;
  count_entry(memo, e);
  if (take_mark(memo, e)) memo->figures.admitted++;
  else begin_trial(memo, e, memo->figures.bytes - before);
  evict_to_bounds(memo, e, device_busy);
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
  if (!VEC_RESERVE(&kept.writes, places->writes.n) || !VEC_RESERVE(&kept.kernels, places->calls.n) ||
      !VEC_RESERVE(&kept.root_bytes, places->roots.n)) {
    VEC_FREE(&kept.writes);
    VEC_FREE(&kept.kernels);
    VEC_FREE(&kept.root_bytes);
    return false;
  }
  for (size_t i = 0; i < places->writes.n; i++)
    kept.writes.items[kept.writes.n++] = e->writes.items[places->writes.items[i]];
  for (size_t i = 0; i < places->calls.n; i++)
    kept.kernels.items[kept.kernels.n++] = e->kernels.items[places->calls.items[i].kernel];
  for (size_t i = 0; i < places->roots.n; i++)
    kept.root_bytes.items[kept.root_bytes.n++] = e->roots.items[places->roots.items[i].root].bytes;
  kept.replay = NULL; /* the whole's */
  kept.whole = whole;
  kept.bytes = entry_bytes(&kept);
  *whole = *e;
  whole->newer = whole->older = whole->next = NULL;
  whole->key = NULL;
  whole->n_key = 0;
  whole->trial_bytes = 0;
  whole->places = places;
  places->n_users = places->n_remembered = 1;
  places->written = e;
  memo->figures.bytes += kept.bytes; /* the whole counts the rest of the entry's bytes, which were counted as one */
  *e = kept;
  return true;
}

void memo_add_bytes(epoch_memo *memo, epoch_entry *e, int64_t bytes, bool device_busy) {
  e->bytes += bytes;
  count_bytes(memo, bytes);
  evict_to_bounds(memo, e, device_busy);
}

/* The place of the entry in its epoch's list; NULL: none. */
static epoch_entry **place_of(const epoch_memo *memo, uint32_t epoch, uint64_t hash, const int64_t *key, size_t n_key) {
  for (epoch_entry **at = &memo->epochs[epoch].entries; *at; at = &(*at)->next)
    if ((*at)->hash == hash && (*at)->n_key == n_key &&
        (n_key == 0 || memcmp((*at)->key, key, n_key * sizeof(int64_t)) == 0))
      return at;
  return NULL;
}

epoch_entry *memo_peek(const epoch_memo *memo, uint32_t epoch, uint64_t hash, const int64_t *key, size_t n_key) {
  epoch_entry **at = place_of(memo, epoch, hash, key, n_key);
  return at ? *at : NULL;
}

epoch_entry *memo_find(epoch_memo *memo, uint32_t epoch, uint64_t hash, const int64_t *key, size_t n_key) {
  epoch_entry **at = place_of(memo, epoch, hash, key, n_key), *e = at ? *at : NULL;
  if (!e) return NULL;
  if (e->trial_bytes) {
    end_trial(memo, e);
    memo->figures.admitted++;
  }
  *at = e->next; /* most recent first */
  e->next = memo->epochs[epoch].entries;
  memo->epochs[epoch].entries = e;
  if (memo->newest != e) {
    unlink_global(memo, e);
    link_newest(memo, e);
  }
  return e;
}

void memo_fini(epoch_memo *memo) {
  while (memo->oldest) evict(memo, memo->oldest);
  for (size_t i = 0; memo->epochs && i < memo->n_epochs; i++)
    if (memo->epochs[i].unremembered) memo_retire(memo, memo->epochs[i].unremembered);
  while (memo->retired) memo_free_retired(memo);
  for (size_t i = 0; memo->epochs && i < memo->n_epochs; i++)
    for (int k = 0; k < EPOCH_LAYOUTS; k++) mem_free(memo->epochs[i].layouts[k].roots);
  mem_free(memo->epochs);
  mem_free(memo->marks);
  memo->epochs = NULL;
  memo->marks = NULL;
}
