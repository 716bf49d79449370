/* ONNX's operators of random numbers -> RandomNormal and RandomUniform of given extents (ops/op.def), with arithmetic
 * behind them. Bernoulli compares uniform numbers with the probabilities. Multinomial draws a class as the greatest of
 * the logarithms of the probabilities plus numbers of Gumbel's distribution, -log(-log(u)) (E. J. Gumbel 1954,
 * "Statistical theory of extreme values"). */
#include "base/dtype.h"
#include "compiler/onnx/reader.h"

/* Attribute `dtype` as Reed's; `absent` without it. */
static reed_dtype dtype_of(onnx_reading *z, reed_dtype absent) {
  const int64_t given = onnx_int(z, "dtype", 0);
  const reed_dtype dtype = given ? onnx_dtype((int32_t)given) : absent;
  if (dtype == REED_NONE && !z->unsupported)
    (void)onnx_refuse(z, "random numbers whose dtype is not known or not Reed's");
  return dtype;
}

static bool give_number(onnx_reading *z, ir_node *n, const char *name) {
  const Onnx__AttributeProto *a = onnx_find_attribute(z->f, z->node, name);
  return !a || ir_set_attr_float(n, name, (double)a->f);
}

/* A tensor of random numbers with the extents of the vector `shape`, and the node's attributes of these names. */
static ir_value *drawn(onnx_reading *z, op_id op, ir_value *shape, reed_dtype dtype, const char *first,
                       const char *second) {
  ir_value *y = onnx_made(z->g, NULL, op, &shape, 1, "dtype", dtype, NULL);
  if (!y) return NULL;
  y->type.dtype = dtype;
  ir_node *n = y->producer;
  return give_number(z, n, "seed") && (!first || (give_number(z, n, first) && give_number(z, n, second))) ? y : NULL;
}

static ir_value *extents(onnx_reading *z, ir_value *x) { return onnx_unary(z->g, OP_Shape, x); }

static ir_value *given_shape(onnx_reading *z) {
  const Onnx__AttributeProto *a = onnx_find_attribute(z->f, z->node, "shape");
  if (a) return ir_constant_i64(z->g->module, a->ints, (int64_t)a->n_ints, NULL);
  z->status = diag_fail(z->r->diagnosis, REED_ERROR_FORMAT, "node '%s' (%s) has no attribute 'shape'", z->name,
                        z->node->op_type);
  return NULL;
}

static void draw_floats(onnx_reading *z, op_id op, ir_value *shape, reed_dtype absent, const char *first,
                        const char *second) {
  const reed_dtype dtype = dtype_of(z, absent);
  if (z->unsupported) return;
  if (!dtype_is_real(dtype)) (void)onnx_refuse(z, "random numbers that are not real");
  else z->outputs[0] = drawn(z, op, shape, dtype, first, second);
}

static void draw_normal(onnx_reading *z) { draw_floats(z, OP_RandomNormal, given_shape(z), REED_F32, "mean", "scale"); }
static void draw_uniform(onnx_reading *z) { draw_floats(z, OP_RandomUniform, given_shape(z), REED_F32, "low", "high"); }
static void draw_normal_like(onnx_reading *z) {
  draw_floats(z, OP_RandomNormal, extents(z, z->inputs[0]), z->inputs[0]->type.dtype, "mean", "scale");
}
static void draw_uniform_like(onnx_reading *z) {
  draw_floats(z, OP_RandomUniform, extents(z, z->inputs[0]), z->inputs[0]->type.dtype, "low", "high");
}

/* 1 where a number is below the probability. f32 has all probabilities of f16 and bf16. */
static void draw_bernoulli(onnx_reading *z) {
  ir_value *p = z->inputs[0];
  const reed_dtype dtype = dtype_of(z, p->type.dtype), numbers = p->type.dtype == REED_F64 ? REED_F64 : REED_F32;
  if (z->unsupported) return;
  ir_value *u = drawn(z, OP_RandomUniform, extents(z, p), numbers, NULL, NULL);
  ir_value *is_one = onnx_binary(z->g, OP_Less, u, onnx_cast(z->g, p, numbers));
  z->outputs[0] = onnx_cast(z->g, is_one, dtype);
}

/* x: logarithms of the probabilities of [batch, class], up to a number a batch; y: [batch, draw]. */
static void draw_multinomial(onnx_reading *z) {
  ir_graph *g = z->g;
  ir_value *x = onnx_cast(g, z->inputs[0], REED_F32), *of_x = extents(z, z->inputs[0]);
  const reed_dtype dtype = dtype_of(z, REED_I32);
  if (z->unsupported) return;
  ir_value *parts[] = {onnx_part(g, of_x, 0, 1), onnx_vector(g->module, onnx_int(z, "sample_size", 1), 1),
                       onnx_part(g, of_x, 1, 2)};
  ir_value *shape = onnx_joined(g, parts, 3, 0);
  ir_value *u = drawn(z, OP_RandomUniform, shape, REED_F32, NULL, NULL);
  ir_value *gumbel = onnx_unary(g, OP_Neg, onnx_unary(g, OP_Log, onnx_unary(g, OP_Neg, onnx_unary(g, OP_Log, u))));
  ir_value *sums = onnx_binary(g, OP_Add, onnx_binary(g, OP_Unsqueeze, x, onnx_vector(g->module, 1, 1)), gumbel);
  ir_value *chosen = onnx_made(g, NULL, OP_ArgMax, &sums, 1, "axis", 2, NULL);
  if (chosen && !ir_set_attr_int(chosen->producer, "keepdims", 0)) chosen = NULL;
  z->outputs[0] = onnx_cast(g, chosen, dtype);
}

const onnx_maker onnx_random_makers[] = {
    {"RandomNormal", 0, 0, 1, draw_normal},
    {"RandomNormalLike", 1, 1, 1, draw_normal_like},
    {"RandomUniform", 0, 0, 1, draw_uniform},
    {"RandomUniformLike", 1, 1, 1, draw_uniform_like},
    {"Bernoulli", 1, 1, 1, draw_bernoulli},
    {"Multinomial", 1, 1, 1, draw_multinomial},
    {0},
};
