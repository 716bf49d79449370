/* A call of NonMaxSuppression or of torchvision's nms, and the parts that kernel and reference share: limits and the
 * corners of a box. */
#ifndef OPS_CPU_CALLS_NMS_H_
#define OPS_CPU_CALLS_NMS_H_

#include "ops/cpu/common/common.h"

typedef struct nms {
  cpu_team team;
  cpu_level level;
  bool centers;  /* boxes are x_center, y_center, width, height; else y1, x1, y2, x2 of any two opposite corners */
  bool as_given; /* torchvision's nms: boxes are x1, y1, x2, y2 whatever their order, a NaN score is first, and the
                    output is a list of numbers */
  float iou;     /* as_given: the threshold */
  bool has_iou, has_score; /* inputs 3 and 4 are present */
  bool has_ids;            /* input ids_input is present: boxes suppress only boxes of their own class id */
  int32_t ids_input;
  bool has_candidates; /* input 6 is present: boxes that are not candidates are ignored */
  int64_t batches, classes, boxes;
  int64_t limit;                     /* boxes kept per row of scores, at most `boxes` */
  int64_t kept_bytes, scratch_bytes; /* bytes in the workspace: kept boxes of all rows of scores; per thread */
} nms;

/* Reads a call of either operator. */
reed_status nms_read(const reed_kernel_call *call, nms *out_nms) REED_MUST_CHECK;
/* The threshold of a run. */
static inline float nms_threshold(const nms *n, const reed_kernel_buffers *buffers) {
  return n->as_given ? n->iou : n->has_iou ? *(const float *)buffers->inputs[3] : 0;
}
/* Writes element i of the result: the box of a batch and class. */
static inline void nms_give(const nms *n, const reed_kernel_buffers *buffers, int64_t i, int64_t row, int64_t box) {
  int64_t *out = buffers->outputs[0];
  if (n->as_given) {
    out[i] = box;
    return;
  }
  out[3 * i] = row / n->classes;
  out[3 * i + 1] = row % n->classes;
  out[3 * i + 2] = box;
}
/* The corners of a box, with x1 <= x2 and y1 <= y2 unless boxes are taken as given. */
void nms_corners(const nms *n, const float *box, float *out_x1, float *out_y1, float *out_x2, float *out_y2);

#endif
