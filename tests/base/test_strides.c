/* Arithmetic on strides: dense ones, room along an axis, covered bytes, distinct addresses, copies. */
#include "base/strides.h"

#include <check.h>
#include <string.h>

#include "tests/suite.h"

static reed_desc floats(int32_t rank, const int64_t *dims) {
  reed_desc d = {.dtype = REED_F32, .rank = rank};
  memcpy(d.dims, dims, sizeof *dims * (size_t)rank);
  return d;
}

START_TEST(dense_strides_and_room) {
  reed_desc d = floats(3, (int64_t[]){2, 3, 4});
  int64_t s[REED_MAX_RANK];
  strides_of(&d, -1, 0, s);
  ck_assert(s[0] == 12 && s[1] == 4 && s[2] == 1 && strides_are_dense(&d, s));
  strides_of(&d, 1, 5, s);
  ck_assert(s[0] == 20 && s[1] == 4 && s[2] == 1 && !strides_are_dense(&d, s));
  d.dims[0] = 1; /* nothing comes after the room */
  ck_assert(strides_are_dense(&d, s));
  d.dims[0] = 2, d.dims[2] = 0;
  ck_assert(strides_are_dense(&d, (int64_t[]){7, 7, 7}));
}
END_TEST

/* The room of strides, for every capacity and axis; strides that are no room. */
START_TEST(room_is_found_in_strides) {
  int64_t s[REED_MAX_RANK], capacity;
  for (int64_t batch = 1; batch < 4; batch++)
    for (int32_t axis = 0; axis < 4; axis++)
      for (int64_t more = 0; more < 3; more++) {
        reed_desc d = floats(4, (int64_t[]){batch, 1, 5, 4});
        strides_of(&d, axis, d.dims[axis] + more, s);
        ck_assert(strides_have_room(&d, s, axis, &capacity));
        ck_assert_int_eq(capacity, d.dims[axis] + (batch > 1 && axis > 0 ? more : axis == 3 ? more : 0));
      }
  reed_desc d = floats(3, (int64_t[]){2, 3, 4});
  ck_assert(!strides_have_room(&d, (int64_t[]){14, 4, 1}, 1, &capacity)); /* no multiple of a row */
  ck_assert(!strides_have_room(&d, (int64_t[]){8, 4, 1}, 1, &capacity));  /* less than the extent */
  ck_assert(!strides_have_room(&d, (int64_t[]){24, 8, 2}, 1, &capacity));
  ck_assert(!strides_have_room(&d, (int64_t[]){-12, 4, 1}, 1, &capacity));
  ck_assert(!strides_have_room(&d, (int64_t[]){20, 4, 1}, 2, &capacity));
  ck_assert(!strides_have_room(&d, (int64_t[]){20, 4, 1}, -1, &capacity));
  ck_assert(strides_have_room(&d, (int64_t[]){20, 4, 1}, 1, &capacity) && capacity == 5);
  d.dims[1] = 0;
  ck_assert(strides_have_room(&d, (int64_t[]){7, 7, 7}, 1, &capacity) && capacity == 0);
}
END_TEST

START_TEST(covered_bytes) {
  reed_desc d = floats(2, (int64_t[]){3, 2});
  int64_t low, high;
  ck_assert(strides_span(&d, (int64_t[]){2, 1}, &low, &high) && low == 0 && high == 24);
  ck_assert(strides_span(&d, (int64_t[]){-5, 1}, &low, &high) && low == -40 && high == 8);
  ck_assert(strides_span(&d, (int64_t[]){0, 0}, &low, &high) && low == 0 && high == 4);
  ck_assert(!strides_span(&d, (int64_t[]){INT64_MAX, 1}, &low, &high));
  ck_assert(!strides_span(&d, (int64_t[]){INT64_MAX / 4, 1}, &low, &high));
  ck_assert(!strides_span(&d, (int64_t[]){INT64_MIN / 4, 1}, &low, &high));
  d.dims[0] = 0;
  ck_assert(strides_span(&d, (int64_t[]){INT64_MAX, 1}, &low, &high) && low == 0 && high == 0);
}
END_TEST

START_TEST(addresses_of_elements) {
  reed_desc d = floats(2, (int64_t[]){3, 2});
  static const struct {
    int64_t strides[2];
    bool distinct;
  } cases[] = {{{2, 1}, true},  {{1, 3}, true},  {{-2, 1}, true}, {{9, 4}, true},
               {{1, 1}, false}, {{0, 1}, false}, {{1, 2}, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    ck_assert_int_eq(strides_are_distinct(&d, cases[i].strides), cases[i].distinct);
  d.dims[0] = 1;
  ck_assert(strides_are_distinct(&d, (int64_t[]){0, 1}));
}
END_TEST

/* Every pair of layouts of one shape: the copy equals the loop over indices, and writes nothing else. */
START_TEST(copies_equal_a_loop) {
  static const int64_t layouts[][3] = {{12, 4, 1}, {20, 4, 1}, {1, 2, 6}, {-12, 4, 1}, {15, 5, 1}, {4, 8, 1}};
  enum { N = sizeof layouts / sizeof *layouts, SIZE = 64, MIDDLE = 24 };
  reed_desc d = floats(3, (int64_t[]){2, 3, 4});
  for (int a = 0; a < N; a++)
    for (int b = 0; b < N; b++) {
      float from[SIZE], to[SIZE], expected[SIZE];
      for (int i = 0; i < SIZE; i++) from[i] = (float)i, to[i] = expected[i] = -1;
      for (int64_t i = 0; i < 2; i++)
        for (int64_t k = 0; k < 3; k++)
          for (int64_t j = 0; j < 4; j++)
            expected[MIDDLE + i * layouts[a][0] + k * layouts[a][1] + j * layouts[a][2]] =
                from[MIDDLE + i * layouts[b][0] + k * layouts[b][1] + j * layouts[b][2]];
      strides_copy(&d, to + MIDDLE, layouts[a], from + MIDDLE, layouts[b]);
      ck_assert_mem_eq(to, expected, sizeof to);
    }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("strides");
  TCase *cases = tcase_create("strides");
  tcase_add_test(cases, dense_strides_and_room);
  tcase_add_test(cases, room_is_found_in_strides);
  tcase_add_test(cases, covered_bytes);
  tcase_add_test(cases, addresses_of_elements);
  tcase_add_test(cases, copies_equal_a_loop);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
