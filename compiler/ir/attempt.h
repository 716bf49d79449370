/* Attempts of a pass at one node after another. */
#ifndef COMPILER_IR_ATTEMPT_H_
#define COMPILER_IR_ATTEMPT_H_

#include "compiler/ir/ir.h"

/* For passes that rely on extents being equal. Calls visit for every live node in order, as a deep ir_walk does; what a
 * visit has assumed of declared names is taken back where it changed nothing: *n_changes, which the pass counts, is as
 * before. */
typedef reed_status (*pass_visit)(void *context, ir_node *n);
reed_status pass_try_each(ir_module *m, pass_visit visit, void *context, const int64_t *n_changes) REED_MUST_CHECK;
/* The same for these nodes, from the last one back; dead ones are left out. */
reed_status pass_try_back(ir_module *m, ir_node *const *nodes, size_t n, pass_visit visit, void *context,
                          const int64_t *n_changes) REED_MUST_CHECK;

#endif
