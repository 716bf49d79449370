/* Operators that are read as compositions of others: folded results beside numbers worked out by hand, types of results
 * whose extents the run tells, and refused nodes. */
#include <math.h>

#include "tests/compiler/front.h"
#include "tests/suite.h"

/* The model's only result is folded to these numbers. */
static void check_folded(onnx_build *b, const char *type, const double *want) {
  build_output(b, "y", type);
  front f;
  front_read(&f, &b);
  front_ok(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_str_eq(front_result_type(&f), type);
  const ir_value *y = f.m->main->results[0];
  reed_desc desc;
  ck_assert(ir_desc(y, &desc) && y->data);
  for (int64_t i = 0; i < desc_elements(&desc); i++)
    ck_assert_msg(fabs(front_element(y, i) - want[i]) <= 1e-6, "element %d is %g, not %g", (int)i, front_element(y, i),
                  want[i]);
  front_fini(&f);
}

/* Of an odd difference the place before has the smaller half. */
START_TEST(middle_is_cut_or_padded) {
  onnx_build *b = build_open(18);
  build_f32(b, "x", "2,4", (float[]){1, 2, 3, 4, 5, 6, 7, 8});
  build_i64(b, "wanted", "2", (int64_t[]){5, 1});
  build_node(b, "CenterCropPad", "x,wanted", "y");
  check_folded(b, "f32[5,1]", (double[]){0, 2, 6, 0, 0});
}
END_TEST

START_TEST(middle_is_taken_along_axes) {
  onnx_build *b = build_open(18);
  build_f32(b, "x", "2,4", (float[]){1, 2, 3, 4, 5, 6, 7, 8});
  build_i64(b, "wanted", "1", (int64_t[]){3});
  build_ints(b, build_node(b, "CenterCropPad", "x,wanted", "y"), "axes", "-1");
  check_folded(b, "f32[2,3]", (double[]){1, 2, 3, 5, 6, 7});
}
END_TEST

/* x + 2 y + 3 and 4 x + 5 y + 6 at x of -2/3, 0, 2/3, or -1, 0, 1, and y of -1/2, 1/2, or -1, 1. */
START_TEST(grid_is_an_affine_map_of_places) {
  const double x = _i ? 1 : 2. / 3, y = _i ? 1 : .5;
  double want[2][3][2];
  for (int row = 0; row < 2; row++)
    for (int column = 0; column < 3; column++) {
      const double at_x = (column - 1) * x, at_y = row ? y : -y;
      want[row][column][0] = at_x + 2 * at_y + 3;
      want[row][column][1] = 4 * at_x + 5 * at_y + 6;
    }
  onnx_build *b = build_open(20);
  build_f32(b, "theta", "1,2,3", (float[]){1, 2, 3, 4, 5, 6});
  build_i64(b, "size", "4", (int64_t[]){1, 7, 2, 3});
  build_int(b, build_node(b, "AffineGrid", "theta,size", "y"), "align_corners", _i);
  check_folded(b, "f32[1,2,3,2]", &want[0][0][0]);
}
END_TEST

/* The size is that of a tensor, as exporters write it. */
START_TEST(grid_of_a_computed_size_has_its_extents) {
  onnx_build *b = build_open(20);
  build_input(b, "theta", "f32[n,3,4]");
  build_input(b, "x", "f32[n,c,d,h,w]");
  build_node(b, "Shape", "x", "size");
  build_node(b, "AffineGrid", "theta,size", "y");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_str_eq(front_result_type(&f), "f32[n,d,h,w,3]");
  front_fini(&f);
}
END_TEST

START_TEST(maxima_go_back_to_their_places) {
  onnx_build *b = build_open(22);
  build_f32(b, "x", "1,1,2,1", (float[]){5, 7});
  build_i64(b, "at", "1,1,2,1", (int64_t[]){3, 4});
  build_i64(b, "whole", "4", (int64_t[]){1, 1, 4, 3});
  build_node_t *n = build_node(b, "MaxUnpool", _i ? "x,at,whole" : "x,at", "y");
  build_ints(b, n, "kernel_shape", "2,2");
  build_ints(b, n, "strides", "2,2");
  if (_i) check_folded(b, "f32[1,1,4,3]", (double[]){0, 0, 0, 0, 5, 0, 7, 0, 0, 0, 0, 0});
  else check_folded(b, "f32[1,1,4,2]", (double[]){0, 0, 0, 5, 7, 0, 0, 0});
}
END_TEST

START_TEST(determinants_of_small_matrices) {
  onnx_build *b = build_open(22);
  build_f32(b, "x", "1,4,4", (float[]){2, 0, 1, 3, 1, 1, 0, 2, 0, 4, 1, 1, 3, 0, 2, 1});
  build_node(b, "Det", "x", "y");
  check_folded(b, "f32[1]", (double[]){-20});
}
END_TEST

/* Places of class 1 do not count: the mean of .5 * 1 and 2 * 4 by the weights .5 and 2. */
START_TEST(loss_of_weighted_classes) {
  onnx_build *b = build_open(22);
  build_f32(b, "x", "3,3", (float[]){-1, -2, -3, -4, -5, -6, -7, -8, -4});
  build_i64(b, "classes", "3", (int64_t[]){0, 1, 2});
  build_f32(b, "weights", "3", (float[]){.5F, 9, 2});
  build_int(b, build_node(b, "NegativeLogLikelihoodLoss", "x,classes,weights", "y"), "ignore_index", 1);
  check_folded(b, "f32[]", (double[]){8.5 / 2.5});
}
END_TEST

START_TEST(loss_of_scores) {
  onnx_build *b = build_open(13);
  build_f32(b, "x", "1,2", (float[]){0, logf(3)});
  build_i64(b, "classes", "1", (int64_t[]){0});
  build_node(b, "SoftmaxCrossEntropyLoss", "x,classes", "y");
  check_folded(b, "f32[]", (double[]){log(4)});
}
END_TEST

START_TEST(nodes_that_do_not_fit_are_refused) {
  static const struct {
    const char *op, *inputs, *attr, *text;
    reed_status status;
  } refused[] = {
      {"Det", "x", NULL, "more than 4 rows, or of extents that are not declared: 'y_node'", REED_ERROR_UNSUPPORTED},
      {"AffineGrid", "x,z", NULL, "number of axes is not 2 or 3, or not declared: 'y_node'", REED_ERROR_UNSUPPORTED},
      {"MaxUnpool", "x,z", NULL, "node 'y_node' (MaxUnpool): 'kernel_shape' has 0 numbers", REED_ERROR_FORMAT},
      {"NegativeLogLikelihoodLoss", "x,z", "half", "'reduction' is not mean, sum or none: 'y_node'",
       REED_ERROR_UNSUPPORTED},
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    onnx_build *b = build_open(22);
    build_input(b, "x", "f32[2,n]");
    build_input(b, "z", "i64[n]");
    build_node_t *n = build_node(b, refused[i].op, refused[i].inputs, "y");
    if (refused[i].attr) build_string(b, n, "reduction", refused[i].attr);
    build_output(b, "y", "f32");
    front_refuses(&b, refused[i].status, refused[i].text);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("onnx_composed");
  TCase *t = tcase_create("onnx_composed");
  tcase_add_test(t, middle_is_cut_or_padded);
  tcase_add_test(t, middle_is_taken_along_axes);
  tcase_add_loop_test(t, grid_is_an_affine_map_of_places, 0, 2);
  tcase_add_test(t, grid_of_a_computed_size_has_its_extents);
  tcase_add_loop_test(t, maxima_go_back_to_their_places, 0, 2);
  tcase_add_test(t, determinants_of_small_matrices);
  tcase_add_test(t, loss_of_weighted_classes);
  tcase_add_test(t, loss_of_scores);
  tcase_add_test(t, nodes_that_do_not_fit_are_refused);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
