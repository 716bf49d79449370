/* Weights of a product in half precision, rounded so that the errors of each output's weights cancel. */
#ifndef COMPILER_PASSES_LAYOUT_ROUND_WEIGHTS_H_
#define COMPILER_PASSES_LAYOUT_ROUND_WEIGHTS_H_

#include "compiler/ir/ir.h"
#include "ops/packed.h"

/* Rounds the f32 weights at `plain`, any address, to bf16 or f16 `halves` in the same order. order.plain has the
 * product's extents; its dtype is that of the halves. Sets *out_exceeded if a finite weight is too large for them.
 * REED_ERROR_CANCELLED, or an error if there is no memory. */
reed_status round_weights(ir_module *m, const packed_order *order, const void *plain, uint16_t *halves,
                          bool *out_exceeded);

#endif
