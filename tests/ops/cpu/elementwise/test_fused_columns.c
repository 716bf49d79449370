/* FusedColumns: programs from columns to columns equal the reference, over rows that join, broadcast and end in odd
 * places, on every device; the bits are those of Fused over the single columns; wrong calls are refused with a reason.
 */
#include <stdio.h>
#include <string.h>

#include "ops/fused.h"
#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

/* Extents of the three tensors: rows..., width (of at least 4, 3 and 1 columns). Rank -1 ends the list. */
typedef struct shape {
  int32_t rank;
  int64_t dims[5];
} shape;
static const shape shapes[][3] = {
    {{1, {4}}, {1, {3}}, {0}},
    {{2, {1, 4}}, {2, {1, 5}}, {1, {1}}},
    {{2, {7, 4}}, {1, {3}}, {2, {7, 1}}},
    {{2, {1000, 4}}, {2, {1000, 4}}, {0}},
    {{3, {13, 5, 4}}, {3, {13, 1, 3}}, {1, {2}}},
    {{3, {1, 17, 6}}, {3, {3, 1, 4}}, {3, {3, 17, 1}}},
    {{4, {2, 3, 5, 4}}, {4, {2, 1, 5, 3}}, {2, {5, 1}}},
    {{5, {2, 1, 3, 2, 4}}, {3, {3, 2, 3}}, {5, {1, 2, 1, 2, 1}}},
    {{2, {2100, 9}}, {2, {1, 3}}, {2, {2100, 1}}},
    {{2, {0, 4}}, {1, {3}}, {0}},
};
#define N_SHAPES (int)(sizeof shapes / sizeof *shapes)

/* A program over six inputs: columns 3, 0 and 2 of the first tensor, 1 and 2 of the second, 0 of the third. */
static const struct {
  const char *program;
  reed_dtype in, to;
  double number;
  int n_results;
  int64_t results[FUSED_RESULTS];
} programs[] = {
    {"Sub 0 1;Mul 6 3;Add 7 4;Exp 5;Mul 8 9", REED_F32, REED_F32, 0, 4, {6, 8, 10, 7}},
    {"Sub 0 1;Mul 6 5", REED_F32, REED_F32, 0, 1, {7}},
    {"Add 2 3;Max 6 4;Min 7 5", REED_F32, REED_F32, 0, 3, {8, 0, 7}},
    {"Add 0 1;LeakyRelu 6 alpha=#0", REED_F32, REED_F32, 0.1, 2, {7, 6}},
    {"Add 0 1;Mul 6 2;Sub 7 3", REED_F16, REED_F16, 0, 5, {6, 7, 8, 4, 6}},
    {"Add 0 1;Mul 6 2;Sub 7 3", REED_BF16, REED_BF16, 0, 2, {8, 7}},
    {"Add 0 1;Mul 6 2;Sub 7 3", REED_F64, REED_F64, 0, 3, {8, 7, 4}},
    {"Mul 0 1;Max 6 2;BitwiseXor 7 3", REED_I64, REED_I64, 0, 2, {8, 5}},
    {"Mul 0 1;Add 6 2;Sub 7 3", REED_I32, REED_I32, 0, 16, {0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2, 3, 4, 5, 6}},
    {"Less 0 1;Greater 2 3;And 6 7;Not 8", REED_F32, REED_BOOL, 0, 3, {8, 9, 6}},
    {"Less 0 1;Where 6 2 3;Cast 7 to=#0", REED_F32, REED_I64, REED_I64, 1, {8}},
    {"Add 0 1;Cast 6 to=#0;Cast 3 to=#0", REED_F32, REED_F16, REED_F16, 2, {7, 8}},
    {"Neg 5;Add 5 5", REED_F32, REED_F32, 0, 2, {6, 7}}, /* the same for all rows where tensor 2 is one number */
};

static const int64_t columns[] = {3, 0, 2, 1, 2, 0};
static const int tensors[] = {0, 0, 0, 1, 1, 2};

/* The results are borrowed. */
static void set_call(kernel_case *c, const char *program, reed_dtype to, const int64_t *results, int64_t n_results) {
  case_attr_string(c, "program", program);
  case_attr_int(c, "to", to);
  case_attr_ints(c, "columns", columns, sizeof columns / sizeof *columns);
  case_attr_ints(c, "results", results, n_results);
}

/* One tensor is an input for each of its columns. */
static void add_inputs(kernel_case *c, reed_dtype dtype, int which) {
  for (int k = 0; k < 6; k++) {
    const shape *s = &shapes[which][tensors[k]];
    value *v = case_input(c, dtype, s->rank, s->dims, 3);
    if (k && tensors[k] == tensors[k - 1] && v->data)
      memcpy(v->data, c->inputs[k - 1].data, (size_t)desc_bytes(&v->desc));
  }
}

START_TEST(programs_equal_the_reference) {
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    kernel_case c;
    case_init(&c, OP_FusedColumns);
    add_inputs(&c, programs[i].in, _i);
    case_attr_floats(&c, "numbers", &programs[i].number, 1);
    set_call(&c, programs[i].program, programs[i].to, programs[i].results, programs[i].n_results);
    const double tolerance = 4 * case_tolerance(programs[i].in == REED_F64   ? REED_F32
                                                : programs[i].to == REED_F16 ? REED_F16
                                                                             : programs[i].in);
    case_parity(&c, tolerance, tolerance * 4);
  }
}
END_TEST

/* Column `column` of v, with the extents [rows..., 1]. */
static void add_column(kernel_case *c, const value *v, int64_t column) {
  int64_t dims[REED_MAX_RANK];
  const int64_t width = v->desc.rank ? v->desc.dims[v->desc.rank - 1] : 1;
  memcpy(dims, v->desc.dims, sizeof dims);
  if (v->desc.rank) dims[v->desc.rank - 1] = 1;
  value *one = case_input(c, v->desc.dtype, v->desc.rank, dims, 0);
  for (int64_t i = 0; i < desc_elements(&one->desc); i++) case_set(one, i, case_get(v, i * width + column));
}

START_TEST(columns_have_the_bits_of_fused) {
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++)
    for (int threads = 1; threads <= 2; threads++) {
      kernel_case c, alone;
      case_init(&c, OP_FusedColumns);
      case_init(&alone, OP_Fused);
      c.n_threads = threads;
      add_inputs(&c, REED_F32, _i);
      set_call(&c, "Sub 0 1;Mul 6 3;Add 7 4;Sigmoid 5;Mul 8 9;Tanh 10", REED_F32, (int64_t[]){11, 10}, 2);
      for (int k = 0; k < 6; k++) add_column(&alone, &c.inputs[k], columns[k]);
      case_attr_string(&alone, "program", "Sub 0 1;Mul 6 3;Add 7 4;Sigmoid 5;Mul 8 9;Tanh 10");
      case_attr_int(&alone, "to", REED_F32);
      ck_assert_int_eq(case_run(&c, cpu_level_name(level)), REED_OK);
      ck_assert_int_eq(case_run(&alone, cpu_level_name(level)), REED_OK);
      for (int64_t i = 0; i < desc_elements(&alone.outputs[0].desc); i++)
        ck_assert_double_eq(case_get(&c.outputs[0], 2 * i), case_get(&alone.outputs[0], i));
      case_close(&c);
      case_close(&alone);
    }
}
END_TEST

START_TEST(a_call_that_is_wrong_is_refused) {
  static const struct {
    const char *program, *says;
    int64_t columns[6], results[3];
    int n_columns, n_results;
    reed_status status;
    reed_dtype to;
  } bad[] = {
      {"Add 0 1", "one column for each input", {0}, {2}, 1, 1, REED_ERROR_VALUE, REED_F32},
      {"Add 0 1", "one column for each input", {0, -1}, {2}, 2, 1, REED_ERROR_VALUE, REED_F32},
      {"Add 0 1", "no column 4", {4, 0}, {2}, 2, 1, REED_ERROR_SHAPE, REED_F32},
      {"Add 0 1", "no value of the program", {0, 0}, {3}, 2, 1, REED_ERROR_VALUE, REED_F32},
      {"Add 0 1", "no value of the program", {0, 0}, {-1}, 2, 1, REED_ERROR_VALUE, REED_F32},
      {"Add 0 1", "no columns, or too many", {0, 0}, {0}, 2, 0, REED_ERROR_VALUE, REED_F32},
      {"Less 0 1", "result 0 is bool, not f32", {0, 0}, {2}, 2, 1, REED_ERROR_TYPE, REED_F32},
      {"Less 0 1", "result 1 is f32, not bool", {0, 0}, {2, 0}, 2, 2, REED_ERROR_TYPE, REED_BOOL},
      {"Clip 0 1 1", "one element", {0, 0}, {2}, 2, 1, REED_ERROR_SHAPE, REED_F32},
      {"Softmax 0", "not element-wise", {0, 0}, {2}, 2, 1, REED_ERROR_VALUE, REED_F32},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    kernel_case c;
    case_init(&c, OP_FusedColumns);
    case_input(&c, REED_F32, DIMS(3, 4), 3);
    case_input(&c, REED_F32, DIMS(2), 3);
    case_attr_string(&c, "program", bad[i].program);
    case_attr_int(&c, "to", bad[i].to);
    case_attr_ints(&c, "columns", bad[i].columns, bad[i].n_columns);
    case_attr_ints(&c, "results", bad[i].results, bad[i].n_results);
    case_fails(&c, bad[i].status, bad[i].says);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("fused_columns");
  TCase *t = tcase_create("fused_columns");
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, programs_equal_the_reference, 0, N_SHAPES);
  tcase_add_host_loop_test(t, columns_have_the_bits_of_fused, 0, N_SHAPES);
  tcase_add_host_test(t, a_call_that_is_wrong_is_refused);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
