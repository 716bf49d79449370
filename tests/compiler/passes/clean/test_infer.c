/* infer: extents as symbols, shape arithmetic followed element by element, bodies of loops and branches. */
#include "tests/compiler/front.h"
#include "tests/suite.h"

START_TEST(extents_are_computed_with_symbols) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n,3,h,w]");
  build_f32(b, "k", "8,3,3,3", (float[216]){0});
  build_node_t *conv = build_node(b, "Conv", "x,k", "c");
  build_ints(b, conv, "strides", "2,2");
  build_ints(b, conv, "pads", "1,1,1,1");
  build_int(b, build_node(b, "Flatten", "c", "y"), "axis", 3);
  build_output(b, "c", "f32");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  const ir_type *t = &f.m->main->results[0]->type;
  ck_assert_int_eq(t->dims[1], 8);
  ck_assert(symbols_equal(f.m->symbols, t->dims[0], f.m->main->params[0]->type.dims[0]));
  ck_assert(symbol_is(t->dims[2]));
  ck_assert(symbols_equal(f.m->symbols, f.m->main->results[1]->type.dims[1], t->dims[3]));
  front_fini(&f);
}
END_TEST

START_TEST(shapes_that_cannot_be_are_refused_with_both) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[2,3]");
  build_input(b, "z", "f32[4,3]");
  build_node(b, "Add", "x,z", "y");
  build_output(b, "y", "f32");
  front f;
  front_read(&f, &b);
  front_passes(&f, NULL);
  front_says(&f, REED_ERROR_SHAPE, "Add node 'y_node'");
  front_says(&f, REED_ERROR_SHAPE, "[2,3]");
  front_says(&f, REED_ERROR_SHAPE, "[4,3]");
  front_fini(&f);
}
END_TEST

/* y = Reshape(x, Concat(shape arithmetic)) : the classic flatten by hand */
START_TEST(shape_arithmetic_is_followed_element_by_element) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n,4,6]");
  build_i64(b, "0", "1", (int64_t[]){0});
  build_i64(b, "1", "1", (int64_t[]){1});
  build_i64(b, "2", "1", (int64_t[]){2});
  build_node(b, "Shape", "x", "s");
  build_node(b, "Gather", "s,0", "n");
  build_node(b, "Slice", "s,1,2", "four");
  build_node(b, "Gather", "s,2", "six");
  build_node(b, "Mul", "four,six", "all");
  build_node(b, "Div", "all,2", "half");
  build_int(b, build_node(b, "Concat", "n,2,half", "target"), "axis", 0);
  build_node(b, "Reshape", "x,target", "y");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_str_eq(front_result_type(&f), "f32[n,2,12]");
  ck_assert_int_eq(front_count(&f, OP_Div), 0);
  ck_assert_int_eq(front_count(&f, OP_Mul), 0);
  front_fini(&f);
}
END_TEST

/* y of extents floor(h / 2) and ceil(h / 2), both from one float quotient, and h that went through floats unharmed */
START_TEST(a_quotient_of_floats_is_no_whole_number) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[h]");
  build_f32(b, "two", "1", (float[]){2});
  build_node(b, "Shape", "x", "s");
  build_int(b, build_node(b, "Cast", "s", "f"), "to", 1);
  build_node(b, "Floor", "f", "whole");
  build_int(b, build_node(b, "Cast", "whole", "same"), "to", 7);
  build_node(b, "Div", "f,two", "half");
  build_node(b, "Floor", "half", "lower");
  build_node(b, "Ceil", "half", "upper");
  build_int(b, build_node(b, "Cast", "lower", "l"), "to", 7);
  build_int(b, build_node(b, "Cast", "upper", "u"), "to", 7);
  build_int(b, build_node(b, "Concat", "l,u,same", "to"), "axis", 0);
  build_node(b, "ConstantOfShape", "to", "y");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  const ir_type *t = &f.m->main->results[0]->type;
  ck_assert_int_eq(t->rank, 3);
  ck_assert(!symbols_equal(f.m->symbols, t->dims[0], t->dims[1]));
  ck_assert(symbols_equal(f.m->symbols, t->dims[2], f.m->main->params[0]->type.dims[0]));
  front_fini(&f);
}
END_TEST

/* Pads as torch exports them: reversed pairs by a reshape, a backwards slice and a transpose. */
START_TEST(lists_are_sliced_backwards_and_transposed) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[2,h]");
  build_i64(b, "pairs", "4", (int64_t[]){3, 1, 0, 0});
  build_i64(b, "two", "2", (int64_t[]){-1, 2});
  build_i64(b, "start", "1", (int64_t[]){-1});
  build_i64(b, "end", "1", (int64_t[]){INT64_MIN + 1});
  build_i64(b, "axis", "1", (int64_t[]){0});
  build_i64(b, "step", "1", (int64_t[]){-1});
  build_i64(b, "flat", "1", (int64_t[]){-1});
  build_node(b, "Reshape", "pairs,two", "p");
  build_node(b, "Slice", "p,start,end,axis,step", "q");
  build_ints(b, build_node(b, "Transpose", "q", "t"), "perm", "1,0");
  build_node(b, "Reshape", "t,flat", "pads");
  build_node(b, "Pad", "x,pads", "y");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_str_eq(front_result_type(&f), "f32[2,h + 4]");
  ck_assert_int_eq(f.m->main->nodes.n, 1);
  front_fini(&f);
}
END_TEST

START_TEST(reported_extents_are_symbols_of_their_own) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n]");
  build_node(b, "NonZero", "x", "i");
  build_node(b, "Neg", "x", "z");
  build_node(b, "NonZero", "z", "j");
  build_output(b, "i", "i64");
  build_output(b, "j", "i64");
  front f;
  front_optimize(&f, &b);
  const ir_value *i = f.m->main->results[0], *j = f.m->main->results[1];
  ck_assert(i->bounded);
  ck_assert_int_eq(i->type.dims[0], 1);
  ck_assert(!symbols_equal(f.m->symbols, i->type.dims[1], j->type.dims[1]));
  front_fini(&f);
}
END_TEST

/* A body with carried v: then-branch style builders for loops. */
static void loop(onnx_build *b, onnx_build *body, const char *inputs, const char *outputs) {
  build_input(body, "i", "i64[]");
  build_input(body, "c", "bool[]");
  build_graph_attr(b, build_node(b, "Loop", inputs, outputs), "body", body);
}

START_TEST(what_a_loop_changes_is_unknown_and_what_it_keeps_is_kept) {
  onnx_build *b = build_open(13), *body = build_subgraph(b);
  build_input(b, "x", "f32[n,3]");
  build_input(b, "z", "f32[n,3]");
  build_input(b, "m", "i64[]");
  loop(b, body, "m,,x,z", "grown,kept,scan");
  build_input(body, "v", "f32");
  build_input(body, "k", "f32");
  build_node(body, "Identity", "c", "d");
  build_int(body, build_node(body, "Concat", "v,x", "w"), "axis", 0);
  build_node(body, "Relu", "k", "l");
  build_node(body, "Neg", "l", "o");
  for (const char *name = "dwlo"; *name; name++) build_output(body, (char[]){*name, 0}, *name == 'd' ? "bool" : "f32");
  build_output(b, "grown", "f32");
  build_output(b, "kept", "f32");
  build_output(b, "scan", "f32");
  front f;
  front_optimize(&f, &b);
  ir_value **r = f.m->main->results;
  ck_assert_int_eq(r[0]->type.dims[1], 3);
  ck_assert(!symbols_equal_if_declared(f.m->symbols, r[0]->type.dims[0], f.m->main->params[0]->type.dims[0]));
  ck_assert_str_eq(front_type(&f, r[1]), "f32[n,3]");
  ck_assert_int_eq(r[2]->type.rank, 3);
  ck_assert(symbols_equal(f.m->symbols, r[2]->type.dims[1], f.m->main->params[1]->type.dims[0]));
  front_fini(&f);
}
END_TEST

START_TEST(a_loop_of_a_known_number_of_rounds_gives_that_many) {
  onnx_build *b = build_open(13), *body = build_subgraph(b);
  build_input(b, "x", "f32[n]");
  build_i64(b, "m", "", (int64_t[]){5});
  loop(b, body, "m", "scan");
  build_node(body, "Identity", "c", "d");
  build_node(body, "Neg", "x", "o");
  build_output(body, "d", "bool");
  build_output(body, "o", "f32");
  build_output(b, "scan", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_str_eq(front_result_type(&f), "f32[5,n]");
  front_fini(&f);
}
END_TEST

/* A loop within a loop within ..., each of which makes its carried value grow. */
static onnx_build *growing_body(onnx_build *b, int depth) {
  onnx_build *body = build_subgraph(b);
  build_input(body, "i", "i64[]");
  build_input(body, "c", "bool[]");
  build_input(body, "v", "f32");
  build_int(body, build_node(body, "Concat", "v,x", "w"), "axis", 0);
  if (depth) build_graph_attr(body, build_node(body, "Loop", "m,,w", "y"), "body", growing_body(b, depth - 1));
  build_node(body, "Identity", "c", "d");
  build_output(body, "d", "bool");
  build_output(body, depth ? "y" : "w", "f32");
  return body;
}

START_TEST(loops_within_loops_take_no_exponential_time) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n,3]");
  build_input(b, "m", "i64[]");
  build_graph_attr(b, build_node(b, "Loop", "m,,x", "z"), "body", growing_body(b, 40));
  build_output(b, "z", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Loop), 41);
  front_fini(&f);
}
END_TEST

START_TEST(branches_of_different_ranks_leave_the_rank_open_and_reshape_closes_it) {
  onnx_build *b = build_open(13), *then = build_subgraph(b), *otherwise = build_subgraph(b);
  build_input(b, "x", "f32[n,3]");
  build_input(b, "c", "bool[]");
  build_i64(b, "axes", "1", (int64_t[]){0});
  build_i64(b, "to", "2", (int64_t[]){-1, 3});
  build_node(then, "Unsqueeze", "x,axes", "t");
  build_output(then, "t", "f32");
  build_node(otherwise, "Neg", "x", "e");
  build_output(otherwise, "e", "f32");
  build_node_t *n = build_node(b, "If", "c", "u");
  build_graph_attr(b, n, "then_branch", then);
  build_graph_attr(b, n, "else_branch", otherwise);
  build_node(b, "Reshape", "u,to", "y");
  build_output(b, "u", "f32");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_str_eq(front_type(&f, f.m->main->results[0]), "f32[..]");
  ck_assert_int_eq(f.m->main->results[1]->type.rank, 2);
  ck_assert_int_eq(f.m->main->results[1]->type.dims[1], 3);
  front_fini(&f);
}
END_TEST

START_TEST(a_branch_that_may_not_run_may_be_wrong) {
  for (int certain = 0; certain < 2; certain++) {
    onnx_build *b = build_open(13), *then = build_subgraph(b), *otherwise = build_subgraph(b);
    build_input(b, "x", "f32[2,3]");
    if (certain) build_tensor(b, "c", REED_BOOL, "", "\1", true);
    else build_input(b, "c", "bool[]");
    build_i64(b, "axes", "1", (int64_t[]){0});
    build_node(then, "Squeeze", "x,axes", "t"); /* extent 2 */
    build_output(then, "t", "f32");
    build_node(otherwise, "Neg", "x", "e");
    build_output(otherwise, "e", "f32");
    build_node_t *n = build_node(b, "If", "c", "y");
    build_graph_attr(b, n, "then_branch", then);
    build_graph_attr(b, n, "else_branch", otherwise);
    build_output(b, "y", "f32");
    front f;
    front_read(&f, &b);
    front_ok(&f);
    front_passes(&f, NULL);
    ck_assert_int_eq(f.status, certain ? REED_ERROR_SHAPE : REED_OK);
    front_fini(&f);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("infer");
  TCase *t = tcase_create("passes");
  tcase_add_test(t, extents_are_computed_with_symbols);
  tcase_add_test(t, shapes_that_cannot_be_are_refused_with_both);
  tcase_add_test(t, shape_arithmetic_is_followed_element_by_element);
  tcase_add_test(t, a_quotient_of_floats_is_no_whole_number);
  tcase_add_test(t, lists_are_sliced_backwards_and_transposed);
  tcase_add_test(t, reported_extents_are_symbols_of_their_own);
  tcase_add_test(t, what_a_loop_changes_is_unknown_and_what_it_keeps_is_kept);
  tcase_add_test(t, a_loop_of_a_known_number_of_rounds_gives_that_many);
  tcase_add_test(t, loops_within_loops_take_no_exponential_time);
  tcase_add_test(t, branches_of_different_ranks_leave_the_rank_open_and_reshape_closes_it);
  tcase_add_test(t, a_branch_that_may_not_run_may_be_wrong);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
