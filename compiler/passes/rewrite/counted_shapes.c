/* Shapes read from tensors whose number of rows only a kernel knows. An exporter writes "as many zeros as there are
 * boxes" as Shape, shape arithmetic and ConstantOfShape, which needs the count on the host. With --counts device such
 * an operator takes the extents from the tensor itself, so that it runs at the bound (docs/epochs.md, "Extent and
 * capacity"). If counts are fetched, vectors do so too, which saves each new count the host kernels of the shape
 * arithmetic; a tensor of more axes does not, because the new operator reads another tensor as large:
 *
 *   ConstantOfShape, Expand  become Where(true, elements, a tensor of these extents)
 *
 * A Reshape has got a constant shape by then, if its extents follow from its input's (simplify). The extents are proven
 * equal; no declared name is believed. */
#include <string.h>

#include "base/diag.h"
#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"

enum { LOOKED_AT = 64 }; /* nodes of the shape arithmetic before an operand */

typedef struct search {
  ir_module *m;
  int64_t n_changed;
} search;

/* ---- values that depend on a count ----
 * ir_value.id is 1 for these. */

static reed_status clear(void *context, ir_node *n) {
  (void)context;
  for (int32_t i = 0; i < n->n_outputs; i++)
    if (n->outputs[i]) n->outputs[i]->id = 0;
  for (int32_t k = 0; k < n->n_regions; k++)
    for (int32_t i = 0; i < n->regions[k]->n_params; i++) n->regions[k]->params[i]->id = 0;
  return REED_OK;
}

static bool depends(const ir_value *v) { return v && !ir_is_constant(v) && v->id == 1; }

static void spread(const ir_node *n) {
  bool any = false;
  for (int32_t i = 0; i < n->n_outputs; i++) any |= n->outputs[i] && n->outputs[i]->bounded;
  for (int32_t i = 0; i < n->n_inputs; i++) any |= depends(n->inputs[i]);
  for (int32_t i = 0; i < n->n_outputs; i++)
    if (n->outputs[i]) n->outputs[i]->id = any;
}

/* ---- the tensor whose extents a shape has ---- */

static bool same_dims(const ir_module *m, const ir_type *a, const ir_type *b) {
  if (a->rank < 0 || a->rank != b->rank) return false;
  for (int32_t i = 0; i < a->rank; i++)
    if (!symbols_equal(m->symbols, a->dims[i], b->dims[i])) return false;
  return true;
}

/* A tensor of that type's extents among those whose Shape the shape arithmetic before v reads; NULL: none. */
static ir_value *tensor_like(const ir_module *m, const ir_value *v, const ir_type *type, int32_t *left) {
  const ir_node *n = v && !ir_is_constant(v) ? v->producer : NULL;
  if (!n || !depends(v) || --*left < 0) return NULL;
  if (n->op == op_builtin(OP_Shape))
    return depends(n->inputs[0]) && same_dims(m, &n->inputs[0]->type, type) ? n->inputs[0] : NULL;
  if (v->type.rank > 1) return NULL; /* no shape arithmetic */
  for (int32_t i = 0; i < n->n_inputs; i++) {
    ir_value *found = tensor_like(m, n->inputs[i], type, left);
    if (found) return found;
  }
  return NULL;
}

/* ---- changes ---- */

/* `elements` broadcast to the extents of `like`, in place of n's output. False: no memory. */
static bool broadcast(search *s, ir_node *n, ir_value *elements, ir_value *like) {
  const bool yes = true;
  const reed_desc one = {.dtype = REED_BOOL};
  const reed_dtype dtype = n->outputs[0]->type.dtype;
  ir_value *taken = ir_constant(s->m, &one, &yes, false, NULL);
  if (!taken) return false;
  if (like->type.dtype != dtype) {
    ir_node *cast = ir_node_new(n->graph, n, op_builtin(OP_Cast), NULL, &like, 1, NULL, 1);
    if (!cast || !ir_set_attr_int(cast, "to", dtype)) return false;
    cast->outputs[0]->type = like->type;
    cast->outputs[0]->type.dtype = dtype;
    cast->outputs[0]->id = 1;
    like = cast->outputs[0];
  }
  ir_value *inputs[] = {taken, elements, like};
  ir_node *where = ir_node_new(n->graph, n, op_builtin(OP_Where), n->name, inputs, 3, NULL, 1);
  if (!where) return false;
  where->outputs[0]->type = n->outputs[0]->type;
  where->outputs[0]->id = 1;
  ir_forward(n->outputs[0], where->outputs[0]);
  n->dead = true;
  s->n_changed++;
  return true;
}

static ir_value *filling(const search *s, const ir_node *n) {
  const reed_attrs attrs = ir_attrs(n);
  const reed_attr *given = reed_attrs_find(&attrs, "value");
  const reed_desc scalar = {.dtype = given ? given->desc.dtype : REED_F32};
  const uint64_t zero = 0;
  return ir_constant(s->m, &scalar, given ? given->data : &zero, false, NULL);
}

static reed_status visit(void *context, ir_node *n) {
  search *s = context;
  for (int32_t i = 0; i < n->n_inputs; i++) n->inputs[i] = ir_resolve(n->inputs[i]);
  spread(n);
  const op_id id = op_id_of(n->op);
  const int32_t shape = id == OP_ConstantOfShape ? 0 : id == OP_Expand ? 1 : -1;
  if (shape < 0 || !n->outputs[0] || !depends(n->inputs[shape])) return REED_OK;
  if (!s->m->counts_on_device && n->outputs[0]->type.rank != 1) return REED_OK;
  int32_t left = LOOKED_AT;
  ir_value *like = tensor_like(s->m, n->inputs[shape], &n->outputs[0]->type, &left);
  ir_value *elements = !like ? NULL : id == OP_Expand ? n->inputs[0] : filling(s, n);
  const bool ok = !like || (elements && broadcast(s, n, elements, like));
  return ok ? REED_OK : diag_no_memory(s->m->diagnosis, "shapes of counted tensors");
}

reed_status pass_counted_shapes(ir_module *m, pass_report *report) {
  search s = {.m = m};
  for (int32_t i = 0; i < m->main->n_params; i++) m->main->params[i]->id = 0;
  reed_status status = ir_walk(m->main, true, clear, NULL);
  if (status == REED_OK) status = ir_walk(m->main, true, visit, &s);
  ir_settle(m);
  *report = (pass_report){.counts = {{"shapes taken from counted tensors", s.n_changed}}};
  return status;
}
