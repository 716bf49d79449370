/* The real cuBLASLt on a machine that may have no driver: it accepts every descriptor that the module makes of
 * products, and without a driver's handle its heuristics alone refuse. Skipped (77) where the library is absent. */
#include <stdio.h>
#include <string.h>

#include "device/cuda/cublas/cublas.h"

static const cublas_product products[] = {
    {.m = 128, .k = 768, .n = 3072, .batch = 1, .a_apart = 768, .b_apart = 3072, .dtype = LT_F32, .alpha = 1},
    {.m = 128,
     .k = 768,
     .n = 70,
     .batch = 1,
     .a_apart = 768,
     .b_apart = 70,
     .dtype = LT_F32,
     .alpha = 0.5F,
     .bias = 1,
     .relu = 1,
     .tensor_cores = 1},
    {.m = 5,
     .k = 7,
     .n = 5,
     .batch = 12,
     .a_apart = 7,
     .b_apart = 7,
     .a_stride = 35,
     .b_stride = 35,
     .dtype = LT_F16,
     .alpha = 1,
     .b_by_column = 1,
     .tensor_cores = 1},
    {.m = 5,
     .k = 7,
     .n = 9,
     .batch = 3,
     .a_apart = 5,
     .b_apart = 9,
     .a_stride = 35,
     .dtype = LT_BF16,
     .alpha = 1,
     .a_by_column = 1,
     .relu = 1,
     .tensor_cores = 1},
};

int main(void) {
  enum { SKIPPED = 77 };
  cublas_calls calls;
  reed_diagnosis *said = NULL;
  int failed = 0;
  if (reed_diagnosis_open(&said) != REED_OK) return 1;
  if (cublas_find(&calls, said) != REED_OK) {
    printf("%s\n", reed_diagnosis_message(said));
    reed_diagnosis_close(&said);
    return SKIPPED;
  }
  printf("cuBLASLt %zu\n", calls.version());
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
    cublas_plan plan;
    const reed_status status = cublas_plan_open(&calls, NULL, &products[i], 1 << 25, &plan, said);
    printf("product %zu: %s\n", i, reed_diagnosis_message(said));
    failed += status != REED_ERROR_DEVICE || !strstr(reed_diagnosis_message(said), "the heuristics refuse");
    reed_diagnosis_clear(said);
  }
  void *product = NULL; /* the library does look at attributes: one of a wrong size */
  const int32_t transposed = LT_TRANSPOSED;
  failed += calls.product_create(&product, LT_SUMS_F32, LT_F32) != LT_SUCCESS ||
            calls.product_set(product, LT_PRODUCT_A, &transposed, sizeof transposed) != LT_SUCCESS ||
            calls.product_set(product, LT_PRODUCT_A, &transposed, 1) != LT_BAD_VALUE ||
            calls.product_destroy(product) != LT_SUCCESS;
  reed_diagnosis_close(&said);
  return failed != 0;
}
