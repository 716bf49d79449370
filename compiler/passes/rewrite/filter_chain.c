/* Joins two filters in a chain: the second mask is computed from rows that the first filter kept, and the second filter
 * takes rows from rows of the first. Both masks can be computed from all rows, so one filter by their And replaces the
 * two: one list of rows is found, and no operator waits for the length of the first list. */
#include "compiler/passes/rewrite/row_filter.h"
#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

typedef struct chaining {
  ir_module *m;
  filter first;             /* the filter before the NonZero that is visited */
  VEC_OF(ir_node *) takers; /* Gathers by the rows that the visited NonZero finds */
  int64_t n_joined;
  bool no_memory;
} chaining;

/* Judges a use of the second filter's list of rows: the list may be viewed, its length may be read, and it may take
 * rows from values computed from rows of the first filter. */
static filter_use use(void *context, ir_node *user, int32_t input) {
  chaining *c = context;
  reed_attrs attrs = ir_attrs(user);
  if (pattern_viewed(user->outputs[0]) == user->inputs[input] && input == 0) return FILTER_FOLLOW;
  if (user->op == op_builtin(OP_Shape) || user->op == op_builtin(OP_Size)) return FILTER_FINE;
  bool takes = user->op == op_builtin(OP_Gather) && input == 1 && op_attr_int(&attrs, "axis") == 0 &&
               user->inputs[1]->type.rank == 1;
  if (!takes || !filter_can_undo(c->m, &c->first, user->inputs[0])) return FILTER_WRONG;
  c->no_memory = c->no_memory || !VEC_PUSH(&c->takers, user);
  return FILTER_FINE;
}

/* Makes the finder search all rows, and its Gathers take from all rows. */
static bool join(chaining *c, ir_node *finder) {
  ir_value *own = filter_undo(&c->first, finder->inputs[0], finder);
  ir_node *both =
      own ? ir_node_new(finder->graph, finder, op_builtin(OP_And), NULL, (ir_value *[]){c->first.mask, own}, 2, NULL, 1)
          : NULL;
  if (!both) return false;
  finder->inputs[0] = both->outputs[0];
  for (size_t i = 0; i < c->takers.n; i++) {
    ir_node *taker = c->takers.items[i];
    ir_value *all = filter_undo(&c->first, taker->inputs[0], taker);
    if (!all) return false;
    taker->inputs[0] = all;
  }
  c->n_joined++;
  return true;
}

static reed_status visit(void *context, ir_node *n) {
  chaining *c = context;
  if (n->op != op_builtin(OP_NonZero)) return REED_OK;
  const ir_value *mask = n->inputs[0];
  if (mask->type.rank != 1 || mask->type.dtype != REED_BOOL || !filter_behind(c->m, mask, &c->first)) return REED_OK;
  if (!filter_can_undo(c->m, &c->first, mask)) return REED_OK;
  c->takers.n = 0;
  if (!filter_uses_are_fine(c->m, n->outputs[0], use, c)) return REED_OK;
  return !c->no_memory && join(c, n) ? REED_OK : diag_no_memory(c->m->diagnosis, "filters");
}

reed_status pass_filter_chain(ir_module *m, pass_report *report) {
  chaining c = {.m = m};
  ir_count_uses(m);
  reed_status status = pass_try_each(m, visit, &c, &c.n_joined);
  VEC_FREE(&c.takers);
  *report = (pass_report){.counts = {{"filters joined with the ones before them", c.n_joined}}};
  return status;
}
