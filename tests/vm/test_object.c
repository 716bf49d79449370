/* References and counted objects: sharing, value semantics, release of long chains, output blocks that outlive their
 * store. */
#include <check.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hook.h"
#include "tests/alloc_hook.h"
#include "tests/suite.h"
#include "vm/object.h"
#include "vm/output.h"
#include "vm/tensor.h"

static int n_released;
static void count_release(storage *block) {
  n_released++;
  mem_free(block);
}

static ref stored_tensor(void) {
  storage *block = mem_calloc(1, sizeof *block);
  *block = (storage){.n_references = 1, .release = count_release};
  return (ref){.kind = REF_STORED, .bounded_axis = -1, .t = {.desc = {.dtype = REED_F32}, .storage = block}};
}

START_TEST(assigning_shares_storage_until_the_last_reference_goes) {
  object_heap heap = {0};
  n_released = 0;
  ref a = stored_tensor(), b = {0};
  ref_assign(&heap, &b, &a);
  ref_clear(&heap, &a);
  ck_assert_int_eq(n_released, 0);
  ck_assert_int_eq(a.kind, REF_EMPTY);
  ref_clear(&heap, &b);
  ck_assert_int_eq(n_released, 1);
}
END_TEST

START_TEST(a_pushed_shared_sequence_is_copied) {
  object_heap heap = {0};
  ref item = stored_tensor(), a = {.kind = REF_OBJECT, .object = object_new(&heap, OBJECT_SEQUENCE, 0)}, b = {0};
  ck_assert(object_push(&heap, a.object, &item));
  ref_assign(&heap, &b, &a);
  ck_assert(object_own(&heap, &b));
  ck_assert(object_push(&heap, b.object, &item));
  ck_assert_uint_eq(a.object->fields.n, 1);
  ck_assert_uint_eq(b.object->fields.n, 2);
  ref_clear(&heap, &a);
  ref_clear(&heap, &b);
  n_released = 0;
  ref_clear(&heap, &item);
  ck_assert_int_eq(n_released, 1);
  object_heap_fini(&heap);
}
END_TEST

START_TEST(a_sequence_pushed_into_itself_makes_no_cycle) {
  alloc_hook_begin();
  object_heap heap = {0};
  ref a = {.kind = REF_OBJECT, .object = object_new(&heap, OBJECT_SEQUENCE, 0)}, item = {0};
  ref_assign(&heap, &item, &a);
  ck_assert(object_own(&heap, &a));
  ck_assert(object_push(&heap, a.object, &item));
  ref_clear(&heap, &item);
  ref_clear(&heap, &a);
  object_heap_fini(&heap);
  ck_assert_int_eq(alloc_hook_end(), 0);
}
END_TEST

/* A call for each cell would take at least 32 bytes of stack: ten times the thread's stack. */
enum { CELLS = 20000, STACK_BYTES = 64 << 10 };

static void *release_list(void *list) {
  object_heap heap = {0};
  ref_clear(&heap, list);
  object_heap_fini(&heap);
  return NULL;
}

START_TEST(a_long_chain_of_cells_is_released_without_recursion) {
  alloc_hook_begin();
  object_heap heap = {0};
  ref list = {0};
  for (int i = 0; i < CELLS; i++) {
    ref cell = {.kind = REF_OBJECT, .object = object_new(&heap, OBJECT_ADT, 1)};
    if (list.kind) ck_assert(object_push(&heap, cell.object, &list));
    ref_clear(&heap, &list);
    list = cell;
  }
  pthread_attr_t small;
  pthread_t thread;
  pthread_attr_init(&small);
  ck_assert_int_eq(pthread_attr_setstacksize(&small, STACK_BYTES), 0);
  ck_assert_int_eq(pthread_create(&thread, &small, release_list, &list), 0);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&small);
  object_heap_fini(&heap);
  ck_assert_int_eq(alloc_hook_end(), 0);
}
END_TEST

START_TEST(an_output_outlives_its_store_and_blocks_are_used_again) {
  alloc_hook_begin();
  output_store *store;
  ck_assert_int_eq(output_store_open(OUTPUT_HEAP, NULL, NULL, 0, 1, &store), REED_OK);
  reed_desc desc = {.dtype = REED_F32, .rank = 1, .dims = {100}};
  reed_tensor *a, *b;
  ck_assert_int_eq(output_open(store, &desc, &a, NULL), REED_OK);
  void *memory = reed_tensor_data(a);
  reed_tensor_close(&a);
  int64_t before = alloc_hook_requests();
  ck_assert_int_eq(output_open(store, &desc, &b, NULL), REED_OK);
  ck_assert_ptr_eq(reed_tensor_data(b), memory);
  ck_assert_int_eq(alloc_hook_requests(), before);
  output_store_close(&store);
  memset(reed_tensor_data(b), 1, 400);
  reed_tensor_close(&b);
  ck_assert_int_eq(alloc_hook_end(), 0);
}
END_TEST

START_TEST(free_blocks_of_sizes_far_apart_stay_up_to_the_bound) {
  enum { SIZES = 4 };
  static const int64_t elements[SIZES] = {100, 1000, 10000, 100000};
  alloc_hook_begin();
  output_store *store;
  ck_assert_int_eq(output_store_open(OUTPUT_HEAP, NULL, NULL, 0, SIZES, &store), REED_OK);
  reed_tensor *tensors[SIZES + 1];
  for (int round = 0; round < 3; round++) {
    int64_t before = alloc_hook_requests();
    for (int i = 0; i < SIZES; i++)
      ck_assert_int_eq(
          output_open(store, &(reed_desc){.dtype = REED_F32, .rank = 1, .dims = {elements[i]}}, &tensors[i], NULL),
          REED_OK);
    ck_assert(round == 0 || alloc_hook_requests() == before);
    for (int i = 0; i < SIZES; i++) reed_tensor_close(&tensors[i]);
  }
  int64_t held = output_store_figures(store).reserved_bytes;
  for (int i = 0; i <= SIZES; i++)
    ck_assert_int_eq(output_open(store, &(reed_desc){.dtype = REED_F32, .rank = 1, .dims = {elements[i % SIZES]}},
                                 &tensors[i], NULL),
                     REED_OK);
  for (int i = 0; i <= SIZES; i++) reed_tensor_close(&tensors[i]); /* the first to come back is one too many */
  ck_assert_int_eq(output_store_figures(store).reserved_bytes, held);
  output_store_close(&store);
  ck_assert_int_eq(alloc_hook_end(), 0);
}
END_TEST

static reed_tensor *open_floats(output_store *store, int64_t n) {
  reed_tensor *t = NULL;
  ck_assert_int_eq(output_open(store, &(reed_desc){.dtype = REED_F32, .rank = 1, .dims = {n}}, &t, NULL), REED_OK);
  return t;
}

START_TEST(one_block_serves_few_boxes_and_many) {
  enum { MANY = 2200000, FEW = 22000, ONE = 17000 };
  output_store *store;
  ck_assert_int_eq(output_store_open(OUTPUT_HEAP, NULL, NULL, 0, 4, &store), REED_OK);
  reed_tensor *a = open_floats(store, MANY), *b = open_floats(store, MANY);
  const void *first = reed_tensor_data(a), *second = reed_tensor_data(b);
  reed_tensor_close(&a);
  reed_tensor_close(&b);
  a = open_floats(store, FEW);
  ck_assert(reed_tensor_data(a) == first || reed_tensor_data(a) == second);
  b = open_floats(store, FEW); /* the caller keeps an output */
  ck_assert(reed_tensor_data(b) != first && reed_tensor_data(b) != second);
  reed_tensor_close(&a);
  reed_tensor_close(&b);
  output_store_trim(store, 0);
  a = open_floats(store, MANY);
  first = reed_tensor_data(a);
  reed_tensor_close(&a);
  a = open_floats(store, ONE); /* less than a 128th */
  ck_assert_ptr_ne(reed_tensor_data(a), first);
  reed_tensor_close(&a);
  output_store_trim(store, 0);
  a = open_floats(store, MANY);
  first = reed_tensor_data(a);
  reed_tensor_close(&a);
  (void)output_store_end_window(store);
  a = open_floats(store, FEW);
  ck_assert_ptr_eq(reed_tensor_data(a), first);
  reed_tensor_close(&a);
  ck_assert_int_gt(output_store_figures(store).reserved_bytes, 0);
  (void)output_store_end_window(store); /* no request of this window was for a fourth of the block */
  ck_assert_int_eq(output_store_figures(store).reserved_bytes, 0);
  output_store_close(&store);
}
END_TEST

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) /* these have heaps of their own */
static int64_t resident_bytes(void) {
  long long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%*d %lld", &pages) != 1) pages = 0;
  if (f) fclose(f);
  return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

START_TEST(trimming_gives_back_what_is_free_between_blocks) {
  enum { N = 2000, BYTES = 20000 };
  static void *large[N], *small[N];
  for (int i = 0; i < N; i++) {
    large[i] = memset(mem_alloc(BYTES), 1, BYTES);
    small[i] = memset(mem_alloc(40), 1, 40);
  }
  for (int i = 0; i < N; i++) mem_free(large[i]);
  int64_t before = resident_bytes();
  hook_trim();
  ck_assert_int_lt(resident_bytes(), before - (int64_t)N * BYTES / 2);
  for (int i = 0; i < N; i++) {
    ck_assert_int_eq(*(char *)small[i], 1);
    mem_free(small[i]);
  }
}
END_TEST

/* Small blocks that stay lie between large ones: the C library's heap would grow with each tensor. */
START_TEST(large_tensors_are_not_in_the_heap) {
  enum { N = 20 };
  void *small[N];
  reed_tensor *tensor;
  int64_t most = 0;
  for (int i = 0; i < N; i++) {
    int64_t extent = (i % 2 ? 6 << 20 : 3 << 20) + i * 40000;
    ck_assert_int_eq(reed_tensor_open(REED_U8, 1, &extent, &tensor), REED_OK);
    for (int64_t k = 0; k < extent; k++)
      if (((char *)reed_tensor_data(tensor))[k]) ck_abort_msg("byte %lld is not 0", (long long)k);
    memset(reed_tensor_data(tensor), 1, (size_t)extent);
    small[i] = mem_alloc(1000);
    struct mallinfo2 heap = mallinfo2();
    if ((int64_t)(heap.arena + heap.hblkhd) > most) most = (int64_t)(heap.arena + heap.hblkhd);
    reed_tensor_close(&tensor);
  }
  ck_assert_int_lt(most, 4 << 20);
  for (int i = 0; i < N; i++) mem_free(small[i]);
}
END_TEST
#endif

int main(void) {
  Suite *suite = suite_create("object");
  TCase *cases = tcase_create("object");
  tcase_add_test(cases, assigning_shares_storage_until_the_last_reference_goes);
  tcase_add_test(cases, a_pushed_shared_sequence_is_copied);
  tcase_add_test(cases, a_sequence_pushed_into_itself_makes_no_cycle);
  tcase_add_test(cases, a_long_chain_of_cells_is_released_without_recursion);
  tcase_add_test(cases, an_output_outlives_its_store_and_blocks_are_used_again);
  tcase_add_test(cases, one_block_serves_few_boxes_and_many);
  tcase_add_test(cases, free_blocks_of_sizes_far_apart_stay_up_to_the_bound);
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  tcase_add_test(cases, trimming_gives_back_what_is_free_between_blocks);
  tcase_add_test(cases, large_tensors_are_not_in_the_heap);
#endif
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
