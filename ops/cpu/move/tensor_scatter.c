/* TensorScatter (ONNX opset 24): a copy of the cache, then the update's rows at each batch's place. The output may have
 * the cache's memory; then only the update is written. If that memory is the caller's, the rows that the update
 * overwrites are saved before (ops/overwritten.h). The output may have more rows than the cache; those that no update
 * takes are 0. */
#include "base/desc.h"
#include "base/strides.h"
#include "ops/cpu/common/common.h"
#include "ops/cpu/common/strided.h"
#include "ops/cpu/common/whole.h"
#include "ops/overwritten.h"

typedef struct scatter_rows {
  strided_copy copy; /* cache to output */
  strided_copy pack; /* of an update whose rows lie unevenly, into the workspace */
  bool packs;
  int64_t batches, blocks; /* blocks: of one batch, before the axis */
  int64_t past;            /* along the axis, in the cache */
  int64_t room, rows;      /* along the axis, in the output and in the update */
  int64_t row_bytes;
  int64_t block_bytes, update_bytes; /* from one block to the next, in the output and in the update */
  int64_t piece_rows, pieces;        /* of a block's update: rows that are copied together, and how many times */
  cpu_team team;
  bool circular, given; /* given: write_indices */
  overwritten_log *log; /* for rows of the caller's memory; NULL: the output lies elsewhere */
} scatter_rows;

/* The rows of block i that the update takes: `first` from row `at` on, the others from row 0 on. */
typedef struct scatter_place {
  int64_t at, first;
} scatter_place;

static scatter_place place_of(const scatter_rows *s, const int64_t *places, int64_t i) {
  int64_t at = places ? places[i / s->blocks] % s->room : 0;
  return (scatter_place){at, s->rows < s->room - at ? s->rows : s->room - at};
}

/* Saves the rows that the update will overwrite. False: no memory. */
static bool save_rows(const scatter_rows *s, const int64_t *places, char *cache) {
  int64_t n = s->batches * s->blocks;
  overwritten *o = overwritten_add(s->log, 2 * n, n * s->rows * s->row_bytes);
  if (!o) return false;
  o->memory = cache;
  o->row_bytes = s->row_bytes;
  o->n_blocks = n;
  o->block_bytes = s->block_bytes;
  overwritten_piece *pieces = overwritten_pieces(o);
  char *saved = overwritten_elements(o);
  for (int64_t i = 0; i < n; i++, saved += s->rows * s->row_bytes) {
    const scatter_place p = place_of(s, places, i);
    const char *block = cache + i * s->block_bytes;
    pieces[2 * i] = (overwritten_piece){i, p.at, p.first};
    pieces[2 * i + 1] = (overwritten_piece){i, 0, s->rows - p.first};
    memcpy(saved, block + p.at * s->row_bytes, (size_t)(p.first * s->row_bytes));
    memcpy(saved + p.first * s->row_bytes, block, (size_t)((s->rows - p.first) * s->row_bytes));
  }
  return true;
}

/* Rows begin..end-1 of a block are 0. */
static void clear_rows(const scatter_rows *s, char *block, int64_t begin, int64_t end) {
  if (begin < end) memset(block + begin * s->row_bytes, 0, (size_t)((end - begin) * s->row_bytes));
}

/* Clears the rows beyond the past that no update takes. */
static void clear_others(const scatter_rows *s, const int64_t *places, char *y) {
  for (int64_t i = 0; s->past < s->room && i < s->batches * s->blocks; i++) {
    const int64_t at = places ? places[i / s->blocks] : 0;
    clear_rows(s, y + i * s->block_bytes, s->past, at);
    clear_rows(s, y + i * s->block_bytes, larger(s->past, at + s->rows), s->room);
  }
}

typedef struct scatter_run {
  const scatter_rows *s;
  const int64_t *places;
  char *cache;
  const char *update;
} scatter_run;

/* Copies pieces begin..end-1 of the blocks' rows. */
static void write_pieces(void *context, int64_t begin, int64_t end) {
  const scatter_run *run = context;
  const scatter_rows *s = run->s;
  for (int64_t i = begin; i < end && !cpu_cancelled(&s->team); i++) {
    const int64_t block = i / s->pieces, row = i % s->pieces * s->piece_rows,
                  after = smaller(row + s->piece_rows, s->rows);
    const scatter_place p = place_of(s, run->places, block);
    const int64_t middle = cpu_clamp(p.first, row, after); /* the rows from here on begin the block */
    char *cache = run->cache + block * s->block_bytes;
    const char *update = run->update + block * s->update_bytes;
    if (middle > row)
      memcpy(cache + (p.at + row) * s->row_bytes, update + row * s->row_bytes, (size_t)((middle - row) * s->row_bytes));
    if (after > middle)
      memcpy(cache + (middle - p.first) * s->row_bytes, update + middle * s->row_bytes,
             (size_t)((after - middle) * s->row_bytes));
  }
}

static reed_status run_scatter(const void *state, const reed_kernel_buffers *buffers) {
  const scatter_rows *s = state;
  const int64_t *places = s->given ? buffers->inputs[2] : NULL;
  for (int64_t b = 0; places && b < s->batches && s->rows; b++) {
    int64_t last = places[b] > INT64_MAX - s->rows ? INT64_MAX : places[b] + s->rows - 1;
    if (s->circular && places[b] < 0) return reed_kernel_fault(buffers, REED_FAULT_NEGATIVE, 2, b, places[b], 0);
    if (s->circular || (places[b] >= 0 && last < s->room)) continue;
    return reed_kernel_fault(buffers, REED_FAULT_ROW, 2, b, places[b] < 0 ? places[b] : last, s->room);
  }
  reed_status status = strided_run(&s->copy, buffers->inputs[0], buffers->outputs[0]);
  if (status != REED_OK || s->row_bytes == 0) return status;
  if (s->packs && s->rows) status = strided_run(&s->pack, buffers->inputs[1], buffers->workspace);
  if (status != REED_OK) return status;
  if (s->log && s->rows && buffers->inputs[0] == buffers->outputs[0] && !save_rows(s, places, buffers->outputs[0]))
    return reed_kernel_fault(buffers, REED_FAULT_LIBRARY, -1, 0, REED_ERROR_MEMORY, 0);
  clear_others(s, places, buffers->outputs[0]);
  if (s->rows == 0) return REED_OK;
  scatter_run run = {s, places, buffers->outputs[0], s->packs ? buffers->workspace : buffers->inputs[1]};
  return cpu_parallel(s->team, s->batches * s->blocks * s->pieces, 1, write_pieces, &run);
}

/* The room of an operand; axis -1: none. */
static reed_room room_in(const reed_room *rooms, int32_t i) { return rooms ? rooms[i] : (reed_room){.axis = -1}; }

/* Rows of one block of an operand with that extent: its capacity, if it has room along the axis. */
static int64_t block_rows(const reed_room *room, int32_t axis, int64_t extent) {
  return room->axis == axis && !room->counted ? room->capacity : extent;
}

reed_status cpu_prepare_tensor_scatter(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *cache = &call->inputs[0], *update = &call->inputs[1];
  int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), cache->rank);
  scatter_rows *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  const reed_room out = room_in(call->output_rooms, 0), more = room_in(call->input_rooms, 1);
  int64_t from[REED_MAX_RANK], to[REED_MAX_RANK];
  cpu_input_strides(call, 0, from);
  cpu_output_strides(call, 0, to);
  strided_plan(&s->copy, cache->rank, cache->dims, from, 0, to, 0, (int64_t)reed_dtype_bytes(cache->dtype),
               cpu_env_team(call));
  s->batches = cache->dims[0];
  s->blocks = cpu_product(cache->dims, 1, axis);
  s->past = cache->dims[axis];
  s->room = call->outputs[0].dims[axis];
  s->rows = update->dims[axis];
  s->row_bytes = cpu_product(cache->dims, axis + 1, cache->rank) * (int64_t)reed_dtype_bytes(cache->dtype);
  s->block_bytes = block_rows(&out, axis, s->room) * s->row_bytes;
  s->update_bytes = block_rows(&more, axis, s->rows) * s->row_bytes;
  s->team = cpu_team_for(cpu_env_team(call), 2 * desc_bytes(update));
  const int64_t rows = s->team.threads > 1 && s->row_bytes > 0 ? CPU_PIECE_BYTES / s->row_bytes : s->rows;
  s->piece_rows = larger(rows, 1);
  s->pieces = divided(s->rows, s->piece_rows);
  s->circular = op_attr_word(call->op, call->attrs, "mode") == 1;
  s->given = cpu_present(call, 2);
  s->log = out.axis >= 0 && !out.counted && call->env ? call->env->overwritten : NULL;
  s->packs = more.axis >= 0 && more.axis != axis && !more.counted;
  cpu_kernel_set(out_kernel, run_scatter, s);
  if (s->packs) {
    int64_t dense[REED_MAX_RANK];
    cpu_input_strides(call, 1, from);
    strides_of(update, -1, 0, dense);
    strided_plan(&s->pack, update->rank, update->dims, from, 0, dense, 0, (int64_t)reed_dtype_bytes(update->dtype),
                 cpu_env_team(call));
    out_kernel->workspace_bytes = out_kernel->dense_bytes = desc_bytes(update);
  }
  out_kernel->reads_rooms = out.axis < 0 || out.axis == axis;
  return REED_OK;
}
