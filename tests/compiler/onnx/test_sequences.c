/* Sequences become their items: the items, lengths and joined items of folded models, and the nodes that are refused.
 * Whole models with sizes of a run, and Loops, are in tests/random/sequences.py. */
#include "tests/compiler/front.h"
#include "tests/suite.h"

enum { MOST_STEPS = 6 };

/* A node: its operator, inputs, output, and up to two integer attributes. */
typedef struct step {
  const char *op, *inputs, *output, *attribute;
  int64_t value;
  const char *second;
  int64_t second_value;
} step;

/* The model's constants are x: f32[5,2] = 0..9; y: f32[1,2] = 10, 11; no = false; whole numbers n1 = -1, 0, 1, 2, 3; v
 * = [2,3]. */
static onnx_build *build(const step *steps) {
  static const char *const names[] = {"n1", "0", "1", "2", "3"};
  onnx_build *b = build_open(17);
  float x[12];
  for (int i = 0; i < 12; i++) x[i] = (float)i;
  build_tensor(b, "x", REED_F32, "5,2", x, true);
  build_tensor(b, "y", REED_F32, "1,2", x + 10, true);
  for (int64_t i = 0; i < 5; i++) build_tensor(b, names[i], REED_I64, "", &(int64_t){i - 1}, true);
  build_tensor(b, "v", REED_I64, "2", (int64_t[]){2, 3}, true);
  build_tensor(b, "no", REED_BOOL, "", &(bool){false}, true);
  build_input(b, "i", "i64[]");
  for (int i = 0; i < MOST_STEPS && steps[i].op; i++) {
    build_node_t *n = build_node(b, steps[i].op, steps[i].inputs, steps[i].output);
    if (steps[i].attribute) build_int(b, n, steps[i].attribute, steps[i].value);
    if (steps[i].second) build_int(b, n, steps[i].second, steps[i].second_value);
  }
  return b;
}

static const struct {
  step steps[MOST_STEPS];
  const char *type, *elements; /* of z */
} cases[] = {
    {{{"SplitToSequence", "x,2", "s"}, {"SequenceAt", "s,1", "z"}}, "f32[2,2]", "4 5 6 7"},
    {{{"SplitToSequence", "x,2", "s"}, {"SequenceAt", "s,n1", "z"}}, "f32[1,2]", "8 9"},
    {{{"SplitToSequence", "x,2", "s"}, {"SequenceLength", "s", "z"}}, "i64[]", "3"},
    {{{"SplitToSequence", "x,v", "s"}, {"SequenceAt", "s,0", "z"}}, "f32[2,2]", "0 1 2 3"},
    {{{"SplitToSequence", "x,v", "s"}, {"SequenceLength", "s", "z"}}, "i64[]", "2"},
    {{{"SplitToSequence", "x", "s", "axis", -1}, {"SequenceAt", "s,1", "z"}}, "f32[5,1]", "1 3 5 7 9"},
    {{{"SplitToSequence", "x", "s", "axis", 1, "keepdims", 0}, {"SequenceAt", "s,0", "z"}}, "f32[5]", "0 2 4 6 8"},
    {{{"SplitToSequence", "x", "s", "keepdims", 0}, {"SequenceLength", "s", "z"}}, "i64[]", "5"},
    {{{"SplitToSequence", "y", "s", "keepdims", 0}, {"ConcatFromSequence", "s", "z", "axis", 0, "new_axis", 1}},
     "f32[1,2]",
     "10 11"},
    {{{"SplitToSequence", "y,2", "s", "axis", 1}, {"ConcatFromSequence", "s", "z", "axis", -1}}, "f32[1,2]", "10 11"},
    {{{"SequenceConstruct", "y,y", "s"}, {"ConcatFromSequence", "s", "z", "axis", 1}}, "f32[1,4]", "10 11 10 11"},
    {{{"SequenceConstruct", "x,y", "s"}, {"SequenceErase", "s,0", "t"}, {"ConcatFromSequence", "t", "z", "axis", 0}},
     "f32[1,2]",
     "10 11"},
    {{{"SequenceConstruct", "y,y", "s"}, {"ConcatFromSequence", "s", "z", "axis", -1, "new_axis", 1}},
     "f32[1,2,2]",
     "10 10 11 11"},
    {{{"SequenceEmpty", "", "e"},
      {"SequenceInsert", "e,x", "s"},
      {"SequenceInsert", "s,y,0", "t"},
      {"Identity", "t", "u"},
      {"SequenceAt", "u,0", "z"}},
     "f32[1,2]",
     "10 11"},
    {{{"SequenceEmpty", "", "e"},
      {"SequenceInsert", "e,x", "s"},
      {"SequenceInsert", "s,y", "t"},
      {"SequenceErase", "t", "u"},
      {"SequenceLength", "u", "z"}},
     "i64[]",
     "1"},
};

START_TEST(items_are_those_that_onnx_defines) {
  front f;
  onnx_build *b = build(cases[_i].steps);
  build_output(b, "z", *cases[_i].type == 'i' ? "i64" : "f32");
  front_read(&f, &b);
  front_ok(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  const ir_value *z = f.m->main->results[0];
  ck_assert_str_eq(front_type(&f, z), cases[_i].type);
  ck_assert_msg(ir_is_constant(z), "case %d is not folded", _i);
  reed_desc desc;
  char got[64] = "";
  ck_assert(ir_desc(z, &desc));
  for (int64_t i = 0; i < desc_elements(&desc); i++)
    snprintf(got + strlen(got), sizeof got - strlen(got), "%s%g", i ? " " : "",
             desc.dtype == REED_I64 ? (double)((const int64_t *)z->data)[i] : (double)((const float *)z->data)[i]);
  ck_assert_str_eq(got, cases[_i].elements);
  front_fini(&f);
}
END_TEST

static const struct {
  step steps[MOST_STEPS];
  reed_status status;
  const char *text;
} refused[] = {
    {{{"SequenceConstruct", "x,y", "s"}, {"SequenceAt", "s,2", "z"}},
     REED_ERROR_FORMAT,
     "node 'z_node' (SequenceAt): place 2 in a sequence of 2 items"},
    {{{"SequenceConstruct", "x", "s"}, {"SequenceErase", "s,n1", "t"}, {"SequenceErase", "t", "z"}},
     REED_ERROR_FORMAT,
     "node 'z_node' (SequenceErase): the sequence is empty"},
    {{{"SequenceEmpty", "", "s"}, {"ConcatFromSequence", "s", "z"}}, REED_ERROR_FORMAT, "the sequence is empty"},
    {{{"SequenceAt", "x,0", "z"}}, REED_ERROR_FORMAT, "node 'z_node' (SequenceAt): input 0 is no sequence"},
    {{{"SequenceAt", ",0", "z"}}, REED_ERROR_FORMAT, "node 'z_node' (SequenceAt): input 0 is missing"},
    {{{"SequenceConstruct", "x", "s"}, {"SequenceAt", "s", "z"}},
     REED_ERROR_FORMAT,
     "node 'z_node' (SequenceAt) has 1 inputs and 1 outputs, 2 to 2 inputs and one output are needed"},
    {{{"SplitToSequence", "x", "s", "axis", 2}, {"SequenceAt", "s,0", "z"}},
     REED_ERROR_FORMAT,
     "axis 2 of a tensor of rank 2"},
    {{{"SequenceConstruct", "x,y", "s"}, {"SequenceAt", "s,i", "z"}},
     REED_ERROR_UNSUPPORTED,
     "a place in a list of tensors that is no constant number: 'z_node'"},
    {{{"SequenceConstruct", "x", "s"}, {"Relu", "s", "z"}},
     REED_ERROR_UNSUPPORTED,
     "a sequence as input of Relu: 'z_node'"},
    {{{"SequenceConstruct", "x", "s"}, {"SequenceConstruct", "s", "z"}},
     REED_ERROR_UNSUPPORTED,
     "a sequence of sequences: 'z_node'"},
    {{{"SequenceConstruct", "x", "z"}}, REED_ERROR_UNSUPPORTED, "an output that is no tensor: 'z'"},
    {{{"SplitToSequence", "x,2", "s"}, {"SequenceInsert", "s,y", "t"}, {"SequenceAt", "t,0", "z"}},
     REED_ERROR_UNSUPPORTED,
     "SequenceInsert into the parts of a tensor: 't_node'"},
    {{{"SplitToSequence", "x,2", "s"}, {"ConcatFromSequence", "s", "z", "axis", 1}},
     REED_ERROR_UNSUPPORTED,
     "ConcatFromSequence of a tensor's parts along another axis: 'z_node'"},
};

START_TEST(other_uses_are_refused) {
  front f;
  onnx_build *b = build(refused[_i].steps);
  build_output(b, "z", "");
  front_read(&f, &b);
  front_says(&f, refused[_i].status, refused[_i].text);
  front_fini(&f);
}
END_TEST

START_TEST(a_part_that_the_tensor_has_not_is_left_to_the_run) {
  front f;
  onnx_build *b = build((const step[MOST_STEPS]){{"SplitToSequence", "x,2", "s"}, {"SequenceAt", "s,3", "z"}});
  build_output(b, "z", "f32");
  front_read(&f, &b);
  front_ok(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(front_count(&f, OP_Gather), 1); /* which refuses the position */
  front_fini(&f);
}
END_TEST

/* A Loop of `count` rounds that carries a sequence from p to `to` by the steps of its body, goes on if the body's value
 * `goes_on` is true, and has the length of the sequence, and the tensor `scanned` of each round (NULL: none). */
static onnx_build *build_loop(const char *count, const step *steps, const char *to, const char *goes_on,
                              const char *scanned) {
  onnx_build *b = build((const step[MOST_STEPS]){{"SequenceEmpty", "", "e"}}), *body = build_subgraph(b);
  build_input(body, "k", "i64[]");
  build_input(body, "c", "bool[]");
  build_input(body, "p", "");
  for (int i = 0; i < MOST_STEPS && steps[i].op; i++) build_node(body, steps[i].op, steps[i].inputs, steps[i].output);
  build_node(body, "Identity", goes_on, "d");
  build_output(body, "d", "bool[]");
  build_output(body, to, "");
  if (scanned) build_output(body, scanned, "");
  char inputs[16];
  snprintf(inputs, sizeof inputs, "%s,,e", count);
  build_graph_attr(b, build_node(b, "Loop", inputs, scanned ? "s,w" : "s"), "body", body);
  build_node(b, "SequenceLength", "s", "z");
  build_output(b, "z", "i64");
  if (scanned) build_output(b, "w", "i64");
  return b;
}

START_TEST(a_loop_appends_one_item_a_round) {
  static const struct {
    step steps[MOST_STEPS];
    const char *to;
    bool taken;
  } bodies[] = {
      {{{"SequenceInsert", "p,x", "q"}}, "q", true},
      {{{"Identity", "p", "r"}, {"SequenceInsert", "r,k", "t"}, {"Identity", "t", "q"}}, "q", true},
      {{{"SequenceInsert", "p,x", "r"}, {"SequenceInsert", "r,x", "q"}}, "q", false},
      {{{"SequenceInsert", "p,x,0", "q"}}, "q", false},
      {{{"SequenceInsert", "p,x", "q"}, {"SequenceLength", "p", "l"}}, "q", false},
      {{{"SequenceInsert", "p,x", "q"}, {"SequenceLength", "q", "l"}}, "q", false},
      {{{"Relu", "x", "l"}}, "p", false},
  };
  front f;
  onnx_build *b = build_loop("i", bodies[_i].steps, bodies[_i].to, "c", NULL);
  front_read(&f, &b);
  if (bodies[_i].taken) front_ok(&f);
  else front_says(&f, REED_ERROR_UNSUPPORTED, "other than an empty one to which each round appends an item: 's_node'");
  front_fini(&f);
}
END_TEST

static int64_t number_of(const front *f, int32_t result) {
  const ir_value *v = f->m->main->results[result];
  ck_assert(ir_is_constant(v) && v->type.dtype == REED_I64);
  return *(const int64_t *)v->data;
}

/* A constant number of rounds: the sequence is a list, whatever its body does with it. */
START_TEST(rounds_of_a_constant_number_are_read_one_by_one) {
  static const struct {
    const char *count;
    step steps[MOST_STEPS];
    const char *to;
    int64_t length;
  } bodies[] = {
      {"2", {{"SequenceInsert", "p,x", "q"}}, "q", 2},
      {"3", {{"SequenceInsert", "p,x", "r"}, {"SequenceInsert", "r,y,0", "q"}}, "q", 6},
      {"2", {{"SequenceInsert", "p,x,0", "q"}, {"SequenceLength", "p", "l"}}, "q", 2},
      {"3", {{"SequenceInsert", "p,x", "q"}, {"SequenceInsert", "q,y", "r"}, {"SequenceErase", "r,0", "t"}}, "t", 3},
      {"3", {{"Relu", "x", "l"}}, "p", 0},
      {"0", {{"SequenceInsert", "p,x", "q"}}, "q", 0},
  };
  front f;
  onnx_build *b = build_loop(bodies[_i].count, bodies[_i].steps, bodies[_i].to, "c", NULL);
  front_read(&f, &b);
  front_ok(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(number_of(&f, 0), bodies[_i].length);
  ck_assert_int_eq(front_count(&f, OP_Loop), 0);
  front_fini(&f);
}
END_TEST

/* The rounds' numbers, and the lengths before them, as scan outputs. */
START_TEST(rounds_have_scan_outputs) {
  static const step steps[MOST_STEPS] = {{"SequenceLength", "p", "l"},
                                         {"Add", "k,l", "a"},
                                         {"SequenceInsert", "p,x", "r"},
                                         {"SequenceInsert", "r,x", "q"}};
  front f;
  onnx_build *b = build_loop("3", steps, "q", "c", "a");
  front_read(&f, &b);
  front_ok(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  const ir_value *w = f.m->main->results[1];
  ck_assert_str_eq(front_type(&f, w), "i64[3]");
  ck_assert(ir_is_constant(w));
  for (int64_t i = 0; i < 3; i++) ck_assert_int_eq(((const int64_t *)w->data)[i], i + 2 * i);
  ck_assert_int_eq(number_of(&f, 0), 6);
  front_fini(&f);
}
END_TEST

START_TEST(rounds_that_may_end_the_loop_are_refused) {
  static const step steps[MOST_STEPS] = {{"SequenceInsert", "p,x,0", "q"}, {"Not", "c", "n"}};
  static const struct {
    const char *count, *goes_on, *scanned, *text;
  } loops[] = {
      {"3", "n", NULL, "other than an empty one to which each round appends an item: 's_node'"},
      {"3", "no", NULL, "a Loop with a sequence whose body ends it: 's_node'"},
      {"0", "c", "k", "a scan output of a Loop without rounds: 's_node'"},
      {"3", "c", "q", "a sequence as a scan output of a Loop: 's_node'"},
  };
  front f;
  onnx_build *b = build_loop(loops[_i].count, steps, "q", loops[_i].goes_on, loops[_i].scanned);
  front_read(&f, &b);
  front_says(&f, REED_ERROR_UNSUPPORTED, loops[_i].text);
  front_fini(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("onnx_sequences");
  TCase *t = tcase_create("onnx_sequences");
  tcase_add_loop_test(t, items_are_those_that_onnx_defines, 0, (int)(sizeof cases / sizeof *cases));
  tcase_add_loop_test(t, other_uses_are_refused, 0, (int)(sizeof refused / sizeof *refused));
  tcase_add_test(t, a_part_that_the_tensor_has_not_is_left_to_the_run);
  tcase_add_loop_test(t, a_loop_appends_one_item_a_round, 0, 7);
  tcase_add_loop_test(t, rounds_of_a_constant_number_are_read_one_by_one, 0, 6);
  tcase_add_test(t, rounds_have_scan_outputs);
  tcase_add_loop_test(t, rounds_that_may_end_the_loop_are_refused, 0, 4);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
