/* Winograd convolutions whose windows have taps along one axis only (winograd.h) against float64, at every CPU level:
 * every tile size, 3 to 12 taps, strides, dilations as long as the line, lines side by side, pads, addends; the same
 * bits for any number of threads and with stored weights. */
#include <math.h>
#include <stdlib.h>

#include "ops/cpu/product/winograd.h"
#include "tests/ops/cpu/product/winograd_trial.h"
#include "tests/suite.h"

enum { LINE_TAPS_MOST = 12, SAMPLES = 1500 };

/* Fills in the extents that follow from others, and the tensors. */
static void trial_init(trial *t) {
  winograd_problem *p = &t->p;
  problem_lay_out(p, false);
  if (drawn(0, 1)) { /* lines side by side, as columns of an image */
    p->x_row = p->channels;
    p->x_pixel = p->in[0] * p->x_row;
    p->y_row = p->outputs;
    p->y_pixel = p->out[0] * p->y_row;
  }
  trial_fill(t);
}

static void run(const trial *t, bool is_stored, cpu_level level, int32_t threads, float *y) {
  winograd_form form = t->form;
  form.stored = is_stored;
  trial_run_form(t, &form, level, threads, y);
}

/* The most that a result of unit inputs and weights may be off, over the root of the number of products. */
static double bound_of(const winograd_form *form) {
  static const double bounds[WINOGRAD_SIZES] = {5e-6, 3e-6, 1e-6};
  for (int i = 0; i < WINOGRAD_SIZES; i++)
    if (form->n[1][i]) return bounds[i];
  return 0;
}

static void check(trial *t) {
  const winograd_problem *p = &t->p;
  const double products = (double)(p->channels * p->line_taps),
               most = bound_of(&t->form) * sqrt(products) * (1 + products / 4000) + 1e-6;
  int n_sizes = 0;
  for (int i = 0; i < WINOGRAD_SIZES; i++) n_sizes += t->form.n[1][i] > 0;
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
    run(t, false, level, 1, t->y);
    const bool all = t->n_y <= SAMPLES;
    for (int64_t k = 0; k < (all ? t->n_y : SAMPLES); k++) {
      const int64_t i = all ? k : drawn(0, t->n_y - 1);
      const double off = fabs((double)t->y[i] - trial_exact(t, i));
      ck_assert_msg(off <= most,
                    "%s, %d images of %dx%dx%d to %dx%d, %d taps, dilation %d: element %d off by %g, bound %g",
                    cpu_level_name(level), (int)p->images, (int)p->in[0], (int)p->in[1], (int)p->channels,
                    (int)p->out[1], (int)p->outputs, (int)p->line_taps, (int)p->dilation[1], (int)i, off, most);
    }
    for (int32_t threads = 2; threads <= 7; threads += 5) {
      run(t, false, level, threads, t->again);
      ck_assert_mem_eq(t->again, t->y, (size_t)t->n_y * sizeof(float));
    }
    if (n_sizes > 1 || p->activation.kind == ACTIVATION_SIGMOID) continue;
    run(t, true, level, 3, t->again); /* the same sums in the same order */
    ck_assert_mem_eq(t->again, t->y, (size_t)t->n_y * sizeof(float));
  }
}

/* Cuts the lines into pieces of size `first` or, where they have none such, the next; mixed: and one of each smaller
 * size. */
static void cut(trial *t, int first, bool mixed) {
  if (first < winograd_largest(&t->p, 1)) first = winograd_largest(&t->p, 1);
  int64_t *n = t->form.n[1], extent = winograd_extent(&t->p, 1);
  t->form.n[0][0] = t->p.out[0];
  for (int i = WINOGRAD_SIZES - 1; i > first && mixed; i--) {
    if (extent <= winograd_pixels(&t->p, 1, i)) continue;
    n[i]++;
    extent -= winograd_pixels(&t->p, 1, i);
  }
  n[first] = divided(extent, winograd_pixels(&t->p, 1, first));
}

static const int64_t channel_counts[] = {1, 3, 8, 17, 64, 100};
static const activation_kind kinds[] = {ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_SIGMOID, ACTIVATION_LEAKY_RELU};

/* _i: the size of tiles, then the taps from 3 on; 3 taps also with stride 2. */
START_TEST(lines_are_near_float64) {
  const int size = _i % WINOGRAD_SIZES;
  const int64_t taps = 3 + _i / WINOGRAD_SIZES % (LINE_TAPS_MOST - 2);
  const bool strided = taps == 3 && _i >= WINOGRAD_SIZES * (LINE_TAPS_MOST - 2);
  drawn_state = (uint64_t)_i * 7919 + 5;
  for (int64_t extent = 1; extent <= 80; extent += extent < 9 ? 1 : 7) {
    trial t = {.p = {.images = drawn(1, 3),
                     .channels = channel_counts[drawn(0, 5)],
                     .outputs = channel_counts[drawn(0, 5)],
                     .line_taps = taps,
                     .stride = {1, strided ? 2 : 1},
                     .slices = winograd_one_slice,
                     .activation = {.kind = kinds[drawn(0, 3)], .alpha = .1}},
               .with_bias = drawn(0, 1),
               .with_residual = drawn(0, 1)};
    problem_draw_axis(&t.p, 1, extent, DILATED_IMAGES);
    t.p.in[0] = t.p.out[0] = drawn(1, 3);
    t.p.dilation[0] = 1;
    cut(&t, size, extent % 4 == 3);
    trial_init(&t);
    check(&t);
    trial_fini(&t);
  }
}
END_TEST

/* Blocks of a thread, halves of blocks, panels whose depth is taken in pieces. */
START_TEST(long_and_deep_lines_are_near_float64) {
  static const int64_t rows[][4] = {/* pixels, channels, outputs, taps */
                                    {6007, 32, 32, 11}, {3001, 64, 48, 7}, {500, 256, 256, 3},
                                    {97, 300, 520, 5},  {41, 512, 512, 3}, {1201, 128, 128, 11}};
  drawn_state = (uint64_t)_i + 11;
  for (int64_t dilation = 1; dilation <= 5; dilation += 4) {
    trial t = {.p = {.images = 1,
                     .channels = rows[_i][1],
                     .outputs = rows[_i][2],
                     .line_taps = rows[_i][3],
                     .in = {1, rows[_i][0]},
                     .out = {1, rows[_i][0]},
                     .pad = {0, rows[_i][3] / 2 * dilation},
                     .stride = {1, 1},
                     .dilation = {1, dilation},
                     .slices = winograd_one_slice,
                     .activation = {.kind = ACTIVATION_RELU}},
               .with_bias = true,
               .with_residual = dilation > 1};
    cut(&t, 0, false);
    trial_init(&t);
    check(&t);
    trial_fini(&t);
  }
}
END_TEST

START_TEST(lines_are_chosen_where_they_are_faster) {
  static const struct {
    int64_t pixels, channels, taps;
    int32_t stride;
    bool chosen;
  } rows[] = {{400, 256, 3, 1, true}, {400, 256, 7, 1, true},  {6400, 64, 11, 1, true}, {200, 64, 128, 1, true},
              {800, 512, 3, 2, true}, {6400, 16, 3, 1, false}, {1, 64, 3, 1, false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    winograd_problem p = {.images = 1,
                          .channels = rows[i].channels,
                          .outputs = rows[i].channels,
                          .line_taps = rows[i].taps,
                          .in = {1, rows[i].stride * rows[i].pixels},
                          .out = {1, rows[i].pixels},
                          .pad = {0, rows[i].taps / 2},
                          .stride = {1, rows[i].stride},
                          .dilation = {1, 1},
                          .slices = winograd_one_slice,
                          .activation = {.level = CPU_AVX512}};
    winograd_form form;
    const bool chosen = winograd_choose(&p, false, &form);
    ck_assert_msg(chosen == rows[i].chosen, "%d pixels, %d channels, %d taps: %s", (int)rows[i].pixels,
                  (int)rows[i].channels, (int)rows[i].taps, chosen ? "lines" : "direct");
  }
}
END_TEST

int main(void) {
  cpu_units_use("half"); /* the rows say what is chosen with units of half the width */
  Suite *suite = suite_create("winograd_lines");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, lines_are_near_float64, 0, WINOGRAD_SIZES * (LINE_TAPS_MOST - 1));
  tcase_add_loop_test(t, long_and_deep_lines_are_near_float64, 0, 6);
  tcase_add_test(t, lines_are_chosen_where_they_are_faster);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
