/* cse and dce: calls computed twice are shared, nodes and outputs without use go. */
#include "tests/compiler/front.h"
#include "tests/suite.h"

START_TEST(what_is_computed_twice_is_shared_also_into_bodies) {
  onnx_build *b = build_open(13), *then = build_subgraph(b), *otherwise = build_subgraph(b);
  build_input(b, "x", "f32[n]");
  build_input(b, "c", "bool[]");
  build_node(b, "Exp", "x", "p");
  build_node(b, "Exp", "x", "q");
  build_node(b, "Log", "x", "r");
  build_node(then, "Exp", "x", "t");
  build_output(then, "t", "f32");
  build_node(otherwise, "Sqrt", "x", "e");
  build_output(otherwise, "e", "f32");
  build_node_t *n = build_node(b, "If", "c", "y");
  build_graph_attr(b, n, "then_branch", then);
  build_graph_attr(b, n, "else_branch", otherwise);
  for (const char *name = "pqry"; *name; name++) build_output(b, (char[]){*name, 0}, "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Exp), 1);
  ck_assert_int_eq(front_count(&f, OP_Log), 1);
  ck_assert_ptr_eq(f.m->main->results[0], f.m->main->results[1]);
  ck_assert_ptr_eq(front_node(&f, OP_If)->regions[0]->results[0], f.m->main->results[0]);
  front_fini(&f);
}
END_TEST

START_TEST(what_is_computed_in_one_body_is_not_shared_with_its_neighbour) {
  onnx_build *b = build_open(13), *then = build_subgraph(b), *otherwise = build_subgraph(b);
  build_input(b, "x", "f32[n]");
  build_input(b, "c", "bool[]");
  build_node(then, "Exp", "x", "t");
  build_output(then, "t", "f32");
  build_node(otherwise, "Exp", "x", "e");
  build_node(otherwise, "Neg", "e", "g");
  build_output(otherwise, "g", "f32");
  build_node_t *n = build_node(b, "If", "c", "y");
  build_graph_attr(b, n, "then_branch", then);
  build_graph_attr(b, n, "else_branch", otherwise);
  build_node(b, "Exp", "x", "z");
  build_output(b, "y", "f32");
  build_output(b, "z", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Exp), 3);
  front_fini(&f);
}
END_TEST

START_TEST(calls_that_differ_in_an_attribute_are_not_shared) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n]");
  build_float(b, build_node(b, "LeakyRelu", "x", "p"), "alpha", 0.1f);
  build_float(b, build_node(b, "LeakyRelu", "x", "q"), "alpha", 0.2f);
  build_output(b, "p", "f32");
  build_output(b, "q", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_LeakyRelu), 2);
  front_fini(&f);
}
END_TEST

START_TEST(what_nobody_uses_goes) {
  onnx_build *b = build_open(13), *then = build_subgraph(b), *otherwise = build_subgraph(b);
  build_input(b, "x", "f32[n,8]");
  build_input(b, "c", "bool[]");
  build_node(b, "Exp", "x", "a");
  build_node(b, "Log", "a", "unused");
  build_node(then, "Sqrt", "x", "t");
  build_node(then, "Abs", "x", "u");
  build_node(otherwise, "Ceil", "x", "e");
  build_node(otherwise, "Floor", "x", "g");
  build_output(then, "t", "f32");
  build_output(then, "u", "f32");
  build_output(otherwise, "e", "f32");
  build_output(otherwise, "g", "f32");
  build_node_t *n = build_node(b, "If", "c", "y,z");
  build_graph_attr(b, n, "then_branch", then);
  build_graph_attr(b, n, "else_branch", otherwise);
  build_output(b, "z", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(f.m->main->nodes.n, 1);
  ck_assert_int_eq(front_node(&f, OP_If)->n_outputs, 1);
  ck_assert_int_eq(front_count(&f, OP_Sqrt), 0);
  ck_assert_int_eq(front_count(&f, OP_Abs), 1);
  ck_assert_int_eq(front_count(&f, OP_Floor), 1);
  front_fini(&f);
}
END_TEST

START_TEST(optional_outputs_that_nobody_takes_go) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[1,1,4,4]");
  build_ints(b, build_node(b, "MaxPool", "x", "y,i"), "kernel_shape", "2,2");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_node(&f, OP_MaxPool)->n_outputs, 1);
  front_fini(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("cse, dce");
  TCase *t = tcase_create("passes");
  tcase_add_test(t, what_is_computed_twice_is_shared_also_into_bodies);
  tcase_add_test(t, what_is_computed_in_one_body_is_not_shared_with_its_neighbour);
  tcase_add_test(t, calls_that_differ_in_an_attribute_are_not_shared);
  tcase_add_test(t, what_nobody_uses_goes);
  tcase_add_test(t, optional_outputs_that_nobody_takes_go);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
