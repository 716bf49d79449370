/* ONNX's operators of quantised numbers -> operators of real and whole numbers. q, an 8- or 16-bit number, stands for
 * scale * (q - zero point).
 *
 * QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear become arithmetic in f32, which rounds as ONNX defines:
 * the quotient to the nearest even whole number, then the zero point is added, then the sum is clipped. MatMulInteger
 * is a MatMul of i32 and ConvInteger a Conv of f64, of the numbers without their zero points: both are exact.
 * QLinearMatMul and QLinearConv are these, scaled and quantised. Operators that onnxruntime adds (domain com.microsoft)
 * are ONNX's in f32 between DequantizeLinear and QuantizeLinear; QGemm is a product like QLinearMatMul. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "compiler/onnx/reader.h"

/* A tensor of quantised numbers with the operands that say what the numbers stand for, as indices of inputs. */
typedef struct number {
  int32_t q, scale, zero;
} number;

/* ---- nodes; each returns NULL without memory ---- */

static ir_value *clipped(const onnx_reading *z, ir_value *x, float least, float most) {
  return onnx_made(z->g, NULL, OP_Clip,
                   (ir_value *[]){x, onnx_number(z->g, least, REED_F32), onnx_number(z->g, most, REED_F32)}, 3, NULL, 0,
                   NULL);
}

/* ---- operands ---- */

static bool is_one_number(const ir_value *v) {
  reed_desc desc;
  return v->type.rank == 0 || (ir_desc(v, &desc) && desc_elements(&desc) == 1);
}

/* `v`, made of input i, with the axes that let it be combined with x: a single number, or one number for each place
 * along x's axis. An operand with several axes has them already; one of unknown rank is taken for a list. */
static ir_value *along(onnx_reading *z, int32_t i, ir_value *v, ir_value *x, int64_t axis) {
  ir_module *m = z->g->module;
  if (!v || !x) return NULL;
  if (z->ranks[i] == 0) return v;
  if (is_one_number(z->inputs[i])) return onnx_binary(z->g, OP_Reshape, v, onnx_vector(m, 0, 0));
  if (z->ranks[i] > 1 || axis == -1) return v;
  ir_value *behind = onnx_part(z->g, onnx_unary(z->g, OP_Shape, x), axis + 1, INT64_MAX);
  ir_value *ones = onnx_binary(z->g, OP_Expand, onnx_vector(m, 1, 1), onnx_unary(z->g, OP_Shape, behind));
  return onnx_reshaped(z->g, v, onnx_vector(m, -1, 1), ones, onnx_vector(m, 0, 0), NULL);
}

/* Input i minus input `zero`, in the dtype. */
static ir_value *difference(onnx_reading *z, int32_t i, int32_t zero, reed_dtype dtype, int64_t axis) {
  ir_value *x = onnx_cast(z->g, z->inputs[i], dtype);
  if (dtype_is_real(z->inputs[i]->type.dtype)) (void)onnx_refuse(z, "quantised numbers that are not whole");
  if (!z->inputs[zero]) return x;
  return onnx_binary(z->g, OP_Sub, x, along(z, zero, onnx_cast(z->g, z->inputs[zero], dtype), z->inputs[i], axis));
}

/* The dtype of the quantised numbers that a node makes: that of its zero point, or of attribute output_dtype; `absent`
 * if it has neither. */
static reed_dtype made_dtype(onnx_reading *z, int32_t zero, reed_dtype absent) {
  const int64_t given = onnx_int(z, "output_dtype", 0);
  reed_dtype dtype = z->inputs[zero] ? z->inputs[zero]->type.dtype : given ? onnx_dtype((int32_t)given) : absent;
  if (dtype != REED_U8 && dtype != REED_I8 && dtype != REED_U16 && dtype != REED_I16)
    (void)onnx_refuse(z, "quantised numbers that have not 8 or 16 bits");
  return dtype;
}

/* ---- operators ---- */

/* Rounds x, real numbers in f32 in units of the scale, and adds input `zero`, along the axis; `absent`: the dtype
 * without that input. */
static ir_value *rounded(onnx_reading *z, ir_value *x, int32_t zero, int64_t axis, reed_dtype absent) {
  const reed_dtype to = made_dtype(z, zero, absent);
  const bool is_signed = to == REED_I8 || to == REED_I16;
  const double numbers = ldexp(1, to == REED_U8 || to == REED_I8 ? 8 : 16), least = is_signed ? -numbers / 2 : 0;
  ir_value *y = onnx_unary(z->g, OP_Round, x);
  if (z->inputs[zero])
    y = onnx_binary(z->g, OP_Add, y, along(z, zero, onnx_cast(z->g, z->inputs[zero], REED_F32), x, axis));
  return onnx_cast(z->g, clipped(z, y, (float)least, (float)(least + numbers - 1)), to);
}

/* True, and noted as unsupported, for scales of blocks. */
static bool has_blocks(onnx_reading *z) {
  if (onnx_int(z, "block_size", 0)) (void)onnx_refuse(z, "attribute 'block_size', scales of blocks");
  return z->unsupported;
}

static void quantize(onnx_reading *z) {
  if (has_blocks(z)) return;
  const int64_t axis = onnx_int(z, "axis", 1);
  ir_value *x = onnx_cast(z->g, z->inputs[0], REED_F32);
  ir_value *scale = along(z, 1, onnx_cast(z->g, z->inputs[1], REED_F32), x, axis);
  z->outputs[0] = rounded(z, onnx_binary(z->g, OP_Div, x, scale), 2, axis, REED_U8);
}

static void dequantize(onnx_reading *z) {
  if (has_blocks(z)) return;
  const int64_t axis = onnx_int(z, "axis", 1);
  const reed_dtype from = z->inputs[0]->type.dtype, to = z->inputs[1]->type.dtype;
  const bool is_wide = from == REED_I32 || from == REED_NONE; /* f32 has not all differences */
  ir_value *x = onnx_cast(z->g, difference(z, 0, 2, is_wide && z->inputs[2] ? REED_I32 : REED_F32, axis), REED_F32);
  ir_value *scale = along(z, 1, onnx_cast(z->g, z->inputs[1], REED_F32), z->inputs[0], axis);
  if (to == REED_NONE) (void)onnx_refuse(z, "a scale whose dtype is not known");
  z->outputs[0] = onnx_cast(z->g, onnx_binary(z->g, OP_Mul, x, scale), to);
}

/* Scale and zero point of all numbers, so that 0 is one of them. Numbers that are all 0 have the scale 1, as
 * onnxruntime gives them (ONNX divides by 0). */
static void quantize_x(onnx_reading *z, ir_value *out_values[3]) {
  ir_value *x = z->inputs[0], *none = onnx_number(z->g, 0, REED_F32);
  ir_value *least = onnx_made(z->g, NULL, OP_ReduceMin, &x, 1, "keepdims", 0, NULL);
  ir_value *most = onnx_made(z->g, NULL, OP_ReduceMax, &x, 1, "keepdims", 0, NULL);
  least = onnx_binary(z->g, OP_Min, least, none);
  ir_value *range = onnx_binary(z->g, OP_Sub, onnx_binary(z->g, OP_Max, most, none), least);
  ir_value *scale = onnx_chosen(z->g, onnx_binary(z->g, OP_Equal, range, none), onnx_number(z->g, 1, REED_F32),
                                onnx_binary(z->g, OP_Div, range, onnx_number(z->g, 255, REED_F32)));
  ir_value *zero = onnx_binary(z->g, OP_Sub, none, onnx_binary(z->g, OP_Div, least, scale));
  zero = onnx_unary(z->g, OP_Round, clipped(z, zero, 0, 255));
  ir_value *y = onnx_unary(z->g, OP_Round, onnx_binary(z->g, OP_Div, x, scale));
  out_values[0] = onnx_cast(z->g, clipped(z, onnx_binary(z->g, OP_Add, y, zero), 0, 255), REED_U8);
  out_values[1] = scale;
  out_values[2] = onnx_cast(z->g, zero, REED_U8);
  if (!out_values[0] || !scale || !out_values[2]) return;
  scale->type = (ir_type){.dtype = REED_F32};
  out_values[2]->type = (ir_type){.dtype = REED_U8};
}

static void quantize_dynamically(onnx_reading *z) { quantize_x(z, z->outputs); }

/* The product of i32. Zero points belong to a's rows and to b's columns. */
static ir_value *matrix_product(onnx_reading *z, number a, number b) {
  return onnx_binary(z->g, OP_MatMul, difference(z, a.q, a.zero, REED_I32, -2),
                     difference(z, b.q, b.zero, REED_I32, -1));
}

/* The convolution, whose sums f64 holds exactly, in i32. */
static ir_value *convolution(onnx_reading *z, number x, number w) {
  ir_value *operands[] = {difference(z, x.q, x.zero, REED_F64, 1), difference(z, w.q, w.zero, REED_F64, 0)};
  if (!operands[0] || !operands[1]) return NULL;
  ir_node *n = ir_node_new(z->g, NULL, op_builtin(OP_Conv), z->name, operands, 2, NULL, 1);
  if (!n) return NULL;
  ir_clear_attrs(n);
  z->status = onnx_read_attrs(z->r, z->f, n, z->node);
  if (z->status == REED_OK) z->status = onnx_check_attrs(z->r, n);
  if (z->status != REED_OK || !ir_complete_attrs(n)) return NULL;
  n->outputs[0]->type.dtype = REED_F64;
  return onnx_cast(z->g, n->outputs[0], REED_I32);
}

/* sums * scale of a * scale of b / scale of y, quantised. The scales belong to an axis of the sums. */
static ir_value *requantized(onnx_reading *z, ir_value *sums, number a, int64_t a_axis, number b, int64_t b_axis,
                             int32_t scale, int32_t zero) {
  ir_value *x = onnx_cast(z->g, sums, REED_F32);
  ir_value *factor = onnx_binary(z->g, OP_Mul, along(z, a.scale, z->inputs[a.scale], sums, a_axis),
                                 along(z, b.scale, z->inputs[b.scale], sums, b_axis));
  factor = onnx_binary(z->g, OP_Div, factor, along(z, scale, z->inputs[scale], sums, a_axis));
  return rounded(z, onnx_binary(z->g, OP_Mul, x, factor), zero, a_axis, z->inputs[a.q]->type.dtype);
}

static void multiply_matrices(onnx_reading *z) {
  z->outputs[0] = matrix_product(z, (number){0, -1, 2}, (number){1, -1, 3});
}

static void convolve(onnx_reading *z) { z->outputs[0] = convolution(z, (number){0, -1, 2}, (number){1, -1, 3}); }

static void multiply_and_quantize(onnx_reading *z) {
  const number a = {0, 1, 2}, b = {3, 4, 5};
  z->outputs[0] = requantized(z, matrix_product(z, a, b), a, -2, b, -1, 6, 7);
}

static void convolve_and_quantize(onnx_reading *z) {
  const number x = {0, 1, 2}, w = {3, 4, 5};
  ir_value *sums = convolution(z, x, w);
  if (z->inputs[8]) sums = onnx_binary(z->g, OP_Add, sums, along(z, 8, z->inputs[8], sums, 1));
  z->outputs[0] = requantized(z, sums, x, 1, w, 1, 6, 7);
}

const onnx_maker onnx_quantized_makers[] = {
    {"QuantizeLinear", 2, 3, 1, quantize},
    {"DequantizeLinear", 2, 3, 1, dequantize},
    {"DynamicQuantizeLinear", 1, 1, 3, quantize_dynamically},
    {"MatMulInteger", 2, 4, 1, multiply_matrices},
    {"ConvInteger", 2, 4, 1, convolve},
    {"QLinearMatMul", 8, 8, 1, multiply_and_quantize},
    {"QLinearConv", 8, 9, 1, convolve_and_quantize},
    {0},
};

/* ---- operators of onnxruntime ---- */

/* True if there are operand i and its scale, the next one. */
static bool has_number(onnx_reading *z, int32_t i) {
  if (!z->inputs[i] || !z->inputs[i + 1]) (void)onnx_refuse(z, "numbers without a scale");
  return z->inputs[i] && z->inputs[i + 1];
}

/* The real numbers of a tensor whose scale and zero point are its next two operands. */
static ir_value *real(onnx_reading *z, int32_t i) {
  if (!has_number(z, i)) return NULL;
  return onnx_binary(z->g, OP_Mul, difference(z, i, i + 2, REED_F32, -1),
                     along(z, i + 1, z->inputs[i + 1], z->inputs[i], -1));
}

/* Gives y, quantised by the operands `scale` and the next one. */
static void give(onnx_reading *z, ir_value *y, int32_t scale) {
  if (!z->inputs[scale]) (void)onnx_refuse(z, "numbers without a scale");
  else if (y)
    z->outputs[0] = rounded(z, onnx_binary(z->g, OP_Div, y, along(z, scale, z->inputs[scale], y, -1)), scale + 1, -1,
                            z->inputs[scale == 0 ? 2 : 0]->type.dtype);
}

static void add(onnx_reading *z) { give(z, onnx_binary(z->g, OP_Add, real(z, 0), real(z, 3)), 6); }

static void multiply(onnx_reading *z) { give(z, onnx_binary(z->g, OP_Mul, real(z, 0), real(z, 3)), 6); }

static void sigmoid(onnx_reading *z) { give(z, onnx_unary(z->g, OP_Sigmoid, real(z, 0)), 3); }

static void leaky_relu(onnx_reading *z) {
  ir_value *y = onnx_unary(z->g, OP_LeakyRelu, real(z, 0));
  if (y && ir_set_attr_float(y->producer, "alpha", onnx_float(z, "alpha", .01F))) give(z, y, 3);
}

static void softmax(onnx_reading *z) {
  const int64_t axis = onnx_int(z, "axis", -1);
  if (onnx_int(z, "opset", 0) < 13 && axis != -1) (void)onnx_refuse(z, "a Softmax of opset 12 over several axes");
  ir_value *x = real(z, 0);
  if (x) give(z, onnx_made(z->g, NULL, OP_Softmax, &x, 1, "axis", axis, NULL), 3);
}

static void pool(onnx_reading *z) {
  if (onnx_int(z, "channels_last", 0)) (void)onnx_refuse(z, "attribute 'channels_last'");
  ir_value *x = real(z, 0);
  if (x) give(z, onnx_unary(z->g, OP_GlobalAveragePool, x), 3);
}

static void concatenate(onnx_reading *z) {
  ir_value *parts[REED_MAX_OPERANDS];
  int32_t n = 0;
  bool fits = z->n_inputs > 2 && z->n_inputs % 3 == 2;
  for (int32_t i = 2; i < z->n_inputs && fits; i += 3) fits = z->inputs[i] && z->inputs[i + 1];
  if (!fits) (void)onnx_refuse(z, "parts that are not numbers, scales and zero points");
  for (int32_t i = 2; i < z->n_inputs && fits; i += 3) parts[n++] = real(z, i);
  if (fits) give(z, onnx_joined(z->g, parts, n, onnx_int(z, "axis", 0)), 0);
}

/* Exchanges the axes of a matrix if the attribute says so. */
static ir_value *turned(onnx_reading *z, ir_value *x, const char *attribute) {
  return x && onnx_int(z, attribute, 0) ? onnx_unary(z->g, OP_Transpose, x) : x;
}

static void multiply_and_add(onnx_reading *z) {
  const number a = {0, 1, 2}, b = {3, 4, 5};
  if (onnx_float(z, "alpha", 1) != 1) (void)onnx_refuse(z, "attribute 'alpha' of QGemm other than 1");
  if (!has_number(z, a.q) || !has_number(z, b.q)) return;
  /* the columns of the product are the rows of a B that is turned */
  const int64_t columns = onnx_int(z, "transB", 0) ? 0 : 1;
  ir_value *sums = onnx_binary(z->g, OP_MatMul, turned(z, difference(z, a.q, a.zero, REED_I32, -1), "transA"),
                               turned(z, difference(z, b.q, b.zero, REED_I32, columns), "transB"));
  if (z->inputs[6]) sums = onnx_binary(z->g, OP_Add, sums, z->inputs[6]);
  if (z->inputs[7]) {
    z->outputs[0] = sums ? requantized(z, sums, a, -1, b, -1, 7, 8) : NULL;
  } else {
    ir_value *factor = onnx_binary(z->g, OP_Mul, along(z, a.scale, z->inputs[a.scale], sums, -1),
                                   along(z, b.scale, z->inputs[b.scale], sums, -1));
    z->outputs[0] = onnx_binary(z->g, OP_Mul, onnx_cast(z->g, sums, REED_F32), factor);
  }
}

/* sums times the scale of x, and the scale of b's columns, plus the bias. */
static void give_real(onnx_reading *z, ir_value *sums, ir_value *scale_of_x, int32_t scale, int32_t bias) {
  ir_value *factor = onnx_binary(z->g, OP_Mul, scale_of_x, along(z, scale, z->inputs[scale], sums, -1));
  ir_value *y = onnx_binary(z->g, OP_Mul, onnx_cast(z->g, sums, REED_F32), factor);
  z->outputs[0] = z->inputs[bias] ? onnx_binary(z->g, OP_Add, y, z->inputs[bias]) : y;
}

/* x, quantised in the run, times b: x, b, scale of b, zero point of b?, bias? */
static void quantize_and_multiply(onnx_reading *z) {
  ir_value *x[3] = {NULL};
  quantize_x(z, x);
  ir_value *a = onnx_binary(z->g, OP_Sub, onnx_cast(z->g, x[0], REED_I32), onnx_cast(z->g, x[2], REED_I32));
  give_real(z, onnx_binary(z->g, OP_MatMul, a, difference(z, 1, 3, REED_I32, -1)), x[1], 2, 4);
}

/* a, b, scales of both, zero points of both?, bias? */
static void multiply_to_real(onnx_reading *z) {
  ir_value *sums = matrix_product(z, (number){0, 2, 4}, (number){1, 3, 5});
  give_real(z, sums, along(z, 2, z->inputs[2], sums, -2), 3, 6);
}

const onnx_maker onnx_contrib_quantized_makers[] = {
    {"DynamicQuantizeMatMul", 3, 5, 1, quantize_and_multiply},
    {"MatMulIntegerToFloat", 4, 7, 1, multiply_to_real},
    {"QLinearAdd", 2, 8, 1, add},
    {"QLinearMul", 2, 8, 1, multiply},
    {"QLinearSigmoid", 2, 5, 1, sigmoid},
    {"QLinearLeakyRelu", 2, 5, 1, leaky_relu},
    {"QLinearSoftmax", 2, 5, 1, softmax},
    {"QLinearGlobalAveragePool", 2, 5, 1, pool},
    {"QLinearConcat", 1, REED_MAX_OPERANDS, 1, concatenate},
    {"QGemm", 2, 9, 1, multiply_and_add},
    {"QuantizeLinear", 2, 3, 1, quantize},
    {"DequantizeLinear", 2, 3, 1, dequantize},
    {0},
};
