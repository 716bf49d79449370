/* Unique against a comparison of all slices with all others, and against numpy's rules for NaN and -0. */
#include <math.h>
#include <stdlib.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

enum { Y, INDICES, INVERSE, COUNTS, OUTPUTS };
enum { FLAT = 100, MOST_SLICES = 2500 };

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

/* For each slice the first one that equals it. */
static void find_firsts(const slices *s, int64_t *out_first) {
  for (int64_t i = 0; i < s->n; i++)
    for (out_first[i] = 0; compare(s, out_first[i], i);) out_first[i]++;
}

/* The number of groups before that of slice i. */
static int64_t rank_of(const slices *s, const int64_t *first, int64_t i, bool sorted) {
  int64_t before = 0;
  for (int64_t j = 0; j < s->n; j++) before += first[j] == j && (sorted ? compare(s, j, i) < 0 : j < first[i]);
  return before;
}

static void compare_outputs(kernel_case *c, int64_t axis, bool sorted) {
  static int64_t first[MOST_SLICES];
  slices s = slices_of(&c->inputs[0], axis);
  int64_t groups = 0;
  find_firsts(&s, first);
  for (int64_t i = 0; i < s.n; i++) groups += first[i] == i;
  for (int k = 0; k < OUTPUTS; k++)
    if (k != INVERSE && !c->unwanted[k]) ck_assert_msg(c->extents[k] == groups, "%s output %d", case_where(c), k);
  for (int64_t i = 0; i < s.n; i++) {
    int64_t group = rank_of(&s, first, i, sorted), count = 0;
    for (int64_t j = 0; j < s.n; j++) count += first[j] == first[i];
    if (!c->unwanted[INDICES]) ck_assert_int_eq((int64_t)case_get(&c->outputs[INDICES], group), first[i]);
    if (!c->unwanted[INVERSE]) ck_assert_int_eq((int64_t)case_get(&c->outputs[INVERSE], i), group);
    if (!c->unwanted[COUNTS]) ck_assert_int_eq((int64_t)case_get(&c->outputs[COUNTS], group), count);
    for (int64_t o = 0; o < s.outer; o++)
      for (int64_t k = 0; k < s.block; k++) {
        double is = case_get(&c->outputs[Y], (o * groups + group) * s.block + k);
        ck_assert_int_eq(order_of(is, case_get(s.x, (o * s.n + first[i]) * s.block + k)), 0);
      }
  }
}

static void must(kernel_case *c, reed_status status) {
  ck_assert_msg(status == REED_OK, "%s: %s", case_where(c), c->diagnosis.message);
}

typedef void (*rule)(kernel_case *c, int64_t axis, bool sorted);

/* On the host, then on every other device that has the call. Closes the case. */
static void everywhere(kernel_case *c, rule compare_with, int64_t axis, bool sorted) {
  if (!case_devices_only()) {
    must(c, case_run(c, "base"));
    compare_with(c, axis, sorted);
  }
  for (const char *const *device = case_devices(); *device; device++) {
    bool has = false;
    must(c, case_run_on(c, *device, &has));
    if (has) compare_with(c, axis, sorted);
  }
  case_close(c);
}

static void check(kernel_case *c, int64_t axis, bool sorted) { everywhere(c, compare_outputs, axis, sorted); }

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
    {1, {1}, FLAT},     {1, {300}, 0},     {2, {7, 9}, FLAT}, {2, {60, 2}, 0}, {2, {2, 60}, 1},
    {3, {2, 40, 2}, 1}, {2, {64, 5}, 0},   {2, {65, 3}, 0},   {2, {3, 64}, 1}, {3, {3, 2, 30}, 2},
    {0, {0}, FLAT},     {2, {0, 3}, FLAT}, {2, {0, 3}, 0},    {2, {5, 0}, 0},  {2, {1, 4}, 0},
};

START_TEST(slices_that_differ_are_found) {
  for (reed_dtype dtype = REED_F32; dtype <= REED_BOOL; dtype++)
    for (int sorted = 0; sorted < 2; sorted++)
      for (int range = 2; range < 300; range += 150) { /* many equal ones, few */
        kernel_case c;
        begin(&c, shapes[_i].axis, sorted);
        case_input(&c, dtype, shapes[_i].rank, shapes[_i].dims, range);
        check(&c, shapes[_i].axis, sorted);
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
      check(&c, FLAT, sorted);
    }
}
END_TEST

/* Their doubles are equal, so the rules above do not tell them apart. */
static void compare_extremes(kernel_case *c, int64_t axis, bool sorted) {
  static const int64_t indices[] = {2, 1, 4, 3, 0};
  ck_assert_int_eq(c->extents[Y], 5);
  for (int k = 0; k < 5; k++) ck_assert_int_eq((int64_t)case_get(&c->outputs[INDICES], k), indices[k]);
}

START_TEST(extremes_of_integers_are_in_order) {
  static const int64_t x[] = {INT64_MAX, -1, INT64_MIN, INT64_MAX - 1, 0, INT64_MIN};
  kernel_case c;
  begin(&c, FLAT, true);
  memcpy(case_input(&c, REED_I64, DIMS(6), 0)->data, x, sizeof x);
  everywhere(&c, compare_extremes, FLAT, true);
}
END_TEST

/* More slices than a block of a device counts. */
START_TEST(slices_of_many) {
  for (int sorted = 0; sorted < 2; sorted++) {
    kernel_case c;
    begin(&c, 0, sorted);
    case_input(&c, REED_I32, DIMS(MOST_SLICES, 2), 30);
    check(&c, 0, sorted);
  }
}
END_TEST

/* More than a part of a thread, so that groups begin, end and have their first slice in any part. */
START_TEST(results_do_not_depend_on_the_number_of_threads) {
  static const int threads[] = {2, 3, 7};
  static const struct {
    reed_dtype dtype;
    int64_t n, columns, range;
  } many[] = {{REED_F32, 40001, 1, 5000}, {REED_I64, 30000, 2, 90}, {REED_U8, 50000, 1, 200}, {REED_F64, 9000, 3, 3}};
  for (int sorted = 0; sorted < 2; sorted++) {
    kernel_case c;
    int64_t bytes[OUTPUTS], groups = 0;
    char *alone[OUTPUTS];
    begin(&c, many[_i].columns > 1 ? 0 : FLAT, sorted);
    case_input(&c, many[_i].dtype, DIMS(many[_i].n, many[_i].columns), (int)many[_i].range);
    must(&c, case_run(&c, "base"));
    groups = c.extents[Y];
    for (int k = 0; k < OUTPUTS; k++) {
      bytes[k] = (int64_t)reed_dtype_bytes(c.outputs[k].desc.dtype) * (k == INVERSE ? many[_i].n : groups);
      if (k == Y) bytes[k] *= many[_i].columns;
      alone[k] = malloc((size_t)bytes[k]);
      memcpy(alone[k], c.outputs[k].data, (size_t)bytes[k]);
    }
    for (int t = 0; t < ROWS(threads); t++) {
      c.n_threads = threads[t];
      must(&c, case_run(&c, "base"));
      ck_assert_int_eq(c.extents[Y], groups);
      for (int k = 0; k < OUTPUTS; k++)
        ck_assert_msg(memcmp(alone[k], c.outputs[k].data, (size_t)bytes[k]) == 0, "%s: output %d of %d threads",
                      case_where(&c), k, threads[t]);
    }
    for (int k = 0; k < OUTPUTS; k++) free(alone[k]);
    case_close(&c);
  }
}
END_TEST

/* Few slices, of more columns than a step compares, that differ in the last one alone, or in none. */
START_TEST(slices_that_are_equal_for_long) {
  enum { COLUMNS = 1000 };
  static double x[5 * COLUMNS];
  for (int differs = 0; differs < 2; differs++)
    for (int threads = 1; threads < 4; threads += 2) {
      kernel_case c;
      begin(&c, 0, true);
      c.n_threads = threads;
      for (int i = 0; i < 5; i++) x[(i + 1) * COLUMNS - 1] = differs && i % 2 == 0 ? -i : 1;
      case_filled(&c, REED_F32, DIMS(5, COLUMNS), x);
      check(&c, 0, true);
    }
}
END_TEST

START_TEST(outputs_may_be_left_out) {
  for (int wanted = 0; wanted < 8; wanted++) {
    kernel_case c;
    begin(&c, 0, false);
    case_input(&c, REED_I32, DIMS(50, 2), 3);
    for (int k = INDICES; k < OUTPUTS; k++) c.unwanted[k] = !(wanted >> (k - 1) & 1);
    check(&c, 0, false);
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
  tcase_add_test(cases, slices_of_many);
  tcase_add_loop_test(cases, results_do_not_depend_on_the_number_of_threads, 0, 4);
  tcase_add_test(cases, slices_that_are_equal_for_long);
  tcase_add_test(cases, outputs_may_be_left_out);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
