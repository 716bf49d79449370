/* The checksum of a module file: the same by any number of threads, with other work beside it, and cancelled. Modules
 * with a wrong checksum: test_loader.c. */
#include <check.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/processors.h"
#include "bytecode/format.h"
#include "loader/checksum.h"
#include "tests/suite.h"

static uint64_t sum_of(const uint8_t *data, size_t n) {
  uint64_t sum = 0;
  ck_assert(module_file_checksum(data, n, NULL, NULL, &sum));
  return sum;
}

/* The checksum by its definition (bytecode/format.h). */
static uint64_t sum_of_blocks(const uint8_t *data, size_t n) {
  uint64_t sum = 0, index = 0;
  for (size_t at = 0; at < n; at += FORMAT_BLOCK_BYTES, index++)
    sum += hash_bytes(data + at, n - at < FORMAT_BLOCK_BYTES ? n - at : FORMAT_BLOCK_BYTES, index);
  return sum;
}

START_TEST(threads_give_the_checksum_that_one_gives) {
  static const size_t sizes[] = {64, FORMAT_BLOCK_BYTES, FORMAT_BLOCK_BYTES + 1, 35 * FORMAT_BLOCK_BYTES + 4711};
  uint8_t *data = malloc(sizes[3]);
  for (size_t i = 0; i < sizes[3]; i++) data[i] = (uint8_t)(i * 2654435761u >> 13);
  for (int i = 0; i < 4; i++) ck_assert(sum_of(data, sizes[i]) == sum_of_blocks(data, sizes[i]));
  uint64_t whole = sum_of(data, sizes[3]);
  for (size_t at = 0; at < sizes[3];
       at += FORMAT_BLOCK_BYTES * 3 + 77) { /* a damaged byte in any block; below, two blocks that change places */
    data[at] ^= 0x10;
    ck_assert(sum_of(data, sizes[3]) != whole);
    data[at] ^= 0x10;
  }
  uint8_t *swap = malloc(FORMAT_BLOCK_BYTES), *one = data + FORMAT_BLOCK_BYTES, *two = one + FORMAT_BLOCK_BYTES;
  memcpy(swap, one, FORMAT_BLOCK_BYTES), memcpy(one, two, FORMAT_BLOCK_BYTES), memcpy(two, swap, FORMAT_BLOCK_BYTES);
  ck_assert(sum_of(data, sizes[3]) != whole);
  free(swap), free(data);
}
END_TEST

static int n_threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  ck_assert_ptr_nonnull(tasks);
  int n = 0;
  while (readdir(tasks)) n++;
  closedir(tasks);
  return n;
}

START_TEST(a_file_of_few_blocks_starts_no_helper) {
  size_t n = (size_t)hash_blocks_at_once() * FORMAT_BLOCK_BYTES;
  uint8_t *data = calloc(1, n);
  int before = n_threads();
  sum_of(data, n);
  ck_assert_int_eq(n_threads(), before);
  free(data);
}
END_TEST

static void note_call(void *context) { ++*(int *)context; }

/* Once, also for a file without bytes, and before a cancelled checksum returns. */
START_TEST(other_work_is_done_once_beside_a_checksum) {
  const size_t sizes[] = {0, 64, 3 * FORMAT_BLOCK_BYTES};
  uint8_t *data = calloc(1, sizes[2]);
  for (int i = 0; i < 6; i++) {
    int n_calls = 0, cancel = i & 1;
    uint64_t sum = 0;
    bool whole = module_file_checksum(data, sizes[i / 2], &(checksum_beside){note_call, &n_calls},
                                      cancel ? &cancel : NULL, &sum);
    ck_assert_int_eq(n_calls, 1);
    ck_assert(whole == (!cancel || sizes[i / 2] == 0));
    if (whole) ck_assert(sum == sum_of_blocks(data, sizes[i / 2]));
  }
  free(data);
}
END_TEST

/* Traps: the first read of each of these blocks raises the flag and is counted. */
static uint8_t *traps, *traps_end;
static int trap_flag, n_sprung;

static void spring(int number, siginfo_t *info, void *context) {
  (void)number, (void)context;
  uint8_t *at = info->si_addr;
  if (at < traps || at >= traps_end) _exit(3);
  uint8_t *block = traps + (at - traps) / FORMAT_BLOCK_BYTES * FORMAT_BLOCK_BYTES;
  if (mprotect(block, FORMAT_BLOCK_BYTES, PROT_READ)) _exit(3);
  __atomic_store_n(&trap_flag, 1, __ATOMIC_SEQ_CST);
  __atomic_fetch_add(&n_sprung, 1, __ATOMIC_SEQ_CST);
}

/* Most blocks are traps. In whatever order the threads take blocks, each thread springs at most the traps that it reads
 * at a time; a checksum that went on would spring all. */
START_TEST(a_checksum_that_is_cancelled_ends_at_the_next_blocks_of_each_thread) {
  enum { N_BLOCKS = 256, READABLE = 100 };
  size_t n = N_BLOCKS * FORMAT_BLOCK_BYTES;
  uint8_t *data = mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(data, MAP_FAILED);
  traps = data + READABLE * FORMAT_BLOCK_BYTES;
  traps_end = data + n;
  ck_assert_int_eq(mprotect(traps, (size_t)(traps_end - traps), PROT_NONE), 0);
  struct sigaction before, action = {.sa_sigaction = spring, .sa_flags = SA_SIGINFO};
  ck_assert_int_eq(sigaction(SIGSEGV, &action, &before), 0);
  uint64_t sum = 4711;
  bool whole = module_file_checksum(data, n, NULL, &trap_flag, &sum);
  ck_assert_int_eq(sigaction(SIGSEGV, &before, NULL), 0);
  ck_assert(!whole && sum == 4711 && trap_flag == 1);
  ck_assert_int_ge(n_sprung, 1);
  ck_assert_int_le(n_sprung, processors_in_affinity() * hash_blocks_at_once());
  munmap(data, n);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("checksum");
  TCase *c = tcase_create("checksum");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, a_file_of_few_blocks_starts_no_helper);
  tcase_add_test(c, threads_give_the_checksum_that_one_gives);
  tcase_add_test(c, other_work_is_done_once_beside_a_checksum);
  tcase_add_test(c, a_checksum_that_is_cancelled_ends_at_the_next_blocks_of_each_thread);
  suite_add_tcase(suite, c);
  return suite_run(suite);
}
