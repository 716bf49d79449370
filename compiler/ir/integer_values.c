/* Partial evaluation (integer_values.h): one row for each operator. An element that a row cannot compute becomes a
 * fresh symbol, so that a result exists whenever its number of elements is known. Floats are followed only while they
 * are integers that are not rounded: an extent cast to float, floored, compared and cast back (extents are below 2^24,
 * the limit up to which f32 holds every integer). A quotient or a sum of floats is never followed. */
#include "compiler/ir/integer_values.h"

#include <math.h>
#include <string.h>

#define MAX_OPERANDS 8

typedef struct call {
  ir_module *m;
  reed_symbols *s;
  ir_node *n;
  reed_attrs attrs;
  const reed_dim *in[MAX_OPERANDS]; /* elements of the first inputs; NULL: not known */
  int64_t n_in[MAX_OPERANDS];
  int64_t n_out; /* elements of output 0 */
  reed_dim *out;
} call;

/* The dtypes of shape arithmetic. Narrow and unsigned dtypes are left out, because they wrap around and symbols do not.
 */
static bool is_integer(reed_dtype t) { return t == REED_I64 || t == REED_I32 || t == REED_BOOL; }
static bool is_float(reed_dtype t) { return t == REED_F32 || t == REED_F64; }
static bool is_number(reed_dim d) { return !symbol_is(d); }
static reed_dim unknown(const call *c) { return symbols_fresh_value(c->s); }

/* The number of elements of v; -1: not known, or more than INTEGER_VALUES_MAX. */
static int64_t count(const ir_value *v) {
  reed_desc d;
  if (!ir_desc(v, &d)) return -1;
  int64_t n = desc_elements(&d);
  return n > INTEGER_VALUES_MAX ? -1 : n;
}

/* A constant's elements as integers; NULL: an element is not an integer or could be confused with a symbol, or there is
 * no memory. */
static const reed_dim *constant_elements(ir_module *m, const ir_value *v, int64_t n) {
  reed_dim *elements = ir_alloc(m, (size_t)n * sizeof *elements);
  size_t bytes = reed_dtype_bytes(v->type.dtype);
  for (int64_t i = 0; elements && i < n; i++) {
    const char *element = (const char *)v->data + (size_t)i * bytes;
    if (v->type.dtype == REED_I64) {
      memcpy(&elements[i], element, sizeof *elements);
    } else {
      double value = reed_dtype_read(v->type.dtype, element);
      if (!(fabs(value) <= 0x1p53) || value != floor(value)) return NULL;
      elements[i] = (int64_t)value;
    }
    if (symbol_is(elements[i])) return NULL;
  }
  return elements;
}

const reed_dim *integer_values_of(ir_module *m, ir_value *v, bool make_fresh, int64_t *out_n) {
  *out_n = 0;
  if (!v || !(is_integer(v->type.dtype) || is_float(v->type.dtype))) return NULL;
  int64_t n = count(v);
  if (n < 0) return NULL;
  if (!v->elements && v->data) {
    v->elements = constant_elements(m, v, n);
    v->n_elements = n;
  } else if (!v->elements && make_fresh && is_integer(v->type.dtype)) {
    reed_dim *fresh = ir_alloc(m, (size_t)n * sizeof *fresh);
    for (int64_t i = 0; fresh && i < n; i++) fresh[i] = symbols_fresh_value(m->symbols);
    v->elements = fresh;
    v->n_elements = n;
  }
  *out_n = v->elements ? n : 0;
  return v->elements;
}

/* ---- element-wise ---- */

typedef reed_dim (*scalar_fn)(const call *c, reed_dim a, reed_dim b);

/* The sign of a - b as far as it is provable. */
typedef enum order {
  ORDER_UNKNOWN,
  ORDER_LESS,
  ORDER_LESS_OR_EQUAL,
  ORDER_EQUAL,
  ORDER_GREATER_OR_EQUAL,
  ORDER_GREATER
} order;

static order compare(const call *c, reed_dim a, reed_dim b) {
  if (is_number(a) && is_number(b)) return a < b ? ORDER_LESS : a > b ? ORDER_GREATER : ORDER_EQUAL;
  if (symbols_equal(c->s, a, b)) return ORDER_EQUAL;
  int64_t low, high;
  symbols_range(c->s, symbols_sub(c->s, a, b), &low, &high);
  return high < 0    ? ORDER_LESS
         : low > 0   ? ORDER_GREATER
         : high == 0 ? ORDER_LESS_OR_EQUAL
         : low == 0  ? ORDER_GREATER_OR_EQUAL
                     : ORDER_UNKNOWN;
}

static bool at_least(const call *c, reed_dim a, int64_t bound) {
  int64_t low, high;
  if (is_number(a)) return a >= bound;
  symbols_range(c->s, a, &low, &high);
  return low >= bound;
}

static reed_dim add(const call *c, reed_dim a, reed_dim b) { return symbols_add(c->s, a, b); }
static reed_dim sub(const call *c, reed_dim a, reed_dim b) { return symbols_sub(c->s, a, b); }
static reed_dim mul(const call *c, reed_dim a, reed_dim b) { return symbols_mul(c->s, a, b); }
static reed_dim min(const call *c, reed_dim a, reed_dim b) { return symbols_min(c->s, a, b); }
static reed_dim max(const call *c, reed_dim a, reed_dim b) { return symbols_max(c->s, a, b); }

/* ONNX divides integers towards zero, which equals the floor where no operand is negative. */
static reed_dim divide(const call *c, reed_dim a, reed_dim b) {
  if (is_number(a) && is_number(b)) return b && !(a == INT64_MIN && b == -1) ? a / b : unknown(c);
  return at_least(c, a, 0) && at_least(c, b, 1) ? symbols_floordiv(c->s, a, b) : unknown(c);
}

/* The remainder with the divisor's sign; fmod = 1, the dividend's sign, gives the same where no operand is negative. */
static reed_dim modulo(const call *c, reed_dim a, reed_dim b) {
  if (!at_least(c, a, 0) || !at_least(c, b, 1)) return unknown(c);
  return symbols_sub(c->s, a, symbols_mul(c->s, b, symbols_floordiv(c->s, a, b)));
}

static reed_dim truth(const call *c, bool yes, bool no) { return yes ? 1 : no ? 0 : unknown(c); }
static reed_dim equal(const call *c, reed_dim a, reed_dim b) {
  order o = compare(c, a, b);
  return truth(c, o == ORDER_EQUAL, o == ORDER_LESS || o == ORDER_GREATER);
}
static reed_dim less(const call *c, reed_dim a, reed_dim b) {
  order o = compare(c, a, b);
  return truth(c, o == ORDER_LESS, o >= ORDER_EQUAL);
}
static reed_dim less_or_equal(const call *c, reed_dim a, reed_dim b) {
  order o = compare(c, a, b);
  return truth(c, o >= ORDER_LESS && o <= ORDER_EQUAL, o == ORDER_GREATER);
}
static reed_dim greater(const call *c, reed_dim a, reed_dim b) { return less(c, b, a); }
static reed_dim greater_or_equal(const call *c, reed_dim a, reed_dim b) { return less_or_equal(c, b, a); }
static reed_dim and (const call *c, reed_dim a, reed_dim b) { return truth(c, a == 1 && b == 1, a == 0 || b == 0); }
static reed_dim or (const call *c, reed_dim a, reed_dim b) { return truth(c, a == 1 || b == 1, a == 0 && b == 0); }
static reed_dim xor
    (const call *c, reed_dim a, reed_dim b) {
      bool known = is_number(a) && is_number(b);
      return truth(c, known && a != b, known && a == b);
    }

    static reed_dim negate(const call *c, reed_dim a, reed_dim b) {
  return symbols_sub(c->s, 0, a);
}
static reed_dim not(const call *c, reed_dim a, reed_dim b) { return truth(c, a == 0, a == 1); }
static reed_dim absolute(const call *c, reed_dim a, reed_dim b) {
  return at_least(c, a, 0) ? a : at_least(c, symbols_sub(c->s, 0, a), 0) ? symbols_sub(c->s, 0, a) : unknown(c);
}
static reed_dim same(const call *c, reed_dim a, reed_dim b) { return a; }

/* To bool: whether the element is not zero. Between integers and floats the number stays; integer_values_compute
 * handles numbers that the dtype cannot hold. */
static reed_dim cast(const call *c, reed_dim a, reed_dim b) {
  reed_dtype to = c->n->outputs[0]->type.dtype;
  return to == REED_BOOL ? truth(c, at_least(c, a, 1) || (is_number(a) && a != 0), a == 0) : a;
}

/* ---- structure ---- */

/* The index of the operand's element that output element i reads under broadcasting; all extents are known. */
static int64_t broadcast_index(const ir_value *out, const ir_value *in, int64_t i) {
  int64_t index = 0, stride = 1;
  for (int32_t k = 1; k <= out->type.rank; k++) {
    int64_t extent = out->type.dims[out->type.rank - k], at = i % extent;
    i /= extent;
    if (k > in->type.rank) continue;
    int64_t own = in->type.dims[in->type.rank - k];
    if (own != 1) index += at * stride;
    stride *= own;
  }
  return index;
}

static bool broadcastable(const ir_value *out, const ir_value *in) {
  if (in->type.rank > out->type.rank) return false;
  for (int32_t k = 1; k <= in->type.rank; k++) {
    int64_t own = in->type.dims[in->type.rank - k];
    if (own != 1 && own != out->type.dims[out->type.rank - k]) return false;
  }
  return true;
}

/* Applies fn to all inputs from the left: two inputs for Add, one for Neg, any number for Max. */
static bool elementwise(call *c, scalar_fn fn) {
  const ir_value *out = c->n->outputs[0];
  for (int32_t k = 0; k < c->n->n_inputs; k++)
    if (k >= MAX_OPERANDS || !c->in[k] || !broadcastable(out, c->n->inputs[k])) return false;
  for (int64_t i = 0; i < c->n_out; i++) {
    reed_dim a = c->in[0][broadcast_index(out, c->n->inputs[0], i)];
    if (c->n->n_inputs == 1) a = c->n->op == op_builtin(OP_Max) || c->n->op == op_builtin(OP_Min) ? a : fn(c, a, 0);
    for (int32_t k = 1; k < c->n->n_inputs; k++) a = fn(c, a, c->in[k][broadcast_index(out, c->n->inputs[k], i)]);
    c->out[i] = a;
  }
  return true;
}

static bool where(call *c, scalar_fn fn) {
  const ir_value *out = c->n->outputs[0];
  ir_value *const *in = c->n->inputs;
  for (int k = 0; k < 3; k++)
    if (!c->in[k] || !broadcastable(out, in[k])) return false;
  for (int64_t i = 0; i < c->n_out; i++) {
    reed_dim condition = c->in[0][broadcast_index(out, in[0], i)];
    reed_dim x = c->in[1][broadcast_index(out, in[1], i)], y = c->in[2][broadcast_index(out, in[2], i)];
    c->out[i] = condition == 1 ? x : condition == 0 ? y : symbols_equal(c->s, x, y) ? x : unknown(c);
  }
  return true;
}

static bool clip(call *c, scalar_fn fn) {
  if (!c->in[0]) return false;
  for (int32_t k = 1; k < c->n->n_inputs; k++)
    if (c->n->inputs[k] && (!c->in[k] || c->n_in[k] != 1)) return false;
  for (int64_t i = 0; i < c->n_out; i++) {
    c->out[i] = c->in[0][i];
    if (c->in[1]) c->out[i] = symbols_max(c->s, c->out[i], c->in[1][0]);
    if (c->in[2]) c->out[i] = symbols_min(c->s, c->out[i], c->in[2][0]);
  }
  return true;
}

/* The same elements under other extents. */
static bool copy(call *c, scalar_fn fn) {
  if (!c->in[0] || c->n_in[0] != c->n_out) return false;
  memcpy(c->out, c->in[0], (size_t)c->n_out * sizeof *c->out);
  return true;
}

static bool expand(call *c, scalar_fn fn) {
  if (!c->in[0] || !broadcastable(c->n->outputs[0], c->n->inputs[0])) return false;
  for (int64_t i = 0; i < c->n_out; i++) c->out[i] = c->in[0][broadcast_index(c->n->outputs[0], c->n->inputs[0], i)];
  return true;
}

/* An axis or index as counted from the start; a negative one counts from the end. */
static int64_t from_start(int64_t i, int64_t n) { return i < 0 ? i + n : i; }

static bool shape_of(call *c, scalar_fn fn) {
  const ir_type *t = &c->n->inputs[0]->type;
  int64_t start = from_start(op_attr_int(&c->attrs, "start"), t->rank);
  if (t->rank < 0) return false;
  if (start < 0) start = 0;
  if (start + c->n_out > t->rank) return false;
  memcpy(c->out, t->dims + start, (size_t)c->n_out * sizeof *c->out);
  return true;
}

static bool size_of(call *c, scalar_fn fn) {
  const ir_type *t = &c->n->inputs[0]->type;
  if (t->rank < 0) return false;
  c->out[0] = symbols_product(c->s, t->dims, t->rank);
  return true;
}

static bool gather(call *c, scalar_fn fn) {
  const ir_type *data = &c->n->inputs[0]->type;
  if (!c->in[0] || !c->in[1]) return false;
  int64_t axis = from_start(op_attr_int(&c->attrs, "axis"), data->rank), inner = 1, n_indices = c->n_in[1];
  if (axis < 0 || axis >= data->rank) return false;
  for (int32_t i = (int32_t)axis + 1; i < data->rank; i++) inner *= data->dims[i];
  int64_t extent = data->dims[axis];
  if (!n_indices || !inner || !extent) return c->n_out == 0;
  for (int64_t i = 0; i < c->n_out; i++) {
    reed_dim index = c->in[1][i / inner % n_indices];
    int64_t at = is_number(index) ? from_start(index, extent) : -1,
            from = (i / (inner * n_indices) * extent + at) * inner + i % inner;
    c->out[i] = at >= 0 && at < extent && from < c->n_in[0] ? c->in[0][from] : unknown(c);
  }
  return true;
}

/* The source of each output element of a strided selection: index k along output axis i reads element start[i] + k *
 * step[i] along input axis from[i]. */
typedef struct selection {
  int64_t start[REED_MAX_RANK], step[REED_MAX_RANK];
  int32_t from[REED_MAX_RANK];
} selection;

static bool select(call *c, const selection *s) {
  const ir_type *in = &c->n->inputs[0]->type, *out = &c->n->outputs[0]->type;
  if (!c->in[0] || in->rank != out->rank) return false;
  int64_t strides[REED_MAX_RANK], stride = 1;
  for (int32_t i = in->rank; i-- > 0;) {
    strides[i] = stride;
    stride *= in->dims[i];
  }
  for (int64_t i = 0; i < c->n_out; i++) {
    int64_t rest = i, from = 0;
    for (int32_t k = out->rank; k-- > 0;) {
      int64_t at = s->start[k] + rest % out->dims[k] * s->step[k];
      if (at < 0 || at >= in->dims[s->from[k]]) return false;
      from += at * strides[s->from[k]];
      rest /= out->dims[k];
    }
    c->out[i] = c->in[0][from];
  }
  return true;
}

/* Number k of an operand that lists numbers; false: it is not known as a number. */
static bool listed(const call *c, int32_t operand, int64_t k, int64_t *out_number) {
  if (!c->in[operand] || k >= c->n_in[operand] || !is_number(c->in[operand][k])) return false;
  *out_number = c->in[operand][k];
  return true;
}

static bool slice(call *c, scalar_fn fn) {
  const ir_type *in = &c->n->inputs[0]->type;
  bool has_axes = c->n->n_inputs > 3 && c->n->inputs[3], has_steps = c->n->n_inputs > 4 && c->n->inputs[4];
  selection s = {0};
  for (int32_t i = 0; i < in->rank; i++) s.from[i] = i, s.step[i] = 1;
  for (int64_t k = 0; k < c->n_in[1]; k++) {
    int64_t axis = k, start, step = 1;
    if (!listed(c, 1, k, &start) || (has_axes && !listed(c, 3, k, &axis)) || (has_steps && !listed(c, 4, k, &step)))
      return false;
    axis = from_start(axis, in->rank);
    if (axis < 0 || axis >= in->rank || step < -INTEGER_VALUES_MAX || step > INTEGER_VALUES_MAX) return false;
    int64_t n = in->dims[axis], last = step > 0 ? n : n - 1;
    start = from_start(start, n);
    s.start[axis] = start < 0 ? 0 : start > last ? last : start;
    s.step[axis] = step;
  }
  return c->in[1] && select(c, &s);
}

static bool transpose(call *c, scalar_fn fn) {
  int32_t rank = c->n->inputs[0]->type.rank;
  int64_t n_perm;
  const int64_t *perm = reed_attrs_ints(&c->attrs, "perm", &n_perm);
  selection s = {0};
  if (perm && n_perm != rank) return false;
  for (int32_t i = 0; i < rank; i++) {
    int64_t from = perm ? perm[i] : rank - 1 - i;
    if (from < 0 || from >= rank) return false;
    s.from[i] = (int32_t)from;
    s.step[i] = 1;
  }
  return select(c, &s);
}

/* Concat along axis 0: the lists one after the other. */
static bool concat(call *c, scalar_fn fn) {
  int64_t axis = from_start(op_attr_int(&c->attrs, "axis"), c->n->outputs[0]->type.rank), at = 0;
  if (axis != 0) return false;
  for (int32_t k = 0; k < c->n->n_inputs; k++) {
    int64_t n;
    const reed_dim *elements = integer_values_of(c->m, c->n->inputs[k], true, &n);
    if (!elements || at + n > c->n_out) return false;
    memcpy(c->out + at, elements, (size_t)n * sizeof *elements);
    at += n;
  }
  return at == c->n_out;
}

/* A reduction over all elements. */
static bool reduce(call *c, scalar_fn fn) {
  if (!c->in[0] || c->n_out != 1 || !c->n_in[0] ||
      (c->n->n_inputs < 2 && op_attr_int(&c->attrs, "noop_with_empty_axes")))
    return false;
  c->out[0] = c->in[0][0];
  for (int64_t i = 1; i < c->n_in[0]; i++) c->out[0] = fn(c, c->out[0], c->in[0][i]);
  return true;
}

static bool range(call *c, scalar_fn fn) {
  if (!c->in[0] || !c->in[2]) return false;
  for (int64_t i = 0; i < c->n_out; i++) c->out[i] = symbols_add(c->s, c->in[0][0], symbols_mul(c->s, i, c->in[2][0]));
  return true;
}

static bool constant_of_shape(call *c, scalar_fn fn) {
  const reed_attr *value = reed_attrs_find(&c->attrs, "value");
  double fill = value && value->data && value->n == 1 ? reed_dtype_read(value->desc.dtype, value->data) : 0;
  if (!(fabs(fill) <= 0x1p53) || fill != floor(fill)) return false;
  for (int64_t i = 0; i < c->n_out; i++) c->out[i] = (int64_t)fill;
  return true;
}

typedef struct row {
  op_id op;
  bool (*structure)(call *c, scalar_fn fn);
  scalar_fn fn;
  bool integers_only; /* floats would be rounded, or would no longer be integers */
} row;

static const row rows[] = {{OP_Abs, elementwise, absolute},
                           {OP_Add, elementwise, add, true},
                           {OP_And, elementwise, and},
                           {OP_Cast, elementwise, cast},
                           {OP_Ceil, elementwise, same},
                           {OP_Clip, clip},
                           {OP_Concat, concat},
                           {OP_ConstantOfShape, constant_of_shape},
                           {OP_Div, elementwise, divide, true},
                           {OP_Equal, elementwise, equal},
                           {OP_Expand, expand},
                           {OP_Flatten, copy},
                           {OP_Floor, elementwise, same},
                           {OP_Gather, gather},
                           {OP_Greater, elementwise, greater},
                           {OP_GreaterOrEqual, elementwise, greater_or_equal},
                           {OP_Identity, copy},
                           {OP_Less, elementwise, less},
                           {OP_LessOrEqual, elementwise, less_or_equal},
                           {OP_Max, elementwise, max},
                           {OP_Min, elementwise, min},
                           {OP_Mod, elementwise, modulo, true},
                           {OP_Mul, elementwise, mul, true},
                           {OP_Neg, elementwise, negate},
                           {OP_Not, elementwise, not },
                           {OP_Or, elementwise, or },
                           {OP_Range, range, NULL, true},
                           {OP_ReduceMax, reduce, max},
                           {OP_ReduceMin, reduce, min},
                           {OP_ReduceProd, reduce, mul, true},
                           {OP_ReduceSum, reduce, add, true},
                           {OP_Reshape, copy},
                           {OP_Round, elementwise, same},
                           {OP_Shape, shape_of},
                           {OP_Size, size_of},
                           {OP_Slice, slice},
                           {OP_Squeeze, copy},
                           {OP_Sub, elementwise, sub, true},
                           {OP_Transpose, transpose},
                           {OP_Unsqueeze, copy},
                           {OP_Where, where},
                           {OP_Xor, elementwise, xor}};

/* Split, the only followed operator with several outputs: cuts a list into lists. */
static bool split(ir_module *m, ir_node *n) {
  int64_t n_in, at = 0;
  const reed_dim *in = integer_values_of(m, n->inputs[0], false, &n_in);
  if (!in || n->inputs[0]->type.rank != 1) return false;
  for (int32_t k = 0; k < n->n_outputs; k++) {
    if (!n->outputs[k]) return false;
    int64_t n_part = count(n->outputs[k]);
    if (n_part < 0 || at + n_part > n_in) return false;
    n->outputs[k]->elements = in + at;
    n->outputs[k]->n_elements = n_part;
    at += n_part;
  }
  return true;
}

static const row *row_of(const reed_op *op) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (op == op_builtin(rows[i].op)) return &rows[i];
  return NULL;
}

bool integer_values_has_rule(const reed_op *op) { return row_of(op) || op == op_builtin(OP_Split); }

/* True when the dtype holds the number exactly; symbols are assumed to stand for numbers that fit. */
static bool fits(reed_dtype dtype, reed_dim d) {
  if (symbol_is(d)) return true;
  if (dtype == REED_I32) return d == (int32_t)d;
  return !is_float(dtype) || (d >= -((int64_t)1 << 24) && d <= (int64_t)1 << 24);
}

reed_status integer_values_compute(ir_module *m, ir_node *n) {
  for (int32_t i = 0; i < n->n_outputs; i++)
    if (n->outputs[i]) n->outputs[i]->elements = NULL, n->outputs[i]->n_elements = 0;
  if (n->op == op_builtin(OP_Split)) {
    split(m, n);
    return REED_OK;
  }
  const row *r = row_of(n->op);
  ir_value *out = n->n_outputs ? n->outputs[0] : NULL;
  if (!r || !out || !(is_integer(out->type.dtype) || (is_float(out->type.dtype) && !r->integers_only))) return REED_OK;
  call c = {.m = m, .s = m->symbols, .n = n, .attrs = ir_attrs(n), .n_out = count(out)};
  if (c.n_out < 0) return REED_OK;
  bool sized = r->structure == shape_of || r->structure == size_of || r->structure == concat;
  for (int32_t k = 0; !sized && k < n->n_inputs && k < MAX_OPERANDS; k++)
    c.in[k] = integer_values_of(m, n->inputs[k], false, &c.n_in[k]);
  c.out = ir_alloc(m, (size_t)c.n_out * sizeof *c.out);
  if (!c.out) return diag_no_memory(m->diagnosis, "shape arithmetic");
  if (!r->structure(&c, r->fn)) return REED_OK;
  for (int64_t i = 0; i < c.n_out; i++) {
    if (fits(out->type.dtype, c.out[i])) continue;
    if (is_float(out->type.dtype)) return REED_OK;
    c.out[i] = unknown(&c);
  }
  out->elements = c.out;
  out->n_elements = c.n_out;
  return symbols_status(m->symbols) == REED_OK ? REED_OK : diag_no_memory(m->diagnosis, "symbols");
}

int64_t integer_values_limit(const ir_module *m, reed_dim limit, reed_dim extent) {
  int64_t low, high;
  if (!symbol_is(limit)) return -1;
  if (symbols_equal(m->symbols, limit, extent)) return INT64_MAX;
  symbols_range(m->symbols, limit, &low, &high);
  return low >= 0 && symbols_equal(m->symbols, limit, symbols_min(m->symbols, extent, high)) ? high : -1;
}
