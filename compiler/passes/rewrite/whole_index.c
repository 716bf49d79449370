/* A matrix of which all elements are gathered in their order. An exporter writes x[i, j] with tensors of indices as one
 * Gather of the flattened x by i * columns + j. If i counts all rows and j all columns, as in the mask of padding that
 * transformers expands to [batch, 1, 1, keys],
 *
 *   Gather(Flatten(x), Unsqueeze(Range(0, rows, 1)) * columns + Unsqueeze(Range(0, columns, 1)))
 *
 * is x with axes of extent 1, an Unsqueeze, which is a view: no index is computed, and nothing is gathered. A Shape of
 * the indices reads the view instead. */
#include "base/diag.h"
#include "compiler/ir/attempt.h"
#include "compiler/ir/integer_values.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

enum { ROWS, COLUMNS, WIDTH, N_SLOTS };

#define COUNTS(which) P_AS(which, P_ROOT(P_OP(Range, P_NUMBER(0), P_ANY, P_NUMBER(1))))
static const pattern *const places = P_PAIR(Add, COUNTS(COLUMNS), P_PAIR(Mul, COUNTS(ROWS), P_AS(WIDTH, P_ANY)));

typedef struct reading {
  ir_module *m;
  VEC_OF(ir_node *) shapes; /* all Shapes */
  int32_t n_nodes;          /* a node's id is its place in the walk */
  int64_t n_whole;
} reading;

/* The axis of a tensor of that rank along which v, broadcast to the tensor, is longer than 1; -1: there is not one. */
static int32_t long_axis(const ir_value *v, int32_t rank) {
  int32_t found = -1;
  for (int32_t i = 0; i < v->type.rank; i++) {
    if (v->type.dims[i] == 1) continue;
    if (found >= 0) return -1;
    found = rank - v->type.rank + i;
  }
  return v->type.rank <= rank ? found : -1;
}

/* True if v counts as many places as that. */
static bool counts_all(const reading *r, const ir_value *v, int32_t rank, int32_t axis, reed_dim extent) {
  return symbols_assume_equal(r->m->symbols, v->type.dims[axis - (rank - v->type.rank)], extent);
}

/* The matrix that `data` is, with all elements along axis 0; NULL: it is none. */
static ir_value *flattened(const ir_value *data) {
  ir_value *x = pattern_viewed(data);
  for (int32_t i = 1; i < data->type.rank; i++)
    if (data->type.dims[i] != 1) return NULL;
  return x && data->type.rank >= 1 && x->type.rank == 2 ? x : NULL;
}

/* v with axes of extent 1, so that its rank is `rank`: all axes but these two, or those behind v's. `to` NULL: a new
 * value. NULL: no memory. */
static ir_value *unsqueezed(const reading *r, ir_node *before, ir_value *v, int32_t row, int32_t column, int32_t rank,
                            ir_value *to) {
  int64_t axes[REED_MAX_RANK], n_axes = 0;
  ir_type type = v->type;
  for (int32_t i = row < 0 ? v->type.rank : 0; i < rank; i++)
    if (i != row && i != column) axes[n_axes++] = i;
  for (int64_t i = 0; i < n_axes; i++) {
    for (int32_t k = type.rank++; k > axes[i]; k--) type.dims[k] = type.dims[k - 1];
    type.dims[axes[i]] = 1;
  }
  ir_value *inputs[] = {v, ir_constant_i64(r->m, axes, n_axes, NULL)};
  ir_node *n = inputs[1]
                   ? ir_node_new(before->graph, before, op_builtin(OP_Unsqueeze), NULL, inputs, 2, to ? &to : NULL, 1)
                   : NULL;
  if (n && !to) n->outputs[0]->type = type;
  return n ? n->outputs[0] : NULL;
}

static bool is_behind(const ir_node *n, const ir_node *place) { return n->graph == place->graph && n->id > place->id; }

static reed_status visit(void *context, ir_node *n) {
  reading *r = context;
  ir_value *slots[N_SLOTS];
  if (n->op != op_builtin(OP_Gather)) return REED_OK;
  ir_value *x = flattened(n->inputs[0]), *index = n->inputs[1], *result = n->outputs[0];
  const reed_attrs attrs = ir_attrs(n);
  const int32_t rank = index->type.rank;
  if (!x || rank < 2 || op_attr_int(&attrs, "axis") != 0 || !pattern_match(places, index, slots, N_SLOTS))
    return REED_OK;
  const int32_t row = long_axis(slots[ROWS], rank), column = long_axis(slots[COLUMNS], rank);
  int64_t n_widths;
  const reed_dim *width = integer_values_of(r->m, slots[WIDTH], false, &n_widths);
  if (row < 0 || row >= column || !width || n_widths != 1 || result->type.rank < rank) return REED_OK;
  if (!symbols_assume_equal(r->m->symbols, width[0], x->type.dims[1]) ||
      !counts_all(r, slots[ROWS], rank, row, x->type.dims[0]) ||
      !counts_all(r, slots[COLUMNS], rank, column, x->type.dims[1]))
    return REED_OK;
  ir_value *whole = unsqueezed(r, n, x, row, column, rank, NULL);
  if (!whole || !unsqueezed(r, n, whole, -1, -1, result->type.rank, result))
    return diag_no_memory(r->m->diagnosis, "a matrix that is gathered whole");
  for (size_t i = 0; i < r->shapes.n; i++)
    if (r->shapes.items[i]->inputs[0] == index && is_behind(r->shapes.items[i], n))
      r->shapes.items[i]->inputs[0] = whole;
  n->dead = true;
  r->n_whole++;
  return REED_OK;
}

static reed_status collect(void *context, ir_node *n) {
  reading *r = context;
  n->id = r->n_nodes++;
  bool kept = n->op != op_builtin(OP_Shape) || VEC_PUSH(&r->shapes, n);
  return kept ? REED_OK : diag_no_memory(r->m->diagnosis, "a matrix that is gathered whole");
}

reed_status pass_whole_index(ir_module *m, pass_report *report) {
  reading r = {.m = m};
  reed_status status = ir_walk(m->main, true, collect, &r);
  if (status == REED_OK) status = pass_try_each(m, visit, &r, &r.n_whole);
  VEC_FREE(&r.shapes);
  ir_sweep(m);
  *report = (pass_report){.counts = {{"matrices read whole", r.n_whole}}};
  return status;
}
