/* The arithmetic and the memory of a call, for profiles: a floor of its time is the larger of the operations over a
 * machine's peak and the bytes over its memory's rate. Algorithms with fewer operations (Winograd) are not counted as
 * such: the numbers are those of the operator's definition. */
#ifndef OPS_COST_H_
#define OPS_COST_H_

#include "ops/call.h"

typedef struct op_cost {
  const char *kind;  /* a static text: "3x3", "depthwise", "product", ...; NULL: no operator of this file */
  double operations; /* multiplications and additions of products; 0 without a kind */
  int64_t bytes;     /* of all operands; without a kind of the outputs alone, because such an operator may read less */
} op_cost;

/* The cost of a call with complete attributes, inputs and outputs; a counted operand has the extents of its bound. */
op_cost op_cost_of(const op_call *call);

#endif
