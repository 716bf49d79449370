/* Softmax, LogSoftmax, Hardmax, LpNormalization against their references and small cases worked out by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

static const struct {
  int32_t rank;
  int64_t x[4], axis;
} softmaxes[] = {
    {1, {1}, 0},         {1, {9}, -1},        {2, {5, 91}, 1},       {2, {91, 5}, 0},      {3, {2, 7, 13}, 1},
    {3, {3, 4, 0}, 1},   {2, {1000, 81}, -1}, {3, {1, 3, 1100}, 1},  {4, {2, 3, 4, 5}, 2}, {2, {3, 1500}, 1},
    {2, {17000, 2}, 0},  {2, {300, 3}, 1},    {2, {65, 15}, 1},      {2, {33, 16}, 1},     {2, {9, 157}, 1},
    {2, {2, 4101}, 1},   {2, {70, 1}, 1},     {2, {43, 3}, 0},       {3, {2, 700, 70}, 1}, {2, {129, 32}, 0},
    {2, {90, 33}, 0},    {3, {2, 41, 21}, 1}, {3, {2, 10, 100}, 1},  {2, {5, 65}, 0},      {2, {3, 512}, 0},
    {3, {2, 7, 601}, 1}, {2, {5, 127}, 1},    {2, {7, 128}, 1},      {2, {3, 2049}, 1},    {2, {700, 2}, 1},
    {3, {3, 5, 300}, 1}, {2, {1025, 19}, 0},  {3, {2, 2500, 11}, 1}, {2, {4100, 8}, 0},    {3, {2, 2049, 3}, 1},
};

START_TEST(softmax_equals_the_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16, REED_BF16};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
    for (int log = 0; log < 2; log++)
      for (int flattened = 0; flattened < 2; flattened++) {
        kernel_case c;
        case_init(&c, log ? OP_LogSoftmax : OP_Softmax);
        case_input(&c, dtypes[d], softmaxes[_i].rank, softmaxes[_i].x, 20);
        case_attr_int(&c, "axis", softmaxes[_i].axis);
        case_attr_int(&c, "flattened", flattened);
        double tolerance = dtypes[d] == REED_F32 ? 3e-6 : case_tolerance(dtypes[d]);
        case_parity(&c, tolerance, tolerance);
      }
}
END_TEST

START_TEST(softmax_of_large_and_masked_logits) {
  kernel_case c;
  case_init(&c, OP_Softmax);
  value *x = case_input(&c, REED_F32, DIMS(2, 3), 0);
  double elements[] = {1e30, 1e30, -INFINITY, -INFINITY, 0, 0};
  for (int i = 0; i < 6; i++) case_set(x, i, elements[i]);
  case_expect(&c, (double[]){0.5, 0.5, 0, 0, 0.5, 0.5}, 6);
}
END_TEST

/* The logarithm of the sum is not lost beside large elements, in rows and in columns of any length. */
START_TEST(log_softmax_of_large_elements) {
  static const int64_t lengths[] = {2, 4, 15, 16, 33, 150};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
    for (int columns = 0; columns < 3; columns++) {
      const int64_t n = lengths[i], wide = columns == 2 ? 20 : 1;
      double expected[150 * 20];
      kernel_case c;
      case_init(&c, OP_LogSoftmax);
      value *x = columns ? case_input(&c, REED_F32, DIMS(n, wide), 0) : case_input(&c, REED_F32, DIMS(1, n), 0);
      if (columns) case_attr_int(&c, "axis", 0);
      for (int64_t k = 0; k < n * wide; k++) case_set(x, k, 1e8), expected[k] = (float)-log((double)n);
      case_expect(&c, expected, n * wide);
    }
}
END_TEST

/* Rows of each length up to more than eight vectors, masked at the end, and where the largest element is the last. */
START_TEST(softmax_of_rows_with_a_rest) {
  for (int64_t n = 1; n < 140; n++) {
    kernel_case c;
    case_init(&c, _i ? OP_LogSoftmax : OP_Softmax);
    value *x = case_input(&c, REED_F32, DIMS(5, n), 8);
    case_set(x, n - 1, 9);
    for (int64_t k = n / 2; k < n; k++) case_set(x, n + k, n == 1 ? 3 : -INFINITY);
    case_set(x, 3 * n - 1, NAN);
    case_set(x, 4 * n - 1, INFINITY);
    case_parity(&c, 3e-6, 3e-6);
  }
}
END_TEST

/* Few columns side by side, several rows of which are done as one: masked, with NaN, with inf. */
START_TEST(softmax_of_few_columns_with_special_numbers) {
  for (int64_t n = 2; n < 40; n += 5)
    for (int64_t rows = 3; rows < 200; rows += 31) {
      kernel_case c;
      case_init(&c, _i ? OP_LogSoftmax : OP_Softmax);
      value *x = case_input(&c, REED_F32, DIMS(2, rows, n), 8);
      for (int64_t row = rows / 2; row < rows; row++) case_set(x, row * n, -INFINITY);
      case_set(x, (rows - 1) * n + 1, NAN);
      case_set(x, rows * n, INFINITY);
      case_attr_int(&c, "axis", 1);
      case_parity(&c, 3e-6, 3e-6);
    }
}
END_TEST

/* Columns of f64, of one piece and of several, masked, with NaN, with inf; with the same bits for any number of
 * threads, at each level. */
START_TEST(softmax_of_long_columns_of_f64) {
  static const int64_t columns[] = {1030, 2049, 5000};
  static const int threads[] = {1, 2, 3, 16};
  for (int k = 0; k < ROWS(columns); k++) {
    const int64_t rows = columns[k], n = 19;
    kernel_case c;
    case_init(&c, _i ? OP_LogSoftmax : OP_Softmax);
    value *x = case_input(&c, REED_F64, DIMS(2, rows, n), 8);
    for (int64_t row = rows / 2; row < rows; row++) case_set(x, row * n, -INFINITY);
    case_set(x, (rows - 1) * n + 1, NAN);
    case_set(x, 2, NAN);
    case_set(x, rows * n, INFINITY);
    for (int64_t row = 0; row < rows; row++) case_set(x, row * n + 5, -INFINITY);
    case_attr_int(&c, "axis", 1);
    void *first = NULL;
    for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++)
      for (int i = 0; i < ROWS(threads); i++) {
        c.n_threads = threads[i];
        ck_assert_msg(case_run(&c, cpu_level_name(level)) == REED_OK, "%s", case_where(&c));
        const size_t bytes = (size_t)desc_bytes(&c.outputs[0].desc);
        if (!first) {
          first = malloc(bytes);
          ck_assert(first);
          memcpy(first, c.outputs[0].data, bytes);
        }
        for (int64_t at = 0; at < 2 * rows * n; at++) { /* the sign of NaN may be another */
          const double a = ((double *)first)[at], b = ((double *)c.outputs[0].data)[at];
          ck_assert_msg((isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0, "%s: other bits", case_where(&c));
        }
      }
    free(first);
    c.n_threads = 1;
    case_parity(&c, case_tolerance(REED_F64), case_tolerance(REED_F64));
  }
}
END_TEST

START_TEST(hardmax_is_one_at_the_first_of_the_largest) {
  kernel_case c;
  case_init(&c, OP_Hardmax);
  value *x = case_input(&c, REED_F16, DIMS(2, 3), 0);
  double elements[] = {1, 3, 3, -1, -2, -1};
  for (int i = 0; i < 6; i++) case_set(x, i, elements[i]);
  case_expect(&c, (double[]){0, 1, 0, 1, 0, 0}, 6);
}
END_TEST

/* NaN is larger than any number, as for ArgMax and ONNX's reference. */
START_TEST(hardmax_is_one_at_the_first_nan) {
  static const reed_dtype dtypes[] = {REED_F16, REED_BF16, REED_F32, REED_F64};
  enum { N_ROWS = 5, N = 5 };
  static const double elements[N_ROWS][N] = {{1, 2, NAN, 3, NAN},
                                             {NAN, 1, 2, 3, INFINITY},
                                             {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY},
                                             {1, INFINITY, 3, INFINITY, NAN},
                                             {NAN, NAN, NAN, NAN, NAN}};
  static const int first[N_ROWS] = {2, 0, 0, 4, 0};
  for (int k = 0; k < 2 * ROWS(dtypes); k++) {
    const bool columns = k % 2;
    double expected[N_ROWS * N] = {0};
    kernel_case c;
    case_init(&c, OP_Hardmax);
    value *x = case_input(&c, dtypes[k / 2], DIMS(N_ROWS, N), 0);
    case_attr_int(&c, "axis", columns ? 0 : 1);
    for (int i = 0; i < N_ROWS * N; i++) {
      const int row = columns ? i % N : i / N, at = columns ? i / N : i % N;
      case_set(x, i, elements[row][at]);
      expected[i] = at == first[row];
    }
    case_expect(&c, expected, N_ROWS * N);
  }
}
END_TEST

/* The largest of a row that a device splits over blocks; NaN in the middle and at the beginning. */
START_TEST(hardmax_of_a_long_row) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64};
  for (int t = 0; t < ROWS(dtypes); t++) {
    kernel_case c;
    case_init(&c, OP_Hardmax);
    value *x = case_input(&c, dtypes[t], DIMS(1, 20000), 1);
    for (int i = 9000; i < 20000; i += 5000) case_set(x, i, _i ? NAN : 7);
    if (_i == 2) case_set(x, 0, NAN);
    if (_i == 3)
      for (int i = 0; i < 20000; i++) case_set(x, i, i % 3 ? NAN : -INFINITY);
    case_parity(&c, 0, 0);
  }
}
END_TEST

START_TEST(lp_normalization_divides_by_the_length_if_there_is_one) {
  for (int64_t p = 1; p <= 2; p++) {
    kernel_case c;
    case_init(&c, OP_LpNormalization);
    value *x = case_input(&c, REED_F64, DIMS(2, 2), 0);
    case_set(x, 0, -3);
    case_set(x, 2, p == 1 ? 5 : 4);
    case_attr_int(&c, "axis", 0);
    case_attr_int(&c, "p", p);
    double length = p == 1 ? 8 : 5;
    case_expect(&c, (double[]){-3 / length, 0, (p == 1 ? 5 : 4) / length, 0}, 4);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("softmax");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, hardmax_of_a_long_row, 0, 4);
  tcase_add_loop_test(t, softmax_of_few_columns_with_special_numbers, 0, 2);
  tcase_add_loop_test(t, softmax_of_long_columns_of_f64, 0, 2);
  tcase_add_test(t, hardmax_is_one_at_the_first_of_the_largest);
  tcase_add_test(t, hardmax_is_one_at_the_first_nan);
  tcase_add_test(t, lp_normalization_divides_by_the_length_if_there_is_one);
  tcase_add_loop_test(t, softmax_equals_the_reference, 0, ROWS(softmaxes));
  tcase_add_test(t, log_softmax_of_large_elements);
  tcase_add_loop_test(t, softmax_of_rows_with_a_rest, 0, 2);
  tcase_add_test(t, softmax_of_large_and_masked_logits);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
