/* What is provable of the sign of a value's elements, from the operators that make it. */
#ifndef COMPILER_IR_NONNEGATIVE_H_
#define COMPILER_IR_NONNEGATIVE_H_

#include "compiler/ir/ir.h"

/* No element of v can be less than 0 (a NaN is not). false: that is not known. Looks at a bounded number of operators.
 */
bool sign_never_negative(const ir_module *m, const ir_value *v);
/* The operator has a rule of its own; results of the others are taken to have any sign. */
bool sign_has_rule(const reed_op *op);

#endif
