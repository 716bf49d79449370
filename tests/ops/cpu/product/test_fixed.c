/* Winograd convolutions with products in fixed point (winograd_loops.h), of weights that are pairs of bf16, against
 * float64: tile sizes, strides, volumes, dilations, odd extents and outputs, channels, images of bf16, memory outside
 * of Y and the workspace untouched; the same bits for any number of threads; numbers far from 1, zeros and NaN; the
 * largest sums that 32 bits must hold; the layers that are computed so. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/team.h"
#include "ops/cpu/product/winograd.h"
#include "tests/ops/cpu/product/direct.h"
#include "tests/ops/cpu/product/winograd_case.h"
#include "tests/suite.h"

enum { GUARD = 64, SAMPLES = 1500 };
#define ROWS(table) ((int)(sizeof(table) / sizeof *(table)))

typedef struct trial {
  winograd_problem p;
  winograd_form form;
  bool with_bias, with_residual;
  float *x, *plain, *bias, *residual, *y, *again; /* numbers of bf16, but for the bias and Y */
  uint16_t *half_x, *packed;
  int64_t n_x, n_y;
} trial;

static float *halves(int64_t n, float scale) {
  float *x = numbers(n);
  for (int64_t i = 0; i < n; i++) x[i] = bf16_to_f32(bf16_from_f32(x[i] * scale));
  return x;
}

static void pack(trial *t) {
  const reed_attr items[] = {{.name = "channels_last", .type = REED_ATTR_INT, .i = 1},
                             {.name = PACKED_PAIRS_ATTR, .type = REED_ATTR_INT, .i = 1}};
  reed_attr completed[32];
  const reed_attrs given = {items, 2}, attrs = op_attrs_complete(op_builtin(OP_Conv), &given, completed);
  const reed_desc plain = {REED_BF16, 5, {t->p.outputs, t->p.channels, t->p.slices.taps, 3, 3}};
  packed_order order;
  ck_assert(packed_order_of(op_builtin(OP_Conv), &attrs, &plain, &order));
  ck_assert(order.pairs);
  const int64_t n = desc_elements(&plain);
  uint16_t *bf16 = malloc((size_t)n * sizeof *bf16);
  t->packed = malloc((size_t)packed_desc(&order).dims[0] * sizeof *t->packed);
  ck_assert(bf16 && t->packed);
  for (int64_t i = 0; i < n; i++) bf16[i] = bf16_from_f32(t->plain[i]);
  packed_pack(&order, bf16, t->packed);
  free(bf16);
}

/* Fills in the extents that follow from others, and the tensors. */
static void trial_init(trial *t, float scale) {
  winograd_problem *p = &t->p;
  problem_lay_out(p, false);
  p->direct_pairs = true;
  p->activation.level = CPU_AVX512_BF16;
  t->form.fixed = true;
  t->n_x = p->images * p->x_image;
  t->n_y = p->images * p->y_image;
  t->x = halves(t->n_x, scale);
  t->half_x = malloc((size_t)t->n_x * sizeof *t->half_x);
  ck_assert_ptr_nonnull(t->half_x);
  for (int64_t i = 0; i < t->n_x; i++) t->half_x[i] = bf16_from_f32(t->x[i]);
  t->plain = halves(problem_weights(p), 1);
  t->bias = numbers(p->outputs);
  t->residual = numbers(t->n_y);
  t->y = numbers(t->n_y + GUARD);
  t->again = numbers(t->n_y + GUARD);
  pack(t);
}

static void trial_fini(trial *t) {
  void *const all[] = {t->x, t->half_x, t->plain, t->packed, t->bias, t->residual, t->y, t->again};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* Element `i` of Y, and the root of the sum of the products' squares. */
static double exact(const trial *t, int64_t i, double *out_size) {
  const winograd_problem *p = &t->p;
  double squares, sum = problem_exact(p, t->x, t->plain, i, &squares);
  if (t->with_bias) sum += (double)t->bias[i % p->outputs];
  if (t->with_residual) sum += (double)t->residual[i];
  *out_size = sqrt(squares);
  return activation_at(&p->activation, sum);
}

static void run(const trial *t, int32_t threads, float *y) {
  winograd_plan plan;
  winograd_plan_init(&plan, &t->p, &t->form, (cpu_team){.threads = threads, .chunks = 1});
  const int64_t bytes = winograd_plan_workspace_bytes(&plan), guard = 64;
  ck_assert_int_eq(winograd_plan_stored_bytes(&plan), 0);
  unsigned char *workspace = aligned_alloc(64, (size_t)(bytes + guard + 63) / 64 * 64);
  ck_assert_ptr_nonnull(workspace);
  memset(workspace, 0xff, (size_t)(bytes + guard)); /* NaN */
  for (int64_t i = 0; i < GUARD; i++) y[t->n_y + i] = 7;
  ck_assert_int_eq(winograd_plan_run(&plan, t->p.halves.x ? (const void *)t->half_x : t->x, t->packed,
                                     t->with_bias ? t->bias : NULL, t->with_residual ? t->residual : NULL, y,
                                     workspace),
                   REED_OK);
  for (int64_t i = 0; i < GUARD; i++) ck_assert_float_eq(y[t->n_y + i], 7);
  for (int64_t i = 0; i < guard; i++) ck_assert_int_eq(workspace[bytes + i], 0xff);
  free(workspace);
}

/* The most that a result may be off, over the root of the sum of its products' squares: by the largest tile, and by the
 * root of the depth. */
static double bound_of(const trial *t) {
  static const double bounds[WINOGRAD_SIZES] = {2e-2, 1e-2, 3e-3};
  for (int i = 0; i < WINOGRAD_SIZES; i++)
    if (t->form.n[0][i] || t->form.n[1][i])
      return bounds[i] * sqrt(1 + (double)(winograd_phases(&t->p) * t->p.channels) / 256);
  return 0;
}

static double worst[WINOGRAD_SIZES];

/* Compares Y with float64. Pixels at the edge have fewer products than those that they share a tile with, so the size
 * of all results counts, too. */
static void check(trial *t) {
  run(t, 1, t->y);
  double all = 0;
  for (int64_t k = 0; k < 200; k++) {
    double size;
    (void)exact(t, drawn(0, t->n_y - 1), &size);
    all = fmax(all, size);
  }
  for (int64_t k = 0; k < (t->n_y <= SAMPLES ? t->n_y : SAMPLES); k++) {
    const int64_t i = t->n_y <= SAMPLES ? k : drawn(0, t->n_y - 1);
    double size;
    const double want = exact(t, i, &size), off = fabs((double)t->y[i] - want), bound = bound_of(t);
    ck_assert_msg(off <= bound * all + 1e-5, "%dx%dx%dx%d to %dx%dx%d: element %d is %g, not %g, of size %g",
                  (int)t->p.images, (int)t->p.in[0], (int)t->p.in[1], (int)t->p.channels, (int)t->p.out[0],
                  (int)t->p.out[1], (int)t->p.outputs, (int)i, (double)t->y[i], want, all);
    for (int s = 0; s < WINOGRAD_SIZES; s++)
      if (t->form.n[0][s] || t->form.n[1][s]) {
        worst[s] = fmax(worst[s], (off - 1e-5) / all);
        break;
      }
  }
  for (int32_t threads = 2; threads <= 5; threads += 3) {
    run(t, threads, t->again);
    ck_assert_mem_eq(t->again, t->y, (size_t)t->n_y * sizeof(float));
  }
}

/* Cuts an axis of Y into pieces of size `first` or, where the axis has none such, the next; `mixed`: the last of the
 * smallest size. */
static void cut(trial *t, int axis, int first, bool mixed) {
  if (first < winograd_largest(&t->p, axis)) first = winograd_largest(&t->p, axis);
  int64_t *n = t->form.n[axis], extent = t->p.out[axis];
  const int last = WINOGRAD_SIZES - 1;
  for (int i = 0; i < WINOGRAD_SIZES; i++) n[i] = 0;
  if (mixed && first < last && extent > winograd_pixels(&t->p, axis, last)) {
    n[last] = 1;
    extent -= winograd_pixels(&t->p, axis, last);
  }
  const int64_t pixels = winograd_pixels(&t->p, axis, first);
  n[first] = (extent + pixels - 1) / pixels;
}

static bool has_level(void) { return cpu_level_best() >= CPU_AVX512_BF16; }

static const int64_t channel_counts[] = {2, 8, 18, 34, 64, 100}, output_counts[] = {1, 5, 16, 33, 64, 90};

/* _i: tile sizes of rows and columns, then their strides, then what X is. */
START_TEST(every_tile_size_is_near_float64) {
  enum { FORMS = WINOGRAD_SIZES * WINOGRAD_SIZES };
  const int form = _i % FORMS, strides = _i / FORMS % 4, kind = _i / FORMS / 4;
  if (!has_level()) return;
  drawn_state = (uint64_t)_i * 7919 + 3;
  for (int64_t extent = 1; extent <= 40; extent += extent < 9 ? 1 : 5) {
    trial t = {.p = {.images = kind == VOLUMES ? 1 : drawn(1, 3),
                     .channels = channel_counts[drawn(0, 5)],
                     .outputs = output_counts[drawn(0, 5)],
                     .stride = {1 + strides % 2, 1 + strides / 2},
                     .slices = kind == VOLUMES ? drawn_slices() : winograd_one_slice,
                     .activation = {.kind = drawn(0, 1) ? ACTIVATION_RELU : ACTIVATION_NONE},
                     .halves.x = drawn(0, 1)},
               .with_bias = drawn(0, 1),
               .with_residual = drawn(0, 1)};
    int64_t out[2] = {extent, drawn(1, 40)};
    for (int axis = 0; axis < 2; axis++) {
      problem_draw_axis(&t.p, axis, out[axis], kind);
      cut(&t, axis, axis ? form % 3 : form / 3, extent % 4 == 3);
    }
    trial_init(&t, 1);
    check(&t);
    trial_fini(&t);
  }
  if (getenv("WINOGRAD_ERRORS")) printf("worst: 6: %.2g, 4: %.2g, 2: %.2g\n", worst[0], worst[1], worst[2]);
}
END_TEST

/* Several blocks of tiles in halves, blocks of a thread, outputs in parts, narrow sections, weights written past the
 * caches. _i: extents, then strides. */
START_TEST(blocks_and_parts_are_near_float64) {
  static const int64_t rows[][5] = {{1, 150, 160, 32, 20},  {3, 40, 40, 100, 17}, {1, 9, 9, 520, 200},
                                    {2, 5, 7, 1024, 70},    {1, 48, 64, 64, 256}, {1, 31, 61, 290, 290},
                                    {1, 130, 130, 260, 288}};
  if (!has_level()) return;
  const int32_t stride = 1 + _i / ROWS(rows);
  const int64_t *row = rows[_i % ROWS(rows)];
  for (int size = 0; size < WINOGRAD_SIZES; size++) {
    drawn_state = (uint64_t)_i + 11;
    trial t = {.p = {.images = row[0],
                     .channels = row[3],
                     .outputs = row[4],
                     .in = {stride * row[1], stride * row[2]},
                     .out = {row[1], row[2]},
                     .pad = {1, 1},
                     .stride = {stride, stride},
                     .dilation = {1, 1},
                     .slices = winograd_one_slice,
                     .activation = {.kind = ACTIVATION_RELU}},
               .with_bias = true,
               .with_residual = true};
    for (int axis = 0; axis < 2; axis++) cut(&t, axis, size, false);
    trial_init(&t, 1);
    check(&t);
    trial_fini(&t);
  }
}
END_TEST

/* A map of some tiles of the largest size. */
static trial small_trial(float scale) {
  trial t = {.p = {.images = 1,
                   .channels = 34,
                   .outputs = 24,
                   .in = {13, 14},
                   .out = {13, 14},
                   .pad = {1, 1},
                   .stride = {1, 1},
                   .dilation = {1, 1},
                   .slices = winograd_one_slice}};
  for (int axis = 0; axis < 2; axis++) cut(&t, axis, 0, false);
  trial_init(&t, scale);
  return t;
}

/* X far from 1: the scale follows. Squares of the first and the last ones are beyond f32. */
START_TEST(numbers_far_from_1_are_as_exact) {
  static const float scales[] = {1e-17f, 1e-10f, 1e10f, 1e17f, 1e25f};
  if (!has_level()) return;
  drawn_state = 5;
  trial t = small_trial(scales[_i]);
  run(&t, 2, t.y);
  double all = 0;
  for (int64_t i = 0; i < t.n_y; i++) {
    double size;
    const double want = exact(&t, i, &size);
    all = fmax(all, size);
    ck_assert_msg(fabs((double)t.y[i] - want) <= 2e-2 * all + 2e-2 * (double)scales[_i], "%g is %g", want,
                  (double)t.y[i]);
  }
  trial_fini(&t);
}
END_TEST

/* X without a value but 0 gives the bias; NaN or an infinite value of X reaches all pixels that see it, past an
 * activation too, and no tile that does not. _i: 0, NaN, infinity, and the same with the activation. */
START_TEST(zeros_and_nan_stay_in_their_tiles) {
  static const float values[] = {0, NAN, INFINITY};
  enum { SIDE = 36, AT = 13 };
  if (!has_level()) return;
  for (int s = 0; s < WINOGRAD_SIZES; s++) {
    trial t = {.p = {.images = 1,
                     .channels = 20,
                     .outputs = 24,
                     .in = {SIDE, SIDE},
                     .out = {SIDE, SIDE},
                     .pad = {1, 1},
                     .stride = {1, 1},
                     .dilation = {1, 1},
                     .slices = winograd_one_slice,
                     .activation = {.kind = _i < 3 ? ACTIVATION_NONE : ACTIVATION_RELU}},
               .with_bias = true};
    for (int axis = 0; axis < 2; axis++) cut(&t, axis, s, false);
    trial_init(&t, 0);
    t.x[AT * t.p.x_row + AT * t.p.x_pixel + 3] = values[_i % 3];
    run(&t, 2, t.y);
    for (int64_t i = 0; i < t.n_y; i++) {
      const int64_t row = i / t.p.y_row, column = i / t.p.outputs % SIDE, size = winograd_sizes[s];
      const bool sees = llabs(row - AT) <= 1 && llabs(column - AT) <= 1;
      const int64_t top = row / size * size - 1, left = column / size * size - 1;
      const bool tile_sees = AT >= top && AT < top + size + 2 && AT >= left && AT < left + size + 2;
      if (_i % 3 && sees) ck_assert(!isfinite(t.y[i]));
      if (_i % 3 && tile_sees) continue;
      ck_assert_double_eq((double)t.y[i], activation_at(&t.p.activation, (double)t.bias[i % t.p.outputs]));
    }
    trial_fini(&t);
  }
}
END_TEST

/* A weight that is NaN reaches every pixel of its output, whose other weights come after it, and no other output. */
START_TEST(a_weight_that_is_nan_is_seen) {
  enum { OUTPUT = 5 };
  if (!has_level()) return;
  trial t = small_trial(1);
  t.plain[(OUTPUT * t.p.channels + 3) * 9 + 4] = NAN;
  free(t.packed);
  pack(&t);
  run(&t, 2, t.y);
  for (int64_t i = 0; i < t.n_y; i++) ck_assert((i % t.p.outputs == OUTPUT) == isnan(t.y[i]));
  trial_fini(&t);
}
END_TEST

#ifdef CPU_HAS_BF16_LOOPS
/* Values and weights that are proportional to each other, where the inequality of Cauchy and Schwarz is an equation:
 * sums of 32 bits hold them, whatever the depth and its sizes. _i: depth, then whether one value is far larger, then
 * whether the squares of the weights are below f32. */
START_TEST(the_largest_sums_have_32_bits) {
  static const int64_t depths[] = {2, 4, 62, 256, 1000, WINOGRAD_FIXED_DEPTH};
  enum { OUTPUTS = 16 };
  if (!has_level()) return;
  const int64_t depth = depths[_i % ROWS(depths)];
  float *x = numbers(depth), *v = numbers(depth / 2 + 1), *u = NULL;
  /* a tap of 1x1 has the weights themselves at the point 0 */
  const int64_t position = (depth / 2 + 1) * OUTPUTS;
  uint32_t *w = malloc((size_t)depth / 2 * OUTPUTS * sizeof *w);
  u = numbers(16 * position);
  ck_assert(w && u);
  const float weight = _i >= 12 ? 0x1p-86f : 1;
  for (int64_t i = 0; i < depth; i++)
    x[i] = bf16_to_f32(bf16_from_f32((x[i] + 2) * (_i / 6 == 1 && i == 1 ? 1000 : 1)));
  for (int64_t i = 0; i < depth / 2; i++)
    for (int64_t k = 0; k < OUTPUTS; k++) {
      const float sign = k % 2 ? -weight : weight;
      w[i * OUTPUTS + k] = bf16_from_f32(sign * x[2 * i]) | (uint32_t)bf16_from_f32(sign * x[2 * i + 1]) << 16;
    }
  const winograd_weights t = {.w = (const float *)(const void *)w,
                              .u = u,
                              .channels = depth / 2,
                              .width = OUTPUTS,
                              .w_channel = OUTPUTS,
                              .u_position = position,
                              .rows = 2,
                              .columns = 2,
                              .taps = {1, 1}};
  winograd_norms norms = {0};
  winograd_fixed_add_norms(&t, &norms);
  winograd_fixed_scales(&norms, 16, u + depth / 2 * OUTPUTS, position);
  winograd_fixed_weights(&t, &norms);
  winograd_fixed_round(x, depth, v, v + depth / 2);
  float m[OUTPUTS];
  const winograd_product product = {.v = v,
                                    .u = u,
                                    .next = u,
                                    .m = m,
                                    .tiles = 1,
                                    .channels = depth / 2,
                                    .width = OUTPUTS,
                                    .v_row = depth / 2 + 1,
                                    .m_row = OUTPUTS,
                                    .v_scale = v + depth / 2,
                                    .u_scale = u + depth / 2 * OUTPUTS};
  winograd_fixed_multiply(&product);
  double sum = 0;
  for (int64_t i = 0; i < depth; i++) sum += (double)x[i] * (double)x[i];
  for (int k = 0; k < OUTPUTS; k++) /* the weights of a tile of 2x2 are those times 1 at the point 0 of both axes */
    ck_assert_double_eq_tol((double)m[k] / (double)weight, k % 2 ? -sum : sum, 2e-3 * sum);
  free(x);
  free(v);
  free(u);
  free(w);
}
END_TEST
#endif

/* Fixed point is for large maps and weights in pairs, and for a depth that 32 bits hold. */
START_TEST(large_maps_of_pairs_take_fixed_point) {
  if (!has_level()) return;
  winograd_problem p = {.images = 1,
                        .channels = 256,
                        .outputs = 256,
                        .in = {100, 100},
                        .out = {100, 100},
                        .pad = {1, 1},
                        .stride = {1, 1},
                        .dilation = {1, 1},
                        .slices = winograd_one_slice,
                        .direct_pairs = true,
                        .activation = {.level = CPU_AVX512_BF16}};
  winograd_form form;
  ck_assert(winograd_choose(&p, true, &form));
  ck_assert(form.fixed && !form.stored);
  p.activation.level = CPU_AVX512;
  ck_assert(winograd_choose(&p, true, &form));
  ck_assert(!form.fixed);
  p.activation.level = CPU_AVX512_BF16;
  p.direct_pairs = false;
  ck_assert(winograd_choose(&p, true, &form));
  ck_assert(!form.fixed);
  p.direct_pairs = true;
  p.channels = WINOGRAD_FIXED_DEPTH + 2;
  if (winograd_choose(&p, true, &form)) ck_assert(!form.fixed);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("fixed");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  suite_add_tcase(suite, t);
  tcase_add_loop_test(t, every_tile_size_is_near_float64, 0, 11 * WINOGRAD_SIZES * WINOGRAD_SIZES);
  tcase_add_loop_test(t, blocks_and_parts_are_near_float64, 0, 14);
  tcase_add_loop_test(t, numbers_far_from_1_are_as_exact, 0, 5);
  tcase_add_loop_test(t, zeros_and_nan_stay_in_their_tiles, 0, 6);
  tcase_add_test(t, a_weight_that_is_nan_is_seen);
#ifdef CPU_HAS_BF16_LOOPS
  tcase_add_loop_test(t, the_largest_sums_have_32_bits, 0, 18);
#endif
  tcase_add_test(t, large_maps_of_pairs_take_fixed_point);
  return suite_run(suite);
}
