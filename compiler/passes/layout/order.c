/* Arithmetic on orders of axes, and the weight of a value (order.h). */
#include "compiler/passes/layout/order.h"

#include <string.h>

bool layout_same(const layout_order *a, const layout_order *b) {
  return a->rank == b->rank && memcmp(a->axes, b->axes, (size_t)a->rank * sizeof *a->axes) == 0;
}

/* An order that leaves every axis in its place is represented by rank 0. */
layout_order layout_simplified(layout_order order) {
  for (int32_t i = 0; i < order.rank; i++)
    if (order.axes[i] != i) return order;
  return (layout_order){0};
}

layout_order layout_channels_last(int32_t rank) {
  layout_order order = {.rank = rank};
  for (int32_t i = 1; i < rank; i++) order.axes[i] = i == rank - 1 ? 1 : i + 1;
  return order;
}

double layout_weight(const ir_value *v) {
  double weight = 1;
  for (int32_t i = 0; i < v->type.rank; i++)
    weight *= symbol_is(v->type.dims[i]) ? LAYOUT_EXTENT : (double)v->type.dims[i];
  return v->type.rank < 0 ? 0 : weight;
}

int32_t layout_axis(int64_t axis, int32_t rank) {
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? (int32_t)axis : -1;
}
