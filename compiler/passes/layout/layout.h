/* What the layout pass (layout.c: which operators change the order of their axes, and the change itself) and the
 * operators' rules (layout_rules.c) share.
 *
 * A value of rank r may be stored in another order of its axes: the tensor that is stored has the value's axis
 * order.axes[i] as its axis i. An image [N,C,H,W] stored in the order 0,2,3,1 is a tensor [N,H,W,C]. */
#ifndef COMPILER_PASSES_LAYOUT_LAYOUT_H_
#define COMPILER_PASSES_LAYOUT_LAYOUT_H_

#include "compiler/ir/ir.h"

typedef struct layout_order {
  int32_t rank; /* 0: as the value is */
  int32_t axes[REED_MAX_RANK];
} layout_order;

/* A node that is to be planned or edited. Planning fills want and give, which are zero before. */
typedef struct layout_node {
  ir_module *m;
  ir_node *node;
  ir_node *reader;          /* the only user of output 0; NULL: there are several, or a result */
  const layout_order *have; /* of each input: how it is stored */
  layout_order *want; /* of each input: the order the node shall read. One axis more than the value has: axes of extent
                         1 come in front */
  layout_order *give; /* of each output: the order it then comes in */
} layout_node;

typedef struct layout_rule {
  /* Whether the node can work on other orders than its inputs' own, with which. */
  bool (*plan)(layout_node *n);
  /* Changes the node to do so; its inputs have been replaced already, its outputs not. NULL: nothing to change. false:
   * no memory. */
  bool (*edit)(layout_node *n);
} layout_rule;

/* The rule of an operator; NULL: it works on values as they are. */
const layout_rule *layout_rule_of(const reed_op *op);

bool layout_same(const layout_order *a, const layout_order *b);
/* The order without a rank where it is the axes as they are. */
layout_order layout_simplified(layout_order order);
layout_order layout_channels_last(int32_t rank);
/* 0..rank-1 of an axis that may count from the end; -1: neither. */
int32_t layout_axis(int64_t axis, int32_t rank);
/* What the pass takes a value to weigh: its elements, with extents that are not known as LAYOUT_EXTENT. */
#define LAYOUT_EXTENT 32
double layout_weight(const ir_value *v);
/* The position in the stored tensor of axis `axis` of the value. */
static inline int32_t layout_position(const layout_order *order, int32_t axis) {
  int32_t at = 0;
  while (order->axes[at] != axis) at++;
  return at;
}

#endif
