/* Fused: the bits of its operators run one after the other, over shapes that join, broadcast, span rows and end in odd
 * places; equal to the reference; wrong programs are refused with a reason. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/fused.h"
#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

/* Extents of inputs 0 (which all others broadcast to), 1, 2 and 3. Rank -1 ends the list. */
typedef struct shape {
  int32_t rank;
  int64_t dims[5];
} shape;
static const shape shapes[][4] = {
    {{0}, {0}, {0}, {0}},
    {{1, {1}}, {0}, {1, {1}}, {0}},
    {{1, {7}}, {1, {7}}, {0}, {1, {1}}},
    {{2, {3, 5}}, {1, {5}}, {2, {3, 1}}, {0}},
    {{3, {2, 3, 300}}, {2, {3, 1}}, {1, {300}}, {3, {2, 1, 1}}},
    {{4, {2, 7, 3, 4}}, {3, {7, 1, 1}}, {1, {4}}, {4, {2, 7, 3, 4}}},
    {{4, {1, 5, 13, 17}}, {4, {1, 5, 1, 1}}, {4, {1, 1, 13, 17}}, {0}},
    {{3, {3, 1, 1111}}, {3, {1, 1, 1111}}, {0}, {3, {3, 1, 1}}},
    {{2, {0, 3}}, {1, {3}}, {0}, {2, {0, 1}}},
    {{2, {4001, 3}}, {2, {4001, 1}}, {1, {3}}, {0}},
};
#define N_SHAPES (int)(sizeof shapes / sizeof *shapes)

static void add_inputs(kernel_case *c, reed_dtype dtype, int which, int n) {
  for (int k = 0; k < n; k++) case_input(c, dtype, shapes[which][k].rank, shapes[which][k].dims, 3);
}

static void set_program(kernel_case *c, const char *program, reed_dtype to) {
  case_attr_string(c, "program", program);
  case_attr_int(c, "to", to);
}

/* A copy of v at the end of c's inputs. */
static void add_value(kernel_case *c, const value *v) {
  value *copy = case_input(c, v->desc.dtype, v->desc.rank, v->desc.dims, 0);
  if (copy->data) memcpy(copy->data, v->data, (size_t)desc_bytes(&v->desc));
}

static void same_bits(const value *a, const value *b, const char *what, int which) {
  ck_assert(desc_equal(&a->desc, &b->desc));
  size_t bytes = reed_dtype_bytes(a->desc.dtype);
  for (int64_t i = 0; i < desc_elements(&a->desc); i++)
    if (memcmp((char *)a->data + (size_t)i * bytes, (char *)b->data + (size_t)i * bytes, bytes) != 0 &&
        !(isnan(case_get(a, i)) && isnan(case_get(b, i))))
      ck_abort_msg("%s, shapes %d: element %lld is %.9g, not %.9g", what, which, (long long)i, case_get(a, i),
                   case_get(b, i));
}

/* ---- one step ---- */

static void check_one(op_id op, reed_dtype dtype, int which, const char *level) {
  const reed_op *row = op_builtin(op);
  int32_t n = fused_operands(row);
  char program[64];
  kernel_case alone, fused;
  case_init(&alone, op);
  case_init(&fused, OP_Fused);
  static const char *const operands[] = {"", " 0", " 0 1", " 0 1 2"};
  snprintf(program, sizeof program, "%s%s%s", row->name, operands[n],
           op == OP_BitShift ? " direction=LEFT"
           : op == OP_Cast   ? " to=#0"
                             : "");
  if (op == OP_BitShift) case_attr_string(&alone, "direction", "LEFT");
  if (op == OP_Cast) case_attr_int(&alone, "to", REED_I32);
  const double numbers[] = {REED_I32};
  if (op == OP_Cast) case_attr_floats(&fused, "numbers", numbers, 1);
  for (int32_t k = 0; k < n; k++) {
    bool bound = op == OP_Clip && k > 0;
    value *v = case_input(&alone, op == OP_Where && k == 0 ? REED_BOOL : dtype, bound ? 0 : shapes[which][k].rank,
                          shapes[which][k].dims, 3);
    bool divides = (op == OP_Div || op == OP_Mod) && k > 0;
    for (int64_t i = 0; divides && i < desc_elements(&v->desc); i++)
      if (case_get(v, i) == 0) case_set(v, i, 2);
    add_value(&fused, v);
  }
  ck_assert_int_eq(case_run(&alone, level), REED_OK);
  set_program(&fused, program, alone.outputs[0].desc.dtype);
  reed_status status = case_run(&fused, level);
  ck_assert_msg(status == REED_OK, "%s of %s: %s", program, reed_dtype_name(dtype),
                reed_diagnosis_message(&fused.diagnosis));
  same_bits(&fused.outputs[0], &alone.outputs[0], program, which);
  case_close(&alone);
  case_close(&fused);
}

START_TEST(every_operator_is_the_same_inside) {
  for (op_id op = 0; op < OP_COUNT; op++) {
    if (!op_has(op_builtin(op), OP_PROPERTY_FUSABLE)) continue;
    for (reed_dtype dtype = REED_F32; dtype < REED_DTYPE_COUNT; dtype++)
      for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++)
        if (op_builtin(op)->inputs[op == OP_Where].dtypes >> dtype & 1) check_one(op, dtype, _i, cpu_level_name(level));
  }
}
END_TEST

/* ---- many steps ---- */

static uint32_t next(uint32_t *seed, uint32_t n) {
  *seed = *seed * 1664525u + 1013904223u;
  return (*seed >> 8) % n;
}

/* A random program over 4 inputs, and its steps run one by one by their operators. The last step takes input 0, which
 * has all the extents. */
static void check_random(uint32_t seed, int which, const char *level, int threads) {
  static const op_id unary[] = {OP_Abs,       OP_Exp,  OP_Neg,      OP_Relu, OP_Sigmoid, OP_Tanh, OP_Erf,
                                OP_HardSwish, OP_Gelu, OP_Softplus, OP_Sqrt, OP_Round,   OP_Sin};
  static const op_id binary[] = {OP_Add, OP_Sub, OP_Mul, OP_Div, OP_Max, OP_Min, OP_PRelu, OP_Pow};
  kernel_case fused, alone[12];
  int n_steps = 1 + (int)next(&seed, 12);
  char program[512] = "";
  case_init(&fused, OP_Fused);
  fused.n_threads = threads;
  add_inputs(&fused, REED_F32, which, 4);
  for (int j = 0; j < n_steps; j++) {
    bool last = j == n_steps - 1, two = last || next(&seed, 2);
    op_id op = two ? binary[next(&seed, last ? 6 : 6)] : unary[next(&seed, 13)];
    int operands[2] = {(int)next(&seed, 4 + (uint32_t)j), (int)next(&seed, 4 + (uint32_t)j)};
    if (last) operands[0] = 0;
    case_init(&alone[j], op);
    for (int k = 0; k < 1 + two; k++)
      add_value(&alone[j], operands[k] < 4 ? &fused.inputs[operands[k]] : &alone[operands[k] - 4].outputs[0]);
    ck_assert_int_eq(case_run(&alone[j], level), REED_OK);
    size_t n = strlen(program);
    n += (size_t)snprintf(program + n, sizeof program - n, "%s%s %d", j ? ";" : "", op_builtin(op)->name, operands[0]);
    if (two) snprintf(program + n, sizeof program - n, " %d", operands[1]);
  }
  set_program(&fused, program, REED_F32);
  reed_status status = case_run(&fused, level);
  ck_assert_msg(status == REED_OK, "%s: %s", program, reed_diagnosis_message(&fused.diagnosis));
  same_bits(&fused.outputs[0], &alone[n_steps - 1].outputs[0], program, which);
  for (int j = 0; j < n_steps; j++) case_close(&alone[j]);
  case_close(&fused);
}

START_TEST(a_program_gives_the_bits_of_its_operators) {
  for (uint32_t seed = 1; seed <= 60; seed++)
    for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++)
      check_random(seed * 977, _i, cpu_level_name(level), 1 + (int)seed % 2);
}
END_TEST

static const struct {
  const char *program;
  reed_dtype in, to;
  double number;
} programs[] = {
    {"Add 0 1;Mul 4 2;Sub 5 3", REED_F32, REED_F32, 0},
    {"Add 0 1;Sigmoid 4;Mul 5 4;LeakyRelu 6 alpha=#0", REED_F32, REED_F32, 0.1},
    {"Add 0 1;Mul 4 2;Add 3 5", REED_F16, REED_F16, 0},
    {"Add 0 1;Mul 4 2;Add 3 5", REED_BF16, REED_BF16, 0},
    {"Add 0 1;Mul 4 2;Cast 5 to=#0;Cast 3 to=#0;Add 6 7", REED_F64, REED_F32, REED_F32},
    {"Add 0 1;Less 4 2;Greater 0 3;And 5 6;Where 7 0 4", REED_F32, REED_F32, 0},
    {"Add 0 1;Less 4 2;Cast 5 to=#0;Mul 3 6", REED_F32, REED_F32, REED_F32},
    {"Mul 0 1;Max 4 2;BitwiseXor 5 3", REED_I64, REED_I64, 0},
    {"Add 2 3;Add 0 1", REED_F32, REED_F32, 0}, /* the first step's result is not used, and its inputs are small */
    {"Mul 2 2;Neg 4;Add 1 5;Add 0 6", REED_F32, REED_F32, 0},
    {"Add 0 1;Gelu 4 approximate=tanh;Mul 5 2;Cast 6 to=#0", REED_F32, REED_F16, REED_F16},
    {"Cast 0 to=#0;Cast 4 to=#0;Mul 4 5", REED_F16, REED_F32, REED_F32},
};

START_TEST(programs_equal_the_reference) {
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    kernel_case c;
    case_init(&c, OP_Fused);
    add_inputs(&c, programs[i].in, _i, 4);
    case_attr_floats(&c, "numbers", &programs[i].number, 1);
    set_program(&c, programs[i].program, programs[i].to);
    double tolerance = 4 * case_tolerance(programs[i].in == REED_F64         ? REED_F32
                                          : programs[i].in != programs[i].to ? REED_F16
                                                                             : programs[i].in);
    case_parity(&c, tolerance, tolerance * 4);
  }
}
END_TEST

/* ---- refused programs ---- */

START_TEST(a_program_that_is_wrong_is_refused) {
  static const struct {
    const char *program, *says;
    reed_status status;
    reed_dtype to;
  } bad[] = {
      {"", "not element-wise", REED_ERROR_VALUE, REED_F32},
      {"Frobnicate 0 1", "not element-wise", REED_ERROR_VALUE, REED_F32},
      {"Softmax 0", "not element-wise", REED_ERROR_VALUE, REED_F32},
      {"Add 0", "missing", REED_ERROR_VALUE, REED_F32},
      {"Add 0 1 2", "out of place", REED_ERROR_VALUE, REED_F32},
      {"Add 0 2", "out of place", REED_ERROR_VALUE, REED_F32},
      {"Add 0 99999999999999999999", "out of place", REED_ERROR_VALUE, REED_F32},
      {"Add 0 -1", "out of place", REED_ERROR_VALUE, REED_F32},
      {"Add 0 1;", "not element-wise", REED_ERROR_VALUE, REED_F32},
      {"Add 0 1;Neg 3", "out of place", REED_ERROR_VALUE, REED_F32},
      {"Elu 0 beta=#0", "no such attribute", REED_ERROR_VALUE, REED_F32},
      {"Elu 0 alpha=#1", "no such number", REED_ERROR_VALUE, REED_F32},
      {"Elu 0 alpha=1", "no such number", REED_ERROR_VALUE, REED_F32},
      {"Selu 0 gamma=#0 alpha=#0", "not in order", REED_ERROR_VALUE, REED_F32},
      {"Gelu 0 approximate=averyveryverylongword", "too long", REED_ERROR_VALUE, REED_F32},
      {"Gelu 0 approximate=no", "not known", REED_ERROR_VALUE, REED_F32},
      {"Cast 0 to=#0", "do not fit", REED_ERROR_TYPE, REED_F32}, /* number 0.5: no dtype */
      {"Where 0 1 1", "do not fit", REED_ERROR_TYPE, REED_F32},
      {"Less 0 1", "gives bool", REED_ERROR_TYPE, REED_F32},
      {"Less 0 1;Add 0 2", "do not fit", REED_ERROR_TYPE, REED_F32},
      {"BitwiseNot 0", "no such formula", REED_ERROR_UNSUPPORTED, REED_F32},
      {"Clip 0 1 1", "one element", REED_ERROR_SHAPE, REED_F32},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    kernel_case c;
    case_init(&c, OP_Fused);
    case_input(&c, REED_F32, DIMS(3, 2), 3);
    case_input(&c, REED_F32, DIMS(2), 3);
    case_attr_floats(&c, "numbers", (double[]){0.5}, 1);
    set_program(&c, bad[i].program, bad[i].to);
    case_fails(&c, bad[i].status, bad[i].says);
  }
  char program[1024] = "Neg 0";
  for (int i = 0; i < FUSED_STEPS; i++) strcat(program, ";Neg 0");
  kernel_case c;
  case_init(&c, OP_Fused);
  case_input(&c, REED_F32, DIMS(3), 3);
  set_program(&c, program, REED_F32);
  case_fails(&c, REED_ERROR_VALUE, "too many steps");
}
END_TEST

START_TEST(what_is_written_is_read) {
  fused_text text = {0};
  reed_attr attrs[2] = {{.name = "alpha", .type = REED_ATTR_FLOAT, .f = 0.25},
                        {.name = "beta", .type = REED_ATTR_FLOAT, .f = 0.75}};
  reed_attr word = {.name = "approximate", .type = REED_ATTR_STRING, .s = "tanh"},
            to = {.name = "to", .type = REED_ATTR_INT, .i = REED_F64};
  fused_write(&text, op_builtin(OP_HardSigmoid), &(reed_attrs){attrs, 2}, (int32_t[]){1});
  fused_write(&text, op_builtin(OP_Gelu), &(reed_attrs){&word, 1}, (int32_t[]){0});
  fused_write(&text, op_builtin(OP_Max), &(reed_attrs){0}, (int32_t[]){2, 3});
  fused_write(&text, op_builtin(OP_Cast), &(reed_attrs){&to, 1}, (int32_t[]){4});
  ck_assert(!text.failed);
  ck_assert_str_eq(text.program.data, "HardSigmoid 1 alpha=#0 beta=#1;Gelu 0 approximate=tanh;Max 2 3;Cast 4 to=#2");
  reed_attr call[] = {
      {.name = "numbers", .type = REED_ATTR_FLOATS, .floats = text.numbers.items, .n = (int64_t)text.numbers.n},
      {.name = "program", .type = REED_ATTR_STRING, .s = text.program.data}};
  fused_program program;
  ck_assert_ptr_null(fused_read(&(reed_attrs){call, 2}, 2, &program));
  ck_assert_int_eq(program.n_steps, 4);
  ck_assert_double_eq(program.steps[0].attrs[1].f, 0.75);
  ck_assert_str_eq(program.steps[1].attrs[0].s, "tanh");
  ck_assert_int_eq(program.steps[2].operands[1], 3);
  ck_assert_int_eq(program.steps[3].attrs[0].i, REED_F64);
  fused_text_fini(&text);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("fused");
  TCase *t = tcase_create("fused");
  tcase_set_timeout(t, 120);
  tcase_add_host_loop_test(t, every_operator_is_the_same_inside, 0, N_SHAPES);
  tcase_add_host_loop_test(t, a_program_gives_the_bits_of_its_operators, 0, N_SHAPES);
  tcase_add_loop_test(t, programs_equal_the_reference, 0, N_SHAPES);
  tcase_add_test(t, a_program_that_is_wrong_is_refused);
  tcase_add_test(t, what_is_written_is_read);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
