/* The loops of Strassen's products (strassen.h) besides the products themselves: sums of blocks of A and of B, scaled
 * by powers of two, and the sums of products that make Y. */
#ifndef OPS_CPU_PRODUCT_STRASSEN_LOOPS_H_
#define OPS_CPU_PRODUCT_STRASSEN_LOOPS_H_

#include <stdbool.h>
#include <stdint.h>
#include "ops/cpu/common/cpu.h"
#include "ops/packed.h"

#define STRASSEN_SUMS 4  /* sums of blocks of A, and of B */
#define STRASSEN_APART 5 /* products that are not added to Y at once */

/* Factors of rows of A, or columns of B, that make the largest magnitude at least 1 and less than 2, and their inverses
 * (0 for a row or column of zeros, which thus stays exact). */
typedef struct strassen_scales {
  float by[2][PACKED_WIDTH], back[2][PACKED_WIDTH]; /* [upper or left, lower or right] */
} strassen_scales;

/* A panel and its right neighbour, both [2 * half][PACKED_WIDTH] floats, and the four sums [half][PACKED_WIDTH] one
 * after the other at `sums`. */
typedef struct strassen_columns {
  const float *left, *right;
  float *sums;
  int64_t half;
} strassen_columns;

/* Rows of A: `rows` upper ones and as many lower ones, of 2 * half floats; the four sums of `rows` rows of `half`
 * floats. half: a multiple of 16. */
typedef struct strassen_rows {
  const float *upper, *lower;
  float *sums;
  int64_t rows, half, a_row, sum_row;
} strassen_rows;

/* The products that lie apart, [rows][PACKED_WIDTH] one after the other, and Y, in which the first and second products
 * have been added to the blocks above. first: Y's lower blocks are biases and residuals, else they have earlier sums.
 */
typedef struct strassen_result {
  const float *products;
  const strassen_scales *rows_scales, *columns_scales;
  const float *bias;          /* of 2 * PACKED_WIDTH columns */
  const float *residual;      /* like y, may be y; or NULL */
  float *y;                   /* the upper left block's first element */
  int64_t rows, y_row, lower; /* lower: from y to the lower blocks */
  bool first, relu;
} strassen_result;

/* These two return false, and have written nothing but scales, if a row or column has an element that is not finite or
 * too large to be scaled. */
CPU_LOOP(bool, strassen_add_columns, (const strassen_columns *c, strassen_scales *out_scales));
CPU_LOOP(bool, strassen_add_rows, (const strassen_rows *r, strassen_scales *out_scales));
CPU_LOOP(void, strassen_finish, (const strassen_result *r));

#endif
