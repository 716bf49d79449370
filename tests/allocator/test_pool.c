/* The pool over both devices of this machine: every kind of block, the cap, trimming, figures, and a random life
 * against a model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/alloc_hook.h"
#include "tests/allocator/opened_pool.h"
#include "tests/suite.h"

/* Whether all bytes are `pattern`. */
static bool filled_with(const storage *s, uint8_t pattern) {
  const uint8_t *data = s->data;
  return s->bytes == 0 || (data[0] == pattern && memcmp(data, data + 1, (size_t)s->bytes - 1) == 0);
}

START_TEST(pool_gives_blocks_of_every_size) {
  open_pool(false, NULL, 0);
  static const int64_t sizes[] = {0,    1,    63,   64,    65,    512,   513,    640,     641,
                                  1024, 1025, 4096, 65535, 65536, 65537, 100000, 3 * MIB, 5 * MIB + 1};
  enum { N = sizeof sizes / sizeof *sizes };
  storage *held[N];
  int64_t live = 0;
  for (int i = 0; i < N; i++) {
    held[i] = take(sizes[i]);
    memset(held[i]->data, i + 1, (size_t)sizes[i]);
    live += sizes[i];
    ck_assert_int_eq(figures().live_bytes, live);
  }
  for (int i = 0; i < N; i++) {
    ck_assert(filled_with(held[i], (uint8_t)(i + 1)));
    storage_release(held[i]);
  }
  ck_assert_int_eq(figures().live_bytes, 0);
  ck_assert_int_eq(figures().used_bytes, 0);
  close_pool();
}
END_TEST

START_TEST(pool_rounds_small_blocks_up_by_a_fifth_at_most) {
  open_pool(false, NULL, 0);
  for (int64_t bytes = 257; bytes <= 64 * KIB; bytes += 61) {
    storage *s = take(bytes);
    int64_t used = figures().used_bytes;
    ck_assert_int_ge(used, bytes);
    ck_assert_int_le((used - bytes) * 5, used);
    storage_release(s);
  }
  close_pool();
}
END_TEST

START_TEST(pool_keeps_storage_while_it_is_referenced) {
  open_pool(false, NULL, 0);
  storage *s = take(100);
  storage_retain(s);
  storage_release(s);
  ck_assert_int_eq(figures().live_bytes, 100);
  storage_release(s);
  ck_assert_int_eq(figures().live_bytes, 0);
  close_pool();
}
END_TEST

START_TEST(pool_splits_the_best_fit_and_merges_neighbours) {
  open_pool(false, NULL, 0);
  storage *a = take(4 * MIB), *b = take(3 * MIB); /* two chunks */
  char *a_data = a->data, *b_data = b->data;
  storage_release(a);
  storage_release(b);
  ck_assert_int_eq(figures().n_device_allocations, 2);
  ck_assert_int_eq(figures().largest_free_bytes, 4 * MIB);
  storage *x = take(1 * MIB), *y = take(1 * MIB), *z = take(1 * MIB); /* the smaller chunk, in three */
  ck_assert_ptr_eq(x->data, b_data);
  ck_assert_ptr_eq(y->data, b_data + MIB);
  ck_assert_ptr_eq(z->data, b_data + 2 * MIB);
  storage_release(y);
  ck_assert_int_eq(figures().largest_free_bytes, 4 * MIB);
  storage *whole = take(4 * MIB);
  ck_assert_ptr_eq(whole->data, a_data);
  ck_assert_int_eq(figures().largest_free_bytes, 1 * MIB);
  storage_release(x); /* x's block merges with the free block of y */
  ck_assert_int_eq(figures().largest_free_bytes, 2 * MIB);
  storage *two = take(2 * MIB);
  ck_assert_ptr_eq(two->data, b_data);
  storage_release(two);
  storage_release(z); /* z's block merges with the free blocks of x and y */
  ck_assert_int_eq(figures().largest_free_bytes, 3 * MIB);
  ck_assert_int_eq(figures().n_device_allocations, 2);
  storage_release(whole);
  close_pool();
}
END_TEST

START_TEST(pool_shares_a_chunk_between_small_blocks) {
  open_pool(false, NULL, 0);
  storage *held[1000];
  for (int i = 0; i < 1000; i++) held[i] = take(64 + i % 7 * 100);
  ck_assert_int_eq(figures().n_device_allocations, 1);
  for (int i = 0; i < 1000; i++) storage_release(held[i]);
  close_pool();
}
END_TEST

START_TEST(pool_repeats_itself_without_heap_or_device) {
  alloc_hook_begin();
  ck_assert_int_eq(device_open("host", &dev, NULL), REED_OK);
  ck_assert_int_eq(pool_open(dev, NULL, POOL_DEVICE, 1, 0, &p), REED_OK);
  storage *held[300];
  int64_t heap = 0, device_allocations = 0;
  for (int round = 0; round < 8; round++) {
    for (int i = 0; i < 300; i++) held[i] = take((int64_t)i * i * 11 % 200000);
    for (int i = 0; i < 300; i++) storage_release(held[(i * 7) % 300]);
    if (round == 2) /* until then, kept slabs lie where earlier rounds left them */
      heap = alloc_hook_requests(), device_allocations = figures().n_device_allocations;
  }
  ck_assert_int_eq(alloc_hook_requests(), heap);
  ck_assert_int_eq(figures().n_device_allocations, device_allocations);
  ck_assert_int_eq(figures().n_allocations, 2400);
  pool_close(&p);
  device_close(&dev);
  ck_assert_int_eq(alloc_hook_end(), 0);
}
END_TEST

/* Graphs hold addresses: a run's addresses do not depend on the order in which the run before released its blocks. */
START_TEST(pool_hands_out_the_same_addresses_in_every_run) {
  enum { N = 300 };
  static const int steps[] = {1, 7, 11, 13, 299, 7}; /* prime to N */
  storage *held[N];
  void *first[N];
  open_pool(true, NULL, 0);
  storage *stays = take(100);
  for (int round = 0; round < (int)(sizeof steps / sizeof *steps); round++) {
    for (int i = 0; i < N; i++) {
      held[i] = take(i % 3 ? (int64_t)i * i * 11 % 200000 : 1 + i % 64);
      if (round == 1) first[i] = held[i]->data; /* in round 0 the pool takes its chunks */
      if (round > 1) ck_assert_msg(held[i]->data == first[i], "round %d, block %d", round, i);
    }
    for (int i = 0; i < N; i++) storage_release(held[i * steps[round] % N]);
    (void)pool_end_run(p);
  }
  storage_release(stays);
  close_pool();
}
END_TEST

/* _i: 0 host, 1 sim, 2 sim under a cap. */
START_TEST(pool_arena_grows_and_is_one_block) {
  open_pool(_i > 0, NULL, _i == 2 ? 24 * MIB : 0);
  storage *arena = NULL, *other = take(3 * MIB);
  ck_assert_int_eq(pool_arena(p, 1000, &arena, said), REED_OK);
  const void *first = arena->data;
  for (int64_t bytes = MIB; bytes <= 20 * MIB; bytes += 3 * MIB) {
    ck_assert_int_eq(pool_arena(p, bytes, &arena, said), REED_OK);
    ck_assert_int_ge(arena->bytes, bytes);
    if (_i) ck_assert_ptr_eq(arena->data, first);
    else memset(arena->data, 1, (size_t)bytes);
  }
  int64_t most = arena->bytes;
  ck_assert_int_eq(pool_arena(p, 5, &arena, said), REED_OK); /* never smaller */
  ck_assert_int_eq(arena->bytes, most);
  ck_assert_int_eq(figures().live_bytes, most + 3 * MIB);
  if (_i == 2) {
    ck_assert_int_eq(pool_arena(p, 22 * MIB, &arena, said), REED_ERROR_MEMORY);
    ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(said), "cap 25165824"));
    storage_release(other); /* a released block makes room under the cap */
    other = NULL;
    ck_assert_int_eq(pool_arena(p, 22 * MIB, &arena, said), REED_OK);
  }
  storage_release(arena);
  storage_release(other);
  ck_assert_int_eq(figures().used_bytes, 0);
  close_pool();
}
END_TEST

START_TEST(pool_lends_pinned_memory) {
  open_pool(true, NULL, 0);
  pool *pinned = NULL;
  device_memory memory;
  storage *slot = NULL;
  ck_assert_int_eq(pool_open(dev, NULL, POOL_PINNED, 0, 0, &pinned), REED_OK);
  ck_assert_int_eq(pool_allocate(pinned, 5000, &slot, said), REED_OK);
  memset(slot->data, 3, 5000);
  storage *on_device = take(5000);
  const device_interface *on = dev->interface;
  uint8_t *back = slot->data;
  ck_assert_int_eq(on->copy_in(queue, on_device->data, slot->data, 5000, NULL, said), REED_OK);
  device_error error;
  ck_assert_int_eq(on->synchronize(queue, &error, said), REED_OK);
  memset(back, 0, 5000);
  ck_assert_int_eq(on->copy_out(queue, back, on_device->data, 5000, NULL, said), REED_OK);
  ck_assert_int_eq(on->synchronize(queue, &error, said), REED_OK);
  ck_assert_int_eq(back[4999], 3);
  on->memory(dev, &memory);
  ck_assert_int_ge(memory.pinned_bytes, 5000);
  ck_assert_int_eq(memory.n_unpinned_copies, 0);
  ck_assert_int_eq(on->copy_in(queue, on_device->data, &error, 4, NULL, said), REED_OK);
  on->memory(dev, &memory);
  ck_assert_int_eq(memory.n_unpinned_copies, 1);
  storage_release(slot);
  storage_release(on_device);
  pool_close(&pinned);
  on->memory(dev, &memory);
  ck_assert_int_eq(memory.pinned_bytes, 0);
  close_pool();
}
END_TEST

/* Memory from a pool that poisons holds no number of whoever had it before. */
START_TEST(pool_poisons_what_it_lends_and_takes_back) {
  open_pool(true, "?poison=1", 0);
  int64_t x = 5, seen = 0;
  device_error error;
  const device_interface *on = dev->interface;
  storage *a = take(8);
  void *data = a->data;
  ck_assert_int_eq(on->copy_in(queue, data, &x, 8, NULL, said), REED_OK);
  storage_release(a);
  ck_assert_int_eq(on->copy_out(queue, &seen, data, 8, NULL, said), REED_OK);
  ck_assert_int_eq(on->synchronize(queue, &error, said), REED_OK);
  ck_assert_int_eq(seen, -1);
  a = take(8);
  seen = 0;
  ck_assert_int_eq(on->copy_out(queue, &seen, a->data, 8, NULL, said), REED_OK);
  ck_assert_int_eq(on->synchronize(queue, &error, said), REED_OK);
  ck_assert_int_eq(seen, -1);
  storage_release(a);
  close_pool();
}
END_TEST

START_TEST(pool_trims_down_to_what_is_to_be_kept) {
  open_pool(false, NULL, 0);
  storage *a = take(8 * MIB), *b = take(4 * MIB), *c = take(3 * MIB), *d = take(100), *e = take(300);
  storage_release(a);
  storage_release(b);
  storage_release(d);
  storage_release(e);
  ck_assert_int_eq(figures().reserved_bytes, 17 * MIB);
  ck_assert_int_eq(pool_trim(p, 17 * MIB), 0);
  ck_assert_int_eq(pool_trim(p, 9 * MIB), 8 * MIB);
  ck_assert_int_eq(pool_trim(p, 0), 6 * MIB); /* the emptied slabs' chunk too */
  ck_assert_int_eq(figures().reserved_bytes, 3 * MIB);
  ck_assert_int_eq(figures().peak_reserved_bytes, 17 * MIB);
  ck_assert_int_eq(pool_trim(p, 0), 0); /* c is in use */
  storage_release(c);
  close_pool();
}
END_TEST

/* While a large request comes back in every window, the pool keeps its memory; two windows later it has given it back.
 */
START_TEST(pool_gives_back_what_later_runs_do_not_need) {
  open_pool(_i, NULL, 0);
  storage_release(take(64 * MIB));
  for (int run = 0; run < 3 * POOL_WINDOW; run++) {
    storage_release(take(run % (POOL_WINDOW / 2) == 3 ? 64 * MIB : 1 * MIB));
    (void)pool_end_run(p);
  }
  ck_assert_int_ge(figures().reserved_bytes, 64 * MIB);
  ck_assert_int_le(figures().n_device_allocations, 2);
  for (int run = 0; run < 2 * POOL_WINDOW; run++) {
    storage_release(take(1 * MIB));
    (void)pool_end_run(p);
  }
  ck_assert_int_le(figures().reserved_bytes, 4 * MIB);
  close_pool();
}
END_TEST

START_TEST(pool_stays_below_its_cap) {
  open_pool(true, NULL, 4 * MIB);
  storage *s = NULL, *a = take(3 * MIB);
  ck_assert_int_eq(pool_allocate(p, 2 * MIB, &s, said), REED_ERROR_MEMORY);
  ck_assert_ptr_null(s);
  const char *message = reed_diagnosis_message(said);
  ck_assert_msg(
      strstr(message,
             "2097152 bytes asked for; the session's tensors have 3145728 live, 3145728 reserved, cap 4194304") != NULL,
      "%s", message);
  storage *b = take(1000); /* a slab, though no generous chunk fits */
  ck_assert_int_le(figures().reserved_bytes, 4 * MIB);
  storage_release(a);
  storage *c = take(3 * MIB + 500 * KIB); /* a's chunk is too small: the pool gives this chunk back first */
  ck_assert_int_le(figures().reserved_bytes, 4 * MIB);
  storage_release(b);
  storage_release(c);
  ck_assert_int_eq(pool_allocate(p, INT64_MAX, &s, said), REED_ERROR_MEMORY);
  ck_assert_int_eq(pool_allocate(p, -1, &s, said), REED_ERROR_ARGUMENT);
  ck_assert_int_le(figures().peak_reserved_bytes, 4 * MIB);
  close_pool();
}
END_TEST

START_TEST(an_object_that_needs_a_new_block_is_refused_with_its_size) {
  open_pool(true, NULL, 4 * MIB);
  storage *s = NULL, *a = take(4 * MIB);
  ck_assert_int_eq(pool_allocate(p, 8, &s, said), REED_ERROR_MEMORY);
  const char *message = reed_diagnosis_message(said);
  ck_assert_msg(strstr(message, "8 bytes asked for in a block of 65536; ") != NULL, "%s", message);
  storage_release(a);
  close_pool();
}
END_TEST

START_TEST(pool_trims_and_tries_again_when_the_device_is_full) {
  open_pool(true, "?fail_allocation=3", 0);
  storage *held = take(20 * MIB);
  storage_release(take(3 * MIB));
  storage *a = take(5 * MIB); /* fails, gives the 3 MiB back, succeeds */
  ck_assert_int_eq(figures().reserved_bytes, 25 * MIB);
  storage_release(a);
  storage_release(held);
  close_pool();
  open_pool(true, "?fail_allocation=2", 0);
  a = take(3 * MIB);
  storage *s = NULL;
  ck_assert_int_eq(pool_allocate(p, 5 * MIB, &s, said), REED_ERROR_MEMORY); /* nothing to give back */
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(said), "out of memory on device 'sim'"));
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(said), "told to fail"));
  storage_release(a);
  close_pool();
}
END_TEST

/* Each iteration's tensor is larger than any before, like the carried value of a loop that appends rows. */
START_TEST(pool_does_not_keep_every_size_a_growing_tensor_had) {
  open_pool(false, NULL, 0);
  storage *carried = take(MIB);
  for (int i = 2; i <= 60; i++) {
    storage *longer = take(i * (int64_t)MIB);
    storage_release(carried);
    carried = longer;
  }
  int64_t most = (60 + 59) * MIB;
  ck_assert_int_le(figures().reserved_bytes, most + most / 4 + 2 * MIB);
  ck_assert_int_le(figures().peak_reserved_bytes, most + most / 4 + 2 * MIB);
  storage_release(carried);
  int64_t device_allocations = figures().n_device_allocations;
  for (int i = 10; i <= 60; i++) { /* free blocks of the last sizes serve all smaller requests */
    storage *a = take(i * (int64_t)MIB), *b = take((i - 1) * (int64_t)MIB);
    storage_release(a);
    storage_release(b);
  }
  ck_assert_int_eq(figures().n_device_allocations, device_allocations);
  close_pool();
}
END_TEST

/* An arena is requested again in each run. Smaller requests in between must not split the arena's free chunk while
 * another chunk has room. */
START_TEST(pool_keeps_large_free_blocks_for_large_requests) {
  open_pool(false, NULL, 0);
  storage_release(take(64 * MIB));
  storage *arena = take(20 * MIB), *small = take(300), *large = take(700 * KIB);
  storage_release(arena);
  arena = take(64 * MIB);
  ck_assert_int_eq(figures().n_device_allocations, 2); /* the arena's chunk, and one chunk for small and large */
  storage_release(arena);
  storage_release(small);
  storage_release(large);
  close_pool();
  open_pool(false, NULL, 64 * MIB); /* the cap leaves no room for another chunk: the arena's chunk is split */
  storage_release(take(64 * MIB));
  arena = take(40 * MIB);
  small = take(300);
  ck_assert_int_eq(figures().n_device_allocations, 1);
  storage_release(arena);
  storage_release(small);
  close_pool();
}
END_TEST

START_TEST(pool_lets_a_chunk_grow_where_it_lies) {
  open_pool(false, NULL, 40 * MIB);
  storage *a = take(20 * MIB);
  void *place = a->data;
  int64_t reserved = figures().reserved_bytes;
  storage_release(a);
  a = take(22 * MIB); /* the host leaves room for a quarter more */
  ck_assert_ptr_eq(a->data, place);
  memset(a->data, 7, 22 * MIB);
  ck_assert_int_eq(figures().reserved_bytes, reserved + 2 * MIB);
  ck_assert_int_eq(figures().n_device_allocations, 1);
  storage_release(a);
  storage *front = take(2 * MIB); /* the free rest at the chunk's end grows with the chunk */
  storage *b = take(21 * MIB);
  ck_assert_ptr_eq(b->data, (char *)place + 2 * MIB);
  ck_assert_int_eq(figures().n_device_allocations, 1);
  device_memory memory;
  dev->interface->memory(dev, &memory);
  ck_assert_int_eq(memory.live_bytes, figures().reserved_bytes);
  storage_release(front);
  storage_release(b);
  storage *large = take(30 * MIB); /* beyond the chunk's room: the pool gives it back and takes another chunk */
  ck_assert_int_le(figures().reserved_bytes, 40 * MIB);
  storage_release(large);
  close_pool();
}
END_TEST

START_TEST(pool_tells_fragmentation) {
  open_pool(false, NULL, 0);
  ck_assert_double_eq(figures().fragmentation, 0);
  storage *a = take(1 * MIB), *b = take(1 * MIB), *c = take(1 * MIB), *d = take(1 * MIB); /* two chunks of two */
  storage_release(a);
  ck_assert_double_eq(figures().fragmentation, 0);
  storage_release(d);
  ck_assert_double_eq(figures().fragmentation, 0.5);
  storage_release(b);
  storage_release(c);
  ck_assert_int_eq(figures().peak_live_bytes, 4 * MIB);
  close_pool();
}
END_TEST

START_TEST(pool_survives_each_failed_heap_allocation) {
  for (int64_t n = 1;; n++) {
    device *d = NULL;
    pool *made = NULL;
    storage *held[100] = {0};
    alloc_hook_begin();
    alloc_hook_fail_at(n);
    reed_status status = device_open("host", &d, NULL);
    if (status == REED_OK) status = pool_open(d, NULL, POOL_DEVICE, 0, 0, &made);
    for (int i = 0; i < 100 && status == REED_OK; i++) status = pool_allocate(made, i * 1000, &held[i], NULL);
    for (int i = 0; i < 100; i++) storage_release(held[i]);
    pool_close(&made);
    device_close(&d);
    bool reached = alloc_hook_failed();
    ck_assert_int_eq(alloc_hook_end(), 0);
    ck_assert(status == REED_OK || (reached && status == REED_ERROR_MEMORY));
    if (!reached) break;
  }
}
END_TEST

/* ---- a random life ---- */

static uint64_t random_state;

static int64_t random_below(int64_t n) { /* xorshift64*, Vigna 2016 */
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return (int64_t)((random_state * 0x2545F4914F6CDD1Dull >> 1) % (uint64_t)n);
}

static int by_address(const void *a, const void *b) {
  const char *one = *(const char *const *)a, *other = *(const char *const *)b;
  return (one > other) - (one < other);
}

/* Objects of which a slab holds four come back in a random order. While each slab keeps one, requests get the free
 * addresses from the lowest one on. */
START_TEST(many_slabs_serve_the_lowest_address) {
  enum { OBJECTS = 4000, BYTES = 20000 };
  static storage *held[OBJECTS];
  static const char *addresses[OBJECTS];
  int n = 0;
  open_pool(false, NULL, 0);
  random_state = 88172645463325252ull + (uint64_t)_i;
  for (int i = 0; i < OBJECTS; i++) ck_assert_int_eq(pool_allocate(p, BYTES, &held[i], said), REED_OK);
  for (int round = 0; round < 3; round++) {
    int order[OBJECTS];
    n = 0;
    for (int i = 0; i < OBJECTS; i++)
      if (i % 4 && random_below(4)) order[n++] = i;
    for (int i = n; i-- > 1;) {
      const int k = (int)random_below(i + 1), other = order[k];
      order[k] = order[i];
      order[i] = other;
    }
    for (int i = 0; i < n; i++) {
      addresses[i] = held[order[i]]->data;
      storage_release(held[order[i]]);
    }
    qsort(addresses, (size_t)n, sizeof *addresses, by_address);
    for (int i = 0; i < n; i++) {
      ck_assert_int_eq(pool_allocate(p, BYTES, &held[order[i]], said), REED_OK);
      ck_assert_ptr_eq(held[order[i]]->data, addresses[i]);
    }
  }
  for (int i = 0; i < OBJECTS; i++) storage_release(held[i]);
  ck_assert_int_eq(figures().used_bytes, 0);
  close_pool();
}
END_TEST

/* Every block is filled with its own pattern and looked at when it goes: an overlap shows. */
START_TEST(pool_agrees_with_a_model_through_a_random_life) {
  enum { SLOTS = 200, CAP = 48 * MIB };
  open_pool(false, NULL, CAP);
  storage *held[SLOTS] = {0};
  random_state = 0x9E3779B97F4A7C15ull * (uint64_t)(_i + 1);
  int64_t live = 0, peak = 0, refused = 0;
  for (int step = 0; step < 10000; step++) {
    int slot = (int)random_below(SLOTS);
    if (held[slot]) {
      ck_assert(filled_with(held[slot], (uint8_t)(held[slot]->bytes + slot)));
      live -= held[slot]->bytes;
      storage_release(held[slot]);
      held[slot] = NULL;
    } else {
      int64_t kind = random_below(10), bytes = random_below(kind < 6 ? 2000 : kind < 9 ? 100000 : 2 * MIB);
      storage *s = NULL;
      if (pool_allocate(p, bytes, &s, said) == REED_OK) {
        memset(s->data, (uint8_t)(bytes + slot), (size_t)bytes);
        held[slot] = s;
        live += bytes;
        if (live > peak) peak = live;
      } else {
        refused++;
        ck_assert_int_gt(figures().reserved_bytes + bytes + 4096, CAP);
      }
    }
    if (random_below(500) == 0) pool_trim(p, random_below(CAP));
    pool_figures f = figures();
    ck_assert_int_eq(f.live_bytes, live);
    ck_assert_int_eq(f.peak_live_bytes, peak);
    ck_assert_int_le(f.reserved_bytes, CAP);
    device_memory m;
    dev->interface->memory(dev, &m);
    ck_assert_int_eq(m.live_bytes, f.reserved_bytes);
  }
  pool_figures f = figures();
  printf("life %d: peak live %lld KiB, peak reserved %lld KiB, fragmentation at the end %.3f, %lld refused, %lld "
         "device allocations for %lld\n",
         _i, (long long)f.peak_live_bytes / KIB, (long long)f.peak_reserved_bytes / KIB, f.fragmentation,
         (long long)refused, (long long)f.n_device_allocations, (long long)f.n_allocations);
  for (int i = 0; i < SLOTS; i++) storage_release(held[i]);
  close_pool();
}
END_TEST

int main(void) {
  Suite *suite = suite_create("pool");
  TCase *tests = tcase_create("pool"), *random = tcase_create("random");
  tcase_set_timeout(random, 120);
  tcase_add_test(tests, pool_gives_blocks_of_every_size);
  tcase_add_test(tests, pool_rounds_small_blocks_up_by_a_fifth_at_most);
  tcase_add_test(tests, pool_keeps_storage_while_it_is_referenced);
  tcase_add_test(tests, pool_splits_the_best_fit_and_merges_neighbours);
  tcase_add_test(tests, pool_shares_a_chunk_between_small_blocks);
  tcase_add_test(tests, pool_repeats_itself_without_heap_or_device);
  tcase_add_test(tests, pool_hands_out_the_same_addresses_in_every_run);
  tcase_add_test(tests, pool_trims_down_to_what_is_to_be_kept);
  tcase_add_loop_test(tests, pool_gives_back_what_later_runs_do_not_need, 0, 2);
  tcase_add_loop_test(tests, pool_arena_grows_and_is_one_block, 0, 3);
  tcase_add_test(tests, pool_lends_pinned_memory);
  tcase_add_test(tests, pool_poisons_what_it_lends_and_takes_back);
  tcase_add_test(tests, pool_stays_below_its_cap);
  tcase_add_test(tests, an_object_that_needs_a_new_block_is_refused_with_its_size);
  tcase_add_test(tests, pool_trims_and_tries_again_when_the_device_is_full);
  tcase_add_test(tests, pool_does_not_keep_every_size_a_growing_tensor_had);
  tcase_add_test(tests, pool_keeps_large_free_blocks_for_large_requests);
  tcase_add_test(tests, pool_lets_a_chunk_grow_where_it_lies);
  tcase_add_test(tests, pool_tells_fragmentation);
  tcase_add_test(tests, pool_survives_each_failed_heap_allocation);
  tcase_add_loop_test(random, many_slabs_serve_the_lowest_address, 0, 4);
  tcase_add_loop_test(random, pool_agrees_with_a_model_through_a_random_life, 0, 4);
  suite_add_tcase(suite, tests);
  suite_add_tcase(suite, random);
  return suite_run(suite);
}
