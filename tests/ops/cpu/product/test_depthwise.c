/* Depthwise convolutions with channels last (ops/cpu/product/depthwise_loops.h) against the reference: every form of
 * tile and border, at every CPU level. */
#include <math.h>
#include <stdlib.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

#define TOLERANCE 1e-5

typedef struct depthwise_row {
  const char *what;
  int64_t images, channels, in[2], taps[2], strides[2], dilations[2], pads[4];
} depthwise_row;

static const depthwise_row rows[] = {
    {"one pixel", 1, 2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0}},
    {"two channels", 1, 2, {9, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"three channels", 2, 3, {7, 11}, {5, 5}, {2, 2}, {1, 1}, {2, 2, 2, 2}},
    {"3x3", 1, 64, {8, 10}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"3x3 stride 2, odd channels", 2, 17, {9, 33}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {"5x5, odd channels", 1, 37, {6, 23}, {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}},
    {"5x5 stride 2", 1, 72, {11, 29}, {5, 5}, {2, 2}, {1, 1}, {2, 2, 2, 2}},
    {"all borders", 1, 130, {3, 3}, {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}},
    {"3x3 of dilation 2, odd channels", 2, 37, {9, 33}, {3, 3}, {1, 1}, {2, 2}, {2, 2, 2, 2}},
    {"5x5 of dilation 3, odd channels", 1, 21, {14, 41}, {5, 5}, {1, 1}, {3, 3}, {6, 5, 6, 7}},
    {"7x7", 1, 24, {9, 12}, {7, 7}, {1, 1}, {1, 1}, {3, 3, 3, 3}},
    {"7x7, odd channels, wide rows", 1, 37, {6, 43}, {7, 7}, {1, 1}, {1, 1}, {3, 3, 3, 3}},
    {"7x7 stride 2", 2, 72, {12, 61}, {7, 7}, {2, 2}, {1, 1}, {3, 2, 3, 4}},
    {"1x1", 1, 19, {3, 15}, {1, 1}, {1, 1}, {1, 1}, {0}},
    {"3x5, uneven", 1, 20, {9, 22}, {3, 5}, {2, 1}, {1, 1}, {0, 3, 1, 1}},
    {"5x3, stride 3", 1, 20, {9, 40}, {5, 3}, {1, 3}, {1, 1}, {1, 0, 2, 2}},
    {"dilated", 1, 33, {13, 21}, {3, 3}, {1, 1}, {2, 3}, {2, 3, 2, 3}},
    {"dilated rows, stride 2", 1, 16, {13, 21}, {3, 3}, {1, 2}, {3, 1}, {3, 1, 3, 1}},
    {"dilated across the image", 1, 16, {3, 4}, {2, 2}, {1, 1}, {5, 6}, {3, 4, 3, 4}},
    {"windows wholly in the padding", 1, 40, {2, 3}, {3, 3}, {1, 1}, {1, 1}, {5, 6, 5, 6}},
    {"strides across the image", 1, 16, {5, 5}, {3, 3}, {9, 9}, {1, 1}, {1, 1, 1, 1}},
    {"no images", 0, 16, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"cropped", 1, 24, {9, 14}, {3, 3}, {1, 1}, {1, 1}, {-1, -2, -2, -1}},
    {"5x5 stride 2, cropped and widened", 2, 40, {12, 19}, {5, 5}, {2, 2}, {1, 1}, {-2, 2, 1, -3}},
    {"dilated, cropped", 1, 20, {13, 21}, {3, 3}, {1, 1}, {2, 3}, {2, -3, -2, 3}},
    {"3x3, wide rows", 1, 5, {7, 83}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"3x3 stride 2, wide rows", 1, 9, {17, 95}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {"5x5, wide rows", 1, 3, {6, 70}, {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}},
    {"5x5 stride 2, wide rows", 1, 3, {14, 150}, {5, 5}, {2, 2}, {1, 1}, {2, 2, 2, 2}},
    {"7x7, wide rows", 1, 3, {9, 150}, {7, 7}, {1, 1}, {1, 1}, {3, 3, 3, 3}},
    {"7x7 on a map of its size, odd rows", 2, 5, {7, 7}, {7, 7}, {1, 1}, {1, 1}, {3, 3, 3, 3}},
    {"7x7 on 14x14", 2, 5, {14, 14}, {7, 7}, {1, 1}, {1, 1}, {3, 3, 3, 3}},
    {"5x5 on 28x28, padded far", 1, 5, {28, 28}, {5, 5}, {1, 1}, {1, 1}, {9, 20, 11, 2}},
    {"5x5 of a large plane", 1, 3, {83, 131}, {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}},
    {"5x5, cropped rows and columns", 1, 6, {33, 39}, {5, 5}, {1, 1}, {1, 1}, {-3, -2, -4, 2}},
    {"7x7, cropped and widened", 1, 6, {14, 39}, {7, 7}, {1, 1}, {1, 1}, {-2, 4, 5, -3}},
    {"3x3 of dilation 2, wide rows", 1, 7, {11, 83}, {3, 3}, {1, 1}, {2, 2}, {2, 2, 2, 2}},
    {"3x3 of dilation 2, cropped and widened", 2, 9, {13, 37}, {3, 3}, {1, 1}, {2, 2}, {-1, 3, 4, -2}},
    {"3x3 of dilation 4, odd rows", 1, 19, {11, 47}, {3, 3}, {1, 1}, {3, 4}, {4, 3, 2, 5}},
    {"3x3 of dilation 6 across the image", 1, 24, {5, 9}, {3, 3}, {1, 1}, {6, 6}, {6, 6, 6, 6}},
    {"7x7 of dilation 2, cropped", 1, 20, {15, 43}, {7, 7}, {1, 1}, {2, 2}, {6, -3, 6, 5}},
    {"3x3 of dilation 2, rows of stride 2", 1, 16, {13, 51}, {3, 3}, {2, 1}, {1, 2}, {1, 2, 1, 2}},
    {"7x9 stride 2, wide rows", 1, 3, {9, 300}, {7, 9}, {1, 2}, {2, 1}, {3, 3, 3, 3}},
    {"dilated, wide rows", 1, 3, {9, 150}, {2, 3}, {1, 1}, {1, 5}, {0, 5, 0, 5}},
    {"3x3 on 3x7", 1, 37, {3, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"3x3 stride 2, rows of 5", 1, 20, {9, 10}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {"3x3 of dilation 2, rows of 3 and 2", 1, 33, {6, 5}, {3, 3}, {1, 1}, {2, 4}, {2, 4, 2, 4}},
    {"5x5 on 7x7", 2, 40, {7, 7}, {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}},
    {"5x5 stride 2, rows of 7", 1, 37, {14, 14}, {5, 5}, {2, 2}, {1, 1}, {2, 2, 2, 2}},
    {"7x7 on 5x7", 1, 21, {5, 7}, {7, 7}, {1, 1}, {1, 1}, {3, 3, 3, 3}},
    {"7x7 stride 2, rows of 3", 1, 16, {8, 5}, {7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}},
    {"3x3 to rows of 7, no pads", 1, 37, {5, 9}, {3, 3}, {1, 1}, {1, 1}, {0}},
    {"3x3 to rows of 5, no pads", 1, 20, {5, 7}, {3, 3}, {1, 1}, {1, 1}, {0}},
    {"3x3 to rows of 3, no pads", 1, 20, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {0}},
    {"5x5 to rows of 7, no pads", 1, 37, {7, 11}, {5, 5}, {1, 1}, {1, 1}, {0}},
    {"7x7 to rows of 7, no pads", 1, 21, {9, 13}, {7, 7}, {1, 1}, {1, 1}, {0}},
    {"3x3 stride 2 to rows of 7, no pads", 1, 33, {9, 15}, {3, 3}, {2, 2}, {1, 1}, {0}},
    {"3x3 of dilation 2 to rows of 7, no pads", 1, 33, {7, 11}, {3, 3}, {1, 1}, {2, 2}, {0}},
    {"two threads", 2, 48, {33, 35}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"two threads share a row's columns", 1, 128, {2, 301}, {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}},
    {"two threads share a row's columns, stride 2", 1, 128, {3, 603}, {5, 5}, {2, 2}, {1, 1}, {2, 2, 2, 2}},
    {"two threads share a row's columns, dilated", 1, 256, {1, 601}, {3, 3}, {1, 1}, {1, 3}, {1, 3, 1, 3}},
    {"two threads share a row's columns, of dilation 2", 1, 256, {1, 601}, {3, 3}, {1, 1}, {1, 2}, {1, 2, 1, 2}},
    {"X larger than the caches, stride 2", 1, 37, {240, 250}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {"X larger than all caches", 3, 37, {141, 405}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
};

/* Rows of odd channels: of a stride, and of dilations. */
enum { STRIDE_2 = 4, PLAIN_5X5 = 5, DILATION_2 = 8, DILATION_3 = 9 };

static int64_t out_extent(const depthwise_row *row, int axis) {
  return (row->in[axis] + row->pads[axis] + row->pads[2 + axis] - (row->taps[axis] - 1) * row->dilations[axis] - 1) /
             row->strides[axis] +
         1;
}

static void open_case(kernel_case *c, const depthwise_row *row, reed_dtype dtype, bool bias, bool residual,
                      const char *activation) {
  case_init(c, OP_Conv);
  case_input(c, dtype, DIMS(row->images, row->channels, row->in[0], row->in[1]), 1);
  case_input(c, dtype, DIMS(row->channels, 1, row->taps[0], row->taps[1]), 1);
  if (bias) case_input(c, dtype, DIMS(row->channels), 1);
  else if (residual) case_absent(c);
  if (residual) case_input(c, dtype, DIMS(row->images, row->channels, out_extent(row, 0), out_extent(row, 1)), 1);
  case_attr_int(c, "group", row->channels);
  case_attr_ints(c, "strides", row->strides, 2);
  case_attr_ints(c, "dilations", row->dilations, 2);
  case_attr_ints(c, "pads", row->pads, 4);
  case_attr_activation(c, activation);
}

#define IMAGES (1u << 0 | 1u << 3) /* inputs whose channels move last */

START_TEST(depthwise_equals_the_reference_in_every_form) {
  for (int form = 0; form < 5; form++) {
    kernel_case c;
    open_case(&c, &rows[_i], form == 4 ? REED_F16 : REED_F32, form != 0, form == 2 || form == 3,
              form == 1   ? "relu"
              : form == 3 ? "hardswish"
                          : NULL);
    c.hide_values = form == 2; /* weights that are no constants */
    double tolerance = form == 4 ? 2 * case_tolerance(REED_F16) : TOLERANCE;
    case_parity_orders(&c, IMAGES, tolerance, tolerance);
  }
}
END_TEST

static const char *const activations[] = {
#define ACTIVATION(kind, text, ...) text,
#include "ops/activation.def"
};

START_TEST(depthwise_ends_with_any_activation) {
  static const int forms[] = {STRIDE_2, DILATION_2, DILATION_3};
  for (int i = 0; i < ROWS(forms); i++) {
    kernel_case c;
    open_case(&c, &rows[forms[i]], REED_F32, true, true, activations[_i]);
    case_parity_orders(&c, IMAGES, TOLERANCE, TOLERANCE);
  }
}
END_TEST

/* The case with channels last, its elements as they are: every level against the reference with channels last. Closes
 * the case. */
static void compare_last(kernel_case *c, const depthwise_row *row, int in_place) {
  case_attr_int(c, "channels_last", 1);
  c->inputs[0].desc = (reed_desc){REED_F32, 4, {row->images, row->in[0], row->in[1], row->channels}};
  if (c->n_inputs > 3)
    c->inputs[3].desc = (reed_desc){REED_F32, 4, {row->images, out_extent(row, 0), out_extent(row, 1), row->channels}};
  ck_assert_int_eq(case_run(c, "reference"), REED_OK);
  value expected = c->outputs[0];
  c->outputs[0] = (value){0};
  c->in_place = in_place;
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
    ck_assert_int_eq(case_run(c, cpu_level_name(level)), REED_OK);
    for (int64_t i = 0; i < desc_elements(&expected.desc); i++) {
      double got = case_get(&c->outputs[0], i), want = case_get(&expected, i);
      if (got == want || (isnan(got) && isnan(want)) || fabs(got - want) < TOLERANCE) continue;
      ck_abort_msg("%s, %s: element %lld is %g, not %g", row->what, cpu_level_name(level), (long long)i, got, want);
    }
  }
  free(expected.block);
  case_close(c);
}

/* NaN and infinities reach the outputs whose windows have them and no others, and no bound takes NaN away. */
START_TEST(depthwise_keeps_nan_in_its_windows) {
  static const char *const words[] = {NULL, "relu", "clip", "hardswish"};
  for (int form = 0; form < ROWS(words); form++) {
    kernel_case c;
    open_case(&c, &rows[_i], REED_F32, true, false, words[form]);
    for (int64_t i = 0, n = desc_elements(&c.inputs[0].desc); i < n; i += 37)
      case_set(&c.inputs[0], i, i % 3 == 0 ? NAN : INFINITY);
    case_set(&c.inputs[1], 0, NAN); /* met by no zeros of a padding */
    compare_last(&c, &rows[_i], -1);
  }
}
END_TEST

/* 1 to 6 of one channel, each with the one to its right, times the weights 2 and 3. */
START_TEST(depthwise_by_hand) {
  kernel_case c;
  case_init(&c, OP_Conv);
  value *x = case_input(&c, REED_F32, DIMS(1, 2, 3, 2), 0);
  for (int i = 0; i < 12; i++) case_set(x, i, i / 2 + 1 + (i % 2 ? 100 : 0));
  value *w = case_input(&c, REED_F32, DIMS(2, 1, 1, 2), 0);
  const double weights[] = {2, 3, 1, -1};
  for (int i = 0; i < 4; i++) case_set(w, i, weights[i]);
  case_attr_int(&c, "group", 2);
  case_attr_int(&c, "channels_last", 1);
  case_attr_ints(&c, "pads", (int64_t[]){0, 0, 0, 1}, 4);
  case_expect(
      &c,
      (double[]){2 * 1 + 3 * 2, -1, 2 * 2 + 3 * 3, -1, 2 * 3, 103, 2 * 4 + 3 * 5, -1, 2 * 5 + 3 * 6, -1, 2 * 6, 106},
      12);
}
END_TEST

/* Vectors overlap where the channels are no multiple of them: a residual that lies in Y is added only once. */
START_TEST(depthwise_residual_may_lie_in_the_output) {
  static const int forms[] = {PLAIN_5X5, DILATION_2, DILATION_3};
  for (int i = 0; i < ROWS(forms); i++) {
    kernel_case c;
    open_case(&c, &rows[forms[i]], REED_F32, true, true, NULL);
    compare_last(&c, &rows[forms[i]], 3);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("depthwise convolution");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, depthwise_equals_the_reference_in_every_form, 0, ROWS(rows));
  tcase_add_loop_test(t, depthwise_ends_with_any_activation, 0, ROWS(activations));
  tcase_add_loop_test(t, depthwise_keeps_nan_in_its_windows, 3, 10);
  tcase_add_test(t, depthwise_by_hand);
  tcase_add_test(t, depthwise_residual_may_lie_in_the_output);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
