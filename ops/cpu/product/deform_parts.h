/* Parts of the kernels of deformable convolutions, forward and backward: images with channels last, the taps of a block
 * of pixels, products of blocks. */
#ifndef OPS_CPU_PRODUCT_DEFORM_PARTS_H_
#define OPS_CPU_PRODUCT_DEFORM_PARTS_H_

#include "ops/cpu/calls/deform.h"
#include "ops/cpu/common/relay.h"
#include "ops/cpu/common/strided.h"
#include "ops/cpu/product/deform_loops.h"
#include "ops/cpu/product/rates.h"
#include "ops/cpu/product/whole.h"

#define DEFORM_PANEL 64 /* columns of a product that are computed together */
#define DEFORM_LANES 16 /* the widest vector: rows of matrices begin at multiples */

/* Copies of images [N,C,H,W] with channels last, and back. */
void deform_plan_last(const deform *d, cpu_team team, bool back, strided_copy *out_copy);

/* Weights first .. first + n in f32: those of the call, or, of halves, widened into the room. */
const float *deform_weights(const deform *d, const reed_kernel_buffers *buffers, int64_t first, int64_t n, float *room);

/* Block of output pixels `first`.. of an image, for a group of offsets. */
typedef struct deform_block {
  int64_t image, group, first, n;
} deform_block;

/* The masks and the derivatives of a tap's weights, which the backward kernel needs. */
typedef struct deform_slope {
  float mask, weight[4], dy[4], dx[4]; /* weight: without the mask */
} deform_slope;

/* Fills taps [n][d->taps], whose pixels are `channels` elements apart, and, unless NULL, slopes like them. */
void deform_fill_taps(const deform *d, const reed_kernel_buffers *buffers, const deform_block *block, deform_tap *taps,
                      deform_slope *slopes);

/* C = A * B + bias, or C += A * B. Rows of A and C have adjacent elements. B is in panels of DEFORM_PANEL columns, the
 * last of which is read up to a multiple of DEFORM_LANES; bias likewise. */
typedef struct deform_product {
  const float *a, *b, *bias; /* bias may be NULL */
  float *c;
  int64_t rows, depth, columns;
  int64_t a_row, b_row, b_panel, c_row;
  bool add;
  bool pairs; /* of neighbouring depths in bf16, in the places of floats in A and B; depth counts pairs */
} deform_product;

/* The depth is taken in pieces of DEFORM_DEPTH, whose panels stay in a near cache while all rows pass: a product has
 * the same bits as successive products of such pieces, all but the first of which add. */
#define DEFORM_DEPTH 512
void deform_multiply(cpu_level level, const deform_product *p);

/* True if products of this depth, whose factors may be rounded to bf16, take pairs. */
static inline bool deform_takes_pairs(const deform *d, int64_t depth) {
  return d->weight_dtype == REED_BF16 && product_pairs_are_fast(d->level) && depth % 2 == 0;
}

/* to[j * to_row + i] = from[i * from_row + j] for rows of `columns` elements. */
void deform_transpose(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to, int64_t to_row);

#endif
