/* Filters: rows = NonZero(mask) as a list, Gather(data, rows). What is computed from filtered rows element by element
 * can be computed from all rows as well, and filtered then; so the filter moves down, to where several become one or
 * none is needed. */
#ifndef COMPILER_PASSES_REWRITE_ROW_FILTER_H_
#define COMPILER_PASSES_REWRITE_ROW_FILTER_H_

#include "compiler/ir/ir.h"

/* A filter moves down only where it looks at this many rows at most, provably: all rows are computed from then on. */
#define FILTER_MOST_ROWS ((int64_t)1 << 18)

typedef struct filter {
  ir_node *finder; /* the NonZero */
  ir_value *mask;  /* bool, one element a row */
} filter;

/* The list of rows is what a filter found, in order; false: it is not. */
bool filter_by_rows(const ir_module *m, const ir_value *rows, filter *out_filter);
/* The filter whose rows v is computed from; false: none is found. */
bool filter_behind(const ir_module *m, const ir_value *v, filter *out_filter);
/* v[i] is computed from kept row i alone, and could be from any row: v = Gather(filter_undo(v), rows). */
bool filter_can_undo(const ir_module *m, const filter *f, const ir_value *v);
/* That value, made of new nodes in front of `place`; NULL: no memory. Only where filter_can_undo. */
ir_value *filter_undo(const filter *f, ir_value *v, ir_node *place);

/* Looks at every use of v, and of what `follows` it, anywhere in the module (ir_count_uses has been called). For each,
 * `use` says how it is: FOLLOW: by what it makes; FINE; WRONG. true: none is wrong, and v is no result of a graph. */
typedef enum filter_use { FILTER_WRONG, FILTER_FINE, FILTER_FOLLOW } filter_use;
typedef filter_use (*filter_use_fn)(void *context, ir_node *user, int32_t input);
bool filter_uses_are_fine(ir_module *m, const ir_value *v, filter_use_fn use, void *context);

#endif
