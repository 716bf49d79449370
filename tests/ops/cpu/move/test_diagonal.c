/* Trilu, EyeLike, OneHot, ReverseSequence: known results, edges, refused calls. */
#include <stdlib.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

/* Elements 1, 2, 3, ... of a matrix. */
static void counted(kernel_case *c, reed_dtype dtype, int32_t rank, const int64_t *dims) {
  value *v = case_input(c, dtype, rank, dims, 0);
  for (int64_t i = 0; i < desc_elements(&v->desc); i++) case_set(v, i, (double)i + 1);
}

START_TEST(trilu_keeps_what_lies_beside_the_diagonal) {
  static const struct {
    double k;
    int upper;
    double want[12];
  } rows[] = {{0, 1, {1, 2, 3, 0, 5, 6, 7, 8, 9, 0, 11, 12}},
              {0, 0, {1, 0, 0, 4, 5, 0, 7, 0, 0, 10, 11, 0}},
              {-1, 1, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
              {1, 1, {0, 2, 3, 0, 0, 6, 0, 8, 9, 0, 0, 12}},
              {-1, 0, {0, 0, 0, 4, 0, 0, 0, 0, 0, 10, 0, 0}},
              {1e18, 1, {0}},
              {-1e18, 0, {0}},
              {1e18, 0, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}};
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    kernel_case c;
    case_init(&c, OP_Trilu);
    counted(&c, r % 2 ? REED_F16 : REED_I64, DIMS(2, 2, 3));
    case_scalar(&c, REED_I64, rows[r].k);
    case_attr_int(&c, "upper", rows[r].upper);
    case_expect(&c, rows[r].want, 12);
  }
}
END_TEST

/* Rows that are kept or cleared as a whole, before and after the diagonal, shared out to threads. */
START_TEST(trilu_of_tall_and_wide_matrices) {
  static const int64_t shapes[][3] = {{1, 30000, 3}, {3, 700, 41}, {2, 5, 9000}, {7, 41, 700}, {2, 3, 0}};
  const int64_t *d = shapes[_i], n = d[0] * d[1] * d[2];
  double *want = malloc((size_t)(n + 1) * sizeof *want);
  ck_assert_ptr_nonnull(want);
  const int most = d[2] < 1500 ? 1500 : (int)d[2]; /* the diagonal ends in each piece of a long row */
  for (int k = -1500; k <= most; k += k > -6 && k < 5 ? 1 : 498)
    for (int upper = 0; upper < 2; upper++) {
      for (int64_t i = 0; i < n; i++) {
        const int64_t row = i / d[2] % d[1], column = i % d[2];
        want[i] = (upper ? column >= row + k : column <= row + k) ? (double)(i + 1) : 0;
      }
      kernel_case c;
      case_init(&c, OP_Trilu);
      counted(&c, REED_F32, 3, d);
      case_scalar(&c, REED_I64, k);
      case_attr_int(&c, "upper", upper);
      c.n_threads = 1 + (k & 3);
      case_expect(&c, want, n);
    }
  free(want);
}
END_TEST

START_TEST(trilu_of_a_vector_is_refused) {
  kernel_case c;
  case_init(&c, OP_Trilu);
  case_input(&c, REED_F32, DIMS(3), 1);
  case_fails(&c, REED_ERROR_SHAPE, "rank");
}
END_TEST

START_TEST(eye_like_writes_ones_on_one_diagonal) {
  static const struct {
    int64_t k;
    double want[6];
  } rows[] = {
      {0, {1, 0, 0, 0, 1, 0}}, {2, {0, 0, 1, 0, 0, 0}}, {-1, {0, 0, 0, 1, 0, 0}}, {INT64_MAX, {0}}, {INT64_MIN, {0}}};
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    kernel_case c;
    case_init(&c, OP_EyeLike);
    case_input(&c, REED_F32, DIMS(2, 3), 5);
    case_attr_int(&c, "k", rows[r].k);
    if (r % 2) case_attr_int(&c, "dtype", REED_BF16);
    case_expect(&c, rows[r].want, 6);
  }
}
END_TEST

START_TEST(one_hot_counts_from_either_end_and_leaves_out_the_rest) {
  kernel_case c;
  case_init(&c, OP_OneHot);
  value *indices = case_input(&c, REED_I32, DIMS(4), 0);
  const double elements[] = {0, -1, 3, -4};
  for (int i = 0; i < 4; i++) case_set(indices, i, elements[i]);
  case_scalar(&c, REED_F32, 3);
  case_set(case_input(&c, REED_I8, DIMS(2), 0), 1, 7);
  case_attr_int(&c, "axis", 0);
  case_expect(&c, (const double[]){7, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0}, 12);
}
END_TEST

START_TEST(one_hot_refuses_a_negative_depth) {
  kernel_case c;
  case_init(&c, OP_OneHot);
  case_input(&c, REED_I64, DIMS(2), 0);
  case_scalar(&c, REED_I64, -1);
  case_input(&c, REED_F32, DIMS(2), 0);
  case_fails(&c, REED_ERROR_VALUE, "depth");
}
END_TEST

START_TEST(sequences_are_reversed_up_to_their_lengths) {
  for (int time_first = 0; time_first < 2; time_first++) {
    kernel_case c;
    case_init(&c, OP_ReverseSequence);
    counted(&c, REED_F64, time_first ? 3 : 2, time_first ? (const int64_t[]){3, 2, 1} : (const int64_t[]){2, 3});
    case_ints(&c, 2, (int64_t)2, (int64_t)0);
    case_attr_int(&c, "time_axis", !time_first);
    case_attr_int(&c, "batch_axis", time_first);
    case_expect(&c, time_first ? (const double[]){3, 2, 1, 4, 5, 6} : (const double[]){2, 1, 3, 4, 5, 6}, 6);
  }
}
END_TEST

START_TEST(a_sequence_longer_than_its_axis_is_diagnosed) {
  kernel_case c;
  case_init(&c, OP_ReverseSequence);
  counted(&c, REED_F32, DIMS(2, 2));
  case_ints(&c, 2, (int64_t)1, (int64_t)3);
  case_fails(&c, REED_ERROR_VALUE, "length 3 of sequence 1");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("diagonal kernels");
  TCase *tc = tcase_create("diagonal");
  tcase_add_test(tc, trilu_keeps_what_lies_beside_the_diagonal);
  tcase_add_loop_test(tc, trilu_of_tall_and_wide_matrices, 0, 5);
  tcase_add_test(tc, trilu_of_a_vector_is_refused);
  tcase_add_test(tc, eye_like_writes_ones_on_one_diagonal);
  tcase_add_test(tc, one_hot_counts_from_either_end_and_leaves_out_the_rest);
  tcase_add_test(tc, one_hot_refuses_a_negative_depth);
  tcase_add_test(tc, sequences_are_reversed_up_to_their_lengths);
  tcase_add_test(tc, a_sequence_longer_than_its_axis_is_diagnosed);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
