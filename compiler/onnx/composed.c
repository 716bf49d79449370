/* Operators that are exact compositions of others -> these: CenterCropPad, AffineGrid, MaxUnpool, and Det of small
 * matrices. Source of the meanings: ONNX's operator specification and its reference implementation. */
#include "compiler/onnx/reader.h"

/* ---- parts; each returns NULL without memory ---- */

static ir_value *integers(const onnx_reading *z, int64_t n, const int64_t *numbers) {
  return ir_constant_i64(z->g->module, numbers, n, NULL);
}

static ir_value *with_axes(const onnx_reading *z, ir_value *x, int64_t first, int64_t n) {
  return n ? onnx_binary(z->g, OP_Unsqueeze, x, onnx_vector(z->g->module, first, n)) : x;
}

/* A node with an absent operand among its first ones. */
static ir_value *made_with_gap(const onnx_reading *z, op_id op, ir_value *const *inputs, int32_t n_inputs) {
  ir_node *n = inputs[0] ? ir_node_new(z->g, NULL, op_builtin(op), NULL, inputs, n_inputs, NULL, 1) : NULL;
  if (!n) return NULL;
  n->outputs[0]->type.dtype = inputs[0]->type.dtype;
  return n->outputs[0];
}

/* ---- CenterCropPad ---- */

/* The middle of x of the wanted extents: of an odd difference the place before has the smaller half. */
static void crop_or_pad(onnx_reading *z) {
  ir_graph *g = z->g;
  const Onnx__AttributeProto *a = onnx_find_attribute(z->f, z->node, "axes");
  ir_value *x = z->inputs[0], *wanted = onnx_cast(g, z->inputs[1], REED_I64), *zero = onnx_integer(g, 0),
           *two = onnx_integer(g, 2);
  ir_value *axes = a ? integers(z, (int64_t)a->n_ints, a->ints) : NULL;
  ir_value *extents = onnx_unary(g, OP_Shape, x);
  if (a) extents = onnx_binary(g, OP_Gather, extents, axes);
  ir_value *more = onnx_binary(g, OP_Sub, wanted, extents);
  ir_value *cut = onnx_binary(g, OP_Max, onnx_unary(g, OP_Neg, more), zero);
  ir_value *begin = onnx_binary(g, OP_Div, cut, two);
  ir_value *end = onnx_binary(g, OP_Add, begin, onnx_binary(g, OP_Min, wanted, extents));
  ir_value *middle = onnx_made(g, NULL, OP_Slice, (ir_value *[]){x, begin, end, axes}, a ? 4 : 3, NULL, 0, NULL);
  ir_value *added = onnx_binary(g, OP_Max, more, zero), *before = onnx_binary(g, OP_Div, added, two);
  ir_value *pads = onnx_joined(g, (ir_value *[]){before, onnx_binary(g, OP_Sub, added, before)}, 2, 0);
  if (pads && middle) z->outputs[0] = made_with_gap(z, OP_Pad, (ir_value *[]){middle, pads, NULL, axes}, a ? 4 : 2);
}

/* ---- AffineGrid ---- */

/* The axes of the grid, 2 or 3; 0: neither operand's type tells. */
static int64_t axes_of_grid(const onnx_reading *z) {
  const ir_type *theta = &z->inputs[0]->type, *size = &z->inputs[1]->type;
  if (theta->rank == 3 && !symbol_is(theta->dims[1])) return theta->dims[1];
  return size->rank == 1 && !symbol_is(size->dims[0]) ? size->dims[0] - 2 : 0;
}

/* The coordinates of n places between -1 and 1, f64: at their middles, or from corner to corner. */
static ir_value *coordinates(const onnx_reading *z, ir_value *n, bool from_corner) {
  ir_graph *g = z->g;
  ir_value *places = onnx_cast(g, onnx_range(g, n), REED_F64), *one = onnx_number(g, 1, REED_F64);
  ir_value *twice = onnx_binary(g, OP_Add, places, places), *steps = onnx_cast(g, n, REED_F64);
  if (from_corner) steps = onnx_binary(g, OP_Sub, steps, one);
  else twice = onnx_binary(g, OP_Add, twice, one);
  return onnx_binary(g, OP_Sub, onnx_binary(g, OP_Div, twice, onnx_binary(g, OP_Max, steps, one)), one);
}

/* theta [batch, axes, axes + 1] times the places (x, y, z, 1) of the grid: [batch, extents, axes] */
static void affine_grid(onnx_reading *z) {
  ir_graph *g = z->g;
  const reed_dtype dtype = onnx_float_of_x(z, "an AffineGrid of numbers whose dtype is not known or no float");
  const int64_t n = axes_of_grid(z);
  if (n != 2 && n != 3) (void)onnx_refuse(z, "an AffineGrid whose number of axes is not 2 or 3, or not declared");
  if (z->unsupported) return;
  ir_value *size = onnx_cast(g, z->inputs[1], REED_I64), *extents = onnx_part(g, size, 2, INT64_MAX), *parts[4];
  const bool from_corner = onnx_int(z, "align_corners", 0) != 0;
  for (int64_t axis = 0; axis < n; axis++) {
    ir_value *at = coordinates(z, onnx_binary(g, OP_Gather, extents, onnx_integer(g, axis)), from_corner);
    at = with_axes(z, onnx_cast(g, at, dtype), 1, n - 1 - axis);
    parts[n - 1 - axis] = with_axes(z, onnx_binary(g, OP_Expand, at, extents), n, 1);
  }
  parts[n] = with_axes(z, onnx_binary(g, OP_Expand, onnx_number(g, 1, dtype), extents), n, 1);
  ir_value *places =
      onnx_binary(g, OP_Reshape, onnx_joined(g, parts, (int32_t)n + 1, n), integers(z, 2, (int64_t[]){-1, n + 1}));
  ir_value *theta = onnx_transposed(g, z->inputs[0], (int64_t[]){0, 2, 1}, 3, NULL);
  z->outputs[0] = onnx_reshaped(g, onnx_binary(g, OP_MatMul, places, theta), onnx_part(g, size, 0, 1), extents,
                                integers(z, 1, &n), NULL);
}

/* ---- MaxUnpool ---- */

/* The attribute's numbers; without it n times `absent`. NULL: it has another number of them. */
static const int64_t *list_of(onnx_reading *z, const char *name, size_t n, int64_t absent, int64_t *memory) {
  const Onnx__AttributeProto *a = onnx_find_attribute(z->f, z->node, name);
  if (a && a->n_ints == n) return a->ints;
  for (size_t i = 0; i < n; i++) memory[i] = absent;
  if (!a) return memory;
  z->status = diag_fail(z->r->diagnosis, REED_ERROR_FORMAT,
                        "node '%s' (MaxUnpool): attribute '%s' has %zu numbers, not %zu", z->name, name, a->n_ints, n);
  return NULL;
}

/* Zeros of the pool's input's extents, in which x lies at the places of operand 1; they are the first of the extents of
 * operand 2. */
static void max_unpool(onnx_reading *z) {
  ir_graph *g = z->g;
  const Onnx__AttributeProto *kernel = onnx_find_attribute(z->f, z->node, "kernel_shape");
  int64_t ones[REED_MAX_RANK], zeros[2 * REED_MAX_RANK], constant[REED_MAX_RANK];
  const size_t n = kernel ? kernel->n_ints : 0;
  if (n < 1 || n > REED_MAX_RANK - 2) {
    z->status = diag_fail(z->r->diagnosis, REED_ERROR_FORMAT, "node '%s' (MaxUnpool): 'kernel_shape' has %zu numbers",
                          z->name, n);
    return;
  }
  const int64_t *strides = list_of(z, "strides", n, 1, ones), *pads = list_of(z, "pads", 2 * n, 0, zeros);
  if (!strides || !pads) return;
  for (size_t i = 0; i < n; i++) constant[i] = kernel->ints[i] - pads[i] - pads[n + i];
  ir_value *x = z->inputs[0], *shape = onnx_unary(g, OP_Shape, x), *any = integers(z, 1, (int64_t[]){-1});
  ir_value *steps = onnx_binary(g, OP_Sub, onnx_part(g, shape, 2, INT64_MAX), onnx_integer(g, 1));
  ir_value *extents = onnx_binary(g, OP_Mul, steps, integers(z, (int64_t)n, strides));
  extents = onnx_binary(g, OP_Add, extents, integers(z, (int64_t)n, constant));
  ir_value *whole = onnx_joined(g, (ir_value *[]){onnx_part(g, shape, 0, 2), extents}, 2, 0);
  ir_value *operands[] = {onnx_binary(g, OP_Expand, onnx_number_like(g, x, 0), onnx_product(g, whole)),
                          onnx_binary(g, OP_Reshape, z->inputs[1], any), onnx_binary(g, OP_Reshape, x, any)};
  ir_value *y = onnx_shaped(g, onnx_made(g, NULL, OP_ScatterElements, operands, 3, NULL, 0, NULL), whole, NULL);
  if (z->inputs[2]) {
    ir_value *more = onnx_binary(g, OP_Sub, onnx_cast(g, z->inputs[2], REED_I64), whole);
    y = onnx_binary(g, OP_Pad, y, onnx_joined(g, (ir_value *[]){onnx_binary(g, OP_Sub, more, more), more}, 2, 0));
  }
  z->outputs[0] = y;
}

/* ---- Det ---- */

enum { DET_ROWS = 4 };

/* By the products of each row's elements with the minors of the rows above, of each set of columns. */
static void determinant(onnx_reading *z) {
  const ir_type *type = &z->inputs[0]->type;
  const int64_t n = type->rank >= 2 ? type->dims[type->rank - 1] : 0;
  ir_value *minors[1 << DET_ROWS] = {NULL};
  if (type->rank < 2 || symbol_is(n) || n != type->dims[type->rank - 2] || n < 1 || n > DET_ROWS)
    (void)onnx_refuse(z, "the determinant of matrices of more than 4 rows, or of extents that are not declared");
  if (z->unsupported) return;
  for (int64_t row = 0; row < n; row++) {
    ir_value *line =
        onnx_made(z->g, NULL, OP_Gather, (ir_value *[]){z->inputs[0], onnx_integer(z->g, row)}, 2, "axis", -2, NULL);
    ir_value *elements[DET_ROWS];
    for (int64_t i = 0; i < n; i++)
      elements[i] = onnx_made(z->g, NULL, OP_Gather, (ir_value *[]){line, onnx_integer(z->g, i)}, 2, "axis", -1, NULL);
    for (int set = (1 << n) - 1; set > 0; set--) {
      if (__builtin_popcount((unsigned)set) != row + 1) continue;
      ir_value *sum = NULL;
      for (int64_t i = 0; i < n; i++) {
        if (!(set >> i & 1)) continue;
        const bool minus = __builtin_popcount((unsigned)(set >> i)) % 2 == 0;
        ir_value *term = row ? onnx_binary(z->g, OP_Mul, elements[i], minors[set & ~(1 << i)]) : elements[i];
        sum = !sum ? (minus ? onnx_unary(z->g, OP_Neg, term) : term)
                   : onnx_binary(z->g, minus ? OP_Sub : OP_Add, sum, term);
      }
      minors[set] = sum;
    }
  }
  z->outputs[0] = onnx_unary(z->g, OP_Identity, minors[(1 << n) - 1]);
}

const onnx_maker onnx_composed_makers[] = {
    {"CenterCropPad", 2, 2, 1, crop_or_pad},
    {"AffineGrid", 2, 2, 1, affine_grid},
    {"MaxUnpool", 2, 3, 1, max_unpool},
    {"Det", 1, 1, 1, determinant},
    {0},
};
