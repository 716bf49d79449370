/* Counts that stay on the device: which operators run at the bound of a counted input, so that no epoch ends to fetch
 * the count. The cut into epochs itself is in epochs.c. */
#ifndef COMPILER_LOWER_COUNTS_H_
#define COMPILER_LOWER_COUNTS_H_

#include "compiler/lower/flow.h"

/* The version whose count operator n of block b may leave on the device, running at its bound in the epoch that
 * computes the count: all counted inputs of n have this count, and n's rule passes their axes on. NULL: there is none,
 * or the module fetches every count. */
flow_version *counts_operator(const flow *f, const flow_block *b, const ir_node *n);
/* True when input i of n is a version whose extent a kernel reports. */
bool counts_is_input(const flow *f, const ir_node *n, int32_t i);
/* The axis of output 0 that has the count of `from`, which counts_operator gave. */
int32_t counts_output_axis(const flow *f, const ir_node *n, const flow_version *from);

#endif
