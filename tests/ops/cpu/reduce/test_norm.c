/* Normalisations against their references and small cases worked out by hand. */
#include <math.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

static const char *const activations[] = {
    NULL,
#define ACTIVATION(kind, text, ...) text,
#include "ops/activation.def"
};

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

/* One element of a channel in an image: rows of a matrix. Odd numbers of channels, more rows than a range has. */
START_TEST(batch_norm_of_rows_equals_the_reference) {
  static const int64_t rows[][3] = {{1, 1, 1}, {7, 33, 1}, {130, 16, 1}, {3, 700, 1}, {0, 5, 1}};
  for (int32_t rank = 2; rank <= 3; rank++) {
    kernel_case c;
    case_init(&c, OP_BatchNormalization);
    case_input(&c, REED_F32, rank, rows[_i], 3);
    for (int k = 0; k < 4; k++) {
      value *v = case_input(&c, REED_F32, 1, &rows[_i][1], 2);
      for (int64_t i = 0; k == 3 && i < rows[_i][1]; i++) case_set(v, i, fabs(case_get(v, i)) + 0.1);
    }
    case_parity_orders(&c, 1u << 0, case_tolerance(REED_F32) * 4, case_tolerance(REED_F32) * 8);
  }
}
END_TEST

/* Planes shorter than vectors, up to about where they are taken one by one; odd numbers of them. */
START_TEST(batch_norm_of_short_planes_equals_the_reference) {
  static const int64_t sizes[] = {2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 31, 63, 64, 65};
  for (int64_t channels = 1; channels < 800; channels = channels * 3 + 2)
    for (int relu = 0; relu < 2; relu++) {
      kernel_case c;
      case_init(&c, OP_BatchNormalization);
      case_input(&c, REED_F32, DIMS(3, channels, sizes[_i]), 3);
      for (int k = 0; k < 4; k++) {
        value *v = case_input(&c, REED_F32, 1, &channels, 2);
        for (int64_t i = 0; k == 3 && i < channels; i++) case_set(v, i, fabs(case_get(v, i)) + 0.1);
      }
      case_attr_activation(&c, relu ? "relu" : NULL);
      case_parity(&c, case_tolerance(REED_F32) * 4, case_tolerance(REED_F32) * 8);
    }
}
END_TEST

/* Squares near the ends of the range of float, and between. */
START_TEST(rms_norm_of_extreme_numbers_equals_the_reference) {
  static const double factors[] = {1e-15, 1e-6, 1, 1e12, 1e17};
  for (int64_t columns = 1; columns < 300; columns = columns * 2 + 5) {
    kernel_case c;
    case_init(&c, OP_RMSNormalization);
    value *x = case_input(&c, REED_F32, DIMS(5, columns), 1);
    for (int64_t i = 0; i < 5 * columns; i++) case_set(x, i, case_get(x, i) * factors[_i]);
    case_input(&c, REED_F32, 1, &columns, 2);
    case_attr_float(&c, "epsilon", 0);
    case_parity(&c, case_tolerance(REED_F32) * 8, 1e-5);
  }
}
END_TEST

/* Rows and planes that are taken many at a time, of each length up to one that is not; in odd numbers, with each
 * optional output. */
START_TEST(norms_of_short_rows_equal_the_reference) {
  static const op_id ops[] = {OP_LayerNormalization, OP_RMSNormalization, OP_InstanceNormalization,
                              OP_GroupNormalization};
  const int64_t n = _i + 1;
  for (int64_t rows = 1; rows < 900; rows = rows * 6 + 1)
    for (int k = 0; k < ROWS(ops); k++) {
      const bool of_rows = k < 2, grouped = ops[k] == OP_GroupNormalization;
      const int64_t channels = grouped ? 3 * rows : rows;
      kernel_case c;
      case_init(&c, ops[k]);
      if (of_rows) case_input(&c, REED_F32, DIMS(rows, n), 3);
      else case_input(&c, REED_F32, DIMS(2, channels, n), 3);
      for (int i = 0; i < (k == 1 ? 1 : 2); i++) case_input(&c, REED_F32, 1, of_rows ? &n : &channels, 2);
      if (k == 0) c.n_outputs = (int32_t)(rows % 3) + 1;
      if (grouped) case_attr_int(&c, "num_groups", rows);
      case_attr_activation(&c, rows % 2 ? "relu" : NULL);
      case_attr_float(&c, "epsilon", 1e-2);
      case_parity(&c, case_tolerance(REED_F32) * 16, case_tolerance(REED_F32) * 16);
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
        /* the rounding of a mean is multiplied by mean / deviation: few elements may lie close together */
        double tolerance = case_tolerance(dtypes[d]) * (axis == -1 && images[_i][3] < 8 ? 64 : 8);
        case_parity(&c, tolerance + 1e-6, tolerance);
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

/* A plane of more than one block, and rows of an odd number of elements. In half of the cases a NaN in the first plane
 * or row makes all elements NaN that are normalised with it. */
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
    case_attr_activation(&c, activations[_i]);
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
  case_fails(&c, REED_ERROR_VALUE, "attribute activation has no meaning 'softrelu'");
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

/* Large elements, nearly or all equal: a mean that is off by the rounding of its sums shows in every result. The
 * planes are one piece long, and several. */
static const struct {
  double level, noise, first; /* the first element of each image */
} large[] = {{-208.7, 0, -208.7}, {1e4, 0.01, 1e4}, {3e5, 0.04, 3e5}, {-208.7, 0, 1e3}, {-77.3, 0.5, -77.3}};

START_TEST(norms_survive_large_means) {
  static const op_id ops[] = {OP_BatchNormalization, OP_GroupNormalization, OP_InstanceNormalization,
                              OP_LayerNormalization};
  static const int64_t shapes[][3] = {{2, 6, 700}, {1, 6, 50000}, {2, 24, 64}};
  for (int k = 0; k < ROWS(ops) * ROWS(shapes); k++) {
    op_id op = ops[k % ROWS(ops)];
    const int64_t *shape = shapes[k / ROWS(ops)];
    bool rows = op == OP_LayerNormalization;
    kernel_case c;
    case_init(&c, op);
    value *x = case_input(&c, REED_F32, 3, shape, 1);
    int64_t image = rows ? shape[2] : shape[1] * shape[2], n = shape[0] * shape[1] * shape[2];
    for (int64_t i = 0; i < n; i++)
      case_set(x, i, i % image ? large[_i].level + case_get(x, i) * large[_i].noise : large[_i].first);
    for (int i = 0; i < 2; i++) case_input(&c, REED_F32, 1, rows ? &shape[2] : &shape[1], 2);
    if (op == OP_BatchNormalization)
      for (int i = 0; i < 2; i++) {
        value *v = case_input(&c, REED_F32, 1, &shape[1], 0);
        for (int64_t e = 0; e < shape[1]; e++)
          case_set(v, e, i ? large[_i].noise * large[_i].noise + 1e-6 : large[_i].level);
      }
    if (op == OP_GroupNormalization) case_attr_int(&c, "num_groups", 3);
    if (rows) case_parity(&c, 2e-6, 2e-5);
    else case_parity_orders(&c, 1u << 0, 2e-6, 2e-5);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("normalisation");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_test(t, group_norm_equals_the_reference);
  tcase_add_test(t, group_norm_of_no_channels_gives_nothing);
  tcase_add_test(t, group_norm_wants_whole_groups);
  tcase_add_test(t, rms_norm_divides_by_the_root_of_the_mean_square);
  tcase_add_loop_test(t, batch_norm_equals_the_reference, 0, ROWS(images));
  tcase_add_loop_test(t, batch_norm_of_rows_equals_the_reference, 0, 5);
  tcase_add_loop_test(t, batch_norm_of_short_planes_equals_the_reference, 0, 15);
  tcase_add_loop_test(t, rms_norm_of_extreme_numbers_equals_the_reference, 0, 5);
  tcase_add_loop_test(t, norms_of_short_rows_equal_the_reference, 0, 18);
  tcase_add_loop_test(t, instance_norm_equals_the_reference, 0, ROWS(images));
  tcase_add_loop_test(t, layer_norm_equals_the_reference, 0, ROWS(images));
  tcase_add_loop_test(t, norms_end_with_any_activation, 0, ROWS(activations));
  tcase_add_test(t, norms_refuse_an_activation_that_is_none);
  tcase_add_test(t, instance_norm_survives_a_large_mean);
  tcase_add_loop_test(t, norms_survive_large_means, 0, ROWS(large));
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
