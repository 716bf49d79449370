/* Deformable convolutions: parity with the references, gradients against finite differences, the same bits for any
 * number of threads, places that are no numbers or far outside, refusals. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/deform.h"
#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

typedef struct form {
  op_id op;
  reed_dtype dtype;
  int64_t images, channels, height, width, outputs, kernel[2], stride[2], pad[2], dilation[2], groups, offset_groups;
  bool mask, bias, last, single; /* single: without a batch */
  int64_t pads[4];               /* pads in ONNX's order */
} form;

static int64_t windows(const form *f, int i) {
  int64_t in = i ? f->width : f->height;
  return (in + 2 * f->pad[i] - (f->kernel[i] - 1) * f->dilation[i] - 1) / f->stride[i] + 1;
}

static value *image(kernel_case *c, const form *f, int64_t channels, int64_t height, int64_t width, double range) {
  int64_t dims[4] = {f->images, channels, height, width};
  if (f->last) dims[1] = height, dims[2] = width, dims[3] = channels;
  return case_input(c, f->dtype, f->single ? 3 : 4, dims + f->single, range);
}

/* The case borrows from the form. */
static void deform_case(kernel_case *c, const form *f) {
  int64_t taps = f->kernel[0] * f->kernel[1] * f->offset_groups, rows = windows(f, 0), columns = windows(f, 1);
  bool onnx = f->op == OP_DeformConv;
  case_init(c, f->op);
  if (f->op == OP_deform_conv2d_backward) image(c, f, f->outputs, rows, columns, 1);
  image(c, f, f->channels, f->height, f->width, 2);
  case_input(c, f->dtype, DIMS(f->outputs, f->channels / f->groups, f->kernel[0], f->kernel[1]), 1);
  image(c, f, 2 * taps, rows, columns, 2.5);
  if (onnx && f->bias) case_input(c, f->dtype, DIMS(f->outputs), 1);
  if (onnx && !f->bias && f->mask) case_absent(c);
  if (f->mask) image(c, f, taps, rows, columns, 1);
  if (f->op == OP_deform_conv2d && f->bias) {
    if (!f->mask) case_absent(c);
    case_input(c, f->dtype, DIMS(f->outputs), 1);
  }
  if (f->op == OP_deform_conv2d_backward) c->n_outputs = DEFORM_GRADS;
  case_attr_int(c, "channels_last", f->last);
  case_attr_int(c, onnx ? "group" : "groups", f->groups);
  case_attr_int(c, onnx ? "offset_group" : "offset_groups", f->offset_groups);
  if (onnx) {
    case_attr_ints(c, "strides", f->stride, 2);
    case_attr_ints(c, "dilations", f->dilation, 2);
    case_attr_ints(c, "pads", f->pads, 4);
    return;
  }
  static const char *const names[][2] = {{"stride_h", "stride_w"}, {"pad_h", "pad_w"}, {"dilation_h", "dilation_w"}};
  for (int i = 0; i < 2; i++) {
    case_attr_int(c, names[0][i], f->stride[i]);
    case_attr_int(c, names[1][i], f->pad[i]);
    case_attr_int(c, names[2][i], f->dilation[i]);
  }
}

static const form forms[] = {
    {.images = 1,
     .channels = 1,
     .height = 1,
     .width = 1,
     .outputs = 1,
     .kernel = {1, 1},
     .groups = 1,
     .offset_groups = 1},
    {.images = 2,
     .channels = 4,
     .height = 7,
     .width = 9,
     .outputs = 6,
     .kernel = {3, 3},
     .pad = {1, 1},
     .groups = 1,
     .offset_groups = 1},
    {.images = 1,
     .channels = 36,
     .height = 4,
     .width = 17,
     .outputs = 70,
     .kernel = {3, 2},
     .pad = {0, 1},
     .groups = 2,
     .offset_groups = 1},
    {.images = 1,
     .channels = 70,
     .height = 7,
     .width = 6,
     .outputs = 17,
     .kernel = {2, 2},
     .stride = {2, 1},
     .groups = 1,
     .offset_groups = 2},
    {.images = 2,
     .channels = 12,
     .height = 9,
     .width = 12,
     .outputs = 9,
     .kernel = {3, 3},
     .stride = {1, 2},
     .pad = {2, 2},
     .dilation = {2, 1},
     .groups = 3,
     .offset_groups = 6},
    {.images = 1,
     .channels = 6,
     .height = 9,
     .width = 9,
     .outputs = 4,
     .kernel = {1, 3},
     .groups = 2,
     .offset_groups = 3},
    /* more than 32 tiles of 32 pixels, which a warp on a GPU looks through at once */
    {.images = 1,
     .channels = 2,
     .height = 33,
     .width = 34,
     .outputs = 1,
     .kernel = {1, 1},
     .groups = 1,
     .offset_groups = 1},
    {.images = 0,
     .channels = 3,
     .height = 4,
     .width = 4,
     .outputs = 2,
     .kernel = {3, 3},
     .groups = 1,
     .offset_groups = 1},
    {.images = 1,
     .channels = 140,
     .height = 12,
     .width = 13,
     .outputs = 70,
     .kernel = {3, 3},
     .pad = {1, 1},
     .groups = 1,
     .offset_groups = 1},
};
#define N_FORMS ROWS(forms)

static form form_of(int k, op_id op, int variant) {
  form f = forms[k];
  f.op = op;
  f.dtype = REED_F32;
  for (int i = 0; i < 2; i++) {
    f.pads[i] = f.pads[2 + i] = f.pad[i];
    if (!f.stride[i]) f.stride[i] = 1;
    if (!f.dilation[i]) f.dilation[i] = 1;
  }
  f.last = variant & 1;
  f.mask = variant & 2;
  f.bias = variant & 4;
  f.single = op != OP_DeformConv && f.images == 1 && (variant & 2);
  return f;
}

static const op_id operators[] = {OP_DeformConv, OP_deform_conv2d, OP_deform_conv2d_backward};

static bool is_half(reed_dtype dtype) { return dtype == REED_BF16 || dtype == REED_F16; }

START_TEST(results_equal_the_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F16, REED_F32, REED_BF16, REED_BF16, REED_F32, REED_F64, REED_F16};
  for (int k = 0; k < ROWS(operators); k++)
    for (int variant = 0; variant < 8; variant++) {
      kernel_case c;
      form f = form_of(_i, operators[k], variant);
      f.dtype = dtypes[variant];
      if (_i == N_FORMS - 1 && (variant < 2 || variant == 3 || variant == 6)) continue; /* some of the largest form */
      deform_case(&c, &f);
      double slack = is_half(f.dtype) ? 0.03 : 2e-4;
      case_parity(&c, slack, slack * (is_half(f.dtype) ? 10 : 1));
    }
}
END_TEST

/* Sum of gradient times output, of the f64 forward call with one element of one input changed. */
static double loss(kernel_case *c, const value *grad, int input, int64_t element, double change) {
  double x = case_get(&c->inputs[input], element), sum = 0;
  case_set(&c->inputs[input], element, x + change);
  ck_assert_int_eq(case_run(c, "reference"), REED_OK);
  case_set(&c->inputs[input], element, x);
  for (int64_t i = 0; i < desc_elements(&grad->desc); i++) sum += case_get(grad, i) * case_get(&c->outputs[0], i);
  return sum;
}

/* The backward operator runs in f32 at the best level. */
START_TEST(gradients_equal_finite_differences) {
  static const int small[] = {1, 4, 5};
  form f = form_of(small[_i / 2], OP_deform_conv2d, _i % 2 | 6), back = f;
  kernel_case c, b;
  f.dtype = REED_F64;
  back.op = OP_deform_conv2d_backward;
  deform_case(&c, &f);
  deform_case(&b, &back);
  for (int i = 1; i < b.n_inputs; i++) /* the same operands, but for the bias */
    for (int64_t k = 0; k < desc_elements(&b.inputs[i].desc); k++)
      case_set(&c.inputs[i - 1], k, case_get(&b.inputs[i], k));
  ck_assert_int_eq(case_run(&b, cpu_level_name(cpu_level_best())), REED_OK);
  for (int i = 0; i < c.n_inputs; i++) {
    int64_t n = desc_elements(&c.inputs[i].desc);
    for (int64_t k = 0; k < n; k += 1 + n / 8) {
      double h = 1e-5, slope = (loss(&c, &b.inputs[0], i, k, h) - loss(&c, &b.inputs[0], i, k, -h)) / (2 * h),
             gradient = case_get(&b.outputs[i], k);
      if (fabs(slope - gradient) > 1e-3 * (1 + fabs(slope)))
        ck_abort_msg("input %d, element %d: slope %g, gradient %g", i, (int)k, slope, gradient);
    }
  }
  case_close(&c);
  case_close(&b);
}
END_TEST

START_TEST(results_have_the_same_bits_for_any_number_of_threads) {
  form f = form_of(N_FORMS - 1, operators[_i % 3], 2 + _i / 3 % 2);
  kernel_case c;
  if (_i >= 6) f.dtype = REED_BF16;
  char *first[CASE_OUTPUTS] = {NULL};
  deform_case(&c, &f);
  for (c.n_threads = 1; c.n_threads <= 5; c.n_threads++) {
    if (case_run(&c, cpu_level_name(cpu_level_best())) != REED_OK) ck_abort_msg("%s", c.diagnosis.message);
    for (int i = 0; i < c.n_outputs; i++) {
      size_t bytes = (size_t)desc_bytes(&c.outputs[i].desc);
      if (first[i]) ck_assert_mem_eq(first[i], c.outputs[i].data, bytes);
      else memcpy(first[i] = malloc(bytes), c.outputs[i].data, bytes);
    }
  }
  for (int i = 0; i < CASE_OUTPUTS; i++) free(first[i]);
  case_close(&c);
}
END_TEST

/* Sampling places far outside read zeros, places that are no numbers give NaN, and nothing crashes. */
START_TEST(places_may_be_anywhere) {
  static const double places[] = {NAN, INFINITY, -INFINITY, 1e30, -1e30, -1, 0, 4.5, 3e9};
  for (int k = 0; k < ROWS(operators); k++) {
    kernel_case c;
    form f = form_of(1, operators[k], _i);
    deform_case(&c, &f);
    value *offset = &c.inputs[deform_operands_of(f.op).offset];
    for (int64_t i = 0; !c.skipped && i < desc_elements(&offset->desc); i += 7)
      case_set(offset, i, places[i % ROWS(places)]);
    case_parity(&c, 2e-4, 2e-4);
  }
}
END_TEST

/* A pixel outside of the image is not read, and a neighbour with weight 0 is, as in torchvision. */
START_TEST(borders_are_zeros) {
  kernel_case c;
  case_init(&c, OP_DeformConv);
  case_filled(&c, REED_F32, DIMS(1, 1, 2, 2), (double[]){1, 2, 3, 4});
  case_filled(&c, REED_F32, DIMS(1, 1, 1, 1), (double[]){1});
  case_filled(&c, REED_F32, DIMS(1, 2, 2, 2), (double[]){-0.5, 0, 0, 1, 0, 0.5, -1, -0.25});
  case_filled(&c, REED_F32, DIMS(1), (double[]){10});
  case_filled(&c, REED_F32, DIMS(1, 1, 2, 2), (double[]){1, 2, 1, 1});
  case_expect(&c, (double[]){10.5, 12, 10, 10}, 4);
}
END_TEST

START_TEST(operands_that_do_not_fit_are_named) {
  static const struct {
    int input, axis;
    int64_t extent;
    const char *text;
  } wrong[] = {{0, 1, 5, "the channels of the input and of the weights times groups"},
               {2, 1, 17, "two for each tap and group"},
               {2, 2, 8, "the rows and the output's"},
               {2, 0, 1, "the numbers of images"},
               {4, 3, 8, "the columns and the output's"},
               {3, 0, 5, "the extent and the output channels"},
               {1, 2, 0, "kernel extent 0"}};
  kernel_case c;
  form f = form_of(1, OP_DeformConv, 6);
  deform_case(&c, &f);
  c.inputs[wrong[_i].input].desc.dims[wrong[_i].axis] = wrong[_i].extent;
  case_fails(&c, REED_ERROR_SHAPE, wrong[_i].text);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("deform");
  TCase *t = tcase_create("deform");
  tcase_set_timeout(t, 240);
  suite_add_tcase(suite, t);
  tcase_add_loop_test(t, results_equal_the_reference, 0, N_FORMS);
  tcase_add_host_loop_test(t, gradients_equal_finite_differences, 0, 6);
  tcase_add_host_loop_test(t, results_have_the_same_bits_for_any_number_of_threads, 0, 12);
  tcase_add_loop_test(t, places_may_be_anywhere, 0, 4);
  tcase_add_test(t, borders_are_zeros);
  tcase_add_loop_test(t, operands_that_do_not_fit_are_named, 0, 7);
  return suite_run(suite);
}
