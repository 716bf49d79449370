/* Costs of products, convolutions, attention and recurrent layers (cost.h). */
#include "ops/cost.h"

#include "base/desc.h"
#include "ops/packed.h"

static const reed_desc *input(const op_call *call, int32_t i) {
  return i < call->n_inputs ? call->inputs[i].desc : NULL;
}

static double elements(const reed_desc *d) { return d ? (double)desc_elements(d) : 0; }

/* The ONNX extents of the weights, input 1. */
static reed_desc weights_of(const op_call *call) {
  packed_order order;
  const reed_desc *w = input(call, 1);
  return packed_is(call->op, call->attrs) && packed_order_read(call->op, call->attrs, w, &order) ? order.plain : *w;
}

static bool all_are(const int64_t *extents, int32_t n, int64_t value) {
  for (int32_t i = 0; i < n; i++)
    if (extents[i] != value) return false;
  return true;
}

static const char *kind_of_convolution(const op_call *call, const reed_desc *w) {
  const reed_attr *strides = reed_attrs_find(call->attrs, "strides");
  const int64_t group = op_attr_int(call->attrs, "group"), *taps = w->dims + 2;
  const int32_t axes = w->rank - 2;
  if (group > 1) return group == w->dims[0] && w->dims[1] == 1 ? "depthwise" : "groups";
  if (all_are(taps, axes, 1)) return "1x1";
  if (axes != 2 || !all_are(taps, axes, 3)) return "other windows";
  return !strides || op_attr_is_each(call->op, strides) ? "3x3" : "3x3, stride";
}

static op_cost attention(const op_call *call) {
  const reed_desc *k = input(call, 1), *past = input(call, 4);
  const double keys = (double)k->dims[k->rank - 2] + (past ? (double)past->dims[past->rank - 2] : 0);
  return (op_cost){"attention", 2 * keys * (elements(input(call, 0)) + elements(&call->outputs[0])), 0};
}

static op_cost arithmetic(const op_call *call) {
  const reed_desc *x = input(call, 0), *y = &call->outputs[0];
  switch (op_id_of(call->op)) {
    case OP_Conv:
    case OP_DeformConv: {
      const reed_desc w = weights_of(call);
      return (op_cost){kind_of_convolution(call, &w), 2 * elements(y) * elements(&w) / (double)w.dims[0], 0};
    }
    case OP_ConvTranspose: {
      const reed_desc w = weights_of(call);
      return (op_cost){"transposed", 2 * elements(x) * elements(&w) / (double)w.dims[0], 0};
    }
    case OP_Gemm:
      return (op_cost){"product", 2 * elements(y) * (double)x->dims[op_attr_int(call->attrs, "transA") ? 0 : 1], 0};
    case OP_MatMul: return (op_cost){"product", 2 * elements(y) * (double)x->dims[x->rank - 1], 0};
    case OP_Attention: return attention(call);
    case OP_GRU:
    case OP_LSTM:
    case OP_RNN:
      return (op_cost){"recurrent",
                       2 * (double)(x->dims[0] * x->dims[1]) * (elements(input(call, 1)) + elements(input(call, 2))),
                       0};
    default: return (op_cost){0};
  }
}

op_cost op_cost_of(const op_call *call) {
  op_cost cost = call->outputs[0].dtype != REED_NONE ? arithmetic(call) : (op_cost){0};
  for (int32_t i = 0; cost.kind && i < call->n_inputs; i++)
    if (input(call, i)) cost.bytes += desc_bytes(input(call, i));
  for (int32_t i = 0; i < call->n_outputs; i++)
    if (call->outputs[i].dtype != REED_NONE) cost.bytes += desc_bytes(&call->outputs[i]);
  return cost;
}
