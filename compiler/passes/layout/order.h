/* Orders of axes, and arithmetic on them.
 *
 * A value of rank r may be stored with its axes in another order: axis i of the stored tensor is axis order.axes[i] of
 * the value. An image [N,C,H,W] stored in the order 0,2,3,1 is a tensor [N,H,W,C]. */
#ifndef COMPILER_PASSES_LAYOUT_ORDER_H_
#define COMPILER_PASSES_LAYOUT_ORDER_H_

#include "compiler/ir/ir.h"

typedef struct layout_order {
  int32_t rank; /* 0: the value's own order */
  int32_t axes[REED_MAX_RANK];
} layout_order;

/* True when the orders are equal. */
bool layout_same(const layout_order *a, const layout_order *b);
/* The order itself, or the order of rank 0 where the axes stand in the value's own order. */
layout_order layout_simplified(layout_order order);
/* The order with channels last, [N,...,C], of an image [N,C,...] of this rank. */
layout_order layout_channels_last(int32_t rank);
/* The axis as 0..rank-1; a negative axis counts from the end. -1: out of range. */
int32_t layout_axis(int64_t axis, int32_t rank);
/* The cost of turning a value: its number of elements, with LAYOUT_EXTENT for each unknown extent. */
#define LAYOUT_EXTENT 32
double layout_weight(const ir_value *v);
/* The position in the stored tensor of axis `axis` of the value. */
static inline int32_t layout_position(const layout_order *order, int32_t axis) {
  int32_t at = 0;
  while (order->axes[at] != axis) at++;
  return at;
}

#endif
