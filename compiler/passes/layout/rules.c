/* The layout pass's rules of operators: for each operator, which stored orders of its inputs it can work on, the order
 * of its outputs then, and the change of the node. The rules of images are in rules_image.c, the choice between orders
 * is in layout.c. */
#include "compiler/passes/layout/rules.h"

#include <string.h>

#include "compiler/ir/integer_values.h"
#include "compiler/passes/layout/rules_image.h"
#include "shapefuncs/table.h"

static bool single_element(const ir_value *v) {
  for (int32_t i = 0; i < v->type.rank; i++)
    if (v->type.dims[i] != 1) return false;
  return v->type.rank >= 0;
}

/* A new node of one output, placed before n's node. NULL: no memory. */
static ir_value *make(const layout_node *n, op_id op, ir_value *const *inputs, int32_t n_inputs) {
  ir_node *made = ir_node_new(n->node->graph, n->node, op_builtin(op), NULL, inputs, n_inputs, NULL, 1);
  return made ? made->outputs[0] : NULL;
}

static bool set_input(layout_node *n, int32_t i, ir_value *v) {
  while (v && n->node->n_inputs <= i)
    if (!ir_add_input(n->node, NULL)) return false;
  if (v) n->node->inputs[i] = v;
  return v != NULL;
}

/* The node's attribute `axis` as 0..rank-1; -1: out of range. */
static int32_t axis_of(const ir_node *n, int32_t rank) {
  reed_attrs attrs = ir_attrs(n);
  return layout_axis(op_attr_int(&attrs, "axis"), rank);
}

/* ---- element-wise operators, Concat: any order, the same for all inputs ---- */

/* The order shared by the inputs of the largest total weight. False: the other inputs together weigh more. */
static bool common_order(const layout_node *n, int32_t rank, layout_order *out) {
  double most = 0, turned = 0;
  for (int32_t i = 0; i < n->node->n_inputs; i++) {
    const layout_order *have = &n->have[i];
    double weight = 0;
    if (!n->node->inputs[i] || have->rank != rank || have->rank == 0) continue;
    for (int32_t k = 0; k < n->node->n_inputs; k++)
      if (n->node->inputs[k] && layout_same(have, &n->have[k])) weight += layout_weight(n->node->inputs[k]);
    if (weight <= most) continue;
    most = weight;
    *out = *have;
  }
  for (int32_t i = 0; i < n->node->n_inputs; i++) {
    const ir_value *v = n->node->inputs[i];
    if (!v || ir_is_constant(v) || single_element(v)) continue;
    if (v->type.rank < 0 || v->type.rank > rank) return false;
    if (!layout_same(&n->have[i], out)) turned += layout_weight(v);
  }
  return most > 0 && turned <= most;
}

static bool plan_elementwise(layout_node *n) {
  int32_t rank = n->node->n_outputs == 1 ? n->node->outputs[0]->type.rank : -1;
  if (rank < 2 || !common_order(n, rank, &n->give[0])) return false;
  for (int32_t i = 0; i < n->node->n_inputs; i++)
    if (n->node->inputs[i] && !single_element(n->node->inputs[i])) n->want[i] = n->give[0];
  return true;
}

static bool plan_concat(layout_node *n) {
  int32_t rank = n->node->outputs[0]->type.rank;
  if (rank < 2 || axis_of(n->node, rank) < 0 || !common_order(n, rank, &n->give[0])) return false;
  for (int32_t i = 0; i < n->node->n_inputs; i++) {
    if (n->node->inputs[i]->type.rank != rank) return false;
    n->want[i] = n->give[0];
  }
  return true;
}

/* ---- operators along one axis ---- */

static bool plan_along_axis(layout_node *n) {
  reed_attrs attrs = ir_attrs(n->node);
  const reed_attr *flattened = reed_attrs_find(&attrs, "flattened"); /* the Softmax family only */
  if (!layout_has_order(n) || axis_of(n->node, n->have[0].rank) < 0 || (flattened && flattened->i)) return false;
  n->want[0] = n->have[0];
  for (int32_t i = 0; i < n->node->n_outputs; i++) n->give[i] = n->have[0];
  return true;
}

static bool edit_axis(layout_node *n) {
  const layout_order *order = &n->want[0];
  return ir_set_attr_int(n->node, "axis", layout_position(order, axis_of(n->node, order->rank)));
}

/* The order of the axes that remain when the axes of the set are removed. */
static layout_order without_axes(const layout_order *order, uint32_t axes) {
  layout_order left = {0};
  for (int32_t i = 0; i < order->rank; i++) {
    int32_t axis = order->axes[i];
    if (axes >> axis & 1) continue;
    left.axes[left.rank++] = axis - __builtin_popcount(axes & ((1u << axis) - 1));
  }
  return layout_simplified(left);
}

static bool plan_arg_reduce(layout_node *n) {
  reed_attrs attrs = ir_attrs(n->node);
  int32_t axis = layout_has_order(n) ? axis_of(n->node, n->have[0].rank) : -1;
  if (axis < 0) return false;
  n->want[0] = n->have[0];
  n->give[0] = op_attr_int(&attrs, "keepdims") ? n->have[0] : without_axes(&n->have[0], 1u << axis);
  return true;
}

/* data[.., indices, ..]: the axis is replaced by the axes of the indices, which stay together in the stored result. */
static bool plan_gather(layout_node *n) {
  int32_t axis = layout_has_order(n) ? axis_of(n->node, n->have[0].rank) : -1,
          more = axis < 0 ? -1 : layout_input(n, 1)->type.rank;
  if (more < 0 || n->have[0].rank - 1 + more > REED_MAX_RANK) return false;
  layout_order order = {0};
  for (int32_t i = 0; i < n->have[0].rank; i++) {
    int32_t from = n->have[0].axes[i];
    if (from != axis) order.axes[order.rank++] = from < axis ? from : from - 1 + more;
    for (int32_t k = 0; k < more && from == axis; k++) order.axes[order.rank++] = axis + k;
  }
  n->want[0] = n->have[0];
  n->give[0] = layout_simplified(order);
  return true;
}

/* ---- operators with a list of axes: an input, or the attribute of Resize ---- */

/* The axes listed by input i; axes 0..n_all-1 where the input is absent. False: the axes are not known. */
static bool listed_axes(const layout_node *n, int32_t i, int32_t rank, int64_t n_all, int64_t *out_axes,
                        int64_t *out_n) {
  int64_t n_listed = n_all;
  const reed_dim *listed = layout_input(n, i) ? integer_values_of(n->m, layout_input(n, i), false, &n_listed) : NULL;
  if ((layout_input(n, i) && !listed) || n_listed < 0 || n_listed > rank) return false;
  for (int64_t k = 0; k < n_listed; k++) {
    int64_t axis = listed && symbol_is(listed[k]) ? rank : listed ? listed[k] : k;
    out_axes[k] = layout_axis(axis, rank);
    if (out_axes[k] < 0) return false;
  }
  *out_n = n_listed;
  return true;
}

/* The index of the input that lists the axes. */
static int32_t axes_input(const layout_node *n) {
  return n->node->op == op_builtin(OP_Slice) || n->node->op == op_builtin(OP_Pad) ? 3 : 1;
}

/* The number of axes of a node without a list of axes: for Slice its starts, otherwise all. -1: not known. */
static int64_t all_axes(const layout_node *n, int32_t rank) {
  const ir_value *starts = n->node->op == op_builtin(OP_Slice) ? layout_input(n, 1) : NULL;
  if (!starts) return rank;
  return starts->type.rank == 1 && !symbol_is(starts->type.dims[0]) ? starts->type.dims[0] : -1;
}

static bool node_axes(const layout_node *n, int32_t rank, int64_t *out_axes, int64_t *out_n) {
  return listed_axes(n, axes_input(n), rank, all_axes(n, rank), out_axes, out_n);
}

static bool plan_listed(layout_node *n) {
  int64_t axes[REED_MAX_RANK], n_axes;
  if (!layout_has_order(n) || !node_axes(n, n->have[0].rank, axes, &n_axes)) return false;
  n->want[0] = n->give[0] = n->have[0];
  return true;
}

static bool edit_listed(layout_node *n) {
  int64_t axes[REED_MAX_RANK], n_axes;
  if (!node_axes(n, n->want[0].rank, axes, &n_axes)) return false;
  for (int64_t k = 0; k < n_axes; k++) axes[k] = layout_position(&n->want[0], (int32_t)axes[k]);
  return set_input(n, axes_input(n), ir_constant_i64(n->m, axes, n_axes, NULL));
}

/* Reductions and Squeeze: listed axes are removed, except where the attribute keepdims keeps them. */
static bool plan_reduce(layout_node *n) {
  int64_t axes[REED_MAX_RANK], n_axes;
  reed_attrs attrs = ir_attrs(n->node);
  bool squeezes = n->node->op == op_builtin(OP_Squeeze);
  if (!layout_has_order(n) || (!layout_input(n, 1) && (squeezes || op_attr_int(&attrs, "noop_with_empty_axes"))))
    return false;
  if (!node_axes(n, n->have[0].rank, axes, &n_axes)) return false;
  uint32_t set = 0;
  for (int64_t k = 0; k < n_axes; k++) set |= 1u << axes[k];
  if (!set) return false;
  n->want[0] = n->have[0];
  n->give[0] = !squeezes && op_attr_int(&attrs, "keepdims") ? n->have[0] : without_axes(&n->have[0], set);
  return true;
}

/* A new axis has the same position in the stored result as in the value. */
static bool plan_unsqueeze(layout_node *n) {
  int64_t axes[REED_MAX_RANK], n_axes;
  int32_t rank = n->node->outputs[0]->type.rank, next = 0, own[REED_MAX_RANK], n_own = 0;
  if (!layout_has_order(n) || rank < 0 || !listed_axes(n, 1, rank, -1, axes, &n_axes) ||
      rank != n->have[0].rank + n_axes)
    return false;
  uint32_t set = 0;
  for (int64_t k = 0; k < n_axes; k++) set |= 1u << axes[k];
  if (__builtin_popcount(set) != n_axes) return false;
  for (int32_t i = 0; i < rank; i++)
    if (!(set >> i & 1)) own[n_own++] = i;
  layout_order order = {.rank = rank};
  for (int32_t i = 0; i < rank; i++) order.axes[i] = set >> i & 1 ? i : own[n->have[0].axes[next++]];
  n->want[0] = n->have[0];
  n->give[0] = layout_simplified(order);
  return true;
}

static bool plan_resize(layout_node *n) {
  if (!layout_has_order(n)) return false;
  n->want[0] = n->give[0] = n->have[0];
  return true;
}

/* Scales, sizes and roi keep their order, because the attribute `axes` names the stored axis of each element. */
static bool edit_resize(layout_node *n) {
  reed_attrs attrs = ir_attrs(n->node);
  int64_t axes[REED_MAX_RANK], n_axes;
  const int64_t *given = reed_attrs_ints(&attrs, "axes", &n_axes);
  if (!given) n_axes = n->want[0].rank;
  for (int64_t k = 0; k < n_axes && k < REED_MAX_RANK; k++)
    axes[k] = layout_position(&n->want[0], layout_axis(given ? given[k] : k, n->want[0].rank));
  return ir_set_attr_ints(n->node, "axes", axes, n_axes);
}

/* Only an Expand to the rank of its input, because then element k of the shape belongs to axis k. */
static bool plan_expand(layout_node *n) {
  const ir_value *s = layout_input(n, 1);
  int32_t rank = n->node->outputs[0]->type.rank;
  if (!layout_has_order(n) || rank != n->have[0].rank || s->type.rank != 1 || s->type.dims[0] != rank) return false;
  n->want[0] = n->give[0] = n->have[0];
  return true;
}

/* ---- views ---- */

static bool plan_transpose(layout_node *n) {
  reed_attrs attrs = ir_attrs(n->node);
  int64_t n_perm;
  const int64_t *perm = reed_attrs_ints(&attrs, "perm", &n_perm);
  int32_t rank = layout_input(n, 0)->type.rank;
  if (rank < 0 || (perm && n_perm != rank) || (n->have[0].rank && n->have[0].rank != rank)) return false;
  layout_order order = {.rank = rank};
  for (int32_t i = 0; i < rank; i++) {
    int32_t axis = n->have[0].rank ? n->have[0].axes[i] : i, to = 0;
    while (to < rank && (perm ? perm[to] : rank - 1 - to) != axis) to++;
    if (to == rank) return false;
    order.axes[i] = to;
  }
  n->want[0] = n->have[0];
  n->give[0] = layout_simplified(order);
  return true;
}

/* Consecutive axes of a view's input (from) and of its output (to) with the same product of extents. */
typedef struct axis_group {
  int32_t from, n_from, to, n_to;
} axis_group;

/* The next group, the smallest possible: perhaps one axis of extent 1 of one side. False: the axes do not match. */
static bool next_group(const ir_module *m, const ir_type *x, const ir_type *y, axis_group *g) {
  int32_t left_x = x->rank - g->from, left_y = y->rank - g->to;
  for (int32_t total = 2; total <= left_x + left_y; total++)
    for (g->n_from = 1; g->n_from <= left_x && g->n_from < total; g->n_from++) {
      g->n_to = total - g->n_from;
      if (g->n_to <= left_y &&
          symbols_assume_equal(m->symbols, symbols_product(m->symbols, x->dims + g->from, g->n_from),
                               symbols_product(m->symbols, y->dims + g->to, g->n_to)))
        return true;
    }
  g->n_from = left_x && x->dims[g->from] == 1;
  g->n_to = !g->n_from && left_y && y->dims[g->to] == 1;
  return g->n_from || g->n_to;
}

/* Splits the axes of both x and y into groups and gives their number. Axes of extent 1 that only x has join the group
 * before them. 0: the extents do not tell which axes belong together. */
static int32_t match_groups(const ir_module *m, const ir_type *x, const ir_type *y, axis_group *groups) {
  int32_t n = 0, from = 0, to = 0;
  if (x->rank < 1 || y->rank < 1) return 0;
  while (from < x->rank || to < y->rank) {
    axis_group *g = &groups[n++];
    *g = (axis_group){.from = from, .to = to};
    if (!next_group(m, x, y, g)) return 0;
    from += g->n_from;
    to += g->n_to;
    if (n == 1 || g->n_to) continue;
    groups[n - 2].n_from += g->n_from;
    n--;
  }
  return n;
}

/* The groups in the order in which x is stored. False: the axes of a group do not stand together, or not in x's own
 * order. Axes of extent 1 may stand anywhere; a group of only such axes comes after the group before it. */
static bool stored_groups(const ir_type *x, const layout_order *order, const axis_group *groups, int32_t n,
                          int32_t *out_groups) {
  int32_t n_found = 0, last = -1;
  uint32_t found = 0;
  for (int32_t i = 0; i < order->rank; i++) {
    int32_t axis = order->axes[i], g = 0;
    if (x->dims[axis] == 1) continue;
    while (axis >= groups[g].from + groups[g].n_from) g++;
    bool goes_on = n_found && out_groups[n_found - 1] == g;
    if (goes_on ? axis < last : found >> g & 1) return false;
    if (!goes_on) out_groups[n_found++] = g;
    found |= 1u << g;
    last = axis;
  }
  for (int32_t g = 0; g < n; g++) {
    int32_t at = 0;
    if (found >> g & 1) continue;
    while (g && out_groups[at++] != g - 1) continue;
    memmove(&out_groups[at + 1], &out_groups[at], (size_t)(n_found++ - at) * sizeof *out_groups);
    out_groups[at] = g;
  }
  return true;
}

/* A view: the type x of its input, the type y of its output, and the groups of axes that match them. */
typedef struct view {
  const ir_type *x, *y;
  axis_group groups[2 * REED_MAX_RANK];
  int32_t n, order[2 * REED_MAX_RANK];
} view;

/* False: input 0 has no order of its own, or the extents do not tell which axes of x and y belong together. */
static bool read_view(const layout_node *n, view *v) {
  v->x = &layout_input(n, 0)->type;
  v->y = &n->node->outputs[0]->type;
  v->n = layout_has_order(n) ? match_groups(n->m, v->x, v->y, v->groups) : 0;
  return v->n > 0;
}

/* The order of y's axes with the groups in their stored order. False: the stored order separates a group's axes. */
static bool order_of_view(view *v, const layout_order *stored, layout_order *out) {
  layout_order order = {0};
  if (!stored_groups(v->x, stored, v->groups, v->n, v->order)) return false;
  for (int32_t k = 0; k < v->n; k++) {
    const axis_group *g = &v->groups[v->order[k]];
    for (int32_t i = 0; i < g->n_to; i++) order.axes[order.rank++] = g->to + i;
  }
  *out = layout_simplified(order);
  return true;
}

/* The number of axes of the stored tensor before the first axis of the second stored group. */
static int64_t second_begins(const view *v, const layout_order *stored) {
  const axis_group *g = &v->groups[v->order[1]];
  for (int32_t i = 0; i < stored->rank; i++)
    if (v->x->dims[stored->axes[i]] != 1 && stored->axes[i] >= g->from && stored->axes[i] < g->from + g->n_from)
      return i;
  return stored->rank;
}

/* The number of rows of the constant weights of the MatMul or Gemm that is the only reader of the node's output; -1:
 * the reader is no such product. *columns: the weights are transposed, so that their rows lie in columns. */
static int64_t rows_of_reader(const layout_node *n, bool *columns) {
  const ir_node *reader = n->reader;
  reed_desc d;
  if (!reader || reader->n_inputs < 2 || reader->inputs[0] != n->node->outputs[0] || !ir_is_constant(reader->inputs[1]))
    return -1;
  reed_attrs attrs = ir_attrs(reader);
  *columns = reader->op == op_builtin(OP_Gemm) && op_attr_int(&attrs, "transB");
  bool is_product =
      reader->op == op_builtin(OP_MatMul) || (reader->op == op_builtin(OP_Gemm) && !op_attr_int(&attrs, "transA"));
  return is_product && ir_desc(reader->inputs[1], &d) && d.rank == 2 ? d.dims[*columns ? 1 : 0] : -1;
}

/* True for a [K,C,H,W] reshaped to [K,C*H*W] before a product: the stored [K,H,W,C] gives the same product when the
 * rows of the weights are reordered (edit_rows). */
static bool plan_rows(const layout_node *n, const view *v) {
  bool columns;
  const axis_group *first = &v->groups[0];
  bool fits = v->y->rank == 2 && v->n == 2 && first->n_from == 1 && first->n_to == 1 && n->have[0].axes[0] == 0;
  return fits && symbols_product(n->m->symbols, v->x->dims + 1, v->x->rank - 1) == rows_of_reader(n, &columns);
}

static bool plan_flatten(layout_node *n) {
  view v;
  reed_attrs attrs = ir_attrs(n->node);
  if (!read_view(n, &v)) return false;
  n->want[0] = n->have[0];
  if (order_of_view(&v, &n->have[0], &n->give[0])) return v.n == 2;
  return plan_rows(n, &v) && op_attr_int(&attrs, "axis") == 1;
}

/* True when all elements of the shape are known and every 0, which copies an extent of x, copies the same extent of the
 * stored tensor. */
static bool shape_goes_along(const layout_node *n) {
  int64_t n_dims;
  reed_attrs attrs = ir_attrs(n->node);
  const reed_dim *dims = integer_values_of(n->m, layout_input(n, 1), false, &n_dims);
  for (int64_t i = 0; dims && i < n_dims; i++)
    if (dims[i] == 0 && !op_attr_int(&attrs, "allowzero")) {
      int32_t at = n->give[0].rank ? layout_position(&n->give[0], (int32_t)i) : (int32_t)i;
      if (at >= n->have[0].rank || n->have[0].axes[at] != i) return false;
    }
  return dims != NULL;
}

static bool plan_reshape(layout_node *n) {
  view v;
  if (!read_view(n, &v)) return false;
  n->want[0] = n->have[0];
  return (order_of_view(&v, &n->have[0], &n->give[0]) || plan_rows(n, &v)) && shape_goes_along(n);
}

/* Reorders the rows of the reader's weights (the axes of x from axis 1 on) to the stored order. False: no memory. */
static bool edit_rows(layout_node *n, const view *v) {
  bool columns;
  ir_value *weights = n->reader->inputs[1];
  int64_t apart[REED_MAX_RANK], perm[REED_MAX_RANK], rows = rows_of_reader(n, &columns);
  int32_t rank = v->x->rank, first = columns ? 1 : 0,
          other = columns ? 0 : rank - 1; /* the rows' axes and the other one */
  apart[other] = rows ? weights->type.dims[columns ? 0 : 1] : 0;
  perm[other] = other;
  for (int32_t i = 1; i < rank; i++) {
    apart[first + i - 1] = v->x->dims[i];
    perm[first + i - 1] = first + n->want[0].axes[i] - 1;
  }
  ir_value *cut = ir_constant_i64(n->m, apart, rank, NULL),
           *joined = ir_constant_i64(n->m, weights->type.dims, 2, NULL);
  if (cut && joined) cut = make(n, OP_Reshape, (ir_value *[]){weights, cut}, 2);
  ir_value *turned = cut && joined ? make(n, OP_Transpose, &cut, 1) : NULL;
  if (!turned || !ir_set_attr_ints(turned->producer, "perm", perm, rank)) return false;
  return (n->reader->inputs[1] = make(n, OP_Reshape, (ir_value *[]){turned, joined}, 2)) != NULL;
}

/* Reorders input 1, an element for each axis of the result, to the result's stored order. False: no memory. */
static bool edit_shape_input(layout_node *n) {
  int64_t order[REED_MAX_RANK];
  for (int32_t i = 0; i < n->give[0].rank; i++) order[i] = n->give[0].axes[i];
  ir_value *axes = ir_constant_i64(n->m, order, n->give[0].rank, NULL);
  return axes && set_input(n, 1, make(n, OP_Gather, (ir_value *[]){n->node->inputs[1], axes}, 2));
}

/* The type x is rebuilt from the stored order, because input 0 is the stored tensor now. */
static bool edit_view(layout_node *n) {
  ir_type x = {.rank = n->want[0].rank};
  view v = {.x = &x, .y = &n->node->outputs[0]->type};
  layout_order same;
  for (int32_t i = 0; i < x.rank; i++) x.dims[n->want[0].axes[i]] = n->node->inputs[0]->type.dims[i];
  v.n = match_groups(n->m, v.x, v.y, v.groups);
  if (!order_of_view(&v, &n->want[0], &same)) return edit_rows(n, &v);
  if (n->node->op == op_builtin(OP_Flatten)) return ir_set_attr_int(n->node, "axis", second_begins(&v, &n->want[0]));
  return !n->give[0].rank || edit_shape_input(n);
}

static bool plan_shape(layout_node *n) {
  if (!layout_has_order(n)) return false;
  n->want[0] = n->have[0];
  return true;
}

/* Shape(x)[start:end] becomes Gather(Shape(stored), stored positions of axes start..end-1). */
static bool edit_shape(layout_node *n) {
  ir_node *shape = n->node;
  reed_attrs attrs = ir_attrs(shape);
  int32_t rank = n->want[0].rank;
  int64_t positions[REED_MAX_RANK], count = 0, start = op_attr_int(&attrs, "start"),
                                    end = reed_attrs_int(&attrs, "end", rank);
  if (start < 0) start += rank;
  if (end < 0) end += rank;
  for (int32_t i = 0; i < rank; i++)
    if (i >= start && i < end) positions[count++] = layout_position(&n->want[0], i);
  ir_value *all = make(n, OP_Shape, shape->inputs, 1), *axes = ir_constant_i64(n->m, positions, count, NULL);
  shape->inputs[0] = all;
  return all && axes && ir_set_op(shape, op_builtin(OP_Gather)) && ir_add_input(shape, axes);
}

/* ---- the table ---- */

static const layout_rule elementwise = {plan_elementwise, NULL}, concat = {plan_concat, edit_axis},
                         along = {plan_along_axis, edit_axis}, arg_reduce = {plan_arg_reduce, edit_axis},
                         gather = {plan_gather, edit_axis}, listed = {plan_listed, edit_listed},
                         reduce = {plan_reduce, edit_listed}, unsqueeze = {plan_unsqueeze, NULL},
                         resize = {plan_resize, edit_resize}, expand = {plan_expand, edit_shape_input},
                         transpose = {plan_transpose, NULL}, flatten = {plan_flatten, edit_view},
                         reshape = {plan_reshape, edit_view}, shape = {plan_shape, edit_shape};

static const struct {
  op_id op; /* the rule applies to every operator with the same shape function */
  const layout_rule *rule;
} rows[] = {
    {OP_Relu, &elementwise},
    {OP_Add, &elementwise},
    {OP_Where, &elementwise},
    {OP_Clip, &elementwise},
    {OP_Cast, &elementwise},
    {OP_PRelu, &elementwise},
    {OP_Identity, &elementwise},
    {OP_Concat, &concat},
    {OP_Split, &along},
    {OP_Softmax, &along},
    {OP_TopK, &along},
    {OP_ArgMax, &arg_reduce},
    {OP_Gather, &gather},
    {OP_Slice, &listed},
    {OP_Pad, &listed},
    {OP_ReduceMean, &reduce},
    {OP_Squeeze, &reduce},
    {OP_Unsqueeze, &unsqueeze},
    {OP_Resize, &resize},
    {OP_Transpose, &transpose},
    {OP_Expand, &expand},
    {OP_Flatten, &flatten},
    {OP_Reshape, &reshape},
    {OP_Shape, &shape},
    {OP_Conv, &layout_convolution},
    {OP_ConvTranspose, &layout_convolution},
    {OP_DeformConv, &layout_deformable},
    {OP_MaxPool, &layout_image},
    {OP_GlobalMaxPool, &layout_image},
    {OP_DepthToSpace, &layout_image},
    {OP_SpaceToDepth, &layout_image},
    {OP_GridSample, &layout_image},
    {OP_RoiAlign, &layout_image},
    {OP_roi_align, &layout_image},
    {OP_MaxRoiPool, &layout_image},
    {OP_MultiLevelRoiAlign, &layout_levels},
    {OP_Keypoints, &layout_maps},
    {OP_BatchNormalization, &layout_image},
    {OP_GroupNormalization, &layout_image},
};

const layout_rule *layout_rule_of(const reed_op *op) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (shapefn_of(op) == shapefn_of(op_builtin(rows[i].op))) return rows[i].rule;
  return NULL;
}
