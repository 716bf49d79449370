/* Softmax, LogSoftmax, Hardmax and LpNormalization calls read as extents: `outer` blocks of `axis` elements, neighbours
 * `inner` elements apart. */
#ifndef OPS_CPU_CALLS_SOFTMAX_H_
#define OPS_CPU_CALLS_SOFTMAX_H_

#include "ops/cpu/common/common.h"

typedef enum softmax_kind { SOFTMAX, SOFTMAX_LOG, SOFTMAX_HARD, SOFTMAX_LP } softmax_kind;

typedef struct softmax {
  reed_dtype dtype;
  softmax_kind kind;
  int64_t p; /* norm of LpNormalization */
  cpu_team team;
  cpu_level level;
  int64_t outer, axis, inner;
} softmax;

/* Reads a call of one of these operators. */
void softmax_read(const reed_kernel_call *call, softmax *out_softmax);

#endif
