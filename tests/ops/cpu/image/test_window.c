/* Pools, softmax and normalisation against their references and small cases worked out by hand. */
#include <math.h>
#include <stdlib.h>

#include "tests/ops/cpu/kernel_case.h"

#define ROWS(table) ((int)(sizeof(table) / sizeof *(table)))

static const struct {
  int32_t rank;
  int64_t x[5], kernel[3], strides[3], dilations[3], pads[6], ceil_mode;
} pools[] = {
    {3, {1, 1, 1}, {1}, {1}, {1}, {0}, 0},
    {3, {2, 3, 17}, {4}, {3}, {1}, {2, 1}, 0},
    {4, {1, 4, 33, 41}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 0},
    {4, {1, 4, 10, 9}, {3, 3}, {2, 2}, {1, 1}, {0, 0, 0, 0}, 1},
    {4, {1, 2, 10, 9}, {3, 2}, {2, 3}, {2, 3}, {1, 1, 1, 0}, 0},
    {4, {1, 2, 5, 6}, {5, 6}, {1, 1}, {1, 1}, {0}, 0},
    {4, {0, 2, 5, 6}, {2, 2}, {1, 1}, {1, 1}, {0}, 0},
    {4, {3, 70, 20, 20}, {2, 2}, {2, 2}, {1, 1}, {0}, 0},
    {4, {1, 37, 12, 20}, {9, 9}, {1, 2}, {1, 1}, {4, 4, 4, 4}, 0},
    {4, {2, 150, 9, 14}, {3, 3}, {1, 1}, {1, 2}, {1, 2, 1, 2}, 0},
    {5, {1, 2, 5, 6, 7}, {2, 3, 2}, {2, 1, 2}, {1, 1, 1}, {1, 1, 0, 0, 1, 1}, 0},
};

static void pool_case(kernel_case *c, op_id op, int row, reed_dtype dtype) {
  int64_t axes = pools[row].rank - 2;
  case_init(c, op);
  case_input(c, dtype, pools[row].rank, pools[row].x, 100);
  case_attr_ints(c, "kernel_shape", pools[row].kernel, axes);
  case_attr_ints(c, "strides", pools[row].strides, axes);
  case_attr_ints(c, "dilations", pools[row].dilations, axes);
  case_attr_ints(c, "pads", pools[row].pads, 2 * axes);
  case_attr_int(c, "ceil_mode", pools[row].ceil_mode);
}

START_TEST(max_pool_equals_the_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16, REED_I8, REED_U8, REED_I64};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
    for (int indices = 0; indices < 2; indices++) {
      kernel_case c;
      pool_case(&c, OP_MaxPool, _i, dtypes[d]);
      c.n_outputs = 1 + indices;
      case_parity_orders(&c, 1u << 0, 0, 0);
    }
}
END_TEST

START_TEST(average_pool_equals_the_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_BF16};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
    for (int include = 0; include < 2; include++) {
      kernel_case c;
      pool_case(&c, OP_AveragePool, _i, dtypes[d]);
      case_attr_int(&c, "count_include_pad", include);
      case_parity_orders(&c, 1u << 0, case_tolerance(dtypes[d]), case_tolerance(dtypes[d]) * 100);
    }
}
END_TEST

START_TEST(lp_pools_give_lengths) {
  static const int64_t kernel[] = {2};
  for (int global = 0; global < 2; global++)
    for (int64_t p = 1; p <= 3; p++) {
      kernel_case c;
      case_init(&c, global ? OP_GlobalLpPool : OP_LpPool);
      value *x = case_input(&c, p == 2 ? REED_F64 : REED_F32, DIMS(1, 1, 2), 0);
      case_set(x, 0, -3);
      case_set(x, 1, 4);
      if (!global) case_attr_ints(&c, "kernel_shape", kernel, 1);
      if (p != 2) case_attr_int(&c, "p", p);
      case_expect(&c, (const double[]){p == 1 ? 7 : p == 2 ? 5 : (double)(float)cbrt(27 + 64)}, 1);
    }
}
END_TEST

START_TEST(max_pool_names_the_first_of_equals_and_keeps_nan) {
  kernel_case c;
  case_init(&c, OP_MaxPool);
  c.n_outputs = 2;
  value *x = case_input(&c, REED_F32, DIMS(1, 1, 1, 6), 0);
  double elements[] = {2, 2, 1, NAN, 5, 5};
  for (int i = 0; i < 6; i++) case_set(x, i, elements[i]);
  case_attr_ints(&c, "kernel_shape", (int64_t[]){1, 2}, 2);
  case_attr_ints(&c, "strides", (int64_t[]){1, 2}, 2);
  ck_assert_int_eq(case_run(&c, "base"), REED_OK);
  ck_assert_double_eq(case_get(&c.outputs[0], 0), 2);
  ck_assert(isnan(case_get(&c.outputs[0], 1)));
  double indices[] = {0, 3, 4};
  for (int i = 0; i < 3; i++) ck_assert_double_eq(case_get(&c.outputs[1], i), indices[i]);
  case_close(&c);
}
END_TEST

/* Wherever a NaN stands among the taps, and in whichever lane. */
START_TEST(max_pool_with_channels_last_keeps_nan) {
  kernel_case c;
  case_init(&c, OP_MaxPool);
  value *x = case_input(&c, REED_F32, DIMS(1, 83, 11, 13), 5);
  for (int64_t i = 0; i < desc_elements(&x->desc); i += 17) case_set(x, i, i % 2 ? NAN : -INFINITY);
  case_attr_ints(&c, "kernel_shape", (int64_t[]){9, 8}, 2); /* more taps than are reduced at once */
  case_attr_ints(&c, "strides", (int64_t[]){2, 1}, 2);
  case_parity_orders(&c, 1u << 0, 0, 0);
}
END_TEST

/* 1 2 3 / 4 5 6 / 7 8 9 under 2x2 with stride 2: ceil_mode looks past the end, where only real elements count. */
START_TEST(average_pool_ceil_mode_counts_what_is_there) {
  for (int include = 0; include < 2; include++) {
    kernel_case c;
    case_init(&c, OP_AveragePool);
    value *x = case_input(&c, REED_F32, DIMS(1, 1, 3, 3), 0);
    for (int i = 0; i < 9; i++) case_set(x, i, i + 1);
    case_attr_ints(&c, "kernel_shape", (int64_t[]){2, 2}, 2);
    case_attr_ints(&c, "strides", (int64_t[]){2, 2}, 2);
    case_attr_int(&c, "ceil_mode", 1);
    case_attr_int(&c, "count_include_pad", include);
    case_expect(&c, (double[]){3, 4.5, 7.5, 9}, 4);
  }
}
END_TEST

START_TEST(global_pools_equal_the_reference) {
  static const int64_t shapes[][4] = {{1, 1, 1, 1}, {2, 3, 7, 9}, {1, 64, 50, 31}, {2, 3, 1, 1}, {0, 3, 4, 4}};
  for (int op = 0; op < 2; op++)
    for (int d = 0; d < 3; d++) {
      static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16};
      kernel_case c;
      case_init(&c, op ? OP_GlobalMaxPool : OP_GlobalAveragePool);
      case_input(&c, dtypes[d], 4, shapes[_i], 3);
      case_parity_orders(&c, 1u << 0, case_tolerance(dtypes[d]), case_tolerance(dtypes[d]));
    }
}
END_TEST

/* The mean of nothing is 0 / 0, the largest of nothing is less than all, the length of nothing is 0. */
START_TEST(global_pools_of_an_empty_plane) {
  static const op_id ops[] = {OP_GlobalAveragePool, OP_GlobalMaxPool, OP_GlobalLpPool};
  static const double nothing[] = {NAN, -INFINITY, 0};
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16, REED_BF16};
  kernel_case c;
  for (int k = 0; k < 12; k++)
    for (int last = 0; last < 2; last++) {
      case_init(&c, ops[k % 3]);
      if (last) case_input(&c, dtypes[k / 3], DIMS(1, 0, 3, 2), 1);
      else case_input(&c, dtypes[k / 3], DIMS(1, 2, 0, 3), 1);
      if (last) case_attr_int(&c, "channels_last", 1);
      case_expect(&c, (const double[]){nothing[k % 3], nothing[k % 3]}, 2);
    }
}
END_TEST

/* ONNX has no negative pads, and no pool that onnxruntime would run. */
START_TEST(pools_refuse_negative_pads) {
  static const op_id ops[] = {OP_AveragePool, OP_MaxPool, OP_LpPool};
  for (int k = 0; k < 3; k++) {
    kernel_case c;
    case_init(&c, ops[k]);
    case_input(&c, REED_F32, DIMS(1, 2, 5, 6), 1);
    case_attr_ints(&c, "kernel_shape", (int64_t[]){2, 2}, 2);
    case_attr_ints(&c, "pads", (int64_t[]){0, -1, 0, 0}, 4);
    case_fails(&c, REED_ERROR_VALUE, "attribute pads has the number -1");
  }
}
END_TEST

/* ---- softmax ---- */

static const struct {
  int32_t rank;
  int64_t x[4], axis;
} softmaxes[] = {
    {1, {1}, 0},       {1, {9}, -1},        {2, {5, 91}, 1},      {2, {91, 5}, 0},      {3, {2, 7, 13}, 1},
    {3, {3, 4, 0}, 1}, {2, {1000, 81}, -1}, {3, {1, 3, 1100}, 1}, {4, {2, 3, 4, 5}, 2},
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

START_TEST(hardmax_is_one_at_the_first_of_the_largest) {
  kernel_case c;
  case_init(&c, OP_Hardmax);
  value *x = case_input(&c, REED_F16, DIMS(2, 3), 0);
  double elements[] = {1, 3, 3, -1, -2, -1};
  for (int i = 0; i < 6; i++) case_set(x, i, elements[i]);
  case_expect(&c, (double[]){0, 1, 0, 1, 0, 0}, 6);
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

/* ---- normalisation ---- */

static const char *const activations[] = {
    NULL,
#define ACTIVATION(kind, text, ...) text,
#include "ops/activation.def"
};

static void add_activation(kernel_case *c, const char *activation) {
  if (!activation) return;
  case_attr_string(c, "activation", activation);
  case_attr_float(c, "activation_alpha", -0.2);
  case_attr_float(c, "activation_beta", 0.7);
}

static const int64_t images[][4] = {{1, 1, 1, 1}, {2, 3, 4, 5}, {1, 33, 7, 3}, {2, 16, 40, 41}, {0, 3, 4, 4}};

START_TEST(batch_norm_equals_the_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16};
  for (int training = 0; training < 2; training++)
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
      if (training && images[_i][0] == 0) continue;
      kernel_case c;
      case_init(&c, OP_BatchNormalization);
      case_input(&c, dtypes[d], 4, images[_i], 3);
      for (int k = 0; k < 4; k++) {
        value *v = case_input(&c, k < 2 ? dtypes[d] : REED_F32, 1, &images[_i][1], 2);
        for (int64_t i = 0; k == 3 && i < images[_i][1]; i++) case_set(v, i, fabs(case_get(v, i)) + 0.1);
      }
      case_attr_float(&c, "epsilon", 1e-3);
      case_attr_int(&c, "training_mode", training);
      if (training) c.n_outputs = 3;
      case_parity_orders(&c, training ? 0 : 1u << 0, case_tolerance(dtypes[d]) * 4, case_tolerance(dtypes[d]) * 8);
    }
}
END_TEST

START_TEST(instance_norm_equals_the_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_BF16};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
    kernel_case c;
    case_init(&c, OP_InstanceNormalization);
    case_input(&c, dtypes[d], 4, images[_i], 3);
    case_input(&c, dtypes[d], 1, &images[_i][1], 2);
    case_input(&c, dtypes[d], 1, &images[_i][1], 2);
    case_parity_orders(&c, 1u << 0, case_tolerance(dtypes[d]) * 8, case_tolerance(dtypes[d]) * 8);
  }
}
END_TEST

START_TEST(layer_norm_equals_the_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
    for (int64_t axis = -1; axis >= -3; axis--)
      for (int shift = 0; shift < 3; shift++) { /* none, whole, repeated */
        kernel_case c;
        case_init(&c, OP_LayerNormalization);
        c.n_outputs = 3;
        int64_t one = 1;
        case_input(&c, dtypes[d], 4, images[_i], 3);
        case_input(&c, dtypes[d], (int32_t)-axis, images[_i] + 4 + axis, 2);
        if (shift == 1) case_input(&c, dtypes[d], (int32_t)-axis, images[_i] + 4 + axis, 2);
        if (shift == 2) case_input(&c, dtypes[d], 1, &one, 2);
        case_attr_int(&c, "axis", axis);
        case_parity(&c, case_tolerance(dtypes[d]) * 8 + 1e-6, case_tolerance(dtypes[d]) * 8);
      }
}
END_TEST

START_TEST(group_norm_equals_the_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16};
  static const int64_t x[] = {2, 6, 5, 3}, groups[] = {1, 2, 6};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
      for (int per_group = 0; per_group < 2; per_group++) {
        kernel_case c;
        case_init(&c, OP_GroupNormalization);
        case_input(&c, dtypes[d], 4, x, 3);
        for (int k = 0; k < 2; k++) case_input(&c, dtypes[d], 1, per_group ? &groups[g] : &x[1], 2);
        case_attr_int(&c, "num_groups", groups[g]);
        case_parity_orders(&c, 1u << 0, case_tolerance(dtypes[d]) * 8, case_tolerance(dtypes[d]) * 8);
      }
}
END_TEST

START_TEST(group_norm_of_no_channels_gives_nothing) {
  for (int d = 0; d < 2; d++) {
    kernel_case c;
    case_init(&c, OP_GroupNormalization);
    case_input(&c, d ? REED_F64 : REED_F32, DIMS(2, 0, 3), 3);
    for (int k = 0; k < 2; k++) case_input(&c, d ? REED_F64 : REED_F32, DIMS(0), 2);
    case_attr_int(&c, "num_groups", 2);
    case_expect(&c, NULL, 0);
  }
}
END_TEST

START_TEST(group_norm_wants_whole_groups) {
  kernel_case c;
  case_init(&c, OP_GroupNormalization);
  case_input(&c, REED_F32, DIMS(1, 5, 2), 3);
  for (int k = 0; k < 2; k++) case_input(&c, REED_F32, DIMS(5), 2);
  case_attr_int(&c, "num_groups", 2);
  case_fails(&c, REED_ERROR_SHAPE, "5 channels in 2 groups");
}
END_TEST

START_TEST(rms_norm_divides_by_the_root_of_the_mean_square) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64};
  for (int d = 0; d < 2; d++) {
    kernel_case c;
    case_init(&c, OP_RMSNormalization);
    value *x = case_input(&c, dtypes[d], DIMS(2, 2), 0);
    const double elements[] = {1, 7, 5, -5};
    for (int i = 0; i < 4; i++) case_set(x, i, elements[i]);
    case_set(case_input(&c, dtypes[d], DIMS(2), 0), 0, 10);
    case_set(&c.inputs[1], 1, 10);
    case_attr_float(&c, "epsilon", 0);
    case_expect(&c, (double[]){2, 14, 10, -10}, 4);
  }
}
END_TEST

/* A mean far from zero leaves the differences exact. */
/* A plane of more than one block and rows of an odd number of elements; a NaN in the first, which is all of what it is
 * normalised with. */
START_TEST(norms_end_with_any_activation) {
  static const op_id ops[] = {OP_BatchNormalization, OP_GroupNormalization, OP_InstanceNormalization,
                              OP_LayerNormalization, OP_RMSNormalization};
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16};
  static const int64_t x[] = {1, 3, 70, 61};
  for (int k = 0; k < ROWS(ops) * ROWS(dtypes) * 2; k++) {
    op_id op = ops[k % ROWS(ops)];
    reed_dtype dtype = dtypes[k / ROWS(ops) % ROWS(dtypes)];
    bool rows = op == OP_LayerNormalization || op == OP_RMSNormalization;
    kernel_case c;
    case_init(&c, op);
    value *data = case_input(&c, dtype, 4, x, 3);
    if (k < ROWS(ops) * ROWS(dtypes)) case_set(data, 7, NAN);
    int parameters = op == OP_RMSNormalization ? 1 : op == OP_BatchNormalization ? 4 : 2;
    for (int i = 0; i < parameters; i++) {
      value *v = case_input(&c, dtype, 1, rows ? &x[3] : &x[1], 2);
      for (int64_t e = 0; i == 3 && e < x[1]; e++) case_set(v, e, fabs(case_get(v, e)) + 0.1);
    }
    if (op == OP_GroupNormalization) case_attr_int(&c, "num_groups", 3);
    add_activation(&c, activations[_i]);
    double tolerance = case_tolerance(dtype) * 16;
    if (rows) case_parity(&c, tolerance, tolerance);
    else case_parity_orders(&c, 1u << 0, tolerance, tolerance);
  }
}
END_TEST

START_TEST(norms_refuse_an_activation_that_is_none) {
  kernel_case c;
  case_init(&c, OP_InstanceNormalization);
  case_input(&c, REED_F32, DIMS(1, 5, 2), 3);
  for (int k = 0; k < 2; k++) case_input(&c, REED_F32, DIMS(5), 2);
  case_attr_string(&c, "activation", "softrelu");
  case_fails(&c, REED_ERROR_UNSUPPORTED, "activation 'softrelu' is not known");
}
END_TEST

START_TEST(instance_norm_survives_a_large_mean) {
  kernel_case c;
  case_init(&c, OP_InstanceNormalization);
  value *x = case_input(&c, REED_F32, DIMS(1, 1, 4), 0);
  for (int i = 0; i < 4; i++) case_set(x, i, 1e6 + (i < 2 ? 1 : -1));
  case_set(case_input(&c, REED_F32, DIMS(1), 0), 0, 1);
  case_input(&c, REED_F32, DIMS(1), 0);
  case_attr_float(&c, "epsilon", 0);
  case_expect(&c, (double[]){1, 1, -1, -1}, 4);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("window and norm kernels");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, max_pool_equals_the_reference, 0, ROWS(pools));
  tcase_add_test(t, lp_pools_give_lengths);
  tcase_add_test(t, hardmax_is_one_at_the_first_of_the_largest);
  tcase_add_test(t, lp_normalization_divides_by_the_length_if_there_is_one);
  tcase_add_test(t, group_norm_equals_the_reference);
  tcase_add_test(t, group_norm_of_no_channels_gives_nothing);
  tcase_add_test(t, group_norm_wants_whole_groups);
  tcase_add_test(t, rms_norm_divides_by_the_root_of_the_mean_square);
  tcase_add_loop_test(t, average_pool_equals_the_reference, 0, ROWS(pools));
  tcase_add_test(t, max_pool_with_channels_last_keeps_nan);
  tcase_add_test(t, max_pool_names_the_first_of_equals_and_keeps_nan);
  tcase_add_test(t, average_pool_ceil_mode_counts_what_is_there);
  tcase_add_loop_test(t, global_pools_equal_the_reference, 0, 5);
  tcase_add_test(t, global_pools_of_an_empty_plane);
  tcase_add_test(t, pools_refuse_negative_pads);
  tcase_add_loop_test(t, softmax_equals_the_reference, 0, ROWS(softmaxes));
  tcase_add_test(t, softmax_of_large_and_masked_logits);
  tcase_add_loop_test(t, batch_norm_equals_the_reference, 0, ROWS(images));
  tcase_add_loop_test(t, instance_norm_equals_the_reference, 0, ROWS(images));
  tcase_add_loop_test(t, layer_norm_equals_the_reference, 0, ROWS(images));
  tcase_add_loop_test(t, norms_end_with_any_activation, 0, ROWS(activations));
  tcase_add_test(t, norms_refuse_an_activation_that_is_none);
  tcase_add_test(t, instance_norm_survives_a_large_mean);
  suite_add_tcase(suite, t);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
