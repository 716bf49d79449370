/* PasteMasks and Keypoints against their references and against the Resizes that they replace. */
#include <math.h>
#include <stdlib.h>

#include "tests/ops/cpu/image/resize_case.h"
#include "tests/suite.h"

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

/* Inside of the picture exactly the elements that Resize gives, zeros elsewhere. */
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
  case_fails(&c, REED_ERROR_VALUE, "coordinate_transformation_mode has no meaning 'tf_crop_and_resize'");
}
END_TEST

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

/* The same bits for any elements: numbers; a NaN, infinities, equal elements between them. */
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

/* Exactly the first largest element of Resize's result, and its place; equal elements and turned-over maps included. */
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

START_TEST(of_equal_pixels_the_first_is_the_peak) {
  const int64_t sizes[][2] = {{4, 300}, {300, 4}};
  kernel_case c;
  case_init(&c, OP_Keypoints);
  c.n_outputs = 2;
  case_input(&c, REED_F32, DIMS(1, 2, 5, 4), 0);
  const double rows = (double)sizes[_i][0], columns = (double)sizes[_i][1];
  const double numbers[] = {3, 5, columns, rows, columns, rows}; /* left, top, width, height, columns, rows */
  for (int i = 0; i < ROWS(numbers); i++) case_set(case_input(&c, REED_F32, DIMS(1), 0), 0, numbers[i]);
  case_expect(&c, (const double[]){3.5, 3.5, 5.5, 5.5, 1, 1}, 6);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("PasteMasks, Keypoints");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, keypoints_equal_the_reference, 0, ROWS(heatmap_shapes));
  tcase_add_host_test(t, keypoints_are_the_peaks_of_resized_maps);
  tcase_add_host_loop_test(t, keypoints_are_the_same_with_channels_last, 0, ROWS(heatmap_shapes));
  tcase_add_test(t, keypoints_of_maps_with_nan_equal_the_reference);
  tcase_add_test(t, keypoints_say_what_they_cannot_look_at);
  tcase_add_loop_test(t, paste_masks_equals_the_reference, 0, ROWS(pastes));
  tcase_add_host_test(t, a_pasted_mask_is_resize_cut_to_the_picture);
  tcase_add_test(t, paste_masks_says_what_it_cannot_paste);
  tcase_add_loop_test(t, of_equal_pixels_the_first_is_the_peak, 0, 2);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
