/* Winograd convolutions of every tile size against float64, at every CPU level: extents, strides, dilations, volumes,
 * channels, batches, pads, addends, activations; the same bits for any number of threads and with stored weights;
 * memory outside of Y and the workspace untouched. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/team.h"
#include "ops/call.h"
#include "ops/cpu/product/winograd.h"
#include "tests/ops/cpu/product/direct.h"
#include "tests/ops/cpu/product/winograd_trial.h"
#include "tests/suite.h"

enum { SAMPLES = 1500, LINE_FLOATS = 16, MOST_PRODUCTS = 1 << 19 };

/* Fills in the extents that follow from others, and the tensors. `second`: X has channels second. */
static void trial_init(trial *t, bool second) {
  problem_lay_out(&t->p, second);
  trial_fill(t);
}

static void run(const trial *t, cpu_level level, int32_t threads, float *y) {
  trial_run_form(t, &t->form, level, threads, y);
}

static bool of_one_size(const winograd_form *form) {
  int n[2] = {0};
  for (int axis = 0; axis < 2; axis++)
    for (int i = 0; i < WINOGRAD_SIZES; i++) n[axis] += form->n[axis][i] > 0;
  return n[0] == 1 && n[1] == 1;
}

/* The most that a result of unit inputs and weights may be off, over the root of the number of products. */
static double bound_of(const winograd_form *form) {
  static const double bounds[WINOGRAD_SIZES] = {2.5e-5, 9e-6, 1.5e-6};
  for (int i = 0; i < WINOGRAD_SIZES; i++)
    if (form->n[0][i] || form->n[1][i]) return bounds[i];
  return 0;
}

static double largest[WINOGRAD_SIZES];

/* The numbers of threads follow from Y's width, so that the trials of a form have all of them. */
static void check(trial *t) {
  const bool odd = t->p.out[1] % 2;
  const bool volume = t->p.slices.taps > 1; /* whose largest element is one of more */
  double depth = (double)(t->p.channels * t->p.slices.taps),
         most = (volume ? 1.7 : 1) * bound_of(&t->form) * sqrt(9 * depth) * (1 + depth / 400) + 1e-6, worst = 0;
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
    run(t, level, 1, t->y);
    bool all = t->n_y <= SAMPLES;
    for (int64_t k = 0; k < (all ? t->n_y : SAMPLES); k++) {
      int64_t i = all ? k : drawn(0, t->n_y - 1);
      double off = fabs((double)t->y[i] - trial_exact(t, i));
      if (off > worst) worst = off;
      ck_assert_msg(off <= most, "%s, %s, %dx%dx%dx%d to %dx%dx%d: element %d off by %g, bound %g",
                    t->form.n[0][0]   ? "6"
                    : t->form.n[0][1] ? "4"
                                      : "2",
                    cpu_level_name(level), (int)t->p.images, (int)t->p.in[0], (int)t->p.in[1], (int)t->p.channels,
                    (int)t->p.out[0], (int)t->p.out[1], (int)t->p.outputs, (int)i, off, most);
    }
    const int32_t threads = odd ? 5 : 2;
    run(t, level, threads, t->again);
    int64_t i = 0;
    while (i < t->n_y && memcmp(&t->y[i], &t->again[i], sizeof(float)) == 0) i++;
    ck_assert_msg(i == t->n_y, "%d threads, activation %d: element %d of %d is %.9g, not %.9g", (int)threads,
                  (int)t->p.activation.kind, (int)i, (int)t->n_y, (double)t->again[i], (double)t->y[i]);
    if (of_one_size(&t->form) && t->p.activation.kind != ACTIVATION_SIGMOID) { /* the same sums in the same order */
      winograd_form stored = t->form;
      stored.stored = true;
      trial_run_form(t, &stored, level, odd ? 3 : 1, t->again);
      ck_assert_mem_eq(t->again, t->y, (size_t)t->n_y * sizeof(float));
    }
  }
  for (int i = 0; i < WINOGRAD_SIZES; i++)
    if (t->form.n[0][i] || t->form.n[1][i]) {
      worst /= sqrt(9 * depth);
      if (worst > largest[i]) largest[i] = worst;
      break;
    }
}

/* Cuts an axis of Y: pieces of size `first` or, where the axis has none such, the next, then at most two of each
 * smaller size, as drawn. */
static void cut(trial *t, int axis, int first, bool mixed) {
  if (first < winograd_largest(&t->p, axis)) first = winograd_largest(&t->p, axis);
  int64_t *n = t->form.n[axis], extent = winograd_extent(&t->p, axis);
  for (int i = 0; i < WINOGRAD_SIZES; i++) n[i] = 0;
  for (int i = WINOGRAD_SIZES - 1; i > first && mixed; i--)
    for (int64_t few = drawn(0, 2); few > 0 && extent > winograd_pixels(&t->p, axis, i); few--) {
      n[i]++;
      extent -= winograd_pixels(&t->p, axis, i);
    }
  const int64_t pixels = winograd_pixels(&t->p, axis, first);
  n[first] = (extent + pixels - 1) / pixels;
}

static const int64_t channel_counts[] = {1, 3, 8, 17, 64, 100};

/* Draws channels and outputs: fewer for a large map, which takes minutes with many under the sanitizers. */
static void draw_channels(trial *t, int64_t pixels) {
  int64_t channels = drawn(0, 5), outputs = drawn(0, 5);
  while (pixels * channel_counts[channels] * channel_counts[outputs] > MOST_PRODUCTS)
    if (channels > outputs) channels--;
    else outputs--;
  t->p.channels = channel_counts[channels];
  t->p.outputs = channel_counts[outputs];
}
static const activation_kind kinds[] = {ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_SIGMOID, ACTIVATION_NONE};

/* _i: tile sizes of rows and columns, then their strides, then what X is. */
START_TEST(every_tile_size_is_near_float64) {
  enum { FORMS = WINOGRAD_SIZES * WINOGRAD_SIZES };
  const int form = _i % FORMS, strides = _i / FORMS % 4, kind = _i / FORMS / 4;
  drawn_state = (uint64_t)_i * 7919 + 3;
  for (int64_t extent = 1; extent <= 40; extent += extent < 9 ? 1 : 2) {
    bool mixed = extent % 4 == 3;
    trial t = {.p = {.images = kind == VOLUMES ? 1 : drawn(1, 3),
                     .stride = {1 + strides % 2, 1 + strides / 2},
                     .slices = kind == VOLUMES ? drawn_slices() : winograd_one_slice,
                     .activation = {.kind = kinds[drawn(0, 3)]}},
               .with_bias = drawn(0, 1),
               .with_residual = drawn(0, 1)};
    t.in_place = t.with_residual && drawn(0, 1);
    int64_t out[2] = {extent, drawn(1, 40)};
    draw_channels(&t, t.p.images * out[0] * out[1]);
    for (int axis = 0; axis < 2; axis++) {
      problem_draw_axis(&t.p, axis, out[axis], kind);
      cut(&t, axis, axis ? form % 3 : form / 3, mixed);
    }
    trial_init(&t, drawn(0, 3) == 0);
    check(&t);
    trial_fini(&t);
  }
  if (getenv("WINOGRAD_ERRORS"))
    printf("sizes %d, %d, strides %d, %d: largest error over the root of the products: 6: %.2g, 4: %.2g, 2: %.2g\n",
           (int)winograd_sizes[form / 3], (int)winograd_sizes[form % 3], 1 + strides % 2, 1 + strides / 2, largest[0],
           largest[1], largest[2]);
}
END_TEST

/* Several blocks of tiles, and weights in several parts. _i: extents, then strides. */
START_TEST(blocks_and_parts_are_near_float64) {
  const int32_t stride = 1 + _i / 5;
  static const int64_t rows[][5] = {
      {1, 70, 90, 64, 64}, {3, 40, 40, 100, 17}, {1, 9, 9, 520, 200}, {2, 5, 7, 1024, 70}, {1, 48, 64, 64, 256}};
  for (int size = 0; size < WINOGRAD_SIZES; size++) {
    drawn_state = (uint64_t)_i + 11;
    trial t = {.p = {.images = rows[_i % 5][0],
                     .channels = rows[_i % 5][3],
                     .outputs = rows[_i % 5][4],
                     .in = {stride * rows[_i % 5][1], stride * rows[_i % 5][2]},
                     .out = {rows[_i % 5][1], rows[_i % 5][2]},
                     .pad = {1, 1},
                     .stride = {stride, stride},
                     .dilation = {1, 1},
                     .slices = winograd_one_slice,
                     .activation = {.kind = ACTIVATION_RELU}},
               .with_bias = true,
               .with_residual = true};
    for (int axis = 0; axis < 2; axis++) cut(&t, axis, size, false);
    trial_init(&t, false);
    check(&t);
    trial_fini(&t);
  }
}
END_TEST

/* Several threads, and a block of tiles fits into a core's own cache: a thread does all work on it, in several chunks.
 * The last bits of the activation depend on the vectors in which it is computed. */
START_TEST(blocks_of_a_thread_have_the_bits_of_one_thread) {
  static const int64_t rows[][5] = {{1, 150, 160, 32, 20}, {2, 131, 90, 17, 40}, {1, 58, 61, 64, 70}};
  for (int size = 0; size < WINOGRAD_SIZES; size++) {
    drawn_state = (uint64_t)_i + 17;
    trial t = {.p = {.images = rows[_i][0],
                     .channels = rows[_i][3],
                     .outputs = rows[_i][4],
                     .in = {rows[_i][1], rows[_i][2]},
                     .out = {rows[_i][1], rows[_i][2]},
                     .pad = {1, 1},
                     .stride = {1, 1},
                     .dilation = {1, 1},
                     .slices = winograd_one_slice,
                     .activation = {.kind = _i ? ACTIVATION_SIGMOID : ACTIVATION_NONE}},
               .with_bias = true};
    for (int axis = 0; axis < 2; axis++) cut(&t, axis, size, _i == 1);
    winograd_plan plan;
    for (int32_t threads = 1; threads <= 5; threads++) {
      winograd_plan_init(&plan, &t.p, &t.form, (cpu_team){.threads = threads, .chunks = 1});
      const winograd_section *s = &plan.sections[0];
      if (_i < 2 || threads < 3) ck_assert(s->own == (threads > 1));
      ck_assert(!s->own || s->n_blocks % threads == 0 || s->n_blocks > 4 * threads); /* as many for each if few */
    }
    trial_init(&t, false);
    team_measure measure;
    team_measure_begin(&measure);
    run(&t, cpu_level_best(), 2, t.y);
    team_measure_end();
    winograd_plan_init(&plan, &t.p, &t.form, (cpu_team){.threads = 2, .chunks = 1});
    ck_assert_int_ge(measure.n_chunks, 2 * plan.sections[0].n_blocks);
    check(&t);
    trial_fini(&t);
  }
}
END_TEST

/* A small map of many outputs: a thread does all work on a panel of the weights, whose depth it takes in two pieces of
 * each phase, the second one shorter; the last panel is narrower. _i: sizes of tiles, then strides. */
START_TEST(panels_of_a_thread_have_the_bits_of_one_thread) {
  const int32_t stride = 1 + _i / WINOGRAD_SIZES;
  drawn_state = (uint64_t)_i + 41;
  trial t = {.p = {.images = 1,
                   .channels = 267,
                   .outputs = 296,
                   .in = {stride * 7, stride * 11},
                   .out = {7, 11},
                   .pad = {1, 1},
                   .stride = {stride, stride},
                   .dilation = {1, 1},
                   .slices = winograd_one_slice,
                   .activation = {.kind = _i % 2 ? ACTIVATION_SIGMOID : ACTIVATION_RELU}},
             .with_bias = true,
             .with_residual = true};
  for (int axis = 0; axis < 2; axis++) cut(&t, axis, _i % WINOGRAD_SIZES, axis == 1 && _i % 2);
  trial_init(&t, false);
  for (int32_t threads = 1; threads <= 5; threads++) {
    winograd_plan plan;
    winograd_plan_init(&plan, &t.p, &t.form, (cpu_team){.threads = threads, .chunks = 1});
    for (int32_t i = 0; i < plan.n_sections; i++) {
      ck_assert(plan.sections[i].narrow);
      ck_assert_int_lt(plan.sections[i].depth_step, t.p.channels);
    }
  }
  team_measure measure;
  team_measure_begin(&measure);
  run(&t, cpu_level_best(), 2, t.y);
  team_measure_end();
  ck_assert_int_ge(measure.n_chunks, 2 * (t.p.outputs / 32)); /* two steps of each panel */
  run(&t, cpu_level_best(), 24, t.again);                     /* more threads than panels */
  ck_assert_mem_eq(t.again, t.y, (size_t)t.n_y * sizeof *t.y);
  check(&t);
  trial_fini(&t);
}
END_TEST

/* A map whose V is larger than the caches: one thread takes its panels block by block, the last of which is shorter,
 * two threads all tiles as one block, and five, for which there are too few panels, no panels. _i: strides. */
START_TEST(blocks_of_panels_have_the_same_bits) {
  const int32_t stride = 1 + _i;
  drawn_state = (uint64_t)_i + 47;
  trial t = {.p = {.images = 1,
                   .channels = _i ? 90 : 260,
                   .outputs = 288,
                   .in = {stride * 85, stride * 85},
                   .out = {85, 85},
                   .pad = {1, 1},
                   .stride = {stride, stride},
                   .dilation = {1, 1},
                   .slices = winograd_one_slice,
                   .activation = {.kind = ACTIVATION_RELU, .level = cpu_level_best()}},
             .with_bias = true};
  for (int axis = 0; axis < 2; axis++) cut(&t, axis, 0, false);
  for (int32_t threads = 1; threads <= 2; threads++) {
    winograd_plan plan;
    winograd_plan_init(&plan, &t.p, &t.form, (cpu_team){.threads = threads, .chunks = 1});
    const winograd_section *s = &plan.sections[0];
    ck_assert(s->narrow);
    ck_assert((s->n_blocks > 1) == (threads == 1));
    ck_assert(threads > 1 || s->tiles < s->n_blocks * winograd_block_tiles(s));
  }
  trial_init(&t, false);
  check(&t);
  trial_fini(&t);
}
END_TEST

/* With several threads a block has tiles of both halves of a map, unless it would read large weights once more for it:
 * the same bits as with one thread, odd numbers of tiles and of blocks included. _i: large weights. */
START_TEST(blocks_in_halves_have_the_bits_of_one_thread) {
  drawn_state = (uint64_t)_i + 29;
  const int64_t channels = _i ? 290 : 96, rows = _i ? 61 : 73, columns = _i ? 61 : 85;
  trial t = {.p = {.images = 1,
                   .channels = channels,
                   .outputs = channels,
                   .in = {rows, columns},
                   .out = {rows, columns},
                   .pad = {1, 1},
                   .stride = {1, 1},
                   .dilation = {1, 1},
                   .slices = winograd_one_slice,
                   .activation = {.kind = ACTIVATION_SIGMOID}},
             .with_bias = true};
  for (int axis = 0; axis < 2; axis++) cut(&t, axis, 0, false);
  for (int32_t threads = 1; threads <= 5; threads++) {
    winograd_plan plan;
    winograd_plan_init(&plan, &t.p, &t.form, (cpu_team){.threads = threads, .chunks = 1});
    ck_assert_int_eq(plan.sections[0].n_halves, threads > 1 && !_i ? 2 : 1);
    ck_assert_int_gt(plan.sections[0].n_blocks, 1);
  }
  trial_init(&t, false);
  check(&t);
  trial_fini(&t);
}
END_TEST

/* Transformed weights that are written past the caches have the same bits, from any first address on, and nothing lies
 * between or after them. _i: floats from a cache line's beginning to U. */
START_TEST(weights_written_past_the_caches_have_the_same_bits) {
  enum { CHANNELS = 5, WIDTH = 48, POSITION = 1024 + 16, SIDE = 8, FLOATS = SIDE * SIDE * POSITION };
  drawn_state = 23;
  float *w = numbers(9 * CHANNELS * WIDTH), *both[2];
  for (int past = 0; past < 2; past++) both[past] = aligned_alloc(64, (FLOATS + 2 * LINE_FLOATS) * sizeof(float));
  ck_assert(both[0] && both[1]);
  for (int size = 0; size < WINOGRAD_SIZES; size++)
    for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
      for (int past = 0; past < 2; past++) {
        for (int64_t i = 0; i < FLOATS + 2 * LINE_FLOATS; i++) both[past][i] = 7;
        winograd_weights t = {.w = w,
                              .u = both[past] + _i,
                              .channels = CHANNELS,
                              .width = WIDTH,
                              .w_row = 3 * CHANNELS * WIDTH,
                              .w_column = CHANNELS * WIDTH,
                              .taps = {3, 3},
                              .w_channel = WIDTH,
                              .u_position = POSITION,
                              .rows = winograd_sizes[size],
                              .columns = winograd_sizes[size],
                              .past = past};
        CPU_PICK(level, winograd_transform_weights)(&t);
      }
      ck_assert_mem_eq(both[0], both[1], (FLOATS + 2 * LINE_FLOATS) * sizeof(float));
      ck_assert_float_ne(both[0][_i], 7);
    }
  free(w);
  free(both[0]);
  free(both[1]);
}
END_TEST

/* NaN of X stays NaN in the pixels that see it, and reaches no tile that does not. */
START_TEST(nan_stays_in_its_tiles) {
  drawn_state = 5;
  trial t = {.p = {.images = 1,
                   .channels = 20,
                   .outputs = 24,
                   .in = {36, 36},
                   .out = {36, 36},
                   .pad = {1, 1},
                   .stride = {1, 1},
                   .dilation = {1, 1},
                   .slices = winograd_one_slice,
                   .activation = {.kind = ACTIVATION_RELU}}};
  for (int axis = 0; axis < 2; axis++) cut(&t, axis, _i, false);
  trial_init(&t, false);
  const int64_t at = 13;
  t.x[at * t.p.x_row + at * t.p.x_pixel + 3] = NAN;
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
    run(&t, level, 2, t.y);
    for (int64_t i = 0; i < t.n_y; i++) {
      int64_t row = i / t.p.y_row, column = i / t.p.outputs % 36, size = winograd_sizes[_i];
      bool sees = llabs(row - at) <= 1 && llabs(column - at) <= 1;
      int64_t top = row / size * size - 1, left = column / size * size - 1;
      bool tile_sees = at >= top && at < top + size + 2 && at >= left && at < left + size + 2;
      if (sees) ck_assert(isnan(t.y[i]));
      if (!tile_sees) ck_assert(!isnan(t.y[i]));
    }
  }
  trial_fini(&t);
}
END_TEST

/* A NaN or an infinity of X reaches the pixels that see it, and none outside of the tiles of its lattice, in slices
 * that see its own. _i: sizes of tiles, then a dilated image or a volume. */
START_TEST(what_is_not_finite_stays_in_its_lattice_and_slices) {
  drawn_state = (uint64_t)_i + 6;
  const bool dilated = _i / WINOGRAD_SIZES == 0;
  const int64_t size = winograd_sizes[_i % WINOGRAD_SIZES], extents[] = {37, 41}, dilations[] = {2, 3}, at[] = {15, 20};
  trial t = {.p = {.images = 1, .channels = 20, .outputs = 24, .stride = {1, 1}}};
  winograd_problem *p = &t.p;
  p->slices = dilated ? winograd_one_slice
                      : (winograd_slices){.in = 5, .out = 3, .taps = 3, .stride = 2, .dilation = 1, .pad = 1};
  for (int axis = 0; axis < 2; axis++) {
    p->in[axis] = p->out[axis] = extents[axis];
    p->pad[axis] = p->dilation[axis] = dilated ? dilations[axis] : 1;
    cut(&t, axis, _i % WINOGRAD_SIZES, false);
  }
  trial_init(&t, false);
  const int64_t slice = dilated ? 0 : 3;
  float *x = &t.x[slice * p->slices.x + at[0] * p->x_row + at[1] * p->x_pixel + 3];
  const float values[] = {NAN, INFINITY, -INFINITY};
  for (size_t k = 0; k < sizeof values / sizeof *values; k++)
    for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
      *x = values[k];
      run(&t, level, 2, t.y);
      for (int64_t i = 0; i < t.n_y; i++) {
        const int64_t y[] = {i / p->y_row % p->out[0], i / p->outputs % p->out[1]},
                      from = p->slices.stride * (i / p->slices.y) - p->slices.pad;
        bool sees = slice >= from && slice < from + p->slices.taps, tile_sees = sees;
        for (int axis = 0; axis < 2; axis++) { /* places in a lattice, of which a pixel sees three */
          const int64_t d = p->dilation[axis], of_x = at[axis] + p->pad[axis], place = of_x / d, own = y[axis] / d;
          const bool same = of_x % d == y[axis] % d;
          sees = sees && same && place >= own && place <= own + 2;
          tile_sees = tile_sees && same && place >= own / size * size && place < own / size * size + size + 2;
        }
        if (sees) ck_assert(!isfinite(t.y[i]));
        if (!tile_sees) ck_assert(isfinite(t.y[i]));
      }
    }
  trial_fini(&t);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("winograd");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, every_tile_size_is_near_float64, 0, 11 * WINOGRAD_SIZES * WINOGRAD_SIZES);
  tcase_add_loop_test(t, blocks_and_parts_are_near_float64, 0, 10);
  tcase_add_loop_test(t, blocks_of_a_thread_have_the_bits_of_one_thread, 0, 3);
  tcase_add_loop_test(t, panels_of_a_thread_have_the_bits_of_one_thread, 0, 2 * WINOGRAD_SIZES);
  tcase_add_loop_test(t, blocks_of_panels_have_the_same_bits, 0, 2);
  tcase_add_loop_test(t, blocks_in_halves_have_the_bits_of_one_thread, 0, 2);
  tcase_add_loop_test(t, weights_written_past_the_caches_have_the_same_bits, 0, LINE_FLOATS + 1);
  tcase_add_loop_test(t, nan_stays_in_its_tiles, 0, WINOGRAD_SIZES);
  tcase_add_loop_test(t, what_is_not_finite_stays_in_its_lattice_and_slices, 0, 2 * WINOGRAD_SIZES);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
