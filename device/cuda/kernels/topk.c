/* Launches of TopK. */
#include "ops/cpu/calls/topk.h"

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"
#include "ops/bound.h"

enum { SORT_SHARED_BYTES = 32 * 1024, SHORT_ROW = 2048 }; /* below the 48 KB that every launch may use */

reed_status cuda_prepare_topk(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  topk t;
  topk_read(call, &t);
  const bool reports = bound_is_reported(call, 0);
  topk_args made = {.rows = t.outer * t.inner,
                    .extent = t.extent,
                    .inner = t.inner,
                    .k = t.k,
                    .padded = 2,
                    .counted = cuda_counted(call),
                    .dtype = t.dtype,
                    .size = (int32_t)reed_dtype_bytes(t.dtype),
                    .largest = t.largest,
                    .bits = reed_dtype_bytes(t.dtype) == 8 ? 64 : 32};
  const bool is_short = made.extent <= SHORT_ROW;
  const cuda_kernel_id kernel = is_short ? CUDA_topk_short : CUDA_topk;
  while (made.padded < (is_short ? made.extent : made.k)) made.padded *= 2;
  const int64_t row_bytes = made.padded * 16;
  const bool in_shared = row_bytes <= SORT_SHARED_BYTES;
  if ((made.rows && t.k) || reports) {
    cuda_plan_launch(&plan, kernel, made.rows ? made.rows : 1, in_shared ? row_bytes : 0, &made);
    cuda_plan_count(&plan, offsetof(topk_args, counted));
    if (reports) CUDA_PART(&plan, topk_args, reported, CUDA_FROM_EXTENTS, 0, 0, sizeof(int64_t), true);
    CUDA_INPUT(&plan, topk_args, x, 0);
    CUDA_OUTPUT(&plan, topk_args, y, 0);
    if (t.with_indices) CUDA_OUTPUT(&plan, topk_args, indices, 1);
    if (!in_shared) CUDA_PART(&plan, topk_args, sorted, CUDA_FROM_WORKSPACE, 0, 0, made.rows * row_bytes, true);
  }
  return cuda_plan_close(&plan, in_shared ? 0 : made.rows * row_bytes, out_kernel);
}
