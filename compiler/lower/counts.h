/* Counts that stay on the device: which operators run at the bound of a counted input, so that no epoch ends to fetch
 * the count. The cut into epochs itself is in epochs.c. */
#ifndef COMPILER_LOWER_COUNTS_H_
#define COMPILER_LOWER_COUNTS_H_

#include "compiler/lower/flow.h"

/* A count that an operator leaves on the device. */
typedef struct flow_count {
  flow_version *version; /* one of the operator's inputs that have the count; NULL: the operator needs every extent */
  int32_t axis;          /* the axis of output 0 that has the count */
  const char *why;       /* version NULL: why the host needs the count */
} flow_count;

/* The count that operator n of block b may leave on the device, running at its bound in the epoch that computes the
 * count: all counted inputs of n have this count, n's rule passes their axes on, and the accelerator's list of
 * capabilities says that its kernel reads counts. */
flow_count counts_operator(const flow *f, const flow_block *b, const ir_node *n);
/* Why `consumer`, a node of block b, needs the count of an operand on the host; consumer NULL: the caller needs it.
 * NULL: no memory. */
const char *counts_reason(const flow *f, const flow_block *b, const ir_node *consumer);
/* True when input i of n is a version whose extent a kernel reports. */
bool counts_is_input(const flow *f, const ir_node *n, int32_t i);

#endif
