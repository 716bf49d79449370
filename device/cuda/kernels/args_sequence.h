/* Args structs (args.h) of the kernels of normalisations, attention, caches and recurrent cells. */
#ifndef DEVICE_CUDA_KERNELS_ARGS_SEQUENCE_H_
#define DEVICE_CUDA_KERNELS_ARGS_SEQUENCE_H_

#include <stdint.h>

#include "device/cuda/kernels/args_map.h"
#include "device/cuda/kernels/counted.h"

/* ---- normalisations over rows (norm_rows.cu) ---- */

/* Of a part of a row: its mean, and the sum of squared distances from it. */
typedef struct norm_part {
  double mean, squares;
} norm_part;

enum { CUDA_NORM_VECTORS = 8 }; /* of 16 bytes, that a thread of norm_dense holds at most */

/* Row r is group r % groups of image r / groups. Its n elements have coordinates below `extents`. */
typedef struct norm_args {
  const void *x, *scale, *shift; /* shift NULL: 0 */
  void *y, *mean, *factor;       /* mean, factor: one element a row; NULL: not wanted */
  int64_t rows, n, groups;
  int64_t x_image, x_group, parameter_group; /* from image to image, group to group; of scale and shift */
  int64_t extents[CUDA_DIMS], x_strides[CUDA_DIMS], scale_strides[CUDA_DIMS], shift_strides[CUDA_DIMS];
  double epsilon;
  map_step activation; /* formula OP_Identity: none */
  int32_t rank, dtype, scale_dtype, shift_dtype, stash_dtype, centred;
  norm_part *parts;       /* per row and split; NULL: one split */
  int32_t lanes;          /* threads a row or split: 32 or the block's */
  int32_t splits;         /* blocks a row */
  counted_extent counted; /* a factor of the rows */
} norm_args;

/* ---- Attention (attention.cu) ---- */

/* A tensor [batch, heads, length, size]; strides in elements, the last one is 1. */
typedef struct attention_operand {
  const void *data;
  int64_t batch, head, row;
  int64_t dtype;
} attention_operand;

/* Tiles of the kernels on tensor cores: a word has one f32 or two halves. */
enum {
  ATTENTION_MMA_ROWS = 64,   /* four warps of 16 */
  ATTENTION_FEW_ROWS = 16,   /* each warp has them, and a quarter of the keys */
  ATTENTION_MMA_KEYS = 32,   /* times the elements in a word */
  ATTENTION_COLUMNS = 128,   /* of the values */
  ATTENTION_NARROW = 64,     /* elements of a head of keys and of values that the kernels for narrow heads take */
  ATTENTION_TILED_ROWS = 64, /* of attention_tiled_f32 */
  ATTENTION_TILED_KEYS = 64,
  ATTENTION_TILED_COLUMNS = 64,
  ATTENTION_TILED_PITCH = 68, /* floats of a row of weights in shared memory */
  ATTENTION_JOIN_MORE = 2     /* words of a warp's row that is joined, after its columns: largest score, weight */
};

/* A block computes a tile of rows of one batch and key head, against the keys of one split: rows are the queries of all
 * heads that share the key head. */
typedef struct attention_args {
  attention_operand q, k, v, past_k, past_v; /* past_k.data NULL: no earlier keys */
  const void *mask;
  const int64_t *lengths;
  void *y, *scores;   /* scores: qk_matmul_output; NULL: not wanted */
  void *kept;         /* masked scores of all rows, for mode 3; NULL: another mode */
  void *sums, *parts; /* per row and split: most and sum; value_size sums of values. NULL: one split */
  int64_t y_batch, y_head, y_row;
  int64_t batch, kv_heads, shared, queries, size, value_size; /* shared: heads of a key head */
  int64_t past, total, splits, split_keys, row_tiles, column_tiles;
  int64_t mask_strides[4], mask_keys, before, after;
  double scale, softcap, hidden, outside, low; /* outside: of keys outside of the windows that no mask <= low hides */
  int32_t mask_dtype, nan_rows, to_last_key, mode;
  int32_t q_pitch,
      v_pitch;   /* tensor cores and attention_tiled_f32: words of a row of Q and K, and of V, in shared memory */
  int32_t ahead; /* tensor cores: 1: there is memory for the next tile of keys, too; 0: for one tile */
} attention_args;

/* Joins the splits of a row of `value_size` columns. */
typedef struct attention_join_args {
  const void *sums, *parts;
  void *y;
  int64_t rows, y_batch, y_head, y_row, kv_heads, shared, queries, value_size, total, splits;
  int32_t dtype, nan_rows;
} attention_join_args;

/* ---- caches (cache.cu) ---- */

/* Copies rows to y. n elements of `size` bytes, coordinates [batch, head, row, element]. */
typedef struct cache_args {
  const void *x;
  void *y;
  int64_t n, extents[4], from[4], to[4];
  int32_t size, unit; /* as in move_args */
} cache_args;

/* TensorScatter: writes the update's rows over rows of y, at a place for each batch. n elements, coordinates [batch,
 * block, row, element]; the blocks of a batch stand before the axis. The n_behind elements of rows beyond the past that
 * no update takes are 0. */
typedef struct tensor_scatter_args {
  const void *update;
  const int64_t *places; /* NULL: 0 */
  void *y;
  int64_t *saved;   /* overwritten_saved_bytes: number of launches, then pieces; NULL: y is not the caller's cache */
  void *saved_rows; /* the elements after the pieces, in the order of the update */
  cuda_fault *fault;
  int64_t n, n_behind, batches, blocks, rows, columns; /* rows: of the update */
  int64_t past, room;                                  /* rows of the cache and of y along the axis */
  int64_t y_block, update_block;                       /* elements from block to block */
  uint32_t launch;
  int32_t size, circular;
} tensor_scatter_args;

/* ---- RotaryEmbedding (rotary.cu): one thread a pair of elements, or an element that is not turned ---- */
typedef struct rotary_args {
  const void *x, *cos, *sin;
  const int64_t *ids; /* with places >= 0: rows of the caches */
  void *y;
  cuda_fault *fault;
  int64_t n, items, heads, length; /* items: of a row: pairs, then single elements */
  int64_t x_batch, x_head, x_row, pairs, apart, step;
  int64_t cache_step, cache_apart, cache_row, cache_batch, places;
  uint32_t launch;
  int32_t dtype;
  int32_t counted_length, head_of_rows; /* flags: the length is counted, not the batch; a head's rows are neighbours */
  counted_extent counted;
} rotary_args;

/* ---- RNN, GRU and LSTM (recurrent.cu): a block a sequence of a direction ---- */

enum { CELL_RNN, CELL_GRU, CELL_LSTM };

/* scale * formula(slope * x) + shift; formula OP_Identity: x itself. */
typedef struct recurrent_function {
  map_step step;
  double slope, scale, shift;
} recurrent_function;

typedef struct recurrent_args {
  const void *r, *bias, *initial_h, *initial_c, *peephole; /* all but r may be NULL */
  const int32_t *lengths;                                  /* NULL: all steps */
  const void *products; /* W x of all steps: [directions][rows of X][gates][hidden] */
  void *state;          /* of blocks whose state is not in shared memory */
  void *y, *y_h, *y_c;  /* NULL: not wanted */
  cuda_fault *fault;
  int64_t directions, steps, sequences, hidden;
  int64_t row_step, row_sequence; /* rows of X from step to step, from sequence to sequence */
  int64_t y_step, y_direction, y_sequence, state_direction, state_sequence;
  double clip;
  recurrent_function functions[2][3];
  uint32_t launch;
  int32_t cell, gates, dtype, in_shared, linear_before_reset, input_forget, backward[2];
} recurrent_args;

#endif
