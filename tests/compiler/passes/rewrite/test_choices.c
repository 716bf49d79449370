/* accumulate, keypoints, chosen_class, gathered_columns, whole_index, plain_forms: each fires, and leaves near misses
 * alone. */
#include "tests/compiler/front.h"
#include "tests/compiler/passes/rewrite/appending.h"
#include "tests/compiler/passes/rewrite/choices.h"
#include "tests/compiler/passes/rewrite/columns.h"
#include "tests/compiler/passes/rewrite/forms.h"
#include "tests/compiler/passes/rewrite/whole.h"
#include "tests/compiler/passes/rewrite/heatmaps.h"
#include "tests/suite.h"

START_TEST(a_loop_that_appends_gives_its_parts_as_a_scan_output) {
  bool taken = _i < APPENDING_TAKEN;
  onnx_build *b = appending_loop((appending)_i);
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_changes(&f, "accumulate"), taken);
  const ir_node *n = front_node(&f, OP_Loop);
  ck_assert_int_eq(n->n_inputs, taken ? 2 : 3);
  ck_assert_int_eq(n->regions[0]->n_params, taken ? 2 : 3);
  ck_assert_int_eq(n->regions[0]->n_results, 2);
  static const char *const types[] = {"f32[n,3]", "f32[n*2,3]", "f32[n*2,3]", "f32[n,n]"};
  const ir_value *result = f.m->main->results[0];
  if (_i == APPENDING_GROWING)
    ck_assert(result->type.rank == 2 && symbol_is(result->type.dims[0]) && result->type.dims[1] == 3);
  else if (taken) ck_assert_str_eq(front_type(&f, result), types[_i]);
  front_fini(&f);
}
END_TEST

START_TEST(a_loop_that_reads_points_off_maps_becomes_one_operator) {
  bool taken = _i < HEATMAPS_TAKEN;
  onnx_build *b = heatmaps_loop((heatmaps)_i);
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_changes(&f, "keypoints"), taken);
  ck_assert_int_eq(front_count(&f, OP_Keypoints), taken);
  ck_assert_int_eq(front_count(&f, OP_Loop), !taken);
  if (taken) {
    const ir_node *n = front_node(&f, OP_Keypoints);
    ck_assert_str_eq(front_type(&f, n->outputs[0]), "f32[n,3,3]");
    ck_assert_str_eq(front_type(&f, n->outputs[1]), "f32[n,3]");
    ck_assert_str_eq(n->inputs[1]->name, "left");
    ck_assert_str_eq(n->inputs[2]->name, "top");
    ck_assert_str_eq(n->inputs[5]->name, "columns");
    reed_attrs attrs = ir_attrs(n); /* Keypoints reads the maps with channels last, as the convolution stores them */
    ck_assert_int_eq(reed_attrs_int(&attrs, "channels_last", 0), 1);
    ck_assert_int_eq(front_count(&f, OP_Transpose), 0);
  }
  front_fini(&f);
}
END_TEST

START_TEST(maps_of_all_classes_become_maps_of_the_chosen_ones) {
  bool taken = _i < CHOICE_TAKEN;
  onnx_build *b = choice_open((choice)_i);
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_changes(&f, "chosen_class"), taken);
  ck_assert_int_eq(front_count(&f, OP_Conv), taken ? 1 : 2);
  ck_assert_int_eq(front_count(&f, OP_MatMul), taken);
  if (taken) {
    ck_assert_int_eq(front_count(&f, OP_Transpose),
                     0); /* MatMul reads the features as the first convolution stores them */
    ck_assert_str_eq(front_type(&f, f.m->main->results[0]), _i == CHOICE_OF_PLANES ? "f32[n,6,8]" : "f32[n,48]");
  }
  front_fini(&f);
}
END_TEST

START_TEST(columns_taken_one_by_one_become_rows) {
  const struct column_case *c = &column_cases[_i];
  front f;
  onnx_build *b = picture_open(&c->p);
  front_optimize(&f, &b);
  ck_assert_msg(front_changes(&f, "gathered_columns") == c->turned, "%s: %lld", c->p.what,
                (long long)front_changes(&f, "gathered_columns"));
  ck_assert_int_eq(front_count(&f, OP_Transpose), c->turned > 0);
  if (c->turned) {
    const ir_node *gather = front_node(&f, OP_Gather);
    reed_attrs attrs = ir_attrs(gather);
    ck_assert_ptr_eq(gather->inputs[0], front_node(&f, OP_Transpose)->outputs[0]);
    ck_assert_int_eq(reed_attrs_int(&attrs, "axis", -1), 0);
  }
  front_fini(&f);
}
END_TEST

START_TEST(operators_on_single_numbers_get_cheaper_forms) {
  const struct form_case *c = &form_cases[_i];
  front f;
  onnx_build *b = picture_open(&c->p);
  front_optimize(&f, &b);
  ck_assert_msg(front_changes(&f, "plain_forms") == c->changed, "%s: %lld", c->p.what,
                (long long)front_changes(&f, "plain_forms"));
  if (c->changed) /* each case that changes has one of these and keeps none */
    ck_assert_int_eq(front_count(&f, OP_Concat) + front_count(&f, OP_ReduceMax) + front_count(&f, OP_GatherND) +
                         front_count(&f, OP_Transpose),
                     0);
  front_fini(&f);
}
END_TEST

START_TEST(matrices_gathered_whole_are_views) {
  const whole_case *c = &whole_cases[_i];
  onnx_build *b = whole_open(c);
  front f;
  front_optimize(&f, &b);
  ck_assert_msg(front_changes(&f, "whole_index") == c->reads_whole, "%s", c->what);
  if (c->reads_whole) ck_assert_msg(front_count(&f, OP_Range) + front_count(&f, OP_Gather) == 0, "%s", c->what);
  front_fini(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("loops and choices");
  TCase *t = tcase_create("rewrites");
  tcase_add_loop_test(t, a_loop_that_appends_gives_its_parts_as_a_scan_output, 0, N_APPENDING);
  tcase_add_loop_test(t, a_loop_that_reads_points_off_maps_becomes_one_operator, 0, N_HEATMAPS);
  tcase_add_loop_test(t, maps_of_all_classes_become_maps_of_the_chosen_ones, 0, N_CHOICES);
  tcase_add_loop_test(t, columns_taken_one_by_one_become_rows, 0, N_COLUMN_CASES);
  tcase_add_loop_test(t, matrices_gathered_whole_are_views, 0, N_WHOLE_CASES);
  tcase_add_loop_test(t, operators_on_single_numbers_get_cheaper_forms, 0, N_FORM_CASES);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
