/* The rounding of weights to half precision: every half is one of the two next to its weight, the errors of an output's
 * weights cancel, and the same weights give the same halves. */
#include <math.h>

#include "base/half.h"
#include "base/random.h"
#include "compiler/passes/layout/round_weights.h"
#include "tests/suite.h"

enum { OUTPUTS = 24, DEPTH = 320 };

/* [outputs, depth] with `transposed` false, else [depth, outputs]. */
static packed_order matrix_order(reed_dtype dtype, bool transposed) {
  return (packed_order){
      .plain = {.dtype = dtype, .rank = 2, .dims = {transposed ? DEPTH : OUTPUTS, transposed ? OUTPUTS : DEPTH}},
      .n_parts = 1,
      .outputs = OUTPUTS,
      .rows = 1,
      .columns = 1,
      .channels = DEPTH,
      .taps = 1,
      .w_output = transposed ? 1 : DEPTH,
      .w_channel = transposed ? OUTPUTS : 1};
}

static void fill(float *w, int64_t n) {
  uint64_t seed = 5;
  for (int64_t i = 0; i < n; i++) w[i] = (float)((double)(random_next(&seed) >> 11) * 0x1p-53 - 0.5) / 8;
}

static float widened(reed_dtype dtype, uint16_t half) {
  return dtype == REED_BF16 ? bf16_to_f32(half) : f16_to_f32(half);
}

static void round_all(const packed_order *order, const float *w, uint16_t *halves, bool *exceeded) {
  ir_module *m;
  ck_assert_int_eq(ir_module_open(NULL, NULL, &m), REED_OK);
  ck_assert_int_eq(round_weights(m, order, w, halves, exceeded), REED_OK);
  ir_module_close(&m);
}

START_TEST(errors_of_an_output_cancel) {
  static float w[OUTPUTS * DEPTH];
  static uint16_t halves[OUTPUTS * DEPTH], again[OUTPUTS * DEPTH];
  const reed_dtype dtype = _i & 1 ? REED_F16 : REED_BF16;
  const packed_order order = matrix_order(dtype, _i & 2);
  bool exceeded;
  fill(w, OUTPUTS * DEPTH);
  round_all(&order, w, halves, &exceeded);
  ck_assert(!exceeded);
  double nearest = 0, made = 0, squares = 0, most_squares = 0;
  for (int64_t o = 0; o < OUTPUTS; o++) {
    double sum_nearest = 0, sum = 0;
    for (int64_t k = 0; k < DEPTH; k++) {
      const int64_t at = o * order.w_output + k * order.w_channel;
      const uint16_t near = dtype == REED_BF16 ? bf16_from_f32(w[at]) : f16_from_f32(w[at]);
      const double error = (double)widened(dtype, halves[at]) - (double)w[at],
                   least = (double)widened(dtype, near) - (double)w[at];
      ck_assert_msg(halves[at] == near || (abs(halves[at] - near) == 1 && error * least < 0),
                    "weight %g became %g, which is not next to it", (double)w[at], (double)widened(dtype, halves[at]));
      sum_nearest += least;
      sum += error;
      squares += error * error;
      most_squares += least * least;
    }
    nearest += sum_nearest * sum_nearest;
    made += sum * sum;
  }
  ck_assert_msg(made * 20 < nearest, "sums of errors %g, of the nearest halves %g", sqrt(made), sqrt(nearest));
  ck_assert_msg(squares < most_squares * 1.1, "squares of errors %g, of the nearest halves %g", squares, most_squares);
  round_all(&order, w, again, &exceeded);
  ck_assert_mem_eq(halves, again, sizeof halves);
}
END_TEST

/* Numbers that halves hold stay; an output with a weight that is not finite is rounded to nearest; what is too large is
 * said. */
START_TEST(numbers_of_all_kinds_keep_their_kind) {
  static float w[OUTPUTS * DEPTH];
  static uint16_t halves[OUTPUTS * DEPTH];
  const reed_dtype dtype = _i & 1 ? REED_F16 : REED_BF16;
  const packed_order order = matrix_order(dtype, false);
  bool exceeded;
  fill(w, OUTPUTS * DEPTH);
  for (int i = 0; i < DEPTH; i++) w[i] = (float)(i % 13) / 8;
  w[DEPTH] = INFINITY;
  w[2 * DEPTH] = -NAN;
  w[2 * DEPTH + 1] = 0x1p-149F;
  w[3 * DEPTH] = _i & 1 ? 65503 : 0x1.fep127F; /* next to the largest half */
  round_all(&order, w, halves, &exceeded);
  ck_assert(!exceeded);
  for (int i = 0; i < OUTPUTS * DEPTH; i++) {
    const float half = widened(dtype, halves[i]);
    if (i / DEPTH < 3) { /* rounded to nearest */
      const uint16_t near = dtype == REED_BF16 ? bf16_from_f32(w[i]) : f16_from_f32(w[i]);
      ck_assert_msg(halves[i] == near, "%d: %g became %g", i, (double)w[i], (double)half);
    }
    if (isnan(w[i])) ck_assert(isnan(half));
    else if (isinf(w[i]) || i < DEPTH) ck_assert(half == w[i]);
    else ck_assert_msg(fabsf(half - w[i]) <= fabsf(w[i]) / 128 + 0x1p-24F, "%g became %g", (double)w[i], (double)half);
  }
  w[5] = 65520;
  round_all(&order, w, halves, &exceeded);
  ck_assert(exceeded == (dtype == REED_F16));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("rounded weights");
  TCase *t = tcase_create("rounded weights");
  tcase_add_loop_test(t, errors_of_an_output_cancel, 0, 4);
  tcase_add_loop_test(t, numbers_of_all_kinds_keep_their_kind, 0, 2);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
