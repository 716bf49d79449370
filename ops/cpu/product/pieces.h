/* Long depths of products with few results: the depth is cut into pieces, which need nothing of each other, and the
 * pieces' sums are added in the order of the pieces. The pieces follow from the extents alone, so that bits do not
 * depend on the number of threads. */
#ifndef OPS_CPU_PRODUCT_PIECES_H_
#define OPS_CPU_PRODUCT_PIECES_H_

#include "ops/cpu/formulas/activation.h"

/* The number of pieces of the depth of a product of so many rows and columns, whose chunks have `width` columns or
 * more. A piece has a depth of at least `least`. 1: the depth stays whole. */
int64_t depth_pieces(int64_t rows, int64_t columns, int64_t width, int64_t depth, int64_t least);
#define PIECE_LEAST 1024 /* writing and adding the sums of a piece then takes less than a hundredth of its time */

/* Y = activation(the sum of the pieces + bias + residual). */
typedef struct piece_sums {
  int64_t n_pieces, rows, columns;
  float *sums;                  /* [pieces][rows][columns]; undefined afterwards */
  const float *bias, *residual; /* one for each column; like y, may be y. Both may be NULL */
  float *y;                     /* dense */
  const activation *activation;
} piece_sums;

reed_status piece_sums_add(const piece_sums *sums, cpu_team team) REED_MUST_CHECK;

#endif
