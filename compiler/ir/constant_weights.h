/* Products (convolutions, matrix products) with constant weights, and constants with one number for each channel, for
 * the passes bn_fold, scale_fold, fusion and group_norm. Packed weights are in ops/packed.h. */
#ifndef COMPILER_IR_CONSTANT_WEIGHTS_H_
#define COMPILER_IR_CONSTANT_WEIGHTS_H_

#include "compiler/ir/ir.h"

/* The node that makes v, if it is in the graph of `user`, v is its output 0 and its only used output, `user` is v's
 * only use, and no activation has been fused into the node; otherwise NULL. Needs ir_count_uses. */
ir_node *weights_only_for(const ir_value *v, const ir_node *user);
/* The same for a Conv, ConvTranspose, Gemm or MatMul; NULL for other operators. */
ir_node *weights_product(const ir_value *v, const ir_node *user);
/* The axis of the output channels in the product's result; -1: the rank is not known. */
int32_t weights_channel_axis(const ir_node *product);
/* The number of output channels; -1: not known. */
int64_t weights_channels(const ir_node *product);
/* True when constant v, broadcast to rank `rank`, varies along the channel axis only. Its n_channels numbers are put in
 * out_numbers; a constant of one element gives its number for every channel. */
bool weights_per_channel(const ir_value *v, int32_t rank, int32_t axis, int64_t n_channels, double *out_numbers);
/* Removes `user`, the only user of n's outputs: n gives user's output 0 instead of its own and moves to user's place in
 * the graph. */
void weights_absorb(ir_node *n, ir_node *user);
/* The product's bias as numbers (0 without a bias), multiplied by a Gemm's beta. False: the bias is not a constant of
 * n_channels numbers. */
bool weights_bias(const ir_node *product, int64_t n_channels, double *out_numbers);
/* Sets the product's bias to these numbers, in the dtype of the product's result. A Gemm's beta becomes 1. False: no
 * memory. */
bool weights_set_bias(ir_node *product, int64_t n_channels, const double *numbers);
/* True when the product's weights are constant and have n_channels output channels. */
bool weights_fit(const ir_node *product, int64_t n_channels);

typedef enum weights_side { WEIGHTS_INPUT, WEIGHTS_OUTPUT } weights_side;

/* The channel of the product's input or output to which element i of its weights belongs; w: their extents. */
int64_t weights_channel_of(const ir_node *product, weights_side side, const reed_desc *w, int64_t i);
/* Makes a copy of the product's constant weights, each element times the factor of its channel on that side. */
reed_status weights_scale(const ir_node *product, weights_side side, const double *factor,
                          ir_value **out_weights) REED_MUST_CHECK;

#endif
