/* Values column by column: the program of one FusedColumns (ops/fused.h) while the pass `columns` writes it.
 *
 * A column is the elements of a tensor at one place for each row of the result (`column_spot`). Its value is found
 * backwards, through operators that only move elements and through element-wise ones, which become steps, to leaves:
 * columns of tensors that stay. */
#ifndef COMPILER_PASSES_FUSE_COLUMN_VALUES_H_
#define COMPILER_PASSES_FUSE_COLUMN_VALUES_H_

#include "compiler/ir/ir.h"
#include "ops/fused.h"

#define CONE_NODES 96
#define COLUMN_PASSED (8 * CONE_NODES)

/* The place of a column along one axis of a tensor: at element `start` for all rows (row < 0), or at element start +
 * step i for place i along axis `row` of the rows. span > 1: the tensor's axis is the rows' axes row .. row + span - 1
 * in one, with start 0 and step 1. */
typedef struct column_place {
  int32_t row, span;
  int64_t start, step;
} column_place;

typedef struct column_spot {
  ir_value *v;
  column_place at[REED_MAX_RANK]; /* for each axis of v */
} column_spot;

/* A column that is read from memory: column `column` of v seen with the extents `dims`, whose last one is the width. */
typedef struct column_leaf {
  ir_value *v;
  int32_t rank;
  reed_dim dims[REED_MAX_RANK];
  int64_t column, width;
} column_leaf;

typedef struct column_step {
  ir_node *n;
  column_spot spot; /* of n's output */
  int32_t operands[FUSED_OPERANDS];
} column_step;

typedef struct column_program {
  ir_module *m;
  bool no_memory;
  bool full; /* there are more steps or leaves than a program may have; every value is COLUMN_NONE then */
  ir_node *cone[CONE_NODES]; /* the operators that may be looked through; cone[0] is the last one */
  int32_t n_cone;
  int32_t n_rows; /* axes of the rows, and their extents */
  reed_dim rows[REED_MAX_RANK];
  int32_t n_leaves, n_steps, n_passed;
  column_leaf leaves[FUSED_INPUTS];
  column_step steps[FUSED_STEPS];
  ir_node *passed[COLUMN_PASSED]; /* the operators that were looked through, some of them more than once */
  int32_t split;                  /* axis of the rows that a tensor has as several axes; -1: none */
  int32_t n_parts;
  reed_dim parts[REED_MAX_RANK]; /* of the axis `split` */
} column_program;

enum { COLUMN_NONE = -1, COLUMN_STEPS = FUSED_INPUTS /* the number of step 0's value */ };

/* The kinds of operators that are looked through. */
bool column_moves(const ir_node *n);
bool column_is_view(const ir_node *n);
/* The number of the value at the spot: of a leaf, or COLUMN_STEPS + j for step j. COLUMN_NONE: it is none of a program;
 * the program is then as it was, but for `split`, which asks for other rows. */
int32_t column_value(column_program *p, const column_spot *spot);

#endif
