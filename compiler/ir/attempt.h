/* Attempts of a pass at one node after another: assumptions about declared names that an attempt makes are taken back
 * if the attempt changes nothing. */
#ifndef COMPILER_IR_ATTEMPT_H_
#define COMPILER_IR_ATTEMPT_H_

#include "compiler/ir/ir.h"

/* For passes that rely on equal extents. Calls visit for every live node in the order of a deep ir_walk. If a visit
 * leaves *n_changes, the pass's count of changes, as it was, the assumptions that the visit made about declared names
 * are taken back. */
typedef reed_status (*pass_visit)(void *context, ir_node *n);
reed_status pass_try_each(ir_module *m, pass_visit visit, void *context, const int64_t *n_changes) REED_MUST_CHECK;
/* The same for the given nodes, from the last one back; dead nodes are left out. */
reed_status pass_try_back(ir_module *m, ir_node *const *nodes, size_t n, pass_visit visit, void *context,
                          const int64_t *n_changes) REED_MUST_CHECK;

#endif
