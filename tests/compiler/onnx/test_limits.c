/* Models that would grow out of proportion, and tensors that are larger than Reed's limits: refused quickly, with the
 * node's name. */
#include <sys/resource.h>

#include "tests/compiler/front.h"
#include "tests/suite.h"

/* The process has never held more memory than this limit. Sanitizers keep much more than the program asks for. */
static void check_memory(int64_t mib) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  struct rusage used;
  ck_assert_int_eq(getrusage(RUSAGE_SELF, &used), 0);
  ck_assert_int_lt(used.ru_maxrss, mib << 10);
#else
  (void)mib;
#endif
}

/* y = F0(x), where each of n functions calls the next one twice and the last one is Relu. */
static onnx_build *doubling_functions(int n) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n]");
  for (int i = 0; i < n; i++) {
    onnx_build *body = build_subgraph(b);
    char name[16], next[16];
    snprintf(name, sizeof name, "F%d", i);
    snprintf(next, sizeof next, i + 1 < n ? "F%d" : "Relu", i + 1);
    for (int k = 0; k < 2; k++) {
      build_node_t *call = build_node(body, next, k ? "m" : "p", k ? "q" : "m");
      if (i + 1 < n) call->domain = (char *)"mine";
    }
    build_function(b, "mine", name, "p", "q", "", body);
  }
  build_node(b, "F0", "x", "y")->domain = (char *)"mine";
  build_output(b, "y", "f32[n]");
  return b;
}

START_TEST(functions_that_double_are_counted_before_they_are_inlined) {
  onnx_build *b = doubling_functions(40);
  front f;
  front_read(&f, &b);
  front_says(&f, REED_ERROR_LIMIT, "the model's 40 functions call each other so often that its 81 nodes would become");
  check_memory(256); /* nothing has been inlined */
  front_fini(&f);

  b = doubling_functions(6);
  front_read(&f, &b);
  front_ok(&f);
  ck_assert_int_eq(front_count(&f, OP_Relu), 64);
  front_fini(&f);
}
END_TEST

START_TEST(functions_that_call_each_other_in_a_circle_are_refused) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n]");
  for (int i = 0; i < 3; i++) {
    onnx_build *body = build_subgraph(b);
    char name[16], next[16];
    snprintf(name, sizeof name, "F%d", i);
    snprintf(next, sizeof next, "F%d", (i + 1) % 3);
    build_node(body, next, "p", "q")->domain = (char *)"mine";
    build_function(b, "mine", name, "p", "q", "", body);
  }
  build_node(b, "F0", "x", "y")->domain = (char *)"mine";
  build_output(b, "y", "f32[n]");
  front_refuses(&b, REED_ERROR_FORMAT, "or call themselves");
}
END_TEST

/* ---- ranks ---- */

/* Reads and infers; the model is refused with all of these words. */
static void refused(onnx_build *b, const char *const *words) {
  front f;
  front_read(&f, &b);
  if (f.status == REED_OK) front_passes(&f, NULL);
  for (; *words; words++) front_says(&f, REED_ERROR_UNSUPPORTED, *words);
  front_fini(&f);
}
#define REFUSED(b, ...) refused(b, (const char *const[]){__VA_ARGS__, NULL})

START_TEST(a_rank_above_the_largest_names_node_value_and_rank) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[1,1,1,1,1,1,1,1,n]");
  build_node(b, "Relu", "x", "y");
  build_output(b, "y", "f32");
  REFUSED(b, "an input of rank 9 (up to 8)", "'x'");

  b = build_open(13);
  build_input(b, "x", "f32[n]");
  build_tensor_attr(b, build_node(b, "Constant", "", "k"), "value",
                    build_loose_tensor(b, REED_F32, "1,1,1,1,1,1,1,1,1", (float[]){1}));
  build_node(b, "Add", "x,k", "y");
  build_output(b, "y", "f32");
  REFUSED(b, "constant 'k' of rank 9 (up to 8): 'k_node'");

  b = build_open(13);
  build_input(b, "x", "f32[n]");
  build_f32(b, "w", "1,1,1,1,1,1,1,1,1,1", (float[]){1});
  build_node(b, "Add", "x,w", "y");
  build_output(b, "y", "f32");
  REFUSED(b, "constant 'w' of rank 10 (up to 8)");

  b = build_open(13);
  build_input(b, "x", "f32[n]");
  build_i64(b, "to", "9", (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, -1});
  build_node(b, "Reshape", "x,to", "t");
  build_node(b, "Relu", "t", "y");
  build_output(b, "y", "f32");
  REFUSED(b, "Reshape node 't_node': gives rank 9", "value 't'");

  b = build_open(13);
  build_input(b, "x", "f32[1,1,1,1,1,1,1,n]");
  build_i64(b, "axes", "2", (int64_t[]){0, 1});
  build_node(b, "Unsqueeze", "x,axes", "t");
  build_node(b, "Relu", "t", "y");
  build_output(b, "y", "f32");
  REFUSED(b, "Unsqueeze node 't_node': gives rank 10", "value 't'");
}
END_TEST

START_TEST(a_rank_above_the_largest_is_refused_in_a_branch_too) {
  onnx_build *b = build_open(13), *then = build_subgraph(b), *otherwise = build_subgraph(b);
  build_input(b, "x", "f32[n]");
  build_input(b, "c", "bool[]");
  build_i64(then, "to", "9", (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, -1});
  build_node(then, "Reshape", "x,to", "t");
  build_output(then, "t", "f32");
  build_output(otherwise, "x", "f32");
  build_node_t *n = build_node(b, "If", "c", "y");
  build_graph_attr(b, n, "then_branch", then);
  build_graph_attr(b, n, "else_branch", otherwise);
  build_output(b, "y", "f32");
  REFUSED(b, "Reshape node 't_node': gives rank 9", "value 't'");
}
END_TEST

START_TEST(a_loop_that_stacks_to_a_rank_above_the_largest_is_refused) {
  onnx_build *b = build_open(13), *body = build_subgraph(b);
  build_input(b, "x", "f32[1,1,1,1,1,1,1,n]");
  build_i64(b, "m", "", (int64_t[]){3});
  build_input(body, "i", "i64[]");
  build_input(body, "c", "bool[]");
  build_node(body, "Identity", "c", "d");
  build_node(body, "Relu", "x", "o");
  build_output(body, "d", "bool");
  build_output(body, "o", "f32");
  build_graph_attr(b, build_node(b, "Loop", "m,", "y"), "body", body);
  build_output(b, "y", "f32");
  REFUSED(b, "Loop node 'y_node'", "'y' gets rank 9");
}
END_TEST

/* ---- folding ---- */

/* Bytes of constants that the passes leave in the module. */
static int64_t constant_bytes(const front *f) {
  int64_t bytes = 0;
  reed_desc desc;
  ir_count_uses(f->m);
  for (size_t i = 0; i < f->m->constants.n; i++)
    if (f->m->constants.items[i]->n_uses && ir_desc(f->m->constants.items[i], &desc)) bytes += desc_bytes(&desc);
  return bytes;
}

/* Each of n nodes makes a result at least as large as the result of the node before it, or of two nodes before it. */
static onnx_build *growing(const char *op, int n) {
  onnx_build *b = build_open(13);
  build_f32(b, "c0", "1,8", (float[]){1, 2, 3, 4, 5, 6, 7, 8});
  build_f32(b, "d0", "1,8", (float[]){1, 2, 3, 4, 5, 6, 7, 8});
  build_i64(b, "twice", "2", (int64_t[]){2, 1});
  build_i64(b, "pads", "4", (int64_t[]){1, 0, 1, 0});
  build_i64(b, "wide", "2", (int64_t[]){32768, 8});
  build_f32(b, "scales", "2", (float[]){2, 1});
  for (int i = 0; i < n; i++) {
    char inputs[64], output[16];
    snprintf(output, sizeof output, "c%d", i + 1);
    if (strcmp(op, "Concat") == 0) {
      snprintf(inputs, sizeof inputs, "c%d,c%d", i, i);
      build_int(b, build_node(b, "Concat", inputs, output), "axis", 0);
    } else if (strcmp(op, "ConcatPair") == 0) { /* neither operand is given twice */
      char other[16];
      snprintf(inputs, sizeof inputs, "c%d,d%d", i, i);
      build_int(b, build_node(b, "Concat", inputs, output), "axis", 0);
      snprintf(other, sizeof other, "d%d", i + 1);
      snprintf(inputs, sizeof inputs, "d%d,c%d", i, i);
      build_int(b, build_node(b, "Concat", inputs, other), "axis", 0);
    } else if (strcmp(op, "Tile") == 0) {
      snprintf(inputs, sizeof inputs, "c%d,twice", i);
      build_node(b, "Tile", inputs, output);
    } else if (strcmp(op, "Pad") == 0) {
      snprintf(inputs, sizeof inputs, "c%d,pads", i);
      build_string(b, build_node(b, "Pad", inputs, output), "mode", "edge");
    } else if (strcmp(op, "Resize") == 0) {
      snprintf(inputs, sizeof inputs, "c%d,,scales", i);
      build_node(b, "Resize", inputs, output);
    } else { /* many results of 1 MiB, each of few bytes; all reach the output */
      char from[16], wide[16];
      snprintf(from, sizeof from, "f%d", i);
      snprintf(wide, sizeof wide, "w%d", i);
      build_f32(b, from, "1,8", (float[]){(float)i, 1, 2, 3, 4, 5, 6, 7});
      snprintf(inputs, sizeof inputs, "%s,wide", from);
      build_node(b, "Expand", inputs, wide);
      build_output(b, wide, "f32");
    }
  }
  char last[16];
  snprintf(last, sizeof last, "c%d", strcmp(op, "Expand") == 0 ? 0 : n);
  build_output(b, last, "f32");
  return b;
}

START_TEST(operators_of_constants_do_not_grow_without_end) {
  static const char *const ops[] = {"Concat", "ConcatPair", "Tile", "Pad", "Resize", "Expand"};
  bool many = strcmp(ops[_i], "Expand") == 0 || strcmp(ops[_i], "Pad") == 0;
  onnx_build *b = growing(ops[_i], many ? 300 : 30);
  front f;
  front_read(&f, &b);
  front_ok(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_le(constant_bytes(&f), 17 << 20);
  ck_assert_int_le(f.m->folded_bytes, 80 << 20);
  check_memory(256);
  front_fini(&f);
}
END_TEST

/* Weights go through several operators: every operator is folded, and no constant between two operators stays. */
START_TEST(weights_go_through_several_operators) {
  enum { ROWS = 1024, COLUMNS = 1024, STEPS = 6 };
  float *weights = calloc(ROWS * COLUMNS, sizeof *weights);
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n,1024]");
  build_f32(b, "w0", "1024,1024", weights);
  for (int i = 0; i < STEPS; i++) {
    char from[16], to[16];
    snprintf(from, sizeof from, "w%d", i);
    snprintf(to, sizeof to, "w%d", i + 1);
    build_node(b, i % 2 ? "Neg" : "Transpose", from, to);
  }
  build_node(b, "MatMul", "x,w6", "y");
  build_output(b, "y", "f32");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(f.m->main->nodes.n, 1);
  ck_assert_int_le(constant_bytes(&f), (int64_t)ROWS * COLUMNS * 4 + 1024);
  front_fini(&f);
  free(weights);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("onnx_limits");
  TCase *t = tcase_create("onnx_limits");
  tcase_set_timeout(t, 60);
  tcase_add_test(t, functions_that_double_are_counted_before_they_are_inlined);
  tcase_add_test(t, functions_that_call_each_other_in_a_circle_are_refused);
  tcase_add_test(t, a_rank_above_the_largest_names_node_value_and_rank);
  tcase_add_test(t, a_rank_above_the_largest_is_refused_in_a_branch_too);
  tcase_add_test(t, a_loop_that_stacks_to_a_rank_above_the_largest_is_refused);
  tcase_add_loop_test(t, operators_of_constants_do_not_grow_without_end, 0, 6);
  tcase_add_test(t, weights_go_through_several_operators);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
