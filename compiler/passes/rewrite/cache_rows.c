/* Rows that are written one behind another, from a place on that is known only in the run, into the cache of a decoder
 * with a fixed capacity, as exporters write it for index_copy, index_put and a slice that is assigned:
 *
 *   ScatterND(Transpose(cache), [place, place + 1, ...], rows)
 *
 *   ScatterElements(cache, the same places for all elements of a row, rows)
 *
 * become TensorScatter (ONNX opset 24), which writes such a cache in place (docs/tensors.md). ScatterND's Transpose
 * moves the axis of the rows to the front. */
#include "base/diag.h"
#include "compiler/ir/attempt.h"
#include "compiler/ir/nonnegative.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/positions.h"

typedef struct search {
  ir_module *m;
  ir_node *at; /* the node visited: new nodes go in front of it */
  int64_t n_found;
} search;

/* A stretch of rows: `rows` has the extents of `cache` but along the axis. */
typedef struct stretch {
  ir_value *cache, *rows, *first; /* first: the place of the first row, one element */
  int32_t axis;
} stretch;

static ir_value *input(const ir_node *n, int32_t i) { return i < n->n_inputs ? ir_resolve(n->inputs[i]) : NULL; }

static bool same(const search *s, reed_dim a, reed_dim b) { return symbols_assume_equal(s->m->symbols, a, b); }

static bool is_one(const ir_value *v) {
  for (int32_t i = 0; i < v->type.rank; i++)
    if (v->type.dims[i] != 1) return false;
  return v->type.rank >= 0;
}

static ir_value *root(ir_value *v) {
  for (ir_value *source; (source = pattern_viewed(v)); v = ir_resolve(source)) continue;
  return v;
}

/* The first of places that ascend one by one; NULL: they are not known to. */
static ir_value *first_place(const search *s, ir_value *places) {
  ir_value *v = root(places);
  if (is_one(v)) return v;
  const ir_node *range = pattern_made_by(v, OP_Range), *sum = pattern_made_by(v, OP_Add);
  double step;
  if (range && ir_is_constant(input(range, 2)) && pattern_number(input(range, 2), &step) && step == 1)
    return input(range, 0);
  for (int32_t k = 0; sum && k < 2; k++) {
    reed_dim first;
    ir_value *one = input(sum, k);
    if (is_one(one) && position_ramp_of(s->m, root(input(sum, 1 - k)), &first) && first == 0) return one;
  }
  return NULL;
}

/* True if there is a place for each row. The scatters refuse another number, so one that only the run knows is right.
 */
static bool is_each(const search *s, reed_dim places, reed_dim rows) {
  return symbol_is(places) || same(s, places, rows);
}

static bool is_plain(const ir_node *n) {
  const reed_attrs attrs = ir_attrs(n);
  return op_attr_word(n->op, &attrs, "reduction") == 0; /* "none" */
}

/* ---- new nodes ---- */

static ir_value *make(const search *s, op_id op, ir_value *const *inputs, int32_t n, ir_type type) {
  ir_node *made = ir_node_new(s->at->graph, s->at, op_builtin(op), NULL, inputs, n, NULL, 1);
  if (!made) return NULL;
  made->outputs[0]->type = type;
  return made->outputs[0];
}

static ir_value *extent_of(const search *s, ir_value *v, int64_t axis) {
  ir_value *made = make(s, OP_Shape, &v, 1, (ir_type){.dtype = REED_I64, .rank = 1, .dims = {1}});
  bool ok = made && ir_set_attr_int(made->producer, "start", axis) && ir_set_attr_int(made->producer, "end", axis + 1);
  return ok ? made : NULL;
}

static ir_value *turned(const search *s, ir_value *v, const int64_t *perm) {
  ir_type type = v->type;
  for (int32_t i = 0; i < type.rank; i++) type.dims[i] = v->type.dims[perm[i]];
  ir_value *made = make(s, OP_Transpose, &v, 1, type);
  return made && ir_set_attr_ints(made->producer, "perm", perm, type.rank) ? made : NULL;
}

/* The first place as i64[batch]. The scatters count negative places from the end, TensorScatter does not. */
static ir_value *write_indices(const search *s, const stretch *found) {
  const ir_type one = {.dtype = REED_I64, .rank = 1, .dims = {1}}, batch = {REED_I64, 1, {found->cache->type.dims[0]}},
                truth = {.dtype = REED_BOOL, .rank = 1, .dims = {1}};
  static const int64_t one_number = 1, zero_number = 0;
  ir_value *list = ir_constant_i64(s->m, &one_number, 1, NULL), *place = found->first;
  if (list && place->type.dtype != REED_I64) {
    ir_type wide = place->type;
    wide.dtype = REED_I64;
    place = make(s, OP_Cast, &place, 1, wide);
    if (!place || !ir_set_attr_int(place->producer, "to", REED_I64)) return NULL;
  }
  place = list ? make(s, OP_Reshape, (ir_value *[]){place, list}, 2, one) : NULL;
  if (place && !nonnegative_proven(s->m, found->first)) {
    ir_value *zero = ir_constant_i64(s->m, &zero_number, 1, NULL), *rows = extent_of(s, found->cache, found->axis);
    ir_value *less = zero ? make(s, OP_Less, (ir_value *[]){place, zero}, 2, truth) : NULL,
             *sum = rows ? make(s, OP_Add, (ir_value *[]){place, rows}, 2, one) : NULL;
    place = less && sum ? make(s, OP_Where, (ir_value *[]){less, sum, place}, 3, one) : NULL;
  }
  ir_value *wanted = place ? extent_of(s, found->cache, 0) : NULL;
  return wanted ? make(s, OP_Expand, (ir_value *[]){place, wanted}, 2, batch) : NULL;
}

/* The cache with the rows. NULL: no memory. */
static ir_value *scattered(const search *s, const stretch *found) {
  ir_value *indices = write_indices(s, found);
  ir_value *made =
      indices ? make(s, OP_TensorScatter, (ir_value *[]){found->cache, found->rows, indices}, 3, found->cache->type)
              : NULL;
  return made && ir_set_attr_int(made->producer, "axis", found->axis) ? made : NULL;
}

/* ---- the pass ---- */

static reed_status replace(search *s, ir_node *n, ir_value *by) {
  if (!by) return diag_no_memory(s->m->diagnosis, "rows of a cache");
  ir_forward(n->outputs[0], by);
  n->dead = true;
  s->n_found++;
  return REED_OK;
}

static reed_status scatter_nd(search *s, ir_node *n) {
  ir_value *data = input(n, 0), *places = input(n, 1), *rows = input(n, 2);
  const ir_node *turn = pattern_made_by(data, OP_Transpose);
  const int32_t rank = data->type.rank;
  if (!turn || rank < 2 || places->type.rank != 2 || places->type.dims[1] != 1 || rows->type.rank != rank)
    return REED_OK;
  const reed_attrs attrs = ir_attrs(turn);
  int64_t n_perm, back[REED_MAX_RANK];
  const int64_t *perm = reed_attrs_ints(&attrs, "perm", &n_perm);
  if (!perm || n_perm != rank || perm[0] == 0 || !is_each(s, places->type.dims[0], rows->type.dims[0])) return REED_OK;
  stretch found = {.cache = input(turn, 0), .first = first_place(s, places), .axis = (int32_t)perm[0]};
  if (!found.first) return REED_OK;
  for (int32_t i = 0; i < rank; i++) back[perm[i]] = i;
  found.rows = turned(s, rows, back);
  ir_value *made = found.rows ? scattered(s, &found) : NULL;
  return replace(s, n, made ? turned(s, made, perm) : NULL);
}

static reed_status scatter_elements(search *s, ir_node *n) {
  ir_value *cache = input(n, 0), *places = input(n, 1), *rows = input(n, 2);
  const reed_attrs attrs = ir_attrs(n);
  const int32_t rank = cache->type.rank;
  int64_t axis = op_attr_int(&attrs, "axis");
  if (axis < 0) axis += rank;
  const ir_node *repeat = pattern_made_by(places, OP_Expand);
  ir_value *narrow = repeat ? input(repeat, 0) : places;
  if (rank < 2 || axis <= 0 || axis >= rank || rows->type.rank != rank || narrow->type.rank < 0) return REED_OK;
  for (int32_t i = 0; i < rank; i++) {
    const int32_t k = narrow->type.rank - rank + i; /* of the places, which may have fewer axes */
    const reed_dim extent = k < 0 ? 1 : narrow->type.dims[k];
    if (i == axis ? !is_each(s, extent, rows->type.dims[i]) : extent != 1) return REED_OK;
    if (i != axis && !same(s, rows->type.dims[i], cache->type.dims[i])) return REED_OK;
  }
  const stretch found = {cache, rows, first_place(s, narrow), (int32_t)axis};
  return found.first ? replace(s, n, scattered(s, &found)) : REED_OK;
}

static reed_status visit(void *context, ir_node *n) {
  search *s = context;
  s->at = n;
  if (n->op == op_builtin(OP_ScatterND) && is_plain(n)) return scatter_nd(s, n);
  if (n->op == op_builtin(OP_ScatterElements) && is_plain(n)) return scatter_elements(s, n);
  return REED_OK;
}

reed_status pass_cache_rows(ir_module *m, pass_report *report) {
  search s = {.m = m};
  reed_status status = pass_try_each(m, visit, &s, &s.n_found);
  ir_settle(m);
  *report = (pass_report){.counts = {{"stretches of rows written into caches", s.n_found}}};
  return status;
}
