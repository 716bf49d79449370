/* Replaces rotary position embeddings (Su et al. 2021, "RoFormer") that an exporter wrote as single operators by
 * RotaryEmbedding (ONNX opset 23). With a and b the first and second elements of the pairs of x:
 *
 *   x cos + turned(x) sin        turned(x) has -b at the places of a, and a at those of b
 *   joined(a cos - b sin, b cos + a sin)
 *
 * Pairs are halves (Slice, Split, Concat) or neighbours (Slice with step 2, or the last axis of a Reshape to
 * [.., pairs, 2]). x is [batch, heads, places, size] or [batch, places, heads, size]. A part of a head that is not
 * turned may be joined behind. */
#include "compiler/ir/attempt.h"
#include "compiler/ir/integer_values.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

typedef struct turning {
  ir_module *m;
  ir_node *last; /* new nodes go in front of it */
  VEC_OF(ir_node *) nodes;
  int64_t n_turned, n_partial;
} turning;

/* A turned tensor. */
typedef struct turn {
  ir_value *x, *cosines, *sines;
  bool neighbours;
} turn;

static bool same(const turning *t, reed_dim a, reed_dim b) { return symbols_assume_equal(t->m->symbols, a, b); }

static reed_dim last_dim(const ir_value *v) { return v->type.rank > 0 ? v->type.dims[v->type.rank - 1] : -1; }

static bool is_last_axis(int64_t axis, int32_t rank) { return axis == -1 || axis == rank - 1; }

static bool known_ints(const turning *t, const ir_node *n, int32_t i, int64_t *out) {
  int64_t count;
  const reed_dim *x = i < n->n_inputs ? integer_values_of(t->m, n->inputs[i], false, &count) : NULL;
  if (!x || count != 1 || symbol_is(x[0])) return false;
  *out = x[0];
  return true;
}

/* ---- parts of the last axis ---- */

/* Elements first, first + step, ... of the last axis of x, `count` of them. */
typedef struct part {
  ir_value *x;
  int64_t first, step, count;
} part;

static bool sliced(const turning *t, const ir_node *n, part *out) {
  int64_t start, axis, step = 1;
  int32_t rank = n->inputs[0]->type.rank;
  if (!known_ints(t, n, 1, &start) || !known_ints(t, n, 3, &axis) || !is_last_axis(axis, rank)) return false;
  if (n->n_inputs > 4 && n->inputs[4] && !known_ints(t, n, 4, &step)) return false;
  reed_dim size = last_dim(n->inputs[0]);
  if (symbol_is(size) || step < 1) return false;
  *out = (part){n->inputs[0], start < 0 ? start + size : start, step, 0};
  return true;
}

static bool split_off(const ir_value *v, part *out) {
  const ir_node *n = v->producer;
  reed_attrs attrs = ir_attrs(n);
  if (!is_last_axis(op_attr_int(&attrs, "axis"), n->inputs[0]->type.rank)) return false;
  *out = (part){n->inputs[0], 0, 1, 0};
  for (int32_t i = 0; i < v->producer_output; i++) {
    reed_dim before = n->outputs[i] ? last_dim(n->outputs[i]) : SYMBOL_FIRST;
    if (symbol_is(before)) return false;
    out->first += before;
  }
  return true;
}

/* Element `first` of pairs: the last axis of a Reshape of x to [.., pairs, 2], taken by Gather. */
static bool taken_from_pairs(const turning *t, const ir_node *n, part *out) {
  reed_attrs attrs = ir_attrs(n);
  const ir_value *pairs = n->inputs[0];
  int32_t rank = pairs->type.rank;
  int64_t index;
  const ir_node *reshape = pattern_made_by(pairs, OP_Reshape);
  if (!reshape || !is_last_axis(op_attr_int(&attrs, "axis"), rank) || last_dim(pairs) != 2 ||
      n->inputs[1]->type.rank != 0 || !known_ints(t, n, 1, &index) || index < 0 || index > 1)
    return false;
  ir_value *x = reshape->inputs[0];
  if (x->type.rank != rank - 1 || symbol_is(last_dim(x)) || last_dim(x) != 2 * pairs->type.dims[rank - 2]) return false;
  for (int32_t i = 0; i < rank - 2; i++)
    if (!same(t, x->type.dims[i], pairs->type.dims[i])) return false;
  *out = (part){x, index, 2, 0};
  return true;
}

static bool part_of(const turning *t, const ir_value *v, part *out) {
  const ir_node *n = v->producer;
  reed_dim count = last_dim(v);
  if (!n || n->dead || symbol_is(count) || count < 1) return false;
  bool ok = n->op == op_builtin(OP_Slice)    ? sliced(t, n, out)
            : n->op == op_builtin(OP_Split)  ? split_off(v, out)
            : n->op == op_builtin(OP_Gather) ? taken_from_pairs(t, n, out)
                                             : false;
  out->count = count;
  return ok;
}

/* The x whose pairs have first elements a and second elements b; NULL: there is none. */
static ir_value *paired(const turning *t, const ir_value *a, const ir_value *b, bool *out_neighbours) {
  part first, second;
  if (!part_of(t, a, &first) || !part_of(t, b, &second) || first.x != second.x || first.count != second.count ||
      first.step != second.step || first.first != 0 || last_dim(first.x) != 2 * first.count)
    return NULL;
  *out_neighbours = first.step == 2;
  bool fits = first.step == 2 ? second.first == 1 : first.step == 1 && second.first == first.count;
  return fits ? first.x : NULL;
}

/* ---- joined pairs ---- */

/* v with an extent of 1 behind; otherwise NULL. */
static ir_value *narrowed(const turning *t, const ir_value *v) {
  ir_value *x = pattern_viewed(v);
  if (!x || x->type.rank != v->type.rank - 1 || last_dim(v) != 1) return NULL;
  for (int32_t i = 0; i < x->type.rank; i++)
    if (!same(t, x->type.dims[i], v->type.dims[i])) return NULL;
  return x;
}

/* The first and second elements of the pairs that v joins. */
static bool joined(const turning *t, const ir_value *v, ir_value **out_a, ir_value **out_b, bool *out_neighbours) {
  const ir_node *n = v->producer;
  *out_neighbours = n && !n->dead && n->op == op_builtin(OP_Reshape);
  const ir_value *pairs = *out_neighbours ? n->inputs[0] : v;
  const ir_node *concat = pattern_made_by(pairs, OP_Concat);
  if (!concat || concat->n_inputs != 2) return false;
  reed_attrs attrs = ir_attrs(concat);
  if (!is_last_axis(op_attr_int(&attrs, "axis"), pairs->type.rank)) return false;
  *out_a = concat->inputs[0];
  *out_b = concat->inputs[1];
  if (!*out_neighbours) return true;
  *out_a = narrowed(t, *out_a);
  *out_b = narrowed(t, *out_b);
  if (!*out_a || !*out_b || v->type.rank != (*out_a)->type.rank) return false;
  for (int32_t i = 0; i + 1 < v->type.rank; i++)
    if (!same(t, v->type.dims[i], (*out_a)->type.dims[i])) return false;
  return true;
}

/* ---- the forms ---- */

/* The x of which v is turned(x). */
static ir_value *turned(const turning *t, const ir_value *v, bool *out_neighbours) {
  ir_value *minus_b, *a;
  bool by_neighbours;
  if (!joined(t, v, &minus_b, &a, &by_neighbours)) return NULL;
  const ir_node *neg = pattern_made_by(minus_b, OP_Neg);
  ir_value *x = neg ? paired(t, a, neg->inputs[0], out_neighbours) : NULL;
  return x && *out_neighbours == by_neighbours ? x : NULL;
}

/* x cos + turned(x) sin */
static bool match_sum(const turning *t, const ir_value *v, turn *out) {
  const ir_node *sum = pattern_made_by(v, OP_Add);
  for (int k = 0; sum && k < 2; k++) {
    const ir_node *plain = pattern_made_by(sum->inputs[k], OP_Mul),
                  *other = pattern_made_by(sum->inputs[1 - k], OP_Mul);
    for (int i = 0; plain && other && i < 2; i++) {
      ir_value *x = turned(t, other->inputs[i], &out->neighbours);
      if (!x || (plain->inputs[0] != x && plain->inputs[1] != x)) continue;
      out->x = x;
      out->cosines = plain->inputs[plain->inputs[0] == x];
      out->sines = other->inputs[1 - i];
      return true;
    }
  }
  return false;
}

/* The other factors of a product with a, and of one with b, for products of a and b in either order. */
static bool factors(const ir_node *of_a, const ir_node *of_b, ir_value *a, ir_value *b, ir_value **out_a,
                    ir_value **out_b) {
  if (!of_a || !of_b) return false;
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 2; k++)
      if (of_a->inputs[i] == a && of_b->inputs[k] == b)
        return *out_a = of_a->inputs[1 - i], *out_b = of_b->inputs[1 - k], true;
  return false;
}

/* joined(a cos - b sin, b cos + a sin) */
static bool match_parts(const turning *t, const ir_value *v, turn *out) {
  ir_value *real, *imaginary, *a = NULL, *b = NULL, *other_cosines, *other_sines;
  bool by_neighbours;
  if (!joined(t, v, &real, &imaginary, &by_neighbours)) return false;
  const ir_node *difference = pattern_made_by(real, OP_Sub), *sum = pattern_made_by(imaginary, OP_Add);
  if (!difference || !sum) return false;
  const ir_node *ac = pattern_made_by(difference->inputs[0], OP_Mul),
                *bs = pattern_made_by(difference->inputs[1], OP_Mul);
  for (int i = 0; ac && bs && i < 4; i++) {
    out->x = paired(t, a = ac->inputs[i & 1], b = bs->inputs[i >> 1], &out->neighbours);
    out->cosines = ac->inputs[1 - (i & 1)];
    out->sines = bs->inputs[1 - (i >> 1)];
    if (out->x) break;
  }
  if (!ac || !bs || !out->x || out->neighbours != by_neighbours) return false;
  for (int k = 0; k < 2; k++) {
    const ir_node *bc = pattern_made_by(sum->inputs[k], OP_Mul), *as = pattern_made_by(sum->inputs[1 - k], OP_Mul);
    if (factors(bc, as, b, a, &other_cosines, &other_sines) && other_cosines == out->cosines &&
        other_sines == out->sines)
      return true;
  }
  return false;
}

/* ---- caches ---- */

static ir_value *make(const turning *t, op_id op, ir_value *const *inputs, int32_t n) {
  ir_node *made = ir_node_new(t->last->graph, t->last, op_builtin(op), NULL, inputs, n, NULL, 1);
  return made ? made->outputs[0] : NULL;
}

/* True if `extent` broadcasts to the places of x: as many, or the places of the last of some tokens, which may be 1
 * (symbols_last). */
static bool spans_places(const turning *t, reed_dim extent, reed_dim places) {
  return same(t, extent, places) || (symbol_is(extent) && symbols_broadcast(t->m->symbols, extent, places) == places);
}

/* True when c, broadcast to x, varies by batch (or not), place and element only. places: the axis of x. */
static bool is_cache(const turning *t, const ir_value *c, const ir_value *x, int32_t places, reed_dim columns) {
  int32_t rank = c->type.rank;
  if (rank < 2 || rank > 4 || c->type.dtype != x->type.dtype || !same(t, last_dim(c), columns)) return false;
  for (int32_t axis = 0; axis < 3; axis++) {
    int32_t i = axis - (4 - rank);
    reed_dim extent = i < 0 ? 1 : c->type.dims[i];
    bool ok = axis == places ? i >= 0 && spans_places(t, extent, x->type.dims[axis])
              : axis == 0    ? extent == 1 || same(t, extent, x->type.dims[0])
                             : extent == 1;
    if (!ok) return false;
  }
  return true;
}

/* c as [batch or 1, places, columns]; NULL: no memory. */
static ir_value *as_cache(const turning *t, ir_value *c, int32_t places) {
  int32_t rank = c->type.rank, heads = places == 2 ? 1 : 2;
  int64_t axis;
  if (rank == 4) axis = heads;
  else if (rank == 3 && places == 1) axis = 1; /* [places, 1, columns] */
  else axis = 0;
  if (rank == 3 && places == 2) return c; /* [1, places, columns] */
  ir_value *source = rank == 4 ? pattern_viewed(c) : NULL;
  if (source && source->type.rank == 3 && pattern_made_by(c, OP_Unsqueeze) &&
      same(t, source->type.dims[1], c->type.dims[places]) && same(t, source->type.dims[0], c->type.dims[0]))
    return source;
  if (rank == 3) { /* [places, 1, columns] -> [places, columns] -> [1, places, columns] */
    ir_value *inputs[] = {c, ir_constant_i64(t->m, &axis, 1, NULL)};
    c = inputs[1] ? make(t, OP_Squeeze, inputs, 2) : NULL;
    axis = 0;
  }
  ir_value *inputs[] = {c, ir_constant_i64(t->m, &axis, 1, NULL)};
  return c && inputs[1] ? make(t, rank == 4 ? OP_Squeeze : OP_Unsqueeze, inputs, 2) : NULL;
}

/* A value with the extent of x's `axis`, and the axis of that extent: an input of the model if there is one, so that
 * all layers share the nodes made of it. */
static ir_value *first_with_extent(const turning *t, ir_value *x, int32_t *axis) {
  const ir_graph *g = t->last->graph;
  reed_dim extent = x->type.dims[*axis];
  for (int32_t i = 0; g == t->m->main && i < g->n_params; i++)
    for (int32_t k = 0; k < g->params[i]->type.rank; k++)
      if (symbols_equal(t->m->symbols, g->params[i]->type.dims[k], extent)) return *axis = k, g->params[i];
  return x;
}

/* c, [batch or 1, places, columns], with an extent along the places that is x's at `axis`; NULL: no memory. */
static ir_value *widened(const turning *t, ir_value *c, ir_value *x, int32_t axis) {
  static const int64_t one = 1;
  if (!c || same(t, c->type.dims[1], x->type.dims[axis])) return c;
  x = first_with_extent(t, x, &axis);
  ir_value *n = make(t, OP_Shape, &x, 1), *ones = ir_constant_i64(t->m, &one, 1, NULL);
  if (!n || !ones || !ir_set_attr_int(n->producer, "start", axis) || !ir_set_attr_int(n->producer, "end", axis + 1))
    return NULL;
  ir_value *dims[] = {ones, n, ones}, *inputs[] = {c, make(t, OP_Concat, dims, 3)};
  return inputs[1] && ir_set_attr_int(inputs[1]->producer, "axis", 0) ? make(t, OP_Expand, inputs, 2) : NULL;
}

/* ---- the pass ---- */

/* Replaces v, made by t->last, by the turned x; `whole`: the tensor of which x is the front, or x. */
static reed_status replace(turning *t, ir_value *v, const turn *found, ir_value *whole) {
  ir_value *x = found->x;
  if (x->type.rank != 4 || whole->type.rank != 4 || !ir_same_type(t->m, whole, v)) return REED_OK;
  reed_dim size = last_dim(x), all = last_dim(whole), columns = last_dim(found->cosines);
  if (symbol_is(size) || symbol_is(all) || symbol_is(columns) || (columns != size && columns * 2 != size))
    return REED_OK;
  int32_t places = is_cache(t, found->cosines, x, 2, columns) && is_cache(t, found->sines, x, 2, columns)   ? 2
                   : is_cache(t, found->cosines, x, 1, columns) && is_cache(t, found->sines, x, 1, columns) ? 1
                                                                                                            : 0;
  reed_dim heads = x->type.dims[places == 2 ? 1 : 2];
  if (!places || (places == 1 && symbol_is(heads))) return REED_OK;
  static const int64_t flat[] = {0, 0, -1};
  int64_t split[] = {0, 0, heads, all};
  ir_value *inputs[] = {whole, as_cache(t, found->cosines, places), as_cache(t, found->sines, places)};
  for (int i = 1; i < 3; i++) inputs[i] = widened(t, inputs[i], x, places);
  if (places == 1) {
    ir_value *reshape[] = {whole, ir_constant_i64(t->m, flat, 3, NULL)};
    inputs[0] = reshape[1] ? make(t, OP_Reshape, reshape, 2) : NULL;
  }
  bool ok = inputs[0] && inputs[1] && inputs[2];
  ir_node *n = ok ? ir_node_new(t->last->graph, t->last, op_builtin(OP_RotaryEmbedding), t->last->name, inputs, 3,
                                places == 1 ? NULL : &v, 1)
                  : NULL;
  ok = n && ir_set_attr_int(n, "interleaved", found->neighbours) &&
       ir_set_attr_int(n, "rotary_embedding_dim", size == all ? 0 : size);
  if (ok && places == 1) {
    ir_value *reshape[] = {n->outputs[0], ir_constant_i64(t->m, split, 4, NULL)};
    ok = ir_set_attr_int(n, "num_heads", heads) && reshape[1] &&
         ir_node_new(t->last->graph, t->last, op_builtin(OP_Reshape), NULL, reshape, 2, &v, 1);
  }
  if (!ok) return diag_no_memory(t->m->diagnosis, "a rotary embedding");
  t->last->dead = true;
  t->n_turned++;
  t->n_partial += size != all;
  return REED_OK;
}

static bool match(const turning *t, const ir_value *v, turn *out) {
  return match_sum(t, v, out) || match_parts(t, v, out);
}

/* Concat of a turned front and the rest of one tensor. */
static bool match_front(const turning *t, const ir_node *n, turn *out, ir_value **out_whole) {
  part front, rest;
  reed_attrs attrs = ir_attrs(n);
  if (n->op != op_builtin(OP_Concat) || n->n_inputs != 2 ||
      !is_last_axis(op_attr_int(&attrs, "axis"), n->outputs[0]->type.rank) || !match(t, n->inputs[0], out))
    return false;
  if (!part_of(t, out->x, &front) || !part_of(t, n->inputs[1], &rest) || front.x != rest.x) return false;
  *out_whole = front.x;
  return front.first == 0 && front.step == 1 && rest.step == 1 && rest.first == front.count &&
         front.count + rest.count == last_dim(front.x);
}

static reed_status visit(void *context, ir_node *n) {
  turning *t = context;
  turn found = {0};
  ir_value *whole;
  t->last = n;
  if (match(t, n->outputs[0], &found)) return replace(t, n->outputs[0], &found, found.x);
  if (match_front(t, n, &found, &whole)) return replace(t, n->outputs[0], &found, whole);
  return REED_OK;
}

static reed_status collect(void *context, ir_node *n) {
  turning *t = context;
  bool last = n->op == op_builtin(OP_Add) || n->op == op_builtin(OP_Concat) || n->op == op_builtin(OP_Reshape);
  return !last || VEC_PUSH(&t->nodes, n) ? REED_OK : diag_no_memory(t->m->diagnosis, "a rotary embedding");
}

/* Visits nodes from the last one back, so that a turned front is met with its rest. */
reed_status pass_rotary(ir_module *m, pass_report *report) {
  turning t = {.m = m};
  reed_status status = ir_walk(m->main, true, collect, &t);
  if (status == REED_OK) status = pass_try_back(m, t.nodes.items, t.nodes.n, visit, &t, &t.n_turned);
  VEC_FREE(&t.nodes);
  ir_sweep(m);
  *report = (pass_report){
      .counts = {{"rotary embeddings recognised", t.n_turned}, {"of them of a part of each head", t.n_partial}}};
  return status;
}
