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
  bool follows; /* the reported count follows from those of the inputs */
} bound_count;

/* The output whose extent the kernel of the call reports for output k: output k itself where the operator's row bounds
 * it; otherwise the first one, because all outputs have the same count. */
static inline uint32_t bound_reporter(const reed_op *op, const uint32_t *outputs, uint32_t k) {
  uint32_t first = 0;
  if (reed_op_output_at(op, (int32_t)k)->bounded) return k;
  while (first < k && outputs[first] == MODULE_ABSENT) first++;
  return first;
}

/* The first counted input; NULL: no input is counted. */
const ref *bound_first(const vm_run *run, const uint32_t *inputs, uint32_t n_inputs);

/* After the shape function of a call with counted inputs has run at their bound: the outputs' bounded_axis becomes the
 * axis that has a count, and *out_count tells which. Fails where the operator needs a count on the host
 * (ops/bound.def). `call` has the extents of the registers in `inputs`, but an extent of 2 in place of a bound of 1,
 * which could stand on any axis of extent 1; `at_two` is its output 0. */
reed_status bound_outputs(vm_run *run, uint32_t site, const uint32_t *inputs, const op_call *call,
                          const reed_shape_output *at_two, reed_shape_output *outputs,
                          bound_count *out_count) REED_MUST_CHECK;

/* The counter of the first of the section's `shape`s in calls[0..n) (words of the function's code) whose kernel reports
 * the count that the kernel of `call` reports, too; 0: none. */
uint32_t bound_counter_of(const vm_run *run, const insn_shape *call, int32_t axis, const uint32_t *calls, size_t n);

/* The rooms of a call's operands while its epoch is planned. False: no operand has one, and the rooms are not written.
 */
bool bound_rooms(const vm_run *run, const insn_invoke *call, reed_room *out_input_rooms, reed_room *out_output_rooms);

#endif
