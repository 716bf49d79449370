/* Calls of operators without a model (reed/call.h): outputs, trimmed ones, optional operands, refusals, any allocation
 * that fails, a cancelled call. */
#include <check.h>
#include <string.h>

#include "reed/call.h"
#include "tests/alloc_hook.h"
#include "tests/suite.h"

static reed_tensor *tensor(int32_t rank, const int64_t *dims, const float *elements) {
  reed_tensor *t = NULL;
  ck_assert_int_eq(reed_tensor_open(REED_F32, rank, dims, &t), REED_OK);
  if (elements) memcpy(reed_tensor_data(t), elements, (size_t)reed_tensor_bytes(t));
  return t;
}
#define DIMS(...) \
  (sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]) { __VA_ARGS__ }

static void close_all(reed_tensor **tensors, int n) {
  for (int i = 0; i < n; i++) reed_tensor_close(&tensors[i]);
}

/* Boxes 0 and 1 overlap, box 2 is apart. */
static int open_boxes(reed_tensor **inputs) {
  inputs[0] = tensor(DIMS(3, 4), (float[]){0, 0, 4, 4, 0, 0, 4, 3, 9, 9, 12, 12});
  inputs[1] = tensor(DIMS(3), (float[]){0.5f, 0.9f, 0.7f});
  return 2;
}

static const reed_attr threshold = {.name = "iou_threshold", .type = REED_ATTR_FLOAT, .f = 0.5};

static reed_operator_call nms_call(reed_tensor **inputs) {
  return (reed_operator_call){.domain = "torchvision",
                              .name = "nms",
                              .inputs = inputs,
                              .n_inputs = 2,
                              .n_outputs = 1,
                              .attrs = &threshold,
                              .n_attrs = 1,
                              .n_threads = 1};
}

START_TEST(an_output_has_the_extent_that_the_kernel_found) {
  reed_tensor *inputs[2], *keep = NULL;
  open_boxes(inputs);
  reed_operator_call call = nms_call(inputs);
  ck_assert_int_eq(reed_operator_run(&call, &keep, NULL), REED_OK);
  ck_assert_int_eq(reed_tensor_dims(keep)[0], 2);
  ck_assert_int_eq(((int64_t *)reed_tensor_data(keep))[0], 1);
  ck_assert_int_eq(((int64_t *)reed_tensor_data(keep))[1], 2);
  reed_tensor_close(&keep);
  close_all(inputs, 2);
}
END_TEST

/* A 1x1 deformable convolution whose offsets are 0 is a product; its gradients are those of a product. */
START_TEST(a_convolution_and_its_gradients_are_computed) {
  reed_tensor *inputs[] = {tensor(DIMS(1, 1, 2, 2), (float[]){1, 2, 3, 4}), tensor(DIMS(2, 1, 1, 1), (float[]){2, -1}),
                           tensor(DIMS(1, 2, 2, 2), (float[8]){0}), NULL, tensor(DIMS(2), (float[]){10, 20})};
  reed_operator_call call = {
      .domain = "torchvision", .name = "deform_conv2d", .inputs = inputs, .n_inputs = 5, .n_outputs = 1};
  reed_tensor *y = NULL, *gradients[5] = {NULL};
  ck_assert_int_eq(reed_operator_run(&call, &y, NULL), REED_OK);
  ck_assert_mem_eq(reed_tensor_data(y), ((float[]){12, 14, 16, 18, 19, 18, 17, 16}), 8 * sizeof(float));
  reed_tensor *back[] = {y, inputs[0], inputs[1], inputs[2]};
  call.name = "deform_conv2d_backward";
  call.inputs = back;
  call.n_inputs = 4;
  call.n_outputs = 5;
  ck_assert_int_eq(reed_operator_run(&call, gradients, NULL), REED_OK);
  ck_assert_mem_eq(reed_tensor_data(gradients[0]), ((float[]){5, 10, 15, 20}), 4 * sizeof(float));
  ck_assert_mem_eq(reed_tensor_data(gradients[1]), ((float[]){160, 170}), 2 * sizeof(float));
  ck_assert_mem_eq(reed_tensor_data(gradients[4]), ((float[]){60, 70}), 2 * sizeof(float));
  close_all(gradients, 5);
  reed_tensor_close(&y);
  close_all(inputs, 5);
}
END_TEST

START_TEST(a_wrong_call_is_refused_and_says_why) {
  reed_tensor *inputs[2], *keep = NULL;
  reed_diagnosis *diagnosis = NULL;
  reed_attr attrs[] = {threshold, threshold}, unknown = {.name = "thresold", .type = REED_ATTR_FLOAT};
  ck_assert_int_eq(reed_diagnosis_open(&diagnosis), REED_OK);
  open_boxes(inputs);
  reed_tensor *twice[] = {inputs[0], inputs[0]};
  enum { N_WRONG = 11 };
  const reed_attr no_list = {.name = "perm", .type = REED_ATTR_INTS, .n = 2},
                  no_text = {.name = "perm", .type = REED_ATTR_STRING};
  struct {
    reed_operator_call call;
    reed_status status;
    const char *text;
  } wrong[N_WRONG];
  for (int i = 0; i < N_WRONG; i++) wrong[i].call = nms_call(inputs);
#define WRONG(i, change, s, t) wrong[i].call.change, wrong[i].status = REED_ERROR_##s, wrong[i].text = t
  WRONG(0, name = "nms2", UNSUPPORTED, "operator 'nms2' of domain 'torchvision' is not known");
  WRONG(1, domain = NULL, UNSUPPORTED, "operator 'nms' of domain '' is not known");
  WRONG(2, n_inputs = 1, TYPE, "input 1 (scores) is missing");
  WRONG(3, n_outputs = 2, TYPE, "at most 1 are allowed");
  WRONG(4, attrs = &unknown, UNSUPPORTED, "attribute 'thresold' is not known");
  WRONG(5, attrs = attrs, ARGUMENT, "attribute 'iou_threshold' is given twice");
  wrong[5].call.n_attrs = 2;
  WRONG(6, n_threads = -1, ARGUMENT, "a negative number");
  WRONG(7, inputs = twice, SHAPE, "nms");
  WRONG(8, name = "If", UNSUPPORTED, "control flow needs a model");
  wrong[8].call.domain = "";
  WRONG(9, attrs = &no_list, ARGUMENT, "an attribute without a name or a value");
  WRONG(10, attrs = &no_text, ARGUMENT, "an attribute without a name or a value");
  for (int i = 0; i < N_WRONG; i++) {
    ck_assert_int_eq(reed_operator_run(&wrong[i].call, &keep, diagnosis), wrong[i].status);
    if (!strstr(reed_diagnosis_message(diagnosis), wrong[i].text))
      ck_abort_msg("%d: %s", i, reed_diagnosis_message(diagnosis));
    ck_assert_ptr_null(keep);
    reed_diagnosis_clear(diagnosis);
  }
  reed_diagnosis_close(&diagnosis);
  close_all(inputs, 2);
}
END_TEST

START_TEST(a_cancelled_call_gives_nothing) {
  reed_tensor *inputs[2], *keep = NULL;
  int cancel = 1;
  open_boxes(inputs);
  reed_operator_call call = nms_call(inputs);
  call.cancel = &cancel;
  ck_assert_int_eq(reed_operator_run(&call, &keep, NULL), REED_ERROR_CANCELLED);
  ck_assert_ptr_null(keep);
  close_all(inputs, 2);
}
END_TEST

/* Every allocation of the call fails once: nothing leaks, and the status is ERROR_MEMORY. */
START_TEST(any_allocation_may_fail) {
  for (int64_t n = 1;; n++) {
    reed_tensor *inputs[2], *keep = NULL;
    alloc_hook_begin();
    open_boxes(inputs);
    reed_operator_call call = nms_call(inputs);
    alloc_hook_fail_at(n);
    reed_status status = reed_operator_run(&call, &keep, NULL);
    bool reached = alloc_hook_failed();
    ck_assert_int_eq(keep != NULL, status == REED_OK);
    reed_tensor_close(&keep);
    close_all(inputs, 2);
    ck_assert_int_eq(alloc_hook_end(), 0);
    if (!reached) {
      ck_assert_int_eq(status, REED_OK);
      ck_assert_int_gt(n, 10);
      break;
    }
    ck_assert_int_eq(status, REED_ERROR_MEMORY);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("operator");
  TCase *t = tcase_create("operator");
  suite_add_tcase(suite, t);
  tcase_add_test(t, an_output_has_the_extent_that_the_kernel_found);
  tcase_add_test(t, a_convolution_and_its_gradients_are_computed);
  tcase_add_test(t, a_wrong_call_is_refused_and_says_why);
  tcase_add_test(t, a_cancelled_call_gives_nothing);
  tcase_add_test(t, any_allocation_may_fail);
  return suite_run(suite);
}
