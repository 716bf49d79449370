/* scale_fold: scalings and shifts of an activation move into the weights and the bias of the product after it. */
#include "tests/compiler/front.h"
#include "tests/suite.h"

/* x f32[n,2,h,w] -> Relu -> a */
static onnx_build *activated(const char *type) {
  onnx_build *b = build_open(14);
  build_input(b, "x", type);
  build_node(b, "Relu", "x", "a");
  return b;
}

/* Checks the first n numbers of a constant. */
static void expect(const ir_value *v, const double *numbers, int n) {
  for (int i = 0; i < n; i++) ck_assert_double_eq(front_element(v, i), numbers[i]);
}

/* The spellings of 2 a + 3 and of -a + 4, each with its numbers. */
START_TEST(every_spelling_folds) {
  static const struct {
    const char *first, *inputs, *second, *then;
    double factor, shift;
  } rows[] = {{"Mul", "a,two", "Add", "t,three", 2, 3},   {"Mul", "two,a", "Add", "three,t", 2, 3},
              {"Div", "a,half", "Sub", "t,three", 2, -3}, {"Sub", "three,a", "Mul", "t,two", -2, 6},
              {"Add", "a,three", "Mul", "t,two", 2, 6},   {"Sub", "a,three", "Div", "t,half", 2, -6},
              {"Add", "three,a", "Sub", "three,t", -1, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    onnx_build *b = activated("f32[n,2,h,w]");
    build_f32(b, "two", "1", (float[]){2});
    build_f32(b, "three", "", (float[]){3});
    build_f32(b, "half", "1,1", (float[]){0.5f});
    build_f32(b, "k", "3,2,1,1", (float[]){1, 2, 3, 4, 5, 6});
    build_f32(b, "kb", "3", (float[]){1, 2, 3});
    build_node(b, rows[i].first, rows[i].inputs, "t");
    build_node(b, rows[i].second, rows[i].then, "s");
    build_node(b, "Conv", "s,k,kb", "y");
    build_output(b, "y", "f32");
    front f;
    front_optimize(&f, &b);
    ck_assert_msg(front_changes(&f, "scale_fold") == 1, "row %zu", i);
    ck_assert_int_eq(f.m->main->nodes.n, 2);
    const ir_node *n = front_node(&f, OP_Conv);
    for (int k = 0; k < 6; k++) ck_assert_double_eq(front_element(n->inputs[1], k), rows[i].factor * (k + 1));
    for (int k = 0; k < 3; k++)
      ck_assert_double_eq(front_element(n->inputs[2], k), k + 1 + rows[i].shift * (4 * k + 3));
    front_fini(&f);
  }
}
END_TEST

/* Four channels in two groups, each with numbers of its own; a stride keeps every pixel's taps. */
START_TEST(numbers_for_each_channel_fold_into_a_grouped_convolution) {
  onnx_build *b = activated("f32[n,4,h,w]");
  build_f32(b, "factor", "4,1,1", (float[]){1, 2, 4, 8});
  build_f32(b, "shift", "1,4,1,1", (float[]){1, 0, 2, 3});
  build_f32(b, "k", "2,2,1,2", (float[]){1, 2, 3, 4, 5, 6, 7, 8});
  build_node(b, "Mul", "a,factor", "t");
  build_node(b, "Add", "t,shift", "s");
  build_node_t *conv = build_node(b, "Conv", "s,k", "y");
  build_int(b, conv, "group", 2);
  build_ints(b, conv, "strides", "2,1");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  const ir_node *n = front_node(&f, OP_Conv);
  ck_assert_int_eq(f.m->main->nodes.n, 2);
  expect(n->inputs[1], (double[]){1, 2, 6, 8, 20, 24, 56, 64}, 8);
  expect(n->inputs[2], (double[]){1 + 2, 2 * (5 + 6) + 3 * (7 + 8)}, 2);
  front_fini(&f);
}
END_TEST

START_TEST(numbers_fold_into_matrix_products) {
  for (int form = 0; form < 4; form++) { /* Gemm, with transB, with transA; MatMul */
    onnx_build *b = activated(form == 2 ? "f32[2,n]" : form == 3 ? "f32[m,n,2]" : "f32[n,2]");
    build_f32(b, "factor", form == 2 ? "2,1" : "2", (float[]){2, 4});
    build_f32(b, "one", "", (float[]){1});
    build_f32(b, "k", form == 1 ? "3,2" : "2,3", (float[]){1, 2, 3, 4, 5, 6});
    build_f32(b, "kb", "3", (float[]){1, 2, 3});
    build_node(b, "Mul", "a,factor", "t");
    build_node(b, "Add", "t,one", "s");
    if (form < 3) {
      build_node_t *gemm = build_node(b, "Gemm", "s,k,kb", "y");
      build_float(b, gemm, "alpha", 2);
      build_float(b, gemm, "beta", 3);
      build_int(b, gemm, "transB", form == 1);
      build_int(b, gemm, "transA", form == 2);
    } else {
      build_node(b, "MatMul", "s,k", "y");
    }
    build_output(b, "y", "f32");
    front f;
    front_optimize(&f, &b);
    ck_assert_msg(front_changes(&f, "scale_fold") == 1, "form %d", form);
    const ir_node *n = front_node(&f, form < 3 ? OP_Gemm : OP_MatMul);
    if (form == 1) expect(n->inputs[1], (double[]){2, 8, 6, 16, 10, 24}, 6);
    else expect(n->inputs[1], (double[]){2, 4, 6, 16, 20, 24}, 6);
    if (form == 1) expect(n->inputs[2], (double[]){2 * 3 + 3, 2 * 7 + 6, 2 * 11 + 9}, 3);
    else if (form < 3) expect(n->inputs[2], (double[]){2 * 5 + 3, 2 * 7 + 6, 2 * 9 + 9}, 3);
    else expect(n->inputs[2], (double[]){5, 7, 9}, 3);
    front_fini(&f);
  }
}
END_TEST

/* With padding the last scalings fold alone, and what comes before them stays. */
START_TEST(a_shift_in_front_of_padding_stays) {
  static const char *const padding[] = {"pads", "auto_pad", "transposed"};
  for (int form = 0; form < 3; form++) {
    onnx_build *b = activated("f32[n,2,h,w]");
    build_f32(b, "two", "", (float[]){2});
    build_f32(b, "three", "", (float[]){3});
    build_f32(b, "k", "2,2,3,3", (float[36]){[0] = 1, [35] = 5});
    build_node(b, "Mul", "a,two", "r");
    build_node(b, "Add", "r,three", "s");
    build_node(b, "Mul", "s,two", "t");
    build_node_t *conv = build_node(b, form == 2 ? "ConvTranspose" : "Conv", "t,k", "y");
    if (form == 0) build_ints(b, conv, "pads", "1,1,1,1");
    if (form == 1) build_string(b, conv, "auto_pad", "SAME_UPPER");
    build_output(b, "y", "f32");
    front f;
    front_optimize(&f, &b);
    ck_assert_msg(front_changes(&f, "scale_fold") == 1, "%s", padding[form]);
    const ir_node *n = front_node(&f, form == 2 ? OP_ConvTranspose : OP_Conv);
    ck_assert_double_eq(front_element(n->inputs[1], 0), 2);
    ck_assert_double_eq(front_element(n->inputs[1], 35), 10);
    ck_assert_int_eq(n->n_inputs, 2);
    front_fini(&f);
  }
}
END_TEST

START_TEST(what_would_change_results_stays) {
  enum { NO_ACTIVATION, FAR, NUMBER_FIRST, WIDER, OTHER_USE, OTHER_READER, HUGE_SCALE, HALVES, MISSES };
  for (int miss = 0; miss < MISSES; miss++) {
    onnx_build *b = build_open(14);
    build_input(b, "x", miss == HALVES ? "f16[n,2]" : miss == WIDER ? "f32[1,2]" : "f32[n,2]");
    build_node(b, miss == NO_ACTIVATION ? "Neg" : "Relu", "x", "a");
    const float number = miss == FAR ? -1e6f : miss == HUGE_SCALE ? 1e30f : 2;
    if (miss == WIDER) build_f32(b, "c", "3,1", (float[]){1, 2, 3});
    else if (miss == HALVES) build_tensor(b, "c", REED_F16, "1", (uint16_t[]){0x4000}, true);
    else build_f32(b, "c", "1", &number);
    if (miss == HALVES) build_tensor(b, "k", REED_F16, "2,1", (uint16_t[]){0x3c00, 0x4000}, true);
    else build_f32(b, "k", "2,1", (float[]){1, 2});
    build_node(b,
               miss == NUMBER_FIRST ? "Div"
               : miss == HUGE_SCALE ? "Mul"
                                    : "Add",
               miss == NUMBER_FIRST ? "c,a" : "a,c", "t");
    build_node(b, "MatMul", "t,k", "y");
    const char *type = miss == HALVES ? "f16" : "f32";
    build_output(b, "y", type);
    if (miss == OTHER_USE) build_output(b, "t", type);
    if (miss == OTHER_READER) {
      build_node(b, "MatMul", "x,k", "z");
      build_output(b, "z", type);
    }
    front f;
    front_optimize(&f, &b);
    ck_assert_msg(front_changes(&f, "scale_fold") == 0, "miss %d", miss);
    front_fini(&f);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("scale_fold");
  TCase *t = tcase_create("scale_fold");
  tcase_add_test(t, every_spelling_folds);
  tcase_add_test(t, numbers_for_each_channel_fold_into_a_grouped_convolution);
  tcase_add_test(t, numbers_fold_into_matrix_products);
  tcase_add_test(t, a_shift_in_front_of_padding_stays);
  tcase_add_test(t, what_would_change_results_stays);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
