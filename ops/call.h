/* One call of an operator on numbers, put together once: the shape function's call (shapefn_call) and the kernel's call
 * (op_call_prepare) are both made from it. The owners of the operands are the callers: the vm, the compiler's folding,
 * tests. */
#ifndef OPS_CALL_H_
#define OPS_CALL_H_

#include "ops/capability.h"
#include "ops/facts.h"
#include "ops/kernel.h"

/* An input. The shape function and `prepare` get its elements only if the operator's row lets them read these or the
 * input is a constant, so `data` may be memory that the host cannot read for any other input. */
typedef struct op_call_input {
  const reed_desc *desc; /* NULL: absent */
  const void *data;      /* NULL: no elements, or none on the host */
  bool constant;         /* data is a constant that outlives the prepared kernel */
} op_call_input;

/* Everything is borrowed. */
typedef struct op_call {
  const reed_op *op;
  const reed_attrs *attrs; /* complete (op_attrs_complete) */
  const char *node;        /* for messages */
  int32_t n_inputs, n_outputs;
  const op_call_input *inputs;
  reed_diagnosis *diagnosis; /* NULL allowed */
  bool values_checked;       /* shapefn_values_fit has told that the attributes' values fit the row */
  const op_facts *facts;     /* of the attributes; NULL: none are known */
  /* The members below are for the kernel only. */
  const reed_desc *outputs;                    /* dtype REED_NONE: an absent output */
  const reed_room *input_rooms, *output_rooms; /* per operand; NULL: no operand has room */
  bool reads_counts;                           /* the kernel takes counted rooms and reads the true extents itself */
  reed_kernel_env *env;
  reed_kernel_prepare_fn prepare; /* the device's kernel; NULL: the device has none, and the call is refused */
  const char *device;             /* its name, for messages; NULL: the host */
  const capability *target;       /* the device's list, which must have the call; NULL: not asked */
} op_call;

/* The elements that the shape function may read of an input: NULL if it reads none; never NULL for an input that it
 * reads. */
static inline const void *op_call_value(const op_call *call, int32_t i) {
  const op_call_input *in = &call->inputs[i];
  if (!in->desc || !op_reads_value(call->op, call->attrs, i)) return NULL;
  return in->data ? in->data : "";
}

/* Prepares the call's kernel. An input with a counted room gets a kernel that is prepared for the true extents when
 * they are known (ops/bounded_call.h), unless the kernel reads them itself; an input with room of any other kind is
 * read with strides or copied (ops/room_call.h); a call whose outputs have no elements gets a kernel that does nothing.
 */
reed_status op_call_prepare(const op_call *call, reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
