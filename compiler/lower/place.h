/* Placement: the device of every value. Times are decided later (flow.h).
 *
 * An operator on the host is *early* or *late*. An early operator runs in a shape section, because shapes depend on its
 * result; the elements of its operands are keys. A late operator runs in a run section, because the accelerator has no
 * kernel for it; only extents of its operands are keys. */
#ifndef COMPILER_LOWER_PLACE_H_
#define COMPILER_LOWER_PLACE_H_

#include "compiler/ir/ir.h"

typedef struct place_counts {
  int32_t n_values, n_nodes; /* numbers of ids given to values and nodes */
  int32_t host_operators, device_operators;
  int32_t late_operators;   /* of the host_operators */
  int32_t host_loop_values; /* carried values of Loops kept on the host */
} place_counts;

/* Numbers every value (v->id) and node, and sets v->late and v->device: 0 host, 1 accelerator, -1 constants (both). An
 * operator's device is the device of its outputs; Shape and Size are on the host. Needs ir_count_uses. */
reed_status place_module(ir_module *m, place_counts *out_counts) REED_MUST_CHECK;
/* Numbers and places the constants made since place_module; `first` is the index of the first one. */
void place_new_constants(ir_module *m, size_t first, place_counts *counts);
/* The device on which a placed node runs: the device of its outputs. */
int32_t place_of_node(const ir_node *n);
/* True for an early operator: on the host, and in a shape section. */
bool place_is_early(const ir_node *n);
/* The part of input i that the operator's shape function reads. */
reed_reads place_reads(const ir_node *n, int32_t i);

#endif
