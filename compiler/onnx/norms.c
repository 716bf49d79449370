/* Normalisations that Reed has no kernel for -> reductions, pools and arithmetic: LRN, which divides by a power of the
 * mean square over neighbouring channels, and MeanVarianceNormalization. */
#include "compiler/onnx/reader.h"

#define NOT_FLOAT "a normalisation of numbers whose dtype is not known or no float"

/* The mean of x over `size` neighbouring channels, those beyond the ends counted as 0: a pool of [batch, 1, channel,
 * place]. */
static ir_value *mean_over_channels(const onnx_reading *z, ir_value *x, int64_t size) {
  ir_graph *g = z->g;
  ir_value *shape = onnx_unary(g, OP_Shape, x);
  ir_value *parts[] = {onnx_part(g, shape, 0, 1), onnx_vector(g->module, 1, 1), onnx_part(g, shape, 1, 2),
                       onnx_product(g, onnx_part(g, shape, 2, INT64_MAX))};
  ir_value *planes = onnx_shaped(g, x, onnx_joined(g, parts, 4, 0), NULL);
  ir_value *means = onnx_made(g, NULL, OP_AveragePool, &planes, 1, "count_include_pad", 1, NULL);
  const int64_t kernel[] = {size, 1}, pads[] = {(size - 1) / 2, 0, size / 2, 0};
  if (!means || !ir_set_attr_ints(means->producer, "kernel_shape", kernel, 2) ||
      !ir_set_attr_ints(means->producer, "pads", pads, 4))
    return NULL;
  return onnx_shaped(g, means, shape, NULL);
}

/* x / (bias + alpha * mean square)^beta */
static void respond_locally(onnx_reading *z) {
  ir_value *x = z->inputs[0];
  const reed_dtype dtype = onnx_float_of_x(z, NOT_FLOAT);
  const int64_t size = onnx_int(z, "size", 0);
  if (z->unsupported) return;
  if (size < 1) {
    z->status =
        diag_fail(z->r->diagnosis, REED_ERROR_FORMAT, "node '%s' (LRN): 'size' is %lld", z->name, (long long)size);
    return;
  }
  ir_value *means = mean_over_channels(z, onnx_binary(z->g, OP_Mul, x, x), size);
  ir_value *base = onnx_binary(z->g, OP_Mul, means, onnx_number(z->g, onnx_float(z, "alpha", 1e-4F), dtype));
  base = onnx_binary(z->g, OP_Add, base, onnx_number(z->g, onnx_float(z, "bias", 1), dtype));
  /* (a logarithm and an exponential are vector code; the base is positive, but for a bias that is not) */
  const float beta = onnx_float(z, "beta", .75F);
  ir_value *power = onnx_binary(z->g, OP_Mul, onnx_unary(z->g, OP_Log, base), onnx_number(z->g, -beta, dtype));
  z->outputs[0] =
      beta == 0 ? onnx_unary(z->g, OP_Identity, x) : onnx_binary(z->g, OP_Mul, x, onnx_unary(z->g, OP_Exp, power));
}

/* d / (sqrt(mean of d^2) + 1e-9), where d = x - mean */
static void normalize(onnx_reading *z) {
  static const int64_t usual[] = {0, 2, 3};
  const Onnx__AttributeProto *a = onnx_find_attribute(z->f, z->node, "axes");
  const reed_dtype dtype = onnx_float_of_x(z, NOT_FLOAT);
  if (z->unsupported) return;
  ir_graph *g = z->g;
  ir_value *axes = ir_constant_i64(g->module, a ? a->ints : usual, a ? (int64_t)a->n_ints : 3, NULL);
  ir_value *d = onnx_binary(g, OP_Sub, z->inputs[0], onnx_binary(g, OP_ReduceMean, z->inputs[0], axes));
  ir_value *deviation = onnx_unary(g, OP_Sqrt, onnx_binary(g, OP_ReduceMean, onnx_binary(g, OP_Mul, d, d), axes));
  z->outputs[0] = onnx_binary(g, OP_Div, d, onnx_binary(g, OP_Add, deviation, onnx_number(z->g, 1e-9, dtype)));
}

const onnx_maker onnx_norm_makers[] = {
    {"LRN", 1, 1, 1, respond_locally},
    {"MeanVarianceNormalization", 1, 1, 1, normalize},
    {0},
};
