/* Defaults of ONNX that depend on the rank, extents or dtypes of a call's operands: the last `end` of Shape, the dtype
 * of EyeLike, all axes of a reduction, ones as strides, the activations of an LSTM's directions, ... A node that spells
 * such a default gets the form of a node that omits it, so that both give the same module. Transpose and Squeeze get
 * the spelled form, because patterns read perm and axes. Axes that are no default count from the first.
 *
 * A default that is the same for all calls is the row's (ops/op.def): the IR's nodes and modules have one form of it
 * anyway. Nothing is dropped that tells more than its absence does: the lists and extents of operands whose ranks or
 * extents are unknown stay. Defaults of older opsets: compiler/onnx/upgrade.c. Who calls this: infer.c. */
#include "compiler/passes/clean/settle.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/desc.h"

typedef struct call {
  ir_module *m;
  ir_node *n;
  reed_attrs attrs; /* valid until the node's attributes change */
  bool accepted; /* inference knew the rank of input 0, and the shape function gave shapes: the call fits these types */
} call;

typedef bool (*rule)(call *c); /* false: no memory */

static const ir_type unknown = {.rank = -1};

static ir_value *input(const call *c, int32_t i) { return i < c->n->n_inputs ? c->n->inputs[i] : NULL; }
static const ir_type *type_of(const call *c, int32_t i) { return input(c, i) ? &input(c, i)->type : &unknown; }

/* The extent along an axis of input i; -1: not known. */
static int64_t extent(const call *c, int32_t i, int32_t axis) {
  const ir_type *t = type_of(c, i);
  return axis < t->rank && !symbol_is(t->dims[axis]) ? t->dims[axis] : -1;
}

static bool drop(call *c, const char *name) {
  bool ok = ir_drop_attr(c->n, name);
  c->attrs = ir_attrs(c->n);
  return ok;
}

/* The elements of a constant vector of int64; NULL: it is none. */
static const int64_t *constant_list(const ir_value *v, int64_t *out_n) {
  reed_desc d;
  if (!ir_is_constant(v) || !ir_desc(v, &d) || d.dtype != REED_I64 || d.rank != 1) return NULL;
  *out_n = d.dims[0];
  return v->data;
}

/* The elements of a constant of at most REED_MAX_RANK indices, of i32 or i64; false: it is none. */
static bool constant_indices(const ir_value *v, reed_desc *out_desc, int64_t out[REED_MAX_RANK]) {
  if (!ir_is_constant(v) || !ir_desc(v, out_desc)) return false;
  if (out_desc->dtype != REED_I32 && out_desc->dtype != REED_I64) return false;
  const int64_t n = desc_elements(out_desc);
  for (int64_t i = 0; i < n && n <= REED_MAX_RANK; i++)
    out[i] = out_desc->dtype == REED_I32 ? ((const int32_t *)v->data)[i] : ((const int64_t *)v->data)[i];
  return n <= REED_MAX_RANK;
}

/* ---- lists with a number for each axis of a window ---- */

/* The number of axes that a window has: by the weights, the attribute kernel_shape, the block's extents, or the image.
 * -1: not known. */
static int64_t window_axes(const call *c) {
  int64_t n;
  if (op_has(c->n->op, OP_PROPERTY_WINDOW_OF_W) && type_of(c, 1)->rank > 2) return type_of(c, 1)->rank - 2;
  if (reed_attrs_ints(&c->attrs, "kernel_shape", &n)) return n;
  if (c->n->op == op_builtin(OP_Col2Im)) return extent(c, 2, 0);
  return op_has(c->n->op, OP_PROPERTY_WINDOW_OF_W) && type_of(c, 0)->rank > 2 ? type_of(c, 0)->rank - 2 : -1;
}

/* True for a list of ones or zeros of the length that the call needs, whatever ranks it meets. */
static bool is_each(const call *c, const reed_attr *attr) {
  if (!op_attr_is_each(c->n->op, attr)) return false;
  if (c->accepted) return true;
  const int64_t sides = strcmp(attr->name, "pads") == 0 ? 2 : 1, axes = window_axes(c);
  return axes > 0 && attr->n == axes * sides;
}

/* True if kernel_shape repeats the known extents of the weights. */
static bool repeats_window(const call *c, const reed_attr *attr) {
  if (!op_has(c->n->op, OP_PROPERTY_WINDOW_OF_W) || strcmp(attr->name, "kernel_shape") != 0) return false;
  if (type_of(c, 1)->rank != attr->n + 2) return false;
  for (int32_t i = 0; i < attr->n; i++)
    if (extent(c, 1, 2 + i) != attr->ints[i]) return false;
  return true;
}

/* True for the attribute `axis` of an operator of ours. */
static bool is_axis(const call *c, const reed_attr *attr) {
  return c->accepted && strcmp(attr->name, "axis") == 0 && attr->type == REED_ATTR_INT &&
         op_id_of(c->n->op) != OP_COUNT;
}

/* The rank in which the attribute `axis` counts: OneHot's result has an axis more than its input. */
static int64_t axis_rank(const call *c) { return type_of(c, 0)->rank + (c->n->op == op_builtin(OP_OneHot)); }

/* True for an axis that is the row's, counted from the other end. */
static bool is_default_axis(const call *c, const reed_attr *attr) {
  const reed_op_attr *row = op_attr_row(c->n->op, attr->name);
  if (!is_axis(c, attr) || !row || !row->otherwise) return false;
  const int64_t rank = axis_rank(c), other = row->otherwise->i < 0 ? attr->i - rank : attr->i + rank;
  return (attr->i < 0) != (row->otherwise->i < 0) && other == row->otherwise->i;
}

/* True if the attribute names the dtype that the output has without it. */
static bool is_dtype(const call *c, const reed_attr *attr) {
  const reed_op *op = c->n->op;
  const reed_op_attr *row = op_attr_row(op, attr->name);
  if (!row || row->required || row->otherwise || attr->type != REED_ATTR_INT) return false;
  for (int32_t i = 0; i < op->n_outputs; i++) {
    const reed_op_output *out = &op->outputs[i];
    if (out->type_rule == REED_TYPE_ATTR && strcmp(out->type_attr, attr->name) == 0)
      return attr->i != REED_NONE && (int64_t)type_of(c, out->type_arg)->dtype == attr->i;
  }
  return false;
}

static bool settle_lists(call *c) {
  for (int32_t i = c->n->n_attrs; i-- > 0;) {
    const reed_attr *attr = &c->n->attrs[i];
    if ((is_each(c, attr) || repeats_window(c, attr) || is_default_axis(c, attr) || is_dtype(c, attr)) &&
        !drop(c, attr->name))
      return false;
  }
  return true;
}

/* ---- axes counted from the last ---- */

static int64_t from_first(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

/* Other axes than the row's count from the first. */
static bool settle_axis(call *c) {
  const reed_attr *attr = reed_attrs_find(&c->attrs, "axis");
  const int64_t rank = axis_rank(c);
  if (!attr || !is_axis(c, attr) || attr->i >= 0 || attr->i + rank < 0) return true;
  const reed_op_attr *row = op_attr_row(c->n->op, "axis");
  if (row && row->otherwise && row->otherwise->i == attr->i) return true;
  bool ok = ir_set_attr_int(c->n, "axis", attr->i + rank);
  c->attrs = ir_attrs(c->n);
  return ok;
}

/* The number of the input `axes`; -1: the operator has none. */
static int32_t axes_input(const call *c) {
  const reed_op *op = c->n->op;
  for (int32_t i = 0; op_id_of(op) != OP_COUNT && i < op->n_inputs && i < c->n->n_inputs; i++)
    if (strcmp(op->inputs[i].name, "axes") == 0) return i;
  return -1;
}

/* A constant like v with other elements, in v's dtype (i32 or i64); NULL: no memory. */
static ir_value *with_elements(const call *c, const ir_value *v, const reed_desc *d, const int64_t *elements) {
  int32_t narrow[REED_MAX_RANK];
  for (int64_t i = 0; d->dtype == REED_I32 && i < desc_elements(d); i++) narrow[i] = (int32_t)elements[i];
  return ir_constant(c->m, d, d->dtype == REED_I32 ? (const void *)narrow : elements, false, v->name);
}

/* Constant axes that are an input count from the first; sorted, unless other inputs have an element for each. */
static bool settle_axes(call *c) {
  const int32_t at = c->accepted ? axes_input(c) : -1;
  int64_t n = 0, axes[REED_MAX_RANK], given[REED_MAX_RANK];
  reed_desc d;
  if (at < 0 || !constant_indices(input(c, at), &d, given)) return true;
  n = desc_elements(&d);
  const int64_t rank = c->n->op == op_builtin(OP_Unsqueeze) ? c->n->outputs[0]->type.rank : type_of(c, 0)->rank;
  const bool any_order = at == 1; /* as input 3, of Slice and Pad, they belong to starts or pads */
  bool changed = false;
  for (int64_t i = 0; i < n; i++) {
    int64_t axis = from_first(given[i], rank), k = i;
    if (axis < 0) return true;
    for (; any_order && k > 0 && axes[k - 1] > axis; k--) axes[k] = axes[k - 1];
    axes[k] = axis;
    changed = changed || given[i] < 0 || k < i;
  }
  return !changed || (c->n->inputs[at] = with_elements(c, input(c, at), &d, axes)) != NULL;
}

/* ---- rules of single operators ---- */

static int64_t place_in(int64_t at, int64_t rank) {
  if (at < 0) at += rank;
  return at < 0 ? 0 : at > rank ? rank : at;
}

/* start and end as numbers from 0; no end is the rank. */
static bool shape(call *c) {
  const int64_t rank = type_of(c, 0)->rank, start = place_in(op_attr_int(&c->attrs, "start"), rank);
  const int64_t end = place_in(reed_attrs_int(&c->attrs, "end", rank), rank);
  const reed_attr *given = reed_attrs_find(&c->attrs, "end");
  if (rank < 0) return true;
  if (given && !(end == rank ? drop(c, "end") : ir_set_attr_int(c->n, "end", end))) return false;
  return ir_set_attr_int(c->n, "start", start);
}

static bool transpose(call *c) {
  int64_t perm[REED_MAX_RANK];
  const int32_t rank = type_of(c, 0)->rank;
  if (!c->accepted || rank < 2 || reed_attrs_find(&c->attrs, "perm")) return true;
  for (int32_t i = 0; i < rank; i++) perm[i] = rank - 1 - i;
  return ir_set_attr_ints(c->n, "perm", perm, rank);
}

/* axes that are all axes in order */
static bool resize(call *c) {
  int64_t n, axes[REED_MAX_RANK], rank = type_of(c, 0)->rank;
  const int64_t *given = reed_attrs_ints(&c->attrs, "axes", &n);
  if (!c->accepted || !given || n > REED_MAX_RANK) return true;
  bool all = n == rank;
  for (int64_t i = 0; i < n; i++) {
    axes[i] = from_first(given[i], rank);
    all = all && axes[i] == i;
  }
  return all ? drop(c, "axes") : ir_set_attr_ints(c->n, "axes", axes, n);
}

/* a constant axis as a number from the first */
static bool cumsum(call *c) {
  int64_t given[REED_MAX_RANK];
  reed_desc d;
  if (!c->accepted || !constant_indices(input(c, 1), &d, given) || desc_elements(&d) != 1) return true;
  const int64_t counted = from_first(given[0], type_of(c, 0)->rank);
  if (given[0] >= 0 || counted < 0) return true;
  return (c->n->inputs[1] = with_elements(c, input(c, 1), &d, &counted)) != NULL;
}

/* Without axes all axes are reduced; a list of all of them goes. */
static bool reduce(call *c) {
  int64_t n, rank = type_of(c, 0)->rank;
  const int64_t *axes = constant_list(input(c, 1), &n);
  if (!c->accepted || !axes || rank < 1 || op_attr_int(&c->attrs, "noop_with_empty_axes")) return true;
  uint64_t seen = 0;
  for (int64_t i = 0; i < n; i++) seen |= UINT64_C(1) << place_in(axes[i], rank);
  if (seen == (UINT64_C(1) << rank) - 1) c->n->n_inputs = 1;
  return true;
}

/* Without axes all extents of 1 go: their list, if every extent is known. */
static bool squeeze(call *c) {
  int64_t axes[REED_MAX_RANK], n = 0;
  const int32_t rank = type_of(c, 0)->rank;
  if (!c->accepted || input(c, 1)) return true;
  for (int32_t i = 0; i < rank; i++) {
    if (extent(c, 0, i) < 0) return true;
    if (extent(c, 0, i) == 1) axes[n++] = i;
  }
  ir_value *list = ir_constant_i64(c->m, axes, n, NULL);
  if (list && c->n->n_inputs == 2) c->n->inputs[1] = list;
  return list && (c->n->n_inputs == 2 || ir_add_input(c->n, list));
}

/* num_outputs repeats the number of outputs; the parts' extents are equal. */
static bool split(call *c) {
  if (reed_attrs_int(&c->attrs, "num_outputs", -1) == c->n->n_outputs && !drop(c, "num_outputs")) return false;
  int64_t n, axis = op_attr_int(&c->attrs, "axis"), rank = type_of(c, 0)->rank;
  const int64_t *parts = constant_list(input(c, 1), &n);
  if (!c->accepted || !parts || n < 1 || n != c->n->n_outputs) return true;
  if (extent(c, 0, (int32_t)from_first(axis, rank)) < 0) return true;
  for (int64_t i = 1; i < n; i++)
    if (parts[i] != parts[0]) return true;
  c->n->n_inputs = 1;
  return true;
}

/* The numbers of heads say nothing of inputs of rank 4. */
static bool drop_heads(call *c, const char *name) {
  return !c->accepted || type_of(c, 0)->rank != 4 || !reed_attrs_find(&c->attrs, name) || drop(c, name);
}

/* The elements of a head of input 0; -1: not known. */
static int64_t head_size(const call *c, const char *heads) {
  const int32_t rank = type_of(c, 0)->rank;
  const int64_t n = reed_attrs_int(&c->attrs, heads, 0);
  if (rank == 4) return extent(c, 0, 3);
  return rank == 3 && n > 0 && extent(c, 0, 2) >= 0 ? extent(c, 0, 2) / n : -1;
}

/* scale: 1 / sqrt(the elements of a head), as an f32, the type of ONNX's attributes */
static bool attention(call *c) {
  const int64_t size = c->accepted ? head_size(c, "q_num_heads") : -1;
  const reed_attr *scale = reed_attrs_find(&c->attrs, "scale");
  if (scale && size > 0 && (float)scale->f == (float)(1 / sqrt((double)size)) && !drop(c, "scale")) return false;
  return drop_heads(c, "q_num_heads") && drop_heads(c, "kv_num_heads");
}

/* rotary_embedding_dim: all elements of a head */
static bool rotary(call *c) {
  const int64_t size = c->accepted ? head_size(c, "num_heads") : -1;
  if (size > 0 && op_attr_int(&c->attrs, "rotary_embedding_dim") == size && !drop(c, "rotary_embedding_dim"))
    return false;
  return drop_heads(c, "num_heads");
}

/* The number that the next activation reads from activation_alpha or _beta is the one that it has without the list. */
static bool is_default_number(const char *activation, size_t n, const char *parameter, const double **next,
                              const double *end) {
  for (int id = 0; id < OP_COUNT; id++) {
    const reed_op *op = op_builtin((op_id)id);
    if (strlen(op->name) != n || strncasecmp(op->name, activation, n) != 0) continue;
    const reed_op_attr *row = op_attr_row(op, parameter);
    return !row || !row->otherwise || *next == end || *(*next)++ == row->otherwise->f;
  }
  return false; /* Affine and ScaledTanh are no operators, and ONNX gives no values for them */
}

static bool is_default_numbers(const char *activations, const char *parameter, const reed_attr *numbers) {
  const double *next = numbers->floats, *end = next + numbers->n;
  for (const char *p = activations; *p;) {
    const size_t n = strcspn(p, ",");
    if (!is_default_number(p, n, parameter, &next, end)) return false;
    p += n + (p[n] == ',');
  }
  return next == end;
}

/* activations: the row's, for one direction or two; activation_alpha and _beta: those of the activations' operators;
 * hidden_size: R's last extent. */
static bool recurrent(call *c) {
  static const char *const lists[2][2] = {{"activation_alpha", "alpha"}, {"activation_beta", "beta"}};
  for (int k = 0; k < 2; k++) {
    const reed_attr *numbers = reed_attrs_find(&c->attrs, lists[k][0]);
    if (numbers && is_default_numbers(op_attr_string(&c->attrs, "activations"), lists[k][1], numbers) &&
        !drop(c, lists[k][0]))
      return false;
  }
  const char *both = op_attr_row(c->n->op, "activations")->otherwise->s;
  const char *given = op_attr_string(&c->attrs, "activations");
  const bool two = strcmp(op_attr_string(&c->attrs, "direction"), "bidirectional") == 0;
  const size_t n =
      two ? strlen(both) : strlen(both) / 2; /* "Tanh,Tanh": a comma, and the names of one direction twice */
  if (strlen(given) == n && strncasecmp(given, both, n) == 0 && !drop(c, "activations")) return false;
  const int64_t hidden = extent(c, 2, 2);
  return hidden < 0 || reed_attrs_int(&c->attrs, "hidden_size", -1) != hidden || drop(c, "hidden_size");
}

static const struct {
  op_id op;
  rule rule;
} rows[] = {
    {OP_Attention, attention}, {OP_CumSum, cumsum},          {OP_GRU, recurrent},
    {OP_LSTM, recurrent},      {OP_RNN, recurrent},          {OP_ReduceL1, reduce},
    {OP_ReduceL2, reduce},     {OP_ReduceLogSum, reduce},    {OP_ReduceLogSumExp, reduce},
    {OP_ReduceMax, reduce},    {OP_ReduceMean, reduce},      {OP_ReduceMin, reduce},
    {OP_ReduceProd, reduce},   {OP_ReduceSum, reduce},       {OP_ReduceSumSquare, reduce},
    {OP_Resize, resize},       {OP_RotaryEmbedding, rotary}, {OP_Shape, shape},
    {OP_Split, split},         {OP_Squeeze, squeeze},        {OP_Transpose, transpose},
};

static reed_status visit(void *context, ir_node *n) {
  call c = {.m = context, .n = n, .attrs = ir_attrs(n)};
  if (n->n_inputs && n->inputs[0] && n->inputs[0]->type.rank >= 0)
    for (int32_t i = 0; i < n->n_outputs; i++)
      c.accepted = c.accepted || (n->outputs[i] && n->outputs[i]->type.rank >= 0);
  bool ok = settle_lists(&c) && settle_axis(&c) && settle_axes(&c);
  for (size_t i = 0; i < sizeof rows / sizeof *rows && ok; i++)
    if (n->op == op_builtin(rows[i].op)) ok = rows[i].rule(&c);
  return ok ? REED_OK : diag_no_memory(c.m->diagnosis, "attributes");
}

reed_status settle_calls(ir_module *m) { return ir_walk(m->main, true, visit, m); }
