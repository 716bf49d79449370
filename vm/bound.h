/* Counted registers (one extent is reported by a kernel and not fetched yet) as operands of further calls
 * (docs/epochs.md, "Extent and capacity"). */
#ifndef VM_BOUND_H_
#define VM_BOUND_H_

#include "bytecode/operands.h"
#include "ops/call.h"
#include "vm/run.h"

/* True for a tensor whose kernel reports an extent that has not been fetched: pending, or shaped for such a kernel. */
static inline bool bound_is_counted(const ref *r) {
  return r->bounded_axis >= 0 && (r->kind == REF_SHAPED || r->kind == REF_PENDING);
}

/* The count of a bounded tensor: ref.counter and ref.factor. counter 0: the call's own kernel reports it. */
typedef struct bound_count {
  uint32_t counter, factor;
} bound_count;

/* The first counted input; NULL: no input is counted. */
const ref *bound_first(const vm_run *run, const uint32_t *inputs, uint32_t n_inputs);

/* After the shape function of a call with counted inputs has run at their bound: the outputs' bounded_axis becomes the
 * axis that has a count, and *out_count tells which. Fails where the operator needs a count on the host
 * (ops/bound.def). `call` has the extents of the registers in `inputs`, but an extent of 2 in place of a bound of 1,
 * which could stand on any axis of extent 1; `at_two` is its output 0. */
reed_status bound_outputs(vm_run *run, const uint32_t *inputs, const op_call *call, const reed_shape_output *at_two,
                          reed_shape_output *outputs, bound_count *out_count) REED_MUST_CHECK;

/* The rooms of a call's operands while its epoch is planned. False: no operand has one, and the rooms are not written.
 */
bool bound_rooms(const vm_run *run, const insn_invoke *call, reed_room *out_input_rooms, reed_room *out_output_rooms);

#endif
