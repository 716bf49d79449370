/* One form for all calls that mean the same by ONNX's defaults. */
#ifndef REED_COMPILER_PASSES_CLEAN_SETTLE_H
#define REED_COMPILER_PASSES_CLEAN_SETTLE_H

#include "compiler/ir/ir.h"

/* Gives every node the attributes, and the constant axes or parts, of the node that omits those with ONNX's default,
 * where that default depends on ranks, extents or dtypes. Called after inference, when the types of Loops' bodies hold
 * for every round. */
reed_status settle_calls(ir_module *m) REED_MUST_CHECK;

#endif
