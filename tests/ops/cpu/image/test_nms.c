/* NonMaxSuppression: small cases worked out by hand, class ids, candidates, and parity with the reference. */
#include <math.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

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
  case_filled(c, REED_F32, DIMS(1, n, 4), boxes);
  case_filled(c, REED_F32, DIMS(1, 1, n), scores);
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
  case_filled(&c, REED_F32, DIMS(1, 6, 4), onnx_boxes);
  case_filled(&c, REED_F32, DIMS(1, 1, 6), onnx_scores);
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

/* Each box overlaps the next one enough, so that a box is kept if the one before it is not. */
START_TEST(nms_follows_chains_of_boxes) {
  enum { N = 150 };
  for (int64_t most = 0; most <= N; most += 30) {
    double boxes[4 * N], scores[N], expected[3 * N / 2];
    const int64_t n = most < N / 2 ? most : N / 2;
    for (int i = 0; i < N; i++) {
      const double at = i * 7 % N; /* the place of box i in the chain: 7 and N have no common divisor */
      scores[i] = -at;
      boxes[4 * i] = 0.4 * at, boxes[4 * i + 1] = 0, boxes[4 * i + 2] = 0.4 * at + 1, boxes[4 * i + 3] = 1;
      const int64_t k = (int64_t)at / 2;
      if ((int64_t)at % 2 == 0) expected[3 * k] = expected[3 * k + 1] = 0, expected[3 * k + 2] = i;
    }
    kernel_case c;
    nms_case(&c, boxes, scores, N, most, 0.3, NAN);
    case_expect(&c, expected, 3 * n);
  }
}
END_TEST

/* Boxes with few different corners, so that many pairs have the same overlap; thresholds equal to overlaps, at which a
 * rounding decides, and those that no product of floats can stand for; areas that are tiny or infinite. */
START_TEST(nms_decides_as_the_quotient_does) {
  static const double thresholds[] = {0.5, 1.0 / 3, 0.25, 0.2, 0.75, 0, 1e-30, 3e37, -1, 1};
  static const double sizes[] = {1, 0.3, 1e-12, 1e-22, 3e18, 1e30};
  for (int k = 0; k < (int)ROWS(thresholds) * (int)ROWS(sizes); k++) {
    kernel_case c;
    case_init(&c, OP_NonMaxSuppression);
    value *boxes = case_input(&c, REED_F32, DIMS(1, 90, 4), 1), *scores = case_input(&c, REED_F32, DIMS(1, 1, 90), 1);
    uint32_t random = (uint32_t)k;
    for (int64_t i = 0; i < 360; i++) {
      random = random * 1664525 + 1013904223;
      case_set(boxes, i, (double)(random >> 29) * sizes[k % (int)ROWS(sizes)]);
      if (i < 90) case_set(scores, i, random >> 20 & 255);
    }
    *(int64_t *)case_input(&c, REED_I64, DIMS(1), 0)->data = 90;
    case_set(case_input(&c, REED_F32, 0, NULL, 0), 0, thresholds[k / (int)ROWS(sizes)]);
    case_parity(&c, 0, 0);
  }
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

/* Without an overlap above the threshold the best boxes of each row stay, up to the limit. The numbers of candidates
 * are those at which another way of sorting begins. */
START_TEST(nms_without_suppression_equals_the_reference) {
  static const int64_t boxes[] = {0, 15, 16, 33, 65, 2047, 2100, 4500};
  for (int threshold = 0; threshold < 2; threshold++)
    for (int limit = 0; limit < 4; limit++) {
      const int64_t classes = limit < 2 ? 3 : 1;
      kernel_case c;
      case_init(&c, OP_NonMaxSuppression);
      case_input(&c, REED_F32, DIMS(1, boxes[_i], 4), 3);
      value *scores = case_input(&c, REED_F32, DIMS(1, classes, boxes[_i]), 1);
      for (int64_t i = 0; i < classes * boxes[_i]; i += 3) case_set(scores, i, i % 2 ? 0.25 : -0.0); /* ties */
      if (boxes[_i] > 8) case_set(scores, 7, NAN), case_set(scores, classes * boxes[_i] - 2, INFINITY);
      *(int64_t *)case_input(&c, REED_I64, DIMS(1), 0)->data = limit % 2 ? 20 : INT64_MAX;
      case_set(case_input(&c, REED_F32, 0, NULL, 0), 0, INFINITY);
      if (threshold) case_set(case_input(&c, REED_F32, 0, NULL, 0), 0, 0.1);
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
    {1, 1, 1, 1, 5},
    {1, 1, 40, 1, 50},
    {1, 1, 41, 41, INT64_MAX},
    {2, 3, 130, 7, 20},
    {1, 1, 0, 1, 5},
    {1, 2, 97, 2, 1},
    {1, 1, 2000, 5, 300},
    {1, 1, 2000, 5, INT64_MAX},
    {1, 1, 900, 90, 40},
    {3, 1, 33, 6, 0},
    {2, 2, 600, 600, INT64_MAX},
    {2, 2, 1500, 3, 100},
    {1, 1, 9001, 1, 300},
    {1, 1, 9001, 90, INT64_MAX},
    {1, 1, 9001, 5000, 40},
};

#define LONG_ROWS 3 /* at the end of `classes`, of so many boxes that several threads share the order out */

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

/* Ids keep boxes apart exactly as rows of scores do, and kept boxes come in the order of scores over all ids. */
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
    if (chosen[0] != k) continue; /* this id has had its turn */
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

int main(void) {
  Suite *suite = suite_create("NonMaxSuppression");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_test(t, nms_keeps_the_best_of_each_cluster);
  tcase_add_test(t, nms_limit_saturates_and_none_means_none);
  tcase_add_test(t, nms_without_score_threshold_takes_negative_scores);
  tcase_add_test(t, nms_thresholds_are_strict_and_ties_go_to_the_lower_index);
  tcase_add_test(t, nms_boxes_without_area_suppress_nothing);
  tcase_add_test(t, nms_follows_chains_of_boxes);
  tcase_add_test(t, nms_decides_as_the_quotient_does);
  tcase_add_loop_test(t, nms_without_suppression_equals_the_reference, 0, 6);
  tcase_add_host_loop_test(t, nms_without_suppression_equals_the_reference, 6, 8); /* long rows */
  tcase_add_loop_test(t, nms_of_class_ids_equals_the_reference, 0, ROWS(classes) - LONG_ROWS);
  tcase_add_host_loop_test(t, nms_of_class_ids_equals_the_reference, ROWS(classes) - LONG_ROWS, ROWS(classes));
  tcase_add_test(t, nms_of_class_ids_is_nms_of_each_class_in_the_order_of_scores);
  tcase_add_loop_test(t, nms_of_candidates_equals_the_reference, 0, ROWS(classes) - LONG_ROWS);
  tcase_add_host_loop_test(t, nms_of_candidates_equals_the_reference, ROWS(classes) - LONG_ROWS, ROWS(classes));
  tcase_add_test(t, nms_of_candidates_is_nms_of_boxes_that_were_filtered);
  tcase_add_test(t, nms_names_class_ids_of_another_number_of_boxes);
  tcase_add_loop_test(t, nms_equals_the_reference, 0, 7);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
