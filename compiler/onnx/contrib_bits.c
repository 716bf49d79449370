/* MatMulNBits of onnxruntime (domain com.microsoft) -> the weights' numbers, unpacked and scaled, and a MatMul. The
 * reader unpacks constant weights. Source of the meaning: onnxruntime's list of contrib operators
 * and the kernel of its CPU provider. */
#include "base/desc.h"
#include "base/dtype.h"
#include "compiler/onnx/reader.h"

/* ---- parts; each returns NULL without memory ---- */

static ir_value *with_shape(const onnx_reading *z, ir_value *x, int64_t a, int64_t b, int64_t c) {
  const int64_t extents[] = {a, b, c};
  return onnx_binary(z->g, OP_Reshape, x, ir_constant_i64(z->g->module, extents, c ? 3 : 2, NULL));
}

/* The numbers of so many bits in the bytes x [a, b], those in a byte's low bits first: [a, b, numbers in a byte]. */
static ir_value *unpacked(const onnx_reading *z, ir_value *x, int64_t bits) {
  ir_value *parts[8];
  int32_t n = 0;
  for (int64_t shift = 0; shift < 8; shift += bits) {
    ir_value *part = shift ? onnx_binary(z->g, OP_Div, x, onnx_number(z->g, (double)(1 << shift), REED_U8)) : x;
    if (bits < 8) part = onnx_binary(z->g, OP_Mod, part, onnx_number(z->g, (double)(1 << bits), REED_U8));
    parts[n++] = onnx_binary(z->g, OP_Unsqueeze, part, onnx_vector(z->g->module, 2, 1));
  }
  return onnx_joined(z->g, parts, n, 2);
}

/* The zero points [columns, blocks, 1]: operand 3, in bytes that a column fills up, or real numbers. */
static ir_value *zero_points(const onnx_reading *z, int64_t columns, int64_t blocks, int64_t bits, reed_dtype dtype) {
  ir_value *given = z->inputs[3];
  if (!given) return onnx_number(z->g, (double)(1 << (bits - 1)), dtype);
  if (given->type.dtype == REED_U8) {
    given = with_shape(z, unpacked(z, with_shape(z, given, columns, -1, 0), bits), columns, -1, 0);
    given = onnx_slice(z->g, given, onnx_vector(z->g->module, 0, 1), onnx_vector(z->g->module, blocks, 1), 1);
  }
  return onnx_cast(z->g, with_shape(z, given, columns, blocks, 1), dtype);
}

/* ---- constant weights ---- */

typedef struct packing {
  int64_t rows, columns, blocks, block, bits;
} packing;

/* The constant's desc and elements, n of them; false: v is no constant, or has another number. */
static bool has_elements(const ir_value *v, int64_t n, reed_desc *out_desc) {
  return ir_desc(v, out_desc) && v->data && desc_elements(out_desc) == n;
}

static double element(const reed_desc *desc, const void *data, int64_t i) {
  return reed_dtype_read(desc->dtype, (const char *)data + (size_t)i * reed_dtype_bytes(desc->dtype));
}

/* Number i of a row of bytes, those in a byte's low bits first. */
static double number_at(const uint8_t *row, int64_t i, int64_t bits) {
  const int64_t each = 8 / bits;
  return row[i / each] >> i % each * bits & ((1 << bits) - 1);
}

/* The weights [rows, columns], if operands 1 to 3 are constants that fit; NULL: they are not, or there is no memory. */
static ir_value *constant_weights(const onnx_reading *z, const packing *p, reed_dtype dtype) {
  const ir_value *points = z->inputs[3];
  const int64_t n = p->columns * p->blocks, row_bytes = p->blocks * p->block * p->bits / 8,
                point_bytes = (p->blocks * p->bits + 7) / 8;
  const bool packed_points = points && points->type.dtype == REED_U8;
  reed_desc numbers, scales, of_points;
  if (!has_elements(z->inputs[1], p->columns * row_bytes, &numbers) || numbers.dtype != REED_U8 ||
      !has_elements(z->inputs[2], n, &scales) ||
      (points && !has_elements(points, packed_points ? p->columns * point_bytes : n, &of_points)))
    return NULL;
  const size_t bytes = reed_dtype_bytes(dtype);
  char *made = ir_alloc_elements(z->g->module, (size_t)p->rows * (size_t)p->columns * bytes);
  if (!made) return NULL;
  for (int64_t c = 0; c < p->columns; c++)
    for (int64_t r = 0; r < p->rows; r++) {
      const int64_t at = c * p->blocks + r / p->block;
      const double zero = !points ? (double)(1 << (p->bits - 1))
                          : packed_points
                              ? number_at((const uint8_t *)points->data + c * point_bytes, r / p->block, p->bits)
                              : element(&of_points, points->data, at);
      const double q = number_at((const uint8_t *)z->inputs[1]->data + c * row_bytes, r, p->bits);
      reed_dtype_write(dtype, made + (size_t)(r * p->columns + c) * bytes,
                       (float)(q - zero) * (float)element(&scales, z->inputs[2]->data, at));
    }
  const reed_desc desc = {.dtype = dtype, .rank = 2, .dims = {p->rows, p->columns}};
  return ir_constant(z->g->module, &desc, made, true, NULL);
}

/* ---- the operator ---- */

/* x [..., K], weights of `bits` bits [N, blocks, bytes of a block], a scale for each block, zero points?, numbers of
 * groups?, bias? */
static void multiply_bits(onnx_reading *z) {
  const int64_t rows = onnx_int(z, "K", 0), columns = onnx_int(z, "N", 0), bits = onnx_int(z, "bits", 4),
                block = onnx_int(z, "block_size", 0);
  const reed_dtype dtype = onnx_float_of_x(z, "a MatMulNBits of numbers whose dtype is not known or no float");
  if (bits != 2 && bits != 4 && bits != 8) (void)onnx_refuse(z, "a MatMulNBits whose 'bits' are not 2, 4 or 8");
  if (rows < 1 || columns < 1 || block < 8 || block > INT32_MAX || rows > INT32_MAX || columns > INT32_MAX)
    (void)onnx_refuse(z, "a MatMulNBits without 'K', 'N' or 'block_size'");
  if (z->inputs[4]) (void)onnx_refuse(z, "a MatMulNBits with numbers of groups");
  if (z->unsupported) return;
  const int64_t blocks = (rows + block - 1) / block;
  ir_value *constant = constant_weights(z, &(packing){rows, columns, blocks, block, bits}, dtype);
  if (constant) {
    ir_value *y = onnx_binary(z->g, OP_MatMul, z->inputs[0], constant);
    z->outputs[0] = z->inputs[5] ? onnx_binary(z->g, OP_Add, y, z->inputs[5]) : y;
    return;
  }
  ir_value *numbers = unpacked(z, with_shape(z, z->inputs[1], columns, -1, 0), bits);
  numbers = onnx_cast(z->g, with_shape(z, numbers, columns, blocks, block), dtype);
  ir_value *weights = onnx_binary(z->g, OP_Sub, numbers, zero_points(z, columns, blocks, bits, dtype));
  ir_value *scales = onnx_cast(z->g, with_shape(z, z->inputs[2], columns, blocks, 1), dtype);
  weights = with_shape(z, onnx_binary(z->g, OP_Mul, weights, scales), columns, -1, 0);
  weights = onnx_slice(z->g, weights, onnx_vector(z->g->module, 0, 1), onnx_vector(z->g->module, rows, 1), 1);
  ir_value *y = onnx_binary(z->g, OP_MatMul, z->inputs[0], onnx_unary(z->g, OP_Transpose, weights));
  z->outputs[0] = z->inputs[5] ? onnx_binary(z->g, OP_Add, y, z->inputs[5]) : y;
}

const onnx_maker onnx_bits_makers[] = {
    {"MatMulNBits", 3, 6, 1, multiply_bits},
    {0},
};
