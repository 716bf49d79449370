/* Attempts at nodes (attempt.h): the assumptions of an attempt that changes nothing are taken back. */
#include "compiler/ir/attempt.h"

typedef struct attempt {
  ir_module *m;
  pass_visit visit;
  void *context;
  const int64_t *n_changes;
} attempt;

static reed_status try_node(void *context, ir_node *n) {
  const attempt *a = context;
  size_t n_assumptions = symbols_assumptions(a->m->symbols);
  int64_t before = *a->n_changes;
  reed_status status = a->visit(a->context, n);
  if (*a->n_changes == before) symbols_take_back(a->m->symbols, n_assumptions);
  return status;
}

reed_status pass_try_each(ir_module *m, pass_visit visit, void *context, const int64_t *n_changes) {
  return ir_walk(m->main, true, try_node, &(attempt){m, visit, context, n_changes});
}

reed_status pass_try_back(ir_module *m, ir_node *const *nodes, size_t n, pass_visit visit, void *context,
                          const int64_t *n_changes) {
  attempt a = {m, visit, context, n_changes};
  reed_status status = REED_OK;
  while (n-- > 0 && status == REED_OK)
    if (!nodes[n]->dead) status = try_node(&a, nodes[n]);
  return status;
}
