/* Headroom of a pool's large blocks and of arenas: a slightly larger request gets the same memory, whose pages are
 * resident already. */
#include <string.h>
#include <sys/resource.h>

#include "tests/allocator/opened_pool.h"
#include "tests/suite.h"

static int64_t page_faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

/* A second request, larger by a tenth or by the limit of headroom, gets the same memory. On the host its pages are
 * resident already. */
START_TEST(pool_has_headroom_for_requests_an_eighth_larger) {
  bool sim = _i & 1, headroom = _i & 2;
  int64_t limit = _i & 4 ? INT64_MAX : POOL_HEADROOM_FIRST;
  const int64_t sizes[] = {80 * KIB, 1000 * KIB, 3 * MIB, 21 * MIB, 90 * MIB};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    open_pool(sim, NULL, 0);
    if (headroom) pool_set_headroom(p, limit, NULL);
    storage *a = take(sizes[i]), *arena = NULL;
    ck_assert_int_eq(pool_arena(p, sizes[i], &arena, said), REED_OK);
    void *first = a->data;
    if (!sim) memset(first, 1, (size_t)sizes[i]);
    const int64_t most = sizes[i] + pool_headroom(sizes[i], limit) + 4096;
    ck_assert(pool_capacity(a) <= most && pool_capacity(arena) <= most);
    storage_release(a);
    int64_t larger = sizes[i] + (sizes[i] / 10 < limit ? sizes[i] / 10 : limit), asked = figures().n_device_allocations,
            reserved = figures().reserved_bytes, faults = page_faults();
    a = take(larger);
    if (!sim) memset(a->data, 2, (size_t)larger);
    faults = page_faults() - faults;
    ck_assert_int_eq(pool_arena(p, larger, &arena, said), REED_OK);
    if (headroom) {
      ck_assert_ptr_eq(a->data, first);
      ck_assert_int_eq(figures().n_device_allocations, asked);
      ck_assert_int_eq(figures().reserved_bytes, reserved);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* their shadow memory causes page faults */
      if (!sim) ck_assert_int_eq(faults, 0);
#endif
    } else if (i > 1) {
      ck_assert_int_gt(figures().reserved_bytes, reserved);
    }
    storage_release(a);
    storage_release(arena);
    close_pool();
  }
}
END_TEST

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* A block whose pages are there. */
static storage *take_written(int64_t bytes) {
  storage *s = take(bytes);
  memset(s->data, 1, (size_t)bytes);
  return s;
}

/* A chunk's rest that nobody has written yet is the smaller free block, but has no pages. */
START_TEST(pool_takes_a_block_with_its_pages_first) {
  open_pool(false, NULL, 0);
  pool_set_headroom(p, POOL_HEADROOM_FIRST, NULL);
  storage *kept = take(80 * KIB), *large = take_written(5 * MIB);
  void *memory = large->data;
  storage_release(large);
  int64_t faults = page_faults();
  storage *small = take(MIB);
  memset(small->data, 2, MIB);
  ck_assert_int_eq(page_faults() - faults, 0);
  ck_assert_ptr_eq(small->data, memory);
  storage_release(small);
  storage_release(kept);
  close_pool();
}
END_TEST

/* A small request takes a chunk of its own, not a part of the large free block, though this one has its pages. */
START_TEST(pool_keeps_large_blocks_with_pages_for_large_requests) {
  open_pool(false, NULL, 0);
  pool_set_headroom(p, POOL_HEADROOM_FIRST, NULL);
  storage *large = take_written(64 * MIB);
  void *memory = large->data;
  storage_release(large);
  storage *middle = take(20 * MIB), *small = take(MIB);
  storage_release(middle);
  large = take(64 * MIB);
  ck_assert_ptr_eq(large->data, memory);
  ck_assert_int_eq(figures().n_device_allocations, 2);
  storage_release(large);
  storage_release(small);
  close_pool();
}
END_TEST

/* An arena may be a small part of the large free block, as it is gone before the next one is asked for. */
START_TEST(pool_gives_arenas_of_a_large_block_with_pages) {
  open_pool(false, NULL, 0);
  pool_set_headroom(p, POOL_HEADROOM_FIRST, NULL);
  storage *arena = take_written(64 * MIB);
  void *memory = arena->data;
  for (int64_t bytes = 3 * MIB; bytes > 80 * KIB; bytes /= 2) {
    storage_release(arena);
    const int64_t faults = page_faults();
    ck_assert_int_eq(pool_allocate_for(p, POOL_ARENA, bytes, &arena, said), REED_OK);
    ck_assert_ptr_eq(arena->data, memory);
    ck_assert_int_eq(page_faults() - faults, 0);
    storage_release(arena);
    arena = take(64 * MIB);
    ck_assert_ptr_eq(arena->data, memory);
  }
  ck_assert_int_eq(figures().n_device_allocations, 1);
  storage_release(arena);
  close_pool();
}
END_TEST

/* An arena that grows by 40 KiB in each run, to seven times its first size, takes the pages that it lacks and at most
 * 32 of its headroom: in no run those of a whole eighth (240 below 4 MiB; huge pages from there on), or of new memory.
 */
START_TEST(an_arena_that_grows_takes_its_pages_by_and_by) {
  open_pool(false, NULL, 0);
  pool_set_headroom(p, INT64_MAX, NULL);
  storage *arena = take_written(3 * MIB / 2);
  const void *memory = arena->data;
  for (int64_t bytes = 3 * MIB / 2; bytes < 11 * MIB; bytes += 40 * KIB) {
    storage_release(arena);
    const int64_t faults = page_faults();
    ck_assert_int_eq(pool_allocate_for(p, POOL_ARENA, bytes, &arena, said), REED_OK);
    memset(arena->data, 1, (size_t)bytes);
    pool_end_run(p);
    const int64_t taken = page_faults() - faults;
    ck_assert_msg(taken <= 48, "%lld page faults for %lld KiB", (long long)taken, (long long)bytes / KIB);
    ck_assert_ptr_eq(arena->data, memory);
  }
  for (int run = 0; run < POOL_WINDOW / 2; run++) pool_end_run(p);
  const int64_t whole = pool_capacity(arena), faults = page_faults();
  storage_release(arena);
  ck_assert_int_eq(pool_allocate_for(p, POOL_ARENA, whole, &arena, said), REED_OK);
  memset(arena->data, 1, (size_t)whole);
  ck_assert_int_eq(page_faults() - faults, 0); /* the whole headroom is there */
  ck_assert_int_eq(figures().n_device_allocations, 1);
  storage_release(arena);
  close_pool();
}
END_TEST

/* Making the pages of a large block resident takes long, so a raised flag ends it. */
START_TEST(pool_gives_no_pages_while_the_flag_is_raised) {
  open_pool(false, NULL, 0);
  int flag = 1;
  pool_set_headroom(p, POOL_HEADROOM_FIRST, &flag);
  int64_t faults = page_faults();
  storage *a = take(48 * MIB);
  ck_assert_int_le(page_faults() - faults, 8);
  memset(a->data, 1, (size_t)(48 * MIB));
  ck_assert_int_ge(page_faults() - faults, 24);
  storage_release(a);
  close_pool();
  flag = 0;
  open_pool(false, NULL, 0);
  pool_set_headroom(p, POOL_HEADROOM_FIRST, &flag);
  a = take(48 * MIB);
  faults = page_faults();
  memset(a->data, 1, (size_t)(48 * MIB));
  ck_assert_int_eq(page_faults() - faults, 0);
  storage_release(a);
  close_pool();
}
END_TEST

/* A tensor at its bound makes only its written pages resident; the next tensor in its memory has all pages resident. */
START_TEST(pool_gives_no_pages_of_cold_storage) {
  open_pool(false, NULL, 0);
  pool_set_headroom(p, POOL_HEADROOM_FIRST, NULL);
  int64_t faults = page_faults();
  storage *a;
  ck_assert_int_eq(pool_allocate_for(p, POOL_BOUND, 48 * MIB, &a, said), REED_OK);
  memset(a->data, 1, KIB);
  ck_assert_int_le(page_faults() - faults, 8);
  storage_release(a);
  a = take(48 * MIB);
  faults = page_faults();
  memset(a->data, 1, (size_t)(48 * MIB));
  ck_assert_int_eq(page_faults() - faults, 0);
  storage_release(a);
  close_pool();
}
END_TEST
#endif

/* A chunk for a request beyond the slack is no larger than the block on the host, where it can grow in place: a part of
 * a huge page at its end would be resident for nothing. */
START_TEST(pool_takes_no_more_than_the_block_beyond_the_slack) {
  open_pool(false, NULL, 0);
  pool_set_headroom(p, POOL_HEADROOM_FIRST, NULL);
  storage *small = take(100 * KIB), *a = take(3 * MIB + 200 * KIB);
  storage_release(a);
  a = take(6 * MIB + 500 * KIB);
  ck_assert_int_le(figures().reserved_bytes, pool_capacity(a) + pool_capacity(small) + 2 * MIB);
  storage_release(a);
  storage_release(small);
  close_pool();
}
END_TEST

/* The device has as much as is asked for, but no eighth more. */
START_TEST(an_arena_on_a_full_device_gives_up_headroom) {
  open_pool(true, "?fail_allocation=1", 0);
  pool_set_headroom(p, INT64_MAX, NULL);
  storage *arena = NULL;
  ck_assert_msg(pool_arena(p, 8 * MIB, &arena, said) == REED_OK, "%s", reed_diagnosis_message(said));
  ck_assert_int_eq(pool_capacity(arena), 8 * MIB);
  ck_assert_int_eq(figures().reserved_bytes, 8 * MIB);
  storage_release(arena);
  close_pool();
}
END_TEST

/* Headroom is left out where the cap does not allow it. */
START_TEST(pool_under_a_cap_gives_up_headroom_first) {
  open_pool(_i, NULL, 10 * MIB);
  pool_set_headroom(p, INT64_MAX, NULL);
  storage *a = take(5 * MIB), *b = take(4 * MIB + 256 * KIB), *arena = NULL;
  ck_assert_int_le(figures().reserved_bytes, 10 * MIB);
  storage_release(a);
  storage_release(b);
  ck_assert_int_eq(pool_arena(p, 10 * MIB, &arena, said), REED_OK);
  ck_assert_int_eq(figures().reserved_bytes, 10 * MIB);
  storage_release(arena);
  close_pool();
}
END_TEST

int main(void) {
  Suite *s = suite_create("headroom of a pool");
  TCase *tests = tcase_create("headroom");
  tcase_add_loop_test(tests, pool_has_headroom_for_requests_an_eighth_larger, 0, 8);
  tcase_add_test(tests, pool_takes_no_more_than_the_block_beyond_the_slack);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  tcase_add_test(tests, pool_takes_a_block_with_its_pages_first);
  tcase_add_test(tests, pool_keeps_large_blocks_with_pages_for_large_requests);
  tcase_add_test(tests, pool_gives_arenas_of_a_large_block_with_pages);
  tcase_add_test(tests, an_arena_that_grows_takes_its_pages_by_and_by);
  tcase_add_test(tests, pool_gives_no_pages_while_the_flag_is_raised);
  tcase_add_test(tests, pool_gives_no_pages_of_cold_storage);
#endif
  tcase_add_test(tests, an_arena_on_a_full_device_gives_up_headroom);
  tcase_add_loop_test(tests, pool_under_a_cap_gives_up_headroom_first, 0, 2);
  suite_add_tcase(s, tests);
  return suite_run(s);
}
