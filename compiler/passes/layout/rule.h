/* An operator's rule for the layout pass: the orders of axes that the operator can work on. */
#ifndef COMPILER_PASSES_LAYOUT_RULE_H_
#define COMPILER_PASSES_LAYOUT_RULE_H_

#include "compiler/passes/layout/order.h"

/* A node that a rule plans or edits. Planning fills `want` and `give`, which are zero before. */
typedef struct layout_node {
  ir_module *m;
  ir_node *node;
  ir_node *reader;          /* the only user of output 0; NULL: several users, or output 0 is a result of the graph */
  const layout_order *have; /* of each input: the order in which it is stored */
  layout_order *want; /* of each input: the order the node shall read. An order of higher rank than the value: axes of
                         extent 1 are put in front of the value's */
  layout_order *give; /* of each output: the order in which the edited node gives it */
} layout_node;

typedef struct layout_rule {
  /* Fills n->want and n->give with orders that the node can work on. False: the node works on its inputs' own orders
   * only. */
  bool (*plan)(layout_node *n);
  /* Changes the node to the planned orders, after its inputs have been replaced and before its outputs are. NULL: the
   * node needs no change. False: no memory. */
  bool (*edit)(layout_node *n);
} layout_rule;

static inline ir_value *layout_input(const layout_node *n, int32_t i) {
  return i < n->node->n_inputs ? n->node->inputs[i] : NULL;
}
/* True when input 0 is stored in another order than the value's own. */
static inline bool layout_has_order(const layout_node *n) {
  return layout_input(n, 0) && n->have[0].rank > 0 && n->have[0].rank == layout_input(n, 0)->type.rank;
}

#endif
