/* Softmax as extents: `outer` blocks of `axis` elements that lie `inner` apart. */
#ifndef OPS_CPU_SOFTMAX_H_
#define OPS_CPU_SOFTMAX_H_

#include "ops/cpu/common.h"

typedef struct softmax {
  reed_dtype dtype;
  bool log;
  int n_threads;
  cpu_level level;
  int64_t outer, axis, inner;
} softmax;

/* From a Softmax or LogSoftmax call. */
reed_status softmax_read(const reed_kernel_call *call, softmax *out_softmax) REED_MUST_CHECK;

#endif
