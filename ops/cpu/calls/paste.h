/* A PasteMasks call, and the visible part of a box, for the kernel and the reference. */
#ifndef OPS_CPU_CALLS_PASTE_H_
#define OPS_CPU_CALLS_PASTE_H_

#include "ops/cpu/common/common.h"

typedef struct paste {
  cpu_team team;
  cpu_level level;
  int mapping;                  /* resize_read_mapping */
  int64_t masks, rows, columns; /* how many; of each */
  int64_t height, width;        /* of a picture */
  int64_t scratch_bytes;        /* of the workspace, per thread */
} paste;

/* One axis of a box, from pixel `first` to pixel `last`, both included. */
typedef struct paste_span {
  int64_t origin, extent; /* of the box; at least 1 */
  int64_t begin, end;     /* the part in the picture; begin == end: nothing */
} paste_span;

reed_status paste_read(const reed_kernel_call *call, paste *out_paste) REED_MUST_CHECK;
/* The span from pixel `first` to pixel `last`, which may be any numbers; limit: the picture's extent. */
paste_span paste_visible(int64_t first, int64_t last, int64_t limit);

#endif
