/* Launches of kernel `cache`. */
#include "device/cuda/kernels/cache.h"

#include <string.h>

#include "ops/cpu/common/common.h"

void cache_add_rows(cuda_plan *plan, const cache_rows *rows) {
  const int64_t n = cpu_product(rows->extents, 0, 4), skipped = rows->y_offset * rows->size;
  if (!n) return;
  cache_args made = {.n = n, .size = (int32_t)rows->size};
  memcpy(made.extents, rows->extents, sizeof made.extents);
  memcpy(made.from, rows->from, sizeof made.from);
  memcpy(made.to, rows->to, sizeof made.to);
  cuda_plan_each(plan, CUDA_cache, n, &made);
  cuda_plan_keeps(plan, rows->keeps);
  CUDA_PART(plan, cache_args, x, CUDA_FROM_INPUT, rows->x_input, 0, rows->x_bytes, false);
  CUDA_PART(plan, cache_args, y, CUDA_FROM_OUTPUT, rows->y_output, skipped, rows->y_bytes - skipped, true);
}
