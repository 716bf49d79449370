/* Filters: rows = NonZero(mask) as a list, Gather(data, rows). A value computed from filtered rows element by element
 * can be computed from all rows and filtered afterwards. The passes filter_chain and nms_filter move filters down in
 * this way, to a place where several filters become one or no filter is needed. The passes' common functions are
 * declared here. */
#ifndef COMPILER_PASSES_REWRITE_ROW_FILTER_H_
#define COMPILER_PASSES_REWRITE_ROW_FILTER_H_

#include "compiler/ir/ir.h"

/* A filter moves down only where its mask provably has at most this many rows, because all rows are computed
 * afterwards. */
#define FILTER_MOST_ROWS ((int64_t)1 << 18)

typedef struct filter {
  ir_node *finder; /* the NonZero */
  ir_value *mask;  /* bool, one element for each row */
} filter;

/* Finds the filter from whose rows v is computed. False: there is none. */
bool filter_behind(const ir_module *m, const ir_value *v, filter *out_filter);
/* True when v[i] is computed from kept row i alone by operators that can run on any row: v = Gather(filter_undo(v),
 * rows). */
bool filter_can_undo(const ir_module *m, const filter *f, const ir_value *v);
/* v computed from all rows, by new nodes placed before `place`; NULL: no memory. Only where filter_can_undo. */
ir_value *filter_undo(const filter *f, ir_value *v, ir_node *place);

/* Calls `use` for every use of v anywhere in the module, and for the uses of output 0 of every user that `use` follows.
 * `use` answers FOLLOW (the user's output 0 is checked too), FINE or WRONG. True when no use is WRONG and no checked
 * value is a result of a graph. Needs ir_count_uses. */
typedef enum filter_use { FILTER_WRONG, FILTER_FINE, FILTER_FOLLOW } filter_use;
typedef filter_use (*filter_use_fn)(void *context, ir_node *user, int32_t input);
bool filter_uses_are_fine(ir_module *m, const ir_value *v, filter_use_fn use, void *context);

#endif
