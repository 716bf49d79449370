/* NonMaxSuppression as ONNX describes it: take the best remaining box, and keep it if no kept box of its class overlaps
 * it too much. The kernel: ops/cpu/image/nms.c. */
#include "ops/cpu/uncontracted.h"
#include "ops/cpu/calls/nms.h"
#include "ops/cpu/common/common.h"

static float overlap(const nms *n, const float *a, const float *b) {
  float ax1, ay1, ax2, ay2, bx1, by1, bx2, by2;
  nms_corners(n, a, &ax1, &ay1, &ax2, &ay2);
  nms_corners(n, b, &bx1, &by1, &bx2, &by2);
  float width = (ax2 < bx2 ? ax2 : bx2) - (ax1 > bx1 ? ax1 : bx1),
        height = (ay2 < by2 ? ay2 : by2) - (ay1 > by1 ? ay1 : by1);
  float both = (width > 0 ? width : 0) * (height > 0 ? height : 0);
  float area_a = (ax2 - ax1) * (ay2 - ay1), area_b = (bx2 - bx1) * (by2 - by1);
  return both / (area_a + area_b - both);
}

/* True if box a comes before box b: higher score, or the same score and a lower index; NaN after everything, before
 * everything for torchvision. */
static bool before(const nms *n, const float *scores, int64_t a, int64_t b) {
  bool a_nan = scores[a] != scores[a], b_nan = scores[b] != scores[b];
  if (a_nan || b_nan) return a_nan == b_nan ? a < b : n->as_given ? a_nan : b_nan;
  return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
}

/* The first candidate after `last` (-1: from the start) in the order; -1: none. */
static int64_t next_best(const nms *n, const float *scores, const float *least, const bool *candidates, int64_t last) {
  int64_t best = -1;
  for (int64_t i = 0; i < n->boxes; i++) {
    if (candidates && !candidates[i]) continue;
    if (least && !(scores[i] > *least)) continue;
    if (last >= 0 && !before(n, scores, last, i)) continue;
    if (best < 0 || before(n, scores, i, best)) best = i;
  }
  return best;
}

static reed_status run_nms(const void *state, const reed_kernel_buffers *buffers) {
  const nms *n = state;
  const float *least = n->has_score ? buffers->inputs[4] : NULL;
  const int64_t *all_ids = n->has_ids ? buffers->inputs[n->ids_input] : NULL;
  const int64_t *out = buffers->outputs[0];
  const int64_t each = n->as_given ? 1 : 3; /* numbers of a result, the box's is the last */
  float iou = nms_threshold(n, buffers);
  int64_t n_out = 0;
  int64_t rows = n->limit ? n->batches * n->classes : 0; /* may be 2^60 rows without a box */
  for (int64_t c = 0; c < rows; c++) {
    const float *boxes = (const float *)buffers->inputs[0] + c / n->classes * n->boxes * 4,
                *scores = (const float *)buffers->inputs[1] + c * n->boxes;
    const int64_t *ids = all_ids ? all_ids + c / n->classes * n->boxes : NULL;
    const bool *candidates = n->has_candidates ? (const bool *)buffers->inputs[6] + c / n->classes * n->boxes : NULL;
    int64_t first = n_out, i = -1;
    while (n_out - first < n->limit && (i = next_best(n, scores, least, candidates, i)) >= 0) {
      bool keep = true;
      for (int64_t k = first; k < n_out && keep; k++) {
        int64_t better = out[each * (k + 1) - 1];
        if (!ids || ids[better] == ids[i]) keep = !(overlap(n, boxes + 4 * better, boxes + 4 * i) > iou);
      }
      if (!keep) continue;
      nms_give(n, buffers, n_out++, c, i);
    }
  }
  buffers->extents[0] = n_out;
  return REED_OK;
}

reed_status reference_prepare_nms(const reed_kernel_call *call, reed_kernel *out_kernel) {
  nms n;
  reed_status status = nms_read(call, &n);
  if (status != REED_OK) return status;
  void *state = mem_copy(&n, sizeof n);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_nms, state);
  return REED_OK;
}
