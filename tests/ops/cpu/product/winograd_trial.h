/* A drawn Winograd convolution with its tensors, which a test runs in a form. */
#ifndef TESTS_OPS_CPU_PRODUCT_WINOGRAD_TRIAL_H_
#define TESTS_OPS_CPU_PRODUCT_WINOGRAD_TRIAL_H_

#include <string.h>

#include "tests/ops/cpu/product/winograd_case.h"

enum { TRIAL_GUARD = 64 }; /* floats after Y and bytes after the workspace that nothing may write */

typedef struct trial {
  winograd_problem p;
  winograd_form form;
  bool with_bias, with_residual, in_place;
  float *x, *plain, *packed, *bias, *residual, *y, *again;
  int64_t n_y;
} trial;

/* Fills in the tensors of a problem whose extents and distances are complete. */
static inline void trial_fill(trial *t) {
  const winograd_problem *p = &t->p;
  t->n_y = p->images * p->y_image;
  t->x = numbers(p->images * p->x_image);
  t->plain = numbers(problem_weights(p));
  t->bias = numbers(p->outputs);
  t->residual = numbers(t->n_y);
  t->y = numbers(t->n_y + TRIAL_GUARD);
  t->again = numbers(t->n_y + TRIAL_GUARD);
  t->packed = problem_pack(p, t->plain);
}

static inline void trial_fini(trial *t) {
  float *const all[] = {t->x, t->plain, t->packed, t->bias, t->residual, t->y, t->again};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* Element `i` of Y. */
static inline double trial_exact(const trial *t, int64_t i) {
  const winograd_problem *p = &t->p;
  double squares, sum = problem_exact(p, t->x, t->plain, i, &squares);
  if (t->with_bias) sum += (double)t->bias[i % p->outputs];
  if (t->with_residual) sum += (double)t->residual[i];
  return activation_at(&p->activation, sum);
}

/* Runs a form into y, a tensor of the trial. */
static inline void trial_run_form(const trial *t, const winograd_form *form, cpu_level level, int32_t threads,
                                  float *y) {
  winograd_plan plan;
  winograd_problem p = t->p;
  p.activation.level = level;
  winograd_plan_init(&plan, &p, form, (cpu_team){.threads = threads, .chunks = 1});
  int64_t bytes = winograd_plan_workspace_bytes(&plan);
  unsigned char *workspace = aligned_alloc(64, (size_t)(bytes + TRIAL_GUARD + 63) / 64 * 64);
  ck_assert_ptr_nonnull(workspace);
  memset(workspace, 0xff, (size_t)(bytes + TRIAL_GUARD)); /* NaN */
  float *stored = NULL;
  int64_t n_stored = winograd_plan_stored_bytes(&plan) / (int64_t)sizeof *stored;
  if (form->stored) {
    stored = numbers(n_stored + 1);
    stored[n_stored] = 7;
    winograd_plan_store(&plan, t->packed, stored);
    ck_assert_float_eq(stored[n_stored], 7);
  }
  for (int64_t i = 0; i < TRIAL_GUARD; i++) y[t->n_y + i] = 7;
  if (t->in_place) memcpy(y, t->residual, (size_t)t->n_y * sizeof *y);
  ck_assert_int_eq(winograd_plan_run(&plan, t->x, stored ? stored : t->packed, t->with_bias ? t->bias : NULL,
                                     !t->with_residual ? NULL
                                     : t->in_place     ? y
                                                       : t->residual,
                                     y, workspace),
                   REED_OK);
  for (int64_t i = 0; i < TRIAL_GUARD; i++) ck_assert_float_eq(y[t->n_y + i], 7);
  for (int64_t i = 0; i < TRIAL_GUARD; i++) ck_assert_int_eq(workspace[bytes + i], 0xff);
  free(workspace);
  free(stored);
}

#endif
