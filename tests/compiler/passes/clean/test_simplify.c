/* simplify: operators that change nothing, squares, Reshapes in a row, branches whose condition is known. */
#include "tests/compiler/front.h"
#include "tests/compiler/passes/squeeze_if_one.h"
#include "tests/suite.h"

/* Simplifies x f32[n,4] -> operator -> Relu. If `goes`, the operator must go, so that Relu reads x itself; otherwise it
 * must stay. */
static void check_simplified(onnx_build *b, bool goes, const char *what) {
  build_node(b, "Relu", "u", "y");
  build_output(b, "y", ""); /* the output's dtype is left to inference */
  front f;
  front_read(&f, &b);
  front_ok(&f);
  front_passes(&f, "layout,chains,columns"); /* layout would move a Transpose past the Relu */
  front_ok(&f);
  bool gone = front_node(&f, OP_Relu)->inputs[0] == f.m->main->params[0];
  ck_assert_msg(gone == goes, "%s: %s", what, gone ? "went" : "stayed");
  front_fini(&f);
}

static onnx_build *simple(int64_t opset) {
  onnx_build *b = build_open(opset);
  build_input(b, "x", "f32[n,4]");
  return b;
}

START_TEST(operators_that_change_nothing_go_and_near_misses_stay) {
  for (int miss = 0; miss < 2; miss++) {
    onnx_build *b = simple(13);
    build_node(b, miss ? "Neg" : "Identity", "x", "u");
    check_simplified(b, !miss, "Identity");

    b = simple(13);
    build_int(b, build_node(b, "Cast", "x", "u"), "to", miss ? 11 : 1);
    check_simplified(b, !miss, "Cast");

    b = simple(13);
    build_i64(b, "to", "2", miss ? (int64_t[]){4, -1} : (int64_t[]){-1, 4});
    build_node(b, "Reshape", "x,to", "u");
    check_simplified(b, !miss, "Reshape");

    b = simple(13);
    build_ints(b, build_node(b, "Transpose", "x", "u"), "perm", miss ? "1,0" : "0,1");
    check_simplified(b, !miss, "Transpose");

    b = simple(13);
    build_ints(b, build_node(b, "Transpose", "x", "t"), "perm", "1,0");
    if (miss) build_output(b, "t", "f32");
    build_ints(b, build_node(b, "Transpose", "t", "u"), "perm", "1,0");
    check_simplified(b, true, "two Transposes");

    b = simple(13);
    build_i64(b, "start", "1", (int64_t[]){miss ? 1 : 0});
    build_i64(b, "end", "1", (int64_t[]){INT64_MAX});
    build_node(b, "Slice", "x,start,end", "u");
    check_simplified(b, !miss, "Slice");

    b = simple(13);
    build_i64(b, "start", "1", (int64_t[]){miss ? -1 : 0});
    build_i64(b, "end", "1", (int64_t[]){miss ? INT64_MIN : INT64_MAX});
    build_i64(b, "axis", "1", (int64_t[]){1});
    build_i64(b, "step", "1", (int64_t[]){miss ? -1 : 1});
    build_node(b, "Slice", "x,start,end,axis,step", "u");
    check_simplified(b, !miss, "Slice with step");

    b = simple(13);
    build_i64(b, "pads", "4", miss ? (int64_t[]){1, 0, -1, 0} : (int64_t[]){0, 0, 0, 0});
    build_node(b, "Pad", "x,pads", "u");
    check_simplified(b, !miss, "Pad");

    b = simple(18);
    build_node_t *parts = build_node(b, "Split", "x", miss ? "u,v" : "u");
    build_int(b, parts, "axis", 1);
    build_int(b, parts, "num_outputs", 1 + miss);
    check_simplified(b, !miss, "Split");

    b = simple(13);
    build_int(b, build_node(b, "Concat", miss ? "x,x" : "x", "u"), "axis", 1);
    check_simplified(b, !miss, "Concat");

    b = simple(13);
    build_i64(b, "to", "2", miss ? (int64_t[]){3, 4} : (int64_t[]){1, 4});
    build_node(b, "Expand", "x,to", "u");
    check_simplified(b, !miss, "Expand");

    b = simple(13);
    build_f32(b, "one", miss ? "2,1,4" : "4", (float[]){1, 1, 1, 1, 1, 1, 1, 1});
    build_node(b, "Mul", "one,x", "u");
    check_simplified(b, !miss, "Mul by ones");

    b = simple(13);
    build_f32(b, "zero", "", (float[]){miss ? 1e-30f : 0});
    build_node(b, "Sub", "x,zero", "u");
    check_simplified(b, !miss, "Sub of zero");

    b = simple(13);
    build_f32(b, "zero", "", (float[]){0});
    build_node(b, "Sub", miss ? "zero,x" : "x,zero", "u");
    check_simplified(b, !miss, "zero minus x");

    b = simple(13);
    build_node(b, "Dropout", "x", miss ? "u,mask" : "u");
    if (miss) build_output(b, "mask", "bool");
    check_simplified(b, !miss, "Dropout");

    b = simple(13);
    build_node(b, miss ? "Neg" : "Max", "x", "u");
    check_simplified(b, !miss, "Max of one");
  }
}
END_TEST

static const struct square_case {
  const char *what, *base;
  reed_dtype dtype;     /* of the exponent */
  const char *exponent; /* its extents: at most four elements */
  double powers[4];
  bool goes;
} square_cases[] = {
    {"a square", "f32[n,4]", REED_F32, "", {2}, true},
    {"an exponent of another dtype", "f32[n,4]", REED_I64, "", {2}, true},
    {"halves", "f16[n,4]", REED_F32, "1,1", {2}, true},
    {"whole numbers", "i64[n,4]", REED_F32, "", {2}, true},
    {"an exponent for each column", "f64[n,4]", REED_F64, "4", {2, 2, 2, 2}, true},
    {"other exponents in some columns", "f32[n,4]", REED_F32, "4", {2, 2, 3, 2}, false},
    {"a cube", "f32[n,4]", REED_F32, "", {3}, false},
    {"a reciprocal square", "f32[n,4]", REED_F32, "", {-2}, false},
    {"nearly a square", "f32[n,4]", REED_F32, "", {2.0000002384185791}, false},
    {"an exponent that widens the base", "f32[n,4]", REED_F32, "2,1,1", {2, 2}, false},
};
enum { N_SQUARE_CASES = sizeof square_cases / sizeof *square_cases };

START_TEST(a_square_is_a_product) {
  const struct square_case *c = &square_cases[_i];
  onnx_build *b = build_open(15);
  build_input(b, "x", c->base);
  char exponent[4 * sizeof(double)];
  for (size_t i = 0; i < 4; i++) reed_dtype_write(c->dtype, exponent + i * reed_dtype_bytes(c->dtype), c->powers[i]);
  build_tensor(b, "p", c->dtype, c->exponent, exponent, true);
  build_node(b, "Pow", "x,p", "y");
  build_output(b, "y", "");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  front_passes(&f, "chains");
  front_ok(&f);
  ck_assert_msg(front_count(&f, OP_Pow) == !c->goes, "%s", c->what);
  if (c->goes) {
    const ir_node *product = front_node(&f, OP_Mul);
    ck_assert_ptr_eq(product->inputs[0], f.m->main->params[0]);
    ck_assert_ptr_eq(product->inputs[1], f.m->main->params[0]);
    ck_assert_str_eq(front_type(&f, product->outputs[0]), c->base);
  }
  front_fini(&f);
}
END_TEST

START_TEST(a_reshape_reads_through_another) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n,4,2]");
  build_i64(b, "flat", "1", (int64_t[]){-1});
  build_i64(b, "to", "2", (int64_t[]){-1, 8});
  build_node(b, "Reshape", "x,flat", "u");
  build_node(b, "Reshape", "u,to", "y");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Reshape), 1);
  ck_assert_str_eq(front_result_type(&f), "f32[n,8]");
  front_fini(&f);
}
END_TEST

/* A shape that is read from tensors becomes numbers, extents that stay, or one that is what is left. */
START_TEST(a_shape_that_follows_from_the_input_is_a_constant) {
  static const struct {
    const char *x, *by, *type;
    int64_t shape[4];
  } cases[] = {
      {"f32[n,6]", "heads", "f32[n,2,3]", {0, 2, 3}},
      {"f32[n,m,6]", "heads", "f32[n,m,2,3]", {0, 0, 2, 3}},
      {"f32[n,4,6]", "rows", "f32[n*4,6]", {-1, 6}},
      {"f32[n,m,6]", "rows", "f32[n*m,6]", {-1, 6}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    onnx_build *b = build_open(15);
    build_input(b, "x", cases[i].x);
    build_i64(b, "two_three", "2", (int64_t[]){2, 3});
    build_i64(b, "six", "1", (int64_t[]){6});
    build_int(b, build_node(b, "Shape", "x", "front"), "end", -1);
    build_int(b, build_node(b, "Concat", "front,two_three", "heads"), "axis", 0);
    build_int(b, build_node(b, "ReduceProd", "front", "all"), "keepdims", 1);
    build_int(b, build_node(b, "Concat", "all,six", "rows"), "axis", 0);
    char inputs[16];
    snprintf(inputs, sizeof inputs, "x,%s", cases[i].by);
    build_node(b, "Reshape", inputs, "y");
    build_output(b, "y", "f32");
    front f;
    front_optimize(&f, &b);
    const ir_node *n = front_node(&f, OP_Reshape);
    ck_assert_str_eq(front_result_type(&f), cases[i].type);
    ck_assert_msg(ir_is_constant(n->inputs[1]), "case %zu", i);
    for (int64_t k = 0; k < n->outputs[0]->type.rank; k++)
      ck_assert_int_eq((int64_t)front_element(n->inputs[1], k), cases[i].shape[k]);
    ck_assert_int_eq(f.m->main->nodes.n, 1);
    front_fini(&f);
  }
}
END_TEST

/* Without a proof that the elements are as many: the Reshape refuses another number, which -1 would not. */
START_TEST(a_shape_of_another_tensor_stays) {
  static const char *const types[][2] = {{"f32[n,6]", "f32[m,2,3]"}, {"f32[k]", "f32[m,2]"}, {"f32[n,m]", "f32[m,n]"}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    onnx_build *b = build_open(15);
    build_input(b, "x", types[i][0]);
    build_input(b, "like", types[i][1]);
    build_node(b, "Shape", "like", "s");
    build_node(b, "Reshape", "x,s", "y");
    build_output(b, "y", "f32");
    front f;
    front_optimize(&f, &b);
    ck_assert_msg(!ir_is_constant(front_node(&f, OP_Reshape)->inputs[1]), "case %zu", i);
    front_fini(&f);
  }
}
END_TEST

START_TEST(an_if_whose_condition_follows_from_extents_becomes_its_branch) {
  static const struct {
    const char *type, *result;
    int ifs;
  } cases[] = {{"f32[1,k]", "f32[k]", 0}, {"f32[2,k]", "f32[2,k]", 0}, {"f32[n,k]", "f32[..]", 1}};
  for (size_t i = 0; i < 3; i++) {
    onnx_build *b = squeeze_if_one(cases[i].type);
    front f;
    front_optimize(&f, &b);
    ck_assert_int_eq(front_count(&f, OP_If), cases[i].ifs);
    ck_assert_str_eq(front_result_type(&f), cases[i].result);
    front_fini(&f);
  }
}
END_TEST

/* Both branches are empty: they give values that they capture. Nothing is copied from a list of no nodes. */
START_TEST(a_known_branch_without_nodes_is_taken) {
  onnx_build *b = build_open(13), *then = build_subgraph(b), *otherwise = build_subgraph(b);
  build_input(b, "x", "f32[n]");
  build_input(b, "z", "f32[n]");
  build_tensor(b, "c", REED_BOOL, "", (bool[]){true}, true);
  build_output(then, "x", "f32");
  build_output(otherwise, "z", "f32");
  build_node_t *n = build_node(b, "If", "c", "y");
  build_graph_attr(b, n, "then_branch", then);
  build_graph_attr(b, n, "else_branch", otherwise);
  build_output(b, "y", "f32[n]");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(f.m->main->nodes.n, 0);
  ck_assert_ptr_eq(f.m->main->results[0], f.m->main->params[0]);
  front_fini(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("simplify");
  TCase *t = tcase_create("passes");
  tcase_add_test(t, operators_that_change_nothing_go_and_near_misses_stay);
  tcase_add_loop_test(t, a_square_is_a_product, 0, N_SQUARE_CASES);
  tcase_add_test(t, a_reshape_reads_through_another);
  tcase_add_test(t, a_shape_that_follows_from_the_input_is_a_constant);
  tcase_add_test(t, a_shape_of_another_tensor_stays);
  tcase_add_test(t, an_if_whose_condition_follows_from_extents_becomes_its_branch);
  tcase_add_test(t, a_known_branch_without_nodes_is_taken);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
