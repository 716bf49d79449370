/* Counts that stay on the device (reed_compile_options.counts): operators run at the bound, results are the
 * bits of the run that fetches every count, a count is not part of a key, and operators that need the count get it. On
 * the host, on sim and on the emulated GPU. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reed/compiler.h"
#include "reed/reed.h"
#include "tests/compiler/onnx_build.h"
#include "tests/suite.h"
#include "tests/whole/counts.h"

/* NonMaxSuppression -> Gather -> RoiAlign -> element-wise, and a Transpose of the boxes kept. */
static onnx_build *chain_open(void) {
  onnx_build *b = kept_regions_open(16, 3, 2);
  build_i64(b, "axis1", "1", (int64_t[]){1});
  build_f32(b, "half", "", (float[]){0.5f});
  build_node(b, "Mul", "parts,half", "halves");
  build_node(b, "Sigmoid", "halves", "y");
  build_node(b, "Unsqueeze", "regions,axis1", "tall");
  build_ints(b, build_node(b, "Transpose", "tall", "turned"), "perm", "1,2,0");
  build_node(b, "Neg", "turned", "z");
  build_output(b, "y", "f32");
  build_output(b, "z", "f32");
  return b;
}

START_TEST(a_chain_of_a_counted_result_runs_at_the_bound_with_the_same_bits) {
  onnx_build *b = chain_open();
  runner runners[N_RUNNERS];
  runners_open(b, runners);
  ck_assert_int_eq(figure(runners[BOUND_SIM].report, "at_bound"), 8);
  ck_assert_int_eq(figure(runners[EXACT_SIM].report, "at_bound"), 0);
  static const struct {
    int64_t n;
    int share;
  } cases[] = {{30, 100}, {30, 50}, {30, 0}, {1, 100}, {1, 0}, {0, 100}, {300, 100}, {300, 10}, {2, 100}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    reed_tensor *inputs[3];
    scene(cases[k].n, cases[k].share, (uint32_t)k + 1, inputs);
    int64_t rows;
    run_all(runners, n_runners(), inputs, 3, &rows);
    if (cases[k].share == 0 || cases[k].n == 0) ck_assert_int_eq(rows, 0);
    else ck_assert_int_gt(rows, 0);
    for (int i = 0; i < 3; i++) reed_tensor_close(&inputs[i]);
  }
  runners_close(runners);
  build_close(&b);
}
END_TEST

/* After run `number` (from 0): the first one enqueues its launches, the second one records the graphs, and each later
 * one replays them, whatever its count is. */
static void check_graphs(const runner *r, int number) {
  const int64_t captured = statistic(r, "captured");
  ck_assert_int_eq(captured > 0, number > 0);
  ck_assert_int_eq(statistic(r, "replayed"), number > 0 ? (number - 1) * captured : 0);
  ck_assert_int_eq(statistic(r, "moved"), 0);
  ck_assert_int_eq(statistic(r, "refused"), 0);
}

START_TEST(another_count_is_no_other_key_and_is_fetched_once) {
  onnx_build *b = chain_open();
  runner runners[N_RUNNERS];
  runners_open(b, runners);
  int64_t rows_before = -1;
  for (int share = 100; share >= 0; share -= 25) {
    reed_tensor *inputs[3];
    scene(60, share, 7, inputs);
    int64_t rows;
    run_all(runners, n_runners(), inputs, 3, &rows);
    ck_assert_int_ne(rows, rows_before);
    rows_before = rows;
    for (int i = 0; i < 3; i++) reed_tensor_close(&inputs[i]);
    /* all but the first run hit, though every run has another count; fetching it makes it a key of the next epoch */
    ck_assert_int_eq(statistic(&runners[BOUND_SIM], "misses"), 1);
    ck_assert_int_gt(statistic(&runners[EXACT_SIM], "misses"), (100 - share) / 25 + 1);
    ck_assert_int_eq(mentions(&runners[BOUND_SIM], "\"extent\""), 1);
    check_graphs(&runners[BOUND_SIM], (100 - share) / 25);
    if (!cuda_is_present()) continue;
    ck_assert_int_eq(statistic(&runners[BOUND_CUDA], "misses"), 1);
    ck_assert_int_eq(mentions(&runners[BOUND_CUDA], "\"extent\""), 1);
    check_graphs(&runners[BOUND_CUDA], (100 - share) / 25);
  }
  runners_close(runners);
  build_close(&b);
}
END_TEST

/* NonZero [rank, n]: the bounded axis is not the first. */
START_TEST(elements_found_by_nonzero_are_gathered_at_the_bound) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[p,q]");
  build_f32(b, "zero", "", (float[]){0});
  build_node(b, "Greater", "x,zero", "mask");
  build_node(b, "NonZero", "mask", "found");
  build_ints(b, build_node(b, "Transpose", "found", "rows"), "perm", "1,0");
  build_node(b, "GatherND", "x,rows", "values");
  build_node(b, "Exp", "values", "y");
  build_output(b, "y", "f32[?]");
  runner runners[N_RUNNERS];
  runners_open(b, runners);
  ck_assert_int_eq(figure(runners[BOUND_SIM].report, "at_bound"), 3);
  static const int64_t extents[][2] = {{3, 5}, {1, 1}, {0, 4}, {7, 1}, {40, 33}};
  for (size_t k = 0; k < sizeof extents / sizeof *extents; k++)
    for (int sign = -1; sign <= 1; sign++) {
      reed_tensor *x = tensor_of(2, extents[k]);
      float *data = reed_tensor_data(x);
      for (int64_t i = 0; i < extents[k][0] * extents[k][1]; i++)
        data[i] = sign ? (float)(sign * (i % 9)) * 0.25f : (float)(i % 5) - 2;
      run_all(runners, n_runners(), &x, 1, NULL);
      reed_tensor_close(&x);
    }
  runners_close(runners);
  build_close(&b);
}
END_TEST

/* The counted axis behind others, before others and between them: in broadcasts, in gathered data and indices, in
 * transposed tensors. */
START_TEST(a_count_may_stand_at_any_axis) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[p,q]");
  build_input(b, "w", "f32[3,m]");
  build_f32(b, "zero", "", (float[]){0});
  build_f32(b, "weights", "3,1,1", (float[]){0.5f, -2, 3});
  build_i64(b, "factors", "2,1", (int64_t[]){3, 5});
  build_i64(b, "mixed", "3", (int64_t[]){1, 0, -1});
  build_i64(b, "second", "1", (int64_t[]){1});
  build_node(b, "Greater", "x,zero", "mask");
  build_node(b, "NonZero", "mask", "found");
  build_node(b, "Mul", "found,factors", "scaled");
  build_int(b, build_node(b, "Gather", "scaled,mixed", "a"), "axis", 0);
  build_ints(b, build_node(b, "Transpose", "found", "rows"), "perm", "1,0");
  build_int(b, build_node(b, "Gather", "rows,second", "b"), "axis", 1);
  build_int(b, build_node(b, "Gather", "w,rows", "taken"), "axis", 1);
  build_node(b, "Add", "taken,weights", "sum");
  build_node(b, "Exp", "sum", "c");
  build_ints(b, build_node(b, "Transpose", "c", "d"), "perm", "2,0,1");
  build_output(b, "a", "i64");
  build_output(b, "b", "i64");
  build_output(b, "c", "f32");
  build_output(b, "d", "f32");
  runner runners[N_RUNNERS];
  runners_open(b, runners);
  ck_assert_int_ge(figure(runners[BOUND_SIM].report, "at_bound"), 7);
  static const int64_t extents[][2] = {{3, 5}, {1, 1}, {0, 4}, {7, 9}};
  for (size_t k = 0; k < sizeof extents / sizeof *extents; k++)
    for (int sign = -1; sign <= 1; sign++) {
      reed_tensor *inputs[2] = {tensor_of(2, extents[k]), tensor_of(2, (int64_t[]){3, 9})};
      float *x = reed_tensor_data(inputs[0]), *w = reed_tensor_data(inputs[1]);
      for (int64_t i = 0; i < extents[k][0] * extents[k][1]; i++)
        x[i] = sign ? (float)(sign * (i % 9)) * 0.25f : (float)(i % 5) - 2;
      for (int i = 0; i < 27; i++) w[i] = (float)(i % 8) * 0.125f;
      run_all(runners, n_runners(), inputs, 2, NULL);
      for (int i = 0; i < 2; i++) reed_tensor_close(&inputs[i]);
    }
  runners_close(runners);
  build_close(&b);
}
END_TEST

/* Operators that need the count: the count itself, TopK of all rows, a sum of two different counts. */
START_TEST(operators_that_need_the_count_get_it) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[p,q]");
  build_f32(b, "zero", "", (float[]){0});
  build_node(b, "Greater", "x,zero", "mask");
  build_node(b, "NonZero", "mask", "found");
  build_ints(b, build_node(b, "Transpose", "found", "rows"), "perm", "1,0");
  build_node(b, "GatherND", "x,rows", "values");
  build_node(b, "Sqrt", "values", "roots");
  build_node(b, "Shape", "roots", "count");
  build_int(b, build_node(b, "Concat", "roots,values", "twice"), "axis", 0);
  build_int(b, build_node(b, "TopK", "twice,count", "largest,places"), "axis", 0);
  build_int(b, build_node(b, "ReduceSum", "values", "sum"), "keepdims", 0);
  build_output(b, "largest", "f32[?]");
  build_output(b, "twice", "f32[?]");
  build_output(b, "sum", "f32[]");
  runner runners[N_RUNNERS];
  runners_open(b, runners);
  ck_assert_int_eq(figure(runners[BOUND_SIM].report, "at_bound"), 4); /* the joined rows, too */
  for (int k = 0; k < 6; k++) {
    reed_tensor *x = tensor_of(2, (int64_t[]){4, 3 + k});
    float *data = reed_tensor_data(x);
    for (int i = 0; i < 4 * (3 + k); i++) data[i] = k == 3 ? -1 : (float)((i * (k + 5)) % 11) - 4;
    run_all(runners, n_runners(), &x, 1, NULL);
    reed_tensor_close(&x);
  }
  runners_close(runners);
  build_close(&b);
}
END_TEST

/* Two counts in one element-wise operator: equal by chance only, so both are fetched. */
START_TEST(two_counts_do_not_meet_at_the_bound) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n]");
  build_input(b, "w", "f32[n]");
  build_node(b, "NonZero", "x", "fx");
  build_node(b, "NonZero", "w", "fw");
  build_node(b, "Add", "fx,fw", "y");
  build_output(b, "y", "i64[1,?]");
  runner runners[N_RUNNERS];
  runners_open(b, runners);
  ck_assert_int_eq(figure(runners[BOUND_SIM].report, "at_bound"), 0);
  reed_tensor *inputs[2] = {tensor_of(1, (int64_t[]){6}), tensor_of(1, (int64_t[]){6})};
  memcpy(reed_tensor_data(inputs[0]), (float[]){0, 1, 0, 2, 3, 0}, 24);
  memcpy(reed_tensor_data(inputs[1]), (float[]){1, 0, 5, 0, 0, 7}, 24);
  run_all(runners, n_runners(), inputs, 2, NULL);
  for (int i = 0; i < 2; i++) reed_tensor_close(&inputs[i]);
  runners_close(runners);
  build_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("counts");
  TCase *cases = tcase_create("counts");
  tcase_set_timeout(cases, 60);
  suite_add_tcase(suite, cases);
  tcase_add_test(cases, a_chain_of_a_counted_result_runs_at_the_bound_with_the_same_bits);
  tcase_add_test(cases, another_count_is_no_other_key_and_is_fetched_once);
  tcase_add_test(cases, elements_found_by_nonzero_are_gathered_at_the_bound);
  tcase_add_test(cases, a_count_may_stand_at_any_axis);
  tcase_add_test(cases, operators_that_need_the_count_get_it);
  tcase_add_test(cases, two_counts_do_not_meet_at_the_bound);
  return suite_run(suite);
}
