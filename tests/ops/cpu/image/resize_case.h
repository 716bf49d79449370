/* Calls of Resize, for its own cases and for those of operators that stand for Resizes. */
#ifndef TESTS_OPS_CPU_IMAGE_RESIZE_CASE_H_
#define TESTS_OPS_CPU_IMAGE_RESIZE_CASE_H_

#include "tests/ops/cpu/kernel_case.h"

static inline void resize_case(kernel_case *c, reed_dtype dtype, int32_t rank, const int64_t *dims,
                               const int64_t *sizes, const char *mode) {
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

#endif
