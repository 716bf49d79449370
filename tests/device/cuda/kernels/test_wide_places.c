/* Indices, choices and elements made of places, over more elements than 32 bits count (wide.h). */
#include "tests/device/cuda/kernels/wide.h"

#define HALF (((int64_t)1 << 31) + 389) /* two rows of so many elements have more than 2^32 */

static const reed_desc rows_of_two = {REED_I8, 2, {2, HALF}}, one_row = {REED_I8, 1, {MANY}};

/* The numbers first, first + 1, ... at the begin and last, last - 1, ... from the end. */
static void put_ends(char *data, int64_t n, int first, int last) {
  for (int k = 0; k < 8; k++) data[k] = (char)(first + k), data[n - 1 - k] = (char)(last - k);
}
static void check_ends(const char *data, int64_t n, int first, int last) {
  for (int k = 0; k < 8; k++) {
    ck_assert_int_eq(data[k], first + k);
    ck_assert_int_eq(data[n - 1 - k], last - k);
  }
}

/* Runs the ends of a call with an attribute `axis`. */
static void run_on_axis(int64_t number, emulated_call c) {
  const reed_attr axis = {.name = "axis", .type = REED_ATTR_INT, .i = number};
  c.attrs = &(reed_attrs){&axis, 1};
  run_ends(&c);
}
static void run_on_axis_0(emulated_call c) { run_on_axis(0, c); }

/* The rows change places. */
START_TEST(rows_are_gathered_in_64_bits) {
  const int64_t indices[] = {1, 0};
  const reed_desc in[] = {rows_of_two, {REED_I64, 1, {2}}};
  char *x = reserve(2 * HALF), *y = reserve(2 * HALF);
  put_ends(x, HALF, 1, 60);
  put_ends(x + HALF, HALF, 21, 90);
  run_ends(&(emulated_call){.op = OP_Gather, .in = in, .n_in = 2, .out = in, .inputs = {x, indices}, .output = y});
  check_ends(y, 2 * HALF, 21, 60);
}
END_TEST

/* The last elements of the last row come from the first row. */
START_TEST(elements_are_gathered_in_64_bits) {
  const reed_desc in[] = {rows_of_two, {REED_I32, 2, {2, HALF}}};
  char *x = reserve(2 * HALF), *y = reserve(2 * HALF);
  int32_t *indices = reserve(8 * HALF);
  put_ends(x, HALF, 1, 60);
  put_ends(x + HALF, HALF, 21, 90);
  for (int k = 0; k < 8; k++) indices[k] = 1;
  run_on_axis_0(
      (emulated_call){.op = OP_GatherElements, .in = in, .n_in = 2, .out = in, .inputs = {x, indices}, .output = y});
  check_ends(y, 2 * HALF, 21, 60);
}
END_TEST

/* Pairs of places: of pair k the elements of row places[k][0], column places[k][1]. */
START_TEST(elements_at_pairs_of_places_are_gathered_in_64_bits) {
  const int64_t n = HALF;
  const reed_desc in[] = {rows_of_two, {REED_I32, 2, {n, 2}}}, out = {REED_I8, 1, {n}};
  char *x = reserve(2 * HALF), *y = reserve(n);
  int32_t *places = reserve(8 * n);
  put_ends(x + HALF, HALF, 21, 90);
  x[HALF + INT32_MAX] = 77; /* the last column that an i32 names */
  for (int k = 0; k < 8; k++) {
    places[2 * k] = places[2 * (n - 1 - k)] = 1;
    places[2 * k + 1] = k;
    places[2 * (n - 1 - k) + 1] = INT32_MAX;
  }
  run_ends(&(emulated_call){.op = OP_GatherND, .in = in, .n_in = 2, .out = &out, .inputs = {x, places}, .output = y});
  for (int k = 0; k < 8; k++) {
    ck_assert_int_eq(y[k], 21 + k);
    ck_assert_int_eq(y[n - 1 - k], 77);
  }
}
END_TEST

/* The first update goes to the last element and the last update to element 5; all others go to element 0. */
START_TEST(updates_are_scattered_in_64_bits) {
  static const char *const reductions[] = {"none", "add"};
  const reed_desc in[] = {one_row, {REED_I64, 1, {MANY}}, one_row};
  const reed_attr reduction = {.name = "reduction", .type = REED_ATTR_STRING, .s = reductions[_i]};
  char *x = reserve(MANY), *updates = reserve(MANY), *y = reserve(MANY);
  int64_t *indices = reserve(8 * MANY);
  put_ends(x, MANY, 1, 60);
  indices[0] = MANY - 1, indices[MANY - 1] = 5;
  updates[0] = 21, updates[MANY - 1] = 22;
  run_ends(&(emulated_call){.op = OP_ScatterElements,
                            .attrs = &(reed_attrs){&reduction, 1},
                            .in = in,
                            .n_in = 3,
                            .out = &one_row,
                            .inputs = {x, indices, updates},
                            .output = y});
  ck_assert_int_eq(y[MANY - 1], _i ? 60 + 21 : 21);
  ck_assert_int_eq(y[MANY - 2], 59);
  ck_assert_int_eq(y[5], _i ? 6 + 22 : 22);
  ck_assert_int_eq(y[1], 2);
  ck_assert_int_eq(y[0], _i ? 1 : 0);
}
END_TEST

/* Updates of three neighbours: the first one goes to the last row, the last one to the first row. */
START_TEST(blocks_are_scattered_in_64_bits) {
  const int64_t rows = MANY / 3, n = 3 * rows;
  const reed_desc matrix = {REED_I8, 2, {rows, 3}}, in[] = {matrix, {REED_I64, 2, {rows, 1}}, matrix};
  char *x = reserve(n), *updates = reserve(n), *y = reserve(n);
  int64_t *indices = reserve(8 * rows);
  put_ends(x, n, 1, 60);
  put_ends(updates, n, 21, 90);
  for (int64_t k = 0; k < 300; k++) indices[k] = 2, indices[rows - 1 - k] = 1;
  indices[0] = rows - 1, indices[rows - 1] = 0;
  run_ends(&(emulated_call){
      .op = OP_ScatterND, .in = in, .n_in = 3, .out = &matrix, .inputs = {x, indices, updates}, .output = y});
  for (int k = 0; k < 3; k++) {
    ck_assert_int_eq(y[k], 88 + k);
    ck_assert_int_eq(y[n - 3 + k], 21 + k);
    ck_assert_int_eq(y[n - 4 - k], 57 - k);
  }
}
END_TEST

START_TEST(pads_are_counted_in_64_bits) {
  const int64_t pads[] = {3, 1}, n = MANY - 4;
  const reed_desc in[] = {{REED_I8, 1, {n}}, {REED_I64, 1, {2}}, {REED_I8, 0, {0}}};
  char *x = reserve(n), *y = reserve(MANY), value = 9;
  put_ends(x, n, 1, 60);
  run_ends(&(emulated_call){.op = OP_Pad,
                            .in = in,
                            .n_in = 3,
                            .out = &one_row,
                            .host = (const void *const[]){NULL, pads, NULL},
                            .inputs = {x, pads, &value},
                            .output = y});
  for (int k = 0; k < 3; k++) ck_assert_int_eq(y[k], 9);
  ck_assert_int_eq(y[MANY - 1], 9);
  check_ends(y + 3, n, 1, 60);
}
END_TEST

START_TEST(rows_of_one_element_that_is_set_are_made_in_64_bits) {
  const int64_t n = MANY / 3, depth = 3;
  const reed_desc in[] = {{REED_I8, 1, {n}}, {REED_I64, 0, {0}}, {REED_I8, 1, {2}}}, out = {REED_I8, 2, {n, 3}};
  char *indices = reserve(n), *y = reserve(3 * n);
  const char values[] = {4, 7};
  for (int k = 0; k < 8; k++) indices[k] = 1, indices[n - 1 - k] = 2;
  run_ends(&(emulated_call){.op = OP_OneHot,
                            .in = in,
                            .n_in = 3,
                            .out = &out,
                            .host = (const void *const[]){NULL, &depth, NULL},
                            .inputs = {indices, &depth, values},
                            .output = y});
  for (int k = 0; k < 8; k++) {
    ck_assert_int_eq(y[k], k % 3 == 1 ? 7 : 4);
    ck_assert_int_eq(y[3 * n - 1 - k], k % 3 == 0 ? 7 : 4);
  }
}
END_TEST

START_TEST(numbers_and_diagonals_are_made_in_64_bits) {
  const int64_t start = -7, limit = MANY - 7, delta = 1, edge = (1 << 16) + 1;
  const reed_desc number = {REED_I64, 0, {0}}, in[] = {number, number, number}, numbers = {REED_I64, 1, {MANY}},
                  square = {REED_I8, 2, {edge, edge}};
  int64_t *y = reserve(8 * MANY);
  char *eye = reserve(edge * edge), *like = reserve(edge * edge);
  run_ends(&(emulated_call){.op = OP_Range,
                            .in = in,
                            .n_in = 3,
                            .out = &numbers,
                            .host = (const void *const[]){&start, &limit, &delta},
                            .inputs = {&start, &limit, &delta},
                            .output = (char *)y});
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(y[k], k - 7);
    ck_assert_int_eq(y[MANY - 1 - k], MANY - 8 - k);
  }
  run_ends(
      &(emulated_call){.op = OP_EyeLike, .in = &square, .n_in = 1, .out = &square, .inputs = {like}, .output = eye});
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(eye[k], k == 0);
    ck_assert_int_eq(eye[edge * edge - 1 - k], k == 0);
  }
}
END_TEST

/* Two steps of many sequences: those at the begin are left as they are, those at the end change their steps. */
START_TEST(sequences_are_reversed_in_64_bits) {
  const reed_desc in[] = {rows_of_two, {REED_I64, 1, {HALF}}};
  char *x = reserve(2 * HALF), *y = reserve(2 * HALF);
  int64_t *lengths = reserve(8 * HALF);
  put_ends(x, HALF, 1, 60);
  put_ends(x + HALF, HALF, 21, 90);
  for (int64_t k = 0; k < 8; k++) lengths[k] = 1, lengths[HALF - 1 - k] = 2;
  run_ends(
      &(emulated_call){.op = OP_ReverseSequence, .in = in, .n_in = 2, .out = in, .inputs = {x, lengths}, .output = y});
  check_ends(y, 2 * HALF, 1, 60);
}
END_TEST

START_TEST(the_mask_of_dropout_is_made_in_64_bits) {
  const reed_desc in = {REED_F16, 1, {MANY}}, out[] = {in, {REED_BOOL, 1, {MANY}}};
  uint16_t *x = reserve(2 * MANY), *y = reserve(2 * MANY);
  char *mask = reserve(MANY);
  put_ends((char *)x, 2 * MANY, 1, 60);
  run_ends(&(emulated_call){.op = OP_Dropout,
                            .in = &in,
                            .n_in = 1,
                            .out = out,
                            .more_out = 1,
                            .inputs = {x},
                            .output = y,
                            .more_outputs = {mask}});
  ck_assert_int_eq(mask[0], 1);
  ck_assert_int_eq(mask[MANY - 1], 1);
  check_ends((char *)y, 2 * MANY, 1, 60);
}
END_TEST

START_TEST(places_that_are_not_zero_are_found_in_64_bits) {
  enum { FOUND = 4 };
  const reed_desc out = {REED_I64, 2, {2, 2 * HALF}};
  char *x = reserve(2 * HALF);
  int64_t *y = reserve(2 * FOUND * 8);
  x[1] = x[7] = x[2 * HALF - 3] = x[2 * HALF - 1] = 1;
  emulated_call c = {.op = OP_NonZero,
                     .in = &rows_of_two,
                     .n_in = 1,
                     .out = &out,
                     .inputs = {x},
                     .output = (char *)reserve(32 * HALF)};
  run_ends(&c);
  y = c.output;
  ck_assert_int_eq(c.extent, FOUND);
  const int64_t rows[] = {0, 0, 1, 1}, columns[] = {1, 7, HALF - 3, HALF - 1};
  for (int k = 0; k < FOUND; k++) {
    ck_assert_int_eq(y[k], rows[k]);
    ck_assert_int_eq(y[FOUND + k], columns[k]);
  }
}
END_TEST

/* Rows 0 and 2 of three. */
START_TEST(rows_are_chosen_in_64_bits) {
  const reed_desc in[] = {{REED_I8, 2, {3, HALF}}, {REED_BOOL, 1, {3}}};
  const uint8_t chosen[] = {1, 0, 1};
  char *x = reserve(3 * HALF), *y = reserve(3 * HALF);
  put_ends(x, HALF, 1, 60);
  put_ends(x + 2 * HALF, HALF, 21, 90);
  /* three rows are launched, of which the last block has nothing to do: the first elements are all that is seen */
  run_on_axis_0((emulated_call){.op = OP_Compress, .in = in, .n_in = 2, .out = in, .inputs = {x, chosen}, .output = y});
  for (int k = 0; k < 8; k++) ck_assert_int_eq(y[k], 1 + k);
  const uint8_t all[] = {1, 1, 1};
  run_on_axis_0((emulated_call){.op = OP_Compress, .in = in, .n_in = 2, .out = in, .inputs = {x, all}, .output = y});
  check_ends(y, 3 * HALF, 1, 90);
}
END_TEST

/* TopK of a tensor of i8. */
static void run_topk(int64_t axis, const reed_desc *x, const reed_desc *out, int64_t k, const char *data, char *y,
                     int64_t *indices) {
  const reed_desc in[] = {*x, {REED_I64, 1, {1}}};
  run_on_axis(axis, (emulated_call){.op = OP_TopK,
                                    .in = in,
                                    .n_in = 2,
                                    .out = out,
                                    .more_out = 1,
                                    .host = (const void *const[]){NULL, &k},
                                    .inputs = {data, &k},
                                    .output = y,
                                    .more_outputs = {indices}});
}

/* The first elements of one long row, of which the first and the last chunk are read. */
START_TEST(the_largest_of_a_long_row_are_found_in_64_bits) {
  enum { K = 4 };
  const int64_t places[] = {MANY - 1, 5, 0, 1};
  const char values[] = {9, 7, 0, 0};
  const reed_desc out[] = {{REED_I8, 1, {K}}, {REED_I64, 1, {K}}};
  char *x = reserve(MANY), y[K];
  int64_t indices[K];
  x[5] = 7, x[MANY - 1] = 9;
  run_topk(0, &one_row, out, K, x, y, indices);
  for (int i = 0; i < K; i++) {
    ck_assert_int_eq(y[i], values[i]);
    ck_assert_int_eq(indices[i], places[i]);
  }
}
END_TEST

/* The largest of three elements of a row, which lie side by side or as many elements apart as there are rows. */
START_TEST(the_largest_of_many_rows_are_found_in_64_bits) {
  const int64_t axis = _i, rows = INT32_MAX;
  const reed_desc in = {REED_I8, 2, {axis ? rows : 3, axis ? 3 : rows}},
                  out[] = {{REED_I8, 2, {axis ? rows : 1, axis ? 1 : rows}},
                           {REED_I64, 2, {axis ? rows : 1, axis ? 1 : rows}}};
  char *x = reserve(3 * rows), *y = reserve(rows);
  int64_t *indices = reserve(8 * rows);
  x[0] = 4, x[3 * rows - 1] = 5;
  run_topk(axis, &in, out, 1, x, y, indices);
  ck_assert_int_eq(y[0], 4);
  ck_assert_int_eq(indices[0], 0);
  ck_assert_int_eq(y[rows - 1], 5);
  ck_assert_int_eq(indices[rows - 1], 2);
}
END_TEST

/* Boxes of very many classes, of which the first and the last have one box each. */
START_TEST(boxes_of_many_classes_are_chosen_in_64_bits) {
  enum { BOXES = 1024 };
  const int64_t classes = ((int64_t)1 << 22) + 3, most = 1;
  const float overlap = 0.5f, least = 0.25f;
  const reed_desc in[] = {{REED_F32, 3, {1, BOXES, 4}},
                          {REED_F32, 3, {1, classes, BOXES}},
                          {REED_I64, 1, {1}},
                          {REED_F32, 1, {1}},
                          {REED_F32, 1, {1}}},
                  out = {REED_I64, 2, {classes, 3}};
  float *boxes = reserve(16 * BOXES), *scores = reserve(4 * classes * BOXES);
  int64_t *y = reserve(24 * classes);
  for (int k = 0; k < BOXES; k++) boxes[4 * k + 2] = boxes[4 * k + 3] = 1;
  scores[3] = 1, scores[classes * BOXES - 5] = 1;
  emulated_call c = {.op = OP_NonMaxSuppression,
                     .in = in,
                     .n_in = 5,
                     .out = &out,
                     .host = (const void *const[]){NULL, NULL, &most, NULL, NULL},
                     .inputs = {boxes, scores, &most, &overlap, &least},
                     .output = (char *)y};
  run_ends(&c);
  ck_assert_int_eq(c.extent, 2);
  const int64_t wanted[] = {0, 0, 3, 0, classes - 1, BOXES - 5};
  for (int k = 0; k < 6; k++) ck_assert_int_eq(y[k], wanted[k]);
}
END_TEST

/* Lines of two elements that lie far apart, so many that the last one belongs to the last block. */
START_TEST(sums_along_lines_are_taken_in_64_bits) {
  const int64_t lines = ((int64_t)1 << 31) + (1 << 19), axis = 0;
  const reed_desc in[] = {{REED_I32, 2, {2, lines}}, {REED_I64, 0, {0}}};
  int32_t *x = reserve(8 * lines), *y = reserve(8 * lines);
  for (int k = 0; k < 8; k++) {
    x[k] = k, x[lines + k] = 10;
    x[lines - 1 - k] = 2 * k, x[2 * lines - 1 - k] = 100;
  }
  run_ends(
      &(emulated_call){.op = OP_CumSum, .in = in, .n_in = 2, .out = in, .inputs = {x, &axis}, .output = (char *)y});
  for (int k = 0; k < 8; k++) {
    ck_assert_int_eq(y[k], k);
    ck_assert_int_eq(y[lines + k], k + 10);
    ck_assert_int_eq(y[lines - 1 - k], 2 * k);
    ck_assert_int_eq(y[2 * lines - 1 - k], 2 * k + 100);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("wide");
  TCase *t = tcase_create("places");
  tcase_add_test(t, rows_are_gathered_in_64_bits);
  tcase_add_test(t, elements_are_gathered_in_64_bits);
  tcase_add_test(t, elements_at_pairs_of_places_are_gathered_in_64_bits);
  tcase_add_loop_test(t, updates_are_scattered_in_64_bits, 0, 2);
  tcase_add_test(t, blocks_are_scattered_in_64_bits);
  tcase_add_test(t, pads_are_counted_in_64_bits);
  tcase_add_test(t, rows_of_one_element_that_is_set_are_made_in_64_bits);
  tcase_add_test(t, numbers_and_diagonals_are_made_in_64_bits);
  tcase_add_test(t, sequences_are_reversed_in_64_bits);
  tcase_add_test(t, the_mask_of_dropout_is_made_in_64_bits);
  tcase_add_test(t, places_that_are_not_zero_are_found_in_64_bits);
  tcase_add_test(t, rows_are_chosen_in_64_bits);
  tcase_add_test(t, the_largest_of_a_long_row_are_found_in_64_bits);
  tcase_add_loop_test(t, the_largest_of_many_rows_are_found_in_64_bits, 0, 2);
  tcase_add_test(t, boxes_of_many_classes_are_chosen_in_64_bits);
  tcase_add_test(t, sums_along_lines_are_taken_in_64_bits);
  tcase_set_timeout(t, 60);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
