/* The rows of a FusedColumns that are chosen afterwards, for the pass `columns`. */
#ifndef COMPILER_PASSES_FUSE_COLUMN_ROWS_H_
#define COMPILER_PASSES_FUSE_COLUMN_ROWS_H_

#include "compiler/ir/ir.h"

/* Looks for a FusedColumns [n, c] whose only user is a Gather of rows by a choice (TopK, NonMaxSuppression, NonZero),
 * which has no more rows than it chooses from. The rows of its inputs are gathered instead, and the program runs over
 * the chosen rows alone. A row's result does not depend on other rows, so all bits stay. Needs ir_count_uses.
 * ERROR_MEMORY.
 */
reed_status column_rows_choose(ir_module *m, ir_graph *g, int64_t *n_changed) REED_MUST_CHECK;

#endif
