/* Residuals of MatMul and Gemm, which are added before the activation, against the reference. Those of convolutions are
 * in test_linear.c. */
#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

/* A residual beside no bias, a row, a column, or a matrix; of odd and of even widths. */
START_TEST(products_add_residuals) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16, REED_BF16};
  static const int64_t widths[] = {1, 5, 64, 88};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
      for (int gemm = 0; gemm < 2; gemm++) {
        const int64_t n = widths[w];
        kernel_case c;
        case_init(&c, gemm ? OP_Gemm : OP_MatMul);
        if (gemm) case_input(&c, dtypes[d], DIMS(13, 21), 1);
        else case_input(&c, dtypes[d], DIMS(2, 13, 21), 1);
        case_input(&c, dtypes[d], DIMS(21, n), 1);
        if (_i == 0) case_absent(&c);
        else if (_i == 1) case_input(&c, dtypes[d], DIMS(n), 1);
        else if (_i == 2) case_input(&c, dtypes[d], DIMS(13, 1), 1);
        else case_input(&c, dtypes[d], DIMS(13, n), 1);
        if (gemm) case_input(&c, dtypes[d], DIMS(13, n), 1);
        else case_input(&c, dtypes[d], DIMS(2, 13, n), 1);
        if (gemm) case_attr_float(&c, "beta", 0.5);
        case_attr_activation(&c, w % 2 ? "relu" : NULL);
        c.wants_in_place = true;
        double tolerance = dtypes[d] == REED_F32 ? 1e-5 : case_tolerance(dtypes[d]);
        case_parity(&c, tolerance, tolerance * 10);
      }
}
END_TEST

START_TEST(other_extents_are_refused) {
  kernel_case c;
  case_init(&c, OP_MatMul);
  case_input(&c, REED_F32, DIMS(3, 7), 1);
  case_input(&c, REED_F32, DIMS(7, 4), 1);
  case_absent(&c);
  case_input(&c, REED_F32, DIMS(4), 1);
  case_fails(&c, REED_ERROR_SHAPE, "does not give");
}
END_TEST

int main(void) {
  Suite *s = suite_create("residuals of products");
  TCase *t = tcase_create("residuals");
  suite_add_tcase(s, t);
  tcase_add_loop_test(t, products_add_residuals, 0, 4);
  tcase_add_test(t, other_extents_are_refused);
  return suite_run(s);
}
