/* Attributes and extents that a file may hold and no model has, and that once crashed a kernel, hung it, or made it
 * read too far. Found by tests/fuzz. */
#include <check.h>
#include <stdlib.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

static value *conv_case(kernel_case *c, op_id op) {
  case_init(c, op);
  value *x = case_input(c, REED_F32, DIMS(1, 3, 8, 9), 1);
  case_input(c, REED_F32, DIMS(3, 3, 3, 3), 1);
  return x;
}

START_TEST(a_bias_of_other_extents_is_refused) {
  static const op_id ops[] = {OP_Conv, OP_ConvTranspose};
  for (int i = 0; i < 2; i++) {
    kernel_case c;
    conv_case(&c, ops[i]);
    case_input(&c, REED_F32, DIMS(2), 1);
    case_fails(&c, REED_ERROR_SHAPE, "bias f32[2] for 3 output channels");
  }
}
END_TEST

START_TEST(a_residual_of_other_extents_is_refused) {
  kernel_case c;
  conv_case(&c, OP_Conv);
  case_absent(&c);
  case_input(&c, REED_F32, DIMS(1, 3, 6, 1), 1);
  case_fails(&c, REED_ERROR_SHAPE, "residual f32[1,3,6,1]");
}
END_TEST

START_TEST(windows_without_a_tap_on_the_input_give_the_bias) {
  static const struct {
    int64_t dims[4], kernel[2], dilations[2];
  } cases[] = {{{1, 7, 4, 3}, {4, 1}, {6, 48}}, {{2, 3, 2, 2}, {2, 2}, {5, 3}}, {{1, 16, 3, 5}, {3, 3}, {4, 1}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kernel_case c;
    case_init(&c, OP_Conv);
    case_input(&c, REED_F32, 4, cases[i].dims, 1);
    case_input(&c, REED_F32, DIMS(3, cases[i].dims[1], cases[i].kernel[0], cases[i].kernel[1]), 1);
    case_input(&c, REED_F32, DIMS(3), 1);
    case_attr_ints(&c, "dilations", cases[i].dilations, 2);
    case_attr_string(&c, "auto_pad", "SAME_LOWER");
    case_parity(&c, 1e-5, 1e-5);
  }
}
END_TEST

START_TEST(a_kernel_shape_that_is_nearly_all_padding_ends) {
  static const op_id ops[] = {OP_MaxPool, OP_AveragePool, OP_LpPool};
  static const reed_dtype dtypes[] = {REED_F32, REED_F64};
  for (int i = 0; i < 3; i++)
    for (int d = 0; d < 2; d++) {
      kernel_case c;
      case_init(&c, ops[i]);
      case_input(&c, dtypes[d], DIMS(1, 2, 5, 6), 1);
      case_attr_ints(&c, "kernel_shape", (int64_t[]){INT32_MAX, INT32_MAX}, 2);
      case_attr_string(&c, "auto_pad", "SAME_UPPER");
      case_parity(&c, 1e-4, 1e-5);
    }
}
END_TEST

START_TEST(scalars_without_or_with_more_elements_are_refused) {
  kernel_case c;
  case_init(&c, OP_Dropout);
  case_input(&c, REED_F32, DIMS(3), 1);
  case_input(&c, REED_F32, DIMS(0), 1);
  case_fails(&c, REED_ERROR_SHAPE, "'ratio' must have one element");
  case_init(&c, OP_Clip);
  case_input(&c, REED_F32, DIMS(3), 1);
  case_input(&c, REED_F32, DIMS(2), 1);
  case_fails(&c, REED_ERROR_SHAPE, "'min' must have one element");
  case_init(&c, OP_CumSum);
  case_input(&c, REED_F32, DIMS(3), 1);
  case_input(&c, REED_I64, DIMS(0), 1);
  case_fails(&c, REED_ERROR_SHAPE, "'axis' must have one element");
}
END_TEST

START_TEST(regions_of_an_empty_map_are_zero) {
  static const double zeros[4];
  kernel_case c;
  case_init(&c, OP_RoiAlign);
  case_input(&c, REED_F32, DIMS(1, 1, 0, 4), 1);
  case_input(&c, REED_F32, DIMS(1, 4), 0);
  case_input(&c, REED_I64, DIMS(1), 0);
  case_attr_int(&c, "output_height", 2);
  case_attr_int(&c, "output_width", 2);
  case_expect(&c, zeros, 4);
}
END_TEST

START_TEST(endless_samples_of_a_region_are_refused) {
  kernel_case c;
  case_init(&c, OP_RoiAlign);
  case_input(&c, REED_F32, DIMS(1, 1, 4, 4), 1);
  case_input(&c, REED_F32, DIMS(1, 4), 0);
  case_input(&c, REED_I64, DIMS(1), 0);
  case_attr_int(&c, "sampling_ratio", INT32_MAX);
  case_fails(&c, REED_ERROR_UNSUPPORTED, "sampling_ratio 2147483647");
}
END_TEST

START_TEST(any_number_of_empty_rows_takes_no_time) {
  static const op_id ops[] = {OP_LayerNormalization, OP_Softmax, OP_ReduceSum, OP_Transpose};
  for (int i = 0; i < 4; i++) {
    kernel_case c;
    case_init(&c, ops[i]);
    case_input(&c, REED_F32, DIMS((int64_t)1 << 40, 0, 8), 1);
    if (ops[i] == OP_LayerNormalization) case_scalar(&c, REED_F32, 1);
    if (ops[i] == OP_ReduceSum) case_ints(&c, 1, 2);
    case_expect(&c, NULL, 0);
  }
}
END_TEST

START_TEST(any_number_of_steps_without_sequences_or_features_takes_no_time) {
  static const op_id ops[] = {OP_RNN, OP_GRU, OP_LSTM};
  static const int64_t gates[] = {1, 3, 4}, endless = (int64_t)1 << 40;
  for (int i = 0; i < 3; i++)
    for (int features = 0; features < 2; features++) {
      kernel_case c;
      case_init(&c, ops[i]);
      case_input(&c, REED_F32, DIMS(endless, 1 - features, features), 1);
      case_input(&c, REED_F32, DIMS(1, gates[i] * 2, features), 1);
      case_input(&c, REED_F32, DIMS(1, gates[i] * 2, 2), 1);
      c.n_outputs = 2;
      c.unwanted[0] = true;
      if (features) case_parity(&c, 0, 0);
      else case_fails(&c, REED_ERROR_SHAPE, "X: has no features");
    }
}
END_TEST

START_TEST(states_larger_than_any_memory_are_refused) {
  kernel_case c;
  case_init(&c, OP_GRU);
  case_input(&c, REED_F32, DIMS(0, (int64_t)1 << 46, 1), 1);
  case_input(&c, REED_F32, DIMS(1, 24, 1), 1);
  case_input(&c, REED_F32, DIMS(1, 24, 8), 1);
  c.n_outputs = 2;
  case_fails(&c, REED_ERROR_SHAPE, "too large");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("hostile calls");
  TCase *cases = tcase_create("hostile calls");
  tcase_add_test(cases, a_bias_of_other_extents_is_refused);
  tcase_add_test(cases, a_residual_of_other_extents_is_refused);
  tcase_add_test(cases, windows_without_a_tap_on_the_input_give_the_bias);
  tcase_add_test(cases, a_kernel_shape_that_is_nearly_all_padding_ends);
  tcase_add_test(cases, scalars_without_or_with_more_elements_are_refused);
  tcase_add_test(cases, regions_of_an_empty_map_are_zero);
  tcase_add_test(cases, endless_samples_of_a_region_are_refused);
  tcase_add_test(cases, any_number_of_empty_rows_takes_no_time);
  tcase_add_test(cases, any_number_of_steps_without_sequences_or_features_takes_no_time);
  tcase_add_test(cases, states_larger_than_any_memory_are_refused);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
