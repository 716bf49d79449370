/* Launches of NonMaxSuppression and torchvision's nms. */
#include "ops/cpu/calls/nms.h"

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"

enum { SORT_SHARED_KEYS = 4096 }; /* of 8 bytes: below the 48 KB that every launch may use */

static int64_t round_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Adds one of the three launches, one block a row. */
static void add_launch(cuda_plan *plan, cuda_kernel_id kernel, const nms_args *made, int64_t shared, const nms *n) {
  const int64_t sorted = made->rows * made->padded * 8, kept = round_up(made->rows * made->limit * 4);
  const bool sorts = kernel == CUDA_nms_sort, selects = kernel == CUDA_nms_select, lists = kernel == CUDA_nms_list;
  cuda_plan_launch(plan, kernel, made->rows ? made->rows : 1, shared, made);
  if (!lists) {
    cuda_plan_count(plan, offsetof(nms_args, counted));
    CUDA_PART(plan, nms_args, sorted, CUDA_FROM_WORKSPACE, 0, 0, sorted, sorts);
    if (selects) CUDA_INPUT(plan, nms_args, boxes, 0);
    if (sorts) CUDA_INPUT(plan, nms_args, scores, 1);
    if (selects && n->has_iou) CUDA_INPUT(plan, nms_args, iou, 3);
    if (sorts && n->has_score) CUDA_INPUT(plan, nms_args, least, 4);
    if (selects && n->has_ids) CUDA_INPUT(plan, nms_args, ids, n->ids_input);
    if (sorts && n->has_candidates) CUDA_INPUT(plan, nms_args, candidates, 6);
  }
  if (sorts) return;
  CUDA_PART(plan, nms_args, kept, CUDA_FROM_WORKSPACE, 0, sorted, made->rows * made->limit * 4, selects);
  CUDA_PART(plan, nms_args, counts, CUDA_FROM_WORKSPACE, 0, sorted + kept, made->rows * 4, selects);
  if (selects) return;
  CUDA_OUTPUT(plan, nms_args, selected, 0);
  CUDA_PART(plan, nms_args, extent, CUDA_FROM_EXTENTS, 0, 0, 8, true);
}

reed_status cuda_prepare_nms(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  nms n;
  const reed_status status = nms_read(call, &n);
  if (status) return status;
  if (n.boxes > INT32_MAX) return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "more than 2^31 boxes");
  nms_args made = {.n = n.boxes,
                   .padded = 2,
                   .classes = n.classes,
                   .rows = n.batches * n.classes,
                   .limit = n.limit,
                   .centers = n.centers,
                   .as_given = n.as_given,
                   .threshold = n.iou,
                   .boxes_dtype = call->inputs[0].dtype,
                   .scores_dtype = call->inputs[1].dtype,
                   .counted = cuda_counted(call)};
  while (made.padded < made.n) made.padded *= 2;
  made.shared_keys = made.padded < SORT_SHARED_KEYS ? made.padded : SORT_SHARED_KEYS;
  /* without a count no row of a larger bound fits */
  if (!made.counted.capacity && made.shared_keys < made.padded) made.shared_keys = 0;
  if (made.rows) {
    add_launch(&plan, CUDA_nms_sort, &made, made.shared_keys * 8, &n);
    add_launch(&plan, CUDA_nms_select, &made, 0, &n);
  }
  add_launch(&plan, CUDA_nms_list, &made, 0, &n);
  return cuda_plan_close(&plan, made.rows * made.padded * 8 + round_up(made.rows * made.limit * 4) + made.rows * 4,
                         out_kernel);
}
