/* A NonMaxSuppression call and the parts that kernel and reference share: limits and the corners of a box. */
#ifndef OPS_CPU_CALLS_NMS_H_
#define OPS_CPU_CALLS_NMS_H_

#include "ops/cpu/common/common.h"

typedef struct nms {
  cpu_team team;
  cpu_level level;
  bool centers; /* boxes are x_center, y_center, width, height; else y1, x1, y2, x2 of any two opposite corners */
  bool has_iou, has_score; /* inputs 3 and 4 are present */
  bool has_ids;            /* input 5 is present: boxes suppress only boxes of their own class id */
  bool has_candidates;     /* input 6 is present: boxes that are not candidates are ignored */
  int64_t batches, classes, boxes;
  int64_t limit;                     /* boxes kept per row of scores, at most `boxes` */
  int64_t kept_bytes, scratch_bytes; /* bytes in the workspace: kept boxes of all rows of scores; per thread */
} nms;

/* Reads a NonMaxSuppression call. */
reed_status nms_read(const reed_kernel_call *call, nms *out_nms) REED_MUST_CHECK;
/* The corners of a box with x1 <= x2, y1 <= y2. */
void nms_corners(const nms *n, const float *box, float *out_x1, float *out_y1, float *out_x2, float *out_y2);

#endif
