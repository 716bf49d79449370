/* Counts that stay on the device: which operators run at the bound of a counted input, so that no epoch ends to fetch
 * the count. The cut into epochs itself is in epochs.c. */
#ifndef COMPILER_LOWER_COUNTS_H_
#define COMPILER_LOWER_COUNTS_H_

#include "compiler/lower/flow.h"

/* A count that an operator leaves on the device. */
typedef struct flow_count {
  flow_version *version; /* an input that has the outputs' count, or any counted input; NULL: the operator needs every
                            extent */
  bool reports;          /* the outputs' count is one that the operator's kernel reports */
  flow_version *same;    /* `reports`: the result of an earlier operator that reports the same count; NULL: none */
  uint32_t factor;       /* the outputs' extent is the count times this */
  int32_t axis;          /* the axis of the outputs that has a count; -1: they have none */
  const char *why;       /* version NULL: why the host needs the count */
} flow_count;

/* The count that operator n of block b may leave on the device, running at the bounds of its counted inputs in the
 * epoch that computes their counts: n's rule passes a count on or says that the kernel reports one, and the
 * accelerator's list of capabilities says that its kernel reads counts. */
flow_count counts_operator(const flow *f, const flow_block *b, const ir_node *n);
/* Why `consumer`, a node of block b, needs the count of an operand on the host; consumer NULL: the caller needs it.
 * NULL: no memory. */
const char *counts_reason(const flow *f, const flow_block *b, const ir_node *consumer);
/* The version that input i of n reads, if a kernel reports its extent; NULL: the extent is known with the epoch's
 * shapes. */
flow_version *counts_input(const flow *f, const ir_node *n, int32_t i);
/* True if a counted input of n is computed before that epoch. */
bool counts_before(const flow *f, const ir_node *n, int32_t epoch);

#endif
