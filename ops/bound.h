/* Operators of tensors whose extent along one axis only the device knows yet: ops/bound.def's rules. */
#ifndef OPS_BOUND_H_
#define OPS_BOUND_H_

#include "ops/op.h"

/* An operand as the rules see it: dims are numbers or symbols, equal() says which are provably the same extent. */
typedef struct bound_operand {
  int32_t rank; /* -1: absent or unknown */
  const reed_dim *dims;
  uint32_t counter; /* which kernel reports the extent of `axis`; 0: all extents are known */
  int32_t axis;
} bound_operand;

/* The axis of output 0 whose extent is the count of the inputs, all of which have the same counter if any; -1: the
 * operator needs the count on the host. equal NULL: dims are numbers. */
int32_t bound_output_axis(const reed_op *op, const reed_attrs *attrs, const bound_operand *inputs, int32_t n_inputs,
                          const bound_operand *output, bool (*equal)(void *context, reed_dim a, reed_dim b),
                          void *context);
/* False: no input of the operator may come at its bound, whatever its extents. */
bool bound_may_pass(const reed_op *op, int32_t input);

#endif
