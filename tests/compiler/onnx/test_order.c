/* The order in which the reader takes nodes: the model's order if every node follows its inputs, else a sorted one;
 * circles are refused. */
#include "tests/compiler/front.h"
#include "tests/suite.h"

/* The operators of a graph in order, "Neg Relu Add". The text lives until the next call. */
static const char *order_of(const ir_graph *g) {
  static char out[256];
  size_t n = 0;
  out[0] = 0;
  for (size_t i = 0; i < g->nodes.n; i++)
    n += (size_t)snprintf(out + n, sizeof out - n, "%s%s", i ? " " : "", g->nodes.items[i]->op->name);
  return out;
}

START_TEST(nodes_in_order_stay_where_they_are) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n]");
  build_node(b, "Neg", "x", "a");
  build_node(b, "Exp", "x", "b");
  build_node(b, "Relu", "a", "c");
  build_node(b, "Add", "b,c", "y");
  build_output(b, "y", "f32[n]");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  ck_assert_str_eq(order_of(f.m->main), "Neg Exp Relu Add");
  front_fini(&f);
}
END_TEST

START_TEST(nodes_come_right_before_the_first_that_waits_for_them) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n]");
  build_node(b, "Add", "b,c", "y");
  build_node(b, "Relu", "a", "c");
  build_node(b, "Abs", "x", "other");
  build_node(b, "Neg", "x", "a");
  build_node(b, "Exp", "x", "b");
  build_output(b, "y", "f32[n]");
  build_output(b, "other", "f32[n]");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  ck_assert_str_eq(order_of(f.m->main), "Exp Neg Relu Add Abs");
  front_fini(&f);
}
END_TEST

START_TEST(a_long_chain_in_reverse_is_read) {
  enum { N = 5000 };
  onnx_build *b = build_open(13);
  build_input(b, "v0", "f32[n]");
  for (int i = N; i > 0; i--) {
    char from[16], to[16];
    snprintf(from, sizeof from, "v%d", i - 1);
    snprintf(to, sizeof to, "v%d", i);
    build_node(b, "Neg", from, to);
  }
  build_output(b, "v5000", "f32[n]");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  ck_assert_uint_eq(f.m->main->nodes.n, N);
  ck_assert_ptr_eq(f.m->main->nodes.items[0]->inputs[0], f.m->main->params[0]);
  ck_assert_ptr_eq(f.m->main->nodes.items[N - 1]->outputs[0], f.m->main->results[0]);
  front_fini(&f);
}
END_TEST

/* The If uses `late` in both branches; its own branch is out of order too. */
static onnx_build *capturing_model(void) {
  onnx_build *b = build_open(13), *then = build_subgraph(b), *otherwise = build_subgraph(b);
  build_input(b, "x", "f32[n]");
  build_input(b, "c", "bool[]");
  build_node(then, "Relu", "t", "r");
  build_node(then, "Neg", "late", "t");
  build_output(then, "r", "f32");
  build_output(otherwise, "late", "f32");
  build_node_t *n = build_node(b, "If", "c", "y");
  build_graph_attr(b, n, "then_branch", then);
  build_graph_attr(b, n, "else_branch", otherwise);
  build_node(b, "Abs", "x", "late");
  build_output(b, "y", "f32[n]");
  return b;
}

START_TEST(what_bodies_capture_comes_before_their_node) {
  onnx_build *b = capturing_model();
  front f;
  front_read(&f, &b);
  front_ok(&f);
  ck_assert_str_eq(order_of(f.m->main), "Abs If");
  ck_assert_str_eq(order_of(front_node(&f, OP_If)->regions[0]), "Neg Relu");
  front_fini(&f);
}
END_TEST

/* `t` is a name of the branch; the node after the If that makes another `t` waits for the If. */
START_TEST(names_of_a_body_are_not_those_of_nodes_around_it) {
  onnx_build *b = build_open(13), *then = build_subgraph(b), *otherwise = build_subgraph(b);
  build_input(b, "x", "f32[n]");
  build_input(b, "c", "bool[]");
  build_node(then, "Neg", "x", "t");
  build_output(then, "t", "f32");
  build_node(otherwise, "Exp", "x", "t");
  build_output(otherwise, "t", "f32");
  build_node(b, "Relu", "t", "y");
  build_node_t *n = build_node(b, "If", "c", "made");
  build_graph_attr(b, n, "then_branch", then);
  build_graph_attr(b, n, "else_branch", otherwise);
  build_node(b, "Abs", "made", "t");
  build_output(b, "y", "f32[n]");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  ck_assert_str_eq(order_of(f.m->main), "If Abs Relu");
  front_fini(&f);
}
END_TEST

START_TEST(nodes_of_a_function_are_put_in_order) {
  onnx_build *b = build_open(13), *body = build_subgraph(b);
  build_input(b, "x", "f32[n]");
  build_node(body, "Relu", "m", "q");
  build_node(body, "Neg", "p", "m");
  build_function(b, "mine", "F", "p", "q", "", body);
  build_node(b, "F", "x", "y")->domain = (char *)"mine";
  build_output(b, "y", "f32[n]");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  ck_assert_str_eq(order_of(f.m->main), "Neg Relu");
  front_fini(&f);
}
END_TEST

START_TEST(nodes_in_a_circle_are_named) {
  static const struct {
    const char *first_input, *second_input, *says;
  } cases[] = {
      {"x,b", "a", "in a circle: 'a_node' (Add), 'b_node' (Relu)"},
      {"x,a", "x", "in a circle: 'a_node' (Add)"},
      {"x,y", "a", "in a circle: 'a_node' (Add), the Neg that makes 'y', 'b_node' (Relu)"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    onnx_build *b = build_open(13);
    build_input(b, "x", "f32[n]");
    build_node(b, "Add", cases[i].first_input, "a");
    build_node(b, "Relu", cases[i].second_input, "b");
    *build_node(b, "Neg", "b", "y")->name = 0;
    build_output(b, "y", "f32[n]");
    front_refuses(&b, REED_ERROR_FORMAT, cases[i].says);
  }
}
END_TEST

START_TEST(a_circle_through_a_body_is_named) {
  onnx_build *b = build_open(13), *then = build_subgraph(b), *otherwise = build_subgraph(b);
  build_input(b, "x", "f32[n]");
  build_input(b, "c", "bool[]");
  build_node(then, "Neg", "late", "t");
  build_output(then, "t", "f32");
  build_output(otherwise, "x", "f32");
  build_node_t *n = build_node(b, "If", "c", "y");
  build_graph_attr(b, n, "then_branch", then);
  build_graph_attr(b, n, "else_branch", otherwise);
  build_node(b, "Abs", "y", "late");
  build_output(b, "y", "f32[n]");
  front_refuses(&b, REED_ERROR_FORMAT, "in a circle: 'y_node' (If), 'late_node' (Abs)");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("onnx_order");
  TCase *t = tcase_create("onnx_order");
  tcase_set_timeout(t, 60);
  tcase_add_test(t, nodes_in_order_stay_where_they_are);
  tcase_add_test(t, nodes_come_right_before_the_first_that_waits_for_them);
  tcase_add_test(t, a_long_chain_in_reverse_is_read);
  tcase_add_test(t, what_bodies_capture_comes_before_their_node);
  tcase_add_test(t, names_of_a_body_are_not_those_of_nodes_around_it);
  tcase_add_test(t, nodes_of_a_function_are_put_in_order);
  tcase_add_test(t, nodes_in_a_circle_are_named);
  tcase_add_test(t, a_circle_through_a_body_is_named);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
