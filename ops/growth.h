/* Operators that join new rows to the rows of an input, so that the result may grow in the input's own memory: the rows
 * of ops/growth.def. */
#ifndef OPS_GROWTH_H_
#define OPS_GROWTH_H_

#include "ops/op.h"

/* The past is operand `input`; operand `output` is the past with new rows behind it along `axis`. */
typedef struct growth {
  int32_t input, output;
  int32_t axis; /* below 0: counted from the last axis on */
} growth;

/* The growth of a call's input; false: the operator joins nothing to this input. */
bool growth_of(const reed_op *op, const reed_attrs *attrs, int32_t input, growth *out_growth);

#endif
