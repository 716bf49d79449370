/* Products of f32 over plain matrices: Y = activation(scale * A * B + bias + residual), for the matrices of a batch. A
 * few rows, or one column, are computed as fast as the larger matrix is read (matrix_loops.h); other products fill
 * panels of B as they go (blocks.h). A plan is plain data: no memory of its own, no preparation but arithmetic. */
#ifndef OPS_CPU_PRODUCT_MATRIX_H_
#define OPS_CPU_PRODUCT_MATRIX_H_

#include "ops/cpu/product/blocks.h"

typedef enum matrix_form {
  MATRIX_ROWS,   /* few rows, the elements of B's rows are adjacent */
  MATRIX_DOTS,   /* few rows, the elements of B's columns are adjacent */
  MATRIX_COLUMN, /* one column: dots of A's rows */
  MATRIX_BLOCKS
} matrix_form;

typedef struct matrix_plan {
  /* the problem; Y is dense [parts][rows][columns] */
  int64_t parts, rows, depth, columns;
  int64_t a_row; /* distance of A's rows, whose elements are adjacent */
  int64_t b_row, b_column;
  float scale;
  activation activation;
  /* chosen by matrix_plan_init */
  matrix_form form;
  block_plan blocks;               /* MATRIX_BLOCKS */
  int64_t chunk_columns, n_chunks; /* else; of a part */
  int64_t block_depth;             /* of a job */
  cpu_team team;
} matrix_plan;

/* bias: one for each column; residual: like y. Both may be NULL. */
typedef struct matrix_operands {
  const float *a, *b, *bias, *residual;
  float *y;
  /* distances from a and b to a part's; NULL: there is one part */
  void (*place)(const void *context, int64_t part, int64_t *out_a, int64_t *out_b);
  const void *context;
} matrix_operands;

/* Chooses the rest of a plan whose problem is filled in. */
void matrix_plan_init(matrix_plan *plan, cpu_team team);
/* The pieces into which the depth of such a product is best cut (pieces.h); 1: its chunks are short without them. */
int64_t matrix_plan_pieces(const matrix_plan *plan);
int64_t matrix_plan_workspace_bytes(const matrix_plan *plan);
/* Any number of threads may run a plan, each with a workspace of its own. */
REED_MUST_CHECK reed_status matrix_plan_run(const matrix_plan *plan, const matrix_operands *operands, void *workspace);

#endif
