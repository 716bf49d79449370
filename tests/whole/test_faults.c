/* Faults in data: runs on the host and on accelerators, whose kernels can report numbers only, give the same sentence,
 * with the extents of the call's inputs, and the same place. */
#include <check.h>
#include <string.h>

#include "tests/compiler/lower/graph.h"
#include "tests/suite.h"

typedef struct fault_case {
  op_id op;
  const char *sentence, *input;
  spec inputs[7];
  int32_t n_inputs, n_outputs;
  const char *attr;
  int64_t value;
  reed_status status;
} fault_case;

#define T(dtype, rank, d0, d1, d2, d3, ...) \
  { \
    dtype, rank, {d0, d1, d2, d3}, { __VA_ARGS__ } \
  }
#define VALUE REED_ERROR_VALUE

static const fault_case cases[] = {
    {OP_Gather,
     "Gather node 'n': index 9 (element 1) is outside -3..2 "
     "(data f32[3], indices i64[2])",
     "indices",
     {F32(3, 1, 2, 3), I64(2, 0, 9)},
     2,
     1,
     "axis",
     0,
     VALUE},
    {OP_Gather,
     "Gather node 'n': index -4 (element 2) is outside -3..2 "
     "(data f32[3], indices i64[3])",
     "indices",
     {F32(3, 1, 2, 3), I64(3, 0, -3, -4)},
     2,
     1,
     NULL,
     0,
     VALUE},
    {OP_Gather,
     "Gather node 'n': index 0 (element 0) into an axis of extent 0 "
     "(data f32[0,2], indices i64[1])",
     "indices",
     {T(REED_F32, 2, 0, 2, 0, 0), I64(1, 0)},
     2,
     1,
     NULL,
     0,
     VALUE},
    {OP_GatherElements,
     "GatherElements node 'n': index 2 (element 3) is outside -2..1 "
     "(data f32[2,2], indices i32[2,2])",
     "indices",
     {T(REED_F32, 2, 2, 2, 0, 0, 1, 2, 3, 4), T(REED_I32, 2, 2, 2, 0, 0, 0, 1, 1, 2)},
     2,
     1,
     "axis",
     1,
     VALUE},
    {OP_GatherND,
     "GatherND node 'n': index 3 (element 3) is outside -3..2 "
     "(data f32[2,3], indices i64[2,2])",
     "indices",
     {T(REED_F32, 2, 2, 3, 0, 0, 1, 2, 3, 4, 5, 6), T(REED_I64, 2, 2, 2, 0, 0, 1, 2, 1, 3)},
     2,
     1,
     NULL,
     0,
     VALUE},
    {OP_ScatterElements,
     "ScatterElements node 'n': index -4 (element 0) is outside -3..2 "
     "(data f32[3], indices i64[2], updates f32[2])",
     "indices",
     {F32(3, 1, 2, 3), I64(2, -4, 7), F32(2, 5, 6)},
     3,
     1,
     "axis",
     0,
     VALUE},
    {OP_ScatterND,
     "ScatterND node 'n': index 4 (element 1) is outside -3..2 "
     "(data f32[3], indices i64[2,1], updates f32[2])",
     "indices",
     {F32(3, 1, 2, 3), T(REED_I64, 2, 2, 1, 0, 0, 0, 4), F32(2, 5, 6)},
     3,
     1,
     NULL,
     0,
     VALUE},
    {OP_Div,
     "Div node 'n': division of an integer by 0 (element 2) "
     "(A i64[4], B i64[4])",
     "B",
     {I64(4, 1, 2, 3, 4), I64(4, 1, 1, 0, 0)},
     2,
     1,
     NULL,
     0,
     VALUE},
    {OP_Div,
     "Div node 'n': division of an integer by 0 (element 1) "
     "(A i32[2,2], B i32[2])",
     "B",
     {T(REED_I32, 2, 2, 2, 0, 0, 1, 2, 3, 4), T(REED_I32, 1, 2, 0, 0, 0, 3, 0)},
     2,
     1,
     NULL,
     0,
     VALUE},
    {OP_Mod,
     "Mod node 'n': division of an integer by 0 (element 0) "
     "(A i64[3], B i64[1])",
     "B",
     {I64(3, 1, 2, 3), I64(1, 0)},
     2,
     1,
     NULL,
     0,
     VALUE},
    {OP_CumSum,
     "CumSum node 'n': axis -3 is outside -2..1 "
     "(x f32[2,2], axis i64[])",
     "axis",
     {T(REED_F32, 2, 2, 2, 0, 0, 1, 2, 3, 4), I64_SCALAR(-3)},
     2,
     1,
     NULL,
     0,
     VALUE},
    {OP_ReverseSequence,
     "ReverseSequence node 'n': length 3 of sequence 1 is outside 0..2 "
     "(input f32[2,2], sequence_lens i64[2])",
     "sequence_lens",
     {T(REED_F32, 2, 2, 2, 0, 0, 1, 2, 3, 4), I64(2, 1, 3)},
     2,
     1,
     NULL,
     0,
     VALUE},
    {OP_RoiAlign,
     "RoiAlign node 'n': region 1 is of image 2, there are 1 "
     "(X f32[1,1,2,2], rois f32[2,4], batch_indices i64[2])",
     "batch_indices",
     {T(REED_F32, 4, 1, 1, 2, 2, 1, 2, 3, 4), T(REED_F32, 2, 2, 4, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1), I64(2, 0, 2)},
     3,
     1,
     NULL,
     0,
     VALUE},
    {OP_Keypoints,
     "Keypoints node 'n': map 0 cannot be resized to 0.5 by 3 "
     "(maps f32[1,1,2,2], left f32[1], top f32[1], width f32[1], height f32[1], "
     "columns f32[1], rows f32[1])",
     "rows",
     {T(REED_F32, 4, 1, 1, 2, 2, 1, 2, 3, 4), F32(1, 0), F32(1, 0), F32(1, 3), F32(1, 3), F32(1, 3), F32(1, 0.5)},
     7,
     2,
     NULL,
     0,
     VALUE},
    {OP_RNN,
     "RNN node 'n': length 5 of sequence 0 is outside 0..2 "
     "(X f32[2,1,1], W f32[1,1,1], R f32[1,1,1], sequence_lens i32[1])",
     "sequence_lens",
     {T(REED_F32, 3, 2, 1, 1, 0, 1, 2), T(REED_F32, 3, 1, 1, 1, 0, 1), T(REED_F32, 3, 1, 1, 1, 0, 1), F32(0),
      T(REED_I32, 1, 1, 0, 0, 0, 5)},
     5,
     1,
     "hidden_size",
     1,
     VALUE},
};

/* The graph of one node whose operands are the model's inputs. */
static lowered one_node(const fault_case *c) {
  ir_module *m = graph_open();
  ir_value *in[7] = {NULL};
  int32_t n = c->n_inputs;
  for (int32_t i = 0; i < n; i++) {
    bool absent = c->op == OP_RNN && i == 3; /* B */
    in[i] = absent ? NULL : graph_param(m->main, "x", c->inputs[i].dtype, c->inputs[i].rank, c->inputs[i].dims);
  }
  ir_value *end = GRAPH_END;
  ir_node *node = graph_node(m->main, c->op, c->n_outputs, in[0], in[1], n > 2 ? in[2] : end, n > 3 ? in[3] : end,
                             n > 4 ? in[4] : end, n > 5 ? in[5] : end, n > 6 ? in[6] : end, end);
  node->name = "n";
  if (c->attr) ck_assert(ir_set_attr_int(node, c->attr, c->value));
  for (int32_t i = 0; i < c->n_outputs; i++) graph_result(m->main, node->outputs[i]);
  return graph_lower(m);
}

START_TEST(a_fault_is_told_in_the_same_words_on_every_device) {
  const fault_case *c = &cases[_i];
  lowered l = one_node(c);
  spec given[7];
  size_t n = 0;
  for (int32_t i = 0; i < c->n_inputs; i++)
    if (c->op != OP_RNN || i != 3) given[n++] = c->inputs[i];
  lowered_fails(&l, given, n, c->status, "n", c->input, c->sentence);
  lowered_close(&l);
}
END_TEST

/* The kernels that the first failed run left in the memo report the next fault, and a run without a fault succeeds. */
START_TEST(a_session_goes_on_after_a_fault) {
  ir_module *m = graph_open();
  ir_value *data = graph_param(m->main, "data", REED_F32, 1, (int64_t[]){3});
  ir_value *indices = graph_param(m->main, "indices", REED_I64, 1, (int64_t[]){2});
  ir_node *node = graph_node(m->main, OP_Gather, 1, data, indices, GRAPH_END);
  node->name = "pick";
  graph_type(node->outputs[0], REED_F32, 1, (int64_t[]){2});
  graph_result(m->main, node->outputs[0]);
  lowered l = graph_lower(m);
  for (int i = 0; i < 3; i++) {
    lowered_fails(&l, SPECS(F32(3, 1, 2, 3), I64(2, 1, 3)), 2, VALUE, "pick", "indices",
                  "Gather node 'pick': index 3 (element 1) is outside -3..2 (data f32[3], indices i64[2])");
    lowered_fails(&l, SPECS(F32(3, 1, 2, 3), I64(2, -7, 3)), 2, VALUE, "pick", "indices",
                  "Gather node 'pick': index -7 (element 0) is outside -3..2 (data f32[3], indices i64[2])");
    lowered_expect(&l, SPECS(F32(3, 1, 2, 3), I64(2, 2, -3)), 2, SPECS(F32(2, 3, 1)), 1);
  }
  lowered_close(&l);
}
END_TEST

#define PICKED "Gather node 'pick': index 4 (element 1) is outside -3..2 (data f32[3], indices i64[2])"

/* The graph of a Loop whose rounds pick elements of a vector and join them to it: each round has its own extents, and
 * an accelerator gets all rounds before the host waits for it. */
static lowered growing_loop(void) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 1, (int64_t[]){3});
  ir_value *indices = graph_param(m->main, "indices", REED_I64, 1, (int64_t[]){2});
  ir_node *loop = graph_node(m->main, OP_Loop, 1, graph_i64(m, -1, (int64_t[]){3}), NULL, x, GRAPH_END);
  ir_graph *body = ir_graph_new(m, loop, "body");
  graph_type(loop->outputs[0], REED_F32, 1, (int64_t[]){ANY_DIM});
  graph_param(body, "i", REED_I64, 0, NULL);
  graph_param(body, "go", REED_BOOL, 0, NULL);
  ir_value *all = graph_param(body, "all", REED_F32, 1, (int64_t[]){ANY_DIM});
  ir_node *pick = graph_node(body, OP_Gather, 1, all, indices, GRAPH_END);
  pick->name = "pick";
  graph_type(pick->outputs[0], REED_F32, 1, (int64_t[]){2});
  ir_value *joined = graph_op(body, OP_Concat, REED_F32, 1, (int64_t[]){ANY_DIM}, all, pick->outputs[0], GRAPH_END);
  ck_assert(ir_set_attr_int(joined->producer, "axis", 0));
  graph_result(body, graph_bool(m, true));
  graph_result(body, joined);
  graph_result(m->main, loop->outputs[0]);
  return graph_lower(m);
}

/* The extents are those of the round at fault, not of the site's latest call. */
START_TEST(a_fault_in_a_round_is_told_with_the_extents_of_that_round) {
  lowered l = growing_loop();
  for (int i = 0; i < 4; i++) { /* from the memo, later rounds of a session replay graphs */
    lowered_fails(&l, SPECS(F32(3, 1, 2, 3), I64(2, 2, 4)), 2, VALUE, "pick", "indices", PICKED);
    lowered_expect(&l, SPECS(F32(3, 1, 2, 3), I64(2, 2, 0)), 2, SPECS(F32(9, 1, 2, 3, 3, 1, 3, 1, 3, 1)), 1);
  }
  lowered_close(&l);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("faults");
  TCase *tc = tcase_create("faults");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, a_fault_is_told_in_the_same_words_on_every_device, 0, sizeof cases / sizeof *cases);
  tcase_add_test(tc, a_session_goes_on_after_a_fault);
  tcase_add_test(tc, a_fault_in_a_round_is_told_with_the_extents_of_that_round);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
