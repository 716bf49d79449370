/* Col2Im: known results, the reference in every dtype, edges, refused calls. */
#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

typedef struct fold {
  int64_t n, c;
  int32_t axes;
  int64_t image[4], block[4], strides[4], dilations[4], pads[8];
} fold;

/* Columns that fit the geometry, their elements random in -range..range. */
static value *columns_of(kernel_case *c, const fold *f, reed_dtype dtype, double range) {
  int64_t channels = f->c, windows = 1;
  case_init(c, OP_Col2Im);
  for (int32_t i = 0; i < f->axes; i++) {
    int64_t slack = f->image[i] + f->pads[i] + f->pads[i + f->axes] - (f->block[i] - 1) * f->dilations[i] - 1;
    windows *= slack < 0 ? 0 : slack / f->strides[i] + 1;
    channels *= f->block[i];
  }
  value *x = case_input(c, dtype, DIMS(f->n, channels, windows), range);
  value *image = case_input(c, REED_I64, 1, (const int64_t[]){f->axes}, 0),
        *block = case_input(c, REED_I64, 1, (const int64_t[]){f->axes}, 0);
  memcpy(image->data, f->image, (size_t)f->axes * 8);
  memcpy(block->data, f->block, (size_t)f->axes * 8);
  case_attr_ints(c, "strides", f->strides, f->axes);
  case_attr_ints(c, "dilations", f->dilations, f->axes);
  case_attr_ints(c, "pads", f->pads, 2 * f->axes);
  return x;
}

static const fold folds[] = {
    {1, 1, 2, {5, 5}, {2, 3}, {1, 1}, {1, 1}, {0}},
    {2, 3, 2, {9, 17}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {1, 2, 2, {12, 8}, {4, 4}, {4, 4}, {1, 1}, {0}},
    {1, 5, 2, {10, 11}, {3, 2}, {2, 3}, {2, 3}, {2, 0, 1, 5}},
    {3, 1, 1, {100}, {7}, {3}, {2}, {4, 9}},
    {1, 2, 3, {5, 4, 6}, {2, 1, 3}, {1, 2, 2}, {2, 1, 1}, {1, 0, 2, 0, 1, 0}},
    {1, 1, 4, {3, 4, 2, 5}, {2, 2, 2, 2}, {1, 1, 1, 2}, {1, 1, 1, 1}, {0}},
    {1, 1, 2, {3, 3}, {1, 1}, {2, 2}, {1, 1}, {0}},          /* places without a window: 0 */
    {1, 1, 2, {2, 2}, {5, 5}, {1, 1}, {1, 1}, {3, 3, 3, 3}}, /* most of a block in the padding */
    {1, 3, 2, {2, 2}, {3, 3}, {1, 1}, {1, 1}, {0}},          /* no window fits */
    {0, 3, 2, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0}},
    {2, 0, 2, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0}},
    {2, 1, 2, {0, 4}, {1, 1}, {1, 1}, {1, 1}, {0}},
    {1, 2, 2, {4, 0}, {1, 1}, {1, 1}, {1, 1}, {0, 1, 0, 0}},
    {1, 8, 2, {160, 190}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}, /* for several threads */
    {1, 1, 2, {300, 400}, {8, 8}, {4, 4}, {1, 1}, {0}},
};

START_TEST(col2im_equals_the_reference_in_every_dtype) {
  for (int dtype = REED_NONE + 1; dtype < REED_DTYPE_COUNT; dtype++) {
    kernel_case c;
    const fold *f = &folds[_i];
    if (f->image[0] * f->image[1] > 10000 && dtype != REED_F32 && dtype != REED_U8 && dtype != REED_BF16) continue;
    columns_of(&c, f, (reed_dtype)dtype, dtype == REED_BOOL ? 1 : 100);
    double tolerance = case_tolerance((reed_dtype)dtype) * 8;
    case_parity(&c, tolerance, tolerance * 100);
  }
}
END_TEST

/* Two windows of two, one apart: the element between belongs to both. */
START_TEST(windows_that_overlap_add_up) {
  static const struct {
    reed_dtype dtype;
    double x[4], want[3];
  } rows[] = {{REED_F32, {1, 2, 30, 40}, {1, 32, 40}}, {REED_I8, {100, 100, 100, 100}, {100, -56, 100}},
              {REED_U8, {1, 255, 1, 3}, {1, 0, 3}},    {REED_I64, {1, 0x1p53, 2, 2}, {1, 0x1p53 + 2, 2}},
              {REED_BOOL, {1, 1, 1, 0}, {1, 1, 0}},    {REED_F16, {0.5, 2, 0.25, 4}, {0.5, 2.25, 4}},
              {REED_BF16, {1, 256, 1, 3}, {1, 256, 3}}}; /* 257 is no bf16 */
  for (int r = 0; r < ROWS(rows); r++) {
    kernel_case c;
    value *x = columns_of(&c, &(fold){1, 1, 1, {3}, {2}, {1}, {1}, {0}}, rows[r].dtype, 0);
    for (int i = 0; i < 4; i++) case_set(x, i, rows[r].x[i]);
    case_expect(&c, rows[r].want, 3);
  }
}
END_TEST

/* NaN and infinity go where their window puts them and nowhere else. */
START_TEST(numbers_that_are_none_stay_in_their_place) {
  kernel_case c;
  value *x = columns_of(&c, &(fold){1, 1, 1, {5}, {3}, {2}, {1}, {0}}, REED_F32, 0);
  case_set(x, 0, INFINITY);  /* element 0 of window 0 */
  case_set(x, 4, -INFINITY); /* element 2 of window 0 */
  case_set(x, 1, NAN);       /* element 0 of window 1: the same place */
  ck_assert_int_eq(case_run(&c, cpu_level_name(cpu_level_best())), REED_OK);
  ck_assert(isinf(case_get(&c.outputs[0], 0)));
  for (int i = 1; i < 5; i++) ck_assert_int_eq(isnan(case_get(&c.outputs[0], i)) != 0, i == 2);
  case_close(&c);
}
END_TEST

START_TEST(col2im_refuses_columns_that_do_not_fit) {
  static const fold f = {1, 1, 2, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0}};
  kernel_case c;
  columns_of(&c, &f, REED_F32, 1);
  c.inputs[0].desc.dims[2] = 8;
  case_fails(&c, REED_ERROR_SHAPE, "the columns and the windows that fit the image must agree: 8 and 9");
  columns_of(&c, &f, REED_F32, 1);
  c.inputs[0].desc.dims[1] = 3;
  case_fails(&c, REED_ERROR_SHAPE, "3 channels in blocks of 4 elements");
  columns_of(&c, &f, REED_F32, 1);
  ((int64_t *)c.inputs[2].data)[1] = 0;
  case_fails(&c, REED_ERROR_VALUE, "extent 0 of axis 3");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("Col2Im kernels");
  TCase *tc = tcase_create("col2im");
  tcase_set_timeout(tc, 240);
  tcase_add_loop_test(tc, col2im_equals_the_reference_in_every_dtype, 0, ROWS(folds));
  tcase_add_test(tc, windows_that_overlap_add_up);
  tcase_add_test(tc, numbers_that_are_none_stay_in_their_place);
  tcase_add_test(tc, col2im_refuses_columns_that_do_not_fit);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
