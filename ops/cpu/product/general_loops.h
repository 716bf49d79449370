/* Loops of general products (ops/cpu/product/general.h), compiled once per CPU level, for f32 and f64. Distances are in
 * elements. Sums add their products one after the other, in the order of the depth, but for general_deep and
 * general_dots. */
#ifndef OPS_CPU_PRODUCT_GENERAL_LOOPS_H_
#define OPS_CPU_PRODUCT_GENERAL_LOOPS_H_

#include <stdbool.h>
#include <stdint.h>
#include "ops/cpu/common/cpu.h"

#define GENERAL_FEW_ROWS 4  /* the most rows of general_few */
#define GENERAL_DOTS_ROWS 8 /* that general_dots reads side by side */
#define GENERAL_COLUMNS 32  /* of a panel, at most */

/* Y (+)= A * B, of `depth` steps of the depth. */
typedef struct general_tile {
  const void *a, *b;
  void *y;
  int64_t rows, depth, columns;
  int64_t a_row, a_column, b_row, y_row; /* the elements of a row of B, and of Y, are adjacent */
  const void *bias;                      /* only of general_multiply: added to each row; or NULL */
  bool first;                            /* Y is not read */
  int64_t lines_ahead;                   /* A's rows follow each other in memory: so many lines for a step of the depth
                                            are fetched ahead. Else 0 */
} general_tile;

/* Columns of a panel: whole vectors. Of f32 for products of few columns. */
CPU_LOOP(int64_t, general_columns_f32, (void));
CPU_LOOP(int64_t, general_columns_f64, (void));
/* Columns of a vector. */
CPU_LOOP(int64_t, general_lanes_f32, (void));
CPU_LOOP(int64_t, general_lanes_f64, (void));
/* For any number of rows and at most a panel of columns. B's rows are whole vectors, also of the last columns. */
CPU_LOOP(void, general_multiply_f32, (const general_tile *tile));
CPU_LOOP(void, general_multiply_f64, (const general_tile *tile));
/* For at most GENERAL_FEW_ROWS rows and any number of columns. Reads B once, in the order of its memory. */
CPU_LOOP(void, general_few_f32, (const general_tile *tile));
CPU_LOOP(void, general_few_f64, (const general_tile *tile));
/* For at most GENERAL_FEW_ROWS rows and a vector of columns: a sum has several strands, which are added at its end. B's
 * rows are read as far as Y's columns go. */
CPU_LOOP(void, general_deep_f64, (const general_tile *tile));
/* One column; the elements of A's rows and of B are adjacent. The sum of a row has its products in the order of vectors
 * and is added to Y, so that it depends on the ends of the depth's parts. */
CPU_LOOP(void, general_dots_f64, (const general_tile *tile));
/* panel[k * width + j] = b[j * b_column + k] for k < depth and j < n, 0 for n <= j < width */
CPU_LOOP(void, general_turn_f32,
         (const void *b, int64_t b_column, int64_t depth, int64_t n, int64_t width, void *panel));
CPU_LOOP(void, general_turn_f64,
         (const void *b, int64_t b_column, int64_t depth, int64_t n, int64_t width, void *panel));

/* Y = scale * Y + c_scale * C */
typedef struct general_end {
  double scale, c_scale;
  const void *c; /* or NULL */
  void *y;
  int64_t rows, columns, y_row, c_row;
  bool c_column; /* the elements of a row of C are adjacent; else they are one */
} general_end;
CPU_LOOP(void, general_finish_f32, (const general_end *end));
CPU_LOOP(void, general_finish_f64, (const general_end *end));

#endif
