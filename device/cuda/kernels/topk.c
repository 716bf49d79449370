/* Launches of TopK. */
#include "ops/cpu/calls/topk.h"

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"
#include "ops/bound.h"

enum {
  LONG_ROW = 4 * TOPK_CHUNK, /* few rows beyond it are spread over blocks */
  ENOUGH_ROWS = 132          /* a block for each multiprocessor of an H100 */
};

/* Parts of the workspace of spread rows: begins, and bytes. The pairs lie twice, because a merge writes elsewhere. */
typedef struct parts {
  int64_t counts, counts_bytes, of_chunk, of_chunk_bytes, taken, taken_bytes, pairs[2], pairs_bytes, end;
} parts;

static parts parts_of(const topk_args *a) {
  parts p = {.counts_bytes = a->rows * (a->bits / 8) * TOPK_DIGITS * 8,
             .of_chunk_bytes = a->rows * a->chunks * TOPK_DIGITS * 4,
             .taken_bytes = a->rows * 8,
             .pairs_bytes = a->rows * a->padded * 16};
  p.of_chunk = cuda_round_up(p.counts_bytes);
  p.taken = p.of_chunk + cuda_round_up(p.of_chunk_bytes);
  p.pairs[0] = p.taken + cuda_round_up(p.taken_bytes);
  p.pairs[1] = p.pairs[0] + cuda_round_up(p.pairs_bytes);
  p.end = p.pairs[1] + p.pairs_bytes;
  return p;
}

static void use(cuda_plan *plan, size_t field, int64_t at, int64_t bytes, bool written) {
  cuda_plan_pointer(plan, field, CUDA_FROM_WORKSPACE, 0, at, bytes, written);
}
#define USE(field, part, is_written) use(plan, offsetof(topk_args, field), p->part, p->part##_bytes, is_written)

static void add_output(cuda_plan *plan, const topk *t) {
  CUDA_INPUT(plan, topk_args, x, 0);
  CUDA_OUTPUT(plan, topk_args, y, 0);
  if (t->with_indices) CUDA_OUTPUT(plan, topk_args, indices, 1);
}

/* Counts each digit of the keys, takes the first k, sorts runs of them, merges the runs. */
static void add_spread(cuda_plan *plan, const topk *t, topk_args *made, const parts *p) {
  const int64_t blocks = made->rows * made->chunks;
  cuda_plan_each(plan, CUDA_topk_begin, (p->counts_bytes + p->taken_bytes) / 8, made);
  USE(counts, counts, true);
  USE(taken, taken, true);
  for (made->shift = made->bits - 8; made->shift >= 0; made->shift -= 8) {
    cuda_plan_launch(plan, CUDA_topk_count, blocks, 0, made);
    CUDA_INPUT(plan, topk_args, x, 0);
    USE(counts, counts, true);
    if (made->shift == 0) USE(of_chunk, of_chunk, true);
  }
  cuda_plan_launch(plan, CUDA_topk_take, blocks, 0, made);
  CUDA_INPUT(plan, topk_args, x, 0);
  USE(counts, counts, false);
  USE(of_chunk, of_chunk, false);
  USE(taken, taken, true);
  use(plan, offsetof(topk_args, pairs), p->pairs[0], p->pairs_bytes, true);
  const int64_t run = made->padded < TOPK_RUN ? made->padded : TOPK_RUN;
  cuda_plan_launch(plan, CUDA_topk_sort, made->rows * made->padded / run, run * 16, made);
  use(plan, offsetof(topk_args, pairs), p->pairs[0], p->pairs_bytes, true);
  int at = 0;
  for (made->run = run; made->run < made->padded; made->run *= 2, at = 1 - at) {
    cuda_plan_each(plan, CUDA_topk_merge, made->rows * made->padded, made);
    use(plan, offsetof(topk_args, from), p->pairs[at], p->pairs_bytes, false);
    use(plan, offsetof(topk_args, pairs), p->pairs[1 - at], p->pairs_bytes, true);
  }
  cuda_plan_each(plan, CUDA_topk_write, made->rows * made->k, made);
  use(plan, offsetof(topk_args, from), p->pairs[at], p->pairs_bytes, false);
  add_output(plan, t);
}

reed_status cuda_prepare_topk(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  topk t;
  topk_read(call, &t);
  const bool reports = bound_is_reported(call, 0);
  topk_args made = {.rows = t.outer * t.inner,
                    .extent = t.extent,
                    .inner = t.inner,
                    .k = t.k,
                    .padded = 2,
                    .chunks = (t.extent + TOPK_CHUNK - 1) / TOPK_CHUNK,
                    .counted = cuda_counted(call),
                    .dtype = t.dtype,
                    .size = (int32_t)reed_dtype_bytes(t.dtype),
                    .largest = t.largest,
                    .bits = reed_dtype_bytes(t.dtype) == 8 ? 64 : 32};
  const bool is_short = made.extent <= TOPK_RUN;
  const bool is_spread =
      !is_short && !made.counted.capacity && (made.k > TOPK_RUN || (made.extent > LONG_ROW && made.rows < ENOUGH_ROWS));
  while (made.padded < (is_short ? made.extent : made.k)) made.padded *= 2;
  if (made.rows && t.k && is_spread) {
    const parts p = parts_of(&made);
    add_spread(&plan, &t, &made, &p);
    return cuda_plan_close(&plan, p.end, out_kernel);
  }
  const int64_t row_bytes = made.padded * 16, sorted_bytes = row_bytes <= TOPK_RUN * 16 ? 0 : made.rows * row_bytes;
  if ((made.rows && t.k) || reports) {
    cuda_plan_launch(&plan, is_short ? CUDA_topk_short : CUDA_topk, made.rows ? made.rows : 1,
                     sorted_bytes ? 0 : row_bytes, &made);
    cuda_plan_count(&plan, offsetof(topk_args, counted));
    if (reports) CUDA_PART(&plan, topk_args, reported, CUDA_FROM_EXTENTS, 0, 0, sizeof(int64_t), true);
    add_output(&plan, &t);
    if (sorted_bytes) CUDA_PART(&plan, topk_args, sorted, CUDA_FROM_WORKSPACE, 0, 0, sorted_bytes, true);
  }
  return cuda_plan_close(&plan, sorted_bytes, out_kernel);
}
