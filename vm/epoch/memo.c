/* The memo: finding, remembering and evicting entries. Keys: key.c. Contents of an entry: plan.c. */
#include "vm/epoch/memo.h"

#include <string.h>

#include "base/hook.h"
#include "vm/epoch/replay_list.h"

#define TRIM_SHARE 4 /* the heap is trimmed whenever freed entries add up to this part of the memo's bytes */

/* Drops a reference to a kernel. */
static void drop_kernel(epoch_memo *memo, site_kernel *k) {
  if (k->n_references == 1) memo->figures.freed_bytes += k->bytes;
  site_release(memo->kernels, k);
}

void memo_free_entry(epoch_memo *memo, epoch_entry *e) {
  memo->figures.freed_bytes += e->bytes;
  replay_free(&e->replay);
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
  while (memo->retired) {
    epoch_entry *e = memo->retired;
    memo->retired = e->next;
    memo_free_entry(memo, e);
  }
  /* The C library's heap keeps freed pages. The next entry's blocks do not fit into the gaps of a freed entry, which is
   * thousands of small blocks of many sizes. */
  if (memo->figures.freed_bytes <= memo->max_bytes / TRIM_SHARE) return;
  memo->figures.freed_bytes = 0;
  hook_trim();
}

/* Counts the bytes of the kernels that no other remembered entry uses. */
static void count_kernel(epoch_memo *memo, site_kernel *k) {
  if (k->n_remembered++ == 0) memo->figures.bytes += k->bytes;
}

static void discount_kernel(epoch_memo *memo, site_kernel *k) {
  if (--k->n_remembered == 0) memo->figures.bytes -= k->bytes;
}

static void evict(epoch_memo *memo, epoch_entry *e) {
  epoch_state *state = &memo->epochs[e->epoch];
  for (epoch_entry **at = &state->entries; *at; at = &(*at)->next)
    if (*at == e) {
      *at = e->next;
      break;
    }
  state->n_entries--;
  unlink_global(memo, e);
  memo->figures.evictions++;
  memo->figures.entries--;
  memo->figures.bytes -= e->bytes;
  for (size_t i = 0; i < e->kernels.n; i++) discount_kernel(memo, e->kernels.items[i].prepared);
  for (size_t i = 0; i < e->host_kernels.n; i++) discount_kernel(memo, e->host_kernels.items[i]);
  e->remembered = false;
  memo_retire(memo, e);
}

/* Evicts least recently used entries: the epoch's own while they are too many, then any while all together are too
 * large. The newest entry stays. */
static void evict_to_bounds(epoch_memo *memo, epoch_entry *newest, bool device_busy) {
  epoch_state *state = &memo->epochs[newest->epoch];
  while (state->n_entries > memo->max_entries) {
    epoch_entry *last = state->entries;
    while (last->next) last = last->next;
    if (last == newest) break;
    evict(memo, last);
  }
  while (memo->figures.bytes > memo->max_bytes && memo->oldest != newest) evict(memo, memo->oldest);
  if (!device_busy) memo_free_retired(memo);
}

static int64_t entry_bytes(const epoch_entry *e) {
  int64_t bytes = (int64_t)(sizeof *e + e->n_key * sizeof(int64_t) + e->writes.capacity * sizeof(epoch_write) +
                            e->scalars.capacity * sizeof(epoch_scalar) + e->roots.capacity * sizeof(epoch_root) +
                            e->kernels.capacity * sizeof(epoch_kernel) + e->copies.capacity * sizeof(epoch_copy) +
                            e->host_kernels.capacity * sizeof(site_kernel *));
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
  memo->figures.bytes += e->bytes;
  for (size_t i = 0; i < e->kernels.n; i++) count_kernel(memo, e->kernels.items[i].prepared);
  for (size_t i = 0; i < e->host_kernels.n; i++) count_kernel(memo, e->host_kernels.items[i]);
  evict_to_bounds(memo, e, device_busy);
}

void memo_add_bytes(epoch_memo *memo, epoch_entry *e, int64_t bytes, bool device_busy) {
  e->bytes += bytes;
  memo->figures.bytes += bytes;
  evict_to_bounds(memo, e, device_busy);
}

epoch_entry *memo_find(epoch_memo *memo, uint32_t epoch, uint64_t hash, const int64_t *key, size_t n_key) {
  for (epoch_entry **at = &memo->epochs[epoch].entries; *at; at = &(*at)->next) {
    epoch_entry *e = *at;
    if (e->hash != hash || e->n_key != n_key) continue;
    if (n_key && memcmp(e->key, key, n_key * sizeof(int64_t)) != 0) continue;
    *at = e->next; /* most recent first */
    e->next = memo->epochs[epoch].entries;
    memo->epochs[epoch].entries = e;
    if (memo->newest != e) {
      unlink_global(memo, e);
      link_newest(memo, e);
    }
    return e;
  }
  return NULL;
}

void memo_fini(epoch_memo *memo) {
  while (memo->oldest) evict(memo, memo->oldest);
  for (size_t i = 0; memo->epochs && i < memo->n_epochs; i++)
    if (memo->epochs[i].unremembered) memo_retire(memo, memo->epochs[i].unremembered);
  memo_free_retired(memo);
  for (size_t i = 0; memo->epochs && i < memo->n_epochs; i++)
    for (int k = 0; k < EPOCH_LAYOUTS; k++) mem_free(memo->epochs[i].layouts[k].roots);
  mem_free(memo->epochs);
  memo->epochs = NULL;
}
