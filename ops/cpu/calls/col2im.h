/* A Col2Im call, for the kernel and the reference. */
#ifndef OPS_CPU_CALLS_COL2IM_H_
#define OPS_CPU_CALLS_COL2IM_H_

#include "ops/cpu/common/window.h"

/* input [N, C * block, windows] is `planes` = N * C times [block, windows]; output 0 is `planes` images. */
typedef struct col2im {
  cpu_team team;
  cpu_level level;
  reed_dtype dtype;
  window w; /* in: an image's extents; out: how many windows fit along each axis; kernel: a block's extents */
  int64_t planes, image, block, windows; /* how many; elements of each */
} col2im;

reed_status col2im_read(const reed_kernel_call *call, col2im *out_col2im) REED_MUST_CHECK;

#endif
