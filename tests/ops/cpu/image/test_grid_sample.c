/* GridSample: known results, the reference in every dtype, mode and order of channels, coordinates that are no numbers,
 * edges, refused calls. */
#include <math.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

static const char *const modes[] = {"linear", "nearest", "cubic"}, *const paddings[] = {"zeros", "border",
                                                                                        "reflection"};

typedef struct sampling {
  int32_t axes;
  int64_t n, c, in[4], out[4];
} sampling;

static const sampling samplings[] = {
    {2, 1, 1, {3, 4}, {5, 2}},      {2, 2, 5, {7, 9}, {11, 13}}, /* more than a block of samples, and a part of one */
    {2, 2, 33, {6, 5}, {1, 64}},    {2, 3, 2, {1, 1}, {4, 4}},   /* one pixel: reflection has nowhere to go */
    {2, 1, 300, {8, 8}, {3, 5}},                                 /* more than one group of channels */
    {1, 2, 3, {17}, {40}},          {3, 1, 4, {3, 4, 5}, {2, 3, 4}}, {4, 1, 2, {2, 3, 2, 3}, {2, 1, 2, 2}},
    {2, 0, 3, {4, 4}, {2, 2}},      {2, 2, 0, {4, 4}, {2, 2}},       {2, 2, 3, {4, 4}, {0, 2}},
    {2, 1, 2, {4, 0}, {2, 3}},      /* no pixels: all samples are 0 */
    {2, 2, 24, {40, 50}, {60, 70}}, /* for several threads */
};

static void case_of(kernel_case *c, const sampling *f, reed_dtype dtype, reed_dtype grid, double range) {
  int64_t x[6] = {f->n, f->c}, g[6] = {f->n};
  for (int32_t i = 0; i < f->axes; i++) {
    x[2 + i] = f->in[i];
    g[1 + i] = f->out[i];
  }
  g[f->axes + 1] = f->axes;
  case_init(c, OP_GridSample);
  case_input(c, dtype, f->axes + 2, x, 3);
  case_input(c, grid, f->axes + 2, g, range);
}

static void set_attrs(kernel_case *c, int mode, int padding, int corners) {
  case_attr_string(c, "mode", modes[mode]);
  case_attr_string(c, "padding_mode", paddings[padding]);
  case_attr_int(c, "align_corners", corners);
}

START_TEST(samples_equal_the_reference) {
  static const reed_dtype dtypes[][2] = {{REED_F32, REED_F32}, {REED_F64, REED_F64},   {REED_F16, REED_F32},
                                         {REED_F32, REED_F16}, {REED_BF16, REED_BF16}, {REED_F32, REED_F64}};
  const sampling *f = &samplings[_i];
  for (int k = 0; k < 18; k++)
    for (int d = 0; d < ROWS(dtypes); d++) {
      if (d && (k * 7 + d + _i) % 5) continue; /* the other dtypes take some of the attributes each */
      kernel_case c;
      case_of(&c, f, dtypes[d][0], dtypes[d][1], 1.6);
      set_attrs(&c, k % 3, k / 3 % 3, k / 9);
      double tolerance = case_tolerance(dtypes[d][0]) * 8;
      case_parity_orders(&c, 1u << 0, tolerance, tolerance * 8);
    }
}
END_TEST

/* A row of three pixels 1, 2, 3 at single coordinates; expected values by ONNX's text. */
START_TEST(coordinates_mean_what_onnx_says) {
  static const struct {
    const char *mode, *padding;
    int corners;
    double at, want;
  } rows[] = {
      {"linear", "zeros", 1, -1, 1},        {"linear", "zeros", 1, 0.5, 2.5},       {"linear", "zeros", 1, 1.5, 1.5},
      {"linear", "zeros", 0, -1, 0.5},      {"linear", "zeros", 0, 0, 2},           {"linear", "border", 0, -1, 1},
      {"linear", "border", 0, 5, 3},        {"linear", "reflection", 1, 1.5, 2.5},  {"linear", "reflection", 1, -2, 2},
      {"linear", "reflection", 0, -1, 1},   {"linear", "reflection", 0, 1.5, 2.75}, {"nearest", "zeros", 1, 0.4, 2},
      {"nearest", "zeros", 1, 0.5, 3},  /* 1.5 is rounded to the even neighbour */
      {"nearest", "zeros", 1, -0.5, 1}, /* 0.5 likewise */
      {"nearest", "reflection", 1, 2, 2},   {"nearest", "border", 0, -7, 1},        {"cubic", "border", 1, 0, 2},
      {"cubic", "border", 1, 0.5, 2.59375}, {"cubic", "zeros", 1, 0.5, 2.875},      {"linear", "zeros", 1, 5, 0},
      {"linear", "border", 1, INFINITY, 3}, {"linear", "border", 1, -INFINITY, 1},  {"linear", "zeros", 1, NAN, 0},
      {"nearest", "zeros", 0, NAN, 0},      {"cubic", "zeros", 0, INFINITY, 0},     {"linear", "border", 0, NAN, 1},
      {"linear", "zeros", 1, 1e30, 0},      {"cubic", "border", 1, -1e30, 1},
  };
  for (int r = 0; r < ROWS(rows); r++) {
    kernel_case c;
    case_of(&c, &(sampling){1, 1, 1, {3}, {1}}, REED_F32, REED_F32, 0);
    for (int i = 0; i < 3; i++) case_set(&c.inputs[0], i, i + 1);
    case_set(&c.inputs[1], 0, rows[r].at);
    case_attr_string(&c, "mode", rows[r].mode);
    case_attr_string(&c, "padding_mode", rows[r].padding);
    case_attr_int(&c, "align_corners", rows[r].corners);
    case_expect(&c, &rows[r].want, 1);
  }
}
END_TEST

/* The first coordinate is that of the last axis. */
START_TEST(coordinates_come_last_axis_first) {
  kernel_case c;
  case_of(&c, &(sampling){2, 1, 1, {2, 3}, {1, 2}}, REED_F32, REED_F32, 0);
  for (int i = 0; i < 6; i++) case_set(&c.inputs[0], i, i);
  static const double at[] = {1, -1, -1, 1}; /* the right pixel of the first row, the left one of the second */
  for (int i = 0; i < 4; i++) case_set(&c.inputs[1], i, at[i]);
  case_attr_int(&c, "align_corners", 1);
  case_expect(&c, (const double[]){2, 3}, 2);
}
END_TEST

/* A pixel that is not read has no part in a sample, even if it is no number; pixel 0 stands in for places outside. */
START_TEST(pixels_that_are_not_read_do_not_matter) {
  for (int last = 0; last < 2; last++) {
    kernel_case c;
    case_of(&c, &(sampling){1, 1, 1, {3}, {2}}, REED_F32, REED_F32, 0);
    case_set(&c.inputs[0], 0, NAN);
    case_set(&c.inputs[0], 2, 4);
    case_set(&c.inputs[1], 0, 1.5); /* between the last pixel and none */
    case_set(&c.inputs[1], 1, 9);
    case_attr_int(&c, "align_corners", 1);
    if (last) {
      case_attr_int(&c, "channels_last", 1);
      c.inputs[0].desc = (reed_desc){.dtype = REED_F32, .rank = 3, .dims = {1, 3, 1}};
    }
    case_expect(&c, (const double[]){2, 0}, 2);
  }
}
END_TEST

START_TEST(samples_have_the_same_bits_for_any_number_of_threads) {
  static float one[2 * 24 * 60 * 70];
  for (int mode = 0; mode < 3; mode++) {
    kernel_case c;
    case_of(&c, &samplings[ROWS(samplings) - 1], REED_F32, REED_F32, 1.5);
    set_attrs(&c, mode, 2, 0);
    for (c.n_threads = 1; c.n_threads <= 5; c.n_threads++) {
      ck_assert_int_eq(case_run(&c, cpu_level_name(cpu_level_best())), REED_OK);
      if (c.n_threads == 1) memcpy(one, c.outputs[0].data, sizeof one);
      ck_assert_msg(memcmp(one, c.outputs[0].data, sizeof one) == 0, "%s", case_where(&c));
    }
    case_close(&c);
  }
}
END_TEST

START_TEST(grids_that_do_not_fit_are_refused) {
  static const sampling f = {2, 1, 2, {4, 4}, {2, 3}};
  kernel_case c;
  case_of(&c, &f, REED_F32, REED_F32, 1);
  c.inputs[1].desc.dims[3] = 3;
  case_fails(&c, REED_ERROR_SHAPE, "grid: the last extent and the number of X's spatial axes must agree: 3 and 2");
  case_of(&c, &f, REED_F32, REED_F32, 1);
  c.inputs[1].desc.dims[0] = 2;
  case_fails(&c, REED_ERROR_SHAPE, "grid: the batches of X and of the grid must agree: 1 and 2");
  case_of(&c, &f, REED_F32, REED_F32, 1);
  c.inputs[1].desc.rank = 3;
  case_fails(&c, REED_ERROR_SHAPE, "grid: wants rank 4, not 3");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("GridSample kernels");
  TCase *tc = tcase_create("grid_sample");
  tcase_set_timeout(tc, 240);
  tcase_add_loop_test(tc, samples_equal_the_reference, 0, ROWS(samplings));
  tcase_add_test(tc, coordinates_mean_what_onnx_says);
  tcase_add_test(tc, coordinates_come_last_axis_first);
  tcase_add_test(tc, pixels_that_are_not_read_do_not_matter);
  tcase_add_host_test(tc, samples_have_the_same_bits_for_any_number_of_threads);
  tcase_add_test(tc, grids_that_do_not_fit_are_refused);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
