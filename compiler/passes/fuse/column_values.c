/* The value of a column: steps and leaves (column_values.h). */
#include "compiler/passes/fuse/column_values.h"

#include <string.h>

#include "compiler/ir/integer_values.h"
#include "compiler/passes/fuse/members.h"

static const column_place first_place = {.row = -1, .span = 1, .start = 0, .step = 1};

static bool is_row(const column_place *at) { return at->row >= 0; }
/* Place i of the rows' axis is place i of the tensor's. */
static bool is_straight(const column_place *at) { return is_row(at) && at->start == 0 && at->step == 1; }

static bool same_spot(const column_spot *a, const column_spot *b) {
  if (a->v != b->v) return false;
  for (int32_t d = 0; d < a->v->type.rank; d++)
    if (a->at[d].row != b->at[d].row || a->at[d].span != b->at[d].span || a->at[d].start != b->at[d].start ||
        a->at[d].step != b->at[d].step)
      return false;
  return true;
}

static bool in_cone(const column_program *p, const ir_node *n) {
  for (int32_t i = 0; i < p->n_cone; i++)
    if (p->cone[i] == n) return true;
  return false;
}

/* ---- leaves ---- */

/* The extents with which a tensor is seen so that its columns are on the last axis. */
typedef struct seen {
  reed_dim rows[REED_MAX_RANK];
  int32_t last; /* the last axis of the rows that it has */
  int64_t column, width;
} seen;

static bool see_row(const column_program *p, const column_place *at, reed_dim extent, seen *s) {
  if (s->width != 1 || at->row <= s->last) return false;
  s->last = at->row + at->span - 1;
  if (is_straight(at)) {
    reed_dim whole = 1;
    for (int32_t r = at->row; r <= s->last; r++) {
      s->rows[r] = p->rows[r];
      whole = symbols_mul(p->m->symbols, whole, p->rows[r]);
    }
    return symbols_equal_if_declared(p->m->symbols, whole, extent);
  }
  const reed_dim rows = p->rows[at->row];
  if (at->span != 1 || symbol_is(rows) || symbol_is(extent) || at->step < 1 || at->start < 0 || at->start >= at->step ||
      extent % at->step || extent / at->step != rows)
    return false;
  s->rows[at->row] = rows;
  s->width = at->step;
  s->column = at->start;
  return true;
}

static bool see(const column_program *p, const column_spot *spot, seen *s) {
  const ir_type *type = &spot->v->type;
  *s = (seen){.last = -1, .width = 1};
  for (int32_t r = 0; r < p->n_rows; r++) s->rows[r] = 1;
  for (int32_t d = 0; d < type->rank; d++) {
    const reed_dim extent = type->dims[d];
    const column_place *at = &spot->at[d];
    if (extent == 1) continue;
    if (is_row(at)) {
      if (!see_row(p, at, extent, s)) return false;
      continue;
    }
    if (symbol_is(extent) || at->start < 0 || at->start >= extent) return false;
    s->width *= extent;
    s->column = s->column * extent + at->start;
  }
  return s->width <= INT32_MAX;
}

/* True if a Reshape can give the extents: one of them may be no number, and a counted axis (--counts device) stays the
 * first one that is not of extent 1. */
static bool may_reshape(const column_program *p, const reed_dim *dims, int32_t rank) {
  int32_t n_symbols = 0, n_before = 0;
  for (int32_t d = 0; d < rank; d++) {
    const bool symbol = symbol_is(dims[d]);
    if ((!symbol && dims[d] <= 0) || (symbol && (n_symbols++ || (n_before && p->m->counts_on_device)))) return false;
    n_before += symbol || dims[d] != 1;
  }
  return true;
}

static int32_t leaf_of(column_program *p, const column_spot *spot) {
  const ir_type *type = &spot->v->type;
  seen s;
  column_leaf leaf = {.v = spot->v};
  if (!see(p, spot, &s)) return COLUMN_NONE;
  int32_t first = 0;
  while (first < p->n_rows && s.rows[first] == 1) first++;
  for (int32_t r = first; r < p->n_rows; r++) leaf.dims[leaf.rank++] = s.rows[r];
  if (leaf.rank == REED_MAX_RANK) return COLUMN_NONE;
  leaf.dims[leaf.rank++] = leaf.width = s.width;
  leaf.column = s.column;
  bool same = type->rank == leaf.rank || (type->rank == 0 && leaf.rank == 1);
  for (int32_t d = 0; d < type->rank && same; d++) same = type->dims[d] == leaf.dims[d];
  if (same) leaf.rank = type->rank;
  else if (!may_reshape(p, leaf.dims, leaf.rank)) return COLUMN_NONE;
  for (int32_t k = 0; k < p->n_leaves; k++) {
    const column_leaf *known = &p->leaves[k];
    if (known->v == leaf.v && known->rank == leaf.rank && known->column == leaf.column &&
        memcmp(known->dims, leaf.dims, sizeof leaf.dims) == 0)
      return k;
  }
  if (p->n_leaves == FUSED_INPUTS) return p->full = true, COLUMN_NONE;
  p->leaves[p->n_leaves] = leaf;
  return p->n_leaves++;
}

/* ---- operators that move elements ---- */

static int64_t axis_of(const ir_node *n, int32_t rank) {
  const reed_attrs attrs = ir_attrs(n);
  const int64_t axis = op_attr_int(&attrs, "axis");
  return axis < 0 ? axis + rank : axis;
}

static bool back_gather(const column_program *p, const ir_node *n, const column_spot *spot, column_spot *from) {
  const ir_type *data = &n->inputs[0]->type, *indices = &n->inputs[1]->type;
  const int64_t axis = axis_of(n, data->rank);
  int64_t n_places;
  const reed_dim *places =
      ir_is_constant(n->inputs[1]) ? integer_values_of(p->m, n->inputs[1], false, &n_places) : NULL;
  if (!places || indices->rank > 1 || axis < 0 || axis >= data->rank) return false;
  int64_t which = 0;
  if (indices->rank) {
    if (is_row(&spot->at[axis])) return false;
    which = spot->at[axis].start;
  }
  if (which < 0 || which >= n_places || symbol_is(places[which])) return false;
  int64_t place = places[which];
  if (place < 0 && symbol_is(data->dims[axis])) return false;
  if (place < 0) place += data->dims[axis];
  for (int32_t d = 0, o = 0; d < data->rank; d++) {
    from->at[d] = spot->at[o];
    if (d == axis) from->at[d] = first_place, from->at[d].start = place;
    o += d != axis || indices->rank;
  }
  return true;
}

/* The numbers of a Slice's operand i, NULL: not known. */
static const reed_dim *slice_numbers(const column_program *p, const ir_node *n, int32_t i, int64_t wanted) {
  int64_t n_numbers = 0;
  const reed_dim *numbers =
      i < n->n_inputs && n->inputs[i] ? integer_values_of(p->m, n->inputs[i], false, &n_numbers) : NULL;
  return numbers && n_numbers == wanted ? numbers : NULL;
}

static bool back_slice(const column_program *p, const ir_node *n, const column_spot *spot, column_spot *from) {
  const ir_type *data = &n->inputs[0]->type;
  int64_t n_axes = 0;
  const reed_dim *starts = integer_values_of(p->m, n->inputs[1], false, &n_axes);
  const bool has_axes = n->n_inputs > 3 && n->inputs[3], has_steps = n->n_inputs > 4 && n->inputs[4];
  const reed_dim *axes = slice_numbers(p, n, 3, n_axes), *steps = slice_numbers(p, n, 4, n_axes);
  if (!starts || n_axes > data->rank || (has_axes && !axes) || (has_steps && !steps)) return false;
  memcpy(from->at, spot->at, sizeof from->at);
  for (int64_t i = 0; i < n_axes; i++) {
    int64_t axis = axes ? axes[i] : i, start = starts[i];
    const int64_t step = steps ? steps[i] : 1;
    if (symbol_is(axis) || symbol_is(start) || symbol_is(step) || step < 1) return false;
    if (axis < 0) axis += data->rank;
    if (axis < 0 || axis >= data->rank) return false;
    const reed_dim extent = data->dims[axis];
    if (symbol_is(extent) && start < 0) return false;
    if (start < 0) start = start + extent > 0 ? start + extent : 0;
    column_place *at = &from->at[axis];
    if (at->span > 1 && (start || step != 1)) return false;
    at->start = start + step * at->start;
    at->step *= step;
  }
  return true;
}

static bool back_split(const ir_node *n, const column_spot *spot, column_spot *from) {
  const ir_type *data = &n->inputs[0]->type;
  const int64_t axis = axis_of(n, data->rank);
  if (axis < 0 || axis >= data->rank) return false;
  int64_t before = 0;
  for (int32_t i = 0; i < spot->v->producer_output; i++) {
    const ir_value *part = n->outputs[i];
    if (!part || part->type.rank != data->rank || symbol_is(part->type.dims[axis])) return false;
    before += part->type.dims[axis];
  }
  memcpy(from->at, spot->at, sizeof from->at);
  if (before && from->at[axis].span > 1) return false;
  from->at[axis].start += before;
  return true;
}

static bool back_concat(const ir_node *n, const column_spot *spot, column_spot *from) {
  const int64_t axis = axis_of(n, n->outputs[0]->type.rank);
  if (axis < 0 || is_row(&spot->at[axis])) return false;
  int64_t at = spot->at[axis].start;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    const reed_dim extent = n->inputs[i]->type.dims[axis];
    if (symbol_is(extent)) return false;
    if (at < extent) {
      memcpy(from->at, spot->at, sizeof from->at);
      from->at[axis].start = at;
      from->v = n->inputs[i];
      return true;
    }
    at -= extent;
  }
  return false;
}

static bool back_transpose(const ir_node *n, const column_spot *spot, column_spot *from) {
  const int32_t rank = n->inputs[0]->type.rank;
  const reed_attrs attrs = ir_attrs(n);
  int64_t n_perm;
  const int64_t *perm = reed_attrs_ints(&attrs, "perm", &n_perm);
  if (perm && n_perm != rank) return false;
  for (int32_t d = 0; d < rank; d++) {
    const int64_t axis = perm ? perm[d] : rank - 1 - d;
    if (axis < 0 || axis >= rank) return false;
    from->at[axis] = spot->at[d];
  }
  return true;
}

/* An operand that is broadcast to the extents `to`, aligned from the right. declared: declared names are enough for
 * equal extents, because FusedColumns broadcasts its inputs as an element-wise operator would. False: an extent may be
 * 1 or not. */
static bool back_broadcast(const column_program *p, const ir_type *to, const column_spot *spot, bool declared,
                           column_spot *from) {
  const ir_type *type = &from->v->type;
  const int32_t lead = to->rank - type->rank;
  if (type->rank < 0 || lead < 0) return false;
  for (int32_t d = 0; d < type->rank; d++) {
    if (type->dims[d] == 1) from->at[d] = first_place;
    else if (declared ? symbols_equal_if_declared(p->m->symbols, type->dims[d], to->dims[lead + d])
                      : symbols_equal(p->m->symbols, type->dims[d], to->dims[lead + d]))
      from->at[d] = spot->at[lead + d];
    else return false;
  }
  return true;
}

/* ---- views ---- */

/* One group of a view's axes: from[i .. i_end) and to[o .. o_end) have as many elements. */
typedef struct axis_group {
  int32_t i, i_end, o, o_end;
} axis_group;

/* The next group behind g. Both sides grow by numbers, or one axis is the product of the others. False: none is known.
 */
static bool next_group(const column_program *p, const ir_type *from, const ir_type *to, axis_group *g) {
  reed_symbols *symbols = p->m->symbols;
  g->i = g->i_end, g->o = g->o_end;
  reed_dim of_from = from->dims[g->i_end++], of_to = to->dims[g->o_end++];
  while (!symbols_equal(symbols, of_from, of_to)) {
    const bool numbers = !symbol_is(of_from) && !symbol_is(of_to);
    /* a side of numbers that is the less of two grows; a symbol is taken for a product of the other side's axes */
    const bool grow_from =
        numbers ? of_from < of_to : symbol_is(of_to) && g->o_end - g->o == 1 && g->i_end < from->rank;
    if (grow_from && g->i_end < from->rank) of_from = symbols_mul(symbols, of_from, from->dims[g->i_end++]);
    else if (!grow_from && g->o_end < to->rank) of_to = symbols_mul(symbols, of_to, to->dims[g->o_end++]);
    else return false;
  }
  return true;
}

/* Every `step`-th element of one axis behind a view: of several axes in front of it, one has the rows and the others,
 * of `step` elements, follow it. */
static bool back_steps(const ir_type *from, const axis_group *g, const column_place *row, column_place *at) {
  int64_t inner = 1, place = row->start;
  int32_t i = g->i_end;
  if (place < 0 || place >= row->step) return false;
  while (i > g->i && inner < row->step) {
    const reed_dim extent = from->dims[--i];
    if (symbol_is(extent) || extent < 1) return false;
    at[i] = first_place;
    at[i].start = place % extent;
    place /= extent;
    inner *= extent;
  }
  if (inner != row->step || i == g->i) return false;
  at[--i] = (column_place){row->row, 1, 0, 1};
  while (i > g->i) {
    if (from->dims[--i] != 1) return false;
    at[i] = first_place;
  }
  return true;
}

/* The places along the axes of a group in front of a view, from those behind it. */
static bool back_group(column_program *p, const ir_type *from, const ir_type *to, const axis_group *g,
                       const column_place *spot, column_place *at) {
  if (g->i_end - g->i == 1 && g->o_end - g->o == 1) return at[g->i] = spot[g->o], true;
  int64_t place = 0, inner = 1;
  int32_t o = g->o_end;
  while (o > g->o && (to->dims[o - 1] == 1 || !is_row(&spot[o - 1]))) { /* numbers at the end of the group */
    o--;
    if (symbol_is(to->dims[o])) return false;
    if (to->dims[o] == 1) continue;
    place += spot[o].start * inner;
    inner *= to->dims[o];
  }
  if (o == g->o) { /* numbers alone */
    for (int32_t i = g->i_end; i-- > g->i;) {
      if (symbol_is(from->dims[i]) || from->dims[i] < 1) return false;
      at[i] = first_place;
      at[i].start = place % from->dims[i];
      place /= from->dims[i];
    }
    return true;
  }
  if (o - g->o != 1) return false;
  const column_place *row = &spot[g->o];
  if (g->i_end - g->i == 1) { /* one row's axis and columns behind it, which are one axis in front of the view */
    if (row->span != 1) return false;
    at[g->i] = (column_place){row->row, 1, place + inner * row->start, inner * row->step};
    return true;
  }
  if (inner == 1 && row->step > 1) return back_steps(from, g, row, at);
  if (inner != 1 || !is_straight(row)) return false;
  if (row->span == 1 && p->split < 0 && symbols_equal_if_declared(p->m->symbols, p->rows[row->row], to->dims[g->o])) {
    /* the axis of the rows, and not a part of it, is several axes in front of the view */
    p->split = row->row;
    p->n_parts = 0;
    for (int32_t i = g->i; i < g->i_end; i++)
      if (from->dims[i] != 1) p->parts[p->n_parts++] = from->dims[i];
  }
  int32_t part = row->row;
  for (int32_t i = g->i; i < g->i_end; i++) {
    at[i] = first_place;
    if (from->dims[i] == 1) continue;
    if (part == row->row + row->span || !symbols_equal(p->m->symbols, from->dims[i], p->rows[part])) return false;
    at[i].row = part++;
  }
  return part == row->row + row->span;
}

static bool back_view(column_program *p, const ir_node *n, const column_spot *spot, column_spot *from) {
  const ir_type *in = &n->inputs[0]->type, *out = &n->outputs[0]->type;
  axis_group g = {0};
  for (;;) {
    while (g.i_end < in->rank && in->dims[g.i_end] == 1) from->at[g.i_end++] = first_place;
    while (g.o_end < out->rank && out->dims[g.o_end] == 1) g.o_end++;
    if (g.i_end == in->rank || g.o_end == out->rank) return g.i_end == in->rank && g.o_end == out->rank;
    if (!next_group(p, in, out, &g) || !back_group(p, in, out, &g, spot->at, from->at)) return false;
  }
}

bool column_is_view(const ir_node *n) {
  switch (op_id_of(n->op)) {
    case OP_Flatten:
    case OP_Identity:
    case OP_Reshape:
    case OP_Squeeze:
    case OP_Unsqueeze: return true;
    default: return false;
  }
}

bool column_moves(const ir_node *n) {
  switch (op_id_of(n->op)) {
    case OP_Concat:
    case OP_Expand:
    case OP_Gather:
    case OP_Slice:
    case OP_Split:
    case OP_Transpose: return true;
    default: return column_is_view(n);
  }
}

static bool back_move(column_program *p, const ir_node *n, const column_spot *spot, column_spot *from) {
  switch (op_id_of(n->op)) {
    case OP_Concat: return back_concat(n, spot, from);
    case OP_Expand: return back_broadcast(p, &n->outputs[0]->type, spot, false, from);
    case OP_Gather: return back_gather(p, n, spot, from);
    case OP_Slice: return back_slice(p, n, spot, from);
    case OP_Split: return back_split(n, spot, from);
    case OP_Transpose: return back_transpose(n, spot, from);
    default: return back_view(p, n, spot, from);
  }
}

/* ---- steps ---- */

/* A bound of Clip is a leaf of one element. */
static int32_t bound_value(column_program *p, const ir_node *n, int32_t k) {
  ir_value *v = k < n->n_inputs ? n->inputs[k] : NULL;
  if (!v) v = member_no_bound(p->m, n->inputs[0]->type.dtype, k == 1);
  p->no_memory |= !v;
  if (!v) return COLUMN_NONE;
  column_spot spot = {.v = v};
  for (int32_t d = 0; d < v->type.rank; d++) spot.at[d] = first_place;
  return leaf_of(p, &spot);
}

static int32_t step_value(column_program *p, ir_node *n, const column_spot *spot) {
  const bool clips = n->op == op_builtin(OP_Clip);
  column_step step = {.n = n, .spot = *spot};
  for (int32_t j = 0; j < p->n_steps; j++)
    if (same_spot(&p->steps[j].spot, spot)) return COLUMN_STEPS + j;
  const int32_t n_operands = fused_operands(n->op);
  for (int32_t k = 0; k < n_operands; k++) {
    if (clips && k > 0) {
      step.operands[k] = bound_value(p, n, k);
    } else {
      column_spot from = {.v = n->inputs[k]};
      step.operands[k] =
          from.v && back_broadcast(p, &n->outputs[0]->type, spot, true, &from) ? column_value(p, &from) : COLUMN_NONE;
    }
    if (step.operands[k] == COLUMN_NONE) return COLUMN_NONE;
  }
  for (int32_t j = 0; j < p->n_steps; j++) /* the same for another column, whose own operands are the same */
    if (p->steps[j].n == n && memcmp(p->steps[j].operands, step.operands, sizeof step.operands) == 0)
      return COLUMN_STEPS + j;
  if (p->n_steps == FUSED_STEPS) return p->full = true, COLUMN_NONE;
  p->steps[p->n_steps] = step;
  return COLUMN_STEPS + p->n_steps++;
}

int32_t column_value(column_program *p, const column_spot *spot) {
  ir_node *n = spot->v->producer;
  if (!n || !in_cone(p, n)) return leaf_of(p, spot);
  if (p->n_passed == COLUMN_PASSED) return p->full = true, COLUMN_NONE;
  const int32_t n_leaves = p->n_leaves, n_steps = p->n_steps, n_passed = p->n_passed;
  int32_t value = COLUMN_NONE;
  p->passed[p->n_passed++] = n;
  if (column_moves(n)) {
    column_spot from = {.v = n->inputs[0]};
    if (from.v && from.v->type.rank >= 0 && back_move(p, n, spot, &from)) value = column_value(p, &from);
  } else {
    value = step_value(p, n, spot);
  }
  if (value != COLUMN_NONE || p->full) return value;
  p->n_leaves = n_leaves, p->n_steps = n_steps, p->n_passed = n_passed;
  return n == p->cone[0] ? COLUMN_NONE : leaf_of(p, spot); /* the result itself is no leaf of its program */
}
