/* Columns: arithmetic on single columns of matrices becomes one FusedColumns (ops/fused.h). A detector takes the
 * coordinates of boxes apart (Gather or Slice of one column, Split), computes with each of them, and puts the results
 * together again (Concat): some twenty operators that each pass over all boxes become one pass.
 *
 * A result is an operator whose last axis has few elements, each of which becomes a column, or an element-wise one as a
 * single column. The operators behind it that move elements or are element-wise are its cone; column_values.c writes
 * the program. A result is replaced if an operator that moves elements goes with it, or the element-wise ones of a
 * Concat. An operator of the cone with other users stays for them; its steps are computed twice if they are few,
 * otherwise it is the cone's border. A result whose columns are those of one tensor is that tensor. */
#include <string.h>

#include "compiler/ir/pass.h"
#include "compiler/passes/fuse/column_rows.h"
#include "compiler/passes/fuse/column_values.h"
#include "compiler/passes/fuse/members.h"

#define COLUMNS_MOST 8 /* of an element-wise operator's last axis */
#define AXES_APART 2   /* of a result whose elements are columns */
#define STEPS_TWICE 4  /* steps that are computed again rather than stored and read */
#define ROWS_LEAST 16  /* a result of fewer rows, in numbers, is left alone */

typedef struct columns_pass {
  ir_module *m;
  column_program program;
  int32_t results[FUSED_RESULTS], n_results;
  int64_t n_made, n_removed, n_chosen;
} columns_pass;

static reed_status no_memory(const columns_pass *c) { return diag_no_memory(c->m->diagnosis, "columns"); }

/* ---- the cone ---- */

/* True for an operator that may be looked through. */
static bool may_pass(const ir_node *n) {
  if (n->dead) return false;
  for (int32_t i = 0; i < n->n_outputs; i++)
    if (n->outputs[i] && (n->outputs[i]->elements || n->outputs[i]->type.rank < 0)) return false;
  if (!column_moves(n)) return member_may_join(n) && member_steps(n) == 1;
  const bool chooses = n->op == op_builtin(OP_Gather) || n->op == op_builtin(OP_Slice);
  if (chooses && !ir_is_constant(n->inputs[1]) && !n->inputs[1]->elements) return false; /* rows by numbers of a run */
  return n->n_inputs > 0 && n->inputs[0] && !member_is_small(n->inputs[0]);
}

static bool has(const column_program *p, const ir_node *n) {
  for (int32_t i = 0; i < p->n_cone; i++)
    if (p->cone[i] == n) return true;
  return false;
}

static int32_t inputs_passed(const ir_node *n) {
  return column_moves(n) && n->op != op_builtin(OP_Concat) ? 1 : n->n_inputs;
}

/* The operators behind cone[0], but not those behind the `n_stops` operators at `stops`. */
static void find_cone(column_program *p, ir_node *const *stops, int32_t n_stops) {
  p->n_cone = 1;
  for (int32_t i = 0; i < p->n_cone; i++) {
    const ir_node *n = p->cone[i];
    for (int32_t k = 0; k < inputs_passed(n); k++) {
      ir_node *from = n->inputs[k] ? n->inputs[k]->producer : NULL;
      bool stopped = !from || from->graph != n->graph || p->n_cone == CONE_NODES || has(p, from) || !may_pass(from);
      for (int32_t j = 0; j < n_stops && !stopped; j++) stopped = stops[j] == from;
      if (!stopped) p->cone[p->n_cone++] = from;
    }
  }
}

/* Uses of n's outputs by the listed operators. */
static int32_t uses_by(ir_node *const *nodes, int32_t n_nodes, const ir_node *n) {
  int32_t uses = 0;
  for (int32_t i = 0; i < n_nodes; i++)
    for (int32_t k = 0; k < nodes[i]->n_inputs; k++) uses += nodes[i]->inputs[k] && nodes[i]->inputs[k]->producer == n;
  return uses;
}

static int32_t uses_of(const ir_node *n) {
  int32_t uses = 0;
  for (int32_t i = 0; i < n->n_outputs; i++) uses += n->outputs[i] ? n->outputs[i]->n_uses : 0;
  return uses;
}

/* The element-wise operators of the cone at and behind n. */
static int32_t steps_behind(const column_program *p, ir_node *n) {
  ir_node *list[CONE_NODES] = {n};
  int32_t count = 1, steps = 0;
  for (int32_t i = 0; i < count; i++) {
    steps += !column_moves(list[i]);
    for (int32_t k = 0; k < inputs_passed(list[i]); k++) {
      ir_node *from = list[i]->inputs[k] ? list[i]->inputs[k]->producer : NULL;
      bool known = !from || !has(p, from);
      for (int32_t j = 0; j < count && !known; j++) known = list[j] == from;
      if (!known) list[count++] = from;
    }
  }
  return steps;
}

/* The cone without operators that others use too, and whose steps are many. */
static void grow_cone(column_program *p, ir_node *last) {
  ir_node *stops[CONE_NODES] = {NULL};
  int32_t n_stops = 0;
  p->cone[0] = last;
  find_cone(p, stops, 0);
  for (int32_t i = 1; i < p->n_cone; i++) {
    ir_node *n = p->cone[i];
    if ((column_moves(n) && n->op != op_builtin(OP_Concat)) || uses_by(p->cone, p->n_cone, n) == uses_of(n) ||
        steps_behind(p, n) <= STEPS_TWICE)
      continue;
    stops[n_stops++] = n;
    find_cone(p, stops, n_stops);
    i = 0;
  }
}

/* ---- results ---- */

/* True if the leaves' extents broadcast to those of the rows. */
static bool leaves_have_rows(const column_program *p) {
  for (int32_t r = 0; r < p->n_rows; r++) {
    bool has_row = p->rows[r] == 1;
    for (int32_t k = 0; k < p->n_leaves && !has_row; k++) {
      const column_leaf *leaf = &p->leaves[k];
      const int32_t d = leaf->rank - 1 - (p->n_rows - r); /* the last axis has the columns */
      has_row = d >= 0 && leaf->dims[d] == p->rows[r];
    }
    if (!has_row) return false;
  }
  return true;
}

/* Looks for the columns of `last` over its rows: all its axes but the last `apart` ones, whose elements are the
 * columns. split: the axis of the rows that is the axes p->parts in one; -1: none. */
static bool find_over(columns_pass *c, ir_node *last, int32_t apart, int32_t split) {
  column_program *p = &c->program;
  const ir_type *type = &last->outputs[0]->type;
  const int32_t n_axes = type->rank - apart;
  column_spot spot = {.v = last->outputs[0]};
  p->n_leaves = p->n_steps = p->n_passed = p->n_rows = 0;
  p->full = false;
  if (n_axes + (split < 0 ? 0 : p->n_parts) > REED_MAX_RANK - 1) return false;
  for (int32_t d = 0; d < n_axes; d++) {
    spot.at[d] = (column_place){p->n_rows, d == split ? p->n_parts : 1, 0, 1};
    if (d != split) p->rows[p->n_rows++] = type->dims[d];
    for (int32_t k = 0; d == split && k < p->n_parts; k++) p->rows[p->n_rows++] = p->parts[k];
  }
  c->n_results = 1;
  for (int32_t d = n_axes; d < type->rank; d++) c->n_results *= (int32_t)type->dims[d];
  for (int32_t j = 0; j < c->n_results; j++) {
    int64_t place = j;
    for (int32_t d = type->rank; d-- > n_axes; place /= type->dims[d])
      spot.at[d] = (column_place){-1, 1, place % type->dims[d], 1};
    c->results[j] = column_value(p, &spot);
    if (c->results[j] == COLUMN_NONE) return false;
  }
  return leaves_have_rows(p);
}

/* Looks for the columns again without the operators of this kind and those behind them. */
static bool find_without(columns_pass *c, ir_node *last, int32_t apart, int32_t split, op_id op) {
  column_program *p = &c->program;
  ir_node *stops[CONE_NODES];
  int32_t n_stops = 0;
  for (int32_t i = 1; i < p->n_cone; i++)
    if (p->cone[i]->op == op_builtin(op)) stops[n_stops++] = p->cone[i];
  if (!n_stops) return false;
  find_cone(p, stops, n_stops);
  return find_over(c, last, apart, split);
}

/* The operators behind the joins of the cone are other programs' if this one is too long with them. An Expand stays if
 * no other tensor has its extents. */
static bool find_short(columns_pass *c, ir_node *last, int32_t apart, int32_t split) {
  if (find_over(c, last, apart, split)) return true;
  return find_without(c, last, apart, split, c->program.full ? OP_Concat : OP_Expand);
}

/* An axis of the rows that a tensor of the cone has as several axes is split if that gives a program. */
static bool find_columns(columns_pass *c, ir_node *last, int32_t apart) {
  column_program *p = &c->program;
  grow_cone(p, last);
  p->split = -1;
  const bool found = find_short(c, last, apart, -1);
  if (p->split < 0 || p->no_memory) return found && !p->no_memory;
  if (find_short(c, last, apart, p->split) || p->no_memory) return !p->no_memory;
  return found && find_short(c, last, apart, -1);
}

/* True if `n` is in the list of operators that were looked through. */
static bool passed(const column_program *p, const ir_node *n) {
  for (int32_t i = 0; i < p->n_passed; i++)
    if (p->passed[i] == n) return true;
  return false;
}

/* True if only axes of extent 1 change their places. */
static bool moves_ones(const ir_node *n) {
  const ir_type *type = &n->inputs[0]->type;
  const reed_attrs attrs = ir_attrs(n);
  int64_t n_perm, last = -1;
  const int64_t *perm = reed_attrs_ints(&attrs, "perm", &n_perm);
  for (int32_t d = 0; d < type->rank; d++) {
    const int64_t axis = perm && n_perm == type->rank ? perm[d] : type->rank - 1 - d;
    if (axis < 0 || axis >= type->rank) return false;
    if (type->dims[axis] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

/* True for an operator whose results lie inside its input, which takes no time: a view, or a part of the outermost axis
 * that is not of extent 1. */
static bool is_free(const ir_node *n) {
  const ir_type *type = &n->inputs[0]->type;
  if (column_is_view(n)) return true;
  if (n->op == op_builtin(OP_Transpose)) return moves_ones(n);
  if (n->op != op_builtin(OP_Gather) && n->op != op_builtin(OP_Split)) return false;
  const reed_attrs attrs = ir_attrs(n);
  int64_t axis = op_attr_int(&attrs, "axis");
  if (axis < 0) axis += type->rank;
  bool first = true;
  for (int64_t d = 0; d < axis; d++) first = first && type->dims[d] == 1;
  return first || type->dims[axis] == 1;
}

/* Marks the operators of the cone that only the program needed. Returns how many of them take time; *out_moves: of
 * these, those that move elements. */
static int32_t find_unused(const columns_pass *c, ir_node **unused, int32_t *out_n, int32_t *out_moves) {
  const column_program *p = &c->program;
  int32_t n = 1, work = 0;
  unused[0] = p->cone[0];
  *out_moves = 0;
  for (bool more = true; more;) {
    more = false;
    for (int32_t i = 1; i < p->n_cone; i++) {
      ir_node *candidate = p->cone[i];
      bool stays = !passed(p, candidate) || uses_by(unused, n, candidate) != uses_of(candidate);
      for (int32_t k = 0; k < n && !stays; k++) stays = unused[k] == candidate;
      for (int32_t k = 0; k < p->n_leaves && !stays; k++) stays = p->leaves[k].v->producer == candidate;
      if (stays) continue;
      unused[n++] = candidate;
      work += !is_free(candidate);
      *out_moves += column_moves(candidate) && !is_free(candidate);
      more = true;
    }
  }
  *out_n = n;
  return work;
}

/* ---- the new operators ---- */

/* The leaf's tensor with the leaf's extents. */
static ir_value *view_of(columns_pass *c, ir_node *last, const column_leaf *leaf) {
  if (leaf->rank == leaf->v->type.rank) {
    bool same = true;
    for (int32_t d = 0; d < leaf->rank; d++) same = same && leaf->v->type.dims[d] == leaf->dims[d];
    if (same) return leaf->v;
  }
  int64_t shape[REED_MAX_RANK];
  for (int32_t d = 0; d < leaf->rank; d++) shape[d] = symbol_is(leaf->dims[d]) ? -1 : leaf->dims[d];
  ir_value *dims = ir_constant_i64(c->m, shape, leaf->rank, NULL);
  ir_node *n =
      dims ? ir_node_new(last->graph, last, op_builtin(OP_Reshape), NULL, (ir_value *[]){leaf->v, dims}, 2, NULL, 1)
           : NULL;
  if (!n) return NULL;
  n->outputs[0]->type = (ir_type){.dtype = leaf->v->type.dtype, .rank = leaf->rank};
  memcpy(n->outputs[0]->type.dims, leaf->dims, sizeof leaf->dims);
  return n->outputs[0];
}

/* Makes `result` a view of v. */
static bool view_as(columns_pass *c, ir_node *last, ir_value *v, ir_value *result) {
  const ir_type *to = &result->type;
  int64_t shape[REED_MAX_RANK];
  for (int32_t d = 0; d < to->rank; d++) shape[d] = symbol_is(to->dims[d]) ? -1 : to->dims[d];
  ir_value *dims = ir_constant_i64(c->m, shape, to->rank, NULL);
  return dims &&
         ir_node_new(last->graph, last, op_builtin(OP_Reshape), last->name, (ir_value *[]){v, dims}, 2, &result, 1);
}

static int32_t operand_number(const column_program *p, int32_t value) {
  return value < COLUMN_STEPS ? value : p->n_leaves + value - COLUMN_STEPS;
}

static void write_program(const column_program *p, fused_text *text) {
  for (int32_t j = 0; j < p->n_steps; j++) {
    const column_step *step = &p->steps[j];
    const reed_attrs attrs = ir_attrs(step->n);
    const reed_op *op = step->n->op == op_builtin(OP_Sum) ? op_builtin(OP_Add) : step->n->op;
    int32_t operands[FUSED_OPERANDS];
    for (int32_t k = 0; k < fused_operands(op); k++) operands[k] = operand_number(p, step->operands[k]);
    fused_write(text, op, &attrs, operands);
  }
}

static bool set_program(columns_pass *c, ir_node *n, reed_dtype to) {
  const column_program *p = &c->program;
  int64_t columns[FUSED_INPUTS], results[FUSED_RESULTS];
  for (int32_t k = 0; k < p->n_leaves; k++) columns[k] = p->leaves[k].column;
  for (int32_t j = 0; j < c->n_results; j++) results[j] = operand_number(p, c->results[j]);
  fused_text text = {0};
  write_program(p, &text);
  const reed_attr numbers = {
      .name = "numbers", .type = REED_ATTR_FLOATS, .floats = text.numbers.items, .n = (int64_t)text.numbers.n};
  const bool ok = !text.failed && ir_set_attr_string(n, "program", text.program.data) && ir_set_attr_int(n, "to", to) &&
                  ir_set_attr_ints(n, "columns", columns, p->n_leaves) &&
                  ir_set_attr_ints(n, "results", results, c->n_results) && (!numbers.n || ir_set_attr(n, &numbers));
  fused_text_fini(&text);
  return ok;
}

/* True if the extents of a view of `from` can be written: at most one of them is no number. */
static bool may_view(const columns_pass *c, const ir_type *to) {
  int32_t n_symbols = 0, n_before = 0;
  for (int32_t d = 0; d < to->rank; d++) {
    const bool symbol = symbol_is(to->dims[d]);
    if ((!symbol && to->dims[d] <= 0) || (symbol && (n_symbols++ || (n_before && c->m->counts_on_device))))
      return false;
    n_before += symbol || to->dims[d] != 1;
  }
  return true;
}

/* The type of the columns side by side: as many axes as the leaf with the most, in front of which the rows' extents are
 * 1 (leaves_have_rows). */
static void type_of_columns(const columns_pass *c, reed_dtype dtype, ir_type *out_type) {
  const column_program *p = &c->program;
  int32_t rank = 1;
  for (int32_t k = 0; k < p->n_leaves; k++) rank = p->leaves[k].rank > rank ? p->leaves[k].rank : rank;
  *out_type = (ir_type){.dtype = dtype, .rank = rank};
  memcpy(out_type->dims, p->rows + p->n_rows - (rank - 1), sizeof *p->rows * (size_t)(rank - 1));
  out_type->dims[rank - 1] = c->n_results;
}

static bool same_dims(const ir_type *a, const ir_type *b) {
  return a->rank == b->rank && memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)a->rank) == 0;
}

/* Puts the program, or the tensor whose columns the result has, in the place of `last`. */
static reed_status replace(columns_pass *c, ir_node *last, ir_node *const *unused, int32_t n_unused, bool made) {
  const column_program *p = &c->program;
  ir_value *result = last->outputs[0], *inputs[FUSED_INPUTS];
  for (int32_t k = 0; k < (made ? p->n_leaves : 1); k++) {
    inputs[k] = NULL;
    for (int32_t j = 0; j < k && !inputs[k]; j++)
      if (p->leaves[j].v == p->leaves[k].v && p->leaves[j].rank == p->leaves[k].rank &&
          memcmp(p->leaves[j].dims, p->leaves[k].dims, sizeof p->leaves[k].dims) == 0)
        inputs[k] = inputs[j];
    if (!inputs[k]) inputs[k] = view_of(c, last, &p->leaves[k]);
    if (!inputs[k]) return no_memory(c);
  }
  if (!made) {
    if (!view_as(c, last, inputs[0], result)) return no_memory(c);
  } else {
    ir_type type;
    type_of_columns(c, result->type.dtype, &type);
    const bool direct = same_dims(&type, &result->type);
    ir_node *n = ir_node_new(last->graph, last, op_builtin(OP_FusedColumns), last->name, inputs, p->n_leaves,
                             direct ? &result : NULL, 1);
    if (!n || !set_program(c, n, result->type.dtype)) return no_memory(c);
    if (!direct) n->outputs[0]->type = type;
    if (!direct && !view_as(c, last, n->outputs[0], result)) return no_memory(c);
  }
  for (int32_t i = 0; i < n_unused; i++) unused[i]->dead = true;
  c->n_made++;
  c->n_removed += n_unused;
  ir_count_uses(c->m);
  return REED_OK;
}

/* True if the results are the columns of leaf 0's tensor, all and in order, and the rows are all of its rows. */
static bool is_whole(const columns_pass *c, const ir_type *to) {
  const column_program *p = &c->program;
  if (p->n_steps || p->n_leaves != c->n_results || p->leaves[0].width != c->n_results) return false;
  for (int32_t j = 0; j < c->n_results; j++) {
    const column_leaf *leaf = &p->leaves[j];
    if (c->results[j] != j || leaf->column != j || leaf->v != p->leaves[0].v || leaf->rank != p->leaves[0].rank ||
        memcmp(leaf->dims, p->leaves[0].dims, sizeof leaf->dims) != 0)
      return false;
  }
  ir_type type;
  type_of_columns(c, to->dtype, &type);
  const column_leaf *leaf = &p->leaves[0];
  int32_t lead = type.rank - leaf->rank;
  for (int32_t d = 0; d < type.rank; d++)
    if (d < lead ? type.dims[d] != 1 : type.dims[d] != leaf->dims[d - lead]) return false;
  return to->dtype == leaf->v->type.dtype;
}

static reed_status try_result(columns_pass *c, ir_node *last, int32_t apart, bool *out_done) {
  ir_node *unused[CONE_NODES];
  int32_t n_unused = 0, n_moves = 0;
  const ir_type *to = &last->outputs[0]->type;
  if (!find_columns(c, last, apart)) return c->program.no_memory ? no_memory(c) : REED_OK;
  const bool whole = is_whole(c, to), joins = last->op == op_builtin(OP_Concat);
  if (!c->program.n_steps && !whole) return REED_OK;
  const int32_t work = find_unused(c, unused, &n_unused, &n_moves);
  if (!(whole || n_moves || (joins && work))) return REED_OK;
  ir_type type;
  type_of_columns(c, to->dtype, &type);
  if ((whole || !same_dims(&type, to)) && !may_view(c, to)) return REED_OK;
  *out_done = true;
  return replace(c, last, unused, n_unused, !whole);
}

/* True if the elements of the last `apart` axes may be columns: they are few, and a Concat joins along one of these. */
static bool has_columns(const ir_node *n, int32_t apart) {
  const ir_type *type = &n->outputs[0]->type;
  const bool joins = n->op == op_builtin(OP_Concat);
  const int64_t most = joins && apart == 1 ? FUSED_RESULTS : COLUMNS_MOST;
  int64_t width = 1;
  if (type->rank <= apart) return false;
  for (int32_t d = type->rank - apart; d < type->rank; d++) {
    if (symbol_is(type->dims[d]) || type->dims[d] < 1 || type->dims[d] > most) return false;
    width *= type->dims[d];
  }
  if (width < 2 || width > most) return false;
  const reed_attrs attrs = ir_attrs(n);
  int64_t axis = joins ? op_attr_int(&attrs, "axis") : type->rank - 1;
  if (axis < 0) axis += type->rank;
  return axis >= type->rank - apart;
}

static bool is_large(const ir_value *v) {
  int64_t rows = 1;
  for (int32_t d = 0; d + 1 < v->type.rank; d++) {
    if (symbol_is(v->type.dims[d]) || rows >= ROWS_LEAST) return true;
    rows *= v->type.dims[d];
  }
  return rows >= ROWS_LEAST || (v->type.rank == 1 && symbol_is(v->type.dims[0]));
}

static reed_status visit(columns_pass *c, ir_node *last) {
  const bool chooses = last->op == op_builtin(OP_Gather) || last->op == op_builtin(OP_Slice),
             joins = last->op == op_builtin(OP_Concat);
  if (last->n_outputs != 1 || !last->outputs[0] || !may_pass(last) || last->outputs[0]->type.rank < 1 ||
      last->outputs[0]->type.dtype == REED_NONE || !last->outputs[0]->n_uses || !is_large(last->outputs[0]))
    return REED_OK;
  if (column_moves(last) && ((!joins && !chooses) || is_free(last))) return REED_OK;
  bool done = false;
  reed_status status = REED_OK;
  for (int32_t apart = AXES_APART; apart >= 0 && status == REED_OK && !done; apart--)
    if (apart ? has_columns(last, apart) : !column_moves(last)) status = try_result(c, last, apart, &done);
  return status;
}

static reed_status visit_graph(columns_pass *c, ir_graph *g) {
  VEC_OF(ir_node *) nodes = {0}; /* a copy of the list, because new operators are added */
  reed_status status = REED_OK;
  for (size_t i = 0; i < g->nodes.n && status == REED_OK; i++)
    if (!VEC_PUSH(&nodes, g->nodes.items[i])) status = no_memory(c);
  for (size_t i = nodes.n; i-- > 0 && status == REED_OK;) {
    ir_node *n = nodes.items[i];
    if (n->dead) continue;
    status = ir_check_cancel(c->m);
    for (int32_t k = 0; k < n->n_regions && status == REED_OK; k++) status = visit_graph(c, n->regions[k]);
    if (status == REED_OK) status = visit(c, n);
  }
  VEC_FREE(&nodes);
  return status;
}

reed_status pass_columns(ir_module *m, pass_report *report) {
  columns_pass c = {.m = m, .program.m = m};
  ir_count_uses(m);
  reed_status status = visit_graph(&c, m->main);
  if (status == REED_OK) status = column_rows_choose(m, m->main, &c.n_chosen);
  ir_sweep(m);
  *report = (pass_report){.counts = {{"programs over columns made", c.n_made},
                                     {"operators in them", c.n_removed},
                                     {"of chosen rows alone", c.n_chosen}}};
  return status;
}
