/* Small blocks side by side (base/rows.h). */
#include "base/rows.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/suite.h"

enum { MOST = 4000 };

/* Blocks in use do not overlap, are aligned, lie one behind the other, and are freed in any order. */
START_TEST(blocks_lie_side_by_side) {
  static char *blocks[MOST];
  static size_t bytes[MOST];
  mem_row row = {0};
  ck_assert_ptr_null(rows_use(&row));
  size_t n_near = 0;
  for (int i = 0; i < MOST; i++) {
    bytes[i] = (size_t)(i * 37 % 900);
    blocks[i] = i % 2 ? mem_alloc(bytes[i]) : mem_calloc(1, bytes[i]);
    ck_assert_ptr_nonnull(blocks[i]);
    ck_assert(rows_have(blocks[i]));
    ck_assert_uint_eq((uintptr_t)blocks[i] % 16, 0);
    for (size_t k = 0; i % 2 == 0 && k < bytes[i]; k++) ck_assert_int_eq(blocks[i][k], 0);
    memset(blocks[i], i, bytes[i]);
    n_near += i > 0 && blocks[i] == blocks[i - 1] + (bytes[i - 1] ? (bytes[i - 1] + 15) / 16 * 16 : 16);
  }
  ck_assert_uint_gt(n_near, MOST - MOST / 16);
  ck_assert_ptr_eq(rows_use(NULL), &row);
  for (int i = 0; i < MOST; i++) {
    int at = (int)((int64_t)i * 1237 % MOST);
    for (size_t k = 0; k < bytes[at]; k++) ck_assert_int_eq((unsigned char)blocks[at][k], at & 0xff);
    mem_free(blocks[at]);
  }
  rows_close(&row);
}
END_TEST

/* A page comes back once its last block is free, and not before. */
START_TEST(pages_are_used_again) {
  mem_row row = {0};
  for (int round = 0; round < 2000; round++) { /* more bytes than there are addresses */
    char *blocks[64];
    (void)rows_use(&row);
    for (int i = 0; i < 64; i++) {
      blocks[i] = mem_alloc(4000);
      ck_assert(rows_have(blocks[i]));
      memset(blocks[i], i, 4000);
    }
    (void)rows_use(NULL);
    for (int i = 63; i >= 0; i--) {
      for (int k = 0; k < 4000; k += 999) ck_assert_int_eq(blocks[i][k], i);
      mem_free(blocks[i]);
    }
    if (round % 100 == 0) rows_trim();
  }
  rows_close(&row);
}
END_TEST

/* Of many free pages the ones taken next have their memory. */
START_TEST(free_pages_keep_memory) {
  enum { PAGES = 200, TAKEN = 10 };
  static void *blocks[PAGES * 8];
  mem_row row = {0};
  long faults = 0;
  for (int round = 0; round < 5; round++) {
    struct rusage before, after;
    const int n = round == 0 ? PAGES * 8 : TAKEN * 8;
    ck_assert_int_eq(getrusage(RUSAGE_SELF, &before), 0);
    (void)rows_use(&row);
    for (int i = 0; i < n; i++) memset(blocks[i] = mem_alloc(4000), i, 4000);
    (void)rows_use(NULL);
    for (int i = 0; i < n; i++) mem_free(blocks[i]);
    ck_assert_int_eq(getrusage(RUSAGE_SELF, &after), 0);
    if (round > 0) faults += after.ru_minflt - before.ru_minflt;
  }
  ck_assert_int_lt(faults, TAKEN);
  rows_trim();
  rows_close(&row);
}
END_TEST

/* Blocks outlive their row, grow, and are freed by another thread. */
static void *free_block(void *block) {
  mem_free(block);
  return NULL;
}
START_TEST(blocks_outlive_their_row) {
  mem_row row = {0};
  (void)rows_use(&row);
  char *block = mem_alloc(100), *other = mem_alloc(100), *in_row;
  memset(block, 7, 100);
  ck_assert_ptr_nonnull(in_row = mem_resize(block, 2, 100));
  ck_assert(rows_have(in_row));
  (void)rows_use(NULL);
  rows_close(&row);
  char *moved = mem_resize(in_row, 10, 1000);
  ck_assert_ptr_nonnull(moved);
  ck_assert(!rows_have(moved));
  for (int i = 0; i < 100; i++) ck_assert_int_eq(moved[i], 7);
  mem_free(moved);
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, free_block, other), 0);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

/* Pages get their memory before a block needs it, but not more than a few. */
START_TEST(pages_are_ready_ahead) {
  const reed_rows *rows = &reed_rows_shared;
  static char *blocks[MOST];
  mem_row row = {0};
  int n = 0;
  (void)rows_use(&row);
  do ck_assert_ptr_nonnull(blocks[n++] = mem_alloc(4000));
  while (rows->n_free && n < MOST);
  const size_t before = rows->n_used;
  while (rows->n_used == before && n < MOST) ck_assert_ptr_nonnull(blocks[n++] = mem_alloc(4000));
  const size_t used = rows->n_used;
  ck_assert_uint_eq(used, before + 1); /* a block that needs a page takes no others */
  ck_assert_uint_eq(rows->n_free, 0);
  for (int i = 0; i < 9; i++) rows_renew();
  const size_t ahead = rows->n_free;
  ck_assert_uint_ge(ahead, 2);
  ck_assert_uint_le(ahead, 8);
  ck_assert_uint_eq(rows->n_used, used + ahead);
  rows_trim();
  ck_assert_uint_eq(rows->n_cold, rows->n_free);
  rows_renew(); /* pages whose memory the system has back come first */
  ck_assert_uint_eq(rows->n_cold, 0);
  ck_assert_uint_eq(rows->n_used, used + ahead);
  (void)rows_use(NULL);
  while (n > 0) mem_free(blocks[--n]);
  rows_close(&row);
}
END_TEST

/* Large blocks, aligned blocks beyond a page, and threads without a row take the heap's memory. */
START_TEST(other_blocks_are_the_heaps) {
  mem_row row = {0};
  (void)rows_use(&row);
  char *large = mem_alloc(ROWS_PAGE), *aligned = mem_alloc_aligned(100, 64);
  ck_assert(!rows_have(large));
  ck_assert_uint_eq((uintptr_t)aligned % 64, 0);
  (void)rows_use(NULL);
  char *plain = mem_alloc(100);
  ck_assert(!rows_have(plain));
  ck_assert(!rows_have(NULL));
  mem_free(large);
  mem_free_aligned(aligned);
  mem_free(plain);
  rows_close(&row);
  rows_close(&row);
}
END_TEST

/* A child forked while another thread takes and frees pages has rows that work. */
static atomic_bool busy;
static void *use_pages(void *unused) {
  (void)unused;
  while (atomic_load(&busy)) {
    mem_row row = {0};
    (void)rows_use(&row);
    void *blocks[40];
    for (int i = 0; i < 40; i++) blocks[i] = mem_alloc(4000);
    (void)rows_use(NULL);
    for (int i = 0; i < 40; i++) mem_free(blocks[i]);
    rows_close(&row);
    rows_trim(); /* holds the lock for long */
  }
  return NULL;
}
START_TEST(children_have_rows) {
  pthread_t thread;
  atomic_store(&busy, true);
  ck_assert_int_eq(pthread_create(&thread, NULL, use_pages, NULL), 0);
  for (int round = 0; round < 200; round++) {
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
      alarm(20);
      mem_row row = {0};
      (void)rows_use(&row);
      void *block = mem_alloc(100);
      (void)rows_use(NULL);
      mem_free(block);
      rows_close(&row);
      rows_trim();
      _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
  }
  atomic_store(&busy, false);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

/* A program's own allocator makes every block. */
static int n_made;
static void *make(void *context, size_t bytes) {
  (void)context;
  n_made++;
  return malloc(bytes);
}
static void *remake(void *context, void *block, size_t bytes) {
  (void)context;
  return realloc(block, bytes);
}
static void release(void *context, void *block) {
  (void)context;
  free(block);
}
START_TEST(another_allocator_has_no_rows) {
  const reed_allocator own = {make, remake, release, &n_made};
  mem_row row = {0};
  (void)rows_use(&row);
  char *before = mem_alloc(40);
  reed_set_allocator(&own);
  char *block = mem_alloc(40);
  ck_assert_int_eq(n_made, 1);
  ck_assert(!rows_have(block));
  mem_free(before); /* of a row, whatever the allocator is now */
  mem_free(block);
  reed_set_allocator(NULL);
  (void)rows_use(NULL);
  rows_close(&row);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("rows");
  TCase *t = tcase_create("all");
  suite_add_tcase(suite, t);
  tcase_set_timeout(t, 60);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* a sanitizer watches blocks one by one */
  tcase_add_test(t, blocks_lie_side_by_side);
  tcase_add_test(t, pages_are_used_again);
  tcase_add_test(t, free_pages_keep_memory);
  tcase_add_test(t, blocks_outlive_their_row);
  tcase_add_test(t, pages_are_ready_ahead);
  tcase_add_test(t, other_blocks_are_the_heaps);
  tcase_add_test(t, children_have_rows);
#else
  (void)blocks_lie_side_by_side;
  (void)pages_are_used_again;
  (void)free_pages_keep_memory;
  (void)blocks_outlive_their_row;
  (void)other_blocks_are_the_heaps;
  (void)children_have_rows;
#endif
  tcase_add_test(t, another_allocator_has_no_rows);
  return suite_run(suite);
}
