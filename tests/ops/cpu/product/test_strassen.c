/* Strassen's products against float64, at every CPU level: extents with and without parts of blocks, addends,
 * activations, rows and columns of any magnitude, numbers that are not finite; the same bits for any number of threads;
 * the choice between them and direct products; memory outside of Y and the workspace untouched. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "ops/call.h"
#include "ops/cpu/product/strassen.h"
#include "tests/ops/cpu/product/drawn.h"
#include "tests/suite.h"

enum { GUARD = 64 };

typedef struct trial {
  strassen_problem p;
  bool with_residual, in_place;
  int64_t n_pieces;                            /* of the last plan */
  float *a, *b, *packed, *bias, *residual, *y; /* b: [depth][outputs] */
} trial;

static void pack(trial *t) {
  const strassen_problem *p = &t->p;
  float *to = t->packed;
  for (int64_t panel = 0; panel < packed_panels(p->outputs); panel++)
    for (int64_t k = 0; k < p->depth; k++)
      for (int64_t j = 0; j < packed_width(p->outputs, panel); j++) {
        const int64_t output = panel * PACKED_WIDTH + j;
        *to++ = output < p->outputs ? t->b[k * p->outputs + output] : 0;
      }
}

static void trial_init(trial *t) {
  strassen_problem *p = &t->p;
  if (!p->a_row) p->a_row = p->depth;
  if (!p->y_row) p->y_row = p->outputs;
  t->a = numbers(p->rows * p->a_row);
  t->b = numbers(p->depth * p->outputs);
  t->packed = numbers(p->depth * (p->outputs + PACKED_WIDTH));
  t->bias = numbers(p->outputs + 2 * PACKED_WIDTH);
  t->residual = numbers(p->rows * p->y_row);
  t->y = numbers(p->rows * p->y_row + 2 * GUARD);
  pack(t);
}
static void trial_free(trial *t) {
  free(t->a), free(t->b), free(t->packed), free(t->bias), free(t->residual), free(t->y);
}

/* Runs into t->y. */
static float *multiply(trial *t, cpu_level level, int32_t threads) {
  const strassen_problem *p = &t->p;
  const int64_t n = p->rows * p->y_row;
  t->p.activation.level = level;
  strassen_plan plan;
  strassen_plan_init(&plan, p, level, (cpu_team){.threads = threads, .chunks = threads});
  t->n_pieces = plan.n_pieces;
  const int64_t floats = strassen_plan_workspace_bytes(&plan) / (int64_t)sizeof(float);
  float *workspace = aligned_alloc(64, (size_t)(floats + 2 * GUARD) * sizeof(float)), *y = t->y + GUARD;
  ck_assert_ptr_nonnull(workspace);
  for (int64_t i = 0; i < floats + 2 * GUARD; i++) workspace[i] = NAN;
  for (int64_t i = 0; i < n + 2 * GUARD; i++) t->y[i] = 12345;
  for (int64_t i = 0; t->in_place && i < n; i++) y[i] = t->residual[i];
  ck_assert_int_eq(strassen_plan_run(&plan, t->a, t->packed, t->bias,
                                     !t->with_residual ? NULL
                                     : t->in_place     ? y
                                                       : t->residual,
                                     y, workspace + GUARD),
                   REED_OK);
  for (int i = 0; i < GUARD; i++) {
    ck_assert_float_eq(t->y[i], 12345);
    ck_assert_float_eq(y[n + i], 12345);
    ck_assert(isnan(workspace[i]) && isnan(workspace[GUARD + floats + i]));
  }
  free(workspace);
  return y;
}

static double magnitude(const float *x, int64_t n, int64_t step) {
  double most = 0;
  for (int64_t i = 0; i < n; i++) most = fmax(most, fabs((double)x[i * step]));
  return most;
}

/* Checks every `step`-th row. An element may be as far off as some of its sum's terms of the largest magnitude are. */
static void check(const trial *t, const float *y, cpu_level level, int64_t step) {
  const strassen_problem *p = &t->p;
  double *columns = malloc((size_t)p->outputs * sizeof *columns), *sums = malloc((size_t)p->outputs * sizeof *sums);
  ck_assert(columns && sums);
  for (int64_t j = 0; j < p->outputs; j++) columns[j] = magnitude(t->b + j, p->depth, p->outputs);
  for (int64_t i = 0; i < p->rows; i += step) {
    const double row = magnitude(t->a + i * p->a_row, p->depth, 1);
    for (int64_t j = 0; j < p->outputs; j++) sums[j] = 0;
    for (int64_t k = 0; k < p->depth; k++)
      for (int64_t j = 0; j < p->outputs; j++)
        sums[j] += (double)t->a[i * p->a_row + k] * (double)t->b[k * p->outputs + j];
    for (int64_t j = 0; j < p->outputs; j++) {
      const double added = (double)t->bias[j] + (t->with_residual ? (double)t->residual[i * p->y_row + j] : 0),
                   wanted = activation_at(&p->activation, sums[j] + added),
                   most = 3e-6 * sqrt((double)p->depth) * row * columns[j] + 1e-6 * (fabs(added) + fabs(sums[j])),
                   error = fabs((double)y[i * p->y_row + j] - wanted);
      ck_assert_msg(error <= most,
                    "%s, rows %lld, depth %lld, outputs %lld: [%lld][%lld] is %g, in float64 %g; off by %g, not %g",
                    cpu_level_name(level), (long long)p->rows, (long long)p->depth, (long long)p->outputs, (long long)i,
                    (long long)j, (double)y[i * p->y_row + j], wanted, error, most);
    }
  }
  free(columns), free(sums);
}

#define FOR_LEVELS(level) \
  for (cpu_level level = CPU_BASE; level <= cpu_level_best() && level <= CPU_AVX512; level = (cpu_level)(level + 1))

static const struct {
  int64_t rows, depth, outputs;
} extents[] = {
    {112, 64, 128},  {113, 64, 128},  {57, 128, 256},  {1, 64, 128},     {2, 32, 128},
    {3, 96, 300},    {200, 256, 130}, {61, 1024, 192}, {70, 1056, 128},  {75, 2048, 144},
    {30, 3104, 128}, {801, 64, 256},  {55, 160, 1024}, {1700, 128, 128}, {340, 768, 1000},
};
#define N_EXTENTS ((int)(sizeof extents / sizeof *extents))

START_TEST(products_equal_float64) {
  drawn_state = (uint64_t)_i + 1;
  trial t = {.p = {.rows = extents[_i].rows, .depth = extents[_i].depth, .outputs = extents[_i].outputs}};
  if (_i % 3 == 1) t.p.a_row = t.p.depth + 16, t.p.y_row = t.p.outputs + 5;
  t.with_residual = _i % 2;
  t.in_place = _i % 4 == 3;
  t.p.activation.kind = _i % 3 == 0 ? ACTIVATION_NONE : _i % 3 == 1 ? ACTIVATION_RELU : ACTIVATION_SIGMOID;
  trial_init(&t);
  FOR_LEVELS(level) check(&t, multiply(&t, level, 1 + _i % 3), level, 1 + t.p.rows / 100);
  trial_free(&t);
}
END_TEST

/* Without scales a product's error would follow the largest row and column of its block. */
START_TEST(small_rows_and_columns_stay_exact) {
  drawn_state = 77;
  trial t = {.p = {.rows = 130, .depth = 256, .outputs = 256}};
  trial_init(&t);
  for (int64_t i = 0; i < t.p.rows; i++) {
    const int by = (int)drawn(-40, 40);
    for (int64_t k = 0; k < t.p.depth; k++) t.a[i * t.p.a_row + k] = ldexpf(t.a[i * t.p.a_row + k], by);
  }
  for (int64_t j = 0; j < t.p.outputs; j++) {
    const int by = (int)drawn(-40, 40);
    for (int64_t k = 0; k < t.p.depth; k++) t.b[k * t.p.outputs + j] = ldexpf(t.b[k * t.p.outputs + j], by);
    t.bias[j] = 0;
  }
  pack(&t);
  FOR_LEVELS(level) check(&t, multiply(&t, level, 2), level, 1);
  trial_free(&t);
}
END_TEST

START_TEST(rows_and_columns_of_zeros_are_exact) {
  drawn_state = 78;
  trial t = {.p = {.rows = 112, .depth = 64, .outputs = 128}};
  trial_init(&t);
  for (int64_t k = 0; k < t.p.depth; k++) {
    t.a[5 * t.p.a_row + k] = t.a[90 * t.p.a_row + k] = 0;
    t.b[k * t.p.outputs + 3] = t.b[k * t.p.outputs + 100] = 0;
  }
  for (int64_t j = 0; j < t.p.outputs; j++) t.bias[j] = 0;
  pack(&t);
  FOR_LEVELS(level) {
    const float *y = multiply(&t, level, 1);
    for (int64_t i = 0; i < t.p.rows; i++)
      for (int64_t j = 0; j < t.p.outputs; j++)
        if (i == 5 || i == 90 || j == 3 || j == 100) ck_assert(y[i * t.p.y_row + j] == 0);
  }
  trial_free(&t);
}
END_TEST

/* A value that is not finite reaches only its own row, or column, and a huge one makes nothing else infinite. */
START_TEST(what_is_not_finite_stays_in_its_row_or_column) {
  const float values[] = {NAN, INFINITY, -INFINITY, 3e38f, -1e37f};
  const bool in_row = _i % 2 == 0;
  const float value = values[_i / 2];
  drawn_state = 79;
  trial t = {.p = {.rows = 230, .depth = 1056, .outputs = 300}};
  trial_init(&t);
  const int64_t row = 40, column = 70, k = _i < 4 ? 1050 : 3;
  if (in_row) t.a[row * t.p.a_row + k] = value;
  else t.b[k * t.p.outputs + column] = value;
  pack(&t);
  FOR_LEVELS(level) {
    const float *y = multiply(&t, level, 2);
    for (int64_t i = 0; i < t.p.rows; i++)
      for (int64_t j = 0; j < t.p.outputs; j++) {
        const float of_y = y[i * t.p.y_row + j];
        if (in_row ? i == row : j == column) ck_assert(isfinite(value) || !isfinite(of_y));
        else ck_assert(isfinite(of_y) && fabsf(of_y) < 1000);
      }
  }
  trial_free(&t);
}
END_TEST

/* Blocks of rows in one piece (many of them, or one thread), or in two or four. */
START_TEST(threads_change_no_bits) {
  static const strassen_problem problems[] = {{.rows = 900, .depth = 1056, .outputs = 330},
                                              {.rows = 900, .depth = 96, .outputs = 1034}};
  drawn_state = 80;
  trial t = {.p = problems[_i], .with_residual = true};
  t.p.activation.kind = ACTIVATION_RELU;
  trial_init(&t);
  t.a[30 * t.p.a_row + 5] = 3e38f; /* some rows of a block are multiplied directly */
  float *once = malloc((size_t)(t.p.rows * t.p.outputs) * sizeof *once);
  ck_assert_ptr_nonnull(once);
  FOR_LEVELS(level) {
    const size_t bytes = (size_t)(t.p.rows * t.p.outputs) * sizeof *once;
    memcpy(once, multiply(&t, level, 1), bytes);
    for (int32_t threads = 2; threads <= 7; threads += 1 + (threads == 3) * 3) {
      ck_assert_mem_eq(once, multiply(&t, level, threads), bytes); /* 2: own sums of panels, 3 and 7: shared ones */
      ck_assert(_i == 0 ? t.n_pieces > 1 : threads > 2 || t.n_pieces == 1);
    }
  }
  free(once);
  trial_free(&t);
}
END_TEST

/* Weights of f16 are widened exactly. */
START_TEST(weights_of_f16_give_the_bits_of_f32) {
  drawn_state = 81;
  trial t = {.p = {.rows = 115, .depth = 1056, .outputs = 330}};
  trial_init(&t);
  for (int64_t i = 0; i < t.p.depth * t.p.outputs; i++) t.b[i] = f16_to_f32(f16_from_f32(t.b[i]));
  pack(&t);
  const int64_t n = t.p.depth * (t.p.outputs + PACKED_WIDTH);
  uint16_t *halves = malloc((size_t)n * sizeof *halves);
  float *floats = t.packed, *once = malloc((size_t)(t.p.rows * t.p.outputs) * sizeof *once);
  ck_assert(halves && once);
  for (int64_t i = 0; i < n; i++) halves[i] = f16_from_f32(floats[i]);
  for (cpu_level level = CPU_AVX2; level <= cpu_level_best() && level <= CPU_AVX512; level = (cpu_level)(level + 1))
    for (int32_t threads = 1; threads <= 2; threads++) {
      const size_t bytes = (size_t)(t.p.rows * t.p.outputs) * sizeof *once;
      memcpy(once, multiply(&t, level, threads), bytes);
      t.p.weights_f16 = true;
      t.packed = (float *)(void *)halves;
      ck_assert_mem_eq(once, multiply(&t, level, threads), bytes);
      t.p.weights_f16 = false;
      t.packed = floats;
    }
  free(halves), free(once);
  trial_free(&t);
}
END_TEST

START_TEST(they_are_chosen_for_large_products_only) {
  const strassen_problem large = {.rows = 3072, .depth = 768, .outputs = 768};
  FOR_LEVELS(level) {
    strassen_problem p = large;
    ck_assert(strassen_is_faster(&p, level));
    p.rows = 30;
    ck_assert(!strassen_is_faster(&p, level)); /* which the sums of B would outweigh */
    p = large, p.outputs = 127;
    ck_assert(!strassen_is_faster(&p, level)); /* no pair of panels */
    p = large, p.depth = 776;
    ck_assert(!strassen_is_faster(&p, level)); /* halves are no whole vectors */
    p = large, p.depth = 0;
    ck_assert(!strassen_is_faster(&p, level));
    p = large, p.rows = 0;
    ck_assert(!strassen_is_faster(&p, level));
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("strassen");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, products_equal_float64, 0, N_EXTENTS);
  tcase_add_test(t, small_rows_and_columns_stay_exact);
  tcase_add_test(t, rows_and_columns_of_zeros_are_exact);
  tcase_add_loop_test(t, what_is_not_finite_stays_in_its_row_or_column, 0, 10);
  tcase_add_loop_test(t, threads_change_no_bits, 0, 2);
  tcase_add_test(t, weights_of_f16_give_the_bits_of_f32);
  tcase_add_test(t, they_are_chosen_for_large_products_only);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
