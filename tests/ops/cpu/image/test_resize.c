/* Resize: every mode against the reference, the examples of ONNX's text, crops, scales, axes and policies. */
#include <math.h>

#include "tests/ops/cpu/image/resize_case.h"
#include "tests/suite.h"

static const char *const modes[] = {"nearest", "linear", "cubic"};
static const struct {
  int32_t rank;
  int64_t x[5], y[5];
} sizes[] = {
    {1, {5}, {9}},
    {2, {3, 4}, {3, 4}},
    {3, {2, 3, 7}, {2, 6, 3}},
    {4, {1, 3, 13, 17}, {1, 3, 26, 34}},
    {4, {1, 3, 40, 57}, {1, 3, 11, 8}},
    {4, {2, 1, 1, 1}, {2, 1, 5, 4}},
    {4, {1, 7, 5, 3}, {1, 9, 5, 3}},
    {5, {1, 2, 3, 4, 5}, {1, 2, 6, 2, 7}},
    {4, {0, 3, 4, 4}, {0, 3, 8, 8}},
    {4, {1, 5, 4, 17}, {1, 10, 8, 17}}, /* channels last */
    {4, {3, 9, 11, 33}, {3, 18, 7, 33}},
    {4, {1, 2, 5, 34}, {1, 2, 15, 68}},
    {4, {2, 1, 4, 7}, {2, 1, 8, 21}},
};

START_TEST(resize_equals_the_reference) {
  for (int map = 0; map < ROWS(mappings); map++)
    for (int mode = 0; mode < 3; mode++)
      for (int extra = 0; extra < 4; extra++) {
        static const reed_dtype dtypes[] = {REED_F32, REED_U8, REED_F16, REED_F64};
        reed_dtype dtype = dtypes[extra];
        kernel_case c;
        resize_case(&c, dtype, sizes[_i].rank, sizes[_i].x, sizes[_i].y, modes[mode]);
        case_attr_string(&c, "coordinate_transformation_mode", mappings[map]);
        case_attr_int(&c, "antialias", extra & 1 && mode > 0);
        case_attr_int(&c, "exclude_outside", extra >> 1 && mode > 0);
        case_parity(&c, case_tolerance(dtype) * 4, dtype == REED_F32 ? 2e-5 : case_tolerance(dtype) * 20);
      }
}
END_TEST

/* Dtypes that are summed line by line in double: rounded and saturated, which cubic's overshoot needs. */
START_TEST(resize_of_integers_equals_the_reference) {
  static const reed_dtype dtypes[] = {REED_I8, REED_U8, REED_I16, REED_U16, REED_I32, REED_I64};
  for (int d = 0; d < ROWS(dtypes); d++)
    for (int mode = 1; mode < 3; mode++)
      for (int antialias = 0; antialias < 2; antialias++) {
        kernel_case c;
        resize_case(&c, dtypes[d], sizes[_i].rank, sizes[_i].x, sizes[_i].y, modes[mode]);
        value *x = &c.inputs[0];
        for (int64_t i = 0; i < desc_elements(&x->desc); i++)
          case_set(x, i, i * 7 % 5 == 0 ? 65535 : i * 7 % 5 == 1 ? -32768 : (double)(i * 13 % 100));
        case_attr_int(&c, "antialias", antialias);
        case_parity(&c, 0, antialias); /* sums of many taps that are halves but for a rounding go either way */
      }
}
END_TEST

/* Rows that threads share out by pieces; mode nearest also with each element as often, and with rows that repeat rows.
 */
START_TEST(resize_of_long_rows_does_not_depend_on_the_number_of_threads) {
  for (int turn = 0; turn < 5; turn++) {
    kernel_case c;
    const int mode = turn < 3 ? turn : 0;
    static const int64_t rows[] = {2, 2, 2, 2, 700}, from[] = {9001, 9001, 9001, 9001, 19},
                         widths[] = {40000, 40000, 40000, 27003, 57};
    resize_case(&c, REED_F32, 3, (int64_t[]){1, turn == 4 ? 350 : 2, from[turn]},
                (int64_t[]){1, rows[turn], widths[turn]}, modes[mode]);
    ck_assert_int_eq(case_run(&c, "reference"), REED_OK);
    static double expected[80000];
    static float bits[80000];
    const int64_t n = rows[turn] * widths[turn];
    for (int64_t i = 0; i < n; i++) expected[i] = case_get(&c.outputs[0], i);
    for (int threads = 1; threads < 6; threads += 2) {
      c.n_threads = threads;
      ck_assert_int_eq(case_run(&c, cpu_level_name(cpu_level_best())), REED_OK);
      for (int64_t i = 0; i < n; i++) ck_assert_double_eq_tol(case_get(&c.outputs[0], i), expected[i], 1e-4);
      if (threads == 1) memcpy(bits, c.outputs[0].data, (size_t)n * sizeof *bits);
      ck_assert_msg(memcmp(bits, c.outputs[0].data, (size_t)n * sizeof *bits) == 0, "%s", case_where(&c));
    }
    case_close(&c);
  }
}
END_TEST

START_TEST(resize_of_long_rows_of_bytes_equals_the_reference) {
  for (int mode = 1; mode < 3; mode++) {
    kernel_case c;
    resize_case(&c, REED_U8, 4, (int64_t[]){1, 2, 3, 9001}, (int64_t[]){1, 2, 5, 40003}, modes[mode]);
    case_parity(&c, 0, 0);
  }
}
END_TEST

START_TEST(resize_nearest_rounds_as_told) {
  static const struct {
    const char *word;
    double expected[5];
  } rows[] = {{"round_prefer_floor", {1, 1, 2, 2, 2}},
              {"round_prefer_ceil", {1, 1, 2, 2, 2}},
              {"floor", {1, 1, 1, 2, 2}},
              {"ceil", {1, 2, 2, 2, 2}}};
  for (int i = 0; i < ROWS(rows); i++) {
    kernel_case c;
    resize_case(&c, REED_F32, 1, (int64_t[]){2}, (int64_t[]){5}, "nearest");
    case_set(&c.inputs[0], 0, 1);
    case_set(&c.inputs[0], 1, 2);
    case_attr_string(&c, "nearest_mode", rows[i].word);
    case_attr_string(&c, "coordinate_transformation_mode", "asymmetric"); /* 0 0.4 0.8 1.2 1.6 */
    case_expect(&c, rows[i].expected, 5);
  }
}
END_TEST

START_TEST(resize_linear_matches_onnx_examples) {
  kernel_case c;
  resize_case(&c, REED_F32, 4, (int64_t[]){1, 1, 2, 2}, (int64_t[]){1, 1, 4, 4}, "linear");
  for (int i = 0; i < 4; i++) case_set(&c.inputs[0], i, i + 1);
  case_expect(&c, (double[]){1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4}, 16);
  resize_case(&c, REED_F32, 4, (int64_t[]){1, 1, 2, 2}, (int64_t[]){1, 1, 4, 4}, "linear");
  for (int i = 0; i < 4; i++) case_set(&c.inputs[0], i, i + 1);
  case_attr_string(&c, "coordinate_transformation_mode", "align_corners");
  case_expect(&c,
              (double[]){1, 1 + 1. / 3, 1 + 2. / 3, 2, 1 + 2. / 3, 2, 2 + 1. / 3, 2 + 2. / 3, 2 + 1. / 3, 2 + 2. / 3, 3,
                         3 + 1. / 3, 3, 3 + 1. / 3, 3 + 2. / 3, 4},
              16);
}
END_TEST

/* X of 4 by 1.7: places 3 / (1.7 * 4 - 1) apart, or with the extent of Y 3 / 5 */
START_TEST(resize_aligns_corners_by_the_scale_or_by_whole_extents) {
  for (int whole = 0; whole < 2; whole++) {
    kernel_case c;
    case_init(&c, OP_Resize);
    case_filled(&c, REED_F32, DIMS(4), (double[]){0, 1, 2, 3});
    case_absent(&c);
    case_filled(&c, REED_F32, DIMS(1), (double[]){1.7});
    case_attr_string(&c, "mode", "linear");
    case_attr_string(&c, "coordinate_transformation_mode", "align_corners");
    if (whole) case_attr_int(&c, "whole_extents", 1);
    const double step = whole ? 3. / 5 : 3 / (4 * (double)1.7F - 1);
    case_expect(&c, (double[]){0, step, 2 * step, 3 * step, 4 * step, 5 * step}, 6);
  }
}
END_TEST

START_TEST(resize_crops_and_extrapolates) {
  for (int mode = 0; mode < 2; mode++) {
    kernel_case c;
    case_init(&c, OP_Resize);
    case_filled(&c, REED_F32, DIMS(5), (double[]){0, 1, 2, 3, 4});
    case_filled(&c, REED_F32, DIMS(2), (double[]){0.5, 1.5}); /* from the middle to half a length past the end */
    case_absent(&c);
    case_ints(&c, 1, 5);
    case_attr_string(&c, "mode", modes[mode]);
    case_attr_string(&c, "coordinate_transformation_mode", "tf_crop_and_resize");
    case_attr_float(&c, "extrapolation_value", -7);
    case_expect(&c, (double[]){2, 3, 4, -7, -7}, 5);
  }
}
END_TEST

START_TEST(resize_takes_scales_axes_and_policies) {
  kernel_case c;
  case_init(&c, OP_Resize);
  case_input(&c, REED_F32, DIMS(2, 6, 3, 5), 3);
  case_absent(&c);
  case_filled(&c, REED_F32, DIMS(2), (double[]){0.6, 1.7});
  case_attr_ints(&c, "axes", (int64_t[]){3, -3}, 2);
  case_attr_string(&c, "mode", "cubic");
  case_parity(&c, 1e-5, 1e-5);
  for (int policy = 0; policy < 2; policy++) {
    case_init(&c, OP_Resize);
    case_input(&c, REED_F32, DIMS(1, 1, 6, 8), 3);
    case_absent(&c);
    case_absent(&c);
    case_ints(&c, 2, 9, 9);
    case_attr_ints(&c, "axes", (int64_t[]){2, 3}, 2);
    case_attr_string(&c, "mode", "linear");
    case_attr_string(&c, "keep_aspect_ratio_policy", policy ? "not_larger" : "not_smaller");
    case_parity(&c, 1e-5, 1e-5);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("Resize");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, resize_equals_the_reference, 0, ROWS(sizes));
  tcase_add_test(t, resize_of_long_rows_does_not_depend_on_the_number_of_threads);
  tcase_add_test(t, resize_nearest_rounds_as_told);
  tcase_add_loop_test(t, resize_of_integers_equals_the_reference, 0, ROWS(sizes));
  tcase_add_test(t, resize_of_long_rows_of_bytes_equals_the_reference);
  tcase_add_test(t, resize_linear_matches_onnx_examples);
  tcase_add_test(t, resize_aligns_corners_by_the_scale_or_by_whole_extents);
  tcase_add_test(t, resize_crops_and_extrapolates);
  tcase_add_test(t, resize_takes_scales_axes_and_policies);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
