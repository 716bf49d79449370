/* Operators on single numbers and along axes of extent 1, in forms that cost less. An exporter writes "at most 300 of
 * the n rows" as Shape, Gather, Unsqueeze, Concat, ReduceMin and Reshape, and each of these operators has a shape
 * function, and most have a kernel on the host, whenever n is new. The rows that a mask keeps come as NonZero,
 * Transpose and GatherND. The forms that this pass makes:
 *
 *   Gather(Shape(x), i), as a vector of one element   Shape(x) from i to i + 1
 *   the Shape of the first K of a vector (TopK)       K
 *   ReduceMin or ReduceMax of a Concat of numbers     Min or Max of the numbers
 *   a Transpose that moves axes of extent 1 only      a Reshape, which is a view
 *   Gather of the one slice along an axis             a Squeeze, which is a view
 *   GatherND by places along one axis                 Gather along axis 0
 *   TopK, Slice, NonMaxSuppression: min(n, k) of n    at most k, which reads no extent
 *
 * The pass comes after those that look for the exporters' forms. */
#include "base/diag.h"
#include "compiler/ir/attempt.h"
#include "compiler/ir/integer_values.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

enum { NUMBERS_MOST = 8 }; /* operands of a Min or Max that stands for a reduction */

typedef struct forms {
  ir_module *m;
  int64_t n_changed;
  bool no_memory;
} forms;

/* A new node before n; its output 0 has this type. NULL: no memory. */
static ir_node *make(forms *f, ir_node *n, op_id op, ir_value *const *inputs, int32_t n_inputs, const ir_type *type) {
  ir_node *made = ir_node_new(n->graph, n, op_builtin(op), NULL, inputs, n_inputs, NULL, 1);
  if (made) made->outputs[0]->type = *type;
  else f->no_memory = true;
  return made;
}

/* Puts the value in the place of n's output. */
static void replace(forms *f, ir_node *n, ir_value *by) {
  if (!by->elements) by->elements = n->outputs[0]->elements, by->n_elements = n->outputs[0]->n_elements;
  ir_forward(n->outputs[0], by);
  n->dead = true;
  f->n_changed++;
}

static ir_type numbers(int64_t n) { return (ir_type){.dtype = REED_I64, .rank = 1, .dims = {n}}; }

static bool is_one_number(const ir_value *v) { return v->type.rank == 1 && v->type.dims[0] == 1; }

/* ---- one extent ---- */

/* `n` gives one extent of a tensor as a vector of one element: an Unsqueeze of a Gather by a scalar, or a Gather by a
 * vector. */
static void one_extent(forms *f, ir_node *n) {
  ir_node *gather = n->op == op_builtin(OP_Gather) ? n : pattern_made_by(n->inputs[0], OP_Gather);
  const ir_node *shape = gather ? pattern_made_by(gather->inputs[0], OP_Shape) : NULL;
  double place;
  if (gather != n && gather && gather->outputs[0]->n_uses != 1) return; /* it would stay beside the new operator */
  if (!shape || !is_one_number(n->outputs[0]) || !pattern_number(gather->inputs[1], &place)) return;
  const reed_attrs attrs = ir_attrs(shape);
  int64_t rank = shape->inputs[0]->type.rank, at = (int64_t)place;
  if (rank < 0 || op_attr_int(&attrs, "start") != 0 || reed_attrs_find(&attrs, "end")) return;
  if (at < 0) at += rank;
  if (at < 0 || at >= rank) return;
  const ir_type type = numbers(1);
  ir_value *from = shape->inputs[0];
  ir_node *made = make(f, n, OP_Shape, &from, 1, &type);
  if (!made) return;
  if (ir_set_attr_int(made, "start", at) && ir_set_attr_int(made, "end", at + 1)) replace(f, n, made->outputs[0]);
  else f->no_memory = true;
}

/* The extent of a TopK of a vector is its K. */
static void extent_of_first(forms *f, ir_node *n) {
  const ir_node *topk = n->inputs[0]->producer;
  const reed_attrs attrs = ir_attrs(n);
  if (!topk || topk->dead || topk->op != op_builtin(OP_TopK) || topk->inputs[0]->type.rank != 1) return;
  if (!is_one_number(topk->inputs[1]) || op_attr_int(&attrs, "start") != 0 || reed_attrs_find(&attrs, "end")) return;
  const reed_attrs of_topk = ir_attrs(topk);
  if (op_attr_int(&of_topk, "at_most")) return;
  replace(f, n, topk->inputs[1]);
}

/* ---- the least of some numbers ---- */

/* The axes of the reduction of a vector: all of them. */
static bool reduces_vector(const ir_node *n) {
  const reed_attrs attrs = ir_attrs(n);
  const ir_value *axes = n->n_inputs > 1 ? n->inputs[1] : NULL;
  double axis;
  return n->inputs[0]->type.rank == 1 &&
         (axes ? pattern_number(axes, &axis) : !op_attr_int(&attrs, "noop_with_empty_axes"));
}

static void least_number(forms *f, ir_node *n) {
  const ir_node *join = pattern_made_by(n->inputs[0], OP_Concat);
  if (!join || n->inputs[0]->type.dtype != REED_I64 || join->n_inputs > NUMBERS_MOST || !reduces_vector(n)) return;
  for (int32_t i = 0; i < join->n_inputs; i++)
    if (!is_one_number(join->inputs[i])) return;
  const ir_type one = numbers(1);
  ir_node *made = make(f, n, n->op == op_builtin(OP_ReduceMin) ? OP_Min : OP_Max, join->inputs, join->n_inputs, &one);
  if (!made) return;
  ir_value *least = made->outputs[0];
  if (n->outputs[0]->type.rank != 1) {
    ir_value *axes = ir_constant_i64(f->m, (int64_t[]){0}, 1, NULL);
    ir_node *scalar =
        axes ? make(f, n, OP_Squeeze, (ir_value *[]){least, axes}, 2, &(ir_type){.dtype = REED_I64}) : NULL;
    f->no_memory |= !scalar;
    if (!scalar) return;
    least = scalar->outputs[0];
  }
  replace(f, n, least);
}

/* ---- axes of extent 1 ---- */

/* The shape by which a Reshape makes `to` from a tensor that has the same extents other than 1, in the same order;
 * false: none. At the bound of a count (--counts device) a view keeps only the first axis that is not of extent 1. */
static bool shape_of_view(const forms *f, const ir_type *to, int64_t *out_shape) {
  int32_t n_symbols = 0, n_before = 0;
  for (int32_t i = 0; i < to->rank; i++) {
    const bool symbol = symbol_is(to->dims[i]);
    if (!symbol && to->dims[i] <= 0) return false;
    if (symbol && (n_symbols++ || (n_before && f->m->counts_on_device))) return false;
    n_before += symbol || to->dims[i] != 1;
    out_shape[i] = symbol ? -1 : to->dims[i];
  }
  return true;
}

static void transpose(forms *f, ir_node *n) {
  const ir_type *from = &n->inputs[0]->type, *to = &n->outputs[0]->type;
  const reed_attrs attrs = ir_attrs(n);
  int64_t n_perm, shape[REED_MAX_RANK], last = -1;
  const int64_t *perm = reed_attrs_ints(&attrs, "perm", &n_perm);
  if (from->rank <= 0 || from->rank != to->rank || (perm && n_perm != from->rank)) return;
  for (int32_t i = 0; i < to->rank; i++) {
    const int64_t axis = perm ? perm[i] : to->rank - 1 - i;
    if (axis < 0 || axis >= from->rank) return;
    if (from->dims[axis] == 1) continue;
    if (axis < last) return;
    last = axis;
  }
  if (!shape_of_view(f, to, shape)) return;
  ir_value *dims = ir_constant_i64(f->m, shape, to->rank, NULL);
  f->no_memory |= !dims;
  ir_node *made = dims ? make(f, n, OP_Reshape, (ir_value *[]){n->inputs[0], dims}, 2, to) : NULL;
  if (made) replace(f, n, made->outputs[0]);
}

/* The index must be a number that is known: another one is a fault. */
static void only_slice(forms *f, ir_node *n) {
  const ir_type *data = &n->inputs[0]->type;
  const reed_attrs attrs = ir_attrs(n);
  int64_t axis = op_attr_int(&attrs, "axis");
  double index;
  if (axis < 0) axis += data->rank;
  if (axis < 0 || axis >= data->rank || data->dims[axis] != 1 || n->outputs[0]->type.rank != data->rank - 1) return;
  if (n->inputs[1]->type.rank != 0 || !pattern_number(n->inputs[1], &index) || (index != 0 && index != -1)) return;
  ir_value *axes = ir_constant_i64(f->m, &axis, 1, NULL);
  f->no_memory |= !axes;
  ir_node *made = axes ? make(f, n, OP_Squeeze, (ir_value *[]){n->inputs[0], axes}, 2, &n->outputs[0]->type) : NULL;
  if (made) replace(f, n, made->outputs[0]);
}

/* ---- places along one axis ---- */

static void gather_rows(forms *f, ir_node *n) {
  const ir_type *places = &n->inputs[1]->type;
  const reed_attrs attrs = ir_attrs(n);
  if (places->rank < 1 || places->dims[places->rank - 1] != 1 || op_attr_int(&attrs, "batch_dims") != 0) return;
  const bool vector = places->rank == 2; /* a view of a view is one Reshape then (simplify) */
  const int64_t operand = vector ? -1 : places->rank - 1;
  ir_value *how = ir_constant_i64(f->m, &operand, 1, NULL);
  ir_type type = *places;
  type.rank--;
  f->no_memory |= !how;
  ir_node *list =
      how ? make(f, n, vector ? OP_Reshape : OP_Squeeze, (ir_value *[]){n->inputs[1], how}, 2, &type) : NULL;
  ir_node *made =
      list ? make(f, n, OP_Gather, (ir_value *[]){n->inputs[0], list->outputs[0]}, 2, &n->outputs[0]->type) : NULL;
  if (made) replace(f, n, made->outputs[0]);
}

/* ---- the first elements ---- */

/* Puts the number k in the place of operand `at`, a limit of min(extent, k) elements. False: it is another value. */
static bool limit_by_number(forms *f, ir_node *n, int32_t at, reed_dim extent) {
  int64_t n_elements;
  const reed_dim *limit = integer_values_of(f->m, n->inputs[at], false, &n_elements);
  const int64_t most = limit && n_elements == 1 ? integer_values_limit(f->m, limit[0], extent) : -1;
  const ir_type *type = &n->inputs[at]->type;
  if (most < 0 || type->dtype != REED_I64) return false;
  const reed_desc desc = {.dtype = REED_I64, .rank = type->rank, .dims = {1}};
  ir_value *number = ir_constant(f->m, &desc, &most, false, NULL);
  f->no_memory |= !number;
  if (!number) return false;
  n->inputs[at] = number;
  f->n_changed++;
  return true;
}

static void first_sorted(forms *f, ir_node *n) {
  const ir_type *type = &n->inputs[0]->type;
  const reed_attrs attrs = ir_attrs(n);
  int64_t axis = op_attr_int(&attrs, "axis");
  if (axis < 0) axis += type->rank;
  if (axis < 0 || axis >= type->rank || op_attr_int(&attrs, "at_most")) return;
  if (limit_by_number(f, n, 1, type->dims[axis])) f->no_memory |= !ir_set_attr_int(n, "at_most", 1);
}

/* No more boxes are selected than there are. */
static void first_selected(forms *f, ir_node *n) {
  if (n->n_inputs > 2 && n->inputs[2] && n->inputs[0]->type.rank == 3)
    limit_by_number(f, n, 2, n->inputs[0]->type.dims[1]);
}

/* An end beyond the extent is the extent. */
static void first_rows(forms *f, ir_node *n) {
  const ir_type *type = &n->inputs[0]->type;
  const reed_dim *lists[5] = {NULL};
  int64_t n_elements[5] = {0}, ends[REED_MAX_RANK];
  bool any = false;
  for (int32_t i = 1; i < n->n_inputs && i < 5; i++) {
    if (!n->inputs[i]) continue;
    lists[i] = integer_values_of(f->m, n->inputs[i], false, &n_elements[i]);
    if (!lists[i] || n_elements[i] != n_elements[1] || n_elements[i] > type->rank) return;
  }
  if (!lists[1] || !lists[2] || n->inputs[2]->type.dtype != REED_I64) return;
  for (int64_t i = 0; i < n_elements[1]; i++) {
    int64_t axis = lists[3] ? lists[3][i] : i, most = -1;
    if (axis < 0) axis += type->rank;
    const bool forward =
        !symbol_is(lists[1][i]) && lists[1][i] >= 0 && (!lists[4] || (!symbol_is(lists[4][i]) && lists[4][i] > 0));
    if (forward && axis >= 0 && axis < type->rank) most = integer_values_limit(f->m, lists[2][i], type->dims[axis]);
    if (most < 0 && symbol_is(lists[2][i])) return;
    any |= most >= 0;
    ends[i] = most >= 0 ? most : lists[2][i];
  }
  ir_value *made = any ? ir_constant_i64(f->m, ends, n_elements[1], NULL) : NULL;
  f->no_memory |= any && !made;
  if (!made) return;
  n->inputs[2] = made;
  f->n_changed++;
}

static reed_status visit(void *context, ir_node *n) {
  forms *f = context;
  for (int32_t i = 0; i < n->n_inputs; i++) n->inputs[i] = ir_resolve(n->inputs[i]);
  if (!n->n_outputs || !n->outputs[0]) return REED_OK;
  switch (op_id_of(n->op)) {
    case OP_Gather:
      one_extent(f, n);
      if (!n->dead) only_slice(f, n);
      break;
    case OP_Unsqueeze: one_extent(f, n); break;
    case OP_Shape: extent_of_first(f, n); break;
    case OP_ReduceMin:
    case OP_ReduceMax: least_number(f, n); break;
    case OP_Transpose: transpose(f, n); break;
    case OP_GatherND: gather_rows(f, n); break;
    case OP_TopK: first_sorted(f, n); break;
    case OP_NonMaxSuppression: first_selected(f, n); break;
    case OP_Slice: first_rows(f, n); break;
    default: break;
  }
  return f->no_memory ? diag_no_memory(f->m->diagnosis, "forms of operators") : REED_OK;
}

reed_status pass_plain_forms(ir_module *m, pass_report *report) {
  forms f = {.m = m};
  ir_count_uses(m);
  reed_status status = pass_try_each(m, visit, &f, &f.n_changed);
  ir_settle(m);
  ir_sweep(m);
  *report = (pass_report){.counts = {{"operators given cheaper forms", f.n_changed}}};
  return status;
}
