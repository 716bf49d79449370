/* What bn_fold and fusion share: products (convolutions, matrix products) with constant weights, and per-channel
 * constants. */
#ifndef COMPILER_IR_CONSTANT_WEIGHTS_H_
#define COMPILER_IR_CONSTANT_WEIGHTS_H_

#include "compiler/ir/ir.h"

/* The node that makes v, provided it is in the same graph as `user`, v is its output 0 and the only one in use, v's
 * only use is `user`, and no activation has been fused to it; NULL otherwise. Needs ir_count_uses. */
ir_node *weights_only_for(const ir_value *v, const ir_node *user);
/* The same where it is a Conv, ConvTranspose, Gemm or MatMul. */
ir_node *weights_product(const ir_value *v, const ir_node *user);
/* Axis of the output channels of that product's result; -1: rank not known. */
int32_t weights_channel_axis(const ir_node *product);
/* Number of output channels, where it is a number; -1. */
int64_t weights_channels(const ir_node *product);
/* True when constant v, seen under broadcasting to rank `rank`, varies along the channel axis only: its n_channels
 * numbers are put in out_numbers (one number spread over all of them counts). */
bool weights_per_channel(const ir_value *v, int32_t rank, int32_t axis, int64_t n_channels, double *out_numbers);
/* Removes `user`, the only user of n's outputs: n gives user's output 0 in place of its own, and runs where user stood.
 */
void weights_absorb(ir_node *n, ir_node *user);
/* The product's bias as numbers (0 where it has none); false: it has one that is no constant of that many numbers. */
bool weights_bias(const ir_node *product, int64_t n_channels, double *out_numbers);
/* Sets the product's bias to these numbers (dtype of the product's result). A Gemm's beta becomes 1. false: no memory.
 */
bool weights_set_bias(ir_node *product, int64_t n_channels, const double *numbers);

#endif
