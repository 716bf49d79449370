/* Plans of products: layouts and the operation are described to cuBLASLt, and its heuristics name an algorithm. The
 * library's matrices lie column by column, so it is asked for the transposed product, whose columns are the rows of y:
 * its first operand is b, its second a. Source: NVIDIA, "cuBLAS", chapter "Using the cuBLASLt API". */
#include "device/cuda/cublas/cublas.h"

enum { MOST_ALGORITHMS = 8, OF_B = 0, OF_A, OF_Y };

static reed_status say(const cublas_calls *calls, cublas_status failed, const char *what, reed_diagnosis *diagnosis) {
  return diag_fail(diagnosis, REED_ERROR_DEVICE, "cuBLASLt: %s: %s (status %d)", what, calls->text(failed), failed);
}

/* The layout of a [rows, columns] matrix of the library, in a batch. */
static cublas_status layout(const cublas_calls *calls, const cublas_product *p, int64_t rows, int64_t columns,
                            int64_t apart, int64_t stride, void **out_layout) {
  const int32_t batch = (int32_t)p->batch;
  cublas_status failed = calls->layout_create(out_layout, p->dtype, (uint64_t)rows, (uint64_t)columns, apart);
  if (!failed) failed = calls->layout_set(*out_layout, LT_LAYOUT_BATCH, &batch, sizeof batch);
  if (!failed) failed = calls->layout_set(*out_layout, LT_LAYOUT_BATCH_STRIDE, &stride, sizeof stride);
  return failed;
}

static cublas_status describe(const cublas_calls *calls, const cublas_product *p, cublas_plan *plan) {
  const int32_t of_b = p->b_by_column ? LT_TRANSPOSED : LT_AS_IT_IS,
                of_a = p->a_by_column ? LT_TRANSPOSED : LT_AS_IT_IS,
                epilogue = (p->bias ? LT_EPILOGUE_BIAS : 0) | (p->relu ? LT_EPILOGUE_RELU : 0);
  const int32_t or_none = epilogue ? epilogue : LT_EPILOGUE_NONE;
  const void *bias = (const void *)(uintptr_t)CUBLAS_ALIGNMENT; /* an address as aligned as those of runs */
  cublas_status failed =
      calls->product_create(&plan->product, p->tensor_cores && p->dtype == LT_F32 ? LT_SUMS_TF32 : LT_SUMS_F32, LT_F32);
  if (!failed) failed = calls->product_set(plan->product, LT_PRODUCT_A, &of_b, sizeof of_b);
  if (!failed) failed = calls->product_set(plan->product, LT_PRODUCT_B, &of_a, sizeof of_a);
  if (!failed) failed = calls->product_set(plan->product, LT_PRODUCT_EPILOGUE, &or_none, sizeof or_none);
  if (!failed && p->bias) failed = calls->product_set(plan->product, LT_PRODUCT_BIAS, &bias, sizeof bias);
  if (!failed)
    failed = layout(calls, p, p->b_by_column ? p->k : p->n, p->b_by_column ? p->n : p->k, p->b_apart, p->b_stride,
                    &plan->layouts[OF_B]);
  if (!failed)
    failed = layout(calls, p, p->a_by_column ? p->m : p->k, p->a_by_column ? p->k : p->m, p->a_apart, p->a_stride,
                    &plan->layouts[OF_A]);
  if (!failed) failed = layout(calls, p, p->n, p->m, p->n, p->m * p->n, &plan->layouts[OF_Y]);
  return failed;
}

/* Asks the heuristics. *out_failed: their status. False: they know no algorithm that does. */
static bool choose(const cublas_calls *calls, cublas_handle handle, int64_t most_workspace_bytes, cublas_plan *plan,
                   cublas_status *out_failed) {
  /* sums of halves would be rounded in parts, and sums in place have no fixed order */
  const uint32_t reductions = LT_REDUCTION_OF_SUMS, alignment = CUBLAS_ALIGNMENT;
  const uint64_t most = (uint64_t)most_workspace_bytes;
  cublas_result results[MOST_ALGORITHMS];
  void *wish = NULL, *const *layouts = plan->layouts;
  int n = 0;
  cublas_status failed = calls->wish_create(&wish);
  if (!failed) failed = calls->wish_set(wish, LT_WISH_WORKSPACE, &most, sizeof most);
  if (!failed) failed = calls->wish_set(wish, LT_WISH_REDUCTIONS, &reductions, sizeof reductions);
  for (int which = LT_WISH_ALIGNMENT_A; which <= LT_WISH_ALIGNMENT_D && !failed; which++)
    failed = calls->wish_set(wish, which, &alignment, sizeof alignment);
  if (!failed)
    failed = calls->choose(handle, plan->product, layouts[OF_B], layouts[OF_A], layouts[OF_Y], layouts[OF_Y], wish,
                           MOST_ALGORITHMS, results, &n);
  if (wish) (void)calls->wish_destroy(wish);
  *out_failed = failed;
  for (int i = 0; i < n && !failed; i++) {
    if (results[i].state || results[i].workspace_bytes > most) continue;
    plan->algorithm = results[i].algorithm;
    plan->workspace_bytes = (int64_t)results[i].workspace_bytes;
    return true;
  }
  return false;
}

reed_status cublas_plan_open(const cublas_calls *calls, cublas_handle handle, const cublas_product *product,
                             int64_t most_workspace_bytes, cublas_plan *out_plan, reed_diagnosis *diagnosis) {
  cublas_plan plan = {0};
  cublas_status refused = LT_SUCCESS;
  const cublas_status failed = describe(calls, product, &plan);
  if (!failed && choose(calls, handle, most_workspace_bytes, &plan, &refused)) {
    *out_plan = plan;
    return REED_OK;
  }
  cublas_plan_close(calls, &plan);
  if (failed) return say(calls, failed, "a product cannot be described", diagnosis);
  if (refused && refused != LT_NOT_SUPPORTED) return say(calls, refused, "the heuristics refuse", diagnosis);
  return diag_fail(diagnosis, REED_ERROR_UNSUPPORTED, "cuBLASLt has no algorithm for the product");
}

void cublas_plan_close(const cublas_calls *calls, cublas_plan *plan) {
  for (int i = 0; i < 3; i++)
    if (plan->layouts[i]) (void)calls->layout_destroy(plan->layouts[i]);
  if (plan->product) (void)calls->product_destroy(plan->product);
  *plan = (cublas_plan){0};
}

reed_status cublas_plan_run(const cublas_calls *calls, cublas_handle handle, const cublas_plan *plan,
                            const cublas_product *product, const void *a, const void *b, const void *bias, void *y,
                            void *workspace, struct CUstream_st *stream, reed_diagnosis *diagnosis) {
  const float zero = 0;
  cublas_status failed = LT_SUCCESS;
  if (product->bias) failed = calls->product_set(plan->product, LT_PRODUCT_BIAS, &bias, sizeof bias);
  if (!failed)
    failed = calls->multiply(handle, plan->product, &product->alpha, b, plan->layouts[OF_B], a, plan->layouts[OF_A],
                             &zero, y, plan->layouts[OF_Y], y, plan->layouts[OF_Y], &plan->algorithm, workspace,
                             (size_t)plan->workspace_bytes, stream);
  return failed ? say(calls, failed, "a product did not start", diagnosis) : REED_OK;
}
