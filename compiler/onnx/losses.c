/* NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss -> LogSoftmax, gathers and sums. Source of the meanings: ONNX's
 * operator specification. */
#include <string.h>

#include "compiler/onnx/reader.h"

static ir_value *sum_of_all(const onnx_reading *z, ir_value *x, op_id op) {
  return onnx_made(z->g, NULL, op, &x, 1, "keepdims", 0, NULL);
}

static bool has_reduction(const onnx_reading *z, const char *text) {
  const Onnx__AttributeProto *a = onnx_find_attribute(z->f, z->node, "reduction");
  if (!a) return strcmp(text, "mean") == 0;
  return a->s.len == strlen(text) && memcmp(a->s.data, text, a->s.len) == 0;
}

/* The loss of x [batch, classes, ...], logarithms of probabilities: -x at the class of each place, times the class's
 * weight; places of class ignore_index have the loss and the weight 0. */
static ir_value *loss_of(onnx_reading *z, ir_value *x) {
  ir_graph *g = z->g;
  const Onnx__AttributeProto *ignored = onnx_find_attribute(z->f, z->node, "ignore_index");
  ir_value *classes = onnx_cast(g, z->inputs[1], REED_I64), *weights = NULL, *axis = onnx_vector(g->module, 1, 1),
           *nothing = onnx_number_like(g, x, 0), *is_ignored = NULL;
  if (!has_reduction(z, "mean") && !has_reduction(z, "sum") && !has_reduction(z, "none"))
    return onnx_refuse(z, "a loss whose 'reduction' is not mean, sum or none");
  if (ignored) {
    is_ignored = onnx_binary(g, OP_Equal, classes, onnx_integer(g, ignored->i));
    classes = onnx_chosen(g, is_ignored, onnx_integer(g, 0), classes);
  }
  ir_value *places[] = {x, onnx_binary(g, OP_Unsqueeze, classes, axis)};
  ir_value *loss = onnx_made(g, NULL, OP_GatherElements, places, 2, "axis", 1, NULL);
  loss = onnx_unary(g, OP_Neg, onnx_binary(g, OP_Squeeze, loss, axis));
  if (z->inputs[2]) {
    weights = onnx_binary(g, OP_Gather, z->inputs[2], classes);
    loss = onnx_binary(g, OP_Mul, loss, weights);
  } else if (ignored) {
    weights = onnx_number_like(g, x, 1);
  }
  if (ignored) {
    loss = onnx_chosen(g, is_ignored, nothing, loss);
    weights = onnx_chosen(g, is_ignored, nothing, weights);
  }
  if (has_reduction(z, "none")) return loss;
  if (has_reduction(z, "mean") && !weights) return sum_of_all(z, loss, OP_ReduceMean);
  ir_value *sum = sum_of_all(z, loss, OP_ReduceSum);
  return has_reduction(z, "sum") ? sum : onnx_binary(g, OP_Div, sum, sum_of_all(z, weights, OP_ReduceSum));
}

static void negative_log_likelihood(onnx_reading *z) { z->outputs[0] = loss_of(z, z->inputs[0]); }

static void cross_entropy(onnx_reading *z) {
  ir_value *logarithms = onnx_made(z->g, NULL, OP_LogSoftmax, z->inputs, 1, "axis", 1, NULL);
  if (!logarithms) return;
  z->outputs[0] = loss_of(z, logarithms);
  z->outputs[1] = logarithms;
}

const onnx_maker onnx_loss_makers[] = {
    {"NegativeLogLikelihoodLoss", 2, 3, 1, negative_log_likelihood},
    {"SoftmaxCrossEntropyLoss", 2, 3, 2, cross_entropy},
    {0},
};
