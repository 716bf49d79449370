/* Launches of Attention: joining the caches, the tiles, and the splits of long caches. */
#include <string.h>

#include "base/desc.h"
#include "device/cuda/kernels/cache.h"
#include "device/cuda/kernels/product.h"
#include "ops/cpu/calls/attention.h"

enum {
  TILE_ROWS = 16, /* attention.cu */
  TILE_KEYS = 32,
  MOST_SHARED_BYTES = 99 * 1024,           /* of every card from sm_80 on, whose math has halves */
  MOST_MMA_BYTES = MOST_SHARED_BYTES - 96, /* of these, beside the static ones of attention_mma.cu (ptxas.tsv) */
  MOST_PLAIN_BYTES = 64 * 1024,            /* of every older card */
  MOST_KEYS = 1 << 30,                     /* that attention_mma.cu counts */
  SPLIT_KEYS = 256,                        /* of a split, at least */
  ENOUGH_BLOCKS = 264                      /* two for each multiprocessor of an H100 */
};

static int64_t parts(int64_t n, int64_t of) { return (n + of - 1) / of; }
/* A kernel, its tiles, and its dynamic shared memory. */
typedef struct attention_way {
  cuda_kernel_id kernel;
  int64_t rows, keys, columns, shared_bytes;
  int32_t q_pitch, v_pitch, ahead; /* of attention_args */
} attention_way;

/* The bytes that an operand spans, whose last axis is dense. */
static int64_t span(const attention_view *v, int64_t batch, int64_t heads, int64_t length, int64_t size) {
  if (!batch || !heads || !length || !size) return 0;
  return ((batch - 1) * v->batch + (heads - 1) * v->head + (length - 1) * v->row + size) *
         (int64_t)reed_dtype_bytes(v->dtype);
}

static attention_operand operand_of(const attention_view *v) {
  return (attention_operand){.batch = v->batch, .head = v->head, .row = v->row, .dtype = v->dtype};
}

/* Notes the pointer of one of the args' tensors if the tensor is there. */
static void add_operand(cuda_plan *plan, size_t field, const attention *a, int32_t input, const attention_view *v,
                        int64_t heads, int64_t length, int64_t size) {
  if (v->dtype == REED_NONE) return;
  cuda_plan_pointer(plan, field, CUDA_FROM_INPUT, input, 0, span(v, a->batch, heads, length, size), false);
}

/* Earlier and new keys (input 1) or values (input 2) into the output of this number. */
static void add_present(cuda_plan *plan, const attention *a, int32_t input, int64_t size) {
  const attention_view *past = input == 1 ? &a->past_k : &a->past_v, *now = input == 1 ? &a->k : &a->v,
                       *to = input == 1 ? &a->present_k : &a->present_v;
  if (to->dtype == REED_NONE) return;
  const int64_t bytes = span(to, a->batch, a->kv_heads, a->total, size), dense[] = {a->batch, a->kv_heads, 0, size};
  for (int earlier = 1; earlier >= 0; earlier--) {
    const attention_view *from = earlier ? past : now;
    const int64_t length = earlier ? a->past : a->keys;
    if (!length) continue;
    cache_rows rows = {.extents = {dense[0], dense[1], length, dense[3]},
                       .from = {from->batch, from->head, from->row, 1},
                       .to = {to->batch, to->head, to->row, 1},
                       .x_input = earlier ? input + 3 : input,
                       .x_bytes = span(from, a->batch, a->kv_heads, length, size),
                       .y_output = input,
                       .y_bytes = bytes,
                       .y_offset = earlier ? 0 : a->past * to->row,
                       .size = (int64_t)reed_dtype_bytes(to->dtype),
                       .keeps = earlier};
    cache_add_rows(plan, &rows);
  }
}

/* Without tensor cores: large tiles of f32 where no scores are wanted, there are more rows than the few of a decoder's
 * step and the tiles fit; else tiles of 16 rows. */
static attention_way plain_way(const attention *a, bool scored, int64_t rows, cuda_math math) {
  const bool wide = a->q.dtype == REED_F64, all_f32 = a->q.dtype == REED_F32 && a->v.dtype == REED_F32,
             mask = a->mask_dtype == REED_NONE || a->mask_dtype == REED_BOOL || a->mask_dtype == REED_F32;
  const attention_way small = {.kernel = wide ? CUDA_attention_f64 : CUDA_attention_f32,
                               .rows = TILE_ROWS,
                               .keys = TILE_KEYS,
                               .columns = ATTENTION_COLUMNS};
  if (scored || !all_f32 || !mask || rows <= TILE_ROWS || a->size > INT16_MAX || a->total > MOST_KEYS) return small;
  attention_way way = {.kernel = CUDA_attention_tiled_f32,
                       .rows = ATTENTION_TILED_ROWS,
                       .keys = ATTENTION_TILED_KEYS,
                       .columns = ATTENTION_TILED_COLUMNS,
                       .q_pitch = (int32_t)(4 * (parts(a->size, 4) | 1))}; /* odd: threads read different banks */
  way.shared_bytes =
      4 * ((way.rows + way.keys) * way.q_pitch + way.keys * way.columns + way.rows * ATTENTION_TILED_PITCH);
  return way.shared_bytes <= (math >= CUDA_MATH_HALVES ? MOST_SHARED_BYTES : MOST_PLAIN_BYTES) ? way : small;
}

/* Tensor cores where the card's math has the dtype, all operands have it, no scores are wanted and the tiles fit. */
static attention_way way_of(const reed_kernel_call *call, const attention *a, bool scored) {
  const int64_t rows = a->heads / a->kv_heads * a->queries,
                blocks =
                    a->batch * a->kv_heads * parts(rows, ATTENTION_MMA_ROWS) * parts(a->value_size, ATTENTION_COLUMNS);
  const bool few = rows <= ATTENTION_FEW_ROWS || blocks < ENOUGH_BLOCKS / 2,
             narrow = a->size <= ATTENTION_NARROW && a->value_size <= ATTENTION_NARROW;
  static const cuda_kernel_id kernels[2][2][3] = {
      {{CUDA_attention_tf32, CUDA_attention_f16, CUDA_attention_bf16},
       {CUDA_attention_few_tf32, CUDA_attention_few_f16, CUDA_attention_few_bf16}},
      {{CUDA_attention_narrow_tf32, CUDA_attention_narrow_f16, CUDA_attention_narrow_bf16},
       {CUDA_attention_few_narrow_tf32, CUDA_attention_few_narrow_f16, CUDA_attention_few_narrow_bf16}}};
  const attention_way plain = plain_way(a, scored, rows, ((const cuda_call *)call)->math);
  const cuda_kernel_id kernel = cuda_on_tensor_cores(call, a->q.dtype, plain.kernel, kernels[narrow][few]);
  const bool mask = a->mask_dtype == REED_NONE || a->mask_dtype == REED_BOOL || a->mask_dtype == REED_F32 ||
                    a->mask_dtype == a->q.dtype;
  if (kernel == plain.kernel || scored || !mask || a->v.dtype != a->q.dtype || a->size > INT16_MAX ||
      a->total > MOST_KEYS)
    return plain;
  const int64_t in_word = a->q.dtype == REED_F32 ? 1 : 2,
                columns = a->value_size < ATTENTION_COLUMNS ? a->value_size : ATTENTION_COLUMNS;
  attention_way way = {.kernel = kernel,
                       .rows = few ? ATTENTION_FEW_ROWS : ATTENTION_MMA_ROWS,
                       .keys = ATTENTION_MMA_KEYS * in_word,
                       .columns = ATTENTION_COLUMNS,
                       .q_pitch =
                           (int32_t)((narrow ? ATTENTION_NARROW / in_word : parts(a->size, 8 * in_word) * 8) + 4),
                       .v_pitch = (int32_t)((narrow ? ATTENTION_NARROW : parts(columns, 16) * 16) / in_word + 4)};
  const int64_t q_bytes = 4 * way.rows * way.q_pitch, tile_bytes = 4 * way.keys * (way.q_pitch + way.v_pitch);
  way.ahead = q_bytes + 2 * tile_bytes <= MOST_MMA_BYTES;
  way.shared_bytes = q_bytes + (1 + way.ahead) * tile_bytes;
  const int64_t join_bytes =
      (int64_t)4 * 4 * ATTENTION_FEW_ROWS * ((narrow ? ATTENTION_NARROW : ATTENTION_COLUMNS) + ATTENTION_JOIN_MORE);
  if (few && way.shared_bytes < join_bytes) way.shared_bytes = join_bytes;
  return way.shared_bytes <= MOST_MMA_BYTES ? way : plain;
}

static attention_args args_of(const attention *a, const attention_way *way) {
  attention_args made = {.q = operand_of(&a->q),
                         .k = operand_of(&a->k),
                         .v = operand_of(&a->v),
                         .past_k = operand_of(&a->past_k),
                         .past_v = operand_of(&a->past_v),
                         .y_batch = a->y.batch,
                         .y_head = a->y.head,
                         .y_row = a->y.row,
                         .batch = a->batch,
                         .kv_heads = a->kv_heads,
                         .shared = a->heads / a->kv_heads,
                         .queries = a->queries,
                         .size = a->size,
                         .value_size = a->value_size,
                         .past = a->past,
                         .total = a->total,
                         .splits = 1,
                         .mask_keys = a->mask_keys,
                         .before = a->before,
                         .after = a->after,
                         .scale = a->scale,
                         .softcap = a->softcap,
                         .hidden = a->hidden,
                         .outside = a->outside,
                         .low = ATTENTION_LOW,
                         .mask_dtype = a->mask_dtype,
                         .nan_rows = (int32_t)a->nan_rows,
                         .to_last_key = a->to_last_key,
                         .mode = (int32_t)a->mode,
                         .q_pitch = way->q_pitch,
                         .v_pitch = way->v_pitch,
                         .ahead = way->ahead};
  memcpy(made.mask_strides, a->mask_strides, sizeof made.mask_strides);
  made.row_tiles = parts(made.shared * a->queries, way->rows);
  made.column_tiles = a->value_size ? parts(a->value_size, way->columns) : 1;
  made.split_keys = a->total;
  return made;
}

/* Splits the keys over blocks while there are few blocks. */
static void split(attention_args *made, int64_t tile_keys) {
  const int64_t blocks = made->batch * made->kv_heads * made->row_tiles * made->column_tiles;
  int64_t splits = made->total / SPLIT_KEYS;
  if (splits > ENOUGH_BLOCKS / blocks) splits = ENOUGH_BLOCKS / blocks;
  if (splits < 2) return;
  made->split_keys = parts(parts(made->total, splits), tile_keys) * tile_keys;
  made->splits = parts(made->total, made->split_keys);
}

/* `at`: where the sums of all rows and splits lie in the workspace; the parts lie behind them. */
static void add_join(cuda_plan *plan, const attention_args *from, bool wide, int64_t rows, int64_t at, int64_t sums,
                     int64_t parts_bytes) {
  const attention_join_args made = {.rows = rows,
                                    .y_batch = from->y_batch,
                                    .y_head = from->y_head,
                                    .y_row = from->y_row,
                                    .kv_heads = from->kv_heads,
                                    .shared = from->shared,
                                    .queries = from->queries,
                                    .value_size = from->value_size,
                                    .total = from->total,
                                    .splits = from->splits,
                                    .dtype = (int32_t)from->q.dtype,
                                    .nan_rows = from->nan_rows};
  const cuda_kernel_id kernel = wide ? CUDA_attention_join_f64 : CUDA_attention_join_f32;
  cuda_plan_each(plan, kernel, rows * from->value_size, &made);
  CUDA_PART(plan, attention_join_args, sums, CUDA_FROM_WORKSPACE, 0, at, sums, false);
  CUDA_PART(plan, attention_join_args, parts, CUDA_FROM_WORKSPACE, 0, at + cuda_round_up(sums), parts_bytes, false);
  CUDA_OUTPUT(plan, attention_join_args, y, 0);
}

/* The tiles' launch and, for splits, the one that joins them. Returns the bytes of workspace. */
static int64_t add_tiles(cuda_plan *plan, const attention *a, bool scored) {
  const attention_way way = way_of(plan->call, a, scored);
  attention_args made = args_of(a, &way);
  const bool wide = a->q.dtype == REED_F64, keeps = scored && a->mode == 3;
  const int64_t bytes = wide ? 8 : 4, rows = a->batch * a->heads * a->queries;
  if (!scored) split(&made, way.keys);
  cuda_plan_launch(plan, way.kernel, a->batch * a->kv_heads * made.row_tiles * made.column_tiles * made.splits,
                   way.shared_bytes, &made);
  add_operand(plan, offsetof(attention_args, q.data), a, 0, &a->q, a->heads, a->queries, a->size);
  add_operand(plan, offsetof(attention_args, k.data), a, 1, &a->k, a->kv_heads, a->keys, a->size);
  add_operand(plan, offsetof(attention_args, v.data), a, 2, &a->v, a->kv_heads, a->keys, a->value_size);
  add_operand(plan, offsetof(attention_args, past_k.data), a, 4, &a->past_k, a->kv_heads, a->past, a->size);
  add_operand(plan, offsetof(attention_args, past_v.data), a, 5, &a->past_v, a->kv_heads, a->past, a->value_size);
  if (a->mask_dtype != REED_NONE) CUDA_INPUT(plan, attention_args, mask, 3);
  if (a->has_lengths) CUDA_INPUT(plan, attention_args, lengths, 6);
  if (scored) CUDA_OUTPUT(plan, attention_args, scores, 3);
  const int64_t kept = keeps ? cuda_round_up(rows * a->total * bytes) : 0;
  if (keeps) CUDA_PART(plan, attention_args, kept, CUDA_FROM_WORKSPACE, 0, 0, rows * a->total * bytes, true);
  /* y may lie over q, which the blocks of all splits and columns read */
  if (made.splits == 1 && made.column_tiles == 1) {
    CUDA_OUTPUT(plan, attention_args, y, 0);
    return kept;
  }
  const int64_t sums = rows * made.splits * 2 * bytes, parts_bytes = rows * made.splits * a->value_size * bytes;
  CUDA_PART(plan, attention_args, sums, CUDA_FROM_WORKSPACE, 0, kept, sums, true);
  CUDA_PART(plan, attention_args, parts, CUDA_FROM_WORKSPACE, 0, kept + cuda_round_up(sums), parts_bytes, true);
  if (a->value_size) add_join(plan, &made, wide, rows, kept, sums, parts_bytes);
  return kept + cuda_round_up(sums) + parts_bytes;
}

reed_status cuda_prepare_attention(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  attention a;
  reed_status status = attention_read(call, &a);
  if (status) return status;
  const bool scored = call->n_outputs > 3 && call->outputs[3].dtype != REED_NONE && a.total > 0;
  int64_t workspace = 0;
  add_present(&plan, &a, 1, a.size);
  add_present(&plan, &a, 2, a.value_size);
  if (a.batch && a.heads && a.queries && (a.value_size || scored)) workspace = add_tiles(&plan, &a, scored);
  status = cuda_plan_close(&plan, workspace, out_kernel);
  out_kernel->reads_rooms = status == REED_OK && attention_reads_rooms(call);
  return status;
}
