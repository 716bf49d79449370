/* Long lines, which threads share out by parts: results near the reference's, and the same bits for any number of
 * threads. */
#include <math.h>
#include <stdlib.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

static const struct {
  op_id op;
  reed_dtype dtype;
  int32_t rank;
  int64_t x[3], axis;
  const char *flag; /* an attribute that is 1 */
  double tolerance;
} lines[] = {
    {OP_CumSum, REED_F32, 2, {1, 20001}, 1, NULL, 1e-5},
    {OP_CumSum, REED_F32, 2, {17000, 2}, 0, "reverse", 1e-5},
    {OP_CumSum, REED_F64, 1, {20000}, 0, "exclusive", 1e-12},
    {OP_CumSum, REED_I64, 2, {1, 20000}, 1, "reverse", 0},
    {OP_CumSum, REED_I8, 2, {20000, 1}, 0, NULL, 0},
    {OP_ArgMax, REED_F32, 2, {2, 50001}, 1, NULL, 0},
    {OP_ArgMax, REED_I8, 2, {60000, 3}, 0, "select_last_index", 0},
    {OP_ArgMin, REED_F16, 1, {70000}, 0, NULL, 0},
    {OP_ArgMax, REED_F32, 3, {2, 4500, 41}, 1, NULL, 0},
    {OP_ArgMin, REED_F32, 2, {20001, 16}, 0, "select_last_index", 0},
    {OP_ArgMax, REED_I64, 2, {3000, 50}, 0, NULL, 0},
    {OP_ArgMax, REED_I8, 2, {17000, 33}, 0, "select_last_index", 0},
    {OP_ReduceSum, REED_F32, 2, {3, 150000}, 1, NULL, 1e-5},
    {OP_ReduceSum, REED_F32, 2, {70000, 5}, 0, NULL, 1e-5},
    {OP_ReduceMax, REED_I32, 3, {2, 30000, 40}, 1, NULL, 0},
    {OP_ReduceMean, REED_F16, 3, {2, 50000, 3}, 1, NULL, 1e-3},
    {OP_ReduceSum, REED_I64, 3, {400, 3, 500}, 0, NULL, 0},
    {OP_ReduceLogSumExp, REED_F32, 2, {3, 9000}, 1, NULL, 1e-5},
    {OP_ReduceLogSumExp, REED_F32, 2, {30000, 3}, 0, NULL, 1e-5},
    {OP_ReduceLogSumExp, REED_F32, 3, {2, 5000, 32}, 1, NULL, 1e-5},
    {OP_ReduceLogSumExp, REED_F32, 2, {900, 300}, 0, NULL, 1e-5},
    {OP_ReduceLogSumExp, REED_F16, 2, {3000, 50}, 0, NULL, 1e-2},
    {OP_ReduceL2, REED_F64, 1, {300000}, 0, NULL, 1e-12},
    {OP_Softmax, REED_F32, 2, {2, 90001}, 1, NULL, 1e-5},
    {OP_LogSoftmax, REED_F32, 2, {1, 70000}, 1, NULL, 1e-5},
    {OP_Softmax, REED_F32, 2, {40000, 8}, 0, NULL, 1e-5},
    {OP_Softmax, REED_F32, 2, {40001, 3}, 0, NULL, 1e-5},
    {OP_Softmax, REED_F32, 3, {2, 1000, 70}, 1, NULL, 1e-5},
    {OP_LogSoftmax, REED_F32, 3, {2, 1300, 130}, 1, NULL, 1e-5},
    {OP_Hardmax, REED_F32, 2, {2, 50001}, 1, NULL, 0},
    {OP_Hardmax, REED_F32, 2, {40000, 3}, 0, NULL, 0},
    {OP_Hardmax, REED_F64, 2, {2, 50001}, 1, NULL, 0},
    {OP_Hardmax, REED_F64, 2, {40000, 3}, 0, NULL, 0},
    {OP_LpNormalization, REED_F32, 2, {2, 50001}, 1, NULL, 1e-6},
    {OP_LpNormalization, REED_F32, 2, {40000, 3}, 0, "p", 1e-6},
    {OP_LpNormalization, REED_F32, 3, {2, 17000, 71}, 1, NULL, 1e-6},
    {OP_LpNormalization, REED_F32, 3, {300, 5, 3}, 1, "p", 1e-6},
    {OP_LayerNormalization, REED_F32, 2, {2, 90001}, 1, NULL, 1e-4},
    {OP_RMSNormalization, REED_F32, 2, {3, 70000}, 1, NULL, 1e-4},
    {OP_InstanceNormalization, REED_F32, 3, {2, 3, 70000}, 0, NULL, 1e-4},
    {OP_GroupNormalization, REED_F32, 3, {2, 6, 26000}, 0, NULL, 1e-4},
    {OP_BatchNormalization, REED_F32, 3, {2, 2, 70000}, 0, NULL, 1e-4},
    {OP_TopK, REED_F32, 2, {2, 50001}, 1, NULL, 0},
    {OP_TopK, REED_I64, 2, {40000, 2}, 0, "largest", 0},
    {OP_TopK, REED_F32, 2, {2, 20000}, 1, NULL, 0}, /* all elements */
    {OP_TopK, REED_F64, 2, {20000, 2}, 0, "largest", 0},
    {OP_TopK, REED_F16, 2, {1, 20000}, 1, "largest", 0},
    {OP_TopK, REED_I64, 2, {1, 20000}, 1, NULL, 0},
    {OP_TopK, REED_U8, 2, {1, 30000}, 1, "largest", 0},
    {OP_TopK, REED_F64, 2, {1, 60000}, 1, NULL, 0},
    {OP_GroupNormalization, REED_F32, 3, {2, 10006, 5}, 0, NULL, 1e-4},
    {OP_GroupNormalization, REED_F32, 3, {1, 2000, 63}, 0, NULL, 1e-4},
    {OP_InstanceNormalization, REED_F32, 3, {3, 5001, 7}, 0, NULL, 1e-4},
    {OP_LayerNormalization, REED_F32, 2, {20001, 3}, 1, NULL, 1e-4},
    {OP_ReduceLogSumExp, REED_F32, 2, {20001, 3}, 1, NULL, 1e-5},
    {OP_CumSum, REED_F32, 3, {1, 16500, 9}, 1, "reverse", 1e-5},
    {OP_CumSum, REED_I32, 3, {2, 500, 19}, 1, "exclusive", 0},
    {OP_CumSum, REED_F64, 3, {1, 17000, 70}, 1, "exclusive", 1e-11},
    {OP_CumSum, REED_BF16, 2, {1, 17001}, 1, "reverse", 0.1},
    {OP_CumSum, REED_F32, 2, {60000, 3}, 1, "reverse", 1e-6},
    {OP_CumSum, REED_F16, 3, {3, 40, 3000}, 1, "exclusive", 1e-2},
    {OP_Softmax, REED_F64, 2, {2, 20001}, 1, NULL, 1e-12},
    {OP_LogSoftmax, REED_F64, 2, {9000, 3}, 0, NULL, 1e-12},
    {OP_LpNormalization, REED_F64, 2, {1, 50000}, 1, "p", 1e-12},
    {OP_Softmax, REED_F64, 3, {3, 700, 50}, 1, NULL, 1e-12},
    {OP_LayerNormalization, REED_F64, 2, {2, 40001}, 1, NULL, 1e-10},
    {OP_RMSNormalization, REED_F64, 2, {3, 20000}, 1, NULL, 1e-10},
    {OP_InstanceNormalization, REED_F64, 3, {2, 3, 20000}, 0, NULL, 1e-10},
    {OP_GroupNormalization, REED_F64, 3, {2, 6, 5000}, 0, NULL, 1e-10},
    {OP_BatchNormalization, REED_F64, 3, {2, 2, 30000}, 0, NULL, 1e-10},
    {OP_BatchNormalization, REED_F32, 3, {3, 2, 30000}, 0, "training_mode", 1e-6},
    {OP_BatchNormalization, REED_F64, 3, {3, 5, 999}, 0, "training_mode", 1e-10},
    {OP_BatchNormalization, REED_F32, 2, {4000, 30}, 0, "training_mode", 1e-6},
    {OP_Pad, REED_F32, 2, {2, 30001}, 1, "reflect", 0},
    {OP_Pad, REED_F64, 1, {1000}, 0, "wrap", 0},
    {OP_Pad, REED_I8, 2, {3, 9000}, 1, "edge", 0},
    {OP_Pad, REED_F16, 2, {300, 700}, 1, "constant", 0},
};

static void add_vector(kernel_case *c, int64_t n, double least) {
  value *v = case_input(c, c->inputs[0].desc.dtype, DIMS(n), 1);
  for (int64_t i = 0; i < n; i++) case_set(v, i, fabs(case_get(v, i)) + least);
}

static void make(kernel_case *c, int row) {
  op_id op = lines[row].op;
  const int64_t *x = lines[row].x;
  int32_t last = lines[row].rank - 1;
  case_init(c, op);
  case_input(c, lines[row].dtype, lines[row].rank, x, 10);
  if (lines[row].flag && op != OP_Pad) case_attr_int(c, lines[row].flag, 1);
  switch (op) {
    case OP_Pad: /* of every axis, but mostly of the last one */
      case_attr_string(c, "mode", lines[row].flag);
      if (lines[row].rank == 1) case_ints(c, 2, 30000, 20001);
      else case_ints(c, 4, 1, 20000, 2, 9001);
      break;
    case OP_CumSum: case_scalar(c, REED_I64, (double)lines[row].axis); break;
    case OP_TopK:
      c->n_outputs = 2;
      case_ints(c, 1, 20000);
      case_attr_int(c, "axis", lines[row].axis);
      if (!lines[row].flag) case_attr_int(c, "largest", 0);
      break;
    case OP_LayerNormalization:
      add_vector(c, x[last], 0.5);
      add_vector(c, x[last], -0.5);
      break;
    case OP_RMSNormalization: add_vector(c, x[last], 0.5); break;
    case OP_BatchNormalization:
    case OP_InstanceNormalization:
    case OP_GroupNormalization:
      for (int i = 0; i < (op == OP_BatchNormalization ? 4 : 2); i++) add_vector(c, x[1], 0.5);
      if (op == OP_GroupNormalization) case_attr_int(c, "num_groups", 2);
      break;
    case OP_Softmax:
    case OP_LogSoftmax:
    case OP_Hardmax:
    case OP_LpNormalization:
    case OP_ArgMax:
    case OP_ArgMin: case_attr_int(c, "axis", lines[row].axis); break;
    default: case_ints(c, 1, (int)lines[row].axis);
  }
}

START_TEST(long_lines_do_not_depend_on_the_number_of_threads) {
  static const int threads[] = {1, 2, 3, 7};
  kernel_case c;
  make(&c, _i);
  /* (TopK's reference takes hours) */
  ck_assert_int_eq(case_run(&c, lines[_i].op == OP_TopK ? cpu_level_name(cpu_level_best()) : "reference"), REED_OK);
  int64_t n = desc_elements(&c.outputs[0].desc), bytes = desc_bytes(&c.outputs[0].desc);
  double *expected = malloc((size_t)n * sizeof *expected);
  char *bits = malloc((size_t)bytes);
  for (int64_t i = 0; i < n; i++) expected[i] = case_get(&c.outputs[0], i);
  for (int t = 0; t < ROWS(threads); t++) {
    c.n_threads = threads[t];
    ck_assert_int_eq(case_run(&c, cpu_level_name(cpu_level_best())), REED_OK);
    for (int64_t i = 0; i < n && t == 0; i++) {
      double got = case_get(&c.outputs[0], i), most = lines[_i].tolerance * (1 + fabs(expected[i]));
      ck_assert_msg(fabs(got - expected[i]) <= most, "%s: element %lld is %.9g, the reference's %.9g", case_where(&c),
                    (long long)i, got, expected[i]);
    }
    if (t == 0) memcpy(bits, c.outputs[0].data, (size_t)bytes);
    ck_assert_msg(memcmp(bits, c.outputs[0].data, (size_t)bytes) == 0, "%s: not the bits of one thread",
                  case_where(&c));
  }
  free(bits);
  free(expected);
  case_close(&c);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("long lines");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_host_loop_test(t, long_lines_do_not_depend_on_the_number_of_threads, 0, ROWS(lines));
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
