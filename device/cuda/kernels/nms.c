/* Launches of NonMaxSuppression and torchvision's nms. */
#include "ops/cpu/calls/nms.h"

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"

enum {
  MOST_MASK_BYTES = 16 << 20,
  MOST_MASK_BLOCKS = 132 * 16 /* twice as many as are resident on an H100: counts are often far below their bounds */
};

static int64_t mask_bytes(const nms_args *made) {
  return made->rows * made->tiles * made->tiles * NMS_CHUNK * (int64_t)sizeof(*made->mask);
}

/* So many tiles of a row's best boxes as the matrices of all rows have memory for. */
static int64_t tiles_of(const nms_args *made) {
  const int64_t all = (made->n + NMS_CHUNK - 1) / NMS_CHUNK, tile = NMS_CHUNK * (int64_t)sizeof(*made->mask);
  int64_t tiles = 0;
  while (tiles < all && tiles < NMS_MOST_TILES && made->rows <= MOST_MASK_BYTES / tile / ((tiles + 1) * (tiles + 1)))
    tiles++;
  return tiles;
}

/* Bytes of the keys of all rows, once. */
static int64_t sorted_bytes(const nms_args *made) { return made->rows * made->padded * 8; }

/* Bytes of all keys: twice if runs are merged. */
static int64_t keys_bytes(const nms_args *made) {
  return made->padded > NMS_SORT_RUN ? 2 * sorted_bytes(made) : sorted_bytes(made);
}

/* Adds one of the launches. The workspace: keys, merged keys, kept boxes, their counts, matrices. */
static void add_launch(cuda_plan *plan, cuda_kernel_id kernel, int64_t blocks, const nms_args *made, const nms *n) {
  const int64_t run = made->padded < NMS_SORT_RUN ? made->padded : NMS_SORT_RUN, sorted = sorted_bytes(made),
                keys = keys_bytes(made), kept = cuda_round_up(made->rows * made->limit * 4),
                counts = cuda_round_up(made->rows * 4);
  const bool sorts = kernel == CUDA_nms_sort, merges = kernel == CUDA_nms_merge, masks = kernel == CUDA_nms_mask,
             selects = kernel == CUDA_nms_select, lists = kernel == CUDA_nms_list, compares = masks || selects;
  cuda_plan_launch(plan, kernel, blocks, sorts ? cuda_sort_bytes(run, 8) : 0, made);
  if (!lists) {
    cuda_plan_count(plan, offsetof(nms_args, counted));
    CUDA_PART(plan, nms_args, sorted, CUDA_FROM_WORKSPACE, 0, 0, sorted, sorts || merges);
    if (!sorts) CUDA_PART(plan, nms_args, merged, CUDA_FROM_WORKSPACE, 0, sorted, keys - sorted, merges);
  }
  if (sorts) {
    CUDA_INPUT(plan, nms_args, scores, 1);
    if (n->has_score) CUDA_INPUT(plan, nms_args, least, 4);
    if (n->has_candidates) CUDA_INPUT(plan, nms_args, candidates, 6);
  }
  if (compares) {
    CUDA_PART(plan, nms_args, mask, CUDA_FROM_WORKSPACE, 0, keys + kept + counts, mask_bytes(made), masks);
    CUDA_INPUT(plan, nms_args, boxes, 0);
    if (n->has_iou) CUDA_INPUT(plan, nms_args, iou, 3);
    if (n->has_ids) CUDA_INPUT(plan, nms_args, ids, n->ids_input);
  }
  if (selects || lists) {
    CUDA_PART(plan, nms_args, kept, CUDA_FROM_WORKSPACE, 0, keys, made->rows * made->limit * 4, selects);
    CUDA_PART(plan, nms_args, counts, CUDA_FROM_WORKSPACE, 0, keys + kept, made->rows * 4, selects);
  }
  if (lists) {
    CUDA_OUTPUT(plan, nms_args, selected, 0);
    CUDA_PART(plan, nms_args, extent, CUDA_FROM_EXTENTS, 0, 0, 8, true);
  }
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
  made.tiles = tiles_of(&made);
  const int64_t runs = made.padded > NMS_SORT_RUN ? made.padded / NMS_SORT_RUN : 1;
  if (made.rows) add_launch(&plan, CUDA_nms_sort, made.rows * runs, &made, &n);
  for (made.run = NMS_SORT_RUN; made.rows && made.run < made.padded; made.run *= CUDA_MERGE_WAYS)
    add_launch(&plan, CUDA_nms_merge, blocks_for(CUDA_nms_merge, made.rows * made.padded), &made, &n);
  const int64_t tiles = made.rows * ((made.tiles + 1) / 2) * (made.tiles + 1);
  if (tiles) add_launch(&plan, CUDA_nms_mask, tiles < MOST_MASK_BLOCKS ? tiles : MOST_MASK_BLOCKS, &made, &n);
  if (made.rows) add_launch(&plan, CUDA_nms_select, made.rows, &made, &n);
  const int64_t lists = made.rows * blocks_for(CUDA_nms_list, made.limit ? made.limit : 1);
  add_launch(&plan, CUDA_nms_list, lists ? lists : 1, &made, &n);
  return cuda_plan_close(&plan,
                         keys_bytes(&made) + cuda_round_up(made.rows * made.limit * 4) + cuda_round_up(made.rows * 4) +
                             mask_bytes(&made),
                         out_kernel);
}
