/* NonMaxSuppression, TopK, RoiAlign and Resize: small cases worked out by hand or from the operators' texts, and parity
 * with the references. */
#include <math.h>
#include <stdlib.h>

#include "tests/ops/cpu/kernel_case.h"

#define ROWS(table) ((int)(sizeof(table) / sizeof *(table)))

static value *filled(kernel_case *c, reed_dtype dtype, int32_t rank, const int64_t *dims, const double *elements) {
  value *v = case_input(c, dtype, rank, dims, 0);
  for (int64_t i = 0; i < desc_elements(&v->desc); i++) case_set(v, i, elements[i]);
  return v;
}

/* ---- NonMaxSuppression ---- */

/* ONNX's own example: three pairs of boxes along y. */
static const double onnx_boxes[] = {0, 0,  1, 1,  0, 0.1,  1, 1.1,  0, -0.1, 1, 0.9,
                                    0, 10, 1, 11, 0, 10.1, 1, 11.1, 0, 100,  1, 101};
static const double flipped_boxes[] = {1, 1,  0, 0,  0, 0.1,  1, 1.1,  0, 0.9, 1, -0.1,
                                       0, 10, 1, 11, 1, 10.1, 0, 11.1, 1, 101, 0, 100};
static const double center_boxes[] = {0.5, 0.5,  1, 1, 0.5, 0.6,  1, 1, 0.5, 0.4,   1, 1,
                                      0.5, 10.5, 1, 1, 0.5, 10.6, 1, 1, 0.5, 100.5, 1, 1};
static const double onnx_scores[] = {0.9, 0.75, 0.6, 0.95, 0.5, 0.3};

static void nms_case(kernel_case *c, const double *boxes, const double *scores, int64_t n, int64_t most, double iou,
                     double least) {
  case_init(c, OP_NonMaxSuppression);
  filled(c, REED_F32, DIMS(1, n, 4), boxes);
  filled(c, REED_F32, DIMS(1, 1, n), scores);
  *(int64_t *)case_input(c, REED_I64, DIMS(1), 0)->data = most;
  if (!isnan(iou)) case_set(case_input(c, REED_F32, DIMS(1), 0), 0, iou);
  else if (!isnan(least)) case_absent(c);
  if (!isnan(least)) case_set(case_input(c, REED_F32, DIMS(1), 0), 0, least);
}

START_TEST(nms_keeps_the_best_of_each_cluster) {
  kernel_case c;
  nms_case(&c, onnx_boxes, onnx_scores, 6, 3, 0.5, 0);
  case_expect(&c, (double[]){0, 0, 3, 0, 0, 0, 0, 0, 5}, 9);
  nms_case(&c, flipped_boxes, onnx_scores, 6, 3, 0.5, 0);
  case_expect(&c, (double[]){0, 0, 3, 0, 0, 0, 0, 0, 5}, 9);
  nms_case(&c, center_boxes, onnx_scores, 6, 3, 0.5, 0);
  case_attr_int(&c, "center_point_box", 1);
  case_expect(&c, (double[]){0, 0, 3, 0, 0, 0, 0, 0, 5}, 9);
  nms_case(&c, onnx_boxes, onnx_scores, 6, 2, 0.5, 0);
  case_expect(&c, (double[]){0, 0, 3, 0, 0, 0}, 6);
  nms_case(&c, onnx_boxes, onnx_scores, 6, 3, 0.5, 0.4);
  case_expect(&c, (double[]){0, 0, 3, 0, 0, 0}, 6);
}
END_TEST

START_TEST(nms_limit_saturates_and_none_means_none) {
  kernel_case c;
  nms_case(&c, onnx_boxes, onnx_scores, 6, INT64_MAX, 0.5, NAN);
  case_expect(&c, (double[]){0, 0, 3, 0, 0, 0, 0, 0, 5}, 9);
  nms_case(&c, onnx_boxes, onnx_scores, 6, 0, 0.5, NAN);
  case_expect(&c, NULL, 0);
  case_init(&c, OP_NonMaxSuppression);
  filled(&c, REED_F32, DIMS(1, 6, 4), onnx_boxes);
  filled(&c, REED_F32, DIMS(1, 1, 6), onnx_scores);
  case_expect(&c, NULL, 0);
}
END_TEST

START_TEST(nms_without_score_threshold_takes_negative_scores) {
  static const double scores[] = {-5, -1, -3, -2, -4, -0.5};
  kernel_case c;
  nms_case(&c, onnx_boxes, scores, 6, 10, 0.5, NAN);
  case_expect(&c, (double[]){0, 0, 5, 0, 0, 1, 0, 0, 3}, 9);
}
END_TEST

START_TEST(nms_thresholds_are_strict_and_ties_go_to_the_lower_index) {
  /* two boxes that share exactly half of their union, and a far one of the same score */
  static const double boxes[] = {0, 0, 1, 1, 0, 0, 1, 2, 5, 5, 6, 6}, scores[] = {0.5, 0.5, 0.5};
  kernel_case c;
  nms_case(&c, boxes, scores, 3, 10, 0.5, NAN);
  case_expect(&c, (double[]){0, 0, 0, 0, 0, 1, 0, 0, 2}, 9);
  nms_case(&c, boxes, scores, 3, 10, 0.4999, NAN);
  case_expect(&c, (double[]){0, 0, 0, 0, 0, 2}, 6);
  nms_case(&c, boxes, scores, 3, 10, 0.5, 0.5);
  case_expect(&c, NULL, 0);
}
END_TEST

START_TEST(nms_boxes_without_area_suppress_nothing) {
  static const double boxes[] = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 2, 2}, scores[] = {0.9, 0.8, 0.7};
  kernel_case c;
  nms_case(&c, boxes, scores, 3, 10, 0, NAN);
  case_expect(&c, (double[]){0, 0, 0, 0, 0, 1, 0, 0, 2}, 9);
}
END_TEST

START_TEST(nms_equals_the_reference) {
  static const int64_t shapes[][3] = {{1, 1, 1}, {2, 3, 40}, {1, 1, 700}, {2, 5, 130}, {1, 3, 0}, {0, 3, 5}, {1, 0, 5}};
  const int64_t *s = shapes[_i];
  for (int center = 0; center < 2; center++) {
    kernel_case c;
    case_init(&c, OP_NonMaxSuppression);
    value *boxes = case_input(&c, REED_F32, DIMS(s[0], s[1] ? s[2] : s[2], 4), 10),
          *scores = case_input(&c, REED_F32, DIMS(s[0], s[1], s[2]), 1);
    for (int64_t i = 0; i < desc_elements(&scores->desc); i += 3) case_set(scores, i, 0.25); /* ties */
    if (desc_elements(&scores->desc) > 30) case_set(scores, 7, NAN), case_set(boxes, 13, NAN);
    for (int64_t i = 0; center && i < desc_elements(&boxes->desc); i++)
      if (i % 4 > 1) case_set(boxes, i, fabs(case_get(boxes, i)));
    *(int64_t *)case_input(&c, REED_I64, DIMS(1), 0)->data = 50;
    case_set(case_input(&c, REED_F32, 0, NULL, 0), 0, 0.3);
    if (_i % 2) case_set(case_input(&c, REED_F32, 0, NULL, 0), 0, -0.5);
    case_attr_int(&c, "center_point_box", center);
    case_parity(&c, 0, 0);
  }
}
END_TEST

/* Boxes in clusters, so that many are suppressed; ids from a few, far apart ones (0: none). */
static void classes_case(kernel_case *c, int64_t images, int64_t rows, int64_t n, int64_t n_ids, int64_t most) {
  case_init(c, OP_NonMaxSuppression);
  value *boxes = case_input(c, REED_F32, DIMS(images, n, 4), 3),
        *scores = case_input(c, REED_F32, DIMS(images, rows, n), 1);
  for (int64_t i = 0; i < images * n; i++) {
    double x = i * 7 % 5 * 20, y = i * 3 % 4 * 20;
    for (int k = 0; k < 4; k++)
      case_set(boxes, 4 * i + k, case_get(boxes, 4 * i + k) + (k % 2 ? x : y) + (k < 2 ? 0 : 12));
  }
  for (int64_t i = 0; i < desc_elements(&scores->desc); i += 4) case_set(scores, i, 0.25); /* ties */
  if (images * n > 40) case_set(scores, 7, NAN), case_set(boxes, 13, NAN);
  *(int64_t *)case_input(c, REED_I64, DIMS(1), 0)->data = most;
  case_set(case_input(c, REED_F32, 0, NULL, 0), 0, 0.3);
  case_absent(c);
  if (n_ids == 0) return case_absent(c);
  value *ids = case_input(c, REED_I64, DIMS(images, n), 0);
  static const int64_t known[] = {3, INT64_MIN, 0, INT64_MAX, -1, 1 << 20};
  for (int64_t i = 0; i < images * n; i++) {
    int64_t k = i * i % n_ids;
    ((int64_t *)ids->data)[i] = k < ROWS(known) ? known[k] : k;
  }
}

static const struct {
  int64_t images, rows, n, n_ids, most;
} classes[] = {
    {1, 1, 1, 1, 5},  {1, 1, 40, 1, 50},    {1, 1, 41, 41, INT64_MAX},  {2, 3, 130, 7, 20},  {1, 1, 0, 1, 5},
    {1, 2, 97, 2, 1}, {1, 1, 2000, 5, 300}, {1, 1, 2000, 5, INT64_MAX}, {1, 1, 900, 90, 40}, {3, 1, 33, 6, 0},
};

START_TEST(nms_of_class_ids_equals_the_reference) {
  kernel_case c;
  classes_case(&c, classes[_i].images, classes[_i].rows, classes[_i].n, classes[_i].n_ids, classes[_i].most);
  case_parity(&c, 0, 0);
}
END_TEST

/* Every third box is no candidate. */
static void add_candidates(kernel_case *c) {
  const int64_t *dims = c->inputs[0].desc.dims;
  value *candidates = case_input(c, REED_BOOL, DIMS(dims[0], dims[1]), 0);
  for (int64_t i = 0; i < dims[0] * dims[1]; i++) ((bool *)candidates->data)[i] = i % 3 != 1;
}

START_TEST(nms_of_candidates_equals_the_reference) {
  for (int apart = 0; apart < 2; apart++) {
    kernel_case c;
    classes_case(&c, classes[_i].images, classes[_i].rows, classes[_i].n, apart ? classes[_i].n_ids : 0,
                 classes[_i].most);
    add_candidates(&c);
    case_parity(&c, 0, 0);
  }
}
END_TEST

START_TEST(nms_of_candidates_is_nms_of_boxes_that_were_filtered) {
  enum { N = 200 };
  kernel_case all, few;
  classes_case(&all, 1, 1, N, 1, INT64_MAX);
  classes_case(&few, 1, 1, N * 2 / 3, 1, INT64_MAX);
  add_candidates(&all);
  int64_t from[N], n = 0;
  for (int64_t i = 0; i < N; i++)
    if (((bool *)all.inputs[6].data)[i]) from[n++] = i;
  ck_assert_int_eq(n, few.inputs[0].desc.dims[1]);
  for (int64_t i = 0; i < n; i++) {
    for (int e = 0; e < 4; e++) case_set(&few.inputs[0], 4 * i + e, case_get(&all.inputs[0], 4 * from[i] + e));
    case_set(&few.inputs[1], i, case_get(&all.inputs[1], from[i]));
  }
  ck_assert_int_eq(case_run(&all, "base"), REED_OK);
  ck_assert_int_eq(case_run(&few, "base"), REED_OK);
  ck_assert_int_eq(all.extents[0], few.extents[0]);
  for (int64_t i = 0; i < few.extents[0]; i++)
    ck_assert_int_eq((int64_t)case_get(&all.outputs[0], 3 * i + 2),
                     from[(int64_t)case_get(&few.outputs[0], 3 * i + 2)]);
  case_close(&all);
  case_close(&few);
}
END_TEST

/* Ids keep boxes apart exactly as rows of scores do, and what is kept comes in the order of scores over all ids. */
START_TEST(nms_of_class_ids_is_nms_of_each_class_in_the_order_of_scores) {
  enum { N = 300, IDS = 4 };
  kernel_case all;
  classes_case(&all, 1, 1, N, IDS, INT64_MAX);
  ck_assert_int_eq(case_run(&all, "base"), REED_OK);
  int64_t n_kept = all.extents[0], n_apart = 0;
  const int64_t *ids = all.inputs[5].data;
  for (int64_t i = 1; i < n_kept; i++) {
    double before = case_get(&all.inputs[1], (int64_t)case_get(&all.outputs[0], 3 * i - 1));
    double after = case_get(&all.inputs[1], (int64_t)case_get(&all.outputs[0], 3 * i + 2));
    ck_assert(before >= after || isnan(after));
  }
  for (int k = 0; k < IDS; k++) {
    int64_t chosen[N], n = 0, expected = 0;
    for (int64_t i = 0; i < N; i++)
      if (ids[i] == ids[k]) chosen[n++] = i;
    if (chosen[0] != k) continue; /* met before */
    kernel_case one;
    case_init(&one, OP_NonMaxSuppression);
    value *boxes = case_input(&one, REED_F32, DIMS(1, n, 4), 0), *scores = case_input(&one, REED_F32, DIMS(1, 1, n), 0);
    for (int64_t i = 0; i < n; i++) {
      for (int e = 0; e < 4; e++) case_set(boxes, 4 * i + e, case_get(&all.inputs[0], 4 * chosen[i] + e));
      case_set(scores, i, case_get(&all.inputs[1], chosen[i]));
    }
    *(int64_t *)case_input(&one, REED_I64, DIMS(1), 0)->data = INT64_MAX;
    case_set(case_input(&one, REED_F32, 0, NULL, 0), 0, 0.3);
    ck_assert_int_eq(case_run(&one, "base"), REED_OK);
    for (int64_t i = 0; i < n_kept; i++) {
      int64_t box = (int64_t)case_get(&all.outputs[0], 3 * i + 2);
      if (ids[box] == ids[k]) ck_assert_int_eq(chosen[(int64_t)case_get(&one.outputs[0], 3 * expected++ + 2)], box);
    }
    ck_assert_int_eq(expected, one.extents[0]);
    n_apart += expected;
    case_close(&one);
  }
  ck_assert_int_eq(n_apart, n_kept);
  ck_assert_int_lt(n_kept, N);
  case_close(&all);
}
END_TEST

START_TEST(nms_names_class_ids_of_another_number_of_boxes) {
  kernel_case c;
  classes_case(&c, 1, 1, 6, 2, 5);
  c.inputs[5].desc.dims[1] = 5;
  case_fails(&c, REED_ERROR_SHAPE, "boxes f32[1,6,4] and class ids i64[1,5] do not go together");
}
END_TEST

/* ---- TopK ---- */

static void topk_case(kernel_case *c, const double *elements, int64_t n, int64_t k, bool largest) {
  case_init(c, OP_TopK);
  c->n_outputs = 2;
  filled(c, REED_F32, DIMS(n), elements);
  *(int64_t *)case_input(c, REED_I64, DIMS(1), 0)->data = k;
  case_attr_int(c, "largest", largest);
}

static void expect_indices(kernel_case *c, const double *indices, int64_t n) {
  for (cpu_level level = CPU_REFERENCE; level <= cpu_level_best(); level++) {
    ck_assert_int_eq(case_run(c, cpu_level_name(level)), REED_OK);
    for (int64_t i = 0; i < n; i++) ck_assert_double_eq(case_get(&c->outputs[1], i), indices[i]);
  }
  case_close(c);
}

START_TEST(topk_orders_ties_by_index_and_nan_above_all) {
  static const double x[] = {1, 3, NAN, 3, -0.0, 0, -INFINITY, INFINITY, NAN};
  kernel_case c;
  topk_case(&c, x, 9, 6, true);
  expect_indices(&c, (double[]){2, 8, 7, 1, 3, 0}, 6);
  topk_case(&c, x, 9, 9, false);
  expect_indices(&c, (double[]){6, 4, 5, 0, 1, 3, 7, 2, 8}, 9);
}
END_TEST

static const struct {
  int32_t rank;
  int64_t x[3], axis, k;
} topks[] = {
    {1, {1}, 0, 1},      {1, {5}, 0, 0},        {1, {3000}, 0, 100},  {1, {3000}, 0, 3000},
    {2, {40, 33}, 0, 7}, {2, {40, 133}, 1, 40}, {3, {3, 5, 7}, 1, 5}, {2, {0, 5}, 1, 3},
};

START_TEST(topk_equals_the_reference) {
  for (reed_dtype dtype = REED_F32; dtype < REED_BOOL; dtype++)
    for (int largest = 0; largest < 2; largest++)
      for (int range = 0; range < 2; range++) { /* few values (ties), many */
        kernel_case c;
        case_init(&c, OP_TopK);
        c.n_outputs = 2;
        case_input(&c, dtype, topks[_i].rank, topks[_i].x, range ? 100 : 0.6);
        *(int64_t *)case_input(&c, REED_I64, DIMS(1), 0)->data = topks[_i].k;
        case_attr_int(&c, "axis", topks[_i].axis);
        case_attr_int(&c, "largest", largest);
        case_parity(&c, 0, 0);
      }
}
END_TEST

START_TEST(topk_takes_the_extremes_of_integers) {
  kernel_case c;
  case_init(&c, OP_TopK);
  value *x = case_input(&c, REED_I64, DIMS(4), 0);
  int64_t elements[] = {INT64_MIN, INT64_MAX, -1, INT64_MAX - 1};
  for (int i = 0; i < 4; i++) ((int64_t *)x->data)[i] = elements[i];
  c.n_outputs = 2;
  *(int64_t *)case_input(&c, REED_I64, DIMS(1), 0)->data = 4;
  expect_indices(&c, (double[]){1, 3, 2, 0}, 4);
}
END_TEST

/* ---- RoiAlign ---- */

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
    {{3, 5, 33, 7}, 15, 5, 0, 2},   {{1, 2, 12, 500}, 7, 3, 1, 1},
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
  filled(&c, REED_F32, DIMS(1, 4), (double[]){1, 1, 5, 5});
  case_ints(&c, 1, 0);
  case_attr_int(&c, "output_height", 2);
  case_attr_int(&c, "output_width", 2);
  case_attr_int(&c, "sampling_ratio", 2);
  case_attr_string(&c, "coordinate_transformation_mode", "output_half_pixel");
  case_expect(&c, (double[]){22, 24, 42, 44}, 4);
}
END_TEST

START_TEST(roi_align_names_an_image_that_is_not_there) {
  kernel_case c;
  roi_case(&c, REED_F32, (int64_t[]){2, 1, 4, 4}, 3, 2, 2, 1, "half_pixel", "avg");
  ((int64_t *)c.inputs[2].data)[1] = 2;
  case_fails(&c, REED_ERROR_VALUE, "region 1 is of image 2, there are 2");
}
END_TEST

/* ---- MultiLevelRoiAlign ---- */

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
    ((int64_t *)images->data)[i] = level < 0 ? 99 : i / 5 % 2; /* nobody asks for the image of a region without a map */
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
    levels_case(&c, dtypes[k / 4], _i, k % 2 ? 2 : 0, k / 2 % 2 ? "max" : "avg");
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

/* ---- Resize ---- */

static void resize_case(kernel_case *c, reed_dtype dtype, int32_t rank, const int64_t *dims, const int64_t *sizes,
                        const char *mode) {
  case_init(c, OP_Resize);
  case_input(c, dtype, rank, dims, 10);
  case_absent(c);
  case_absent(c);
  value *v = case_input(c, REED_I64, DIMS(rank), 0);
  for (int32_t i = 0; i < rank; i++) ((int64_t *)v->data)[i] = sizes[i];
  case_attr_string(c, "mode", mode);
}

static const char *const mappings[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                       "align_corners", "asymmetric",           "tf_half_pixel_for_nn"};
static const char *const modes[] = {"nearest", "linear", "cubic"};
static const struct {
  int32_t rank;
  int64_t x[5], y[5];
} sizes[] = {
    {1, {5}, {9}},
    {2, {3, 4}, {3, 4}},
    {3, {2, 3, 7}, {2, 6, 3}},
    {4, {1, 3, 13, 17}, {1, 3, 26, 34}},
    {4, {1, 3, 40, 57}, {1, 3, 11, 8}},
    {4, {2, 1, 1, 1}, {2, 1, 5, 4}},
    {4, {1, 7, 5, 3}, {1, 9, 5, 3}},
    {5, {1, 2, 3, 4, 5}, {1, 2, 6, 2, 7}},
    {4, {0, 3, 4, 4}, {0, 3, 8, 8}},
    {4, {1, 5, 4, 17}, {1, 10, 8, 17}}, /* channels last */
    {4, {3, 9, 11, 33}, {3, 18, 7, 33}},
};

START_TEST(resize_equals_the_reference) {
  for (int map = 0; map < ROWS(mappings); map++)
    for (int mode = 0; mode < 3; mode++)
      for (int extra = 0; extra < 4; extra++) {
        if (extra && mode == 0) continue;
        static const reed_dtype dtypes[] = {REED_F32, REED_U8, REED_F16, REED_F64};
        reed_dtype dtype = dtypes[extra];
        kernel_case c;
        resize_case(&c, dtype, sizes[_i].rank, sizes[_i].x, sizes[_i].y, modes[mode]);
        case_attr_string(&c, "coordinate_transformation_mode", mappings[map]);
        case_attr_int(&c, "antialias", extra & 1 && mode > 0);
        case_attr_int(&c, "exclude_outside", extra >> 1 && mode > 0);
        case_parity(&c, case_tolerance(dtype) * 4, dtype == REED_F32 ? 2e-5 : case_tolerance(dtype) * 20);
      }
}
END_TEST

START_TEST(resize_nearest_rounds_as_told) {
  static const struct {
    const char *word;
    double expected[5];
  } rows[] = {{"round_prefer_floor", {1, 1, 2, 2, 2}},
              {"round_prefer_ceil", {1, 1, 2, 2, 2}},
              {"floor", {1, 1, 1, 2, 2}},
              {"ceil", {1, 2, 2, 2, 2}}};
  for (int i = 0; i < ROWS(rows); i++) {
    kernel_case c;
    resize_case(&c, REED_F32, 1, (int64_t[]){2}, (int64_t[]){5}, "nearest");
    case_set(&c.inputs[0], 0, 1);
    case_set(&c.inputs[0], 1, 2);
    case_attr_string(&c, "nearest_mode", rows[i].word);
    case_attr_string(&c, "coordinate_transformation_mode", "asymmetric"); /* 0 0.4 0.8 1.2 1.6 */
    case_expect(&c, rows[i].expected, 5);
  }
}
END_TEST

START_TEST(resize_linear_matches_onnx_examples) {
  kernel_case c;
  resize_case(&c, REED_F32, 4, (int64_t[]){1, 1, 2, 2}, (int64_t[]){1, 1, 4, 4}, "linear");
  for (int i = 0; i < 4; i++) case_set(&c.inputs[0], i, i + 1);
  case_expect(&c, (double[]){1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4}, 16);
  resize_case(&c, REED_F32, 4, (int64_t[]){1, 1, 2, 2}, (int64_t[]){1, 1, 4, 4}, "linear");
  for (int i = 0; i < 4; i++) case_set(&c.inputs[0], i, i + 1);
  case_attr_string(&c, "coordinate_transformation_mode", "align_corners");
  case_expect(&c,
              (double[]){1, 1 + 1. / 3, 1 + 2. / 3, 2, 1 + 2. / 3, 2, 2 + 1. / 3, 2 + 2. / 3, 2 + 1. / 3, 2 + 2. / 3, 3,
                         3 + 1. / 3, 3, 3 + 1. / 3, 3 + 2. / 3, 4},
              16);
}
END_TEST

START_TEST(resize_crops_and_extrapolates) {
  for (int mode = 0; mode < 2; mode++) {
    kernel_case c;
    case_init(&c, OP_Resize);
    filled(&c, REED_F32, DIMS(5), (double[]){0, 1, 2, 3, 4});
    filled(&c, REED_F32, DIMS(2), (double[]){0.5, 1.5}); /* from the middle to half a length past the end */
    case_absent(&c);
    case_ints(&c, 1, 5);
    case_attr_string(&c, "mode", modes[mode]);
    case_attr_string(&c, "coordinate_transformation_mode", "tf_crop_and_resize");
    case_attr_float(&c, "extrapolation_value", -7);
    case_expect(&c, (double[]){2, 3, 4, -7, -7}, 5);
  }
}
END_TEST

START_TEST(resize_takes_scales_axes_and_policies) {
  kernel_case c;
  case_init(&c, OP_Resize);
  case_input(&c, REED_F32, DIMS(2, 6, 3, 5), 3);
  case_absent(&c);
  filled(&c, REED_F32, DIMS(2), (double[]){0.6, 1.7});
  case_attr_ints(&c, "axes", (int64_t[]){3, -3}, 2);
  case_attr_string(&c, "mode", "cubic");
  case_parity(&c, 1e-5, 1e-5);
  for (int policy = 0; policy < 2; policy++) {
    case_init(&c, OP_Resize);
    case_input(&c, REED_F32, DIMS(1, 1, 6, 8), 3);
    case_absent(&c);
    case_absent(&c);
    case_ints(&c, 2, 9, 9);
    case_attr_ints(&c, "axes", (int64_t[]){2, 3}, 2);
    case_attr_string(&c, "mode", "linear");
    case_attr_string(&c, "keep_aspect_ratio_policy", policy ? "not_larger" : "not_smaller");
    case_parity(&c, 1e-5, 1e-5);
  }
}
END_TEST

/* ---- PasteMasks ---- */

enum { FAR = 1 << 20 };
/* x1, y1, x2, y2: inside, over each border, over all of them, outside, one pixel, turned over, as far away as can be */
static const int64_t pasted[][4] = {
    {3, 4, 17, 11},
    {-5, -3, 6, 8},
    {20, 10, 39, 29},
    {-4, -4, 60, 60},
    {40, 3, 50, 9},
    {3, -20, 9, -1},
    {7, 7, 7, 7},
    {0, 0, 30, 20},
    {9, 9, 4, 3},
    {31, 0, 31, 20},
    {-FAR, 5, FAR, 9},
    {5, 0, 34, 29},
    {INT64_MIN, INT64_MIN, INT64_MAX, INT64_MAX},
    {INT64_MAX, INT64_MAX, INT64_MIN, INT64_MIN},
    {1, 2, 6, 6},
    {12, -7, 12, 40},
};

static void paste_case(kernel_case *c, int64_t n, int64_t rows, int64_t columns, int64_t height, int64_t width,
                       const char *mapping) {
  case_init(c, OP_PasteMasks);
  case_input(c, REED_F32, DIMS(n, 1, rows, columns), 2);
  value *boxes = case_input(c, REED_I64, DIMS(n, 4), 0);
  for (int64_t i = 0; i < n; i++) memcpy((int64_t *)boxes->data + 4 * i, pasted[i % ROWS(pasted)], sizeof *pasted);
  case_ints(c, 1, height);
  *(int64_t *)case_input(c, REED_I64, 0, NULL, 0)->data = width;
  case_attr_string(c, "coordinate_transformation_mode", mapping);
}

static const struct {
  int64_t n, rows, columns, height, width;
} pastes[] = {{ROWS(pasted), 6, 5, 21, 32},
              {1, 1, 1, 40, 7},
              {3, 30, 30, 9, 200},
              {0, 4, 4, 8, 8},
              {2, 3, 3, 0, 5},
              {2, 3, 3, 5, 0},
              {40, 28, 28, 65, 79},
              {2, 9, 1, 1, 1}};

START_TEST(paste_masks_equals_the_reference) {
  for (int map = 0; map < 5; map++) {
    kernel_case c;
    paste_case(&c, pastes[_i].n, pastes[_i].rows, pastes[_i].columns, pastes[_i].height, pastes[_i].width,
               mappings[map]);
    case_parity(&c, 1e-6, 1e-6);
  }
}
END_TEST

/* Exactly what Resize gives, where the picture has it; zeros elsewhere. */
START_TEST(a_pasted_mask_is_resize_cut_to_the_picture) {
  enum { M = 7, N = 5, HEIGHT = 21, WIDTH = 32 };
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
    kernel_case all;
    paste_case(&all, ROWS(pasted), M, N, HEIGHT, WIDTH, "half_pixel");
    ck_assert_int_eq(case_run(&all, cpu_level_name(level)), REED_OK);
    for (int k = 0; k < ROWS(pasted); k++) {
      const int64_t *b = pasted[k];
      if (b[0] == INT64_MIN || b[0] == INT64_MAX || b[2] == FAR) continue; /* too large for Resize */
      int64_t h = b[3] < b[1] ? 1 : b[3] - b[1] + 1, w = b[2] < b[0] ? 1 : b[2] - b[0] + 1;
      kernel_case one;
      resize_case(&one, REED_F32, 4, (int64_t[]){1, 1, M, N}, (int64_t[]){1, 1, h, w}, "linear");
      for (int64_t i = 0; i < M * N; i++) case_set(&one.inputs[0], i, case_get(&all.inputs[0], k * M * N + i));
      ck_assert_int_eq(case_run(&one, cpu_level_name(level)), REED_OK);
      for (int64_t y = 0; y < HEIGHT; y++)
        for (int64_t x = 0; x < WIDTH; x++) {
          bool inside = x >= b[0] && x <= b[2] && y >= b[1] && y <= b[3];
          double expected = inside ? case_get(&one.outputs[0], (y - b[1]) * w + x - b[0]) : 0;
          ck_assert_double_eq(case_get(&all.outputs[0], (k * HEIGHT + y) * WIDTH + x), expected);
        }
      case_close(&one);
    }
    case_close(&all);
  }
}
END_TEST

START_TEST(paste_masks_says_what_it_cannot_paste) {
  kernel_case c;
  paste_case(&c, 2, 0, 3, 5, 5, "half_pixel");
  case_fails(&c, REED_ERROR_SHAPE, "masks of 0 by 3 cannot be resized");
  paste_case(&c, 2, 3, 3, 5, 5, "tf_crop_and_resize");
  case_fails(&c, REED_ERROR_UNSUPPORTED, "coordinate_transformation_mode 'tf_crop_and_resize' needs a region");
}
END_TEST

/* ---- Keypoints ---- */

/* Row k's maps are resized to rows[k % 6] by columns[k % 6]. */
static const double map_rows[] = {9, 1, 30, 4, 77, 6}, map_columns[] = {13, 1, 7, 5, 40, 2100};

static void keypoints_case(kernel_case *c, int64_t n, int64_t channels, int64_t rows, int64_t columns,
                           const char *mapping) {
  case_init(c, OP_Keypoints);
  c->n_outputs = 2;
  case_input(c, REED_F32, DIMS(n, channels, rows, columns), 3);
  for (int i = 0; i < 4; i++) case_input(c, REED_F32, DIMS(n), 50); /* left, top, width, height */
  for (int64_t k = 0; k < n; k++)
    for (int i = 3; i < 5; i++) { /* wide enough to tell the pixel from the point */
      double size = case_get(&c->inputs[i], k);
      case_set(&c->inputs[i], k, size < 0 ? size - 5 : size + 5);
    }
  value *w = case_input(c, REED_F32, DIMS(n), 0), *h = case_input(c, REED_F32, DIMS(n), 0);
  for (int64_t k = 0; k < n; k++) case_set(w, k, map_columns[k % 6]), case_set(h, k, map_rows[k % 6]);
  case_attr_string(c, "coordinate_transformation_mode", mapping);
}

static bool near(double a, double b) {
  return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 1e-5 * fabs(b) + 1e-5;
}

/* The pixel along one axis that a point stands for; -1: no pixel. */
static int64_t pixel_of(double point, double origin, double size, int64_t extent) {
  double pixel = (point - origin) * (double)extent / size - 0.5, whole = round(pixel);
  return fabs(pixel - whole) < 0.05 && whole >= 0 && whole < (double)extent ? (int64_t)whole : -1;
}

/* The value of the pixel in map i of the case, resized by the reference of Resize. */
static double resized_pixel(const kernel_case *c, int64_t i, int64_t y, int64_t x) {
  const reed_desc *maps = &c->inputs[0].desc;
  int64_t k = i / maps->dims[1], rows = maps->dims[2], columns = maps->dims[3];
  int64_t height = (int64_t)case_get(&c->inputs[6], k), width = (int64_t)case_get(&c->inputs[5], k);
  kernel_case one;
  resize_case(&one, REED_F32, 4, (int64_t[]){1, 1, rows, columns}, (int64_t[]){1, 1, height, width}, "cubic");
  case_attr_string(&one, "coordinate_transformation_mode", c->attrs[0].s);
  for (int64_t at = 0; at < rows * columns; at++)
    case_set(&one.inputs[0], at, case_get(&c->inputs[0], i * rows * columns + at));
  ck_assert_int_eq(case_run(&one, "reference"), REED_OK);
  double found = case_get(&one.outputs[0], y * width + x);
  case_close(&one);
  return found;
}

/* Peaks and points of every level equal the reference's. Neighbours in a map resized to many pixels differ by less
 * than the rounding of a float, so a finite peak may stand at another pixel if the reference computes the same value
 * there. Closes the case. */
static void keypoints_parity(kernel_case *c) {
  const reed_desc *maps = &c->inputs[0].desc;
  int64_t n = maps->dims[0], channels = maps->dims[1];
  ck_assert_int_eq(case_run(c, "reference"), REED_OK);
  value points = c->outputs[0], peaks = c->outputs[1];
  c->outputs[0] = c->outputs[1] = (value){0};
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++)
    for (c->n_threads = 1; c->n_threads <= 2; c->n_threads++) {
      ck_assert_int_eq(case_run(c, cpu_level_name(level)), REED_OK);
      for (int64_t i = 0; i < n * channels; i++) {
        int64_t k = i / channels, at[2], first = k * 3 * channels + i % channels;
        double peak = case_get(&peaks, i), found[2];
        bool same = true;
        if (!near(case_get(&c->outputs[1], i), peak))
          ck_abort_msg("%s: peak %lld is %g, not %g", cpu_level_name(level), (long long)i, case_get(&c->outputs[1], i),
                       peak);
        for (int axis = 0; axis < 2; axis++) {
          found[axis] = case_get(&c->outputs[0], first + axis * channels);
          same = same && near(found[axis], case_get(&points, first + axis * channels));
          at[axis] = pixel_of(found[axis], case_get(&c->inputs[1 + axis], k), case_get(&c->inputs[3 + axis], k),
                              (int64_t)case_get(&c->inputs[5 + axis], k));
        }
        if (case_get(&c->outputs[0], first + 2 * channels) != 1) ck_abort_msg("point %lld has no 1", (long long)i);
        if (same) continue;
        if (!isfinite(peak) || at[0] < 0 || at[1] < 0 || !near(resized_pixel(c, i, at[1], at[0]), peak))
          ck_abort_msg("%s: the peak of map %lld, %g, is at %g %g", cpu_level_name(level), (long long)i, peak, found[0],
                       found[1]);
      }
    }
  free(points.block);
  free(peaks.block);
  case_close(c);
}

static const int64_t heatmap_shapes[][4] = {{6, 3, 5, 4}, {1, 1, 2, 2}, {12, 17, 8, 8}, {0, 3, 4, 4},
                                            {2, 0, 4, 4}, {3, 2, 2, 9}, {3, 2, 40, 2},  {6, 33, 7, 20}};

START_TEST(keypoints_equal_the_reference) {
  const int64_t *s = heatmap_shapes[_i];
  for (int round = 0; round < 10; round++) {
    kernel_case c;
    keypoints_case(&c, s[0], s[1], s[2], s[3], mappings[round % 5]);
    keypoints_parity(&c);
  }
}
END_TEST

/* [N,C,M,W] -> [N,M,W,C] */
static void turn_maps(kernel_case *c, kernel_case *out_last, const int64_t *s, const char *mapping) {
  keypoints_case(out_last, s[0], s[2], s[3], s[1], mapping);
  case_attr_int(out_last, "channels_last", 1);
  int64_t channels = s[1], pixels = s[2] * s[3];
  for (int64_t i = 0; i < s[0] * channels * pixels; i++)
    case_set(&out_last->inputs[0], (i / pixels / channels * pixels + i % pixels) * channels + i / pixels % channels,
             case_get(&c->inputs[0], i));
  for (int32_t k = 1; k < c->n_inputs; k++)
    for (int64_t i = 0; i < s[0]; i++) case_set(&out_last->inputs[k], i, case_get(&c->inputs[k], i));
}

/* The same bits, whatever the elements: numbers; a NaN, infinities, equal elements between them. */
START_TEST(keypoints_are_the_same_with_channels_last) {
  const int64_t *s = heatmap_shapes[_i];
  for (int odd = 0; odd < 2; odd++)
    for (cpu_level level = CPU_REFERENCE; level <= cpu_level_best(); level++) {
      kernel_case c, last;
      keypoints_case(&c, s[0], s[1], s[2], s[3], mappings[_i % 5]);
      static const double odds[] = {NAN, INFINITY, -INFINITY, 7, 7};
      int64_t n = s[0] * s[1] * s[2] * s[3];
      for (int64_t i = 0; odd && i < n; i += 11) case_set(&c.inputs[0], i, odds[i / 11 % 5]);
      turn_maps(&c, &last, s, mappings[_i % 5]);
      ck_assert_int_eq(case_run(&c, cpu_level_name(level)), REED_OK);
      for (last.n_threads = 1; last.n_threads < 3; last.n_threads++) {
        ck_assert_int_eq(case_run(&last, cpu_level_name(level)), REED_OK);
        for (int k = 0; k < 2; k++) {
          ck_assert(desc_equal(&c.outputs[k].desc, &last.outputs[k].desc));
          if (desc_bytes(&c.outputs[k].desc))
            ck_assert_mem_eq(c.outputs[k].data, last.outputs[k].data, (size_t)desc_bytes(&c.outputs[k].desc));
        }
      }
      case_close(&c);
      case_close(&last);
    }
}
END_TEST

/* As ArgMax has it: a NaN is larger than anything, the first of them is the peak. */
START_TEST(keypoints_of_maps_with_nan_equal_the_reference) {
  for (int round = 0; round < 100; round++) {
    kernel_case c;
    keypoints_case(&c, 6, 3, 5, 4, mappings[round / 20 % 5]);
    for (int map = 0; map < 18; map += 2) case_set(&c.inputs[0], map * 20 + round % 20, map % 4 ? NAN : INFINITY);
    case_set(&c.inputs[0], 4 * 20 + 19, -INFINITY);
    keypoints_parity(&c);
  }
}
END_TEST

/* Exactly the first largest element of what Resize gives, and its place; equal elements and turned-over maps included.
 */
START_TEST(keypoints_are_the_peaks_of_resized_maps) {
  enum { N = 6, C = 3, M = 5, W = 4 };
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
    kernel_case all;
    keypoints_case(&all, N, C, M, W, "half_pixel");
    for (int i = 0; i < M * W; i++)
      case_set(&all.inputs[0], i, 2), case_set(&all.inputs[0], C * M * W + i, i % W); /* flat; equal rows */
    ck_assert_int_eq(case_run(&all, cpu_level_name(level)), REED_OK);
    for (int k = 0; k < N; k++) {
      int64_t h = (int64_t)map_rows[k], w = (int64_t)map_columns[k];
      kernel_case one;
      resize_case(&one, REED_F32, 4, (int64_t[]){C, 1, M, W}, (int64_t[]){C, 1, h, w}, "cubic");
      for (int64_t i = 0; i < C * M * W; i++) case_set(&one.inputs[0], i, case_get(&all.inputs[0], k * C * M * W + i));
      ck_assert_int_eq(case_run(&one, cpu_level_name(level)), REED_OK);
      for (int64_t c = 0; c < C; c++) {
        int64_t best = 0;
        for (int64_t i = 1; i < h * w; i++)
          if (case_get(&one.outputs[0], c * h * w + i) > case_get(&one.outputs[0], c * h * w + best)) best = i;
        ck_assert_double_eq(case_get(&all.outputs[1], k * C + c), case_get(&one.outputs[0], c * h * w + best));
        float left = (float)case_get(&all.inputs[1], k), across = (float)case_get(&all.inputs[3], k) / (float)w;
        float top = (float)case_get(&all.inputs[2], k), down = (float)case_get(&all.inputs[4], k) / (float)h;
        ck_assert_double_eq_tol(case_get(&all.outputs[0], (k * 3) * C + c), ((float)(best % w) + 0.5f) * across + left,
                                1e-5);
        ck_assert_double_eq_tol(case_get(&all.outputs[0], (k * 3 + 1) * C + c), ((float)(best / w) + 0.5f) * down + top,
                                1e-5);
        ck_assert_double_eq(case_get(&all.outputs[0], (k * 3 + 2) * C + c), 1);
      }
      case_close(&one);
    }
    case_close(&all);
  }
}
END_TEST

START_TEST(keypoints_say_what_they_cannot_look_at) {
  static const double sizes[] = {0.5, -3, NAN, INFINITY, 1e9};
  for (int i = 0; i < ROWS(sizes); i++) {
    kernel_case c;
    keypoints_case(&c, 2, 2, 3, 3, "half_pixel");
    case_set(&c.inputs[6], 1, sizes[i]);
    case_fails(&c, REED_ERROR_VALUE, "cannot be resized to ");
  }
  kernel_case c;
  keypoints_case(&c, 2, 2, 3, 3, "half_pixel");
  c.inputs[2].desc.dims[0] = 1;
  case_fails(&c, REED_ERROR_SHAPE, "maps f32[2,2,3,3] and top f32[1] do not go together");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("detection kernels");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_test(t, nms_keeps_the_best_of_each_cluster);
  tcase_add_test(t, nms_limit_saturates_and_none_means_none);
  tcase_add_test(t, nms_without_score_threshold_takes_negative_scores);
  tcase_add_test(t, nms_thresholds_are_strict_and_ties_go_to_the_lower_index);
  tcase_add_test(t, nms_boxes_without_area_suppress_nothing);
  tcase_add_loop_test(t, nms_of_class_ids_equals_the_reference, 0, ROWS(classes));
  tcase_add_test(t, nms_of_class_ids_is_nms_of_each_class_in_the_order_of_scores);
  tcase_add_loop_test(t, nms_of_candidates_equals_the_reference, 0, ROWS(classes));
  tcase_add_test(t, nms_of_candidates_is_nms_of_boxes_that_were_filtered);
  tcase_add_test(t, nms_names_class_ids_of_another_number_of_boxes);
  tcase_add_loop_test(t, keypoints_equal_the_reference, 0, ROWS(heatmap_shapes));
  tcase_add_test(t, keypoints_are_the_peaks_of_resized_maps);
  tcase_add_loop_test(t, keypoints_are_the_same_with_channels_last, 0, ROWS(heatmap_shapes));
  tcase_add_test(t, keypoints_of_maps_with_nan_equal_the_reference);
  tcase_add_test(t, keypoints_say_what_they_cannot_look_at);
  tcase_add_loop_test(t, paste_masks_equals_the_reference, 0, ROWS(pastes));
  tcase_add_test(t, a_pasted_mask_is_resize_cut_to_the_picture);
  tcase_add_test(t, paste_masks_says_what_it_cannot_paste);
  tcase_add_loop_test(t, nms_equals_the_reference, 0, 7);
  tcase_add_test(t, topk_orders_ties_by_index_and_nan_above_all);
  tcase_add_loop_test(t, topk_equals_the_reference, 0, ROWS(topks));
  tcase_add_test(t, topk_takes_the_extremes_of_integers);
  tcase_add_loop_test(t, roi_align_equals_the_reference, 0, ROWS(rois));
  tcase_add_test(t, roi_align_survives_any_coordinates);
  tcase_add_test(t, roi_align_of_a_region_without_a_place_is_nan);
  tcase_add_test(t, roi_align_of_a_plane_gives_bin_centres);
  tcase_add_test(t, roi_align_names_an_image_that_is_not_there);
  tcase_add_loop_test(t, multi_level_roi_align_equals_the_reference, 0, 12);
  tcase_add_test(t, multi_level_roi_align_of_a_region_without_a_place_is_nan);
  tcase_add_test(t, a_row_of_multi_level_roi_align_is_roi_align_on_its_map);
  tcase_add_test(t, multi_level_roi_align_names_an_image_that_is_not_there);
  tcase_add_loop_test(t, resize_equals_the_reference, 0, ROWS(sizes));
  tcase_add_test(t, resize_nearest_rounds_as_told);
  tcase_add_test(t, resize_linear_matches_onnx_examples);
  tcase_add_test(t, resize_crops_and_extrapolates);
  tcase_add_test(t, resize_takes_scales_axes_and_policies);
  suite_add_tcase(suite, t);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
