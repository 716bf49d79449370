/* Large blocks (base/mem.h): which of their pages are in memory. */
#include "base/mem.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/suite.h"

enum { PAGE = 4096, MEGABYTE = 1 << 20 };

/* The pages of begin..end of a block that are in memory. */
static int64_t resident(const char *block, size_t begin, size_t end) {
  static unsigned char pages[64 * MEGABYTE / PAGE];
  const size_t n = (end - begin) / PAGE;
  ck_assert(n <= sizeof pages);
  ck_assert_int_eq(mincore((void *)(uintptr_t)(block + begin), end - begin, pages), 0);
  int64_t found = 0;
  for (size_t i = 0; i < n; i++) found += pages[i] & 1;
  return found;
}

/* No page beyond the bytes in use is in memory, wherever they end inside a huge page (_i: half megabytes), neither when
 * the block is new nor after it is extended. */
START_TEST(room_takes_addresses_only) {
  const size_t half = MEGABYTE / 2, capacity = 24 * MEGABYTE, used = (size_t)_i * half;
  char *block = mem_alloc_bulk_room(used, capacity);
  ck_assert_ptr_nonnull(block);
  memset(block, 1, used);
  ck_assert_int_eq(resident(block, 0, used), (int64_t)(used / PAGE));
  ck_assert_int_eq(resident(block, used, capacity), 0);
  mem_extend_bulk(block, used, used + 7 * half);
  memset(block + used, 1, 7 * half);
  ck_assert_int_eq(resident(block, used + 7 * half, capacity), 0);
  for (size_t i = 0; i < used + 7 * half; i += half) ck_assert_int_eq(block[i], 1);
  mem_free_aligned(block);
}
END_TEST

/* True if the system is asked for huge pages at the address (proc(5), smaps: the flag hg). */
static bool asks_for_huge_pages(const void *address) {
  char line[4096];
  bool here = false, asks = false;
  FILE *file = fopen("/proc/self/smaps", "r");
  ck_assert_ptr_nonnull(file);
  while (fgets(line, sizeof line, file)) {
    unsigned long begin, end;
    if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) here = begin <= (uintptr_t)address && (uintptr_t)address < end;
    else if (here && strncmp(line, "VmFlags:", 8) == 0) asks = strstr(line, " hg") != NULL;
  }
  fclose(file);
  return asks;
}

/* Addresses for more do not count: a huge page of a block that uses less may cost milliseconds in a miss, where the
 * system has to move other pages for it. */
START_TEST(blocks_that_use_four_megabytes_ask_for_huge_pages) {
  char *small = mem_alloc_bulk_room(4 * MEGABYTE - PAGE, 24 * MEGABYTE),
       *large = mem_alloc_bulk_room(4 * MEGABYTE, 24 * MEGABYTE);
  ck_assert(small && large);
  mem_extend_bulk(small, 0, 4 * MEGABYTE - PAGE);
  ck_assert(!asks_for_huge_pages(small));
  mem_extend_bulk(small, 4 * MEGABYTE - PAGE, 6 * MEGABYTE);
#ifdef MADV_HUGEPAGE
  bool asks = asks_for_huge_pages(large) && asks_for_huge_pages(small + 4 * MEGABYTE),
       there_are = madvise(large, 4 * MEGABYTE, MADV_HUGEPAGE) == 0;
  ck_assert(asks || !there_are);
#endif
  mem_free_aligned(small);
  mem_free_aligned(large);
}
END_TEST

/* A block without room is in memory when its last byte is written, and was warmed. */
START_TEST(warm_pages_are_in_memory) {
  for (size_t bytes = MEGABYTE; bytes <= 9 * (size_t)MEGABYTE; bytes += 3 * MEGABYTE / 2) {
    char *block = mem_alloc_bulk(bytes);
    ck_assert_ptr_nonnull(block);
    ck_assert_uint_eq(mem_warm(block, bytes, NULL), bytes);
    ck_assert_int_eq(resident(block, 0, bytes), (int64_t)(bytes / PAGE));
    mem_free_aligned(block);
  }
}
END_TEST

/* Pages of the process that are in memory (proc(5), statm). */
static int64_t resident_now(void) {
  long all = 0, now = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  ck_assert(file && fscanf(file, "%ld %ld", &all, &now) == 2);
  fclose(file);
  return now;
}

/* A zeroed block takes little memory beyond its bytes, whatever part of a huge page they end in. The kernel counts
 * pages in batches of 64 and more, and the first block needs page tables. */
START_TEST(zeroed_blocks_take_their_own_pages_only) {
  for (size_t bytes = MEGABYTE; bytes <= 7 * (size_t)MEGABYTE; bytes += 3 * MEGABYTE / 4) {
    char *block = mem_calloc_bulk(bytes);
    ck_assert_ptr_nonnull(block);
    int any = 0;
    for (size_t i = 0; i < bytes; i++) any |= block[i];
    ck_assert_int_eq(any, 0);
    mem_free_aligned(block);
    int64_t before = resident_now();
    block = mem_calloc_bulk(bytes);
    memset(block, 1, bytes);
    ck_assert_int_le(resident_now() - before, (int64_t)(bytes / PAGE) + 128);
    mem_free_aligned(block);
  }
}
END_TEST

/* In a process of its own, because a limit stays. */
START_TEST(addresses_under_a_limit_are_not_free) {
  ck_assert(mem_addresses_are_free(64 * MEGABYTE));
  ck_assert(!mem_addresses_are_free(PAGE)); /* in the heap */
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    const rlim_t terabyte = (rlim_t)1 << 40;
    const bool set = setrlimit(RLIMIT_AS, &(struct rlimit){terabyte, terabyte}) == 0;
    _exit(set && !mem_addresses_are_free(64 * MEGABYTE) ? 0 : 1);
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("mem");
  TCase *t = tcase_create("all");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* their heaps write into blocks of their own */
  tcase_add_loop_test(t, room_takes_addresses_only, 8, 24);
  tcase_add_test(t, blocks_that_use_four_megabytes_ask_for_huge_pages);
  tcase_add_test(t, warm_pages_are_in_memory);
  tcase_add_test(t, zeroed_blocks_take_their_own_pages_only);
  tcase_add_test(t, addresses_under_a_limit_are_not_free);
#else
  (void)addresses_under_a_limit_are_not_free;
  (void)room_takes_addresses_only;
  (void)warm_pages_are_in_memory;
  (void)zeroed_blocks_take_their_own_pages_only;
#endif
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
