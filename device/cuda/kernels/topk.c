/* Launches of TopK. */
#include "ops/cpu/calls/topk.h"

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"
#include "ops/bound.h"

enum {
  LONG_ROW = 4 * TOPK_CHUNK, /* few rows beyond it are spread over blocks */
  ENOUGH_ROWS = 132          /* a block for each multiprocessor of an H100 */
};

/* Parts of the workspace of spread rows: begins, and bytes. */
typedef struct parts {
  int64_t counts, counts_bytes, of_chunk, of_chunk_bytes, taken, taken_bytes, keys, keys_bytes, merged, merged_bytes;
} parts;

/* Of a key with its place. */
static int64_t key_bytes(const topk_args *a) { return a->packed ? 8 : 16; }

static parts parts_of(const topk_args *a) {
  parts p = {.counts_bytes = a->rows * (a->bits / 8) * TOPK_DIGITS * 8,
             .of_chunk_bytes = a->rows * a->chunks * TOPK_DIGITS * 4,
             .taken_bytes = a->rows * 8,
             .keys_bytes = a->rows * a->padded * key_bytes(a)};
  if (a->padded > TOPK_RUN) p.merged_bytes = p.keys_bytes;
  p.of_chunk = cuda_round_up(p.counts_bytes);
  p.taken = p.of_chunk + cuda_round_up(p.of_chunk_bytes);
  p.keys = p.taken + cuda_round_up(p.taken_bytes);
  p.merged = p.keys + cuda_round_up(p.keys_bytes);
  return p;
}

#define USE(field, is_written) \
  CUDA_PART(plan, topk_args, field, CUDA_FROM_WORKSPACE, 0, p->field, p->field##_bytes, is_written)

static void add_count(cuda_plan *plan) { cuda_plan_count(plan, offsetof(topk_args, counted)); }

/* The output's count is written. */
static void add_report(cuda_plan *plan) {
  CUDA_PART(plan, topk_args, reported, CUDA_FROM_EXTENTS, 0, 0, sizeof(int64_t), true);
}

static void add_output(cuda_plan *plan, const topk *t) {
  CUDA_INPUT(plan, topk_args, x, 0);
  CUDA_OUTPUT(plan, topk_args, y, 0);
  if (t->with_indices) CUDA_OUTPUT(plan, topk_args, indices, 1);
}

/* Counts each digit of the keys, takes the first k, sorts runs of them, merges the runs. One run is written at once. */
static void add_spread(cuda_plan *plan, const topk *t, topk_args *made, const parts *p) {
  const int64_t blocks = made->rows * made->chunks;
  cuda_plan_each(plan, CUDA_topk_begin, (p->counts_bytes + p->taken_bytes) / 8, made);
  add_count(plan);
  if (made->counts_extent) add_report(plan);
  USE(counts, true);
  USE(taken, true);
  for (made->shift = made->bits - 8; made->shift >= 0; made->shift -= 8) {
    cuda_plan_launch(plan, CUDA_topk_count, blocks, 0, made);
    add_count(plan);
    CUDA_INPUT(plan, topk_args, x, 0);
    USE(counts, true);
    if (made->shift == 0) USE(of_chunk, true);
  }
  cuda_plan_launch(plan, CUDA_topk_take, blocks, 0, made);
  add_count(plan);
  CUDA_INPUT(plan, topk_args, x, 0);
  USE(counts, false);
  USE(of_chunk, false);
  USE(taken, true);
  USE(keys, true);
  const int64_t run = made->padded < TOPK_RUN ? made->padded : TOPK_RUN;
  cuda_plan_launch(plan, CUDA_topk_sort, made->rows * made->padded / run, cuda_sort_bytes(run, key_bytes(made)), made);
  add_count(plan);
  USE(keys, true);
  if (run == made->padded) {
    add_output(plan, t);
    return;
  }
  for (made->run = run; made->run < made->padded; made->run *= CUDA_MERGE_WAYS) {
    cuda_plan_each(plan, CUDA_topk_merge, made->rows * made->padded, made);
    add_count(plan);
    USE(keys, true);
    USE(merged, true);
  }
  cuda_plan_launch(plan, CUDA_topk_write, made->rows * blocks_for(CUDA_topk_write, made->k), 0, made);
  add_count(plan);
  USE(keys, false);
  USE(merged, false);
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
                    .bits = reed_dtype_bytes(t.dtype) == 8 ? 64 : 32,
                    .counts_extent = reports};
  made.packed = made.bits == 32 && made.extent <= UINT32_MAX;
  const bool is_short = made.extent <= TOPK_RUN,
             is_long = made.extent > UINT32_MAX || (made.extent > LONG_ROW && made.rows < ENOUGH_ROWS);
  const bool is_spread = !is_short && (made.k > TOPK_RUN || is_long);
  while (made.padded < (is_short ? made.extent : made.k)) made.padded *= 2;
  if (made.rows && t.k && is_spread) {
    const parts p = parts_of(&made);
    add_spread(&plan, &t, &made, &p);
    return cuda_plan_close(&plan, p.merged + p.merged_bytes, out_kernel);
  }
  if ((made.rows && t.k) || reports) {
    cuda_plan_launch(&plan, is_short ? CUDA_topk_short : CUDA_topk, made.rows ? made.rows : 1,
                     cuda_sort_bytes(made.padded, key_bytes(&made)), &made);
    add_count(&plan);
    if (reports) add_report(&plan);
    add_output(&plan, &t);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}
