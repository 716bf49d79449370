/* A TopK call: `outer` blocks of `extent` elements that lie `inner` apart, of which k are wanted. */
#ifndef OPS_CPU_CALLS_TOPK_H_
#define OPS_CPU_CALLS_TOPK_H_

#include "ops/cpu/common/common.h"

typedef struct topk {
  reed_dtype dtype;
  cpu_team team;
  bool largest, with_indices;
  int64_t outer, extent, inner, k;
  int64_t scratch_bytes; /* of the workspace, per thread */
} topk;

/* From a TopK call. */
reed_status topk_read(const reed_kernel_call *call, topk *out_topk) REED_MUST_CHECK;

#endif
