/* Every row of formulas.def against its reference, over all dtypes of op.def and over shapes that join, broadcast and
 * end in odd places; the accuracy of the float functions; integers at their limits. */
#include <math.h>

#include "ops/cpu/calls/recurrent.h"
#include "ops/cpu/formulas/formulas.h"
#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

/* A pair of operand shapes; the second is not used by operators of one input. Rank -1 ends the list. */
static const struct {
  int32_t rank_a, rank_b;
  int64_t a[4], b[4];
} shapes[] = {
    {0, 0, {0}, {0}},
    {1, 1, {0}, {1}},
    {1, 1, {1}, {1}},
    {1, 1, {7}, {7}},
    {1, 0, {9}, {0}},
    {0, 2, {0}, {3, 5}},
    {2, 1, {3, 5}, {5}},
    {2, 2, {4, 1}, {1, 5}},
    {3, 2, {2, 3, 4}, {3, 1}},
    {3, 3, {2, 3, 4}, {2, 3, 4}},
    {4, 3, {2, 3, 5, 7}, {3, 1, 1}},
    {4, 4, {2, 1, 5, 1}, {1, 3, 1, 6}},
    {2, 2, {0, 3}, {1, 3}},
    {3, 2, {3, 61, 9}, {61, 1}},
    {2, 2, {130, 1}, {1, 3}},
    {3, 3, {2, 1, 7}, {1, 90, 7}},
    {2, 2, {211, 173}, {211, 1}},
    {2, 2, {9001, 1}, {1, 5}},
    {1, 1, {35001}, {35001}},
};

static bool is_float(reed_dtype dtype) {
  return dtype == REED_F32 || dtype == REED_F64 || dtype == REED_F16 || dtype == REED_BF16;
}

/* Changes integers that may not be random: divisors are not 0, exponents lie between 0 and 3. */
static void settle(kernel_case *c, reed_dtype dtype) {
  value *b = c->n_inputs > 1 ? &c->inputs[1] : NULL;
  bool divides = c->op == OP_Div || c->op == OP_Mod;
  for (int64_t i = 0; b && i < desc_elements(&b->desc); i++) {
    double x = case_get(b, i);
    if (divides && !is_float(dtype) && x == 0) case_set(b, i, 3);
    if (c->op == OP_Pow && !is_float(dtype)) case_set(b, i, fabs(fmod(x, 4)));
  }
}

static void check_operator(op_id op, reed_dtype dtype, size_t shape, bool specials) {
  const reed_op *row = op_builtin(op);
  kernel_case c;
  case_init(&c, op);
  bool many = row->inputs[0].variadic;
  int32_t n = many ? 3 : row->n_inputs;
  double range = dtype == REED_F16 ? 3 : is_float(dtype) ? 5 : 11;
  for (int32_t k = 0; k < n; k++) {
    bool second = k == 1 && n > 1;
    value *v = case_input(&c, dtype, second ? shapes[shape].rank_b : shapes[shape].rank_a,
                          second ? shapes[shape].b : shapes[shape].a, range);
    static const double odd[] = {0, -0.0, INFINITY, -INFINITY, NAN, 0.5, 1.5, 2.5, -2.5, 1};
    if (specials && is_float(dtype))
      for (int64_t i = 0; i < desc_elements(&v->desc) && i < 10; i++)
        case_set(v, i * (k + 1) % desc_elements(&v->desc), odd[i]);
  }
  if (op == OP_BitShift) case_attr_string(&c, "direction", shape % 2 ? "LEFT" : "RIGHT");
  if (op == OP_Gelu && shape % 2) case_attr_string(&c, "approximate", "tanh");
  settle(&c, dtype);
  for (int32_t i = 0; i < row->n_attrs; i++) /* the only required attribute is BitShift's direction */
    if (row->attrs[i].required) case_attr_string(&c, row->attrs[i].name, shape % 2 ? "LEFT" : "RIGHT");
  double tolerance = case_tolerance(dtype);
  case_parity(&c, tolerance, tolerance * (dtype == REED_F32 ? 0.5 : 0.1));
}

/* PRelu's slope broadcasts to X, never the other way. */
static bool fits(op_id op, size_t shape) {
  if (op != OP_PRelu) return true;
  reed_desc x = {.rank = shapes[shape].rank_a}, slope = {.rank = shapes[shape].rank_b};
  if (slope.rank > x.rank) return false;
  for (int32_t d = 0; d < slope.rank; d++) {
    int64_t extent = shapes[shape].b[d], to = shapes[shape].a[d + x.rank - slope.rank];
    if (extent != 1 && extent != to) return false;
  }
  return true;
}

static const char *const kernels[] = {
#define OP(name, shape, kernel, ...) #kernel,
#include "ops/op.def"
};

static void check_all(bool large, bool specials) {
  for (op_id op = 0; op < OP_COUNT; op++) {
    if (strcmp(kernels[op], "elementwise") != 0) continue;
    for (reed_dtype dtype = REED_F32; dtype < REED_DTYPE_COUNT; dtype++) {
      if (!(op_builtin(op)->inputs[0].dtypes >> dtype & 1)) continue;
      for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++)
        if (large == (shapes[shape].a[0] > 200) && fits(op, shape) &&
            !(large && dtype != REED_F32 && dtype != REED_F16 && dtype != REED_I64))
          check_operator(op, dtype, shape, specials);
    }
  }
}

START_TEST(every_formula_equals_its_reference_on_small_shapes) { check_all(false, false); }
END_TEST
START_TEST(every_formula_equals_its_reference_on_large_shapes_and_two_threads) { check_all(true, false); }
END_TEST
START_TEST(nan_and_infinity_go_through_as_the_reference_says) { check_all(false, true); }
END_TEST

/* ---- accuracy ---- */

/* Largest error of a unary operator on f32, in units in the last place of the exact result, over floats of every
 * exponent. */
static double worst_ulp(op_id op, long double (*exact)(long double), const char *level) {
  enum { N = 1 << 17 };
  kernel_case c;
  case_init(&c, op);
  value *v = case_input(&c, REED_F32, DIMS(N), 0);
  float *x = v->data;
  for (uint32_t i = 0; i < N; i++) {
    uint32_t bits = i * 32749u + 12345u; /* odd multiplier: spread over all bit patterns, both signs */
    memcpy(&x[i], &bits, 4);
    if (i % 2) x[i] = (float)i / N * 20 - 10;
  }
  x[1] = -0.0f, x[3] = 0;
  ck_assert_int_eq(case_run(&c, level), REED_OK);
  double worst = 0;
  for (int64_t i = 0; i < N; i++) {
    float y = ((float *)c.outputs[0].data)[i];
    long double want = exact(x[i]);
    if (isnan((double)want)) {
      if (!isnan(y)) ck_abort_msg("%s(%g) is %g", op_builtin(op)->name, x[i], y);
      continue;
    }
    if (want == 0 && !signbit(want) != !signbit(y)) ck_abort_msg("%s(%g) is %g", op_builtin(op)->name, x[i], y);
    float rounded = (float)want;
    if (isinf(rounded) || isinf(y)) {
      /* a value less than half a unit beyond the largest float may go either way */
      if (rounded != y && fabsl(want) < 3.4028e38L)
        ck_abort_msg("%s(%g) is %g, not %g", op_builtin(op)->name, x[i], y, rounded);
      continue;
    }
    double unit = fabsf(rounded) < 0x1p-126f ? 0x1p-149 : ldexp(1, ilogbf(rounded) - 23);
    double error = (double)fabsl((long double)y - want) / unit;
    if (error > worst) worst = error;
  }
  case_close(&c);
  return worst;
}

static long double exact_sigmoid(long double x) { return 1 / (1 + expl(-x)); }
static long double exact_softplus(long double x) { return x > 60 ? x : log1pl(expl(x)); }
static long double exact_elu(long double x) { return x < 0 ? expm1l(x) : x; }

START_TEST(float_functions_are_within_three_units_in_the_last_place) {
  static const struct {
    op_id op;
    long double (*exact)(long double);
  } functions[] = {{OP_Exp, expl},
                   {OP_Log, logl},
                   {OP_Tanh, tanhl},
                   {OP_Erf, erfl},
                   {OP_Sqrt, sqrtl},
                   {OP_Elu, exact_elu},
                   {OP_Sigmoid, exact_sigmoid},
                   {OP_Softplus, exact_softplus},
                   {OP_Sin, sinl},
                   {OP_Cos, cosl},
                   {OP_Tan, tanl},
                   {OP_Asin, asinl},
                   {OP_Acos, acosl},
                   {OP_Atan, atanl},
                   {OP_Sinh, sinhl},
                   {OP_Cosh, coshl},
                   {OP_Asinh, asinhl},
                   {OP_Acosh, acoshl},
                   {OP_Atanh, atanhl}};
  for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
    for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
      double worst = worst_ulp(functions[f].op, functions[f].exact, cpu_level_name(level));
      ck_assert_msg(worst < 3, "%s at %s: %.2f units", op_builtin(functions[f].op)->name, cpu_level_name(level), worst);
    }
}
END_TEST

/* Results of sin, cos and tan of small numbers, alone and with large ones, infinity and NaN beside them, in an array
 * that is also the output. */
START_TEST(circular_functions_of_small_numbers_do_not_depend_on_large_neighbours) {
  static const op_id ops[] = {OP_Sin, OP_Cos, OP_Tan};
  static const float large[] = {0x1p+17f + 1, -1e9f, 3e38f, INFINITY, NAN};
  enum { N = 700 };
  for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
    for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
      const elementwise_fn fn = elementwise_formula(level, REED_F32, ops[o]);
      const elementwise_parameters none = {0, 0};
      float x[N], alone[N], mixed[N];
      for (int i = 0; i < N; i++) x[i] = mixed[i] = (float)(i - N / 2) * 0.37f;
      for (int i = 3; i < N; i += 97) mixed[i] = large[i / 97 % 5];
      ck_assert_int_eq(fn(alone, (const void *const[]){x}, (const uint8_t[]){1}, N, &none), 0);
      ck_assert_int_eq(fn(mixed, (const void *const[]){mixed}, (const uint8_t[]){1}, N, &none), 0);
      for (int i = 0; i < N; i++) {
        const float v = i % 97 == 3 ? large[i / 97 % 5] : x[i];
        const double want = ops[o] == OP_Sin ? sin(v) : ops[o] == OP_Cos ? cos(v) : tan(v);
        if (isnan(want)) ck_assert(isnan(mixed[i]));
        else if (i % 97 == 3) ck_assert(mixed[i] == (float)want);
        else ck_assert_int_eq(memcmp(&mixed[i], &alone[i], sizeof *alone), 0);
      }
    }
}
END_TEST

/* ---- integers, bounds, dtypes ---- */

START_TEST(integer_division_truncates_and_wraps_at_the_lowest) {
  kernel_case c;
  case_init(&c, OP_Div);
  value *a = case_input(&c, REED_I32, DIMS(4), 0), *b = case_input(&c, REED_I32, DIMS(4), 0);
  const double dividends[] = {7, -7, INT32_MIN, INT32_MIN}, divisors[] = {2, 2, -1, 1};
  for (int i = 0; i < 4; i++) case_set(a, i, dividends[i]), case_set(b, i, divisors[i]);
  case_expect(&c, (const double[]){3, -3, INT32_MIN, INT32_MIN}, 4);
}
END_TEST

START_TEST(integer_division_by_zero_is_diagnosed) {
  static const op_id ops[] = {OP_Div, OP_Mod};
  for (int o = 0; o < 2; o++)
    for (reed_dtype dtype = REED_I8; dtype <= REED_U64; dtype++) {
      kernel_case c;
      case_init(&c, ops[o]);
      case_input(&c, dtype, DIMS(2, 40000), 5);
      value *b = case_input(&c, dtype, DIMS(40000), 0);
      for (int i = 0; i < 40000; i++) case_set(b, i, i == 39999 ? 0 : 1);
      c.n_threads = 2;
      case_fails(&c, REED_ERROR_VALUE, "division of an integer by 0");
    }
}
END_TEST

START_TEST(mod_takes_the_sign_of_the_divisor_and_fmod_of_the_dividend) {
  for (int fmod_given = 0; fmod_given < 2; fmod_given++)
    for (reed_dtype dtype = REED_F32; dtype <= REED_I64; dtype++) {
      kernel_case c;
      case_init(&c, OP_Mod);
      value *a = case_input(&c, dtype, DIMS(4), 0), *b = case_input(&c, dtype, DIMS(4), 0);
      const double x[] = {7, -7, 7, -7}, y[] = {3, 3, -3, -3};
      for (int i = 0; i < 4; i++) case_set(a, i, x[i]), case_set(b, i, y[i]);
      if (fmod_given) case_attr_int(&c, "fmod", 1);
      case_expect(&c, fmod_given ? (const double[]){1, -1, 1, -1} : (const double[]){1, 2, -2, -1}, 4);
    }
}
END_TEST

START_TEST(pow_takes_an_exponent_of_any_dtype) {
  for (reed_dtype base = REED_F32; base <= REED_U64; base++)
    for (reed_dtype exponent = REED_F32; exponent <= REED_U64; exponent++) {
      kernel_case c;
      case_init(&c, OP_Pow);
      value *x = case_input(&c, base, DIMS(3), 0), *y = case_input(&c, exponent, DIMS(3), 0);
      for (int i = 0; i < 3; i++) case_set(x, i, i + 1), case_set(y, i, i + 1);
      case_expect(&c, (const double[]){1, 4, 27}, 3);
      case_init(&c, OP_Pow);
      case_input(&c, base, DIMS(2, 300), 3);
      case_scalar(&c, exponent, 2);
      double tolerance = case_tolerance(base);
      case_parity(&c, tolerance, tolerance);
    }
}
END_TEST

START_TEST(clip_has_bounds_on_both_sides_or_one_or_none) {
  for (reed_dtype dtype = REED_F32; dtype <= REED_U64; dtype++)
    for (int which = 0; which < 4; which++)
      for (int64_t n = 0; n < 40; n += 13) {
        kernel_case c;
        case_init(&c, OP_Clip);
        case_input(&c, dtype, DIMS(3, n), 9);
        if (which & 1) case_scalar(&c, dtype, 2);
        else case_absent(&c);
        if (which & 2) case_scalar(&c, dtype, 5);
        case_parity(&c, 0, 0);
      }
}
END_TEST

START_TEST(clip_with_min_above_max_gives_max) {
  kernel_case c;
  case_init(&c, OP_Clip);
  case_input(&c, REED_F32, DIMS(3), 4);
  case_scalar(&c, REED_F32, 2);
  case_scalar(&c, REED_F32, 1);
  case_expect(&c, (const double[]){1, 1, 1}, 3);
}
END_TEST

START_TEST(where_broadcasts_all_three) {
  static const int64_t dims[][3] = {{2, 3, 4}, {1, 3, 1}, {2, 1, 1}, {1, 1, 1}, {2, 1, 4}};
  for (reed_dtype dtype = REED_F32; dtype <= REED_BOOL; dtype++)
    for (int i = 0; i < 5; i++)
      for (int j = 0; j < 5; j++)
        for (int k = 0; k < 5; k++) {
          kernel_case c;
          case_init(&c, OP_Where);
          case_input(&c, REED_BOOL, 3, dims[i], 1);
          case_input(&c, dtype, 3, dims[j], 50);
          case_input(&c, dtype, 3, dims[k], 50);
          case_parity(&c, 0, 0);
        }
}
END_TEST

START_TEST(where_large) {
  kernel_case c;
  case_init(&c, OP_Where);
  case_input(&c, REED_BOOL, DIMS(301, 1), 1);
  case_input(&c, REED_F32, DIMS(301, 257), 50);
  case_scalar(&c, REED_F32, 7);
  case_parity(&c, 0, 0);
}
END_TEST

START_TEST(cast_between_every_pair_of_dtypes) {
  for (reed_dtype from = REED_F32; from <= REED_BOOL; from++)
    for (reed_dtype to = REED_F32; to <= REED_BOOL; to++)
      for (int64_t n = 0; n <= 40003; n = n ? n * 200 + 3 : 1) {
        kernel_case c;
        case_init(&c, OP_Cast);
        value *v = case_input(&c, from, DIMS(n), 100);
        static const double odd[] = {0.5, -0.5, 1.5,  2.5,  300,   -300, 70000,    -70000,
                                     3e9, -3e9, 1e19, 1e30, -1e30, NAN,  INFINITY, -INFINITY};
        for (int64_t i = 0; i < n && i < 16; i++) case_set(v, n - 1 - i, odd[i]);
        case_attr_int(&c, "to", to);
        case_parity(&c, to == REED_F16 || to == REED_BF16 ? case_tolerance(to) : 0, 0);
      }
}
END_TEST

START_TEST(many_inputs_are_folded) {
  static const op_id ops[] = {OP_Max, OP_Min, OP_Sum, OP_Mean};
  for (int o = 0; o < 4; o++)
    for (int n = 1; n <= 8; n++) {
      kernel_case c;
      case_init(&c, ops[o]);
      for (int k = 0; k < n; k++)
        case_input(&c, k % 2 ? REED_F32 : REED_F32, k % 3 == 1 ? 1 : 2,
                   k % 3 == 1 ? (const int64_t[]){1} : (const int64_t[]){3, 301}, 4);
      case_parity(&c, 1e-6, 1e-6);
    }
}
END_TEST

START_TEST(shapes_that_do_not_broadcast_are_refused) {
  kernel_case c;
  case_init(&c, OP_Add);
  case_input(&c, REED_F32, DIMS(3), 4);
  case_input(&c, REED_F32, DIMS(4), 4);
  case_fails(&c, REED_ERROR_SHAPE, "");
}
END_TEST

/* Numbers around the places where formulas change, and far out. */
static value *some_doubles(kernel_case *c, int32_t rank, const int64_t *dims) {
  static const double odd[] = {0, 0.5, -0.5, 3, -3, 40, -40, 800, -800, INFINITY, -INFINITY, NAN};
  value *x = case_input(c, REED_F64, rank, dims, 8);
  for (int i = 0; i < 12; i++) case_set(x, i, odd[i]);
  return x;
}

#define N_DOUBLES 400

/* Compares `made`, which computes the operator's formula inside another kernel, with the operator's own f64 loop, bit
 * for bit. alpha and beta: the operator's attributes, or Clip's limits. Closes the case. */
static void same_as_operator(kernel_case *made, const value *x, op_id op, const char *approximate, double alpha,
                             double beta) {
  kernel_case own;
  case_init(&own, op);
  value *copy = case_input(&own, REED_F64, DIMS(N_DOUBLES), 0);
  memcpy(copy->data, x->data, N_DOUBLES * sizeof(double));
  if (op == OP_Clip) case_scalar(&own, REED_F64, alpha), case_scalar(&own, REED_F64, beta);
  if (op_attr_row(op_builtin(op), "alpha")) case_attr_float(&own, "alpha", alpha);
  if (op_attr_row(op_builtin(op), "beta")) case_attr_float(&own, "beta", beta);
  if (*approximate) case_attr_string(&own, "approximate", approximate);
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
    ck_assert_int_eq(case_run(&own, cpu_level_name(level)), REED_OK);
    ck_assert_msg(case_run(made, cpu_level_name(level)) == REED_OK, "%s", reed_diagnosis_message(&made->diagnosis));
    for (int64_t i = 0; i < N_DOUBLES; i++) {
      double a = case_get(&made->outputs[0], i), b = case_get(&own.outputs[0], i);
      if (a != b && !(isnan(a) && isnan(b)))
        ck_abort_msg("%s of %.17g: %.17g inside %s, %.17g alone", op_builtin(op)->name, case_get(x, i), a,
                     op_builtin(made->op)->name, b);
    }
  }
  case_close(&own);
  case_close(made);
}

START_TEST(an_activation_in_f64_has_the_bits_of_its_operator) {
  static const struct {
    const char *text, *approximate;
    op_id op;
  } rows[] = {
#define ACTIVATION(kind, text, op, approximate, formula) {text, approximate, OP_##op},
#include "ops/activation.def"
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    double alpha = rows[i].op == OP_Clip ? -0.5 : 0.3, beta = 0.7;
    kernel_case c;
    case_init(&c, OP_MatMul);
    value *x = some_doubles(&c, DIMS(N_DOUBLES, 1));
    case_set(case_input(&c, REED_F64, DIMS(1, 1), 0), 0, 1);
    case_attr_string(&c, "activation", rows[i].text);
    case_attr_float(&c, "activation_alpha", alpha);
    case_attr_float(&c, "activation_beta", beta);
    same_as_operator(&c, x, rows[i].op, rows[i].approximate, alpha, beta);
  }
}
END_TEST

START_TEST(a_recurrent_activation_in_f64_has_the_bits_of_its_operator) {
  static const struct {
    const char *word;
    op_id op;
  } rows[] = {
#define ROW(name, op) {#name, op},
      RECURRENT_ACTIVATION_LIST(ROW)
#undef ROW
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    /* the activation has no operator of its own */
    if (rows[i].op == OP_COUNT || strcmp(rows[i].word, "ScaledTanh") == 0) continue;
    const double alpha = 0.3, beta = 0.7;
    kernel_case c;
    case_init(&c, OP_RNN);
    value *x = some_doubles(&c, DIMS(1, N_DOUBLES, 1));
    case_set(case_input(&c, REED_F64, DIMS(1, 1, 1), 0), 0, 1);
    case_input(&c, REED_F64, DIMS(1, 1, 1), 0);
    case_attr_string(&c, "activations", rows[i].word);
    if (op_attr_row(op_builtin(rows[i].op), "alpha")) case_attr_floats(&c, "activation_alpha", &alpha, 1);
    if (op_attr_row(op_builtin(rows[i].op), "beta")) case_attr_floats(&c, "activation_beta", &beta, 1);
    same_as_operator(&c, x, rows[i].op, "", alpha, beta);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("elementwise");
  TCase *tc = tcase_create("elementwise");
  tcase_set_timeout(tc, 240);
  tcase_add_test(tc, every_formula_equals_its_reference_on_small_shapes);
  tcase_add_test(tc, every_formula_equals_its_reference_on_large_shapes_and_two_threads);
  tcase_add_test(tc, nan_and_infinity_go_through_as_the_reference_says);
  tcase_add_host_test(tc, float_functions_are_within_three_units_in_the_last_place);
  tcase_add_host_test(tc, circular_functions_of_small_numbers_do_not_depend_on_large_neighbours);
  tcase_add_test(tc, integer_division_truncates_and_wraps_at_the_lowest);
  tcase_add_test(tc, integer_division_by_zero_is_diagnosed);
  tcase_add_test(tc, mod_takes_the_sign_of_the_divisor_and_fmod_of_the_dividend);
  tcase_add_test(tc, pow_takes_an_exponent_of_any_dtype);
  tcase_add_test(tc, clip_has_bounds_on_both_sides_or_one_or_none);
  tcase_add_test(tc, clip_with_min_above_max_gives_max);
  tcase_add_test(tc, where_broadcasts_all_three);
  tcase_add_test(tc, where_large);
  tcase_add_test(tc, cast_between_every_pair_of_dtypes);
  tcase_add_test(tc, many_inputs_are_folded);
  tcase_add_test(tc, an_activation_in_f64_has_the_bits_of_its_operator);
  tcase_add_test(tc, a_recurrent_activation_in_f64_has_the_bits_of_its_operator);
  tcase_add_test(tc, shapes_that_do_not_broadcast_are_refused);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
