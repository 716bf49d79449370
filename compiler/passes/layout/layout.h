/* Orders of axes, for the layout pass (layout.c: the choice of operators whose order changes, and the change) and the
 * rules of operators (rules.c, rules_image.c). Arithmetic on orders is in order.c, the savings of convolutions are in
 * gain.c.
 *
 * A value of rank r may be stored with its axes in another order: axis i of the stored tensor is axis order.axes[i] of
 * the value. An image [N,C,H,W] stored in the order 0,2,3,1 is a tensor [N,H,W,C]. */
#ifndef COMPILER_PASSES_LAYOUT_LAYOUT_H_
#define COMPILER_PASSES_LAYOUT_LAYOUT_H_

#include "compiler/ir/ir.h"

typedef struct layout_order {
  int32_t rank; /* 0: the value's own order */
  int32_t axes[REED_MAX_RANK];
} layout_order;

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

/* The rules of images (rules_image.c). */
extern const layout_rule layout_convolution, layout_image, layout_maps, layout_levels, layout_deformable;

/* The rule of an operator; NULL: the operator works on its inputs' own orders only. */
const layout_rule *layout_rule_of(const reed_op *op);

/* True when the orders are equal. */
bool layout_same(const layout_order *a, const layout_order *b);
static inline ir_value *layout_input(const layout_node *n, int32_t i) {
  return i < n->node->n_inputs ? n->node->inputs[i] : NULL;
}
/* True when input 0 is stored in another order than the value's own. */
static inline bool layout_has_order(const layout_node *n) {
  return layout_input(n, 0) && n->have[0].rank > 0 && n->have[0].rank == layout_input(n, 0)->type.rank;
}
/* The order itself, or the order of rank 0 where the axes stand in the value's own order. */
layout_order layout_simplified(layout_order order);
/* The order with channels last, [N,...,C], of an image [N,C,...] of this rank. */
layout_order layout_channels_last(int32_t rank);
/* The axis as 0..rank-1; a negative axis counts from the end. -1: out of range. */
int32_t layout_axis(int64_t axis, int32_t rank);
/* The cost of turning a value: its number of elements, with LAYOUT_EXTENT for each unknown extent. */
#define LAYOUT_EXTENT 32
double layout_weight(const ir_value *v);
/* The elements that could be turned in the time that a Conv or ConvTranspose takes less with channels last than with
 * channels second. `turns_input`: it reads input 0 with channels last, too. */
double layout_conv_gain(const ir_module *m, const ir_node *n, bool turns_input);
/* The position in the stored tensor of axis `axis` of the value. */
static inline int32_t layout_position(const layout_order *order, int32_t axis) {
  int32_t at = 0;
  while (order->axes[at] != axis) at++;
  return at;
}

#endif
