/* Products of matrices with any strides: of f64, and of f32 those that tiles of whole panels (matrix.h, panels.h) serve
 * badly, because Y has few columns. */
#ifndef OPS_CPU_PRODUCT_GENERAL_H_
#define OPS_CPU_PRODUCT_GENERAL_H_

#include "ops/cpu/calls/product.h"

/* True if a product of f32 is best computed here: few columns, many rows, and a depth of one block unless B lies as a
 * panel does, A is turned, or the level's vectors are shorter than the columns that matrix.h computes. */
bool general_product_suits(const product *p);
/* The kernel of a product of f32 or f64 with at least one element and one step of depth, and without a residual.
 * padded: B's rows have whole vectors of 16 elements, of which those beyond Y's columns are 0. */
REED_MUST_CHECK reed_status general_product_prepare(const reed_kernel_call *call, const product *p, bool padded,
                                                    reed_kernel *out_kernel);

#endif
