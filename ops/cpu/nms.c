/* NonMaxSuppression (ONNX opset 11), f32. Per batch and class: candidates over the score threshold are sorted once (score descending, equal
 * scores by lower index), their corners laid out as arrays in that order; each survivor then clears the later boxes it overlaps by more than
 * the threshold, a vector at a time. Classes run in parallel; the kept boxes are written one class after the other at the end.
 *
 * A zero area never suppresses (0 / 0 compares false). Corners may come in any order. Without score_threshold every score counts; a NaN
 * score is last and passes no threshold. */
#include "ops/cpu/nms.h"

#include "ops/cpu/layer_loops.h"
#include "ops/cpu/reference/layers.h"

#define ALIGNMENT 64

reed_status nms_read(const reed_kernel_call *call, nms *n) {
  const reed_desc *boxes = &call->inputs[0], *scores = &call->inputs[1];
  if (boxes->rank != 3 || scores->rank != 3 || boxes->dims[2] != 4 || boxes->dims[0] != scores->dims[0] ||
      boxes->dims[1] != scores->dims[2]) {
    char b[96], s[96];
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "boxes %s and scores %s do not go together", desc_text(boxes, b, sizeof b),
                            desc_text(scores, s, sizeof s));
  }
  *n = (nms){.site = cpu_site_of(call),
             .n_threads = cpu_env_threads(call),
             .level = cpu_level_now(),
             .batches = boxes->dims[0],
             .classes = scores->dims[1],
             .boxes = boxes->dims[1]};
  n->centers = reed_attrs_int(call->attrs, "center_point_box", 0) != 0;
  n->has_iou = cpu_present(call, 3) && desc_elements(&call->inputs[3]) > 0;
  n->has_score = cpu_present(call, 4) && desc_elements(&call->inputs[4]) > 0;
  int64_t limit = 0;
  if (cpu_present(call, 2) && desc_elements(&call->inputs[2]) > 0) {
    if (!call->host_values[2]) return reed_kernel_fail(call, REED_ERROR_ARGUMENT, "max_output_boxes_per_class is not on the host");
    limit = *(const int64_t *)call->host_values[2];
  }
  n->limit = limit < 0 ? 0 : limit < n->boxes ? limit : n->boxes;
  return REED_OK;
}

void nms_corners(const nms *n, const float *box, float *x1, float *y1, float *x2, float *y2) {
  if (n->centers) {
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

/* ---- order ---- */

typedef struct candidate {
  uint32_t rank;  /* ascending rank is descending score */
  uint32_t index;
} candidate;

/* Floats as integers in ascending order are their bits with negative ones flipped; inverted here, so that high scores come first. NaN is
 * last; the two zeros are equal. */
static uint32_t rank_of(float score) {
  uint32_t bits;
  score += 0.0f; /* -0 becomes 0 */
  memcpy(&bits, &score, 4);
  if (score != score) return UINT32_MAX;
  return ~(bits & 0x80000000u ? ~bits : bits | 0x80000000u);
}

/* Sorts by rank, keeping the order of equals: least significant digit first, 11 bits at a time (radix sort); `spare` has room for n. The
 * result is in `items`. */
static void sort_candidates(candidate *items, candidate *spare, int64_t n) {
  if (n <= 32) {
    for (int64_t i = 1; i < n; i++) {
      candidate item = items[i];
      int64_t k = i;
      for (; k > 0 && items[k - 1].rank > item.rank; k--) items[k] = items[k - 1];
      items[k] = item;
    }
    return;
  }
  candidate *from = items, *to = spare;
  for (int pass = 0; pass < 3; pass++) {
    uint32_t begin[2048] = {0};
    int shift = pass * 11;
    for (int64_t i = 0; i < n; i++) begin[from[i].rank >> shift & 2047]++;
    uint32_t total = 0;
    for (int d = 0; d < 2048; d++) {
      uint32_t count = begin[d];
      begin[d] = total;
      total += count;
    }
    for (int64_t i = 0; i < n; i++) to[begin[from[i].rank >> shift & 2047]++] = from[i];
    candidate *swapped = from;
    from = to;
    to = swapped;
  }
  memcpy(items, from, (size_t)n * sizeof *items);
}

/* ---- one class ---- */

/* A thread's scratch: candidates, the same again, five float arrays, flags. */
static int64_t scratch_bytes(int64_t boxes) {
  int64_t padded = (boxes + 15) & ~(int64_t)15;
  return (padded * (2 * (int64_t)sizeof(candidate) + 5 * 4 + 1) + ALIGNMENT - 1) & ~(int64_t)(ALIGNMENT - 1);
}

typedef struct nms_job {
  const nms *n;
  const float *boxes, *scores;
  float iou, least_score;
  int32_t *kept; /* per class: n->limit indices */
  int64_t *n_kept;
  char *scratch; /* per range of classes */
  int64_t per_range;
} nms_job;

static int64_t suppress_class(const nms_job *job, int64_t class_index, char *scratch, int32_t *kept) {
  const nms *n = job->n;
  int64_t padded = (n->boxes + 15) & ~(int64_t)15, count = 0, n_kept = 0;
  candidate *order = (candidate *)scratch, *spare = order + padded;
  float *corners = (float *)(spare + padded);
  uint8_t *alive = (uint8_t *)(corners + 5 * padded);
  const float *scores = job->scores + class_index * n->boxes, *boxes = job->boxes + class_index / n->classes * n->boxes * 4;
  for (int64_t i = 0; i < n->boxes; i++)
    if (!n->has_score || scores[i] > job->least_score) order[count++] = (candidate){rank_of(scores[i]), (uint32_t)i};
  sort_candidates(order, spare, count);
  for (int64_t i = 0; i < count; i++) {
    float *at = corners + i;
    nms_corners(n, boxes + 4 * (int64_t)order[i].index, at, at + padded, at + 2 * padded, at + 3 * padded);
    at[4 * padded] = (at[2 * padded] - at[0]) * (at[3 * padded] - at[padded]);
    alive[i] = 1;
  }
  for (int64_t i = 0; i < count && n_kept < n->limit; i++) {
    if (!alive[i]) continue;
    kept[n_kept++] = (int32_t)order[i].index;
    if (n_kept < n->limit) CPU_PICK(n->level, nms_suppress)(corners, padded, i, i + 1, count, job->iou, alive);
  }
  return n_kept;
}

static void suppress_ranges(void *context, int64_t begin, int64_t end) {
  const nms_job *job = context;
  int64_t total = job->n->batches * job->n->classes;
  for (int64_t range = begin; range < end; range++)
    for (int64_t i = range * job->per_range; i < total && i < (range + 1) * job->per_range; i++)
      job->n_kept[i] = suppress_class(job, i, job->scratch + range * job->n->scratch_bytes, job->kept + i * job->n->limit);
}

static reed_status run_nms(const void *state, const reed_kernel_buffers *buffers) {
  const nms *n = state;
  int64_t total = n->batches * n->classes;
  int threads = cpu_threads_for(n->n_threads, total * n->boxes * 64);
  if (threads > total) threads = (int)total;
  char *workspace = buffers->workspace;
  nms_job job = {.n = n, .boxes = buffers->inputs[0], .scores = buffers->inputs[1]};
  if (n->has_iou) job.iou = *(const float *)buffers->inputs[3];
  if (n->has_score) job.least_score = *(const float *)buffers->inputs[4];
  job.n_kept = (int64_t *)workspace;
  job.kept = (int32_t *)(workspace + total * 8);
  job.scratch = workspace + n->kept_bytes;
  job.per_range = (total + threads - 1) / threads;
  cpu_parallel(threads, threads, 1, suppress_ranges, &job);
  int64_t *out = buffers->outputs[0], n_out = 0;
  for (int64_t i = 0; i < total; i++)
    for (int64_t k = 0; k < job.n_kept[i]; k++, n_out++) {
      out[3 * n_out] = i / n->classes;
      out[3 * n_out + 1] = i % n->classes;
      out[3 * n_out + 2] = job.kept[i * n->limit + k];
    }
  buffers->extents[0] = n_out;
  return REED_OK;
}

static reed_status run_nothing(const void *state, const reed_kernel_buffers *buffers) {
  buffers->extents[0] = 0;
  return REED_OK;
}

reed_status cpu_prepare_nms(const reed_kernel_call *call, reed_kernel *out_kernel) {
  nms n;
  reed_status status = nms_read(call, &n);
  if (status != REED_OK) return status;
  if (n.batches * n.classes * n.limit == 0) {
    *out_kernel = (reed_kernel){.run = run_nothing};
    return REED_OK;
  }
  if (reference_wanted()) return reference_prepare_nms(call, out_kernel);
  if (n.boxes > INT32_MAX) return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "%lld boxes are too many", (long long)n.boxes);
  int64_t total = n.batches * n.classes;
  n.kept_bytes = (total * (8 + n.limit * 4) + ALIGNMENT - 1) & ~(int64_t)(ALIGNMENT - 1);
  n.scratch_bytes = scratch_bytes(n.boxes);
  void *state = mem_copy(&n, sizeof n);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_nms, state);
  out_kernel->workspace_bytes = n.kept_bytes + n.scratch_bytes * n.n_threads;
  return REED_OK;
}
