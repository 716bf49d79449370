/* Reading a NonMaxSuppression call, and the corners of a box, for the kernel and the reference. */
#include "ops/cpu/calls/nms.h"

#include <math.h>

#include "ops/op.h"

/* Fails unless the input has one element for each box of each batch. */
static reed_status check_per_box(const reed_kernel_call *call, const nms *n, int32_t input, const char *what) {
  const reed_desc *d = &call->inputs[input];
  char b[96], c[96];
  if (d->rank == 2 && d->dims[0] == n->batches && d->dims[1] == n->boxes) return REED_OK;
  return reed_kernel_fail(call, REED_ERROR_SHAPE, "boxes %s and %s %s do not go together",
                          desc_text(&call->inputs[0], b, sizeof b), what, desc_text(d, c, sizeof c));
}

/* ONNX's NonMaxSuppression. */
static reed_status read_onnx(const reed_kernel_call *call, nms *n) {
  const reed_desc *boxes = &call->inputs[0], *scores = &call->inputs[1];
  if (boxes->rank != 3 || scores->rank != 3 || boxes->dims[2] != 4 || boxes->dims[0] != scores->dims[0] ||
      boxes->dims[1] != scores->dims[2]) {
    char b[96], s[96];
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "boxes %s and scores %s do not go together",
                            desc_text(boxes, b, sizeof b), desc_text(scores, s, sizeof s));
  }
  *n = (nms){.team = cpu_env_team(call),
             .level = cpu_level_now(),
             .batches = boxes->dims[0],
             .classes = scores->dims[1],
             .boxes = boxes->dims[1]};
  n->centers = op_attr_int(call->attrs, "center_point_box") != 0;
  n->has_iou = cpu_present(call, 3) && desc_elements(&call->inputs[3]) > 0;
  n->has_score = cpu_present(call, 4) && desc_elements(&call->inputs[4]) > 0;
  int64_t limit = 0;
  reed_status status;
  if (cpu_present(call, 2) && desc_elements(&call->inputs[2]) > 0) {
    if (!call->host_values[2])
      return reed_kernel_fail(call, REED_ERROR_ARGUMENT, "max_output_boxes_per_class is not on the host");
    limit = *(const int64_t *)call->host_values[2];
  }
  n->has_ids = cpu_present(call, 5);
  n->ids_input = 5;
  n->has_candidates = cpu_present(call, 6);
  n->limit = limit < 0 ? 0 : limit < n->boxes ? limit : n->boxes;
  status = n->has_ids ? check_per_box(call, n, 5, "class ids") : REED_OK;
  return status == REED_OK && n->has_candidates ? check_per_box(call, n, 6, "candidates") : status;
}

/* torchvision compares the f32 overlap with an f64 threshold: an f32 number is above the threshold if it is above the
 * largest f32 number that is not. */
static float rounded_down(double threshold) {
  float f = (float)threshold;
  return (double)f > threshold ? nextafterf(f, -INFINITY) : f;
}

/* torchvision's nms. */
static void read_as_given(const reed_kernel_call *call, nms *n) {
  int64_t boxes = call->inputs[0].dims[0];
  *n = (nms){.team = cpu_env_team(call),
             .level = cpu_level_now(),
             .as_given = true,
             .iou = rounded_down(op_attr_float(call->attrs, "iou_threshold")),
             .has_ids = cpu_present(call, 2),
             .ids_input = 2,
             .batches = 1,
             .classes = 1,
             .boxes = boxes,
             .limit = boxes};
}

reed_status nms_read(const reed_kernel_call *call, nms *n) {
  if (!op_has(call->op, OP_PROPERTY_TORCHVISION)) return read_onnx(call, n);
  read_as_given(call, n);
  return REED_OK;
}

void nms_corners(const nms *n, const float *box, float *x1, float *y1, float *x2, float *y2) {
  if (n->as_given) {
    *x1 = box[0];
    *y1 = box[1];
    *x2 = box[2];
    *y2 = box[3];
  } else if (n->centers) {
    float half_width = box[2] / 2, half_height = box[3] / 2;
    *x1 = box[0] - half_width;
    *x2 = box[0] + half_width;
    *y1 = box[1] - half_height;
    *y2 = box[1] + half_height;
  } else {
    bool x_swapped = box[1] > box[3], y_swapped = box[0] > box[2];
    *y1 = box[y_swapped ? 2 : 0];
    *y2 = box[y_swapped ? 0 : 2];
    *x1 = box[x_swapped ? 3 : 1];
    *x2 = box[x_swapped ? 1 : 3];
  }
}
