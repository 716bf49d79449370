/* Pools against their references and small cases worked out by hand. */
#include <math.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/ops/cpu/product/drawn.h"
#include "tests/suite.h"

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
    {4, {1, 5, 20, 20}, {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}, 0},
    {4, {1, 3, 23, 37}, {5, 4}, {1, 1}, {1, 2}, {2, 3, 2, 3}, 0},
    {4, {2, 2, 15, 70}, {4, 5}, {2, 1}, {1, 1}, {0, 2, 1, 2}, 0},
    {5, {1, 2, 5, 6, 7}, {2, 3, 2}, {2, 1, 2}, {1, 1, 1}, {1, 1, 0, 0, 1, 1}, 0},
    /* more rows than are held at a time; windows whose rows are joined first */
    {4, {1, 3, 150, 40}, {13, 16}, {2, 2}, {1, 1}, {6, 7, 6, 7}, 0},
    {4, {1, 2, 131, 23}, {16, 5}, {3, 1}, {1, 1}, {15, 2, 0, 4}, 1},
    {4, {1, 200, 10, 41}, {9, 9}, {1, 2}, {1, 1}, {4, 4, 4, 4}, 0},
    {4, {1, 5, 9, 75}, {3, 70}, {1, 1}, {2, 1}, {0}, 0},
    {5, {1, 3, 11, 11, 9}, {9, 9, 9}, {1, 1, 1}, {1, 1, 1}, {4, 4, 4, 4, 4, 4}, 0},
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

START_TEST(lp_pool_equals_the_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
    for (int64_t p = 1; p <= 3; p++) {
      kernel_case c;
      pool_case(&c, OP_LpPool, _i, dtypes[d]);
      if (p != 2) case_attr_int(&c, "p", p);
      case_parity_orders(&c, 1u << 0, case_tolerance(dtypes[d]), 0);
    }
}
END_TEST

/* Windows of several pieces: of long runs, of many short ones and of both; the sum of a run ends with few taps. */
START_TEST(lp_pool_of_large_windows_equals_the_reference) {
  static const struct {
    int32_t rank;
    int64_t x[5], kernel[3], strides[3], dilations[3], pads[6];
  } large[] = {
      {3, {1, 2, 40003}, {20001}, {3001}, {1}, {7000, 7001}},
      {3, {1, 1, 40003}, {17}, {2000}, {999}, {0}},
      {4, {1, 1, 3000, 13}, {2999, 12}, {1, 1}, {1, 1}, {0, 0, 0, 3}},
      {4, {2, 1, 6, 17000}, {3, 16500}, {2, 300}, {2, 1}, {1, 5, 1, 0}},
      {5, {1, 1, 30, 40, 31}, {29, 40, 30}, {1, 1, 1}, {1, 1, 1}, {0, 2, 0, 0, 2, 0}},
  };
  for (int64_t p = 1; p <= 3; p++) {
    kernel_case c;
    const int64_t axes = large[_i].rank - 2;
    case_init(&c, OP_LpPool);
    case_input(&c, p == 1 ? REED_F64 : REED_F32, large[_i].rank, large[_i].x, 1);
    case_attr_ints(&c, "kernel_shape", large[_i].kernel, axes);
    case_attr_ints(&c, "strides", large[_i].strides, axes);
    case_attr_ints(&c, "dilations", large[_i].dilations, axes);
    case_attr_ints(&c, "pads", large[_i].pads, 2 * axes);
    case_attr_int(&c, "p", p);
    case_parity(&c, p == 1 ? 1e-12 : 1e-6, 0);
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

/* Kernels in registers and along a line, strides, dilations and pads, over rows of less than a vector to several of
 * them; zeros of both signs, -INFINITY and NaN among the elements. */
START_TEST(drawn_pools_equal_the_reference) {
  drawn_state = (uint64_t)_i + 1;
  for (int k = 0; k < 60; k++) {
    kernel_case c;
    int64_t x[5], kernel[3], strides[3], dilations[3], pads[6] = {0};
    const int64_t axes = drawn(1, 3);
    static const int64_t kernels[] = {1, 2, 2, 3, 3, 3, 4, 5, 7, 9, 14, 17};
    x[0] = drawn(1, 2);
    x[1] = drawn(1, 5);
    for (int64_t i = 0; i < axes; i++) {
      const bool last = i == axes - 1;
      strides[i] = drawn(0, 3) ? drawn(1, 2) : drawn(3, 15);
      dilations[i] = drawn(0, 3) ? 1 : drawn(2, 3);
      kernel[i] = last || (axes == 2 && drawn(0, 1)) ? kernels[drawn(0, 11)] : drawn(1, 4);
      const int64_t reach = (kernel[i] - 1) * dilations[i] + 1;
      x[2 + i] = reach + drawn(0, last ? 70 : 9);
      if (drawn(0, 1)) pads[i] = drawn(0, kernel[i] - 1), pads[axes + i] = drawn(0, kernel[i] - 1);
    }
    const bool mean = drawn(0, 2) == 0, whole = drawn(0, 1), places = !mean && drawn(0, 3) == 0;
    case_init(&c, mean ? OP_AveragePool : OP_MaxPool);
    value *v = case_input(&c, places && drawn(0, 1) ? REED_F64 : REED_F32, (int32_t)axes + 2, x, 4);
    for (int64_t i = 0; i < desc_elements(&v->desc) && !mean; i++) {
      if (whole) case_set(v, i, rint(case_get(v, i)));
      if (_i % 2 && i % 37 == 5) case_set(v, i, i % 3 ? -INFINITY : NAN);
    }
    case_attr_ints(&c, "kernel_shape", kernel, axes);
    case_attr_ints(&c, "strides", strides, axes);
    case_attr_ints(&c, "dilations", dilations, axes);
    case_attr_ints(&c, "pads", pads, 2 * axes);
    case_attr_int(&c, "ceil_mode", drawn(0, 1));
    if (mean) case_attr_int(&c, "count_include_pad", drawn(0, 1));
    if (places) c.n_outputs = 2, case_attr_int(&c, "storage_order", drawn(0, 1));
    case_parity_orders(&c, 1u << 0, mean ? 1e-5 : 0, mean ? 1e-6 : 0);
  }
}
END_TEST

/* Rows and columns that threads share out, and lines longer than are reduced at a time. */
static const struct {
  int32_t rank;
  int64_t x[5], kernel[3], strides[3], dilations[3], pads[6];
} shared[] = {{3, {1, 2, 7}, {300000}, {1}, {1}, {150000, 150000}},
              {3, {1, 1, 100003}, {1001}, {1}, {1}, {0, 500}},
              {3, {1, 3, 60001}, {3}, {2}, {1}, {1, 1}},
              {3, {1, 1, 50000}, {14}, {14}, {1}, {0}},
              {3, {2, 2, 30011}, {9000}, {7}, {2}, {300, 0}},
              {4, {1, 2, 300, 301}, {3, 3}, {1, 1}, {1, 1}, {1}},
              {4, {1, 2, 300, 301}, {9, 8}, {1, 2}, {1, 1}, {4, 3}},
              {4, {1, 60, 40, 20}, {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}},
              {4, {1, 2, 301, 300}, {70, 70}, {30, 35}, {1, 1}, {0, 3}},
              {4, {40, 30, 17, 19}, {3, 3}, {2, 2}, {1, 1}, {0}},
              {4, {40, 30, 17, 19}, {17, 14}, {1, 14}, {1, 1}, {0}},
              {5, {1, 2, 20, 41, 42}, {3, 3, 3}, {1}, {1}, {0, 1}},
              /* pieces of a line that lie in the padding */
              {3, {1, 1, 8}, {5}, {1}, {1}, {0, 40000}},
              {3, {1, 1, 8}, {5}, {1}, {1}, {40000, 0}},
              {3, {1, 2, 3}, {5}, {900}, {1}, {1000, 0}}};

START_TEST(pools_do_not_depend_on_the_number_of_threads) {
  for (int mean = 0; mean < 2; mean++) {
    const int64_t axes = shared[_i].rank - 2;
    int64_t strides[3], dilations[3];
    kernel_case c;
    case_init(&c, mean ? OP_AveragePool : OP_MaxPool);
    case_input(&c, REED_F32, shared[_i].rank, shared[_i].x, 1);
    for (int64_t i = 0; i < axes; i++) {
      strides[i] = shared[_i].strides[i] ? shared[_i].strides[i] : 1;
      dilations[i] = shared[_i].dilations[i] ? shared[_i].dilations[i] : 1;
    }
    case_attr_ints(&c, "kernel_shape", shared[_i].kernel, axes);
    case_attr_ints(&c, "strides", strides, axes);
    case_attr_ints(&c, "dilations", dilations, axes);
    case_attr_ints(&c, "pads", shared[_i].pads, 2 * axes);
    for (cpu_level level = CPU_BASE; level <= cpu_level_best() && level <= CPU_AVX512; level++) {
      float *bits = NULL;
      size_t bytes = 0;
      for (int threads = 1; threads < 8; threads += 2) {
        c.n_threads = threads;
        ck_assert_int_eq(case_run(&c, cpu_level_name(level)), REED_OK);
        if (!bits) {
          bytes = (size_t)desc_bytes(&c.outputs[0].desc);
          bits = malloc(bytes);
          ck_assert_ptr_nonnull(bits);
          memcpy(bits, c.outputs[0].data, bytes);
        }
        ck_assert_msg(memcmp(bits, c.outputs[0].data, bytes) == 0, "%s", case_where(&c));
      }
      free(bits);
    }
    c.n_threads = 1;
    case_parity(&c, mean ? 1e-5 : 0, mean ? 1e-6 : 0);
  }
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

START_TEST(global_max_pool_keeps_nan_wherever_it_stands) {
  for (int64_t n = 1; n < 140; n += n < 40 ? 1 : 7)
    for (int64_t at = 0; at < n; at += 1 + at / 8) {
      kernel_case c;
      case_init(&c, OP_GlobalMaxPool);
      value *x = case_input(&c, REED_F32, DIMS(1, 2, n), 5);
      case_set(x, at, NAN);
      case_parity(&c, 0, 0);
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

int main(void) {
  Suite *suite = suite_create("pools");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, max_pool_equals_the_reference, 0, ROWS(pools));
  tcase_add_loop_test(t, lp_pool_equals_the_reference, 0, ROWS(pools));
  tcase_add_host_loop_test(t, lp_pool_of_large_windows_equals_the_reference, 0, 5);
  tcase_add_test(t, lp_pools_give_lengths);
  tcase_add_loop_test(t, average_pool_equals_the_reference, 0, ROWS(pools));
  tcase_add_test(t, max_pool_with_channels_last_keeps_nan);
  tcase_add_test(t, max_pool_names_the_first_of_equals_and_keeps_nan);
  tcase_add_loop_test(t, drawn_pools_equal_the_reference, 0, 8);
  tcase_add_host_loop_test(t, pools_do_not_depend_on_the_number_of_threads, 0, ROWS(shared));
  tcase_add_test(t, average_pool_ceil_mode_counts_what_is_there);
  tcase_add_loop_test(t, global_pools_equal_the_reference, 0, 5);
  tcase_add_test(t, global_max_pool_keeps_nan_wherever_it_stands);
  tcase_add_test(t, global_pools_of_an_empty_plane);
  tcase_add_test(t, pools_refuse_negative_pads);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
