/* fold: operators of constants are computed while the model is compiled, within bounds. */
#include "tests/compiler/front.h"
#include "tests/suite.h"

START_TEST(operators_of_constants_are_folded_by_their_kernels) {
  onnx_build *b = build_open(13);
  build_f32(b, "p", "2,2", (float[]){1, 2, 3, 4});
  build_f32(b, "q", "2", (float[]){10, 20});
  build_node(b, "Add", "p,q", "r");
  build_node(b, "Transpose", "r", "y");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(f.m->main->nodes.n, 0);
  ck_assert_double_eq(front_element(f.m->main->results[0], 1), 13);
  ck_assert_double_eq(front_element(f.m->main->results[0], 2), 22);
  front_fini(&f);
}
END_TEST

START_TEST(folding_in_bodies_and_of_reported_extents) {
  onnx_build *b = build_open(13);
  build_f32(b, "p", "4", (float[]){0, 2, 0, 4});
  build_node(b, "NonZero", "p", "y");
  build_output(b, "y", "i64");
  front f;
  front_optimize(&f, &b);
  ck_assert_str_eq(front_result_type(&f), "i64[1,2]");
  ck_assert_double_eq(front_element(f.m->main->results[0], 1), 3);
  front_fini(&f);
}
END_TEST

START_TEST(large_results_of_small_constants_are_not_folded) {
  onnx_build *b = build_open(13);
  build_i64(b, "s", "2", (int64_t[]){4096, 4096});
  build_node(b, "ConstantOfShape", "s", "y");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_ConstantOfShape), 1);
  front_fini(&f);
}
END_TEST

START_TEST(a_kernel_that_fails_is_left_for_the_run) {
  onnx_build *b = build_open(13);
  build_f32(b, "p", "2", (float[]){1, 2});
  build_i64(b, "i", "1", (int64_t[]){7});
  build_node(b, "Gather", "p,i", "y");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Gather), 1);
  front_fini(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("fold");
  TCase *t = tcase_create("passes");
  tcase_add_test(t, operators_of_constants_are_folded_by_their_kernels);
  tcase_add_test(t, folding_in_bodies_and_of_reported_extents);
  tcase_add_test(t, large_results_of_small_constants_are_not_folded);
  tcase_add_test(t, a_kernel_that_fails_is_left_for_the_run);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
