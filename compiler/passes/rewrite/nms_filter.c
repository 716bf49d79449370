/* Removes a filter before NonMaxSuppression: boxes are filtered, NonMaxSuppression selects from the kept boxes, and
 * Gathers take the selected rows from kept rows. Afterwards NonMaxSuppression selects from all boxes, with the filter's
 * mask as its candidates, and the Gathers take from all rows. No operator then needs the list of kept rows or waits for
 * its length. */
#include "compiler/passes/rewrite/row_filter.h"
#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

enum { BOXES, SCORES, CLASS_IDS = 5, CANDIDATES, N_INPUTS }; /* of NonMaxSuppression */

typedef struct selecting {
  ir_module *m;
  ir_node *nms;
  filter kept;              /* the filter whose rows it selects from */
  VEC_OF(ir_node *) takers; /* Gathers by the selected boxes' numbers */
  int64_t n_opened;
  bool no_memory;
} selecting;

/* The value of that rank, computed from kept rows, of which the operand is a view; NULL: there is none. */
static ir_value *kept_rows(const ir_module *m, const filter *kept, ir_value *operand, int32_t rank) {
  for (ir_value *v = operand; v; v = pattern_viewed(v))
    if (v->type.rank == rank && filter_can_undo(m, kept, v)) return v;
  return NULL;
}

/* The column (0 image, 1 class, 2 box) of the selection that the Gather n takes; -1: n is no such Gather. */
static int64_t column_of(const ir_node *n) {
  reed_attrs attrs = ir_attrs(n);
  double column;
  bool one =
      n->op == op_builtin(OP_Gather) && op_attr_int(&attrs, "axis") == 1 && pattern_number(n->inputs[1], &column);
  return one && column >= 0 && column <= 2 ? (int64_t)column : -1;
}

/* Judges a use of the selection: the boxes' numbers are followed to the Gathers that take kept rows by them. */
static filter_use use(void *context, ir_node *user, int32_t input) {
  selecting *s = context;
  reed_attrs attrs = ir_attrs(user);
  if (user->op == op_builtin(OP_Shape) || user->op == op_builtin(OP_Size)) return FILTER_FINE;
  if (user->inputs[input] == s->nms->outputs[0]) {
    int64_t column = input == 0 ? column_of(user) : -1;
    return column == 2 ? FILTER_FOLLOW : column >= 0 ? FILTER_FINE : FILTER_WRONG;
  }
  if (input == 0 && (user->op == op_builtin(OP_Slice) || pattern_viewed(user->outputs[0]) == user->inputs[0]))
    return FILTER_FOLLOW;
  bool takes = user->op == op_builtin(OP_Gather) && input == 1 && op_attr_int(&attrs, "axis") == 0;
  if (!takes || !filter_can_undo(s->m, &s->kept, user->inputs[0])) return FILTER_WRONG;
  s->no_memory = s->no_memory || !VEC_PUSH(&s->takers, user);
  return FILTER_FINE;
}

/* v for all rows (filter_undo where `filtered`), with n_in_front extents of 1 in front; NULL: no memory. */
static ir_value *all_rows(selecting *s, ir_value *v, bool filtered, int32_t n_in_front) {
  ir_value *all = filtered ? filter_undo(&s->kept, v, s->nms) : v,
           *axes = ir_constant_i64(s->m, (int64_t[]){0, 1}, n_in_front, NULL);
  if (!all || !axes) return NULL;
  ir_node *made =
      ir_node_new(s->nms->graph, s->nms, op_builtin(OP_Unsqueeze), NULL, (ir_value *[]){all, axes}, 2, NULL, 1);
  return made ? made->outputs[0] : NULL;
}

static bool open(selecting *s, ir_value *boxes, ir_value *scores, ir_value *ids) {
  ir_node *n = s->nms;
  while (n->n_inputs < N_INPUTS)
    if (!ir_add_input(n, NULL)) return false;
  n->inputs[BOXES] = all_rows(s, boxes, true, 1);
  n->inputs[SCORES] = all_rows(s, scores, true, 2);
  n->inputs[CANDIDATES] = all_rows(s, s->kept.mask, false, 1);
  if (ids) n->inputs[CLASS_IDS] = all_rows(s, ids, true, 1);
  if (!n->inputs[BOXES] || !n->inputs[SCORES] || !n->inputs[CANDIDATES] || (ids && !n->inputs[CLASS_IDS])) return false;
  for (size_t i = 0; i < s->takers.n; i++) {
    ir_value *all = filter_undo(&s->kept, s->takers.items[i]->inputs[0], s->takers.items[i]);
    if (!all) return false;
    s->takers.items[i]->inputs[0] = all;
  }
  s->n_opened++;
  return true;
}

static reed_status visit(void *context, ir_node *n) {
  selecting *s = context;
  if (n->op != op_builtin(OP_NonMaxSuppression) || (n->n_inputs > CANDIDATES && n->inputs[CANDIDATES])) return REED_OK;
  const ir_type *all_scores = &n->inputs[SCORES]->type;
  if (all_scores->rank != 3 || all_scores->dims[0] != 1 || all_scores->dims[1] != 1) return REED_OK;
  ir_value *boxes = NULL, *given_ids = n->n_inputs > CLASS_IDS ? n->inputs[CLASS_IDS] : NULL;
  for (ir_value *v = n->inputs[BOXES]; v && !boxes; v = pattern_viewed(v))
    if (v->type.rank == 2 && filter_behind(s->m, v, &s->kept)) boxes = kept_rows(s->m, &s->kept, v, 2);
  ir_value *scores = boxes ? kept_rows(s->m, &s->kept, n->inputs[SCORES], 1) : NULL;
  ir_value *ids = scores && given_ids ? kept_rows(s->m, &s->kept, given_ids, 1) : NULL;
  if (!scores || (given_ids && !ids)) return REED_OK;
  s->nms = n;
  s->takers.n = 0;
  if (!filter_uses_are_fine(s->m, n->outputs[0], use, s)) return REED_OK;
  return !s->no_memory && open(s, boxes, scores, ids) ? REED_OK : diag_no_memory(s->m->diagnosis, "candidates");
}

reed_status pass_nms_filter(ir_module *m, pass_report *report) {
  selecting s = {.m = m};
  ir_count_uses(m);
  reed_status status = pass_try_each(m, visit, &s, &s.n_opened);
  VEC_FREE(&s.takers);
  *report = (pass_report){.counts = {{"NonMaxSuppressions told their candidates", s.n_opened}}};
  return status;
}
