/* A PasteMasks call, for the kernels and the reference. The visible part of a box: resize_formulas.h. */
#ifndef OPS_CPU_CALLS_PASTE_H_
#define OPS_CPU_CALLS_PASTE_H_

#include "ops/cpu/calls/resize_formulas.h"
#include "ops/cpu/common/common.h"

typedef struct paste {
  cpu_team team;
  cpu_level level;
  int mapping;                  /* resize_read_mapping */
  int64_t masks, rows, columns; /* how many; of each */
  int64_t height, width;        /* of a picture */
  int64_t scratch_bytes;        /* of the workspace, per thread */
} paste;

reed_status paste_read(const reed_kernel_call *call, paste *out_paste) REED_MUST_CHECK;

#endif
