/* Functions of f64 (ops/cpu/common/functions_double.h): their errors against long double over the whole range, their
 * values at the ends of it, the same bits at every CPU level, and large arguments of sine and cosine. */
#include <math.h>
#include <string.h>

#include "ops/cpu/formulas/formulas.h"
#include "tests/suite.h"

static long double exact_sigmoid(long double x) { return 1 / (1 + expl(-x)); }
static long double exact_softplus(long double x) { return (x > 0 ? x : 0) + log1pl(expl(-fabsl(x))); }
static long double exact_elu(long double x) { return x < 0 ? expm1l(x) : x; }

static const struct {
  op_id op;
  long double (*exact)(long double);
} functions[] = {{OP_Exp, expl},
                 {OP_Log, logl},
                 {OP_Tanh, tanhl},
                 {OP_Elu, exact_elu},
                 {OP_Sin, sinl},
                 {OP_Cos, cosl},
                 {OP_Sigmoid, exact_sigmoid},
                 {OP_Softplus, exact_softplus}};

enum { N = 1 << 16 };

static void apply(cpu_level level, op_id op, double *y, const double *x, int64_t n) {
  const elementwise_parameters one = {1, 0};
  ck_assert_int_eq(elementwise_formula(level, REED_F64, op)(y, (const void *const[]){x}, (const uint8_t[]){1}, n, &one),
                   0);
}

/* Numbers of every exponent, of the range where the functions change most, near multiples of a quarter turn, and
 * subnormal ones, by turns. */
static void fill(double *x) {
  for (uint64_t i = 0; i < N; i++) {
    const uint64_t any = i * 0x9e3779b97f4a7c15u;
    const double turns = (double)(i * 163) * 0x1.921fb54442d18p+0;
    switch (i % 5) {
      case 0: memcpy(&x[i], &any, sizeof any); break;
      case 1: x[i] = (double)i / N * 20 - 10; break;
      case 2: x[i] = i % 3 == 0 ? nextafter(turns, 0) : i % 3 == 1 ? turns : -nextafter(turns, INFINITY); break;
      case 3: x[i] = (double)((int64_t)any >> 10) * 0x1p-1074; break;
      default: x[i] = (double)i / N * 1500 - 750;
    }
  }
}

static double error_of(double y, long double want, double x, const char *name) {
  const double rounded = (double)want;
  if (isnan(rounded) && !isnan(y)) ck_abort_msg("%s(%a) is %g", name, x, y);
  if (isnan(rounded)) return 0;
  if (isinf(rounded) || isinf(y)) {
    /* a value less than a unit beyond the largest double may go either way */
    if (rounded != y && fabsl(want) < 0x1.fffffffffffffp+1023L)
      ck_abort_msg("%s(%a) is %g, not %g", name, x, y, rounded);
    return 0;
  }
  const double unit = fabs(rounded) < 0x1p-1022 ? 0x1p-1074 : ldexp(1, ilogb(rounded) - 52);
  return (double)(fabsl((long double)y - want) / unit);
}

START_TEST(functions_are_within_two_units_in_the_last_place) {
  static double x[N], y[N], first[N];
  const char *name = op_builtin(functions[_i].op)->name;
  fill(x);
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
    apply(level, functions[_i].op, y, x, N);
    if (level == CPU_BASE) memcpy(first, y, sizeof y);
    for (int i = 0; i < N; i++)
      if (!isnan(y[i]) || !isnan(first[i]))
        ck_assert_msg(memcmp(&y[i], &first[i], sizeof *y) == 0, "%s(%a)", name, x[i]);
  }
  double worst = 0, at = 0;
  for (int i = 0; i < N; i++) {
    const double error = error_of(first[i], functions[_i].exact((long double)x[i]), x[i], name);
    if (error > worst) worst = error, at = x[i];
  }
  ck_assert_msg(worst < 2, "%s: %.2f units at %a", name, worst, at);
}
END_TEST

/* One element and a few, so that the loops' ends are met as well. */
START_TEST(functions_have_their_limits) {
  static const struct {
    op_id op;
    double x, y;
  } limits[] = {{OP_Exp, -INFINITY, 0},
                {OP_Exp, INFINITY, INFINITY},
                {OP_Exp, 710, INFINITY},
                {OP_Exp, -746, 0},
                {OP_Exp, 0, 1},
                {OP_Log, 0, -INFINITY},
                {OP_Log, -0.0, -INFINITY},
                {OP_Log, 1, 0},
                {OP_Log, INFINITY, INFINITY},
                {OP_Log, -1, NAN},
                {OP_Tanh, INFINITY, 1},
                {OP_Tanh, -INFINITY, -1},
                {OP_Tanh, -0.0, -0.0},
                {OP_Tanh, 0x1p-1074, 0x1p-1074},
                {OP_Sin, -0.0, -0.0},
                {OP_Sin, INFINITY, NAN},
                {OP_Cos, -INFINITY, NAN},
                {OP_Cos, 0, 1},
                {OP_Sigmoid, -INFINITY, 0},
                {OP_Sigmoid, INFINITY, 1},
                {OP_Softplus, -INFINITY, 0},
                {OP_Softplus, INFINITY, INFINITY},
                {OP_Elu, -INFINITY, -1},
                {OP_Elu, INFINITY, INFINITY}};
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++)
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
      for (int n = 1; n <= 19; n += 9) {
        double x[19], y[19];
        for (int k = 0; k < n; k++) x[k] = limits[i].x;
        apply(level, limits[i].op, y, x, n);
        for (int k = 0; k < n; k++) {
          const bool same = isnan(limits[i].y) ? isnan(y[k]) : memcmp(&y[k], &limits[i].y, sizeof *y) == 0;
          ck_assert_msg(same, "%s(%g) is %g", op_builtin(limits[i].op)->name, x[k], y[k]);
        }
      }
  for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
    double nan = NAN, y;
    apply(cpu_level_best(), functions[f].op, &y, &nan, 1);
    ck_assert(isnan(y));
  }
}
END_TEST

/* Large arguments are the C library's, alone and beside small ones, in an array that is also the output. */
START_TEST(large_arguments_change_no_neighbour) {
  static const op_id ops[] = {OP_Sin, OP_Cos};
  static const double large[] = {0x1p+20 + 0.25, -1e9, 1e300, INFINITY, NAN};
  enum { SOME = 700 };
  for (int o = 0; o < 2; o++)
    for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
      double x[SOME], alone[SOME], mixed[SOME];
      for (int i = 0; i < SOME; i++) x[i] = mixed[i] = (double)(i - SOME / 2) * 0.37;
      for (int i = 3; i < SOME; i += 97) mixed[i] = large[i / 97 % 5];
      apply(level, ops[o], alone, x, SOME);
      apply(level, ops[o], mixed, mixed, SOME);
      for (int i = 0; i < SOME; i++) {
        const double far = large[i / 97 % 5], want = i % 97 != 3 ? alone[i] : o ? cos(far) : sin(far);
        ck_assert_msg(isnan(want) ? isnan(mixed[i]) : mixed[i] == want, "element %d is %g, not %g", i, mixed[i], want);
      }
    }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("doubles");
  TCase *t = tcase_create("doubles");
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, functions_are_within_two_units_in_the_last_place, 0,
                      (int)(sizeof functions / sizeof *functions));
  tcase_add_test(t, functions_have_their_limits);
  tcase_add_test(t, large_arguments_change_no_neighbour);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
