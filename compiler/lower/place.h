/* Placement: the device of every value.
 *
 * An operator on the host is *early* or *late*. An early one runs in a shape section, because shapes need its result;
 * its operands are keys by their elements. A late one runs in a run section, because the accelerator has no kernel for
 * it; nothing of it is a key but extents. */
#ifndef COMPILER_LOWER_PLACE_H_
#define COMPILER_LOWER_PLACE_H_

#include "compiler/ir/ir.h"

typedef struct place_counts {
  int32_t n_values, n_nodes; /* ids given: every id is below */
  int32_t host_operators, device_operators;
  int32_t late_operators;   /* of the host's */
  int32_t host_loop_values; /* carried values of Loops kept on the host */
} place_counts;

/* Numbers every value (v->id), sets v->device: 0 host, 1 accelerator, -1 constants (both), and v->late. An operator's
 * device is that of its outputs; Shape and Size are on the host. Uses must have been counted (ir_count_uses). */
reed_status place_module(ir_module *m, place_counts *out_counts) REED_MUST_CHECK;
/* Constants made since the module was placed. */
void place_new_constants(ir_module *m, size_t first, place_counts *counts);
/* Where a node's operator runs, after placement: the device of its outputs. */
int32_t place_of_node(const ir_node *n);
/* True for an operator that runs in shape sections: on the host, and not late. */
bool place_is_early(const ir_node *n);
/* What the operator's shape function reads of input i. */
reed_reads place_reads(const ir_node *n, int32_t i);

#endif
