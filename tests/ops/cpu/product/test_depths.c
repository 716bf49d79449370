/* MatMul and Gemm of long depths, and products of many tiles, against the reference: what threads share of them is in
 * test_chunks.c and test_panels.c. */
#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

/* Depths that are cut into pieces, with and without a rest, and rows of other types whose sums are kept from step to
 * step: few rows, dots, one column, panels. */
static const struct {
  int64_t rows, depth, columns;
} deep[] = {{3, 9000, 2}, {5, 33001, 3}, {1, 40009, 9}, {7, 70000, 1}, {8, 20001, 8}, {17, 9001, 33}, {2, 9003, 130}};

START_TEST(long_depths_equal_the_reference) {
  const int64_t m = deep[_i].rows, k = deep[_i].depth, n = deep[_i].columns;
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_I32};
  for (int d = 0; d < ROWS(dtypes); d++)
    for (int form = 0; form < 5; form++) {
      const bool gemm = form == 2 || form == 3, a_turned = form == 3, b_turned = form == 2;
      kernel_case c;
      case_init(&c, gemm ? OP_Gemm : OP_MatMul);
      c.hide_values = form != 1 && form != 4; /* constant weights are packed */
      case_input(&c, dtypes[d], DIMS(a_turned ? k : m, a_turned ? m : k), 1);
      case_input(&c, dtypes[d], DIMS(b_turned ? n : k, b_turned ? k : n), 1);
      if (form == 1) case_input(&c, dtypes[d], DIMS(m, n), 1); /* like a residual */
      else case_input(&c, dtypes[d], DIMS(n), 1);
      if (form == 4 && dtypes[d] != REED_I32) case_input(&c, dtypes[d], DIMS(m, n), 1); /* a residual */
      if (a_turned) case_attr_int(&c, "transA", 1);
      if (b_turned) case_attr_int(&c, "transB", 1);
      if (gemm && dtypes[d] != REED_I32) case_attr_float(&c, "alpha", -.5);
      case_attr_activation(&c, form == 1 ? "relu" : form == 2 ? "leaky_relu" : NULL);
      const double tolerance = dtypes[d] == REED_F32 ? 1e-5 : case_tolerance(dtypes[d]);
      case_parity(&c, tolerance, tolerance * 100);
    }
}
END_TEST

/* Enough rows and a depth for a GPU's tiles of 128 rows, with rows, columns and a depth that fill none. The host's
 * kernels have blocks of their own, which smaller cases fill. */
START_TEST(many_tiles_on_a_device) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F16, REED_BF16};
  const reed_dtype dtype = dtypes[_i];
  const double tolerance = dtype == REED_F32 ? 1e-4 : case_tolerance(dtype);
  kernel_case c;
  case_init(&c, OP_MatMul);
  case_input(&c, dtype, DIMS(12299, 134), 1);
  case_input(&c, dtype, DIMS(134, 132), 1);
  case_input(&c, dtype, DIMS(132), 1);
  case_attr_activation(&c, "relu");
  case_parity(&c, tolerance, tolerance * 10);
  case_init(&c, OP_Conv);
  case_input(&c, dtype, DIMS(2, 16, 83, 75), 1);
  case_input(&c, dtype, DIMS(130, 16, 3, 3), 1);
  case_input(&c, dtype, DIMS(130), 1);
  case_input(&c, dtype, DIMS(2, 130, 83, 75), 1);
  case_attr_int(&c, "group", 1);
  case_attr_ints(&c, "pads", (const int64_t[]){1, 1, 1, 1}, 4);
  case_attr_activation(&c, "relu");
  case_parity_orders(&c, 1u << 0 | 1u << 3, tolerance, tolerance * 10);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("depths");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, long_depths_equal_the_reference, 0, ROWS(deep));
  tcase_add_device_loop_test(t, many_tiles_on_a_device, 0, 3);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
