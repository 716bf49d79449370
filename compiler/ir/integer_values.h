/* Partial evaluation of integer values: what shape arithmetic computes, element by element, as numbers or symbols. */
#ifndef COMPILER_IR_INTEGER_VALUES_H_
#define COMPILER_IR_INTEGER_VALUES_H_

#include "compiler/ir/ir.h"

/* More elements than any shape arithmetic has. */
#define PARTIAL_MAX_ELEMENTS 256

/* Elements of v: known ones, a constant's, or, for an integer or bool value whose extents are known and few, fresh
 * symbols (noted in v, so that two readers of v see the same). NULL: not available, or no memory. */
const reed_dim *partial_elements(ir_module *m, ir_value *v, bool make_fresh, int64_t *out_n);

/* Computes the elements of n's outputs where they follow from what is known of its inputs. Types of the outputs are set
 * already. Only want of memory fails. */
reed_status partial_evaluate(ir_module *m, ir_node *n) REED_MUST_CHECK;
/* The operator is followed; elements that others make are unknown. */
bool partial_has_rule(const reed_op *op);

#endif
