/* Products of f32 over plain matrices: Y = activation(scale * A * B + biases + residual), for a number of parts of the
 * same extents, such as the matrices of a batch or the groups of an image. A's rows are read in place. B comes in
 * panels (ops/packed.h) that the worker of a chunk fills in its scratch, a block of the depth at a time, by the
 * caller's function: so B may be a matrix in any order, or an image seen through windows. If such a chunk would be
 * long, several threads fill panels first, and share their rows then. A plan is plain data (no memory of its own),
 * extents appear only as counts and distances, and the sums' order depends on none but the depth.
 */
#ifndef OPS_CPU_PRODUCT_BLOCKS_H_
#define OPS_CPU_PRODUCT_BLOCKS_H_

#include "ops/cpu/formulas/activation.h"
#include "ops/cpu/product/panel_loops.h"

enum { BLOCK_ROWS_ONCE = 1024 }; /* whose sums, 256 KiB, stay in the second-level cache */

typedef struct block_plan {
  /* the problem */
  int64_t parts, rows, depth, columns;
  int64_t a_row, y_row; /* distances; the elements of a row are adjacent */
  int64_t b_row; /* distance of B's rows if their elements are adjacent, so that few rows read B in place; or 0 */
  float scale;
  activation activation;
  bool may_share;  /* the workspace may have panels that all threads share */
  bool fills_once; /* up to BLOCK_ROWS_ONCE rows pass a panel before it is filled anew, unless threads would have no
                      work */
  /* chosen by block_plan_init */
  cpu_team team;
  int level_rows;
  void (*multiply)(const panel_tile *tile);
  int64_t block_depth, n_row_chunks, n_panels, worker_floats;
  int64_t step_tiles;    /* of rows, that a step of a long item computes; 0: items are short */
  int64_t shared_panels; /* that are filled together, a block of depth at a time; 0: an item fills for itself */
} block_plan;

/* The operands of a part. bias: one for each column; row_bias: one for each row; residual: like y. These three may be
 * NULL. */
typedef struct block_place {
  const float *a, *b, *bias, *row_bias, *residual;
  float *y;
} block_place;

/* Rows k.. k + depth and columns column.. column + n of a part's B, for a panel [depth][width] in which the columns
 * from n on are 0. */
typedef struct block_range {
  int64_t k, depth, column, n, width;
} block_range;

/* Columns column.. column + n of a finished row of Y. */
typedef struct block_row {
  int64_t part, row, column, n;
  const float *elements;
} block_row;

typedef struct block_operands {
  const void *context;
  void (*place)(const void *context, int64_t part, block_place *out_place);
  void (*fill)(const void *context, const float *b, const block_range *range, float *panel);
  /* writes a row of Y whose elements are not adjacent; NULL: they are, at place.y */
  void (*give)(const void *context, const block_place *place, const block_row *row);
} block_operands;

/* Chooses the rest of a plan whose problem is filled in. */
void block_plan_init(block_plan *plan, cpu_team team);
int64_t block_plan_workspace_bytes(const block_plan *plan);
/* No plan of at most so many rows and so much depth needs more floats of the workspace for a thread. */
int64_t block_worker_floats_most(int64_t rows, int64_t depth);
REED_MUST_CHECK reed_status block_plan_run(const block_plan *plan, const block_operands *operands, void *workspace);

#endif
