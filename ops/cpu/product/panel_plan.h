/* The plan of a product over packed panels (panels.h), for its two files: panels.c makes it, panel_run.c runs it. */
#ifndef OPS_CPU_PRODUCT_PANEL_PLAN_H_
#define OPS_CPU_PRODUCT_PANEL_PLAN_H_

#include "ops/cpu/common/convert.h"
#include "ops/cpu/product/panel_loops.h"
#include "ops/cpu/product/panels.h"
#include "ops/cpu/product/strassen.h"
#include "ops/cpu/product/whole.h"

#define TILES_MOST 128 /* of a chunk */
#define PIECES_MOST 64 /* of a chunk, each a bit of a word; at most as many as its tiles */
#define COPIED_MOST 16 /* tiles of a copy of X */

/* The depth of a panel runs over tap rows, tap columns, channels. If X has channels first, each channel counts as
 * further tap rows of one channel. */
typedef struct depth_order {
  int64_t tap_rows, tap_columns, channels;
} depth_order;

/* A part of the depth: taps first..first + n of all channels, or part of the channels of one tap. */
typedef struct block {
  int64_t first_tap, n_taps, channel, n_channels;
} block;

/* The offsets of a block's runs, in X itself or in a copy, whose offsets differ by its number of tiles. */
typedef struct run_table {
  bool joined;         /* a row's taps lie one after the other: one run a tap row */
  int64_t row;         /* distance of neighbouring pixels of a tile */
  const int64_t *runs; /* joined: one for each tap row; else one for each tap. Then those of copies of 2 tiles, ... */
} run_table;

struct panel_plan {
  panel_problem p;
  bool by_strassen; /* then only its plan, the team and the bias's elements matter */
  strassen_plan strassen;
  depth_order order;
  bool shallow; /* tiles are */
  bool far_y;   /* Y is larger than the caches */
  int level_rows, level_lanes;
  cpu_team team;
  void (*multiply)(const panel_tile *tile);
  void (*multiply_f32)(const panel_tile *tile); /* the same with f32 weights, into which `widen_weights` turns f16 */
  convert_fn widen_weights;
  void (*release)(void); /* ends a thread's use of `multiply`; or NULL */
  int64_t n_blocks, tiles_per_row, n_tiles, tiles_per_chunk, n_chunks, n_groups; /* groups: of panels */
  int64_t n_pieces; /* of a chunk's tiles. An item of work is a piece by a group */
  int64_t n_parts;  /* pieces of the depth whose sums are added in the end (pieces.h): an item is one of a part */
  activation ends;  /* the problem's activation, if the depth has several parts */
  bool by_depth;    /* a job for each block of depth: an item adds the block's products to Y */
  int64_t rows_least, n_larger; /* rows of a tile; the first n_larger tiles of an image's row have one more */
  int64_t strip_most;           /* tiles */
  int64_t last_whole;           /* the last column of Y whose windows all lie within X's row */
  bool all_copied, some_copied; /* all: X is rounded to pairs as it is copied */
  bool halves;                  /* tiles write bf16, and add a residual of bf16 */
  bool staged;                  /* sums of a chunk stay in f32 in its scratch, other calls with bf16 need it */
  int64_t stage_panels;         /* the panels of a chunk whose sums are staged together; all if none are */
  convert_fn widen, narrow;
  run_table in_place, copied;
  int64_t copied_most;               /* tiles of a copy, at most: more than one only if X is rounded */
  int64_t copy_pixel, copy_elements; /* a copy: [tap rows of a block][copy_span][pixel]; of a tile in the scratch */
  int64_t bias_elements;
  int64_t taps_per_block, channels_per_block;
  int64_t offsets[]; /* of the run tables */
};

static inline block block_at(const panel_plan *plan, int64_t i) {
  int64_t taps = plan->order.tap_rows * plan->order.tap_columns;
  if (plan->channels_per_block < plan->order.channels) {
    int64_t pieces = (plan->order.channels + plan->channels_per_block - 1) / plan->channels_per_block;
    block b = {i / pieces, 1, i % pieces * plan->channels_per_block, plan->channels_per_block};
    if (b.channel + b.n_channels > plan->order.channels) b.n_channels = plan->order.channels - b.channel;
    return b;
  }
  block b = {i * plan->taps_per_block, plan->taps_per_block, 0, plan->order.channels};
  if (b.first_tap + b.n_taps > taps) b.n_taps = taps - b.first_tap;
  return b;
}

static inline int64_t taps_of(const panel_plan *plan) { return plan->order.tap_rows * plan->order.tap_columns; }

/* Pixels of a row of a copy of so many tiles. */
static inline int64_t copy_span(const panel_plan *plan, int64_t tiles) {
  const panel_problem *p = &plan->p;
  return (tiles * plan->level_rows - 1) * p->stride[2] + (p->taps[2] - 1) * p->dilation[2] + 1;
}

/* Pixels of Y of a chunk, at most. */
static inline int64_t chunk_pixels(const panel_plan *plan) { return plan->tiles_per_chunk * plan->level_rows; }
/* Columns of a chunk's staged sums. */
static inline int64_t stage_row(const panel_plan *plan) { return plan->stage_panels * PACKED_WIDTH; }

/* Bytes of a weight, or of a pair. */
static inline int64_t weight_bytes(const panel_plan *plan) {
  return plan->p.weights_f16 ? (int64_t)sizeof(uint16_t) : (int64_t)sizeof(float);
}

static inline int64_t depth_of(const panel_plan *plan) {
  return plan->order.tap_rows * plan->order.tap_columns * plan->order.channels;
}

static inline int64_t copies_elements(const panel_plan *plan) {
  return plan->some_copied ? plan->tiles_per_chunk * plan->copy_elements : 0;
}

static inline int64_t stage_elements(const panel_plan *plan) {
  return plan->staged ? chunk_pixels(plan) * stage_row(plan) : 0;
}

/* A panel's block of depth in f32, if it is f16. */
static inline int64_t widened_elements(const panel_plan *plan) {
  return plan->p.weights_f16 ? plan->taps_per_block * plan->channels_per_block * PACKED_WIDTH : 0;
}

/* The sums of all parts of the depth. */
static inline int64_t parts_elements(const panel_plan *plan) {
  return plan->n_parts > 1 ? plan->n_parts * plan->p.out[2] * plan->p.outputs : 0;
}

static inline int64_t thread_elements(const panel_plan *plan) {
  return copies_elements(plan) + stage_elements(plan) + widened_elements(plan);
}

#endif
