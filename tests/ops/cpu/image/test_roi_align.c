/* RoiAlign and MultiLevelRoiAlign: regions anywhere, missing images, and parity with the references. */
#include <math.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

static void roi_case(kernel_case *c, reed_dtype dtype, const int64_t *x, int64_t n_regions, int64_t bins,
                     int64_t sampling, double scale, const char *coordinates, const char *mode) {
  case_init(c, OP_RoiAlign);
  case_input(c, dtype, 4, x, 2);
  value *regions = case_input(c, dtype, DIMS(n_regions, 4), (double)(x[3] > x[2] ? x[3] : x[2]) / scale);
  value *images = case_input(c, REED_I64, DIMS(n_regions), 0);
  for (int64_t i = 0; i < n_regions; i++) {
    ((int64_t *)images->data)[i] = x[0] > 0 ? i % x[0] : 0;
    for (int k = 0; k < 2 && i % 5; k++) /* mostly in order, some reversed, many partly outside */
      if (case_get(regions, 4 * i + k) > case_get(regions, 4 * i + k + 2)) {
        double swapped = case_get(regions, 4 * i + k);
        case_set(regions, 4 * i + k, case_get(regions, 4 * i + k + 2));
        case_set(regions, 4 * i + k + 2, swapped);
      }
  }
  case_attr_int(c, "output_height", bins);
  case_attr_int(c, "output_width", bins + 1);
  case_attr_int(c, "sampling_ratio", sampling);
  case_attr_float(c, "spatial_scale", scale);
  case_attr_string(c, "coordinate_transformation_mode", coordinates);
  case_attr_string(c, "mode", mode);
}

static const struct {
  int64_t x[4], regions, bins, sampling;
  double scale;
} rois[] = {
    {{1, 1, 1, 1}, 1, 1, 1, 1},     {{2, 3, 9, 13}, 20, 3, 2, 0.25}, {{1, 70, 20, 31}, 9, 7, 0, 0.5},
    {{1, 2, 90, 200}, 12, 7, 2, 1}, {{2, 3, 9, 13}, 0, 3, 2, 0.25},  {{1, 130, 8, 8}, 5, 2, 3, 1},
    {{3, 5, 33, 7}, 15, 5, 0, 2},   {{1, 2, 12, 500}, 7, 3, 1, 1},   {{2, 19, 17, 23}, 60, 4, 2, 0.5},
    {{1, 32, 30, 16}, 33, 3, 0, 1},
};

START_TEST(roi_align_equals_the_reference) {
  static const char *const coordinates[] = {"half_pixel", "output_half_pixel"}, *const modes[] = {"avg", "max"};
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16};
  for (int k = 0; k < 12; k++) {
    kernel_case c;
    reed_dtype dtype = dtypes[k / 4];
    roi_case(&c, dtype, rois[_i].x, rois[_i].regions, rois[_i].bins, rois[_i].sampling, rois[_i].scale,
             coordinates[k % 2], modes[k / 2 % 2]);
    case_parity_orders(&c, 1u << 0, case_tolerance(dtype) * 10, case_tolerance(dtype) * 10);
  }
}
END_TEST

/* 34 MB of bins, which are written past the caches with channels last; the threads' fences come before they are read.
 */
START_TEST(more_bins_than_caches_hold_equal_the_reference) {
  kernel_case c;
  roi_case(&c, REED_F32, (int64_t[]){2, 128, 20, 24}, 1200, 7, 1, 0.5, "half_pixel", "avg");
  case_parity_orders(&c, 1u << 0, 1e-5, 1e-5);
}
END_TEST

START_TEST(roi_align_survives_any_coordinates) {
  static const double corners[][4] = {
      {NAN, 0, 3, 3},       {0, 0, INFINITY, 3},  {-1e30, -1e30, 1e30, 1e30},
      {1e9, 1e9, 2e9, 2e9}, {-50, -50, -40, -40}, {0, 0, 0, 0},
      {3, 3, 1, 1},         {0, 0, 1e6, 4},       {-3e8, 0, 3e8, 4},
  };
  for (int64_t sampling = 0; sampling <= 3; sampling += 3)
    for (int half = 0; half < 2; half++) {
      kernel_case c;
      roi_case(&c, REED_F32, (int64_t[]){1, 2, 6, 8}, ROWS(corners), 2, sampling, 1,
               half ? "half_pixel" : "output_half_pixel", "avg");
      for (int i = 0; i < ROWS(corners); i++)
        for (int k = 0; k < 4; k++) case_set(&c.inputs[1], 4 * i + k, corners[i][k]);
      case_parity_orders(&c, 1u << 0, 1e-5, 1e-5);
    }
}
END_TEST

/* A coordinate that is no number makes all bins of its region NaN, of no other; a region without a map stays 0. */
START_TEST(roi_align_of_a_region_without_a_place_is_nan) {
  static const char *const modes[] = {"avg", "max"};
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16};
  for (int k = 0; k < 48; k++) {
    int corner = k % 4, half = k / 4 % 2, max = k / 8 % 2, dtype = k / 16;
    for (int last = 0; last < 2; last++) {
      kernel_case c;
      roi_case(&c, dtypes[dtype], last ? (int64_t[]){1, 6, 8, 3} : (int64_t[]){1, 3, 6, 8}, 4, 2, k % 3, 1,
               half ? "half_pixel" : "output_half_pixel", modes[max]);
      for (int i = 0; i < 16; i++) case_set(&c.inputs[1], i, i % 4 < 2 ? 1 : 4);
      case_set(&c.inputs[1], 4 * 2 + corner, NAN);
      if (last) case_attr_int(&c, "channels_last", 1);
      for (cpu_level level = CPU_REFERENCE; level <= cpu_level_best(); level++) {
        ck_assert_int_eq(case_run(&c, cpu_level_name(level)), REED_OK);
        for (int i = 0; i < 4 * 18; i++)
          if (isnan(case_get(&c.outputs[0], i)) != (i / 18 == 2)) ck_abort_msg("element %d at %d", i, (int)level);
      }
      case_close(&c);
    }
  }
}
END_TEST

/* One region over a ramp x + 10 y: bilinear samples of a plane are exact, a bin's mean is its centre's value. */
START_TEST(roi_align_of_a_plane_gives_bin_centres) {
  kernel_case c;
  case_init(&c, OP_RoiAlign);
  value *x = case_input(&c, REED_F32, DIMS(1, 1, 8, 8), 0);
  for (int i = 0; i < 64; i++) case_set(x, i, i % 8 + 10 * (i / 8));
  case_filled(&c, REED_F32, DIMS(1, 4), (double[]){1, 1, 5, 5});
  case_ints(&c, 1, 0);
  case_attr_int(&c, "output_height", 2);
  case_attr_int(&c, "output_width", 2);
  case_attr_int(&c, "sampling_ratio", 2);
  case_attr_string(&c, "coordinate_transformation_mode", "output_half_pixel");
  case_expect(&c, (double[]){22, 24, 42, 44}, 4);
}
END_TEST

/* Mode max of a map of -1: inside of it the largest product is -1/4; a sample outside counts as 0, on any side. */
START_TEST(roi_align_counts_samples_outside_as_0) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16};
  for (int k = 0; k < 6; k++) {
    kernel_case c;
    case_init(&c, OP_RoiAlign);
    value *x =
        k % 2 ? case_input(&c, dtypes[k / 2], DIMS(1, 4, 4, 1), 0) : case_input(&c, dtypes[k / 2], DIMS(1, 1, 4, 4), 0);
    for (int i = 0; i < 16; i++) case_set(x, i, -1);
    case_filled(&c, dtypes[k / 2], DIMS(5, 4),
                (double[]){0, 0, 2, 2, 1, 0, 6, 2, -5, 0, 2, 2, 0, 1, 2, 6, 20, 20, 22, 22});
    case_ints(&c, 5, 0, 0, 0, 0, 0);
    case_attr_int(&c, "sampling_ratio", 2);
    case_attr_string(&c, "coordinate_transformation_mode", "output_half_pixel");
    case_attr_string(&c, "mode", "max");
    case_attr_int(&c, "channels_last", k % 2);
    case_expect(&c, (double[]){-0.25, 0, 0, 0, 0}, 5);
  }
}
END_TEST

START_TEST(roi_align_names_an_image_that_is_not_there) {
  kernel_case c;
  roi_case(&c, REED_F32, (int64_t[]){2, 1, 4, 4}, 3, 2, 2, 1, "half_pixel", "avg");
  ((int64_t *)c.inputs[2].data)[1] = 2;
  case_fails(&c, REED_ERROR_VALUE, "region 1 is of image 2, there are 2");
}
END_TEST

static const int64_t level_maps[3][4] = {{2, 5, 40, 31}, {2, 5, 20, 64}, {2, 5, 9, 8}};
static const double level_scales[] = {0.5, 0.25, 0.125};

/* Regions of levels -1..3 in turn: the first and last have no map. */
static void levels_case(kernel_case *c, reed_dtype dtype, int64_t n_regions, int64_t sampling, const char *mode) {
  case_init(c, OP_MultiLevelRoiAlign);
  case_input(c, dtype, DIMS(n_regions, 4), 70);
  value *images = case_input(c, REED_I64, DIMS(n_regions), 0), *levels = case_input(c, REED_I64, DIMS(n_regions), 0);
  for (int64_t i = 0; i < n_regions; i++) {
    int64_t level = i % 5 - 1;
    ((int64_t *)levels->data)[i] = level;
    /* the image number of a region without a map is not read */
    ((int64_t *)images->data)[i] = level < 0 ? 99 : i / 5 % 2;
  }
  for (int k = 0; k < 3; k++) case_input(c, dtype, 4, level_maps[k], 2);
  case_attr_int(c, "output_height", 3);
  case_attr_int(c, "output_width", 4);
  case_attr_int(c, "sampling_ratio", sampling);
  case_attr_floats(c, "spatial_scales", level_scales, 3);
  case_attr_string(c, "coordinate_transformation_mode", "output_half_pixel");
  case_attr_string(c, "mode", mode);
}

START_TEST(multi_level_roi_align_equals_the_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16};
  for (int k = 0; k < 12; k++) {
    kernel_case c;
    levels_case(&c, dtypes[k / 4], _i < 11 ? _i : 47, k % 2 ? 2 : 0, k / 2 % 2 ? "max" : "avg");
    case_parity_orders(&c, ~7u, case_tolerance(dtypes[k / 4]) * 10, case_tolerance(dtypes[k / 4]) * 10);
  }
}
END_TEST

/* Regions without a place: number 3 has a map, number 5 has none and stays 0. */
START_TEST(multi_level_roi_align_of_a_region_without_a_place_is_nan) {
  for (int max = 0; max < 2; max++) {
    kernel_case c;
    levels_case(&c, REED_F32, 10, 2, max ? "max" : "avg");
    case_set(&c.inputs[0], 4 * 3 + 2, NAN);
    case_set(&c.inputs[0], 4 * 5 + 1, NAN);
    ck_assert_int_eq(case_run(&c, cpu_level_name(cpu_level_best())), REED_OK);
    for (int64_t k = 0; k < 10 * 60; k++) ck_assert(isnan(case_get(&c.outputs[0], k)) == (k / 60 == 3));
    case_parity_orders(&c, ~7u, 1e-5, 1e-5);
  }
}
END_TEST

START_TEST(a_row_of_multi_level_roi_align_is_roi_align_on_its_map) {
  enum { BINS = 5 * 3 * 4, REGIONS = 20 };
  kernel_case all;
  levels_case(&all, REED_F32, REGIONS, 2, "avg");
  ck_assert_int_eq(case_run(&all, "base"), REED_OK);
  for (int64_t i = 0; i < REGIONS; i++) {
    int64_t level = ((int64_t *)all.inputs[2].data)[i];
    if (level < 0 || level > 2) {
      for (int64_t k = 0; k < BINS; k++) ck_assert_double_eq(case_get(&all.outputs[0], i * BINS + k), 0);
      continue;
    }
    kernel_case one;
    case_init(&one, OP_RoiAlign);
    value *map = case_input(&one, REED_F32, 4, level_maps[level], 0),
          *region = case_input(&one, REED_F32, DIMS(1, 4), 0);
    for (int64_t k = 0; k < desc_elements(&map->desc); k++) case_set(map, k, case_get(&all.inputs[3 + level], k));
    for (int64_t k = 0; k < 4; k++) case_set(region, k, case_get(&all.inputs[0], 4 * i + k));
    *(int64_t *)case_input(&one, REED_I64, DIMS(1), 0)->data = ((int64_t *)all.inputs[1].data)[i];
    case_attr_int(&one, "output_height", 3);
    case_attr_int(&one, "output_width", 4);
    case_attr_int(&one, "sampling_ratio", 2);
    case_attr_float(&one, "spatial_scale", level_scales[level]);
    case_attr_string(&one, "coordinate_transformation_mode", "output_half_pixel");
    ck_assert_int_eq(case_run(&one, "base"), REED_OK);
    for (int64_t k = 0; k < BINS; k++)
      ck_assert_double_eq(case_get(&all.outputs[0], i * BINS + k), case_get(&one.outputs[0], k));
    case_close(&one);
  }
  case_close(&all);
}
END_TEST

START_TEST(multi_level_roi_align_names_an_image_that_is_not_there) {
  kernel_case c;
  levels_case(&c, REED_F32, 5, 2, "avg");
  ((int64_t *)c.inputs[1].data)[2] = 2;
  case_fails(&c, REED_ERROR_VALUE, "region 2 is of image 2, there are 2");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("RoiAlign");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, roi_align_equals_the_reference, 0, ROWS(rois));
  tcase_add_test(t, more_bins_than_caches_hold_equal_the_reference);
  tcase_add_test(t, roi_align_survives_any_coordinates);
  tcase_add_test(t, roi_align_of_a_region_without_a_place_is_nan);
  tcase_add_test(t, roi_align_of_a_plane_gives_bin_centres);
  tcase_add_test(t, roi_align_counts_samples_outside_as_0);
  tcase_add_test(t, roi_align_names_an_image_that_is_not_there);
  tcase_add_loop_test(t, multi_level_roi_align_equals_the_reference, 0, 12);
  tcase_add_test(t, multi_level_roi_align_of_a_region_without_a_place_is_nan);
  tcase_add_test(t, a_row_of_multi_level_roi_align_is_roi_align_on_its_map);
  tcase_add_test(t, multi_level_roi_align_names_an_image_that_is_not_there);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
