/* Models that would grow out of proportion, and what is larger than Reed can hold: refused, quickly and by name. */
#include <sys/resource.h>

#include "tests/compiler/front.h"

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
  struct rusage used;
  ck_assert_int_eq(getrusage(RUSAGE_SELF, &used), 0);
  ck_assert_int_lt(used.ru_maxrss, 256 << 10); /* KiB: nothing has been inlined */
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
  front f;
  front_read(&f, &b);
  front_says(&f, REED_ERROR_FORMAT, "or call themselves");
  front_fini(&f);
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

int main(void) {
  Suite *suite = suite_create("onnx_limits");
  TCase *t = tcase_create("onnx_limits");
  tcase_set_timeout(t, 60);
  tcase_add_test(t, functions_that_double_are_counted_before_they_are_inlined);
  tcase_add_test(t, functions_that_call_each_other_in_a_circle_are_refused);
  tcase_add_test(t, a_rank_above_the_largest_names_node_value_and_rank);
  tcase_add_test(t, a_rank_above_the_largest_is_refused_in_a_branch_too);
  tcase_add_test(t, a_loop_that_stacks_to_a_rank_above_the_largest_is_refused);
  suite_add_tcase(suite, t);
  return front_run(suite);
}
