/* Unique against a comparison of all slices with all others, and against numpy's rules for NaN and -0. */
#include <math.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

enum { Y, INDICES, INVERSE, COUNTS, OUTPUTS };
enum { FLAT = 100 };

/* ---- the rules, element by element ---- */

/* X as [outer, n, block]. */
typedef struct slices {
  const value *x;
  int64_t outer, n, block;
} slices;

static slices slices_of(const value *x, int64_t axis) {
  slices s = {x, 1, 1, 1};
  for (int32_t d = 0; d < x->desc.rank; d++) {
    int64_t *part = axis == FLAT || d == axis ? &s.n : d < axis ? &s.outer : &s.block;
    *part *= x->desc.dims[d];
  }
  return s;
}

static int order_of(double a, double b) {
  if (a != a || b != b) return (a != a) - (b != b);
  return (a > b) - (a < b);
}

static int compare(const slices *s, int64_t i, int64_t j) {
  int order = 0;
  for (int64_t o = 0; o < s->outer && !order; o++)
    for (int64_t k = 0; k < s->block && !order; k++)
      order = order_of(case_get(s->x, (o * s->n + i) * s->block + k), case_get(s->x, (o * s->n + j) * s->block + k));
  return order;
}

static int64_t first_equal(const slices *s, int64_t i) {
  int64_t first = 0;
  while (compare(s, first, i)) first++;
  return first;
}

/* The number of groups before that of slice i. */
static int64_t rank_of(const slices *s, int64_t i, bool sorted) {
  int64_t before = 0, first = first_equal(s, i);
  for (int64_t j = 0; j < s->n; j++) before += first_equal(s, j) == j && (sorted ? compare(s, j, i) < 0 : j < first);
  return before;
}

static void check(kernel_case *c, int64_t axis, bool sorted) {
  slices s = slices_of(&c->inputs[0], axis);
  int64_t groups = 0;
  for (int64_t i = 0; i < s.n; i++) groups += first_equal(&s, i) == i;
  for (int k = 0; k < OUTPUTS; k++)
    if (k != INVERSE && !c->unwanted[k]) ck_assert_msg(c->extents[k] == groups, "%s output %d", case_where(c), k);
  for (int64_t i = 0; i < s.n; i++) {
    int64_t first = first_equal(&s, i), group = rank_of(&s, i, sorted), count = 0;
    for (int64_t j = 0; j < s.n; j++) count += !compare(&s, i, j);
    if (!c->unwanted[INDICES]) ck_assert_int_eq((int64_t)case_get(&c->outputs[INDICES], group), first);
    if (!c->unwanted[INVERSE]) ck_assert_int_eq((int64_t)case_get(&c->outputs[INVERSE], i), group);
    if (!c->unwanted[COUNTS]) ck_assert_int_eq((int64_t)case_get(&c->outputs[COUNTS], group), count);
    for (int64_t o = 0; o < s.outer; o++)
      for (int64_t k = 0; k < s.block; k++) {
        double is = case_get(&c->outputs[Y], (o * groups + group) * s.block + k);
        ck_assert_int_eq(order_of(is, case_get(s.x, (o * s.n + first) * s.block + k)), 0);
      }
  }
}

/* ---- cases ---- */

static void begin(kernel_case *c, int64_t axis, bool sorted) {
  case_init(c, OP_Unique);
  c->n_outputs = OUTPUTS;
  if (axis != FLAT) case_attr_int(c, "axis", axis);
  case_attr_int(c, "sorted", sorted);
}

static const struct {
  int32_t rank;
  int64_t dims[3], axis;
} shapes[] = {
    {1, {1}, FLAT},     {1, {300}, 0},  {2, {7, 9}, FLAT}, {2, {60, 2}, 0}, {2, {2, 60}, 1}, {3, {2, 40, 2}, 1},
    {3, {3, 2, 30}, 2}, {0, {0}, FLAT}, {2, {0, 3}, FLAT}, {2, {0, 3}, 0},  {2, {5, 0}, 0},  {2, {1, 4}, 0},
};

START_TEST(slices_that_differ_are_found) {
  for (reed_dtype dtype = REED_F32; dtype <= REED_BOOL; dtype++)
    for (int sorted = 0; sorted < 2; sorted++)
      for (int range = 2; range < 300; range += 150) { /* many equal ones, few */
        kernel_case c;
        begin(&c, shapes[_i].axis, sorted);
        case_input(&c, dtype, shapes[_i].rank, shapes[_i].dims, range);
        ck_assert_int_eq(case_run(&c, "base"), REED_OK);
        check(&c, shapes[_i].axis, sorted);
        case_close(&c);
      }
}
END_TEST

START_TEST(nan_equals_nan_and_comes_last_and_signs_of_zero_are_equal) {
  static const double x[] = {NAN, 0, -INFINITY, -0.0, INFINITY, -1, NAN, -0.0};
  for (reed_dtype dtype = REED_F32; dtype <= REED_BF16; dtype++)
    for (int sorted = 0; sorted < 2; sorted++) {
      kernel_case c;
      begin(&c, FLAT, sorted);
      case_filled(&c, dtype, DIMS(8), x);
      ck_assert_int_eq(case_run(&c, "base"), REED_OK);
      ck_assert_int_eq(c.extents[Y], 5);
      check(&c, FLAT, sorted);
      case_close(&c);
    }
}
END_TEST

START_TEST(extremes_of_integers_are_in_order) {
  static const int64_t x[] = {INT64_MAX, -1, INT64_MIN, INT64_MAX - 1, 0, INT64_MIN}, y[] = {2, 1, 4, 3, 0};
  kernel_case c;
  begin(&c, FLAT, true);
  memcpy(case_input(&c, REED_I64, DIMS(6), 0)->data, x, sizeof x);
  ck_assert_int_eq(case_run(&c, "base"), REED_OK);
  ck_assert_int_eq(c.extents[Y], 5);
  for (int k = 0; k < 5; k++) ck_assert_int_eq((int64_t)case_get(&c.outputs[INDICES], k), y[k]);
  case_close(&c);
}
END_TEST

START_TEST(outputs_may_be_left_out) {
  for (int wanted = 0; wanted < 8; wanted++) {
    kernel_case c;
    begin(&c, 0, false);
    case_input(&c, REED_I32, DIMS(50, 2), 3);
    for (int k = INDICES; k < OUTPUTS; k++) c.unwanted[k] = !(wanted >> (k - 1) & 1);
    ck_assert_int_eq(case_run(&c, "base"), REED_OK);
    check(&c, 0, false);
    case_close(&c);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("Unique");
  TCase *cases = tcase_create("all");
  tcase_set_timeout(cases, 240);
  tcase_add_loop_test(cases, slices_that_differ_are_found, 0, ROWS(shapes));
  tcase_add_test(cases, nan_equals_nan_and_comes_last_and_signs_of_zero_are_equal);
  tcase_add_test(cases, extremes_of_integers_are_in_order);
  tcase_add_test(cases, outputs_may_be_left_out);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
