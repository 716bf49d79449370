/* Products of matrices whose batch and heads an exporter joins into one axis, as torch.bmm and torch.baddbmm want them:
 *
 *   MatMul(joined Q, Transpose(joined K))          joined: Reshape of [batch, heads, rows, columns] to
 *   Reshape(product, [batch, heads, rows, columns])        [batch * heads, rows, columns]
 *
 * The pass computes such a product, and the operators between a joined tensor and the Reshape that parts its axes
 * again, with the axes apart: transposition of the matrices, scale, added bias, Softmax along rows, Cast. The Reshapes
 * between them go. A joined tensor may also be a Reshape of repeated heads, [batch, heads, repeats, rows, columns]. So
 * the pass attention meets one form of attention, and masks of rank 4 fit all of its operators. */
#include "base/diag.h"
#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

enum { BATCH, HEADS, ROWS, COLUMNS, APART }; /* axes of a tensor with the axes apart, and its rank */
enum { JOINED = APART - 1 };                 /* the rank of a tensor with batch and heads in one axis */
enum { REPEATED = APART + 1 };               /* of a tensor that repeats each head along an axis behind HEADS */
enum { DEPTH_MOST = 8 };                     /* operators between a joined tensor and its use */

typedef struct parting {
  ir_module *m;
  ir_node *at; /* the node visited: new nodes go in front of it */
  int64_t n_products, n_parted, n_changed;
} parting;

static bool same(const parting *p, reed_dim a, reed_dim b) { return symbols_assume_equal(p->m->symbols, a, b); }

static ir_value *input(const ir_node *n, int32_t i) { return i < n->n_inputs ? ir_resolve(n->inputs[i]) : NULL; }

/* True if `whole` has the extents of `apart`, batch and heads in one axis. `whole` has as many elements as `apart`, as
 * a Reshape leaves it; so one extent that is not known to be equal is equal, too, if there is an element. */
static bool joins(const parting *p, const ir_type *apart, const ir_type *whole) {
  if (apart->rank != APART || whole->rank != JOINED) return false;
  const int32_t unknown = !same(p, apart->dims[ROWS], whole->dims[1]) + !same(p, apart->dims[COLUMNS], whole->dims[2]) +
                          !same(p, symbols_mul(p->m->symbols, apart->dims[BATCH], apart->dims[HEADS]), whole->dims[0]);
  return unknown <= 1;
}

/* ---- tensors whose axes can be apart ---- */

static bool is_scale(const ir_value *v) {
  double x;
  return v && ir_is_constant(v) && pattern_number(v, &x);
}

/* True if the Transpose exchanges rows and columns and keeps the axes before them. */
static bool turns_matrices(const ir_node *n) {
  const reed_attrs attrs = ir_attrs(n);
  const int32_t rank = n->outputs[0]->type.rank;
  int64_t n_perm;
  const int64_t *perm = reed_attrs_ints(&attrs, "perm", &n_perm);
  if (!perm || n_perm != rank || rank < JOINED) return false;
  for (int32_t i = 0; i < rank - 2; i++)
    if (perm[i] != i) return false;
  return perm[rank - 1] == rank - 2;
}

static bool is_along_rows(const ir_node *n) {
  const reed_attrs attrs = ir_attrs(n);
  const int64_t axis = op_attr_int(&attrs, "axis");
  return (axis == -1 || axis == JOINED - 1) && !op_attr_int(&attrs, "flattened");
}

/* True if operand i of the Add has the result's batch and heads, and the other one can be added with the axes apart.
 * Along rows and columns either may be repeated. */
static bool is_biased(const parting *p, const ir_node *n, int32_t i) {
  const ir_type *scores = &input(n, i)->type, *bias = &input(n, 1 - i)->type, *sum = &n->outputs[0]->type;
  if (scores->rank != JOINED || sum->rank != JOINED || !same(p, scores->dims[0], sum->dims[0])) return false;
  if (bias->rank < 0 || bias->rank > JOINED) return false;
  return bias->rank < JOINED || bias->dims[0] == 1 || same(p, bias->dims[0], scores->dims[0]);
}

/* True if n does the same work with the axes of operand i joined or apart. */
static bool works_apart(const parting *p, const ir_node *n, int32_t i) {
  switch ((int)op_id_of(n->op)) {
    case OP_Transpose: return i == 0 && turns_matrices(n);
    case OP_Softmax: return i == 0 && is_along_rows(n);
    case OP_Cast: return i == 0;
    case OP_Div: return i == 0 && is_scale(input(n, 1));
    case OP_Mul: return is_scale(input(n, 1 - i));
    case OP_Add: return is_biased(p, n, i);
    default: return false;
  }
}

/* A tensor that has v's batch and heads as two axes, if v can be computed with these axes apart; otherwise NULL.
 * *out_operand: the operand of v's operator that is computed so, -1: the tensor is v under other extents. */
static ir_value *axes_of(const parting *p, const ir_value *v, int32_t *out_operand, int32_t depth) {
  const ir_node *n = v->producer;
  int32_t ignored;
  if (!n || n->dead || n->outputs[0] != v) return NULL;
  *out_operand = -1;
  if (n->op == op_builtin(OP_Reshape)) return joins(p, &input(n, 0)->type, &v->type) ? input(n, 0) : NULL;
  if (n->graph != p->at->graph || v->n_uses != 1 || depth == DEPTH_MOST) return NULL;
  for (int32_t i = 0; i < n->n_inputs && i < 2; i++) {
    ir_value *axes = works_apart(p, n, i) ? axes_of(p, input(n, i), &ignored, depth + 1) : NULL;
    if (!axes) continue;
    *out_operand = i;
    return axes;
  }
  return NULL;
}

/* ---- new nodes ---- */

static ir_node *make(const parting *p, op_id op, ir_value *const *inputs, int32_t n, ir_type type) {
  ir_node *made = ir_node_new(p->at->graph, p->at, op_builtin(op), NULL, inputs, n, NULL, 1);
  if (made) made->outputs[0]->type = type;
  return made;
}

/* The extents of v from axis `start` to `end`. NULL: no memory. */
static ir_value *extents(const parting *p, ir_value *v, int64_t start, int64_t end) {
  ir_node *n = make(p, OP_Shape, &v, 1, (ir_type){.dtype = REED_I64, .rank = 1, .dims = {end - start}});
  bool ok = n && ir_set_attr_int(n, "start", start) && ir_set_attr_int(n, "end", end);
  return ok ? n->outputs[0] : NULL;
}

/* A tensor with the batch and heads of `axes`: of a product the second factor, because attention is found only where
 * nothing else reads scores or weights; of turned matrices the matrices, because attention reads K as it is. */
static ir_value *origin(ir_value *axes) {
  for (;;) {
    const ir_node *product = pattern_made_by(axes, OP_MatMul), *turn = pattern_made_by(axes, OP_Transpose);
    if (product) axes = input(product, 1);
    else if (turn && turns_matrices(turn)) axes = input(turn, 0);
    else return axes;
  }
}

/* v's last two extents after batch and heads of `axes`, which are joined or apart by the rank of `type`; its dims are
 * the result's. NULL: no memory. */
static ir_value *under(const parting *p, ir_value *axes, ir_value *v, ir_type type) {
  const ir_type one = {.dtype = REED_I64, .rank = 1, .dims = {1}},
                list = {.dtype = REED_I64, .rank = 1, .dims = {type.rank}};
  ir_value *from = origin(axes), *parts[] = {extents(p, from, BATCH, HEADS), extents(p, from, HEADS, ROWS),
                                             extents(p, v, v->type.rank - 2, v->type.rank)};
  bool ok = parts[0] && parts[1] && parts[2];
  if (ok && type.rank == JOINED) {
    ir_node *both = make(p, OP_Mul, parts, 2, one);
    if ((ok = both != NULL)) parts[1] = both->outputs[0];
  }
  ir_node *shape = ok && type.rank == JOINED ? make(p, OP_Concat, parts + 1, 2, list)
                   : ok                      ? make(p, OP_Concat, parts, 3, list)
                                             : NULL;
  if (!shape || !ir_set_attr_int(shape, "axis", 0)) return NULL;
  ir_node *made = make(p, OP_Reshape, (ir_value *[]){v, shape->outputs[0]}, 2, type);
  return made ? made->outputs[0] : NULL;
}

/* The type of a tensor with the axes apart: batch and heads of `axes`, and the last two extents of `whole`. */
static ir_type type_apart(const ir_type *axes, const ir_type *whole) {
  return (ir_type){.dtype = whole->dtype,
                   .rank = APART,
                   .dims = {axes->dims[BATCH], axes->dims[HEADS], whole->dims[1], whole->dims[2]}};
}

/* n's operator on operands with the axes apart, `axes`. NULL: no memory. */
static ir_value *apart_from(const parting *p, const ir_node *n, ir_value *const *inputs, const ir_value *axes) {
  static const int64_t matrices_turned[APART] = {BATCH, HEADS, COLUMNS, ROWS};
  ir_node *made = make(p, op_id_of(n->op), inputs, n->n_inputs, type_apart(&axes->type, &n->outputs[0]->type));
  bool ok = made != NULL;
  for (int32_t i = 0; ok && i < n->n_attrs; i++) ok = ir_set_attr(made, &n->attrs[i]);
  if (ok && n->op == op_builtin(OP_Transpose)) ok = ir_set_attr_ints(made, "perm", matrices_turned, APART);
  if (ok && n->op == op_builtin(OP_Softmax)) ok = ir_set_attr_int(made, "axis", -1);
  return ok ? made->outputs[0] : NULL;
}

/* v, for which axes_of finds `axes`, with the axes apart. NULL: no memory. */
static ir_value *apart(const parting *p, ir_value *v) {
  int32_t operand;
  ir_value *axes = axes_of(p, v, &operand, 0), *inputs[2];
  const ir_node *n = v->producer;
  if (operand < 0) return axes;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    inputs[i] = input(n, i);
    bool spreads = i != operand && inputs[i]->type.rank == JOINED && inputs[i]->type.dims[0] != 1;
    if (i == operand) inputs[i] = apart(p, inputs[i]);
    else if (spreads) inputs[i] = under(p, axes, inputs[i], type_apart(&axes->type, &inputs[i]->type));
    if (!inputs[i]) return NULL;
  }
  return apart_from(p, n, inputs, axes);
}

/* ---- the pass ---- */

static reed_status replace(parting *p, ir_node *n, ir_value *by) {
  if (!by) return diag_no_memory(p->m->diagnosis, "axes of a batch");
  ir_forward(n->outputs[0], by);
  n->dead = true;
  p->n_changed++;
  return REED_OK;
}

/* The product with the axes apart, joined afterwards. */
static reed_status product(parting *p, ir_node *n) {
  int32_t operand;
  ir_value *a = input(n, 0), *b = input(n, 1);
  ir_value *of_a = a->type.rank == JOINED ? axes_of(p, a, &operand, 0) : NULL,
           *of_b = of_a && b->type.rank == JOINED ? axes_of(p, b, &operand, 0) : NULL;
  if (!of_b || n->n_inputs > 2) return REED_OK;
  for (int32_t i = BATCH; i <= HEADS; i++)
    if (!same(p, of_a->type.dims[i], of_b->type.dims[i])) return REED_OK;
  ir_value *both[] = {apart(p, a), apart(p, b)};
  ir_value *made = both[0] && both[1] ? apart_from(p, n, both, of_b) : NULL;
  p->n_products++;
  return replace(p, n, made ? under(p, of_b, made, n->outputs[0]->type) : NULL);
}

/* A Reshape that parts the axes as they were before they were joined. */
static reed_status meeting(parting *p, ir_node *n) {
  int32_t operand;
  ir_value *whole = input(n, 0);
  const ir_type *wanted = &n->outputs[0]->type;
  const ir_value *axes = whole->type.rank == JOINED && wanted->rank == APART ? axes_of(p, whole, &operand, 0) : NULL;
  if (!axes || !joins(p, wanted, &whole->type)) return REED_OK;
  for (int32_t i = BATCH; i <= HEADS; i++)
    if (!same(p, axes->type.dims[i], wanted->dims[i])) return REED_OK;
  p->n_parted++;
  return replace(p, n, apart(p, whole));
}

/* Repeated heads that a Reshape joins with the batch get a Reshape to [batch, heads, rows, columns] in front of it. */
static reed_status repetition(parting *p, ir_node *n) {
  const ir_node *repeat = pattern_made_by(input(n, 0), OP_Expand);
  const ir_type *wide = &input(n, 0)->type, *whole = &n->outputs[0]->type;
  if (!repeat || wide->rank != REPEATED || whole->rank != JOINED) return REED_OK;
  const reed_dim *from = wide->dims, heads = symbols_mul(p->m->symbols, from[HEADS], from[HEADS + 1]);
  const ir_type type = {wide->dtype, APART, {from[BATCH], heads, from[ROWS + 1], from[COLUMNS + 1]}};
  if (!joins(p, &type, whole)) return REED_OK;
  const ir_type one = {.dtype = REED_I64, .rank = 1, .dims = {1}},
                list = {.dtype = REED_I64, .rank = 1, .dims = {APART}};
  ir_value *v = input(n, 0), *parts[] = {extents(p, v, HEADS, HEADS + 1), extents(p, v, HEADS + 1, ROWS + 1)};
  ir_node *both = parts[0] && parts[1] ? make(p, OP_Mul, parts, 2, one) : NULL;
  if (!both) return diag_no_memory(p->m->diagnosis, "axes of a batch");
  ir_value *shape[] = {extents(p, v, BATCH, HEADS), both->outputs[0], extents(p, v, ROWS + 1, REPEATED)};
  ir_node *joint = shape[0] && shape[2] ? make(p, OP_Concat, shape, 3, list) : NULL;
  ir_node *made = joint && ir_set_attr_int(joint, "axis", 0)
                      ? make(p, OP_Reshape, (ir_value *[]){v, joint->outputs[0]}, 2, type)
                      : NULL;
  return replace(p, n, made ? under(p, made->outputs[0], made->outputs[0], *whole) : NULL);
}

static reed_status visit(void *context, ir_node *n) {
  parting *p = context;
  p->at = n;
  if (n->op == op_builtin(OP_MatMul)) return product(p, n);
  if (n->op != op_builtin(OP_Reshape)) return REED_OK;
  reed_status status = repetition(p, n);
  return status == REED_OK && !n->dead ? meeting(p, n) : status;
}

reed_status pass_batch_axes(ir_module *m, pass_report *report) {
  parting p = {.m = m};
  ir_count_uses(m);
  reed_status status = pass_try_each(m, visit, &p, &p.n_changed);
  ir_settle(m);
  ir_sweep(m);
  *report = (pass_report){
      .counts = {{"products with batch and heads apart", p.n_products}, {"operators that meet again", p.n_parted}}};
  return status;
}
