/* A NonMaxSuppression call, and what its implementations share: limits, corner order, the order of candidates. */
#ifndef OPS_CPU_CALLS_NMS_H_
#define OPS_CPU_CALLS_NMS_H_

#include "ops/cpu/common/common.h"

typedef struct nms {
  cpu_team team;
  cpu_level level;
  bool centers; /* boxes are x_center, y_center, width, height; else y1, x1, y2, x2 of any two opposite corners */
  bool has_iou, has_score; /* inputs 3 and 4 are there */
  bool has_ids;            /* input 5 is: boxes of different class ids suppress nothing of each other */
  bool has_candidates;     /* input 6 is: other boxes are as if they were not there */
  int64_t batches, classes, boxes;
  int64_t limit;                     /* boxes kept per row of scores, at most `boxes` */
  int64_t kept_bytes, scratch_bytes; /* of the workspace: kept boxes of all rows of scores; per thread */
} nms;

/* From a NonMaxSuppression call. */
reed_status nms_read(const reed_kernel_call *call, nms *out_nms) REED_MUST_CHECK;
/* Corner form with x1 <= x2, y1 <= y2. */
void nms_corners(const nms *n, const float *box, float *out_x1, float *out_y1, float *out_x2, float *out_y2);

#endif
