/* The memo by itself (vm/epoch/memo.h), with entries made by hand: finding, admission, order of use, both bounds,
 * release of evicted entries while a device is busy. The memo in runs, and keys: test_memo.c. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/hook.h"
#include "tests/alloc_hook.h"
#include "tests/suite.h"
#include "vm/epoch/memo.h"

static object_heap objects;
static site_kernels kernels; /* no table of kernels: the kernels below are in no table */
static int n_kernels_freed;

static void free_kernel(void *state) {
  n_kernels_freed++;
  free(state);
}

static epoch_memo memo_of(size_t n_epochs, int64_t max_entries, int64_t max_bytes) {
  epoch_memo memo = {.n_epochs = n_epochs,
                     .max_entries = max_entries,
                     .max_bytes = max_bytes,
                     .objects = &objects,
                     .kernels = &kernels};
  memo.epochs = mem_calloc(n_epochs, sizeof *memo.epochs);
  ck_assert_ptr_nonnull(memo.epochs);
  return memo;
}

static site_kernel *kernel_of(int64_t bytes) {
  site_kernel *k = mem_calloc(1, sizeof *k);
  ck_assert_ptr_nonnull(k);
  k->kernel = (reed_kernel){.state = malloc(1), .free = free_kernel};
  k->bytes = bytes;
  k->number = TABLE_NONE;
  return k;
}

/* An entry that uses the kernel. */
static epoch_entry *entry_with(uint32_t epoch, uint64_t hash, const int64_t *key, size_t n_key, site_kernel *kernel) {
  epoch_entry *e = mem_calloc(1, sizeof *e);
  ck_assert_ptr_nonnull(e);
  e->epoch = epoch;
  e->hash = hash;
  e->key = mem_copy(key, n_key * sizeof *key);
  e->n_key = n_key;
  site_retain(kernel);
  epoch_kernel used = {.prepared = kernel, .workspace_root = -1, .extent_root = -1};
  ck_assert(VEC_PUSH(&e->kernels, used));
  return e;
}

/* An entry with a kernel of its own, whose state has this size. */
static epoch_entry *entry_of(uint32_t epoch, uint64_t hash, const int64_t *key, size_t n_key, int64_t state_bytes) {
  return entry_with(epoch, hash, key, n_key, kernel_of(state_bytes));
}

static epoch_entry *remember(epoch_memo *memo, uint32_t epoch, int64_t key, int64_t state_bytes) {
  epoch_entry *e = entry_of(epoch, (uint64_t)key * 31, &key, 1, state_bytes);
  memo_remember(memo, e, false);
  return e;
}

static epoch_entry *find(epoch_memo *memo, uint32_t epoch, int64_t key) {
  return memo_find(memo, epoch, (uint64_t)key * 31, &key, 1);
}

START_TEST(an_entry_is_found_by_its_epoch_and_its_whole_key) {
  alloc_hook_begin();
  epoch_memo memo = memo_of(2, 8, INT64_MAX);
  int64_t key[] = {1, 2, 3};
  epoch_entry *e = entry_of(1, 5, key, 3, 0), *same_hash, *shorter = entry_of(1, 5, key, 2, 0),
              *none = entry_of(1, 5, key, 0, 0);
  memo_remember(&memo, e, false);
  memo_remember(&memo, shorter, false);
  memo_remember(&memo, none, false);
  key[2] = 4;
  same_hash = entry_of(1, 5, key, 3, 0);
  memo_remember(&memo, same_hash, false);
  ck_assert_ptr_eq(memo_find(&memo, 1, 5, key, 3), same_hash);
  ck_assert_ptr_null(memo_find(&memo, 0, 5, key, 3));
  ck_assert_ptr_null(memo_find(&memo, 1, 6, key, 3));
  ck_assert_ptr_eq(memo_find(&memo, 1, 5, key, 2), shorter);
  ck_assert_ptr_eq(memo_find(&memo, 1, 5, NULL, 0), none);
  key[2] = 3;
  ck_assert_ptr_eq(memo_find(&memo, 1, 5, key, 3), e);
  key[0] = 9;
  ck_assert_ptr_null(memo_find(&memo, 1, 5, key, 3));
  ck_assert_ptr_null(memo_peek(&memo, 1, 5, key, 3));
  memo_fini(&memo);
  ck_assert_int_eq(alloc_hook_end(), 0);
}
END_TEST

START_TEST(the_bound_of_entries_is_an_epochs_own) {
  epoch_memo memo = memo_of(2, 3, INT64_MAX);
  remember(&memo, 1, 100, 0);
  for (int64_t key = 0; key < 3; key++) remember(&memo, 0, key, 0);
  ck_assert_ptr_nonnull(find(&memo, 0, 0)); /* now key 1 is the least recently used */
  remember(&memo, 0, 3, 0);
  ck_assert_ptr_null(find(&memo, 0, 1));
  ck_assert(find(&memo, 0, 0) && find(&memo, 0, 2) && find(&memo, 0, 3) && find(&memo, 1, 100));
  ck_assert_int_eq(memo.figures.evictions, 1);
  ck_assert_int_eq(memo.figures.entries, 4);
  memo_fini(&memo);
}
END_TEST

START_TEST(the_bound_of_bytes_is_of_all_epochs_and_spares_the_newest) {
  enum { BYTES = 1 << 20 };
  epoch_memo memo = memo_of(2, 100, 3 * BYTES + BYTES / 2);
  remember(&memo, 0, 0, BYTES);
  remember(&memo, 1, 1, BYTES);
  remember(&memo, 0, 2, BYTES);
  ck_assert_int_eq(memo.figures.evictions, 0);
  ck_assert_ptr_nonnull(find(&memo, 0, 0));
  remember(&memo, 0, 3, BYTES); /* key 1 of the other epoch has the oldest use */
  ck_assert_ptr_null(find(&memo, 1, 1));
  ck_assert_int_eq(memo.figures.evictions, 1);
  remember(&memo, 1, 4, 100 * (int64_t)BYTES);
  ck_assert_int_eq(memo.figures.entries, 1);
  ck_assert_ptr_nonnull(find(&memo, 1, 4));
  ck_assert_int_ge(memo.figures.bytes, 100 * (int64_t)BYTES);
  memo_fini(&memo);
  ck_assert(memo.figures.bytes == 0 && memo.figures.entries == 0);
}
END_TEST

/* While a device has queued work, the work's kernels may still be called. */
START_TEST(evicted_entries_stay_until_no_device_is_busy) {
  epoch_memo memo = memo_of(1, 1, INT64_MAX);
  int64_t key = 1;
  n_kernels_freed = 0;
  for (key = 1; key <= 3; key++) memo_remember(&memo, entry_of(0, 0, &key, 1, 0), true);
  ck_assert_int_eq(n_kernels_freed, 0);
  epoch_entry *never = entry_of(0, 0, &key, 1, 0);
  memo_retire(&memo, never);
  ck_assert_int_eq(n_kernels_freed, 0);
  memo_free_retired(&memo);
  ck_assert_int_eq(n_kernels_freed, 3);
  memo_remember(&memo, entry_of(0, 0, &key, 1, 0), false);
  ck_assert_int_eq(n_kernels_freed, 4);
  memo_fini(&memo);
  ck_assert_int_eq(n_kernels_freed, 5);
}
END_TEST

/* Of two entries that share a kernel either may go first; the kernel goes with the second one. The kernel's bytes count
 * once. */
START_TEST(a_shared_kernel_goes_with_the_last_of_its_entries) {
  enum { BYTES = 1 << 20 };
  alloc_hook_begin();
  epoch_memo memo = memo_of(1, 2, INT64_MAX);
  site_kernel *shared = kernel_of(BYTES);
  n_kernels_freed = 0;
  epoch_entry *entries[2];
  for (int64_t key = 0; key < 2; key++) {
    entries[key] = entry_with(0, (uint64_t)key * 31, &key, 1, shared);
    memo_remember(&memo, entries[key], false);
  }
  int64_t own = entries[0]->bytes;
  ck_assert_int_eq(memo.figures.bytes, BYTES + 2 * own);
  if (_i % 2) ck_assert_ptr_eq(find(&memo, 0, 0), entries[0]); /* then entry 1 is evicted first */
  bool busy = _i >= 2;
  int64_t key = 2;
  memo_remember(&memo, entry_of(0, 62, &key, 1, 0), busy);
  ck_assert_ptr_nonnull(_i % 2 ? find(&memo, 0, 0) : find(&memo, 0, 1));
  memo_free_retired(&memo);
  ck_assert_int_eq(n_kernels_freed, 0);
  ck_assert_int_eq(memo.figures.bytes, BYTES + 2 * own);
  ck_assert_ptr_nonnull(find(&memo, 0, 2));
  key = 3;
  memo_remember(&memo, entry_of(0, 93, &key, 1, 0), busy);
  ck_assert_int_eq(memo.figures.bytes, 2 * own);
  ck_assert_int_eq(n_kernels_freed, busy ? 0 : 1); /* queued work may use the kernel */
  memo_free_retired(&memo);
  ck_assert_int_eq(n_kernels_freed, 1);
  memo_fini(&memo);
  ck_assert_int_eq(n_kernels_freed, 3);
  ck_assert_int_eq(alloc_hook_end(), 0);
}
END_TEST

/* ---- admission ---- */

/* Keys that come once, between keys that came twice. Entries of the latter stay; the former leave only marks. */
START_TEST(keys_that_never_come_back_take_little_and_push_nothing_out) {
  enum { BYTES = 1 << 16, KEPT = 20, ONCE = 1000 };
  alloc_hook_begin();
  epoch_memo memo = memo_of(2, 64, 64 * BYTES);
  for (int64_t key = 0; key < KEPT; key++) {
    remember(&memo, 0, key, BYTES);
    ck_assert_ptr_nonnull(find(&memo, 0, key));
  }
  int64_t before = memo.figures.bytes;
  for (int64_t key = KEPT; key < ONCE; key++) {
    ck_assert_ptr_null(find(&memo, 0, key));
    remember(&memo, 0, key, BYTES);
    ck_assert_int_le(memo.epochs[0].n_trials, 4);
    ck_assert_int_le(memo.figures.bytes, before + 4 * 2 * BYTES);
  }
  for (int64_t key = 0; key < KEPT; key++) ck_assert_ptr_nonnull(find(&memo, 0, key));
  ck_assert_int_eq(memo.figures.admitted, KEPT);
  ck_assert_int_eq(memo.figures.trials, memo.epochs[0].n_trials);
  memo_fini(&memo);
  ck_assert(memo.figures.trials == 0 && memo.figures.trial_bytes == 0);
  ck_assert_int_eq(alloc_hook_end(), 0);
}
END_TEST

/* Sizes that take turns, round after round. For entries of a megabyte 1/64 of the memo has no room beyond the share of
 * an epoch: then entries beyond the share miss once more, and their marks admit them. */
START_TEST(sizes_that_take_turns_hit_from_the_second_or_third_round_on) {
  static const struct {
    int64_t n_keys, bytes;
    int64_t misses;
    int rounds; /* rounds that have misses */
  } rows[] = {{1, 1 << 20, 1, 1}, {2, 1 << 20, 2, 1},   {3, 1 << 20, 3, 1},   {4, 1 << 20, 4, 1},
              {5, 1 << 20, 6, 2}, {30, 1 << 20, 56, 2}, {30, 1 << 10, 30, 1}, {60, 1 << 10, 60, 1}};
  epoch_memo memo = memo_of(1, 64, (int64_t)64 << 20);
  int64_t misses = 0;
  for (int round = 0; round < 6; round++)
    for (int64_t key = 0; key < rows[_i].n_keys; key++) {
      if (find(&memo, 0, key)) continue;
      remember(&memo, 0, key, rows[_i].bytes);
      misses++;
      ck_assert_int_lt(round, rows[_i].rounds);
    }
  ck_assert_int_eq(misses, rows[_i].misses);
  memo_fini(&memo);
}
END_TEST

START_TEST(a_question_changes_nothing) {
  epoch_memo memo = memo_of(1, 64, 1 << 20);
  epoch_entry *first = remember(&memo, 0, 1, 0), *second = remember(&memo, 0, 2, 0);
  for (int i = 0; i < 3; i++) {
    int64_t key = 1;
    ck_assert_ptr_eq(memo_peek(&memo, 0, 31, &key, 1), first);
    ck_assert(memo.newest == second && memo_latest(&memo, 0) == second);
    ck_assert(memo.figures.admitted == 0 && memo.figures.trials == 2);
  }
  ck_assert_ptr_eq(find(&memo, 0, 1), first);
  ck_assert(memo.newest == first && memo.figures.admitted == 1);
  memo_fini(&memo);
}
END_TEST

/* A large entry pushes many small ones out. Their memory goes in steps. */
START_TEST(many_entries_that_go_at_once_are_freed_a_few_at_a_time) {
  enum { BYTES = 1 << 14, N = 40 };
  alloc_hook_begin();
  epoch_memo memo = memo_of(2, 64, 64 * BYTES);
  for (int64_t key = 0; key < N; key++) {
    remember(&memo, 0, key, BYTES);
    ck_assert_ptr_nonnull(find(&memo, 0, key));
  }
  n_kernels_freed = 0;
  remember(&memo, 1, 0, 64 * BYTES);
  ck_assert_int_eq(memo.figures.entries, 1);
  int steps = 1;
  for (int freed = n_kernels_freed; freed < N; freed = n_kernels_freed, steps++) {
    ck_assert_int_ge(freed, steps * 1);
    ck_assert_int_le(freed, steps * 4);
    memo_free_retired(&memo);
    ck_assert_int_gt(n_kernels_freed, freed);
  }
  ck_assert_int_ge(steps, N / 4);
  memo_fini(&memo);
  ck_assert_int_eq(alloc_hook_end(), 0);
}
END_TEST

/* Beside a list that is searched from end to end: entries by last use, least recent first, and marks. */
START_TEST(a_random_life_is_that_of_a_list_in_the_order_of_use) {
  enum { N_EPOCHS = 3, ENTRIES = 4, SHARE = 2, STEPS = 4000, KEYS = 12, BYTES = 1 << 16 };
  alloc_hook_begin();
  epoch_memo memo = memo_of(N_EPOCHS, ENTRIES, 8 * BYTES + BYTES / 2);
  struct {
    uint32_t epoch;
    int64_t key;
    bool on_trial;
  } list[64];
  bool marks[N_EPOCHS][KEYS] = {{false}};
  int n = 0, n_hits = 0, n_marked = 0;
  int64_t n_evicted = 0;
  uint64_t random = 88172645463325252u + (uint64_t)_i;
  for (int step = 0; step < STEPS; step++) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    uint32_t epoch = (uint32_t)(random >> 20) % N_EPOCHS;
    int64_t key = (int64_t)((random >> 40) % KEYS);
    int at = 0;
    while (at < n && (list[at].epoch != epoch || list[at].key != key)) at++;
    epoch_entry *e = find(&memo, epoch, key);
    ck_assert_int_eq(e != NULL, at < n);
    n_hits += e != NULL;
    bool admitted = at < n || marks[epoch][key];
    if (e) memmove(&list[at], &list[at + 1], (size_t)(--n - at) * sizeof *list);
    else {
      remember(&memo, epoch, key, BYTES);
      n_marked += marks[epoch][key];
      marks[epoch][key] = false;
    }
    list[n].epoch = epoch, list[n].key = key, list[n++].on_trial = !admitted;
    for (;;) { /* after a hit nothing is evicted, because the bounds hold already */
      int in_epoch = 0, trials = 0, oldest[2] = {-1, -1};
      for (int i = n - 1; i >= 0; i--) {
        if (list[i].epoch != epoch) continue;
        in_epoch++, trials += list[i].on_trial;
        if (i < n - 1) oldest[list[i].on_trial] = i;
      }
      bool many = trials > SHARE;
      int total = 0;
      for (int i = 0; i < n; i++) total += list[i].on_trial;
      bool too_large = many && total > 0; /* the memo is so small that every trial takes more than 1/64 of its bytes */
      int out;
      if (in_epoch > ENTRIES || too_large) out = oldest[many] >= 0 ? oldest[many] : oldest[!many];
      else if (n > 8) out = 0;
      else break;
      if (list[out].on_trial) marks[list[out].epoch][list[out].key] = true;
      memmove(&list[out], &list[out + 1], (size_t)(--n - out) * sizeof *list);
      n_evicted++;
    }
    ck_assert_int_eq(memo.figures.entries, n);
    ck_assert_int_eq(memo.figures.evictions, n_evicted);
  }
  ck_assert(n_hits > STEPS / 10 && n_evicted > STEPS / 10 && n_marked > STEPS / 20);
  memo_fini(&memo);
  ck_assert_int_eq(alloc_hook_end(), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("entries of the memo");
  TCase *t = tcase_create("entries");
  tcase_add_test(t, an_entry_is_found_by_its_epoch_and_its_whole_key);
  tcase_add_test(t, the_bound_of_entries_is_an_epochs_own);
  tcase_add_test(t, the_bound_of_bytes_is_of_all_epochs_and_spares_the_newest);
  tcase_add_test(t, evicted_entries_stay_until_no_device_is_busy);
  tcase_add_loop_test(t, a_shared_kernel_goes_with_the_last_of_its_entries, 0, 4);
  tcase_add_test(t, keys_that_never_come_back_take_little_and_push_nothing_out);
  tcase_add_loop_test(t, sizes_that_take_turns_hit_from_the_second_or_third_round_on, 0, 8);
  tcase_add_test(t, a_question_changes_nothing);
  tcase_add_test(t, many_entries_that_go_at_once_are_freed_a_few_at_a_time);
  tcase_add_loop_test(t, a_random_life_is_that_of_a_list_in_the_order_of_use, 0, 4);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
