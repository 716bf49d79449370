/* The pass layout: channels come last and Transposes disappear, in the graphs of pictures.h. tests/whole/test_equal.c
 * shows that results are equal. */
#include "tests/compiler/front.h"
#include "tests/compiler/passes/layout/pictures.h"
#include "tests/suite.h"

static void transpose(onnx_build *b, const char *input, const char *output, const char *perm) {
  build_ints(b, build_node(b, "Transpose", input, output), "perm", perm);
}

static const char last[] = "0,2,3,1", first[] = "0,3,1,2";

START_TEST(transposes_around_element_wise_operators_cancel) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n,2,h,w]");
  build_input(b, "z", "f32[n,2,h,w]");
  build_f32(b, "half", "1", (float[]){0.5f});
  transpose(b, "x", "xt", last);
  transpose(b, "z", "zt", last);
  build_node(b, "Add", "xt,zt", "a");
  build_node(b, "Mul", "a,half", "m");
  build_node(b, "Sigmoid", "m", "s");
  transpose(b, "s", "y", first);
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(f.run.totals[pass_find("layout")].sum.counts[0].n, 3);
  ck_assert_int_eq(front_count(&f, OP_Transpose), 0);
  ck_assert_str_eq(front_type(&f, f.m->main->results[0]), "f32[n,2,h,w]");
  front_fini(&f);
}
END_TEST

START_TEST(an_activation_behind_a_transpose_joins_the_convolution) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n,2,h,w]");
  build_f32(b, "k", "3,2,1,1", (float[]){1, 2, 3, 4, 5, 6});
  build_node(b, "Conv", "x,k", "c");
  transpose(b, "c", "t", last);
  build_node(b, "Relu", "t", "y");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Relu), 0);
  ck_assert_int_eq(front_count(&f, OP_Transpose), 0);
  ck_assert_str_eq(front_type(&f, f.m->main->results[0]), "f32[n,h,w,3]");
  front_fini(&f);
}
END_TEST

static reed_status find_last(void *context, ir_node *n) {
  reed_attrs attrs = ir_attrs(n);
  if (reed_attrs_int(&attrs, "channels_last", 0)) *(bool *)context = true;
  return REED_OK;
}

START_TEST(pictures_have_their_channels_last_where_that_pays) {
  const picture *p = &pictures[_i];
  onnx_build *b = picture_open(p);
  front f;
  bool last = false;
  front_optimize(&f, &b);
  ck_assert_int_eq(ir_walk(f.m->main, true, find_last, &last), REED_OK);
  ck_assert_msg(last == p->last, "%s: channels %s", p->what, last ? "last" : "second");
  int left = front_count(&f, OP_Transpose);
  text_buffer text = {0};
  if (left != p->left) ir_print(f.m, &text);
  ck_assert_msg(left == p->left, "%s: %d Transposes left, not %d\n%s", p->what, left, p->left, text.data);
  front_fini(&f);
}
END_TEST

START_TEST(it_can_be_disabled) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n,2,h,w]");
  transpose(b, "x", "t", last);
  build_node(b, "Relu", "t", "r");
  transpose(b, "r", "y", first);
  build_output(b, "y", "f32");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  front_passes(&f, "layout");
  front_ok(&f);
  ck_assert_int_eq(front_count(&f, OP_Transpose), 2);
  front_fini(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("layout");
  TCase *cases = tcase_create("layout");
  tcase_add_test(cases, transposes_around_element_wise_operators_cancel);
  tcase_add_test(cases, an_activation_behind_a_transpose_joins_the_convolution);
  tcase_add_loop_test(cases, pictures_have_their_channels_last_where_that_pays, 0,
                      (int)(sizeof pictures / sizeof *pictures));
  tcase_add_test(cases, it_can_be_disabled);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
