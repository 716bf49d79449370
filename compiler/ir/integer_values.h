/* Partial evaluation of integer values: the elements that shape arithmetic computes, as numbers or symbols. Shapes
 * themselves are inferred in passes/clean/infer.c. */
#ifndef COMPILER_IR_INTEGER_VALUES_H_
#define COMPILER_IR_INTEGER_VALUES_H_

#include "compiler/ir/ir.h"

/* A limit above the number of elements of any shape arithmetic. */
#define INTEGER_VALUES_MAX 256

/* The elements of v: the known ones, a constant's, or, with make_fresh, fresh symbols for an integer or bool value of
 * known, few extents. Fresh symbols are stored in v, so that two readers of v see the same. NULL: not available, or no
 * memory. */
const reed_dim *integer_values_of(ir_module *m, ir_value *v, bool make_fresh, int64_t *out_n);

/* Computes the elements of n's outputs that follow from those of its inputs. The outputs' types must be set. Fails only
 * without memory. */
reed_status integer_values_compute(ir_module *m, ir_node *n) REED_MUST_CHECK;
/* True when the operator has a rule; elements of other operators' results are unknown. */
bool integer_values_has_rule(const reed_op *op);

/* The number k if `limit` is min(extent, k), however the model computes it, INT64_MAX if it is the extent; -1: it is
 * another value. */
int64_t integer_values_limit(const ir_module *m, reed_dim limit, reed_dim extent);

#endif
