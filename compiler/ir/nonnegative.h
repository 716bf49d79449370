/* A proof that no element of a value is negative, from the operators that make the value. */
#ifndef COMPILER_IR_NONNEGATIVE_H_
#define COMPILER_IR_NONNEGATIVE_H_

#include "compiler/ir/ir.h"

/* True when v provably has no element less than 0 (a NaN is not less). False: not known. The search visits a bounded
 * number of operators. */
bool nonnegative_proven(const ir_module *m, const ir_value *v);
/* True when the operator has a rule; results of other operators may have any sign. */
bool nonnegative_has_rule(const reed_op *op);

#endif
