/* RotaryEmbedding against its reference: heads before or after the places, pairs of halves or neighbours, parts of a
 * head, caches by place and by number; caches and numbers that do not fit. */
#include <math.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

typedef struct rotary_case {
  const char *what;
  int64_t batch, heads, length, size;
  int64_t turned; /* rotary_embedding_dim; 0: not given */
  int64_t places; /* rows of the caches, which position_ids choose; 0: a row for each place */
  bool flat, interleaved;
  bool full;   /* the caches have a column for each element */
  bool shared; /* the caches have one batch, which all batches of x share */
} rotary_case;

static const rotary_case cases[] = {
    {"one pair", 1, 1, 1, 2},
    {"halves", 2, 3, 5, 32},
    {"odd numbers of pairs", 2, 3, 5, 14},
    {"neighbours", 2, 3, 5, 14, .interleaved = true},
    {"a part of a head", 2, 3, 5, 40, .turned = 20},
    {"a part of a head, neighbours", 2, 3, 5, 20, .turned = 6, .interleaved = true},
    {"flat", 2, 3, 5, 16, .flat = true},
    {"flat, a part of a head", 2, 3, 5, 16, .turned = 8, .flat = true},
    {"by number", 2, 3, 5, 32, .places = 11},
    {"by number, flat, neighbours", 2, 2, 7, 12, .places = 50, .flat = true, .interleaved = true},
    {"many neighbours", 2, 3, 5, 74, .interleaved = true},
    {"many neighbours, by number, a part", 2, 2, 3, 140, .turned = 132, .places = 9, .interleaved = true},
    {"columns for all elements", 2, 3, 5, 38, .full = true},
    {"columns for all elements, neighbours", 2, 3, 5, 22, .full = true, .interleaved = true},
    {"one batch of caches", 3, 2, 4, 34, .shared = true},
    {"one batch of caches, a part, all elements", 3, 2, 4, 34, .turned = 18, .full = true, .shared = true},
    {"many rows", 1, 32, 200, 64, .full = true},
    {"no places", 2, 3, 0, 8},
    {"no heads", 2, 0, 3, 8},
};

static void open_case(kernel_case *c, const rotary_case *r, reed_dtype dtype) {
  int64_t columns = (r->turned ? r->turned : r->size) / (r->full ? 1 : 2), batch = r->shared ? 1 : r->batch;
  case_init(c, OP_RotaryEmbedding);
  if (r->flat) case_input(c, dtype, DIMS(r->batch, r->length, r->heads * r->size), 2);
  else case_input(c, dtype, DIMS(r->batch, r->heads, r->length, r->size), 2);
  for (int k = 0; k < 2; k++) {
    if (r->places) case_input(c, dtype, DIMS(r->places, columns), 1);
    else case_input(c, dtype, DIMS(batch, r->length, columns), 1);
  }
  if (r->places) {
    value *ids = case_input(c, REED_I64, DIMS(r->batch, r->length), 0);
    for (int64_t i = 0; i < r->batch * r->length; i++) case_set(ids, i, (double)(i * 7 % r->places));
  }
  if (r->flat) case_attr_int(c, "num_heads", r->heads);
  if (r->turned) case_attr_int(c, "rotary_embedding_dim", r->turned);
  if (r->interleaved) case_attr_int(c, "interleaved", 1);
  c->n_outputs = 1;
}

START_TEST(rotary_equals_its_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16, REED_BF16};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    kernel_case c;
    open_case(&c, &cases[_i], dtypes[i]);
    double tolerance = dtypes[i] == REED_F32 ? 1e-6 : case_tolerance(dtypes[i]);
    case_parity(&c, tolerance, tolerance);
  }
}
END_TEST

/* By hand: a quarter turn of the pairs (1, 3) and (2, 4), or of (1, 2) and (3, 4). */
START_TEST(pairs_are_turned) {
  for (int neighbours = 0; neighbours < 2; neighbours++) {
    kernel_case c;
    case_init(&c, OP_RotaryEmbedding);
    case_filled(&c, REED_F32, DIMS(1, 1, 1, 4), (double[]){1, 2, 3, 4});
    case_filled(&c, REED_F32, DIMS(1, 1, 2), (double[]){0, 0});
    case_filled(&c, REED_F32, DIMS(1, 1, 2), (double[]){1, 1});
    case_attr_int(&c, "interleaved", neighbours);
    c.n_outputs = 1;
    case_expect(&c, neighbours ? (double[]){-2, 1, -4, 3} : (double[]){-3, -4, 1, 2}, 4);
  }
}
END_TEST

START_TEST(caches_and_numbers_that_do_not_fit_are_refused) {
  static const struct {
    int64_t cos[3], sin[3], turned;
    const char *says;
  } bad[] = {{{1, 3, 3}, {1, 3, 3}, 0, "do not fit 4 pairs"},
             {{1, 3, 4}, {1, 3, 5}, 0, "the extents of the caches"},
             {{1, 2, 4}, {1, 2, 4}, 0, "the lengths"},
             {{2, 3, 4}, {2, 3, 4}, 0, "do not fit"},
             {{1, 3, 5}, {1, 3, 5}, 10, "turns 10 of a head's 8 elements"},
             {{1, 3, 1}, {1, 3, 1}, 3, "turns 3 of a head's 8 elements"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    kernel_case c;
    case_init(&c, OP_RotaryEmbedding);
    case_input(&c, REED_F32, DIMS(1, 2, 3, 8), 1);
    case_input(&c, REED_F32, 3, bad[i].cos, 1);
    case_input(&c, REED_F32, 3, bad[i].sin, 1);
    if (bad[i].turned) case_attr_int(&c, "rotary_embedding_dim", bad[i].turned);
    c.n_outputs = 1;
    case_fails(&c, REED_ERROR_SHAPE, bad[i].says);
  }
  kernel_case c;
  case_init(&c, OP_RotaryEmbedding);
  case_input(&c, REED_F32, DIMS(1, 2, 3, 8), 1);
  case_input(&c, REED_F32, DIMS(5, 4), 1);
  case_input(&c, REED_F32, DIMS(5, 4), 1);
  case_filled(&c, REED_I64, DIMS(1, 3), (double[]){0, 5, 1});
  c.n_outputs = 1;
  case_fails(&c, REED_ERROR_VALUE, "index 5 (element 1) is outside -5..4");
  case_init(&c, OP_RotaryEmbedding); /* no row, so no number of one */
  case_input(&c, REED_F32, DIMS(1, 2, 1, 8), 1);
  case_input(&c, REED_F32, DIMS(0, 4), 1);
  case_input(&c, REED_F32, DIMS(0, 4), 1);
  case_filled(&c, REED_I64, DIMS(1, 1), (double[]){0});
  c.n_outputs = 1;
  case_fails(&c, REED_ERROR_VALUE, "index 0 (element 0)");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("rotary");
  TCase *t = tcase_create("rotary");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, rotary_equals_its_reference, 0, ROWS(cases));
  tcase_add_test(t, pairs_are_turned);
  tcase_add_test(t, caches_and_numbers_that_do_not_fit_are_refused);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
