/* Layout: Transposes move behind the element-wise operators that read them, so that they meet and cancel (simplify does that) and no longer stand between
 * a convolution or matrix product and what fuses with it.
 *
 * An operator is turned around when all its inputs come from Transposes of one permutation that nobody else reads, or are single elements. */
#include <string.h>

#include "compiler/pass.h"

typedef struct turning {
  ir_module *m;
  int64_t n_moved;
} turning;

static bool is_element_wise(const reed_op *op) {
  static const op_id families[] = {OP_Relu, OP_Add, OP_Where, OP_Clip, OP_Cast}; /* one operator of every element-wise shape function */
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    if (op->shape == op_builtin(families[i])->shape) return true;
  return false;
}

static bool is_single_element(const ir_value *v) {
  for (int32_t i = 0; i < v->type.rank; i++)
    if (v->type.dims[i] != 1) return false;
  return v->type.rank >= 0;
}

/* The permutation of the Transpose that makes v for this one reader; false: none. */
static bool permutation_of(const ir_value *v, int32_t rank, int64_t *out_perm) {
  const ir_node *t = v->producer;
  if (!t || t->dead || t->op != op_builtin(OP_Transpose) || v->n_uses != 1 || v->type.rank != rank) return false;
  reed_attrs attrs = ir_attrs(t);
  int64_t n;
  const int64_t *perm = reed_attrs_ints(&attrs, "perm", &n);
  if (perm && n != rank) return false;
  for (int32_t i = 0; i < rank; i++) out_perm[i] = perm ? perm[i] : rank - 1 - i;
  return true;
}

/* One permutation for all inputs of n that have more than one element. */
static bool common_permutation(const ir_node *n, int64_t *out_perm) {
  int32_t rank = n->outputs[0]->type.rank;
  bool found = false;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    const ir_value *v = n->inputs[i];
    int64_t perm[REED_MAX_RANK];
    if (!v || (is_single_element(v) && v->type.rank <= rank)) continue;
    if (!permutation_of(v, rank, perm)) return false;
    if (found && memcmp(perm, out_perm, sizeof *perm * (size_t)rank) != 0) return false;
    memcpy(out_perm, perm, sizeof *perm * (size_t)rank);
    found = true;
  }
  return found;
}

/* n(transpose(a), transpose(b)) becomes transpose(n(a, b)): a new node before n computes, n turns into the Transpose and keeps its output. */
static reed_status turn_around(turning *t, ir_node *n) {
  ir_value *out = n->outputs[0];
  int32_t rank = out->type.rank;
  int64_t perm[REED_MAX_RANK];
  if (rank < 1 || !common_permutation(n, perm)) return REED_OK;
  const char *transpose_name = NULL;
  ir_node *moved = ir_node_new(n->graph, n, n->op, n->name, n->inputs, n->n_inputs, NULL, 1);
  if (!moved) return diag_no_memory(t->m->diagnosis, "layout");
  for (int32_t i = 0; i < moved->n_inputs; i++) {
    ir_value *v = moved->inputs[i];
    if (!v || (is_single_element(v) && v->type.rank <= rank)) continue;
    transpose_name = v->producer->name;
    moved->inputs[i] = v->producer->inputs[0];
    v->producer->dead = true; /* n was its one reader */
  }
  moved->attrs = n->attrs;
  moved->n_attrs = n->n_attrs;
  ir_value *made = moved->outputs[0];
  made->type = out->type;
  for (int32_t i = 0; i < rank; i++) made->type.dims[perm[i]] = out->type.dims[i];
  made->n_uses = 1;
  n->op = op_builtin(OP_Transpose);
  n->name = transpose_name;
  n->inputs[0] = made;
  n->n_inputs = 1;
  n->attrs = NULL;
  n->n_attrs = 0;
  t->n_moved++;
  return ir_set_attr_ints(n, "perm", perm, rank) ? REED_OK : diag_no_memory(t->m->diagnosis, "layout");
}

static reed_status turn_graph(turning *t, ir_graph *g) {
  for (size_t i = 0; i < g->nodes.n; i++) {
    ir_node *n = g->nodes.items[i];
    if (n->dead) continue;
    for (int32_t k = 0; k < n->n_regions; k++) {
      reed_status status = turn_graph(t, n->regions[k]);
      if (status != REED_OK) return status;
    }
    if (n->n_outputs != 1 || !n->outputs[0] || !is_element_wise(n->op)) continue;
    size_t before = g->nodes.n;
    reed_status status = turn_around(t, n);
    if (status != REED_OK) return status;
    i += g->nodes.n - before; /* n stands one further */
  }
  return REED_OK;
}

reed_status pass_layout(ir_module *m, pass_report *report) {
  turning t = {.m = m};
  ir_count_uses(m);
  reed_status status = turn_graph(&t, m->main);
  ir_sweep(m);
  report->counts[0] = (struct pass_count){"Transposes moved behind element-wise operators", t.n_moved};
  return status;
}
