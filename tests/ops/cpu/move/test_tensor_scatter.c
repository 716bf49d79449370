/* TensorScatter: where the update's rows come to lie, in a line and in a circle, in memory of its own and in the
 * cache's; places that do not fit. */
#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

typedef struct scatter_case {
  int64_t dims[4], rows, axis;
  bool circular, given;
  int64_t places[3];
} scatter_case;

static const scatter_case cases[] = {
    {{2, 3, 7, 5}, 2, -2, false, true, {0, 5}},   {{2, 3, 7, 5}, 7, -2, false, false, {0}},
    {{2, 3, 7, 5}, 3, 2, true, true, {5, 20}},    {{3, 4, 2, 6}, 2, 1, true, true, {3, 2, 0}},
    {{3, 4, 2, 6}, 1, 3, false, true, {5, 0, 2}}, {{2, 3, 7, 0}, 2, -2, false, true, {0, 5}},
    {{2, 3, 7, 5}, 0, -2, false, true, {7, 1}},   {{1, 1, 300, 64}, 1, -2, true, true, {299}},
};

static void open_case(kernel_case *c, const scatter_case *s, reed_dtype dtype) {
  int64_t update[4];
  memcpy(update, s->dims, sizeof update);
  update[s->axis < 0 ? 4 + s->axis : s->axis] = s->rows;
  case_init(c, OP_TensorScatter);
  case_input(c, dtype, 4, s->dims, 100);
  case_input(c, dtype, 4, update, 100);
  if (s->given) {
    value *places = case_input(c, REED_I64, DIMS(s->dims[0]), 0);
    for (int64_t i = 0; i < s->dims[0]; i++) case_set(places, i, (double)s->places[i]);
  }
  case_attr_int(c, "axis", s->axis);
  if (s->circular) case_attr_string(c, "mode", "circular");
  c->n_outputs = 1;
}

START_TEST(rows_come_to_their_places) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F16, REED_I64, REED_U8};
  const scatter_case *s = &cases[_i];
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
    kernel_case c;
    open_case(&c, s, dtypes[d]);
    ck_assert_int_eq(case_run(&c, cpu_level_name(cpu_level_best())), REED_OK);
    int32_t axis = (int32_t)(s->axis < 0 ? 4 + s->axis : s->axis);
    int64_t before = 1, after = 1, extent = s->dims[axis];
    for (int32_t i = 0; i < axis; i++) before *= s->dims[i];
    for (int32_t i = axis + 1; i < 4; i++) after *= s->dims[i];
    for (int64_t b = 0; b < before; b++)
      for (int64_t i = 0; i < extent; i++)
        for (int64_t k = 0; k < after; k++) {
          int64_t place = s->given ? s->places[b / (before / s->dims[0])] : 0, at = (b * extent + i) * after + k;
          int64_t row = i - place;
          if (s->circular) row = ((row % extent) + extent) % extent;
          bool written = row >= 0 && row < s->rows;
          double expected =
              written ? case_get(&c.inputs[1], (b * s->rows + row) * after + k) : case_get(&c.inputs[0], at);
          ck_assert_double_eq(case_get(&c.outputs[0], at), expected);
        }
    case_parity(&c, 0, 0);
  }
}
END_TEST

/* Operand `rows`: the result may have more rows than the cache, which are 0 unless the update takes them. */
START_TEST(rows_may_be_added) {
  static const struct {
    scatter_case s;
    int64_t rows;
  } grown[] = {{{{2, 3, 7, 5}, 2, -2, false, true, {7, 4}}, 9}, {{{2, 3, 7, 5}, 3, -2, false, true, {8, 0}}, 12},
               {{{2, 3, 7, 5}, 1, -2, false, true, {2, 6}}, 4}, {{{2, 3, 0, 5}, 4, -2, false, true, {0, 0}}, 4},
               {{{2, 3, 7, 5}, 0, -2, false, true, {7, 9}}, 9}, {{{3, 4, 2, 6}, 3, 1, false, true, {3, 4, 0}}, 7}};
  for (size_t i = 0; i < ROWS(grown); i++) {
    const scatter_case *s = &grown[i].s;
    kernel_case c;
    open_case(&c, s, REED_F32);
    case_set(case_input(&c, REED_I64, DIMS(1), 0), 0, (double)grown[i].rows);
    ck_assert_int_eq(case_run(&c, cpu_level_name(cpu_level_best())), REED_OK);
    const int32_t axis = (int32_t)(s->axis < 0 ? 4 + s->axis : s->axis);
    const int64_t past = s->dims[axis], room = past > grown[i].rows ? past : grown[i].rows;
    int64_t before = 1, after = 1;
    for (int32_t k = 0; k < axis; k++) before *= s->dims[k];
    for (int32_t k = axis + 1; k < 4; k++) after *= s->dims[k];
    ck_assert_int_eq(c.outputs[0].desc.dims[axis], room);
    for (int64_t at = 0; at < before * room * after; at++) {
      const int64_t b = at / after / room, row = at / after % room, k = at % after,
                    from = row - s->places[b / (before / s->dims[0])];
      const double expected = from >= 0 && from < s->rows ? case_get(&c.inputs[1], (b * s->rows + from) * after + k)
                              : row < past                ? case_get(&c.inputs[0], (b * past + row) * after + k)
                                                          : 0;
      ck_assert_double_eq(case_get(&c.outputs[0], at), expected);
    }
    case_parity(&c, 0, 0);
  }
}
END_TEST

START_TEST(places_that_do_not_fit_are_refused) {
  static const struct {
    scatter_case s;
    reed_status status;
    const char *says;
  } bad[] = {
      {{{2, 1, 7, 2}, 2, -2, false, true, {0, 6}}, REED_ERROR_VALUE, "row 7 of batch 1 is outside 0..6"},
      {{{2, 1, 7, 2}, 2, -2, false, true, {0, -1}}, REED_ERROR_VALUE, "row -1 of batch 1 is outside 0..6"},
      {{{2, 1, 7, 2}, 2, -2, true, true, {-1, 0}}, REED_ERROR_VALUE, "index -1 (element 0) is below 0"},
      {{{2, 1, 7, 2}, 8, -2, true, true, {0, 0}}, REED_ERROR_SHAPE, "8 rows for a cache of 7"},
      {{{2, 1, 7, 2}, 1, 0, true, true, {0, 0}}, REED_ERROR_SHAPE, "attribute axis is the batch"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    kernel_case c;
    open_case(&c, &bad[i].s, REED_F32);
    case_fails(&c, bad[i].status, bad[i].says);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("tensor_scatter");
  TCase *t = tcase_create("tensor_scatter");
  tcase_add_loop_test(t, rows_come_to_their_places, 0, ROWS(cases));
  tcase_add_test(t, rows_may_be_added);
  tcase_add_test(t, places_that_do_not_fit_are_refused);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
