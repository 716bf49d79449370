/* The operators through which a filter can move down, the nodes that replace them, and the walk over uses. The passes
 * that move filters are filter_chain.c and nms_filter.c. */
#include "compiler/passes/rewrite/row_filter.h"

#include "compiler/ir/pattern.h"

#define MOST_DEPTH 24 /* of operators between a filter and a value computed from its rows */

enum { FINDER, MASK, N_SLOTS };
static const pattern *const found_rows = P_ROOT(P_AS(FINDER, P_OP(NonZero, P_AS(MASK, P_ANY))));

/* True when `rows` is the list of rows, in order, that a filter found. */
static bool filter_of_rows(const ir_module *m, const ir_value *rows, filter *out_filter) {
  ir_value *slots[N_SLOTS];
  int64_t low, high;
  if (rows->type.rank != 1 || !pattern_match(found_rows, (ir_value *)rows, slots, N_SLOTS)) return false;
  const ir_type *mask = &slots[MASK]->type;
  if (mask->rank != 1 || mask->dtype != REED_BOOL) return false;
  symbols_range(m->symbols, mask->dims[0], &low, &high);
  *out_filter = (filter){slots[FINDER]->producer, slots[MASK]};
  return high <= FILTER_MOST_ROWS;
}

/* ---- operators that a filter moves through ---- */

/* Element-wise operators that fail for no element, so that they can run on rows that the filter leaves out. */
static const op_id elementwise[] = {
    OP_Abs,   OP_Add,     OP_And,         OP_Cast, OP_Clip, OP_Equal, OP_Exp, OP_Floor, OP_Greater, OP_GreaterOrEqual,
    OP_IsNaN, OP_Less,    OP_LessOrEqual, OP_Log,  OP_Max,  OP_Min,   OP_Mul, OP_Neg,   OP_Not,     OP_Or,
    OP_Relu,  OP_Sigmoid, OP_Sqrt,        OP_Sub,  OP_Xor,
};

static bool is_elementwise(const ir_node *n) {
  for (size_t i = 0; i < sizeof elementwise / sizeof *elementwise; i++)
    if (n->op == op_builtin(elementwise[i])) return true;
  return false;
}

static int64_t axis_of(const ir_node *n) {
  reed_attrs attrs = ir_attrs(n);
  int64_t axis = op_attr_int(&attrs, "axis");
  return axis < 0 && n->inputs[0]->type.rank >= 0 ? axis + n->inputs[0]->type.rank : axis;
}

/* True when n is a Gather of the filter's rows. */
static bool takes_rows(const ir_module *m, const filter *f, const ir_node *n) {
  filter own;
  if (n->op != op_builtin(OP_Gather) || axis_of(n) != 0 || !filter_of_rows(m, n->inputs[1], &own) ||
      own.finder != f->finder)
    return false;
  const ir_type *data = &n->inputs[0]->type;
  return data->rank >= 1 && symbols_assume_equal(m->symbols, data->dims[0], f->mask->type.dims[0]);
}

/* True when n is a Gather of constant columns, the same ones in each row. */
static bool takes_columns(const ir_node *n) {
  return n->op == op_builtin(OP_Gather) && axis_of(n) > 0 && ir_is_constant(n->inputs[1]);
}

/* True when the operand broadcasts along the rows of n's result. */
static bool same_for_all(const ir_node *n, const ir_value *v) {
  int32_t rank = n->outputs[0]->type.rank;
  return v->type.rank >= 0 && (v->type.rank < rank || v->type.dims[0] == 1);
}

static bool can_undo(const ir_module *m, const filter *f, const ir_value *v, int depth) {
  const ir_node *n = v->producer;
  if (!n || depth == MOST_DEPTH || v->type.rank < 1 || n->outputs[0] != v) return false;
  if (takes_rows(m, f, n)) return true;
  if (takes_columns(n)) return can_undo(m, f, n->inputs[0], depth + 1);
  if (!is_elementwise(n)) return false;
  bool some = false; /* operands that all broadcast along the rows may have the filter's rows on another axis */
  for (int32_t i = 0; i < n->n_inputs; i++) {
    if (!n->inputs[i] || same_for_all(n, n->inputs[i])) continue;
    if (!can_undo(m, f, n->inputs[i], depth + 1)) return false;
    some = true;
  }
  return some;
}

bool filter_can_undo(const ir_module *m, const filter *f, const ir_value *v) { return can_undo(m, f, v, 0); }

static bool behind(const ir_module *m, const ir_value *v, int depth, filter *out_filter) {
  const ir_node *n = v->producer;
  if (!n || depth == MOST_DEPTH) return false;
  if (n->op == op_builtin(OP_Gather) && axis_of(n) == 0 && filter_of_rows(m, n->inputs[1], out_filter)) return true;
  if (takes_columns(n)) return behind(m, n->inputs[0], depth + 1, out_filter);
  for (int32_t i = 0; is_elementwise(n) && i < n->n_inputs; i++)
    if (n->inputs[i] && !same_for_all(n, n->inputs[i])) return behind(m, n->inputs[i], depth + 1, out_filter);
  return false;
}

bool filter_behind(const ir_module *m, const ir_value *v, filter *out_filter) { return behind(m, v, 0, out_filter); }

ir_value *filter_undo(const filter *f, ir_value *v, ir_node *place) {
  const ir_node *n = v->producer;
  ir_module *m = place->graph->module;
  if (takes_rows(m, f, n)) return n->inputs[0];
  ir_value *inputs[REED_MAX_OPERANDS];
  int32_t n_rows = takes_columns(n) ? 1 : n->n_inputs;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    inputs[i] = n->inputs[i];
    if (i >= n_rows || !inputs[i] || (is_elementwise(n) && same_for_all(n, inputs[i]))) continue;
    inputs[i] = filter_undo(f, inputs[i], place);
    if (!inputs[i]) return NULL;
  }
  ir_node *made = ir_node_new(place->graph, place, n->op, NULL, inputs, n->n_inputs, NULL, 1);
  for (int32_t i = 0; made && i < n->n_attrs; i++)
    if (!ir_set_attr(made, &n->attrs[i])) return NULL;
  return made ? made->outputs[0] : NULL;
}

/* ---- uses ---- */

typedef struct search {
  const ir_value *v;
  ir_module *m;
  filter_use_fn use;
  void *context;
  int32_t n_met;
  bool fine;
} search;

static reed_status look(void *context, ir_node *n) {
  search *s = context;
  for (int32_t i = 0; i < n->n_inputs && s->fine; i++) {
    if (n->inputs[i] != s->v) continue;
    s->n_met++;
    filter_use how = s->use(s->context, n, i);
    s->fine =
        how == FILTER_FINE || (how == FILTER_FOLLOW && filter_uses_are_fine(s->m, n->outputs[0], s->use, s->context));
  }
  return REED_OK;
}

bool filter_uses_are_fine(ir_module *m, const ir_value *v, filter_use_fn use, void *context) {
  search s = {.v = v, .m = m, .use = use, .context = context, .fine = true};
  return ir_walk(m->main, true, look, &s) == REED_OK && s.fine && s.n_met == v->n_uses;
}
