/* The run of all passes: passes left out, and the graph as text. */
#include "tests/compiler/front.h"
#include "tests/compiler/passes/squeeze_if_one.h"
#include "tests/suite.h"

START_TEST(disabled_passes_do_not_run) {
  onnx_build *b = squeeze_if_one("f32[1,k]");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  front_passes(&f, "simplify");
  front_ok(&f);
  ck_assert_int_eq(front_count(&f, OP_If), 1);
  ck_assert_int_eq(f.run.totals[pass_find("simplify")].n_runs, 0);
  front_fini(&f);
}
END_TEST

START_TEST(the_graph_prints_as_text) {
  onnx_build *b = squeeze_if_one("f32[n,k]");
  front f;
  front_optimize(&f, &b);
  text_buffer text = {0};
  ir_print(f.m, &text);
  ck_assert(!text.failed);
  ck_assert_ptr_nonnull(strstr(text.data, "graph main(x: f32[n,k])"));
  ck_assert_ptr_nonnull(strstr(text.data, "y: f32[..] = If 'y_node' (c)"));
  ck_assert_ptr_nonnull(strstr(text.data, "    graph test()\n"));
  text_fini(&text);
  front_fini(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("passes");
  TCase *t = tcase_create("passes");
  tcase_add_test(t, disabled_passes_do_not_run);
  tcase_add_test(t, the_graph_prints_as_text);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
