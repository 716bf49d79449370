/* Reductions, cumulative sums and arg reductions against their references: every set of axes, every dtype, empty and
 * long. */
#include <math.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

static const op_id reductions[] = {OP_ReduceL1,  OP_ReduceL2,       OP_ReduceLogSum, OP_ReduceLogSumExp,
                                   OP_ReduceMax, OP_ReduceMean,     OP_ReduceMin,    OP_ReduceProd,
                                   OP_ReduceSum, OP_ReduceSumSquare};
#define N_REDUCTIONS (sizeof reductions / sizeof *reductions)

/* axes: a bit per axis; 0: no axes input. */
static void check_reduction(op_id op, reed_dtype dtype, int32_t rank, const int64_t *dims, unsigned axes,
                            int keepdims) {
  if (!(op_builtin(op)->inputs[0].dtypes >> dtype & 1)) return;
  kernel_case c;
  case_init(&c, op);
  case_input(&c, dtype, rank, dims, op == OP_ReduceProd ? 1.5 : 9);
  if (axes) {
    int32_t n = __builtin_popcount(axes);
    value *v = case_input(&c, REED_I64, 1, &(int64_t){n}, 0);
    for (int32_t d = 0, k = 0; d < rank; d++)
      if (axes >> d & 1) case_set(v, k++, d % 2 ? d : d - rank);
  }
  case_attr_int(&c, "keepdims", keepdims);
  double tolerance = case_tolerance(dtype);
  case_parity(&c, tolerance, tolerance);
}

START_TEST(every_set_of_axes_equals_the_reference) {
  static const int64_t dims[][4] = {{2, 3, 4, 5}, {3, 1, 17, 2}, {2, 0, 3, 1}, {1, 1, 1, 1}};
  for (size_t shape = 0; shape < 4; shape++)
    for (unsigned axes = 0; axes < 16; axes++)
      for (size_t r = 0; r < N_REDUCTIONS; r++)
        for (reed_dtype dtype = REED_F32; dtype <= REED_BOOL; dtype++)
          check_reduction(reductions[r], dtype, 4, dims[shape], axes, axes % 2);
}
END_TEST

START_TEST(long_rows_and_columns_equal_the_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F16, REED_I32};
  for (int t = 0; t < 3; t++)
    for (size_t r = 0; r < N_REDUCTIONS; r++) {
      check_reduction(reductions[r], dtypes[t], 2, (const int64_t[]){7, 5003}, 2, 1);
      check_reduction(reductions[r], dtypes[t], 2, (const int64_t[]){41, 301}, 1, 0);
      check_reduction(reductions[r], dtypes[t], 1, (const int64_t[]){150001}, 0, 0);
    }
}
END_TEST

/* Rows of so few columns that many of them are reduced as one: with rows left over, behind a kept axis, between kept
 * axes with few rows at a time, and so many that they are cut into pieces. */
START_TEST(narrow_columns_equal_the_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16, REED_BF16, REED_I64, REED_I32, REED_U8};
  for (int t = 0; t < ROWS(dtypes); t++)
    for (size_t r = 0; r < N_REDUCTIONS; r++) {
      check_reduction(reductions[r], dtypes[t], 2, (const int64_t[]){3001, 2}, 1, 1);
      check_reduction(reductions[r], dtypes[t], 3, (const int64_t[]){2, 900, 7}, 2, 0);
      check_reduction(reductions[r], dtypes[t], 4, (const int64_t[]){3, 2, 700, 3}, 5, 1);
      check_reduction(reductions[r], dtypes[t], 2, (const int64_t[]){150, 15}, 1, 1);
    }
  check_reduction(OP_ReduceSum, REED_F32, 2, (const int64_t[]){70001, 3}, 1, 1);
  check_reduction(OP_ReduceMax, REED_F16, 3, (const int64_t[]){2, 70001, 2}, 2, 1);
}
END_TEST

/* Rows that loops take many of at a time, up to a length of which they do not; in odd numbers. */
START_TEST(short_rows_equal_the_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F16, REED_BF16, REED_F64};
  for (int d = 0; d < ROWS(dtypes); d++)
    for (int64_t rows = 1; rows < 700; rows = rows * 4 + 3)
      check_reduction(OP_ReduceLogSumExp, dtypes[d], 2, (const int64_t[]){rows, _i + 1}, 2, 0);
}
END_TEST

START_TEST(a_scalar_is_reduced_to_itself) {
  for (size_t r = 0; r < N_REDUCTIONS; r++) check_reduction(reductions[r], REED_F32, 0, NULL, 0, 1);
}
END_TEST

START_TEST(empty_axes_may_mean_no_axes) {
  kernel_case c;
  case_init(&c, OP_ReduceL2);
  case_input(&c, REED_F32, DIMS(3, 7), 9);
  case_input(&c, REED_I64, DIMS(0), 0);
  case_attr_int(&c, "noop_with_empty_axes", 1);
  case_parity(&c, 0, 0);
}
END_TEST

START_TEST(reductions_of_nothing_give_the_identity) {
  const double identity[] = {0, 0, -INFINITY, -INFINITY, -INFINITY, NAN, INFINITY, 1, 0, 0};
  for (size_t r = 0; r < N_REDUCTIONS; r++) {
    kernel_case c;
    case_init(&c, reductions[r]);
    case_input(&c, REED_F32, DIMS(0), 0);
    case_expect(&c, &identity[r], 1);
  }
}
END_TEST

START_TEST(nan_stays_in_max_and_min) {
  for (int least = 0; least < 2; least++)
    for (int at = 0; at < 40; at += 13) {
      kernel_case c;
      case_init(&c, least ? OP_ReduceMin : OP_ReduceMax);
      case_set(case_input(&c, REED_F32, DIMS(40), 5), at, NAN);
      case_expect(&c, (const double[]){NAN}, 1);
    }
}
END_TEST

/* Rows of each length up to some vectors; of nothing but -inf, with NaN and inf at the end. */
START_TEST(special_numbers_in_rows_equal_the_reference) {
  static const op_id ops[] = {OP_ReduceMax, OP_ReduceMin, OP_ReduceLogSumExp};
  for (int64_t n = 1; n < 70; n++) {
    kernel_case c;
    case_init(&c, ops[_i]);
    value *v = case_input(&c, REED_F32, DIMS(6, n), 9);
    for (int64_t k = 0; k < n; k++) case_set(v, n + k, -INFINITY);
    case_set(v, 3 * n - 1, NAN);
    case_set(v, 4 * n - 1, INFINITY);
    case_set(v, 5 * n - 1, -INFINITY);
    case_ints(&c, 1, 1);
    case_parity(&c, case_tolerance(REED_F32), case_tolerance(REED_F32));
  }
}
END_TEST

/* Columns of nothing but -inf, with NaN and with inf, many side by side and few, in f32 and in halves. */
START_TEST(special_numbers_in_columns_equal_the_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F16, REED_F64};
  static const int64_t columns[] = {3, 5, 17, 90};
  for (int d = 0; d < ROWS(dtypes); d++)
    for (int k = 0; k < ROWS(columns); k++)
      for (int64_t rows = 1; rows < 800; rows += rows < 40 ? 6 : 700) {
        kernel_case c;
        const int64_t n = columns[k];
        case_init(&c, _i ? OP_ReduceMax : OP_ReduceLogSumExp);
        value *v = case_input(&c, dtypes[d], DIMS(2, rows, n), 9);
        for (int64_t row = 0; row < rows; row++) case_set(v, row * n, -INFINITY);
        case_set(v, (rows - 1) * n + 1, NAN);
        case_set(v, rows / 2 * n + 2, INFINITY);
        case_set(v, rows * n + n - 1, -INFINITY);
        case_ints(&c, 1, 1);
        case_parity(&c, case_tolerance(dtypes[d]), case_tolerance(dtypes[d]));
      }
}
END_TEST

START_TEST(a_long_sum_of_floats_is_right_to_the_last_place) {
  enum { N = 1000003 };
  kernel_case c;
  case_init(&c, OP_ReduceSum);
  value *v = case_input(&c, REED_F32, DIMS(N), 0);
  for (int i = 0; i < N; i++) ((float *)v->data)[i] = 0.1f;
  c.n_threads = 2;
  case_expect(&c, (const double[]){(double)(float)((double)0.1f * N)}, 1);
}
END_TEST

START_TEST(cumulative_sums_in_both_directions) {
  for (reed_dtype dtype = REED_F32; dtype <= REED_U64; dtype++)
    for (int axis = -3; axis < 3; axis++)
      for (int flags = 0; flags < 4; flags++) {
        kernel_case c;
        case_init(&c, OP_CumSum);
        case_input(&c, dtype, DIMS(3, axis == 1 ? 0 : 4, 5), 9);
        case_scalar(&c, axis % 2 ? REED_I32 : REED_I64, axis);
        case_attr_int(&c, "exclusive", flags & 1);
        case_attr_int(&c, "reverse", flags >> 1);
        double tolerance = case_tolerance(dtype);
        case_parity(&c, tolerance, tolerance);
      }
}
END_TEST

/* Lines longer than a block of a device sums at once, beside one another and apart; rows that end within a vector. */
static const struct {
  int32_t rank;
  int64_t dims[2], axis;
} sums[] = {{1, {601}, 0},     {2, {300, 2}, 0},  {2, {4500, 2}, 0}, {2, {40, 131}, 0}, {2, {7, 600}, 0},
            {2, {70, 9}, 0},   {2, {33, 31}, 0},  {2, {20, 131}, 1}, {2, {50, 7}, 1},   {2, {50, 32}, 1},
            {2, {3, 1100}, 1}, {2, {100, 67}, 0}, {2, {1, 70}, 0},   {2, {70, 1}, 1}};

START_TEST(cumulative_sums_of_long_lines) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16, REED_I32, REED_I64, REED_U8};
  for (int k = 0; k < ROWS(dtypes); k++)
    for (int flags = 0; flags < 4; flags++) {
      kernel_case c;
      case_init(&c, OP_CumSum);
      case_input(&c, dtypes[k], sums[_i].rank, sums[_i].dims, 2);
      case_scalar(&c, REED_I64, (double)sums[_i].axis);
      case_attr_int(&c, "exclusive", flags & 1);
      case_attr_int(&c, "reverse", flags >> 1);
      case_parity(&c, 4 * case_tolerance(dtypes[k]), 100 * case_tolerance(dtypes[k]));
    }
}
END_TEST

START_TEST(a_cumulative_sum_along_no_axis_is_diagnosed) {
  kernel_case c;
  case_init(&c, OP_CumSum);
  case_input(&c, REED_F32, DIMS(3, 4), 9);
  case_scalar(&c, REED_I64, 2);
  case_fails(&c, REED_ERROR_VALUE, "axis 2 is outside -2..1");
}
END_TEST

START_TEST(arg_reductions_name_the_first_or_last) {
  for (reed_dtype dtype = REED_F32; dtype <= REED_U64; dtype++)
    for (int axis = -3; axis < 3; axis++)
      for (int flags = 0; flags < 4; flags++) {
        kernel_case c;
        case_init(&c, flags & 1 ? OP_ArgMax : OP_ArgMin);
        value *v = case_input(&c, dtype, DIMS(3, 7, 5), 3);
        if (dtype <= REED_BF16) case_set(v, 40, NAN);
        case_attr_int(&c, "axis", axis);
        case_attr_int(&c, "select_last_index", flags >> 1);
        case_attr_int(&c, "keepdims", axis > 0);
        case_parity(&c, 0, 0);
      }
}
END_TEST

/* Ties and NaN in rows that a device splits over blocks. */
START_TEST(arg_reductions_of_long_rows) {
  for (int flags = 0; flags < 8; flags++) {
    kernel_case c;
    case_init(&c, flags & 1 ? OP_ArgMax : OP_ArgMin);
    value *v = case_input(&c, _i ? REED_I32 : REED_F32, DIMS(2, 17000), 3);
    for (int i = 300; i < 34000; i += 7000) case_set(v, i, flags & 4 && !_i ? NAN : flags & 1 ? 9 : -9);
    case_attr_int(&c, "axis", 1);
    case_attr_int(&c, "select_last_index", flags >> 1 & 1);
    case_parity(&c, 0, 0);
  }
}
END_TEST

/* Short rows, long ones and columns, narrow and wide, with ties, and NaN in floats. */
START_TEST(arg_reductions_of_every_form) {
  static const struct {
    int64_t dims[3], axis;
  } forms[] = {{{1, 300, 8}, 2}, {{1, 70, 65}, 2},  {{3, 2100, 1}, 1}, {{2, 90, 3}, 1},
               {{2, 33, 37}, 1}, {{1, 50, 300}, 1}, {{1, 1500, 2}, 1}, {{9, 1, 5}, 1}};
  for (reed_dtype dtype = REED_F32; dtype <= REED_U64; dtype++)
    for (int flags = 0; flags < 8; flags++) {
      kernel_case c;
      case_init(&c, flags & 1 ? OP_ArgMax : OP_ArgMin);
      value *v = case_input(&c, dtype, 3, forms[_i].dims, flags & 4 ? 3 : 100);
      const int64_t n = desc_elements(&v->desc);
      for (int64_t i = n / 3; i < n && dtype <= REED_BF16 && flags & 4 && !c.skipped; i += 301)
        case_set(v, i, i % 2 ? NAN : i % 3 ? -0.0 : -INFINITY);
      case_attr_int(&c, "axis", forms[_i].axis);
      case_attr_int(&c, "select_last_index", flags >> 1 & 1);
      case_parity(&c, 0, 0);
    }
}
END_TEST

START_TEST(arg_reductions_take_the_extremes_of_integers) {
  static const int64_t elements[] = {5, INT64_MAX, INT64_MIN, -1, INT64_MIN, INT64_MAX, 0, 1};
  for (int flags = 0; flags < 4; flags++) {
    kernel_case c;
    case_init(&c, flags & 1 ? OP_ArgMax : OP_ArgMin);
    value *v = case_input(&c, REED_I64, DIMS(1, 8), 0);
    for (int i = 0; i < 8 && !c.skipped; i++) ((int64_t *)v->data)[i] = elements[i];
    case_attr_int(&c, "axis", 1);
    case_attr_int(&c, "select_last_index", flags >> 1);
    static const double places[] = {2, 1, 4, 5};
    case_expect(&c, &places[flags], 1);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("reduce");
  TCase *tc = tcase_create("reduce");
  tcase_set_timeout(tc, 240);
  tcase_add_test(tc, every_set_of_axes_equals_the_reference);
  tcase_add_test(tc, long_rows_and_columns_equal_the_reference);
  tcase_add_test(tc, narrow_columns_equal_the_reference);
  tcase_add_test(tc, a_scalar_is_reduced_to_itself);
  tcase_add_test(tc, empty_axes_may_mean_no_axes);
  tcase_add_test(tc, reductions_of_nothing_give_the_identity);
  tcase_add_test(tc, nan_stays_in_max_and_min);
  tcase_add_loop_test(tc, short_rows_equal_the_reference, 0, 18);
  tcase_add_loop_test(tc, special_numbers_in_rows_equal_the_reference, 0, 3);
  tcase_add_loop_test(tc, special_numbers_in_columns_equal_the_reference, 0, 2);
  tcase_add_test(tc, a_long_sum_of_floats_is_right_to_the_last_place);
  tcase_add_test(tc, cumulative_sums_in_both_directions);
  tcase_add_test(tc, a_cumulative_sum_along_no_axis_is_diagnosed);
  tcase_add_loop_test(tc, arg_reductions_of_every_form, 0, 8);
  tcase_add_test(tc, arg_reductions_take_the_extremes_of_integers);
  tcase_add_loop_test(tc, cumulative_sums_of_long_lines, 0, ROWS(sums));
  tcase_add_test(tc, arg_reductions_name_the_first_or_last);
  tcase_add_loop_test(tc, arg_reductions_of_long_rows, 0, 2);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
