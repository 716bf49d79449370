/* Kernels that move elements by indices or conditions, or make them, on so many elements that threads share them out.
 */
#include <math.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

/* Rows shorter than a block, blocks that begin within a row, every number of threads. */
START_TEST(nonzero_is_the_same_for_any_number_of_threads) {
  enum { OUTER = 37, MIDDLE = 3, WIDTH = 1100, N = OUTER * MIDDLE * WIDTH };
  static double places[3 * N];
  for (int narrow = 0; narrow < 2; narrow++)
    for (int threads = 1; threads <= 7; threads += 2) {
      kernel_case c;
      int64_t n = 0, width = narrow ? 5 : WIDTH, outer = narrow ? OUTER * WIDTH / 5 : OUTER;
      case_init(&c, OP_NonZero);
      c.n_threads = threads;
      value *v = case_input(&c, REED_F32, DIMS(outer, MIDDLE, width), 0);
      for (int64_t i = 0; i < N; i++)
        if (i % 3 == 0 || i / 1000 % 4 == 1) case_set(v, i, -1), n++;
      for (int64_t i = 0, k = 0; i < N; i++)
        if (case_get(v, i) != 0) {
          places[k] = (double)(i / width / MIDDLE);
          places[n + k] = (double)(i / width % MIDDLE);
          places[2 * n + k++] = (double)(i % width);
        }
      case_expect(&c, places, 3 * n);
    }
}
END_TEST

/* Updates enough to be shared out: along lines, by stripes of one long line, by elements of long slices. Many change
 * the same element, by every reduction that does not round; some updates of floats are NaN. */
START_TEST(scatter_of_many) {
  static const struct {
    op_id op;
    int64_t data[3], indices[3], updates[3];
    int32_t rank, indices_rank;
    int64_t axis, range;
  } rows[] = {
      {OP_ScatterElements, {90, 70, 9}, {80, 66, 5}, {80, 66, 5}, 3, 3, 1, 69},
      {OP_ScatterElements, {50, 3, 900}, {200, 2, 40}, {200, 2, 40}, 3, 3, 0, 49},
      {OP_ScatterElements, {9000}, {30000}, {30000}, 1, 1, 0, 8999},
      {OP_ScatterElements, {3, 40, 2}, {2, 9000, 1}, {2, 9000, 1}, 3, 3, 1, 39},
      {OP_ScatterND, {60, 60, 1}, {20000, 2, 0}, {20000, 1, 0}, 3, 2, 0, 59},
      {OP_ScatterND, {700, 65, 1}, {900, 1, 0}, {900, 65, 1}, 3, 2, 0, 699},
      {OP_ScatterND, {5, 5000, 1}, {40, 1, 0}, {40, 5000, 1}, 3, 2, 0, 4},
  };
  static const struct {
    reed_dtype dtype;
    const char *reduction;
  } kinds[] = {{REED_I64, "none"}, {REED_I64, "add"}, {REED_I64, "mul"},  {REED_I64, "max"}, {REED_I64, "min"},
               {REED_I32, "add"},  {REED_I32, "mul"}, {REED_I32, "max"},  {REED_I32, "min"}, {REED_F32, "none"},
               {REED_F32, "max"},  {REED_F32, "min"}, {REED_F64, "none"}, {REED_F64, "max"}, {REED_F64, "min"}};
  for (int r = 0; r < ROWS(rows); r++)
    for (int k = 0; k < ROWS(kinds); k++) {
      const bool floats = kinds[k].dtype == REED_F32 || kinds[k].dtype == REED_F64;
      kernel_case c;
      case_init(&c, rows[r].op);
      case_input(&c, kinds[k].dtype, rows[r].rank, rows[r].data, 100);
      case_input(&c, REED_I64, rows[r].indices_rank, rows[r].indices, (double)rows[r].range);
      int32_t updates_rank = rows[r].op == OP_ScatterElements ? rows[r].rank : rows[r].indices[1] == 1 ? 3 : 2;
      value *updates = case_input(&c, kinds[k].dtype, updates_rank, rows[r].updates, 1000);
      for (int64_t i = 0; floats && i < desc_elements(&updates->desc); i += 1009) case_set(updates, i, NAN);
      if (rows[r].op == OP_ScatterElements) case_attr_int(&c, "axis", rows[r].axis);
      case_attr_string(&c, "reduction", kinds[k].reduction);
      case_parity(&c, 0, 0);
    }
}
END_TEST

/* A bad index in a late chunk, and two of which the first is named. */
START_TEST(bad_indices_among_many_are_found) {
  for (int early = 0; early < 2; early++) {
    kernel_case c;
    case_init(&c, OP_Gather);
    c.n_threads = 2;
    case_input(&c, REED_F32, DIMS(7), 1);
    value *indices = case_input(&c, REED_I32, DIMS(90000), 6);
    case_set(indices, 88000, 7);
    if (early) case_set(indices, 41234, -8);
    case_fails(&c, REED_ERROR_VALUE, early ? "index -8 (element 41234)" : "index 7 (element 88000)");
  }
}
END_TEST

/* Rows of eight numbers, a rest, and the chunks of several threads. */
START_TEST(range_of_many_integers) {
  static const reed_dtype dtypes[] = {REED_I16, REED_I32, REED_I64};
  static const int64_t counts[] = {7, 8, 9, 15, 16, 17, 24, 100, 100003}, steps[] = {1, 3, -2};
  static double expected[100003];
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    for (int step = 0; step < 3; step++) {
      const int64_t n = dtypes[_i] == REED_I16 && counts[i] > 10000 ? 10000 : counts[i], by = steps[step];
      for (int64_t k = 0; k < n; k++) expected[k] = (double)(11 + k * by);
      for (int threads = 1; threads <= 3; threads += 2) {
        kernel_case c;
        case_init(&c, OP_Range);
        c.n_threads = threads;
        case_scalar(&c, dtypes[_i], 11);
        case_scalar(&c, dtypes[_i], (double)(11 + n * by));
        case_scalar(&c, dtypes[_i], (double)by);
        case_expect(&c, expected, n);
      }
    }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("many elements");
  TCase *tc = tcase_create("many");
  tcase_set_timeout(tc, 240);
  tcase_add_test(tc, nonzero_is_the_same_for_any_number_of_threads);
  tcase_add_test(tc, scatter_of_many);
  tcase_add_test(tc, bad_indices_among_many_are_found);
  tcase_add_loop_test(tc, range_of_many_integers, 0, 3);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
