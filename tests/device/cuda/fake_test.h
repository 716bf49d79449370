/* The fake driver in a test that is linked with it: one opening, whose context is current on the test's thread. */
#ifndef TESTS_DEVICE_CUDA_FAKE_TEST_H_
#define TESTS_DEVICE_CUDA_FAKE_TEST_H_

#define CUDA_TEST_LINKED
#include "device/cuda/fake/state.h"
#include "tests/device/cuda/cuda_test.h"

static cuda_driver cu;
static cu_context context;
static cu_device card;
static reed_diagnosis said;

static inline void open_driver(const char *options) {
  ck_assert_msg(cuda_driver_open(options, &cu, &said) == REED_OK, "%s", said.message);
  ck_assert_int_eq(cu.device_get(&card, cu.first_ordinal), CU_SUCCESS);
  ck_assert_int_eq(cu.context_retain(&context, card), CU_SUCCESS);
  ck_assert_int_eq(cu.context_push(context), CU_SUCCESS);
}

static inline void close_driver(void) {
  cu_context own;
  ck_assert_int_eq(cu.context_pop(&own), CU_SUCCESS);
  ck_assert_ptr_eq(own, context);
  ck_assert_int_eq(cu.context_release(card), CU_SUCCESS);
  cuda_driver_close(&cu);
}

static inline cu_stream stream_of(unsigned flags) {
  cu_stream stream;
  ck_assert_int_eq(cu.stream_create(&stream, flags), CU_SUCCESS);
  return stream;
}

static inline void check_said(cu_result result, const char *words) {
  const char *text = NULL;
  cu.error_text(result, &text);
  ck_assert_msg(strstr(text, words) != NULL, "%s", text);
}

#endif
