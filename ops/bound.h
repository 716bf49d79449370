/* The rules of ops/bound.def: which operators may run on a tensor whose extent along one axis only the device knows
 * yet. */
#ifndef OPS_BOUND_H_
#define OPS_BOUND_H_

#include "ops/op.h"

/* An operand as the rules need it. Dims are numbers or symbols; equal() tells which are provably the same extent. */
typedef struct bound_operand {
  int32_t rank; /* -1: absent or unknown */
  const reed_dim *dims;
  uint32_t counter; /* number of the kernel call that reports the extent of `axis`; 0: all extents are known */
  int32_t axis;
  const void *values; /* elements that the host knows; NULL: it knows none */
  int64_t n_values;
  reed_dtype dtype; /* of the values */
} bound_operand;

/* The axis of output 0 whose extent is the inputs' count; -1: the operator needs the count on the host. All inputs with
 * a count must have the same counter. equal NULL: all dims are numbers. */
int32_t bound_output_axis(const reed_op *op, const reed_attrs *attrs, const bound_operand *inputs, int32_t n_inputs,
                          const bound_operand *output, bool (*equal)(void *context, reed_dim a, reed_dim b),
                          void *context);
/* Why the operator needs a count on the host where its rule does not pass the count on; never NULL. */
const char *bound_reason(const reed_op *op);
/* False if this input must never have an extent at its bound, whatever the extents are. */
bool bound_may_pass(const reed_op *op, int32_t input);

#endif
