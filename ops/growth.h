/* Operators that give an input new rows, so that the result may lie in the input's own memory: the rows of
 * ops/growth.def. */
#ifndef OPS_GROWTH_H_
#define OPS_GROWTH_H_

#include "ops/op.h"

/* The past is operand `input`; operand `output` is the past with new rows along `axis`. */
typedef struct growth {
  int32_t input, output;
  int32_t axis;    /* below 0: counted from the last axis on */
  bool overwrites; /* new rows take the place of rows of the past; false: they come behind it */
} growth;

/* The axis of a tensor of that rank along which rows come; -1: the tensor has no such axis. */
int32_t growth_axis(const growth *g, int32_t rank);
/* The growth of a call's input; false: the operator gives this input no rows. */
bool growth_of(const reed_op *op, const reed_attrs *attrs, int32_t input, growth *out_growth);

#endif
