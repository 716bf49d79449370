/* The element-wise operators that may be steps of a fused program (ops/fused.h), for the passes `chains` and `columns`.
 */
#ifndef COMPILER_PASSES_FUSE_MEMBERS_H_
#define COMPILER_PASSES_FUSE_MEMBERS_H_

#include "compiler/ir/ir.h"

/* True if n is element-wise and may be a step: its dtypes are known, its result is no shape arithmetic, and no operand
 * of its kind needs the operator's own error. */
bool member_may_join(const ir_node *n);
/* The number of steps of n: a variadic operator is applied to two inputs at a time. */
int32_t member_steps(const ir_node *n);
/* True for known extents with so few elements that the value may be shape arithmetic, and fusing it saves nothing. */
bool member_is_small(const ir_value *v);
/* A constant for an absent bound of Clip: infinity in the dtype, negative for the least. NULL: no memory. */
ir_value *member_no_bound(ir_module *m, reed_dtype dtype, bool least);

#endif
