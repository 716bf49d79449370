/* The table of the operators' rules. */
#ifndef COMPILER_PASSES_LAYOUT_RULES_H_
#define COMPILER_PASSES_LAYOUT_RULES_H_

#include "compiler/passes/layout/rule.h"

/* The rule of an operator; NULL: the operator works on its inputs' own orders only. */
const layout_rule *layout_rule_of(const reed_op *op);

#endif
