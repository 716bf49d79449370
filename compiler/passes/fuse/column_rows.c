/* Rows of FusedColumns that are chosen afterwards (column_rows.h). A detector decodes the boxes of all places of all
 * maps and then takes the best thousand of each map: some 5,000 boxes of 200,000. */
#include "compiler/passes/fuse/column_rows.h"

#include <string.h>

#include "compiler/passes/fuse/column_values.h"

#define CHOICE_DEPTH 12 /* operators between a choice and the numbers of its rows */

/* True if v has the numbers of rows that an operator chose, each at most once, so that they are no more than the rows.
 */
static bool is_choice(const ir_value *v, int32_t depth) {
  const ir_node *n = v ? v->producer : NULL;
  if (!n || depth == 0) return false;
  switch (op_id_of(n->op)) {
    case OP_NonMaxSuppression:
    case OP_NonZero: return true;
    case OP_TopK: return v->producer_output == 1;
    case OP_Add:
    case OP_Sub: return is_choice(n->inputs[0], depth - 1) || is_choice(n->inputs[1], depth - 1);
    case OP_Concat:
      for (int32_t k = 0; k < n->n_inputs; k++)
        if (!is_choice(n->inputs[k], depth - 1)) return false;
      return true;
    case OP_Cast:
    case OP_Gather:
    case OP_Slice:
    case OP_Split:
    case OP_Transpose: return is_choice(n->inputs[0], depth - 1);
    default: return column_is_view(n) && is_choice(n->inputs[0], depth - 1);
  }
}

/* The Gather that is the only user of `made`, behind views [n, c] that have one user each. */
static ir_node *only_gather(ir_graph *g, const ir_node *made) {
  const ir_value *v = made->outputs[0];
  for (size_t i = 0; i < g->nodes.n; i++) {
    ir_node *n = g->nodes.items[i];
    if (n->dead || !n->n_inputs || n->inputs[0] != v || v->n_uses != 1) continue;
    if (n->op == op_builtin(OP_Gather)) return n;
    if (!column_is_view(n)) return NULL;
    v = n->outputs[0];
  }
  return NULL;
}

/* True if the Gather takes rows of a matrix with the extents of `type`. */
static bool takes_rows(const ir_module *m, const ir_node *gather, const ir_type *type) {
  const ir_type *data = &gather->inputs[0]->type, *numbers = &gather->inputs[1]->type;
  const reed_attrs attrs = ir_attrs(gather);
  const int64_t axis = op_attr_int(&attrs, "axis");
  return data->rank == 2 && (axis == 0 || axis == -2) && numbers->rank >= 1 && numbers->rank < REED_MAX_RANK &&
         !ir_is_constant(gather->inputs[1]) && symbols_equal(m->symbols, data->dims[0], type->dims[0]) &&
         data->dims[1] == type->dims[1] && is_choice(gather->inputs[1], CHOICE_DEPTH);
}

/* True for an input [n, width]; *out_fits false: it is neither this nor the same for all rows. */
static bool has_rows(const ir_module *m, const ir_value *v, reed_dim rows, bool *out_fits) {
  const bool one = v->type.rank < 2 || (v->type.rank == 2 && v->type.dims[0] == 1);
  const bool all = v->type.rank == 2 && !one && symbols_equal(m->symbols, v->type.dims[0], rows);
  *out_fits = one || all;
  return all;
}

static reed_status choose(ir_module *m, ir_node *made, ir_node *gather) {
  ir_value *numbers = gather->inputs[1], *result = gather->outputs[0];
  const reed_dim rows = made->outputs[0]->type.dims[0];
  for (int32_t k = 0; k < made->n_inputs; k++) {
    bool fits;
    ir_value *v = made->inputs[k];
    if (!has_rows(m, v, rows, &fits)) continue;
    ir_node *chosen =
        ir_node_new(gather->graph, gather, op_builtin(OP_Gather), NULL, (ir_value *[]){v, numbers}, 2, NULL, 1);
    if (!chosen) return diag_no_memory(m->diagnosis, "columns");
    ir_value *from = chosen->outputs[0];
    from->type = (ir_type){.dtype = v->type.dtype, .rank = numbers->type.rank + 1};
    memcpy(from->type.dims, numbers->type.dims, sizeof(reed_dim) * (size_t)numbers->type.rank);
    from->type.dims[numbers->type.rank] = v->type.dims[1];
    for (int32_t j = k; j < made->n_inputs; j++)
      if (made->inputs[j] == v) made->inputs[j] = from;
  }
  ir_node *n = ir_node_new(gather->graph, gather, made->op, made->name, made->inputs, made->n_inputs, &result, 1);
  if (!n) return diag_no_memory(m->diagnosis, "columns");
  for (int32_t i = 0; i < made->n_attrs; i++)
    if (!ir_set_attr(n, &made->attrs[i])) return diag_no_memory(m->diagnosis, "columns");
  made->dead = gather->dead = true;
  ir_count_uses(m);
  return REED_OK;
}

reed_status column_rows_choose(ir_module *m, ir_graph *g, int64_t *n_changed) {
  reed_status status = REED_OK;
  for (size_t i = g->nodes.n; i-- > 0 && status == REED_OK;) {
    ir_node *made = g->nodes.items[i];
    for (int32_t k = 0; k < made->n_regions && status == REED_OK; k++)
      status = column_rows_choose(m, made->regions[k], n_changed);
    if (status != REED_OK || made->dead || made->op != op_builtin(OP_FusedColumns)) continue;
    const ir_type *type = &made->outputs[0]->type;
    if (type->rank != 2) continue;
    ir_node *gather = only_gather(g, made);
    bool fits = gather && takes_rows(m, gather, type), any = false;
    for (int32_t k = 0; k < made->n_inputs && fits; k++) any |= has_rows(m, made->inputs[k], type->dims[0], &fits);
    if (!fits || !any) continue;
    status = choose(m, made, gather);
    ++*n_changed;
  }
  return status;
}
