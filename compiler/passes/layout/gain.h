/* The time that convolutions save with channels last. */
#ifndef COMPILER_PASSES_LAYOUT_GAIN_H_
#define COMPILER_PASSES_LAYOUT_GAIN_H_

#include "compiler/ir/ir.h"

/* The elements that could be turned in the time that a Conv or ConvTranspose takes less with channels last than with
 * channels second. `turns_input`: it reads input 0 with channels last, too. */
double layout_conv_gain(const ir_module *m, const ir_node *n, bool turns_input);

/* The elements that could be turned in the time that a Conv of few channels and outputs over a sequence takes more with
 * channels last; 0 of another node. */
double layout_conv_loss(const ir_node *n);

#endif
