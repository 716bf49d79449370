/* Columns taken one by one become rows. A detector that suppresses boxes class by class takes each class's scores from
 * a matrix [boxes, classes], and each such Gather reads one line of memory for each element. One Transpose puts the
 * elements of each column together; the Gathers of its rows are views (docs/memory.md). */
#include <string.h>

#include "compiler/ir/pass.h"

#define COLUMNS_LEAST 4 /* for fewer columns the Transpose, which moves all elements, costs more than it saves */
#define INNER_MOST 8    /* more elements that lie together already fill a line of memory */
#define WIDTH_LEAST 16  /* a line of memory holds several rows of fewer elements */

typedef struct matrix {
  ir_value *value;
  int32_t axis;
  VEC_OF(ir_node *) gathers; /* of one graph */
} matrix;

typedef struct search {
  ir_module *m;
  VEC_OF(matrix) matrices;
} search;

/* The axis along which the Gather n takes one element, if the elements it takes are far apart in memory; otherwise -1.
 */
static int32_t column_axis(const ir_node *n) {
  if (n->op != op_builtin(OP_Gather) || !ir_is_constant(n->inputs[1]) || n->inputs[1]->type.rank != 0) return -1;
  const ir_value *v = n->inputs[0];
  reed_attrs attrs = ir_attrs(n);
  int64_t axis = op_attr_int(&attrs, "axis"), inner = 1;
  if (ir_is_constant(v) || v->elements || v->type.rank < 2) return -1;
  if (axis < 0) axis += v->type.rank;
  bool first = true; /* only axes of extent 1 come before the axis */
  for (int32_t i = 0; i < v->type.rank; i++) {
    reed_dim d = v->type.dims[i];
    if (i < axis && d != 1) first = false;
    if (i > axis && (symbol_is(d) || d > INNER_MOST)) return -1;
    if (i > axis) inner *= d;
  }
  reed_dim width = v->type.dims[axis];
  return first || inner > INNER_MOST || symbol_is(width) || width * inner < WIDTH_LEAST ? -1 : (int32_t)axis;
}

static matrix *matrix_of(search *s, const ir_node *gather, int32_t axis) {
  for (size_t i = 0; i < s->matrices.n; i++) {
    matrix *known = &s->matrices.items[i];
    if (known->value == gather->inputs[0] && known->axis == axis && known->gathers.items[0]->graph == gather->graph)
      return known;
  }
  return VEC_PUSH(&s->matrices, ((matrix){.value = gather->inputs[0], .axis = axis}))
             ? &s->matrices.items[s->matrices.n - 1]
             : NULL;
}

static reed_status visit(void *context, ir_node *n) {
  search *s = context;
  int32_t axis = column_axis(n);
  if (axis < 0) return REED_OK;
  matrix *found = matrix_of(s, n, axis);
  return found && VEC_PUSH(&found->gathers, n) ? REED_OK : diag_no_memory(s->m->diagnosis, "columns");
}

static bool turn(const matrix *x) {
  const ir_type *from = &x->value->type;
  int64_t perm[REED_MAX_RANK] = {x->axis};
  for (int32_t i = 0, k = 1; i < from->rank; i++)
    if (i != x->axis) perm[k++] = i;
  ir_node *first = x->gathers.items[0],
          *turned = ir_node_new(first->graph, first, op_builtin(OP_Transpose), NULL, &x->value, 1, NULL, 1);
  if (!turned || !ir_set_attr_ints(turned, "perm", perm, from->rank)) return false;
  ir_value *rows = turned->outputs[0];
  rows->type = (ir_type){.dtype = from->dtype, .rank = from->rank};
  for (int32_t i = 0; i < from->rank; i++) rows->type.dims[i] = from->dims[perm[i]];
  for (size_t i = 0; i < x->gathers.n; i++) {
    x->gathers.items[i]->inputs[0] = rows;
    if (!ir_set_attr_int(x->gathers.items[i], "axis", 0)) return false;
  }
  return true;
}

reed_status pass_gathered_columns(ir_module *m, pass_report *report) {
  search s = {.m = m};
  int64_t n_columns = 0;
  reed_status status = ir_walk(m->main, true, visit, &s);
  for (size_t i = 0; i < s.matrices.n; i++) {
    matrix *x = &s.matrices.items[i];
    if (status == REED_OK && x->gathers.n >= COLUMNS_LEAST) {
      if (!turn(x)) status = diag_no_memory(m->diagnosis, "columns");
      n_columns += (int64_t)x->gathers.n;
    }
    VEC_FREE(&x->gathers);
  }
  VEC_FREE(&s.matrices);
  *report = (pass_report){.counts = {{"columns made rows of a Transpose", n_columns}}};
  return status;
}
