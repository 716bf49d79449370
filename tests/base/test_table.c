/* The hash table beside an array that is searched from end to end. */
#include <check.h>

#include "base/hash.h"
#include "base/table.h"
#include "tests/alloc_hook.h"
#include "tests/suite.h"

enum { ITEMS = 400 };

typedef struct model {
  uint32_t keys[ITEMS];
  bool in[ITEMS];
} model;

static bool same_key(const void *context, uint32_t item, const void *wanted) {
  const model *m = context;
  return m->keys[item] == *(const uint32_t *)wanted;
}

static uint32_t found_by_search(const model *m, uint32_t key) {
  for (uint32_t i = 0; i < ITEMS; i++)
    if (m->in[i] && m->keys[i] == key) return i;
  return TABLE_NONE;
}

/* `bits`: of the hash that are left; few of them make every item collide with many. */
static void agrees(int bits) {
  model m = {{0}, {0}};
  table t = {0};
  uint64_t random = 88172645463325252ull, mask = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
  for (uint32_t i = 0; i < ITEMS; i++) m.keys[i] = i * 7 + 1;
  for (int step = 0; step < 20000; step++) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17; /* xorshift64, Marsaglia 2003 */
    uint32_t i = (uint32_t)(random >> 20) % ITEMS;
    uint64_t hash = hash_bytes(&m.keys[i], sizeof m.keys[i], 0) & mask;
    ck_assert_uint_eq(table_find(&t, hash, same_key, &m, &m.keys[i]), found_by_search(&m, m.keys[i]));
    if (m.in[i]) table_remove(&t, hash, i);
    else ck_assert(table_add(&t, hash, i));
    m.in[i] = !m.in[i];
  }
  size_t n = 0;
  for (uint32_t i = 0; i < ITEMS; i++) n += m.in[i];
  ck_assert_uint_eq(t.n, n);
  table_fini(&t);
}

START_TEST(it_finds_what_a_search_finds) {
  agrees(64);
  agrees(5);
  agrees(0);
}
END_TEST

START_TEST(hashes_that_wrap_around_the_end_are_removed_whole) {
  model m = {{1, 2, 3, 4}, {0}};
  table t = {0};
  for (uint32_t i = 0; i < 4; i++) ck_assert(table_add(&t, UINT64_MAX - (i & 1), i));
  table_remove(&t, UINT64_MAX, 0);
  ck_assert_uint_eq(table_find(&t, UINT64_MAX, same_key, &m, &m.keys[0]), TABLE_NONE);
  for (uint32_t i = 1; i < 4; i++) ck_assert_uint_eq(table_find(&t, UINT64_MAX - (i & 1), same_key, &m, &m.keys[i]), i);
  table_remove(&t, UINT64_MAX, 0); /* removes a key that the table does not have */
  ck_assert_uint_eq(t.n, 3);
  table_fini(&t);
}
END_TEST

START_TEST(the_first_item_with_a_hash_is_told_by_the_hash_alone) {
  table t = {0};
  table_prefetch(&t, 7);
  ck_assert_uint_eq(table_first(&t, 7), TABLE_NONE);
  for (uint32_t i = 0; i < 8; i++) ck_assert(table_add(&t, i / 2 + 64 * (i / 2), i)); /* two items have each hash */
  ck_assert(table_add(&t, UINT64_MAX, 8));
  ck_assert(table_add(&t, UINT64_MAX - 64, 9)); /* the same place, behind the table's end */
  for (uint32_t i = 0; i < 4; i++) ck_assert_uint_eq(table_first(&t, i + 64 * i), 2 * i);
  ck_assert_uint_eq(table_first(&t, UINT64_MAX), 8);
  ck_assert_uint_eq(table_first(&t, UINT64_MAX - 64), 9);
  ck_assert_uint_eq(table_first(&t, UINT64_MAX - 128), TABLE_NONE);
  table_prefetch(&t, UINT64_MAX);
  table_fini(&t);
}
END_TEST

START_TEST(without_memory_the_table_stays_as_it_was) {
  alloc_hook_begin();
  model m = {{0}, {0}};
  table t = {0};
  for (uint32_t i = 0; i < ITEMS; i++) m.keys[i] = i;
  ck_assert(table_reserve(&t, 48));
  alloc_hook_fail_at(1);
  for (uint32_t i = 0; i < 48; i++) ck_assert(table_add(&t, i * 64, i));
  ck_assert(!table_add(&t, 1, 48));
  for (uint32_t i = 0; i < 48; i++) ck_assert_uint_eq(table_find(&t, i * 64, same_key, &m, &m.keys[i]), i);
  table_fini(&t);
  ck_assert_int_eq(alloc_hook_end(), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("table");
  TCase *c = tcase_create("table");
  tcase_add_test(c, it_finds_what_a_search_finds);
  tcase_add_test(c, hashes_that_wrap_around_the_end_are_removed_whole);
  tcase_add_test(c, the_first_item_with_a_hash_is_told_by_the_hash_alone);
  tcase_add_test(c, without_memory_the_table_stays_as_it_was);
  suite_add_tcase(suite, c);
  return suite_run(suite);
}
