/* MaxRoiPool and torchvision's operators on regions: parity with the references, gradients against finite differences,
 * the same bits for any number of threads, regions anywhere, refusals; and torchvision's nms. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/team.h"
#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

/* THE table of the operators: forward, backward, and their operands and attributes. */
static const struct {
  op_id forward, backward;
  bool position_sensitive, samples, aligned, argmax;
} operators[] = {
    {OP_roi_align, OP_roi_align_backward, false, true, true, false},
    {OP_roi_pool, OP_roi_pool_backward, false, false, false, true},
    {OP_ps_roi_align, OP_ps_roi_align_backward, true, true, false, false},
    {OP_ps_roi_pool, OP_ps_roi_pool_backward, true, false, false, false},
};

typedef struct form {
  int row;
  reed_dtype dtype;
  int64_t images, channels, height, width, regions, bins_y, bins_x, sampling;
  double scale;
  bool aligned, last, batched, backward;
} form;

static void image_dims(const form *f, int64_t channels, int64_t *dims) {
  int64_t at = 0;
  if (f->batched) dims[at++] = f->images;
  if (!f->last) dims[at++] = channels;
  dims[at++] = f->height;
  dims[at++] = f->width;
  if (f->last) dims[at++] = channels;
}

/* A call with random boxes, some of them reversed, empty or outside; argmax has pixels and none. */
static void regions_case(kernel_case *c, const form *f) {
  int64_t channels = f->channels * (operators[f->row].position_sensitive ? f->bins_y * f->bins_x : 1), dims[4];
  int32_t rank = f->batched ? 4 : 3, columns = f->batched ? 5 : 4;
  case_init(c, f->backward ? operators[f->row].backward : operators[f->row].forward);
  image_dims(f, channels, dims);
  if (f->backward && f->last) case_input(c, f->dtype, DIMS(f->regions, f->bins_y, f->bins_x, f->channels), 2);
  else if (f->backward) case_input(c, f->dtype, DIMS(f->regions, f->channels, f->bins_y, f->bins_x), 2);
  else case_input(c, f->dtype, rank, dims, 2);
  bool half = f->dtype == REED_F16 || f->dtype == REED_BF16;
  value *rois = case_input(c, half ? REED_F32 : f->dtype, DIMS(f->regions, columns), 0.7 * (double)f->width / f->scale);
  for (int64_t i = 0; !c->skipped && i < f->regions; i++) {
    if (f->batched) case_set(rois, i * columns, (double)(i % f->images));
    for (int k = 0; k < 2 && i % 7; k++) { /* mostly in order */
      int64_t low = i * columns + columns - 4 + k;
      double a = case_get(rois, low), b = case_get(rois, low + 2);
      case_set(rois, low, a < b ? a : b);
      case_set(rois, low + 2, i % 7 == 1 ? a : a < b ? b : a);
    }
  }
  if (f->backward && operators[f->row].argmax) {
    value *argmax = case_input(c, REED_I32, c->inputs[0].desc.rank, c->inputs[0].desc.dims, 0);
    for (int64_t i = 0; !c->skipped && i < desc_elements(&argmax->desc); i++)
      case_set(argmax, i, (double)(i * 7919 % (f->height * f->width + 1) - 1));
  }
  if (f->backward) {
    value *shape = case_input(c, REED_I64, 1, &(int64_t){rank}, 0);
    for (int32_t i = 0; !c->skipped && i < rank; i++) ((int64_t *)shape->data)[i] = dims[i];
  }
  if (!f->backward && operators[f->row].argmax) c->n_outputs = 2;
  case_attr_int(c, "pooled_height", f->bins_y);
  case_attr_int(c, "pooled_width", f->bins_x);
  case_attr_float(c, "spatial_scale", f->scale);
  case_attr_int(c, "channels_last", f->last);
  if (operators[f->row].samples) case_attr_int(c, "sampling_ratio", f->sampling);
  if (operators[f->row].aligned) case_attr_int(c, "aligned", f->aligned);
}

static form form_of(int i, reed_dtype dtype) {
  static const struct {
    int64_t images, channels, height, width, regions, bins_y, bins_x, sampling;
    double scale;
  } extents[] = {
      {1, 1, 1, 1, 3, 1, 1, 1, 1},     {2, 3, 9, 13, 20, 3, 2, 2, 0.25}, {1, 35, 20, 31, 9, 4, 3, 0, 0.5},
      {3, 5, 33, 7, 15, 5, 2, -1, 2},  {2, 3, 9, 13, 0, 3, 2, 2, 1},     {1, 70, 12, 300, 7, 2, 3, 1, 1},
      {2, 17, 21, 19, 60, 3, 2, 2, 1}, {1, 33, 12, 40, 40, 4, 3, 0, 1},  {3, 4, 9, 50, 90, 1, 2, 5, 0.25},
      {2, 3, 9, 40, 12, 2, 2, 11, 1},
  };
  form f = {.row = i % 4, .dtype = dtype, .aligned = i / 4 % 2, .last = i / 8 % 2, .batched = i / 16 % 2};
  int k = i / 32;
  f.images = f.batched ? extents[k].images : 1;
  f.channels = extents[k].channels;
  f.height = extents[k].height;
  f.width = extents[k].width;
  f.regions = extents[k].regions;
  f.bins_y = extents[k].bins_y;
  f.bins_x = extents[k].bins_x;
  f.sampling = extents[k].sampling;
  f.scale = extents[k].scale;
  return f;
}

START_TEST(regions_equal_the_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_BF16};
  for (int i = 0; i < 32; i++)
    for (int k = 0; k < 2; k++) {
      kernel_case c;
      form f = form_of(_i * 32 + i, dtypes[i % 5 == 3 ? 1 : i % 7 == 4 ? 2 : 0]);
      f.backward = k;
      regions_case(&c, &f);
      double slack = f.dtype == REED_BF16 ? 0.02 : 2e-5;
      case_parity(&c, slack, slack * (f.backward ? 4 : 1));
    }
}
END_TEST

/* Halves at both orders of channels: rows shorter than a block of pixels, rows that end within one, and more regions
 * than are computed before they are written. */
START_TEST(halves_equal_the_reference) {
  static const struct {
    int64_t channels, width, regions, bins;
  } extents[] = {{10, 5, 40, 3}, {17, 21, 30, 2}, {6, 36, 300, 3}};
  for (int i = 0; i < 24; i++) {
    form f = {_i,
              i % 2 ? REED_F16 : REED_BF16,
              2,
              extents[i / 8].channels,
              11,
              extents[i / 8].width,
              extents[i / 8].regions,
              extents[i / 8].bins,
              extents[i / 8].bins,
              2,
              1,
              false,
              i / 2 % 2,
              true,
              i / 4 % 2};
    double rounding = f.dtype == REED_F16 ? 0.002 : 0.016;
    kernel_case c;
    regions_case(&c, &f);
    case_parity(&c, rounding, rounding);
  }
}
END_TEST

/* Sum of gradient times output, of the f64 forward call with one element of its input changed. */
static double loss(kernel_case *c, const value *g, int64_t element, double change) {
  double x = case_get(&c->inputs[0], element), sum = 0;
  case_set(&c->inputs[0], element, x + change);
  ck_assert_int_eq(case_run(c, "reference"), REED_OK);
  case_set(&c->inputs[0], element, x);
  for (int64_t i = 0; i < desc_elements(&g->desc); i++) sum += case_get(g, i) * case_get(&c->outputs[0], i);
  return sum;
}

/* The operators are linear (roi_pool as long as the same pixels are largest), so differences are exact up to rounding.
 * The backward operator runs in f32 at the best level. */
START_TEST(gradients_equal_finite_differences) {
  form f = {_i % 4, REED_F64, 2, 2, 6, 7, 9, 2, 3, 2, 0.5, _i / 4 % 2, _i / 8 % 2, true, false}, back = f;
  kernel_case c, b;
  back.backward = true;
  back.dtype = REED_F32;
  regions_case(&c, &f);
  regions_case(&b, &back);
  ck_assert_int_eq(case_run(&c, "reference"), REED_OK);
  int at_shape = b.n_inputs - 1;
  for (int64_t i = 0; i < 5 * f.regions; i++) {
    case_set(&c.inputs[1], i, (double)(float)case_get(&c.inputs[1], i));
    case_set(&b.inputs[1], i, case_get(&c.inputs[1], i));
  }
  ck_assert_int_eq(case_run(&c, "reference"), REED_OK);
  if (operators[f.row].argmax)
    for (int64_t i = 0; i < desc_elements(&c.outputs[1].desc); i++)
      case_set(&b.inputs[2], i, case_get(&c.outputs[1], i));
  ck_assert_int_eq(b.inputs[at_shape].desc.dtype, REED_I64);
  ck_assert_int_eq(case_run(&b, cpu_level_name(cpu_level_best())), REED_OK);
  int64_t n = desc_elements(&c.inputs[0].desc);
  for (int64_t i = 0; i < n; i += 1 + n / 60) {
    double h = 1e-4, slope = (loss(&c, &b.inputs[0], i, h) - loss(&c, &b.inputs[0], i, -h)) / (2 * h);
    if (isnan(slope)) continue; /* a mean of nothing among the outputs */
    if (fabs(slope - case_get(&b.outputs[0], i)) > 1e-4)
      ck_abort_msg("operator %d, element %d: slope %g, gradient %g", f.row, (int)i, slope, case_get(&b.outputs[0], i));
  }
  case_close(&c);
  case_close(&b);
}
END_TEST

/* Runs the case with 1 to 7 threads; output 0 must not change by a bit. */
static void expect_same_bits(kernel_case *c) {
  char *first = NULL;
  size_t bytes = 0;
  for (c->n_threads = 1; c->n_threads <= 7; c->n_threads++) {
    ck_assert_int_eq(case_run(c, cpu_level_name(cpu_level_best())), REED_OK);
    if (!first) {
      bytes = (size_t)desc_bytes(&c->outputs[0].desc);
      first = malloc(bytes);
      memcpy(first, c->outputs[0].data, bytes);
    }
    ck_assert_uint_eq((size_t)desc_bytes(&c->outputs[0].desc), bytes);
    ck_assert_mem_eq(first, c->outputs[0].data, bytes);
  }
  free(first);
  case_close(c);
}

/* Runs the case with 2 threads: the number of chunks stands for their length. */
static void expect_chunks(kernel_case *c, int64_t least) {
  c->n_threads = 2;
  team_measure measure;
  team_measure_begin(&measure);
  ck_assert_int_eq(case_run(c, cpu_level_name(cpu_level_best())), REED_OK);
  team_measure_end();
  ck_assert_msg(measure.n_chunks >= least, "%s: %lld chunks", case_where(c), (long long)measure.n_chunks);
}

/* A part of a map's gradient takes all regions in their order: in steps, which any thread may go on with. */
START_TEST(gradients_of_many_regions_have_many_steps) {
  for (int few = 0; few < 2; few++) { /* channels: so few that a kernel of its own computes them */
    form f = {_i, REED_F32, 1, few ? 3 : 37, 40, 50, 600, 5, 5, 2, 1, false, false, true, true};
    kernel_case c;
    regions_case(&c, &f);
    expect_chunks(&c, few ? 3 : 100);
    case_close(&c);
  }
}
END_TEST

/* The best level equals the reference; less than case_parity does, for large cases. */
static void expect_equal(kernel_case *c) {
  ck_assert_int_eq(case_run(c, "reference"), REED_OK);
  int64_t n = desc_elements(&c->outputs[0].desc);
  double *want = malloc((size_t)n * sizeof *want);
  for (int64_t i = 0; i < n; i++) want[i] = case_get(&c->outputs[0], i);
  ck_assert_int_eq(case_run(c, cpu_level_name(cpu_level_best())), REED_OK);
  for (int64_t i = 0; i < n; i++) {
    double got = case_get(&c->outputs[0], i);
    if (!(fabs(got - want[i]) <= 1e-4 + 1e-4 * fabs(want[i])) && !(isnan(got) && isnan(want[i])))
      ck_abort_msg("%s: element %lld is %g, not %g", case_where(c), (long long)i, got, want[i]);
  }
  free(want);
  case_close(c);
}

/* Regions of the whole map. */
static void widen_regions(kernel_case *c, const form *f) {
  for (int64_t i = 0; !c->skipped && i < f->regions; i++)
    for (int k = 0; k < 4; k++)
      case_set(&c->inputs[1], 5 * i + 1 + k, k < 2 ? (double)(i % 4) : (double)(k == 2 ? f->width : f->height) - 2);
}

/* Few regions may be large, whatever the extents of the bins: a block of channels of one takes several steps. */
START_TEST(large_regions_have_many_steps) {
  for (int k = 0; k < 4; k++) {
    const bool last = k % 2, backward = k / 2;
    form f = {_i, REED_F32, 1, 19, 150, 170, 4, 2, 2, 0, 1, false, last, true, backward};
    kernel_case c;
    regions_case(&c, &f);
    widen_regions(&c, &f);
    expect_chunks(&c, backward ? operators[_i].argmax ? 3 : 8 : 12);
    expect_same_bits(&c);
    regions_case(&c, &f);
    widen_regions(&c, &f);
    expect_equal(&c);
  }
}
END_TEST

/* Blocks of channels side by side: copies of the map's rows and some regions are steps of their own. */
START_TEST(many_regions_have_many_steps) {
  for (int last = 0; last < 2; last++) {
    form f = {_i, REED_F32, 2, 33, 60, 70, 1100, 3, 3, 2, 1, false, last, true, false};
    kernel_case c;
    regions_case(&c, &f);
    widen_regions(&c, &f);
    expect_chunks(&c, 60);
    expect_same_bits(&c);
    f.regions = 300;
    regions_case(&c, &f);
    expect_equal(&c);
  }
}
END_TEST

START_TEST(results_have_the_same_bits_for_any_number_of_threads) {
  for (int i = 0; i < 24; i++) { /* few regions, many, and many with few channels */
    const int k = i % 12;
    const reed_dtype dtype = i < 12 ? REED_F32 : REED_BF16;
    form f = {_i, dtype, 2, k < 8 ? 37 : 5, 40, 50, k < 4 ? 60 : 300, 3, 3, 2, 1, false, k % 2, true, k / 2 % 2};
    kernel_case c;
    regions_case(&c, &f);
    expect_same_bits(&c);
  }
}
END_TEST

/* A long map, and as many samples as pixels: the plans of all regions together would take too much memory. */
START_TEST(regions_whose_plans_are_long_equal_the_reference) {
  for (int k = 0; k < 4; k++) {
    form f = {_i, REED_F32, 1, 4, 2, 20000, 350, 7, 9, 0, 1, true, k % 2, true, k / 2};
    kernel_case c;
    regions_case(&c, &f);
    for (int64_t i = 0; !c.skipped && i < 350; i++) { /* small regions all over the map */
      double x = case_get(&c.inputs[1], 5 * i + 1);
      case_set(&c.inputs[1], 5 * i + 3, x + (double)(i % 90));
      case_set(&c.inputs[1], 5 * i + 2, -1);
      case_set(&c.inputs[1], 5 * i + 4, (double)(i % 4));
    }
    expect_equal(&c);
  }
}
END_TEST

/* Coordinates that are no numbers, infinite or huge crash nothing, and reach no other region. */
START_TEST(regions_survive_any_coordinates) {
  static const double corners[][4] = {{NAN, 0, 3, 3},
                                      {0, 0, INFINITY, 3},
                                      {-INFINITY, 0, 3, INFINITY},
                                      {-1e30, -1e30, 1e30, 1e30},
                                      {1e9, 1e9, 2e9, 2e9},
                                      {0, 0, 1e6, 4},
                                      {3, 3, 1, 1},
                                      {-3e8, 0, 3e8, 4},
                                      {2, 2, 2, 2}};
  for (int k = 0; k < 8; k++) {
    form f = {_i, REED_F32, 1, 2, 6, 8, ROWS(corners), 2, 3, k & 1 ? 2 : -1, 1, k >> 1 & 1, k >> 2 & 1, true, false};
    for (int backward = 0; backward < 2; backward++) {
      kernel_case c;
      f.backward = backward;
      regions_case(&c, &f);
      for (int i = 0; i < 4 * ROWS(corners) && !c.skipped; i++)
        case_set(&c.inputs[1], i / 4 * 5 + 1 + i % 4, corners[i / 4][i % 4]);
      case_parity(&c, 1e-4, 1e-4);
    }
  }
}
END_TEST

START_TEST(a_region_of_no_image_is_named) {
  static const double wrong[] = {2.5, -1, 7e18, NAN};
  static const char *const says[] = {"2.5", "-1", "7e+18", "nan"};
  for (int k = 0; k < 8; k++) {
    char sentence[64];
    snprintf(sentence, sizeof sentence, "region 3 is of image %s, there are 2", says[k / 2]);
    form f = {_i, REED_F32, 2, 3, 9, 13, 5, 3, 2, 2, 1, false, false, true, k % 2};
    kernel_case c;
    regions_case(&c, &f);
    case_set(&c.inputs[1], 5 * 3, wrong[k / 2]);
    case_fails(&c, REED_ERROR_VALUE, sentence);
  }
}
END_TEST

/* NaN is never the largest pixel; a bin of nothing but NaN has the least number and no pixel, as in torchvision. */
START_TEST(roi_pool_takes_the_first_largest_pixel) {
  kernel_case c;
  case_init(&c, OP_roi_pool);
  case_filled(&c, REED_F32, DIMS(1, 2, 4), (double[]){1, 5, NAN, NAN, 5, 5, NAN, NAN});
  case_filled(&c, REED_F32, DIMS(2, 4), (double[]){0, 0, 3, 1, 9, 9, 9, 9});
  c.n_outputs = 2;
  case_attr_int(&c, "pooled_width", 2);
  for (cpu_level level = CPU_REFERENCE; level <= cpu_level_best(); level++) {
    ck_assert_int_eq(case_run(&c, cpu_level_name(level)), REED_OK);
    static const double most[] = {5, -(double)__FLT_MAX__, 0, 0}, at[] = {1, -1, -1, -1};
    for (int i = 0; i < 4; i++) {
      ck_assert_double_eq(case_get(&c.outputs[0], i), most[i]);
      ck_assert_double_eq(case_get(&c.outputs[1], i), at[i]);
    }
  }
  case_close(&c);
}
END_TEST

START_TEST(max_roi_pool_is_roi_pool) {
  kernel_case c;
  case_init(&c, OP_MaxRoiPool);
  value *x = case_input(&c, REED_F32, DIMS(1, 1, 6, 6), 0);
  for (int i = 0; i < 36 && !c.skipped; i++) case_set(x, i, i);
  case_filled(&c, REED_F32, DIMS(1, 5), (double[]){0, 2, 2, 8, 6});
  case_attr_ints(&c, "pooled_shape", (int64_t[]){2, 2}, 2);
  case_attr_float(&c, "spatial_scale", 0.5);
  case_expect(&c, (double[]){14, 16, 20, 22}, 4);
}
END_TEST

/* ---- nms ---- */

static void nms_case(kernel_case *c, reed_dtype dtype, int64_t n, double threshold, bool ids) {
  case_init(c, OP_nms);
  value *boxes = case_input(c, dtype, DIMS(n, 4), 40);
  for (int64_t i = 0; !c->skipped && i < n; i++)
    for (int k = 2; k < 4 && i % 11; k++)
      case_set(boxes, 4 * i + k, case_get(boxes, 4 * i + k - 2) + fabs(case_get(boxes, 4 * i + k)) / 2);
  value *scores = case_input(c, dtype, DIMS(n), 1);
  for (int64_t i = 0; !c->skipped && i < n; i += 13) case_set(scores, i, i % 3 ? NAN : 0.5);
  if (ids) {
    value *idxs = case_input(c, REED_I64, DIMS(n), 0);
    for (int64_t i = 0; !c->skipped && i < n; i++) ((int64_t *)idxs->data)[i] = i % 3 - 1;
  }
  case_attr_float(c, "iou_threshold", threshold);
}

START_TEST(nms_equals_the_reference) {
  static const double thresholds[] = {0, 0.3, 0.7, 1, -0.5};
  static const int64_t counts[] = {0, 1, 40, 200, 700};
  for (int k = 0; k < 2; k++) {
    kernel_case c;
    nms_case(&c, _i % 3 ? _i % 3 == 1 ? REED_F32 : REED_BF16 : REED_F32, counts[_i % 5], thresholds[_i / 5], k % 2);
    case_parity(&c, 0, 0);
  }
}
END_TEST

START_TEST(nms_has_the_same_result_for_any_number_of_threads) {
  kernel_case c;
  for (int ids = 0; ids < 2; ids++) {
    nms_case(&c, REED_F32, 3000, 0.4, ids);
    expect_same_bits(&c);
    nms_case(&c, REED_F32, 9001, 0.4, ids);
    expect_same_bits(&c);
  }
}
END_TEST

/* Boxes are taken as given: a box with swapped corners overlaps nothing. A NaN score comes first. */
START_TEST(nms_takes_boxes_as_given) {
  kernel_case c;
  case_init(&c, OP_nms);
  case_filled(&c, REED_F32, DIMS(4, 4), (double[]){0, 0, 4, 4, 4, 4, 0, 0, 0, 0, 4, 3, 1, 1, 2, 2});
  case_filled(&c, REED_F32, DIMS(4), (double[]){0.9, 0.8, 0.7, NAN});
  case_attr_float(&c, "iou_threshold", 0.7);
  case_expect(&c, (double[]){3, 0, 1}, 3);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("vision");
  TCase *t = tcase_create("vision");
  tcase_set_timeout(t, 240);
  suite_add_tcase(suite, t);
  tcase_add_loop_test(t, regions_equal_the_reference, 0, 10);
  tcase_add_loop_test(t, halves_equal_the_reference, 0, 4);
  tcase_add_host_loop_test(t, gradients_equal_finite_differences, 0, 16);
  tcase_add_host_loop_test(t, results_have_the_same_bits_for_any_number_of_threads, 0, 4);
  tcase_add_host_loop_test(t, gradients_of_many_regions_have_many_steps, 0, 4);
  tcase_add_host_loop_test(t, large_regions_have_many_steps, 0, 4);
  tcase_add_host_loop_test(t, many_regions_have_many_steps, 0, 4);
  tcase_add_host_loop_test(t, regions_whose_plans_are_long_equal_the_reference, 0, 4);
  tcase_add_loop_test(t, regions_survive_any_coordinates, 0, 4);
  tcase_add_loop_test(t, a_region_of_no_image_is_named, 0, 4);
  tcase_add_test(t, roi_pool_takes_the_first_largest_pixel);
  tcase_add_test(t, max_roi_pool_is_roi_pool);
  tcase_add_loop_test(t, nms_equals_the_reference, 0, 25);
  tcase_add_host_test(t, nms_has_the_same_result_for_any_number_of_threads);
  tcase_add_test(t, nms_takes_boxes_as_given);
  return suite_run(suite);
}
