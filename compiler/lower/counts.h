/* Counts that stay on the device while epochs are cut (lower.h). */
#ifndef COMPILER_LOWER_COUNTS_H_
#define COMPILER_LOWER_COUNTS_H_

#include "compiler/lower/flow.h"

/* The version whose count an operator of block b may follow at its bound, if it runs in the epoch that computes it: all
 * counted inputs have the same count and the operator's rule passes their axes on. NULL: none, or the module fetches
 * every count. */
flow_version *counts_operator(const flow *f, const flow_block *b, const ir_node *n);
/* Input i is a version whose extent a kernel reports. */
bool counts_is_input(const flow *f, const ir_node *n, int32_t i);
/* The axis of output 0 that has the count of `from`, which counts_operator gave. */
int32_t counts_output_axis(const flow *f, const ir_node *n, const flow_version *from);

#endif
