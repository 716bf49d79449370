/* Algebraic clean-up: a table of small rewrites by operator, and the choice of an If's branch by a known condition. A
 * rewrite either replaces an output by an existing value or changes its node in place. No rewrite changes a result by a
 * bit, except that x + 0 becomes x, which may be -0 (0 and -0 compare equal), and that the square of a float is its
 * product with itself, which is rounded once, while a power may be off by the last bit.
 *
 * A rewrite that replaces one value by another requires provably equal shapes; extents may be symbols.
 *
 * Operators of constants: fold.c. */
#include <string.h>

#include "compiler/ir/integer_values.h"
#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"

typedef struct rewriting {
  ir_module *m;
  int64_t n_nodes, n_ifs;
} rewriting;

/* ---- questions that rewrites ask ---- */

static ir_value *input(const ir_node *n, int32_t i) { return i < n->n_inputs ? n->inputs[i] : NULL; }

/* True when v is a constant with at least one element, all of which are this number. */
static bool is_splat(const ir_value *v, double number) {
  reed_desc d;
  if (!ir_is_constant(v) || !ir_desc(v, &d)) return false;
  int64_t n = desc_elements(&d);
  size_t bytes = reed_dtype_bytes(d.dtype);
  for (int64_t i = 0; i < n; i++)
    if (reed_dtype_read(d.dtype, (const char *)v->data + (size_t)i * bytes) != number) return false;
  return n > 0;
}

/* The live node that makes v, where it has this operator; otherwise NULL. */
static ir_node *made_by(const ir_value *v, op_id op) {
  return v && v->producer && !v->producer->dead && v->producer->op == op_builtin(op) ? v->producer : NULL;
}

/* ---- rewrites: each gives the value that replaces output 0, or NULL; *change: the node was changed in place ---- */

typedef ir_value *(*rewrite)(rewriting *r, ir_node *n, bool *change);

static ir_value *first_input(rewriting *r, ir_node *n, bool *change) { return input(n, 0); }

/* At inference Dropout passes everything on. A used mask keeps the node. */
static ir_value *dropout(rewriting *r, ir_node *n, bool *change) {
  const ir_value *training = input(n, 2);
  if ((training && !is_splat(training, 0)) || (n->n_outputs > 1 && n->outputs[1])) return NULL;
  return input(n, 0);
}

/* A Cast to the input's dtype, a Reshape, Expand, Slice or Pad to the input's extents, and the like. */
static ir_value *same_as_input(rewriting *r, ir_node *n, bool *change) {
  return input(n, 0) && n->outputs[0] && ir_proven_same_type(r->m, input(n, 0), n->outputs[0]) ? input(n, 0) : NULL;
}

static ir_value *slice(rewriting *r, ir_node *n, bool *change) {
  int64_t n_steps;
  const reed_dim *steps = integer_values_of(r->m, input(n, 4), false, &n_steps);
  if (input(n, 4) && !steps) return NULL;
  for (int64_t i = 0; i < n_steps; i++)
    if (symbol_is(steps[i]) || steps[i] < 0)
      return NULL; /* backwards steps may keep the extents, but not the elements */
  return same_as_input(r, n, change);
}

/* A Split into one part. */
static ir_value *split(rewriting *r, ir_node *n, bool *change) {
  return n->n_outputs == 1 ? same_as_input(r, n, change) : NULL;
}

/* All pads must be 0, because padding of one side and cropping of the other may keep the extents too. */
static ir_value *pad(rewriting *r, ir_node *n, bool *change) {
  return is_splat(input(n, 1), 0) ? same_as_input(r, n, change) : NULL;
}

static ir_value *tile(rewriting *r, ir_node *n, bool *change) {
  return is_splat(input(n, 1), 1) ? same_as_input(r, n, change) : NULL;
}

static ir_value *only_input(rewriting *r, ir_node *n, bool *change) {
  if (n->n_inputs == 1) return input(n, 0);
  if (n->op != op_builtin(OP_Concat)) return NULL;
  /* drops empty parts of a concatenation */
  reed_attrs attrs = ir_attrs(n);
  int32_t kept = 0, rank = n->outputs[0]->type.rank;
  int64_t axis = op_attr_int(&attrs, "axis");
  if (axis < 0) axis += rank;
  if (rank < 0 || axis < 0 || axis >= rank) return NULL;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    const ir_type *t = &n->inputs[i]->type;
    bool empty = t->rank == rank && t->dims[axis] == 0;
    if (!empty || (i == n->n_inputs - 1 && !kept)) n->inputs[kept++] = n->inputs[i];
  }
  *change = kept < n->n_inputs;
  n->n_inputs = kept;
  return kept == 1 ? input(n, 0) : NULL;
}

/* The permutation of a Transpose; a reversal without the attribute. False: the rank is not known, or the attribute does
 * not fit it. */
static bool permutation(const ir_node *n, int32_t *out_rank, int64_t *out_perm) {
  reed_attrs attrs = ir_attrs(n);
  int64_t n_perm;
  const int64_t *perm = reed_attrs_ints(&attrs, "perm", &n_perm);
  int32_t rank = n->inputs[0]->type.rank;
  if (rank < 0 || (perm && n_perm != rank)) return false;
  for (int32_t i = 0; i < rank; i++) {
    out_perm[i] = perm ? perm[i] : rank - 1 - i;
    if (out_perm[i] < 0 || out_perm[i] >= rank) return false;
  }
  *out_rank = rank;
  return true;
}

/* Two Transposes in a row become one; a Transpose that changes no order is removed. */
static ir_value *transpose(rewriting *r, ir_node *n, bool *change) {
  int32_t rank, inner_rank;
  int64_t perm[REED_MAX_RANK], inner[REED_MAX_RANK], both[REED_MAX_RANK];
  if (!permutation(n, &rank, perm)) return NULL;
  bool identity = true;
  for (int32_t i = 0; i < rank; i++) identity = identity && perm[i] == i;
  if (identity) return input(n, 0);
  const ir_node *before = made_by(input(n, 0), OP_Transpose);
  if (!before || !permutation(before, &inner_rank, inner) || inner_rank != rank) return NULL;
  for (int32_t i = 0; i < rank; i++) both[i] = inner[perm[i]];
  *change = ir_set_attr_ints(n, "perm", both, rank);
  if (*change) n->inputs[0] = before->inputs[0];
  return NULL;
}

/* The shape that gives the Reshape n its output's extents without reading another tensor's: numbers, 0 for extents that
 * stay, or -1 for one extent. False: there is none. -1 and 0 in one shape are left out, because -1 is no extent beside
 * an extent of 0. */
static bool shape_of_extents(const rewriting *r, const ir_node *n, int64_t *out_shape) {
  const ir_type *from = &n->inputs[0]->type, *to = &n->outputs[0]->type;
  const reed_attrs attrs = ir_attrs(n);
  if (from->rank < 0 || to->rank < 0 || op_attr_int(&attrs, "allowzero")) return false;
  int32_t n_kept = 0, n_rest = 0;
  for (int32_t i = 0; i < to->rank; i++) {
    const bool kept = i < from->rank && symbols_equal(r->m->symbols, from->dims[i], to->dims[i]);
    if (!symbol_is(to->dims[i]) && to->dims[i] > 0) out_shape[i] = to->dims[i];
    else out_shape[i] = kept ? 0 : -1, n_kept += kept, n_rest += !kept;
  }
  if (n_rest == 0) return true;
  reed_symbols *symbols = r->m->symbols;
  return n_rest == 1 && n_kept == 0 &&
         symbols_equal(symbols, symbols_product(symbols, from->dims, from->rank),
                       symbols_product(symbols, to->dims, to->rank));
}

/* A Reshape whose extents follow from those of its input gets a constant shape. After a Reshape, Squeeze, Unsqueeze or
 * Flatten it reads that node's input, unless it copies an extent (0) from its own input. */
static ir_value *reshape(rewriting *r, ir_node *n, bool *change) {
  ir_value *same = same_as_input(r, n, change);
  if (same) return same;
  int64_t shape[REED_MAX_RANK];
  if (!ir_is_constant(input(n, 1)) && n->outputs[0] && shape_of_extents(r, n, shape)) {
    ir_value *known = ir_constant_i64(r->m, shape, n->outputs[0]->type.rank, NULL);
    *change = known != NULL;
    if (known) n->inputs[1] = known;
    return NULL;
  }
  static const op_id views[] = {OP_Reshape, OP_Squeeze, OP_Unsqueeze, OP_Flatten};
  ir_node *before = NULL;
  for (size_t i = 0; i < sizeof views / sizeof *views && !before; i++) before = made_by(input(n, 0), views[i]);
  reed_attrs attrs = ir_attrs(n);
  int64_t n_dims;
  const reed_dim *dims = integer_values_of(r->m, input(n, 1), false, &n_dims);
  if (!before || !dims || !input(before, 0)) return NULL;
  for (int64_t i = 0; i < n_dims; i++)
    if (symbol_is(dims[i]) || (dims[i] == 0 && !op_attr_int(&attrs, "allowzero"))) return NULL;
  n->inputs[0] = before->inputs[0];
  *change = true;
  return NULL;
}

/* x * 1, x / 1, x + 0, x - 0, where the neutral operand does not widen x. */
static ir_value *neutral(rewriting *r, ir_node *n, bool *change) {
  bool product = n->op == op_builtin(OP_Mul) || n->op == op_builtin(OP_Div);
  bool commutes = n->op == op_builtin(OP_Mul) || n->op == op_builtin(OP_Add);
  for (int k = 1; k >= (commutes ? 0 : 1); k--)
    if (is_splat(input(n, k), product ? 1 : 0) && n->outputs[0] &&
        ir_proven_same_type(r->m, input(n, 1 - k), n->outputs[0]))
      return input(n, 1 - k);
  return NULL;
}

/* x^1 is x. x^2 is x x: no logarithm, no exponential, and chains join a product whatever the exponent's dtype. */
static ir_value *power(rewriting *r, ir_node *n, bool *change) {
  if (is_splat(input(n, 1), 1)) return same_as_input(r, n, change);
  if (!is_splat(input(n, 1), 2) || !same_as_input(r, n, change)) return NULL;
  n->op = op_builtin(OP_Mul);
  n->inputs[1] = n->inputs[0];
  *change = true;
  return NULL;
}

/* not(not(x)) */
static ir_value *twice(rewriting *r, ir_node *n, bool *change) {
  const ir_node *before = made_by(input(n, 0), OP_Not);
  return before ? before->inputs[0] : NULL;
}

/* relu(relu(x)) = relu(x), and the like */
static ir_value *idempotent(rewriting *r, ir_node *n, bool *change) {
  const ir_node *before = input(n, 0)->producer;
  return before && !before->dead && before->op == n->op && before->outputs[0] == input(n, 0) ? input(n, 0) : NULL;
}

static ir_value *where(rewriting *r, ir_node *n, bool *change) {
  for (int k = 0; k < 2; k++)
    if (is_splat(input(n, 0), 1 - k) && n->outputs[0] && ir_proven_same_type(r->m, input(n, k + 1), n->outputs[0]))
      return input(n, k + 1);
  return input(n, 1) == input(n, 2) ? ir_proven_same_type(r->m, input(n, 1), n->outputs[0]) ? input(n, 1) : NULL : NULL;
}

static const struct {
  op_id op;
  rewrite rewrite;
} rows[] = {
    {OP_Abs, idempotent},
    {OP_Add, neutral},
    {OP_Cast, same_as_input},
    {OP_Ceil, idempotent},
    {OP_Concat, only_input},
    {OP_Div, neutral},
    {OP_Dropout, dropout},
    {OP_Expand, same_as_input},
    {OP_Flatten, same_as_input},
    {OP_Floor, idempotent},
    {OP_Identity, first_input},
    {OP_Max, only_input},
    {OP_Mean, only_input},
    {OP_Min, only_input},
    {OP_Mul, neutral},
    {OP_Not, twice},
    {OP_Pad, pad},
    {OP_Pow, power},
    {OP_Relu, idempotent},
    {OP_Reshape, reshape},
    {OP_Round, idempotent},
    {OP_Slice, slice},
    {OP_Split, split},
    {OP_Squeeze, same_as_input},
    {OP_Sub, neutral},
    {OP_Sum, only_input},
    {OP_Tile, tile},
    {OP_Transpose, transpose},
    {OP_Unsqueeze, same_as_input},
    {OP_Where, where},
};

/* ---- conditions that are known ---- */

/* Moves the nodes of the taken branch to before the If and replaces its outputs. */
static reed_status inline_branch(rewriting *r, ir_node *n, ir_graph *branch) {
  ir_graph *g = n->graph;
  size_t at = 0, n_moved = branch->nodes.n;
  while (at < g->nodes.n && g->nodes.items[at] != n) at++;
  for (size_t i = 0; i < n_moved; i++)
    if (!VEC_PUSH(&g->nodes, NULL)) {
      g->nodes.n -= i;
      return diag_no_memory(r->m->diagnosis, "a branch");
    }
  if (n_moved) { /* an empty branch has no list of nodes */
    memmove(&g->nodes.items[at + n_moved], &g->nodes.items[at], (g->nodes.n - n_moved - at) * sizeof n);
    memcpy(&g->nodes.items[at], branch->nodes.items, n_moved * sizeof n);
  }
  for (size_t i = 0; i < n_moved; i++) {
    ir_node *moved = branch->nodes.items[i];
    moved->graph = g;
    for (int32_t k = 0; k < moved->n_outputs; k++)
      if (moved->outputs[k]) moved->outputs[k]->graph = g;
  }
  branch->nodes.n = 0;
  for (int32_t i = 0; i < n->n_outputs; i++)
    if (n->outputs[i]) ir_forward(n->outputs[i], ir_resolve(branch->results[i]));
  n->dead = true;
  r->n_ifs++;
  return REED_OK;
}

static reed_status choose_branch(rewriting *r, ir_node *n) {
  int64_t n_elements;
  const reed_dim *condition = integer_values_of(r->m, n->inputs[0], false, &n_elements);
  if (!condition || n_elements != 1 || symbol_is(condition[0])) return REED_OK;
  return inline_branch(r, n, n->regions[condition[0] ? 0 : 1]);
}

/* ---- the pass ---- */

static reed_status visit(void *context, ir_node *n) {
  rewriting *r = context;
  for (int32_t i = 0; i < n->n_inputs; i++) n->inputs[i] = ir_resolve(n->inputs[i]);
  if (n->op == op_builtin(OP_If)) return choose_branch(r, n);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (n->op != op_builtin(rows[i].op)) continue;
    bool change = false;
    ir_value *stands_for = rows[i].rewrite(r, n, &change);
    if (stands_for && n->outputs[0]) {
      ir_forward(n->outputs[0], stands_for);
      n->dead = true;
    }
    r->n_nodes += change || stands_for;
    break;
  }
  return REED_OK;
}

reed_status pass_simplify(ir_module *m, pass_report *report) {
  rewriting r = {.m = m};
  reed_status status = pass_try_each(m, visit, &r, &r.n_nodes);
  ir_settle(m);
  ir_sweep(m);
  *report = (pass_report){.counts = {{"operators simplified", r.n_nodes}, {"Ifs replaced by a branch", r.n_ifs}}};
  return status;
}
