/* Heap memory for the memo's next entries: how much is held, when it goes back, that its pages are there. */
#include "vm/epoch/reserve.h"

#include <check.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "reed/memory.h"
#include "tests/suite.h"

#define PAGE_BYTES 4096
#define MUCH ((int64_t)1 << 30)

static bool is_resident(const char *block) {
  const char *page = (const char *)(((uintptr_t)block + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1));
  unsigned char resident[RESERVE_BLOCK / PAGE_BYTES - 1];
  ck_assert_int_eq(mincore((void *)page, sizeof resident * PAGE_BYTES, resident), 0);
  for (size_t i = 0; i < sizeof resident; i++)
    if (!(resident[i] & 1)) return false;
  return true;
}

START_TEST(blocks_have_their_pages_and_last_for_several_runs) {
  heap_reserve r = {0};
  reserve_use(&r, true);
  ck_assert_int_eq(r.n, 0);
  reserve_renew(&r, 2 * RESERVE_BLOCK, MUCH, true);
  ck_assert_int_eq(r.n, 4); /* for one more such run, and a block that stays */
  reserve_renew(&r, 0, MUCH, false);
  ck_assert_int_eq(r.n, RESERVE_BLOCKS);
  for (int32_t i = 0; i < r.n; i++) ck_assert(is_resident(r.blocks[i]));
  int32_t n_runs = 0;
  for (; r.n > 9; n_runs++) { /* a run of this growth gives three blocks back */
    int32_t before = r.n;
    reserve_use(&r, true);
    reserve_use(&r, true);
    ck_assert_int_eq(before - r.n, 3);
    const char *last = r.blocks[r.n - 1];
    for (int32_t i = 0; i + 1 < r.n; i++) ck_assert(last > (const char *)r.blocks[i]);
    before = r.n;
    reserve_renew(&r, 2 * RESERVE_BLOCK, MUCH, true);
    reserve_renew(&r, 0, MUCH, false);
    ck_assert_int_eq(r.n, before);
  }
  ck_assert_int_ge(n_runs, 18);
  reserve_use(&r, true);
  reserve_renew(&r, 2 * RESERVE_BLOCK, MUCH, true);
  ck_assert_int_lt(r.n, 7);
  reserve_renew(&r, 0, MUCH, false);
  ck_assert_int_eq(r.n, RESERVE_BLOCKS);
  reserve_fini(&r);
  ck_assert_int_eq(r.n, 0);
}
END_TEST

/* No miss pays for several runs, also where no run without a miss comes in between. */
START_TEST(misses_in_a_row_take_the_blocks_of_one_run_each) {
  heap_reserve r = {0};
  reserve_renew(&r, 2 * RESERVE_BLOCK, MUCH, true);
  ck_assert_int_eq(r.n, 4);
  reserve_use(&r, true);
  ck_assert_int_eq(r.n, 1);
  reserve_renew(&r, 2 * RESERVE_BLOCK, MUCH, true);
  ck_assert_int_eq(r.n, 4);
  reserve_fini(&r);
}
END_TEST

START_TEST(a_memo_that_does_not_grow_or_is_nearly_full_takes_nothing) {
  heap_reserve r = {0};
  reserve_renew(&r, 0, MUCH, false);
  reserve_renew(&r, -5, MUCH, true);
  ck_assert_int_eq(r.n, 0);
  reserve_renew(&r, RESERVE_BLOCK, 0, true);
  ck_assert_int_eq(r.n, 0);
  reserve_renew(&r, RESERVE_BLOCK, 5 * RESERVE_BLOCK, false);
  ck_assert_int_eq(r.n, 5);
  reserve_fini(&r);
  r = (heap_reserve){0};
  reserve_renew(&r, 100, MUCH, true); /* small entries: memory for RESERVE_RUNS runs, not for the most blocks */
  reserve_renew(&r, 0, MUCH, false);
  ck_assert_int_eq(r.n, 2);
  reserve_use(&r, true); /* one block stays, so that what goes back is not the heap's end */
  reserve_use(&r, true);
  ck_assert_int_eq(r.n, 1);
  reserve_fini(&r);
}
END_TEST

static void *allocate(void *context, size_t bytes) { return (void)context, malloc(bytes); }
static void *resize(void *context, void *block, size_t bytes) { return (void)context, realloc(block, bytes); }
static void release(void *context, void *block) { (void)context, free(block); }

/* A program's own allocator may have a bound, and need not keep freed memory. */
START_TEST(a_programs_own_allocator_is_asked_for_nothing) {
  heap_reserve r = {0};
  reed_set_allocator(&(reed_allocator){allocate, resize, release, NULL});
  reserve_renew(&r, RESERVE_BLOCK, MUCH, true);
  reed_set_allocator(NULL);
  ck_assert_int_eq(r.n, 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("reserve");
  TCase *cases = tcase_create("reserve");
  tcase_add_test(cases, blocks_have_their_pages_and_last_for_several_runs);
  tcase_add_test(cases, misses_in_a_row_take_the_blocks_of_one_run_each);
  tcase_add_test(cases, a_memo_that_does_not_grow_or_is_nearly_full_takes_nothing);
  tcase_add_test(cases, a_programs_own_allocator_is_asked_for_nothing);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
