/* TopK: the order of ties and NaN, extremes of integers, and parity with the reference. */
#include <math.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

static void topk_case(kernel_case *c, const double *elements, int64_t n, int64_t k, bool largest) {
  case_init(c, OP_TopK);
  c->n_outputs = 2;
  case_filled(c, REED_F32, DIMS(n), elements);
  *(int64_t *)case_input(c, REED_I64, DIMS(1), 0)->data = k;
  case_attr_int(c, "largest", largest);
}

static void expect_indices(kernel_case *c, const double *indices, int64_t n) {
  for (cpu_level level = CPU_REFERENCE; level <= cpu_level_best(); level++) {
    ck_assert_int_eq(case_run(c, cpu_level_name(level)), REED_OK);
    for (int64_t i = 0; i < n; i++) ck_assert_double_eq(case_get(&c->outputs[1], i), indices[i]);
  }
  case_close(c);
}

START_TEST(topk_orders_ties_by_index_and_nan_above_all) {
  static const double x[] = {1, 3, NAN, 3, -0.0, 0, -INFINITY, INFINITY, NAN};
  kernel_case c;
  topk_case(&c, x, 9, 6, true);
  expect_indices(&c, (double[]){2, 8, 7, 1, 3, 0}, 6);
  topk_case(&c, x, 9, 9, false);
  expect_indices(&c, (double[]){6, 4, 5, 0, 1, 3, 7, 2, 8}, 9);
}
END_TEST

static const struct {
  int32_t rank;
  int64_t x[3], axis, k;
} topks[] = {
    {1, {1}, 0, 1},         {1, {5}, 0, 0},         {1, {3000}, 0, 100},      {1, {3000}, 0, 3000},
    {2, {40, 33}, 0, 7},    {2, {40, 133}, 1, 40},  {3, {3, 5, 7}, 1, 5},     {2, {0, 5}, 1, 3},
    {1, {8500}, 0, 60},     {1, {9000}, 0, 5000},   {2, {8200, 2}, 0, 3},     {1, {40000}, 0, 30},
    {2, {2, 33000}, 1, 17}, {2, {20000, 2}, 0, 77}, {2, {2000, 3}, 1, 2},     {1, {20000}, 0, 100},
    {2, {2, 9001}, 1, 900}, {2, {50003, 2}, 0, 33}, {2, {70, 5}, 1, 5},       {2, {300, 64}, 1, 3},
    {2, {60, 128}, 1, 8},   {2, {128, 60}, 0, 64},  {2, {300, 31}, 1, 31},    {1, {1000}, 0, 9},
    {2, {8, 300}, 0, 3},    {3, {3, 6, 17}, 1, 4},  {3, {2, 16, 130}, 1, 16}, {3, {5, 3, 200}, 1, 2},
    {2, {40, 1}, 1, 1},     {3, {3, 4, 16}, 2, 16},
};

START_TEST(topk_equals_the_reference) {
  enum { MANY = 8000 }; /* elements, of which a dtype has each order and each range once */
  int64_t n = 1;
  for (int32_t d = 0; d < topks[_i].rank; d++) n *= topks[_i].x[d];
  for (reed_dtype dtype = REED_F32; dtype < REED_BOOL; dtype++)
    for (int largest = 0; largest < 2; largest++)
      for (int range = 0; range < 2; range++) { /* few values (ties), many */
        if (n > MANY && ((int)dtype + largest + range) % 2) continue;
        kernel_case c;
        case_init(&c, OP_TopK);
        c.n_outputs = 2;
        case_input(&c, dtype, topks[_i].rank, topks[_i].x, range ? 100 : 0.6);
        *(int64_t *)case_input(&c, REED_I64, DIMS(1), 0)->data = topks[_i].k;
        case_attr_int(&c, "axis", topks[_i].axis);
        case_attr_int(&c, "largest", largest);
        case_parity(&c, 0, 0);
      }
}
END_TEST

START_TEST(topk_takes_the_extremes_of_integers) {
  kernel_case c;
  case_init(&c, OP_TopK);
  value *x = case_input(&c, REED_I64, DIMS(4), 0);
  int64_t elements[] = {INT64_MIN, INT64_MAX, -1, INT64_MAX - 1};
  for (int i = 0; i < 4; i++) ((int64_t *)x->data)[i] = elements[i];
  c.n_outputs = 2;
  *(int64_t *)case_input(&c, REED_I64, DIMS(1), 0)->data = 4;
  expect_indices(&c, (double[]){1, 3, 2, 0}, 4);
}
END_TEST

/* More of the last element in the order than a block of a device searches: the first ones are taken. */
START_TEST(topk_takes_the_first_of_many_last_elements) {
  enum { N = 3000, K = 2500 };
  kernel_case c;
  case_init(&c, OP_TopK);
  value *x = case_input(&c, REED_I64, DIMS(N), 0);
  for (int i = 0; i < N; i++) ((int64_t *)x->data)[i] = INT64_MIN;
  c.n_outputs = 2;
  *(int64_t *)case_input(&c, REED_I64, DIMS(1), 0)->data = K;
  case_parity(&c, 0, 0);
}
END_TEST

/* Data that mislead a sample of every n-th element: ascending, descending, of one value but for every 39th or 40th
 * element, or for some at the end; in rows that one thread selects, and several. */
START_TEST(topk_of_misleading_orders) {
  enum { N = 40000 };
  for (int order = 0; order < 6; order++)
    for (int wide = 0; wide < 2; wide++)
      for (int largest = 0; largest < 2; largest++) {
        kernel_case c;
        case_init(&c, OP_TopK);
        c.n_outputs = 2;
        value *x = case_input(&c, wide ? REED_F64 : REED_F32, DIMS(2, N), 0);
        for (int i = 0; i < 2 * N && !c.skipped; i++) {
          const int at = i % N;
          case_set(x, i,
                   order == 0   ? at
                   : order == 1 ? -at
                   : order == 2 ? at % 39 == 0
                   : order == 3 ? -(at % 39 == 0)
                   : order == 4 ? at >= N - 30
                   : at < 7     ? NAN
                                : 0);
        }
        *(int64_t *)case_input(&c, REED_I64, DIMS(1), 0)->data = 50;
        case_attr_int(&c, "axis", 1);
        case_attr_int(&c, "largest", largest);
        case_parity(&c, 0, 0);
      }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("TopK");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_test(t, topk_orders_ties_by_index_and_nan_above_all);
  tcase_add_loop_test(t, topk_equals_the_reference, 0, ROWS(topks));
  tcase_add_test(t, topk_takes_the_extremes_of_integers);
  tcase_add_test(t, topk_takes_the_first_of_many_last_elements);
  tcase_add_test(t, topk_of_misleading_orders);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
