/* Launches of kernel `cache`, and of TensorScatter. */
#include "device/cuda/kernels/cache.h"

#include <string.h>

#include "base/desc.h"
#include "device/cuda/kernels/move.h"
#include "ops/cpu/common/common.h"

void cache_add_rows(cuda_plan *plan, const cache_rows *rows) {
  const int64_t n = cpu_product(rows->extents, 0, 4), skipped = rows->y_offset * rows->size;
  if (!n) return;
  cache_args made = {.n = n, .size = (int32_t)rows->size, .unit = (int32_t)rows->size};
  int64_t from_offset = 0, to_offset = rows->y_offset; /* in the pointers */
  memcpy(made.extents, rows->extents, sizeof made.extents);
  memcpy(made.from, rows->from, sizeof made.from);
  memcpy(made.to, rows->to, sizeof made.to);
  move_by_vectors(&(move_places){made.extents, made.from, made.to, &from_offset, &to_offset, &made.n, 4, &made.size},
                  1);
  cuda_plan_each(plan, CUDA_cache, made.n, &made);
  cuda_plan_keeps(plan, rows->keeps);
  CUDA_PART(plan, cache_args, x, CUDA_FROM_INPUT, rows->x_input, 0, rows->x_bytes, false);
  CUDA_PART(plan, cache_args, y, CUDA_FROM_OUTPUT, rows->y_output, skipped, rows->y_bytes - skipped, true);
}

/* *out_block: elements from one block of an operand (its rows along the axis at one index of the axes before) to the
 * next, or of one block. False: the blocks lie unevenly, or the rows of a block not one behind the other. Strides of
 * axes of extent 1 mean nothing, so an operand may have its room along one of them. */
static bool even_blocks(const reed_desc *desc, const int64_t *strides, int32_t axis, int64_t *out_block) {
  int64_t behind = 1, next = -1;
  *out_block = cpu_product(desc->dims, axis, desc->rank);
  for (int32_t d = desc->rank - 1; d >= axis; d--) {
    if (desc->dims[d] != 1 && strides[d] != behind) return false;
    behind *= desc->dims[d];
  }
  for (int32_t d = axis - 1; d >= 0; d--) {
    if (desc->dims[d] == 1) continue;
    if (next < 0) *out_block = next = strides[d];
    if (strides[d] != next) return false;
    next *= desc->dims[d];
  }
  return true;
}

reed_status cuda_prepare_tensor_scatter(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *cache = &call->inputs[0], *update = &call->inputs[1];
  const int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), cache->rank);
  const int64_t size = (int64_t)reed_dtype_bytes(cache->dtype);
  cuda_plan plan = {.call = call};
  tensor_scatter_args made = {.batches = cache->dims[0],
                              .blocks = cpu_product(cache->dims, 1, axis),
                              .rows = update->dims[axis],
                              .columns = cpu_product(cache->dims, axis + 1, cache->rank),
                              .past = cache->dims[axis],
                              .room = call->outputs[0].dims[axis],
                              .size = (int32_t)size,
                              .circular = op_attr_word(call->op, call->attrs, "mode") == 1};
  const int64_t blocks = made.batches * made.blocks;
  int64_t strides[REED_MAX_RANK], from;
  made.n = desc_elements(update);
  cpu_input_strides(call, 0, strides);
  bool even = even_blocks(cache, strides, axis, &from);
  cpu_input_strides(call, 1, strides);
  even &= even_blocks(update, strides, axis, &made.update_block);
  cpu_output_strides(call, 0, strides);
  even &= even_blocks(&call->outputs[0], strides, axis, &made.y_block);
  const int64_t y_bytes = blocks ? ((blocks - 1) * made.y_block + made.room * made.columns) * size : 0;
  cache_add_rows(&plan, &(cache_rows){.extents = {1, blocks, made.past, made.columns},
                                      .from = {0, from, made.columns, 1},
                                      .to = {0, made.y_block, made.columns, 1},
                                      .x_bytes = blocks ? ((blocks - 1) * from + made.past * made.columns) * size : 0,
                                      .y_bytes = y_bytes,
                                      .size = size,
                                      .keeps = from == made.y_block});
  made.n_behind = blocks * (made.room - made.past) * made.columns;
  const int64_t most = made.n > made.batches ? made.n : made.batches,
                threads = most > made.n_behind ? most : made.n_behind;
  if ((made.rows || made.n_behind) && threads) {
    cuda_plan_each(&plan, CUDA_tensor_scatter, threads, &made);
    CUDA_INPUT(&plan, tensor_scatter_args, update, 1);
    if (cpu_present(call, 2)) CUDA_INPUT(&plan, tensor_scatter_args, places, 2);
    CUDA_PART(&plan, tensor_scatter_args, y, CUDA_FROM_OUTPUT, 0, 0, y_bytes, true);
    if (made.n && call->output_rooms && call->output_rooms[0].axis == axis && !call->output_rooms[0].counted) {
      const int64_t rows_at =
          (int64_t)sizeof(int64_t) + 2 * blocks * (int64_t)sizeof(overwritten_piece); /* behind number and pieces */
      plan.overwrites = (overwritten){.n_bytes = overwritten_bytes(2 * blocks, made.n * size),
                                      .row_bytes = made.columns * size,
                                      .n_blocks = blocks,
                                      .block_bytes = made.y_block * size,
                                      .n_pieces = 2 * blocks};
      CUDA_PART(&plan, tensor_scatter_args, saved, CUDA_FROM_WORKSPACE, 0, 0, rows_at, true);
      CUDA_PART(&plan, tensor_scatter_args, saved_rows, CUDA_FROM_WORKSPACE, 0, rows_at, made.n * size, true);
    }
    CUDA_FAULT(&plan, tensor_scatter_args, fault, launch);
  }
  const reed_status status = cuda_plan_close(&plan, 0, out_kernel);
  out_kernel->reads_rooms = status == REED_OK && even;
  return status;
}
