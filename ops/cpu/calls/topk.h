/* A TopK call read as extents: `outer` blocks of `extent` elements, neighbours `inner` elements apart; k of each are
 * wanted. */
#ifndef OPS_CPU_CALLS_TOPK_H_
#define OPS_CPU_CALLS_TOPK_H_

#include "ops/cpu/common/common.h"

typedef struct topk {
  reed_dtype dtype;
  cpu_team team;
  bool largest, with_indices;
  int64_t outer, extent, inner, k;
  int64_t scratch_bytes; /* of the workspace, per thread */
  /* the kernel's loops (ops/cpu/reduce/topk_loops.h) */
  int64_t key_bytes;
  void (*keys)(void *keys, const void *x, int64_t n, int64_t step, bool largest);
  const struct topk_filter *filter;
  void (*insert)(void *best, void *places, const void *keys, int64_t n, int64_t element, int64_t k); /* NULL: not so */
} topk;

/* Reads a TopK call. */
void topk_read(const reed_kernel_call *call, topk *out_topk);

#endif
