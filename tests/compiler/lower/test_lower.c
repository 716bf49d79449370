/* Lowering: graphs made by hand become modules that the verifier accepts, with the epochs, read-backs and copies of
 * docs/epochs.md. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/lower/lower.h"
#include "tests/alloc_hook.h"
#include "tests/compiler/lower/graph.h"
#include "tests/suite.h"

#define DIMS(...) \
  (const int64_t[]) { __VA_ARGS__ }
#define N ANY_DIM
#define ck_has(l, fragment) ck_assert_msg(strstr((l).text, fragment), "no \"%s\" in\n%s", fragment, (l).text)
#define ck_count(l, fragment, n) \
  ck_assert_msg(occurrences((l).text, fragment) == (n), "not %d times \"%s\" in\n%s", n, fragment, (l).text)
#define ck_epochs(l, n) ck_assert_msg((l).n_epochs == (n), "%d epochs, not %d, in\n%s", (l).n_epochs, n, (l).text)

/* ---- straight lists ---- */

START_TEST(a_chain_is_one_epoch_whose_intermediate_tensors_die_inside) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 2, DIMS(N, 4));
  ir_value *y = graph_op(m->main, OP_Relu, REED_F32, 2, DIMS(N, 4), x, GRAPH_END);
  ir_value *z = graph_op(m->main, OP_Add, REED_F32, 2, DIMS(N, 4), y, graph_f32(m, 1, (float[]){1}), GRAPH_END);
  graph_result(m->main, graph_op(m->main, OP_Sqrt, REED_F32, 2, DIMS(N, 4), z, GRAPH_END));
  lowered l = graph_lower(m);
  ck_epochs(l, 1);
  ck_has(l, "assert.shape r0");
  ck_count(l, "copy r", 1);
  ck_count(l, "sync", 1);
  ck_has(l, "epoch.enter 0, @");
  const char *run = strstr(l.text, "epoch.plan");
  ck_assert_int_eq(occurrences(run, "kill"), 6); /* copy, Relu and Add inside; the constant, the input and Sqrt after */
  RUN(l, SPECS({REED_F32, 2, {1, 4}, {-1, 3, 8, 15}}), SPECS({REED_F32, 2, {1, 4}, {1, 2, 3, 4}}));
  RUN(l, SPECS({REED_F32, 2, {0, 4}, {0}}), SPECS({REED_F32, 2, {0, 4}, {0}}));
  lowered_close(&l);
}
END_TEST

START_TEST(inputs_outputs_constants_and_duplicates_are_results_as_they_are) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 1, DIMS(N));
  graph_result(m->main, x);
  graph_result(m->main, x);
  graph_result(m->main, graph_i64(m, 2, DIMS(1, 2)));
  lowered l = graph_lower(m);
  ck_epochs(l, 0);
  ck_has(l, "return (r0 r0 r1), ()");
  ck_assert_int_eq(l.m->n_devices, 1);
  RUN(l, SPECS(F32(2, 5, 6)), SPECS(F32(2, 5, 6), F32(2, 5, 6), I64(2, 1, 2)));
  lowered_close(&l);
}
END_TEST

START_TEST(a_symbolic_dim_met_again_must_have_the_same_extent) {
  ir_module *m = graph_open();
  ir_value *a = graph_param(m->main, "a", REED_F32, 2, DIMS(N, 3)),
           *b = graph_param(m->main, "b", REED_F32, 2, DIMS(3, N));
  a->type.dims[0] = b->type.dims[1] = symbols_named(m->symbols, "batch");
  graph_result(m->main, graph_op(m->main, OP_MatMul, REED_F32, 2, DIMS(3, 3), b, a, GRAPH_END));
  lowered l = graph_lower(m);
  ck_has(l, "s.dim s0, r0, 0\nassert.dim r1, 1, s0");
  lowered_close(&l);
}
END_TEST

START_TEST(shape_arithmetic_runs_on_the_host_in_the_same_epoch) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 2, DIMS(N, N));
  ir_value *r = graph_op(m->main, OP_Relu, REED_F32, 2, DIMS(N, N), x, GRAPH_END);
  ir_value *shape = graph_op(m->main, OP_Shape, REED_I64, 1, DIMS(2), r, GRAPH_END);
  ir_value *rows = graph_op(m->main, OP_Gather, REED_I64, 1, DIMS(1), shape, graph_i64(m, 1, DIMS(0)), GRAPH_END);
  ir_value *target = graph_node(m->main, OP_Concat, 1, rows, graph_i64(m, 1, DIMS(-1)), GRAPH_END)->outputs[0];
  graph_type(target, REED_I64, 1, DIMS(2));
  ck_assert(ir_set_attr_int(target->producer, "axis", 0));
  ir_value *flat = graph_op(m->main, OP_Reshape, REED_F32, 2, DIMS(N, N), r, target, GRAPH_END);
  graph_result(m->main, graph_op(m->main, OP_Neg, REED_F32, 2, DIMS(N, N), flat, GRAPH_END));
  lowered l = graph_lower(m);
  ck_epochs(l, 1);
  ck_has(l, "invoke Shape'Shape");
  ck_has(l, "invoke Concat'Concat");
  ck_count(l, "view", 1);
  ck_count(l, "readback", 1);
  ck_assert_ptr_nonnull(strstr(l.report, "\"host_operators\":3"));
  RUN(l, SPECS({REED_F32, 2, {2, 2}, {1, -2, 3, 4}}), SPECS({REED_F32, 2, {2, 2}, {-1, 0, -3, -4}}));
  RUN(l, SPECS({REED_F32, 2, {1, 3}, {1, -2, 3}}), SPECS({REED_F32, 2, {1, 3}, {-1, 0, -3}}));
  lowered_close(&l);
}
END_TEST

START_TEST(a_chain_of_nonzeros_has_one_epoch_a_count) {
  ir_module *m = graph_open();
  ir_value *v = graph_param(m->main, "x", REED_F32, 1, DIMS(N));
  for (int i = 0; i < 3; i++) {
    ir_value *where = graph_op(m->main, OP_NonZero, REED_I64, 2, DIMS(1, N), v, GRAPH_END);
    ir_value *index = graph_op(m->main, OP_Reshape, REED_I64, 1, DIMS(N), where, graph_i64(m, 1, DIMS(-1)), GRAPH_END);
    v = graph_op(m->main, OP_Gather, REED_F32, 1, DIMS(N), v, index, GRAPH_END);
  }
  graph_result(m->main, v);
  lowered l = graph_lower(m);
  ck_epochs(l, 4);
  ck_count(l, "extent.for r", 3);
  ck_count(l, "sync", 4);
  ck_count(l, "readback", 1);
  RUN(l, SPECS(F32(4, 0, 7, 0, 9)), SPECS(F32(2, 7, 9)));
  RUN(l, SPECS(F32(4, 1, 0, 0, 0)), SPECS(F32(1, 1)));
  RUN(l, SPECS(F32(3, 0, 0, 0)), SPECS(F32(0, 0)));
  lowered_close(&l);
}
END_TEST

START_TEST(a_bounded_output_of_the_model_is_read_back_after_its_extent) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 1, DIMS(N));
  graph_result(m->main, graph_op(m->main, OP_NonZero, REED_I64, 2, DIMS(1, N), x, GRAPH_END));
  lowered l = graph_lower(m);
  ck_epochs(l, 1);
  ck_count(l, "sync", 2);
  RUN(l, SPECS(F32(4, 0, 7, 0, 9)), SPECS({REED_I64, 2, {1, 2}, {1, 3}}));
  lowered_close(&l);
}
END_TEST

START_TEST(only_the_flagged_value_is_read_back) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 1, DIMS(100000));
  ir_value *sum = graph_op(m->main, OP_ReduceSum, REED_F32, 1, DIMS(1), x, NULL, GRAPH_END);
  ir_node *top = graph_node(m->main, OP_TopK, 2, x, graph_to_i64(m->main, sum), GRAPH_END);
  graph_type(top->outputs[0], REED_F32, 1, DIMS(N));
  graph_type(top->outputs[1], REED_I64, 1, DIMS(N));
  graph_result(m->main, top->outputs[0]);
  lowered l = graph_lower(m);
  ck_epochs(l, 2);
  ck_count(l, "readback", 2);
  ck_has(l, "reason0, Cast'Cast"); /* the small sum is read back, because the Cast moved to the host */
  ck_count(l, "copy r", 1);
  lowered_close(&l);
}
END_TEST

START_TEST(a_value_that_shapes_and_kernels_read_is_in_both_places) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 1, DIMS(N)), *k = graph_param(m->main, "k", REED_I64, 1, DIMS(1));
  ir_node *top = graph_node(m->main, OP_TopK, 2, x, k, GRAPH_END);
  graph_type(top->outputs[0], REED_F32, 1, DIMS(N));
  graph_type(top->outputs[1], REED_I64, 1, DIMS(N));
  graph_result(m->main, graph_op(m->main, OP_Add, REED_I64, 1, DIMS(N), top->outputs[1], k, GRAPH_END));
  lowered l = graph_lower(m);
  ck_epochs(l, 1);
  ck_count(l, "copy r", 2);
  ck_has(l, "r1b"); /* a key by extents and elements */
  RUN(l, SPECS(F32(4, 3, 1, 4, 2), I64(1, 2)), SPECS(I64(2, 4, 2)));
  RUN(l, SPECS(F32(4, 3, 1, 4, 2), I64(1, 3)), SPECS(I64(3, 5, 3, 6)));
  lowered_close(&l);
}
END_TEST

START_TEST(unused_outputs_are_absent_or_die_at_once) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 4, DIMS(1, 1, 4, 4));
  ir_node *pool = graph_node(m->main, OP_MaxPool, 2, x, GRAPH_END);
  ck_assert(ir_set_attr_ints(pool, "kernel_shape", DIMS(2, 2), 2));
  graph_type(pool->outputs[0], REED_F32, 4, DIMS(1, 1, 3, 3));
  graph_type(pool->outputs[1], REED_I64, 4, DIMS(1, 1, 3, 3));
  ir_node *top = graph_node(m->main, OP_TopK, 2, pool->outputs[0], graph_i64(m, 1, DIMS(1)), GRAPH_END);
  graph_type(top->outputs[0], REED_F32, 4, DIMS(1, 1, 3, 1));
  graph_type(top->outputs[1], REED_I64, 4, DIMS(1, 1, 3, 1));
  graph_result(m->main, top->outputs[0]);
  lowered l = graph_lower(m);
  ck_has(l, "shape MaxPool'MaxPool_0', 1, (r3 -), (r2)");
  ck_has(l, "kill r5\nkill r3\nepoch.end"); /* TopK's unwanted values, then the pooled tensor */
  ck_epochs(l, 1);
  RUN(l, SPECS({REED_F32, 4, {1, 1, 4, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}),
      SPECS({REED_F32, 4, {1, 1, 3, 1}, {7, 11, 15}}));
  lowered_close(&l);
}
END_TEST

/* ---- If ---- */

/* If over `condition` with one output; branch graphs in out_then and out_else. */
static ir_node *open_if(ir_graph *g, ir_value *condition, int32_t n_outputs, ir_graph **out_then, ir_graph **out_else) {
  ir_node *n = graph_node(g, OP_If, n_outputs, condition, GRAPH_END);
  *out_then = ir_graph_new(g->module, n, "then");
  *out_else = ir_graph_new(g->module, n, "else");
  return n;
}

START_TEST(an_if_on_a_model_input_is_two_diamonds_of_one_epoch) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 1, DIMS(N)), *c = graph_param(m->main, "c", REED_BOOL, 0, NULL);
  ir_graph *yes, *no;
  ir_node *n = open_if(m->main, c, 1, &yes, &no);
  graph_type(n->outputs[0], REED_F32, 1, DIMS(N));
  ir_value *half = graph_op(yes, OP_Relu, REED_F32, 1, DIMS(N), x, GRAPH_END);
  graph_result(yes, graph_op(yes, OP_Neg, REED_F32, 1, DIMS(N), half, GRAPH_END));
  graph_result(no, x);
  graph_result(m->main, graph_op(m->main, OP_Sqrt, REED_F32, 1, DIMS(N), n->outputs[0], GRAPH_END));
  lowered l = graph_lower(m);
  ck_epochs(l, 1);
  ck_count(l, "branch.ifnot s0", 2);
  ck_count(l, "s.item", 1);
  RUN(l, SPECS(F32(2, 4, 9), BOOL_SCALAR(0)), SPECS(F32(2, 2, 3)));
  RUN(l, SPECS(F32(2, -4, -9), BOOL_SCALAR(1)), SPECS(F32(2, 0, 0)));
  RUN(l, SPECS(F32(1, 4), BOOL_SCALAR(0)), SPECS(F32(1, 2)));
  lowered_close(&l);
}
END_TEST

START_TEST(an_if_on_a_device_condition_reads_one_bool_back) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 1, DIMS(100000));
  ir_value *sum = graph_op(m->main, OP_ReduceSum, REED_F32, 0, NULL, x, NULL, GRAPH_END);
  ir_value *big = graph_op(m->main, OP_ReduceMax, REED_F32, 1, DIMS(100000), x, graph_i64(m, 0, NULL), GRAPH_END);
  ir_value *c = graph_op(m->main, OP_Greater, REED_BOOL, 1, DIMS(100000), big, sum, GRAPH_END);
  ir_value *any = graph_op(m->main, OP_ReduceMax, REED_BOOL, 0, NULL, c, NULL, GRAPH_END);
  ir_graph *yes, *no;
  ir_node *n = open_if(m->main, any, 2, &yes, &no);
  graph_type(n->outputs[0], REED_F32, -1, NULL); /* ranks differ */
  graph_type(n->outputs[1], REED_I64, 1, DIMS(1));
  graph_result(yes, graph_op(yes, OP_Unsqueeze, REED_F32, 2, DIMS(1, 100000), x, graph_i64(m, 1, DIMS(0)), GRAPH_END));
  graph_result(yes, graph_i64(m, 1, DIMS(3)));
  graph_result(no, graph_f32(m, 2, (float[]){1, 2}));
  graph_result(no, graph_i64(m, 1, DIMS(5)));
  ir_node *top =
      graph_node(m->main, OP_TopK, 2, x, n->outputs[1], GRAPH_END); /* a host value: both branches are constants */
  graph_type(top->outputs[0], REED_F32, 1, DIMS(N));
  graph_type(top->outputs[1], REED_I64, 1, DIMS(N));
  graph_result(m->main, graph_op(m->main, OP_Neg, REED_F32, -1, NULL, n->outputs[0], GRAPH_END));
  graph_result(m->main, top->outputs[0]);
  lowered l = graph_lower(m);
  ck_epochs(l, 2);
  ck_has(l, "reason0, If'If");
  ck_count(l, "readback", 3);
  ck_has(l, "r.move");
  lowered_close(&l);
}
END_TEST

START_TEST(nested_ifs_have_conditions_on_every_path) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 1, DIMS(N)), *c = graph_param(m->main, "c", REED_BOOL, 0, NULL),
           *d = graph_param(m->main, "d", REED_BOOL, 0, NULL);
  ir_graph *yes, *no, *inner_yes, *inner_no;
  ir_node *n = open_if(m->main, c, 1, &yes, &no);
  graph_type(n->outputs[0], REED_F32, 1, DIMS(N));
  ir_node *inner = open_if(yes, d, 1, &inner_yes, &inner_no);
  graph_type(inner->outputs[0], REED_F32, 1, DIMS(N));
  /* a bounded kernel under two predicates: the next epoch knows its extent */
  ir_value *where = graph_op(inner_yes, OP_NonZero, REED_I64, 2, DIMS(1, N), x, GRAPH_END);
  ir_value *index = graph_op(inner_yes, OP_Squeeze, REED_I64, 1, DIMS(N), where, graph_i64(m, 1, DIMS(0)), GRAPH_END);
  graph_result(inner_yes, graph_op(inner_yes, OP_Gather, REED_F32, 1, DIMS(N), x, index, GRAPH_END));
  graph_result(inner_no, graph_op(inner_no, OP_Abs, REED_F32, 1, DIMS(N), x, GRAPH_END));
  graph_result(yes, graph_op(yes, OP_Exp, REED_F32, 1, DIMS(N), inner->outputs[0], GRAPH_END));
  graph_result(no, x);
  graph_result(m->main, n->outputs[0]);
  lowered l = graph_lower(m);
  ck_epochs(l, 2);
  ck_has(l, "s.const s1, 0");
  ck_count(l, "extent.for r", 1);
  RUN(l, SPECS(F32(3, 0, -1, 0), BOOL_SCALAR(1), BOOL_SCALAR(1)), SPECS(F32(1, 0.3678794)));
  RUN(l, SPECS(F32(3, 0, -1, 0), BOOL_SCALAR(1), BOOL_SCALAR(0)), SPECS(F32(3, 1, 2.7182818, 1)));
  RUN(l, SPECS(F32(3, 0, -1, 0), BOOL_SCALAR(0), BOOL_SCALAR(1)), SPECS(F32(3, 0, -1, 0)));
  lowered_close(&l);
}
END_TEST

START_TEST(values_of_a_branch_that_live_across_epochs_are_tensors_on_both_paths) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 1, DIMS(N)), *c = graph_param(m->main, "c", REED_BOOL, 0, NULL);
  ir_graph *yes, *no;
  ir_node *n = open_if(m->main, c, 1, &yes, &no);
  graph_type(n->outputs[0], REED_F32, 1, DIMS(N));
  ir_value *kept = graph_op(yes, OP_Relu, REED_F32, 1, DIMS(N), x, GRAPH_END);
  ir_value *where = graph_op(yes, OP_NonZero, REED_I64, 2, DIMS(1, N), kept, GRAPH_END);
  ir_value *index = graph_op(yes, OP_Squeeze, REED_I64, 1, DIMS(N), where, graph_i64(m, 1, DIMS(0)), GRAPH_END);
  graph_result(yes, graph_op(yes, OP_Gather, REED_F32, 1, DIMS(N), kept, index, GRAPH_END));
  ir_value *count = graph_op(no, OP_ReduceSum, REED_F32, 1, DIMS(1), x, NULL, GRAPH_END);
  ir_node *top = graph_node(no, OP_TopK, 2, x, graph_to_i64(no, count), GRAPH_END);
  graph_type(top->outputs[0], REED_F32, 1, DIMS(N));
  graph_type(top->outputs[1], REED_I64, 1, DIMS(N));
  graph_result(no, top->outputs[0]);
  graph_result(m->main, n->outputs[0]);
  lowered l = graph_lower(m);
  ck_epochs(l, 2);
  ck_count(l, "branch.ifnot s0", 4);
  RUN(l, SPECS(F32(3, 0, -1, 5), BOOL_SCALAR(1)), SPECS(F32(1, 5)));
  RUN(l, SPECS(F32(3, 0, -1, 3), BOOL_SCALAR(0)), SPECS(F32(2, 3, 0)));
  lowered_close(&l);
}
END_TEST

/* ---- Loop ---- */

/* A Loop with its body's iteration and condition parameters made. */
static ir_node *open_loop(ir_graph *g, int32_t n_outputs, ir_value *trip, ir_value *condition, ir_value *a, ir_value *b,
                          ir_graph **out_body) {
  ir_node *n = !a   ? graph_node(g, OP_Loop, n_outputs, trip, condition, GRAPH_END)
               : !b ? graph_node(g, OP_Loop, n_outputs, trip, condition, a, GRAPH_END)
                    : graph_node(g, OP_Loop, n_outputs, trip, condition, a, b, GRAPH_END);
  *out_body = ir_graph_new(g->module, n, "body");
  graph_param(*out_body, "i", REED_I64, 0, NULL);
  graph_param(*out_body, "go", REED_BOOL, 0, NULL);
  return n;
}

/* Exporters write the trip count of a loop that only its condition ends so. */
START_TEST(a_loop_of_the_largest_trip_count_ends_by_its_condition) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 1, DIMS(4));
  ir_value *limit = graph_param(m->main, "limit", REED_I64, 0, NULL);
  ir_graph *body;
  ir_node *n = open_loop(m->main, 1, graph_i64(m, -1, DIMS(INT64_MAX)), graph_bool(m, true), x, NULL, &body);
  graph_type(n->outputs[0], REED_F32, 1, DIMS(4));
  ir_value *acc = graph_param(body, "acc", REED_F32, 1, DIMS(4));
  graph_result(body, graph_op(body, OP_Less, REED_BOOL, 0, NULL, body->params[0], limit, GRAPH_END));
  graph_result(body, graph_op(body, OP_Add, REED_F32, 1, DIMS(4), acc, acc, GRAPH_END));
  graph_result(m->main, n->outputs[0]);
  lowered l = graph_lower(m);
  RUN(l, SPECS(F32(4, 1, 2, 3, 4), {REED_I64, 0, {0}, {2}}), SPECS(F32(4, 8, 16, 24, 32)));
  lowered_close(&l);
}
END_TEST

START_TEST(a_loop_whose_trip_count_is_an_extent_needs_no_read_back) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 2, DIMS(N, 4));
  ir_value *shape = graph_op(m->main, OP_Shape, REED_I64, 1, DIMS(2), x, GRAPH_END);
  ir_value *trip = graph_op(m->main, OP_Gather, REED_I64, 0, NULL, shape, graph_i64(m, -1, DIMS(0)), GRAPH_END);
  ir_graph *body;
  ir_node *n = open_loop(m->main, 2, trip, NULL, graph_f32(m, 4, (float[]){0, 0, 0, 0}), NULL, &body);
  graph_type(n->outputs[0], REED_F32, 1, DIMS(4));
  graph_type(n->outputs[1], REED_F32, 2, DIMS(N, 4));
  ir_value *acc = graph_param(body, "acc", REED_F32, 1, DIMS(4));
  ir_value *row = graph_op(body, OP_Gather, REED_F32, 1, DIMS(4), x, body->params[0], GRAPH_END);
  ir_value *sum = graph_op(body, OP_Add, REED_F32, 1, DIMS(4), acc, row, GRAPH_END);
  graph_result(body, graph_bool(m, true));
  graph_result(body, sum);
  graph_result(body, sum);
  graph_result(m->main, n->outputs[0]);
  graph_result(m->main, n->outputs[1]);
  lowered l = graph_lower(m);
  ck_epochs(l, 2);
  ck_count(l, "readback", 2);
  ck_has(l, "s.lt");
  ck_has(l, "seq.stack");
  ck_has(l, "seq.push");
  RUN(l, SPECS({REED_F32, 2, {2, 4}, {1, 2, 3, 4, 10, 20, 30, 40}}),
      SPECS(F32(4, 11, 22, 33, 44), {REED_F32, 2, {2, 4}, {1, 2, 3, 4, 11, 22, 33, 44}}));
  RUN(l, SPECS({REED_F32, 2, {0, 4}, {0}}), SPECS(F32(4, 0, 0, 0, 0), {REED_F32, 2, {0, 4}, {0}}));
  lowered_close(&l);
}
END_TEST

START_TEST(a_loop_with_a_computed_condition_carries_host_and_device_values) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 1, DIMS(N));
  ir_graph *body;
  ir_node *n = open_loop(m->main, 2, NULL, graph_bool(m, true), x, graph_i64(m, 1, DIMS(1)), &body);
  graph_type(n->outputs[0], REED_F32, 1, DIMS(N));
  graph_type(n->outputs[1], REED_I64, 1, DIMS(1));
  ir_value *v = graph_param(body, "v", REED_F32, 1, DIMS(N)), *k = graph_param(body, "k", REED_I64, 1, DIMS(1));
  ir_node *top = graph_node(body, OP_TopK, 2, v, k, GRAPH_END); /* k feeds a shape: it stays on the host */
  graph_type(top->outputs[0], REED_F32, 1, DIMS(N));
  graph_type(top->outputs[1], REED_I64, 1, DIMS(N));
  ir_value *next = graph_op(body, OP_Add, REED_I64, 1, DIMS(1), k, graph_i64(m, 1, DIMS(1)), GRAPH_END);
  ir_value *most = graph_op(body, OP_ReduceMax, REED_F32, 0, NULL, top->outputs[0], NULL, GRAPH_END);
  graph_result(body, graph_op(body, OP_Less, REED_BOOL, 0, NULL, most, graph_f32(m, -1, (float[]){9}), GRAPH_END));
  graph_result(body, top->outputs[0]);
  graph_result(body, next);
  graph_result(m->main, n->outputs[0]);
  graph_result(m->main, n->outputs[1]);
  lowered l = graph_lower(m);
  ck_assert_ptr_nonnull(strstr(l.report, "\"host_loop_values\":1"));
  ck_count(l, "jump", 1);
  ck_assert_int_eq(l.n_epochs, 2); /* the input's copy; the body, whose condition needs no epoch of its own */
  RUN(l, SPECS(F32(2, 10, 3)), SPECS(F32(1, 10), I64(1, 2)));
  lowered_close(&l);
}
END_TEST

START_TEST(carried_values_that_swap_are_moved_at_once) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 1, DIMS(N)), *y = graph_param(m->main, "y", REED_F32, 1, DIMS(N));
  ir_graph *body;
  ir_node *n = open_loop(m->main, 2, graph_i64(m, -1, DIMS(3)), NULL, x, y, &body);
  graph_type(n->outputs[0], REED_F32, 1, DIMS(N));
  graph_type(n->outputs[1], REED_F32, 1, DIMS(N));
  ir_value *a = graph_param(body, "a", REED_F32, 1, DIMS(N)), *b = graph_param(body, "b", REED_F32, 1, DIMS(N));
  graph_result(body, graph_bool(m, true));
  graph_result(body, b);
  graph_result(body, a);
  graph_result(m->main, n->outputs[0]);
  graph_result(m->main, n->outputs[1]);
  lowered l = graph_lower(m);
  ck_count(l, "r.move", 2 + 4);
  RUN(l, SPECS(F32(1, 7), F32(2, 8, 9)), SPECS(F32(2, 8, 9), F32(1, 7)));
  lowered_close(&l);
}
END_TEST

START_TEST(loops_nest_in_loops_and_branches) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 1, DIMS(N)), *c = graph_param(m->main, "c", REED_BOOL, 0, NULL),
           *trip = graph_param(m->main, "trip", REED_I64, 0, NULL);
  ir_graph *yes, *no, *body, *inner_body;
  ir_node *n = open_if(m->main, c, 1, &yes, &no);
  graph_type(n->outputs[0], REED_F32, 1, DIMS(N));
  ir_node *loop = open_loop(yes, 1, trip, NULL, x, NULL, &body);
  graph_type(loop->outputs[0], REED_F32, 1, DIMS(N));
  ir_value *v = graph_param(body, "v", REED_F32, 1, DIMS(N));
  ir_node *inner = open_loop(body, 1, trip, NULL, v, NULL, &inner_body);
  graph_type(inner->outputs[0], REED_F32, 1, DIMS(N));
  ir_value *w = graph_param(inner_body, "w", REED_F32, 1, DIMS(N));
  graph_result(inner_body, graph_bool(m, true));
  graph_result(inner_body, graph_op(inner_body, OP_Add, REED_F32, 1, DIMS(N), w, x, GRAPH_END));
  graph_result(body, graph_bool(m, true));
  graph_result(body, graph_op(body, OP_Relu, REED_F32, 1, DIMS(N), inner->outputs[0], GRAPH_END));
  graph_result(yes, loop->outputs[0]);
  graph_result(no, graph_op(no, OP_Neg, REED_F32, 1, DIMS(N), x, GRAPH_END));
  graph_result(m->main, n->outputs[0]);
  lowered l = graph_lower(m);
  ck_count(l, "s.lt", 2);
  RUN(l, SPECS(F32(1, 1), BOOL_SCALAR(1), I64_SCALAR(2)), SPECS(F32(1, 5)));
  RUN(l, SPECS(F32(1, 1), BOOL_SCALAR(1), I64_SCALAR(0)), SPECS(F32(1, 1)));
  RUN(l, SPECS(F32(1, 1), BOOL_SCALAR(0), I64_SCALAR(2)), SPECS(F32(1, -1)));
  lowered_close(&l);
}
END_TEST

START_TEST(an_if_in_a_body_is_decided_in_every_iteration) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 1, DIMS(N));
  ir_graph *body, *yes, *no;
  ir_node *loop = open_loop(m->main, 1, graph_i64(m, -1, DIMS(4)), NULL, x, NULL, &body);
  graph_type(loop->outputs[0], REED_F32, 1, DIMS(N));
  ir_value *v = graph_param(body, "v", REED_F32, 1, DIMS(N));
  ir_value *even = graph_op(body, OP_Mod, REED_I64, 0, NULL, body->params[0], graph_i64(m, -1, DIMS(2)), GRAPH_END);
  ir_value *c = graph_op(body, OP_Equal, REED_BOOL, 0, NULL, even, graph_i64(m, -1, DIMS(0)), GRAPH_END);
  ir_node *n = open_if(body, c, 1, &yes, &no);
  graph_type(n->outputs[0], REED_F32, 1, DIMS(N));
  graph_result(yes, graph_op(yes, OP_Neg, REED_F32, 1, DIMS(N), v, GRAPH_END));
  graph_result(no, graph_op(no, OP_Add, REED_F32, 1, DIMS(N), v, x, GRAPH_END));
  graph_result(body, graph_bool(m, true));
  graph_result(body, n->outputs[0]);
  graph_result(m->main, loop->outputs[0]);
  lowered l = graph_lower(m);
  ck_epochs(l, 2); /* x to the device; the body */
  ck_count(l, "readback", 1);
  RUN(l, SPECS(F32(2, 1, 10)), SPECS(F32(2, 1, 10)));
  lowered_close(&l);
}
END_TEST

START_TEST(elements_of_an_unknown_rank_are_joined) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 2, DIMS(N, N)),
           *trip = graph_param(m->main, "trip", REED_I64, 0, NULL),
           *squeezed = graph_op(m->main, OP_Squeeze, REED_F32, -1, NULL, x, GRAPH_END);
  ir_graph *body;
  ir_node *n = open_loop(m->main, 1, trip, NULL, NULL, NULL, &body);
  graph_type(n->outputs[0], REED_F32, -1, NULL);
  n->outputs[0]->joined = true;
  graph_result(body, graph_bool(m, true));
  graph_result(body, graph_op(body, OP_Neg, REED_F32, -1, NULL, squeezed, GRAPH_END));
  graph_result(m->main, n->outputs[0]);
  lowered l = graph_lower(m);
  RUN(l, SPECS({REED_F32, 2, {1, 2}, {1, 2}}, I64_SCALAR(2)), SPECS(F32(4, -1, -2, -1, -2)));
  lowered_close(&l);
}
END_TEST

START_TEST(a_loop_that_does_not_fit_its_body_is_refused) {
  ir_module *m = graph_open();
  ir_graph *body;
  ir_node *n = open_loop(m->main, 1, graph_i64(m, -1, DIMS(4)), NULL, graph_i64(m, 1, DIMS(0)), NULL, &body);
  graph_result(body, graph_bool(m, true));
  graph_result(m->main, n->outputs[0]);
  module_memory memory;
  reed_module_sink sink = module_memory_sink(&memory);
  reed_diagnosis *diagnosis = NULL;
  ck_assert_int_eq(reed_diagnosis_open(&diagnosis), REED_OK);
  ck_assert_int_eq(lower_module(m, NULL, &sink, NULL, diagnosis), REED_ERROR_FORMAT);
  reed_diagnosis_close(&diagnosis);
  ir_module_close(&m);
}
END_TEST

/* ---- failure ---- */

/* Every kind of item: an If with a bounded kernel, a Loop with host and device values and a scan output. */
static ir_module *everything(void) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 1, DIMS(N)), *c = graph_param(m->main, "c", REED_BOOL, 0, NULL);
  ir_graph *yes, *no, *body;
  ir_node *n = open_if(m->main, c, 1, &yes, &no);
  graph_type(n->outputs[0], REED_F32, 1, DIMS(N));
  ir_value *where = graph_op(yes, OP_NonZero, REED_I64, 2, DIMS(1, N), x, GRAPH_END);
  ir_value *index = graph_op(yes, OP_Squeeze, REED_I64, 1, DIMS(N), where, graph_i64(m, 1, DIMS(0)), GRAPH_END);
  graph_result(yes, graph_op(yes, OP_Gather, REED_F32, 1, DIMS(N), x, index, GRAPH_END));
  graph_result(no, x);
  ir_node *loop =
      open_loop(m->main, 3, graph_i64(m, -1, DIMS(2)), NULL, n->outputs[0], graph_i64(m, 1, DIMS(1)), &body);
  graph_type(loop->outputs[0], REED_F32, 1, DIMS(N));
  graph_type(loop->outputs[1], REED_I64, 1, DIMS(1));
  graph_type(loop->outputs[2], REED_F32, 2, DIMS(N, N));
  ir_value *v = graph_param(body, "v", REED_F32, 1, DIMS(N)), *k = graph_param(body, "k", REED_I64, 1, DIMS(1));
  ir_node *top = graph_node(body, OP_TopK, 2, v, k, GRAPH_END);
  graph_type(top->outputs[0], REED_F32, 1, DIMS(N));
  graph_type(top->outputs[1], REED_I64, 1, DIMS(N));
  graph_result(body, graph_bool(m, true));
  graph_result(body, v);
  graph_result(body, graph_op(body, OP_Add, REED_I64, 1, DIMS(1), k, graph_i64(m, 1, DIMS(0)), GRAPH_END));
  graph_result(body, top->outputs[0]);
  for (int i = 0; i < 3; i++) graph_result(m->main, loop->outputs[i]);
  return m;
}

START_TEST(all_kinds_of_items_in_one_module_run) {
  lowered l = graph_lower(everything());
  RUN(l, SPECS(F32(3, 5, 0, 7), BOOL_SCALAR(1)), SPECS(F32(2, 5, 7), I64(1, 1), {REED_F32, 2, {2, 1}, {7, 7}}));
  RUN(l, SPECS(F32(3, 5, 0, 7), BOOL_SCALAR(0)), SPECS(F32(3, 5, 0, 7), I64(1, 1), {REED_F32, 2, {2, 1}, {7, 7}}));
  lowered_close(&l);
}
END_TEST

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing) {
  bool reached = true;
  for (int64_t n = 1; reached; n++) {
    alloc_hook_begin();
    ir_module *m = everything();
    module_memory memory;
    reed_module_sink sink = module_memory_sink(&memory);
    json_writer report = {0};
    alloc_hook_fail_at(n);
    reed_status status = lower_module(m, NULL, &sink, &report, NULL);
    reached = alloc_hook_failed();
    bool unreported = reached && status == REED_OK && !report.text.failed;
    mem_free(memory.bytes);
    json_fini(&report);
    ir_module_close(&m);
    ck_assert_int_eq(alloc_hook_end(), 0);
    ck_assert_msg(!unreported, "failing request %lld went unnoticed", (long long)n);
    ck_assert_msg(reached || status == REED_OK, "status %d without a failed request", status);
    ck_assert_msg(!reached || status == REED_OK || status == REED_ERROR_MEMORY, "status %d after failing request %lld",
                  status, (long long)n);
  }
}
END_TEST

START_TEST(more_operands_than_a_call_may_have_are_refused) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 1, DIMS(N)), *in[REED_MAX_OPERANDS + 1];
  for (int i = 0; i <= REED_MAX_OPERANDS; i++) in[i] = x;
  ir_node *n = ir_node_new(m->main, NULL, op_builtin(OP_Sum), NULL, in, REED_MAX_OPERANDS + 1, NULL, 1);
  ck_assert_ptr_nonnull(n);
  graph_result(m->main, n->outputs[0]);
  module_memory memory;
  reed_module_sink sink = module_memory_sink(&memory);
  ck_assert_int_eq(lower_module(m, NULL, &sink, NULL, NULL), REED_ERROR_UNSUPPORTED);
  ir_module_close(&m);
}
END_TEST

int main(void) {
  Suite *s = suite_create("lower");
  TCase *list = tcase_create("lists"), *branch = tcase_create("If"), *loop = tcase_create("Loop"),
        *failure = tcase_create("failure");
  suite_add_tcase(s, list);
  suite_add_tcase(s, branch);
  suite_add_tcase(s, loop);
  suite_add_tcase(s, failure);
  tcase_add_test(list, a_chain_is_one_epoch_whose_intermediate_tensors_die_inside);
  tcase_add_test(list, inputs_outputs_constants_and_duplicates_are_results_as_they_are);
  tcase_add_test(list, a_symbolic_dim_met_again_must_have_the_same_extent);
  tcase_add_test(list, shape_arithmetic_runs_on_the_host_in_the_same_epoch);
  tcase_add_test(list, a_chain_of_nonzeros_has_one_epoch_a_count);
  tcase_add_test(list, a_bounded_output_of_the_model_is_read_back_after_its_extent);
  tcase_add_test(list, only_the_flagged_value_is_read_back);
  tcase_add_test(list, a_value_that_shapes_and_kernels_read_is_in_both_places);
  tcase_add_test(list, unused_outputs_are_absent_or_die_at_once);
  tcase_add_test(branch, an_if_on_a_model_input_is_two_diamonds_of_one_epoch);
  tcase_add_test(branch, an_if_on_a_device_condition_reads_one_bool_back);
  tcase_add_test(branch, nested_ifs_have_conditions_on_every_path);
  tcase_add_test(branch, values_of_a_branch_that_live_across_epochs_are_tensors_on_both_paths);
  tcase_add_test(loop, a_loop_of_the_largest_trip_count_ends_by_its_condition);
  tcase_add_test(loop, a_loop_whose_trip_count_is_an_extent_needs_no_read_back);
  tcase_add_test(loop, a_loop_with_a_computed_condition_carries_host_and_device_values);
  tcase_add_test(loop, carried_values_that_swap_are_moved_at_once);
  tcase_add_test(loop, loops_nest_in_loops_and_branches);
  tcase_add_test(loop, an_if_in_a_body_is_decided_in_every_iteration);
  tcase_add_test(loop, elements_of_an_unknown_rank_are_joined);
  tcase_add_test(loop, a_loop_that_does_not_fit_its_body_is_refused);
  tcase_add_test(loop, all_kinds_of_items_in_one_module_run);
  tcase_add_test(failure, every_failed_allocation_is_reported_and_leaks_nothing);
  tcase_add_test(failure, more_operands_than_a_call_may_have_are_refused);
  return suite_run(s);
}
