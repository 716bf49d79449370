/* A Loop or Scan that runs no round gives scan outputs whose elements have the extents of a first round: declared
 * extents, symbols, extents known at run time; through Ifs and Loops in the body; on host and accelerator, also if the
 * accelerator lacks the operators. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "reed/compiler.h"
#include "reed/reed.h"
#include "tests/compiler/onnx_build.h"
#include "tests/suite.h"
#include "tests/whole/runner.h"

static const int64_t zero = 0, one = 1;

/* Loop(m) in which z stacks `element`; `more`: other nodes of the graph. */
typedef struct unrun {
  const char *what;
  void (*body)(onnx_build *body); /* makes `element` */
  int n_extents;
  int64_t extents[4]; /* the extents of an element, for x of [2,3], shp [4,5], t 7 */
} unrun;

static void make_add(onnx_build *b) { build_node(b, "Add", "x,x", "element"); }

static void make_more(onnx_build *b) {
  build_int(b, build_node(b, "Concat", "x,x", "twice"), "axis", 0);
  build_node(b, "Transpose", "twice", "element");
}

static void make_expanded(onnx_build *b) { build_node(b, "Expand", "half,shp", "element"); }

static void make_expanded_twice(onnx_build *b) {
  build_node(b, "Shape", "x", "sx");
  build_node(b, "Add", "sx,shp", "sum");
  build_node(b, "Expand", "half,sum", "element");
}

static void make_counted(onnx_build *b) { build_node(b, "Add", "places,places", "element"); }

static void make_carried(onnx_build *b) { build_int(b, build_node(b, "Concat", "carried,x", "element"), "axis", 0); }

static void make_chosen(onnx_build *b) {
  onnx_build *yes = build_subgraph(b), *no = build_subgraph(b);
  build_node(yes, "Add", "x,x", "a");
  build_output(yes, "a", "f32");
  build_int(no, build_node(no, "Concat", "x,x", "c"), "axis", 1);
  build_output(no, "c", "f32");
  build_node_t *n = build_node(b, "If", "chosen", "element");
  build_graph_attr(b, n, "then_branch", yes);
  build_graph_attr(b, n, "else_branch", no);
}

static void make_nested(onnx_build *b) {
  onnx_build *inner = build_subgraph(b);
  build_input(inner, "j", "i64[]");
  build_input(inner, "inner_go", "bool[]");
  build_node(inner, "Add", "x,x", "row");
  build_node(inner, "Identity", "inner_go", "inner_go_on");
  build_output(inner, "inner_go_on", "bool[]");
  build_output(inner, "row", "f32");
  build_graph_attr(b, build_node(b, "Loop", "t,", "element"), "body", inner);
}

static const unrun cases[] = {
    {"Add", make_add, 2, {2, 3}},
    {"arithmetic on extents", make_more, 2, {3, 4}},
    {"extents from an input's elements", make_expanded, 2, {4, 5}},
    {"extents from elements computed in the body", make_expanded_twice, 2, {6, 8}},
    {"an extent that a kernel counts", make_counted, 2, {2, 6}},
    {"a carried value", make_carried, 2, {4, 3}},
    {"an If", make_chosen, 2, {2, 6}},
    {"a Loop", make_nested, 3, {7, 2, 3}},
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* Two scan outputs: the element and its first axis's sum. */
static void build_loop(onnx_build *b, const unrun *u) {
  onnx_build *body = build_subgraph(b);
  build_input(body, "i", "i64[]");
  build_input(body, "go", "bool[]");
  build_input(body, "carried", "f32");
  u->body(body);
  build_node(body, "Identity", "go", "go_on");
  build_node(body, "Mul", "carried,two", "carried_on");
  build_node(body, "Neg", "element", "second");
  build_output(body, "go_on", "bool[]");
  build_output(body, "carried_on", "f32");
  build_output(body, "element", "f32");
  build_output(body, "second", "f32");
  build_graph_attr(b, build_node(b, "Loop", "m,,x", "last,z,w"), "body", body);
}

static onnx_build *model_of(const unrun *u, bool fixed, bool in_branch) {
  static const float half = 0.5f, two = 2;
  onnx_build *b = build_open(16);
  build_input(b, "m", "i64[]");
  build_input(b, "x", fixed ? "f32[2,3]" : "f32[n,k]");
  build_input(b, "shp", "i64[2]");
  build_input(b, "t", "i64[]");
  build_input(b, "chosen", "bool[]");
  build_f32(b, "half", "", &half);
  build_f32(b, "two", "", &two);
  build_node(b, "NonZero", "x", "found");
  build_int(b, build_node(b, "Cast", "found", "places"), "to", 1);
  if (in_branch) {
    onnx_build *yes = build_subgraph(b), *no = build_subgraph(b);
    build_loop(yes, u);
    build_output(yes, "z", "f32");
    build_output(yes, "w", "f32");
    build_node(no, "Identity", "x", "x1");
    build_node(no, "Identity", "x", "x2");
    build_output(no, "x1", "f32");
    build_output(no, "x2", "f32");
    build_i64(b, "nothing", "", &zero);
    build_node(b, "GreaterOrEqual", "m,nothing", "any");
    build_node_t *n = build_node(b, "If", "any", "z,w");
    build_graph_attr(b, n, "then_branch", yes);
    build_graph_attr(b, n, "else_branch", no);
  } else {
    build_loop(b, u);
  }
  build_output(b, "z", "f32");
  build_output(b, "w", "f32");
  return b;
}

static reed_tensor *tensor_of(reed_dtype dtype, int32_t rank, const int64_t *dims, const double *elements) {
  reed_tensor *t;
  ck_assert_int_eq(reed_tensor_open(dtype, rank, dims, &t), REED_OK);
  for (int64_t i = 0; i < reed_tensor_elements(t); i++)
    reed_dtype_write(dtype, (char *)reed_tensor_data(t) + (size_t)i * reed_dtype_bytes(dtype), elements[i]);
  return t;
}

static void run(runner *r, double rounds, reed_tensor **outputs, size_t n_outputs, const char *what) {
  reed_tensor *inputs[] = {tensor_of(REED_I64, 0, NULL, &rounds),
                           tensor_of(REED_F32, 2, (int64_t[]){2, 3}, (double[]){1, 2, 3, 4, 5, 6}),
                           tensor_of(REED_I64, 1, (int64_t[]){2}, (double[]){4, 5}),
                           tensor_of(REED_I64, 0, NULL, (double[]){7}), tensor_of(REED_BOOL, 0, NULL, (double[]){0})};
  runner_run(r, inputs, reed_program_input_count(r->program), outputs, n_outputs, what);
  for (int i = 0; i < 5; i++) reed_tensor_close(&inputs[i]);
}

static void check_extents(const reed_tensor *t, int64_t rounds, const unrun *u, const char *device) {
  ck_assert_msg(reed_tensor_rank(t) == u->n_extents + 1, "%s on %s", u->what, device);
  ck_assert_msg(reed_tensor_dims(t)[0] == rounds, "%s on %s", u->what, device);
  for (int i = 0; i < u->n_extents; i++)
    ck_assert_msg(reed_tensor_dims(t)[i + 1] == u->extents[i], "%s on %s: extent %d is %lld, not %lld", u->what, device,
                  i, (long long)reed_tensor_dims(t)[i + 1], (long long)u->extents[i]);
}

static const struct {
  const char *target, *device;
} places[] = {{NULL, "host"}, {NULL, "sim"}, {"sim?lacks=Add+Concat+Neg+Expand", "sim?lacks=Add+Concat+Neg+Expand"}};

START_TEST(elements_have_the_extents_of_a_round) {
  const unrun *u = &cases[_i % N_CASES];
  for (int form = 0; form < 4; form++) {
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
      onnx_build *b = model_of(u, form & 1, form & 2);
      runner r = runner_open(b, &(reed_compile_options){.target = places[p].target}, places[p].device, "unrun");
      for (int turn = 0; turn < 4; turn++) { /* without a round, with two, each twice */
        reed_tensor *outputs[2];
        int64_t rounds = turn & 1 ? 2 : 0;
        run(&r, (double)rounds, outputs, 2, u->what);
        for (int k = 0; k < 2; k++) {
          if (rounds == 0 || u->body != make_carried) check_extents(outputs[k], rounds, u, places[p].device);
          reed_tensor_close(&outputs[k]);
        }
      }
      runner_close(&r);
      build_close(&b);
    }
  }
}
END_TEST

/* Concat(z, Unsqueeze(x)) relies on the extents. */
START_TEST(what_follows_relies_on_them) {
  for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
    onnx_build *b = build_open(16), *body = build_subgraph(b);
    build_input(b, "m", "i64[]");
    build_input(b, "x", "f32[n,k]");
    build_i64(b, "front", "1", &zero);
    build_input(body, "i", "i64[]");
    build_input(body, "go", "bool[]");
    build_node(body, "Add", "x,x", "element");
    build_node(body, "Identity", "go", "go_on");
    build_output(body, "go_on", "bool[]");
    build_output(body, "element", "f32");
    build_graph_attr(b, build_node(b, "Loop", "m,", "z"), "body", body);
    build_node(b, "Unsqueeze", "x,front", "row");
    build_int(b, build_node(b, "Concat", "z,row", "y"), "axis", 0);
    build_output(b, "y", "f32");
    runner r = runner_open(b, &(reed_compile_options){.target = places[p].target}, places[p].device, "unrun");
    for (int64_t rounds = 0; rounds < 3; rounds++) {
      reed_tensor *y;
      run(&r, (double)rounds, &y, 1, "Concat");
      ck_assert_int_eq(reed_tensor_rank(y), 3);
      ck_assert_int_eq(reed_tensor_dims(y)[0], rounds + 1);
      ck_assert_int_eq(reed_tensor_dims(y)[1], 2);
      ck_assert_int_eq(reed_tensor_dims(y)[2], 3);
      for (int i = 0; i < 6; i++) ck_assert_float_eq(((float *)reed_tensor_data(y))[6 * rounds + i], (float)(i + 1));
      reed_tensor_close(&y);
    }
    runner_close(&r);
    build_close(&b);
  }
}
END_TEST

START_TEST(a_scan_of_nothing) {
  for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
    onnx_build *b = build_open(16), *body = build_subgraph(b);
    build_input(b, "start", "f32[n]");
    build_input(b, "x", "f32[t,n]");
    build_i64(b, "front", "1", &one);
    build_input(body, "sum", "f32[n]");
    build_input(body, "next", "f32[n]");
    build_node(body, "Add", "sum,next", "sum_out");
    build_int(body, build_node(body, "Concat", "sum,next", "each"), "axis", 0);
    build_output(body, "sum_out", "f32[n]");
    build_output(body, "each", "f32");
    build_node_t *n = build_node(b, "Scan", "start,x", "y,z");
    build_int(b, n, "num_scan_inputs", 1);
    build_graph_attr(b, n, "body", body);
    build_output(b, "z", "f32");
    runner r = runner_open(b, &(reed_compile_options){.target = places[p].target}, places[p].device, "unrun");
    for (int64_t rows = 0; rows < 3; rows++) {
      reed_tensor *inputs[] = {tensor_of(REED_F32, 1, (int64_t[]){4}, (double[]){1, 2, 3, 4}),
                               tensor_of(REED_F32, 2, (int64_t[]){rows, 4}, (double[]){1, 2, 3, 4, 5, 6, 7, 8})},
                  *z;
      reed_diagnosis *d;
      ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
      reed_status status = reed_session_run(r.session, inputs, 2, &z, 1, d);
      ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(d));
      reed_diagnosis_close(&d);
      ck_assert_int_eq(reed_tensor_dims(z)[0], rows);
      ck_assert_int_eq(reed_tensor_dims(z)[1], 8);
      for (int i = 0; i < 2; i++) reed_tensor_close(&inputs[i]);
      reed_tensor_close(&z);
    }
    runner_close(&r);
    build_close(&b);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("unrun");
  TCase *t = tcase_create("unrun");
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, elements_have_the_extents_of_a_round, 0, N_CASES);
  tcase_add_test(t, what_follows_relies_on_them);
  tcase_add_test(t, a_scan_of_nothing);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
