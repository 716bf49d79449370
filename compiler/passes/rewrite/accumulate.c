/* Replaces a carried value to which a Loop appends in every turn, value = Concat(value, part), by a scan output of the
 * parts, because the Concat copies all earlier parts in every turn. After the Loop, a Concat puts the parts after the
 * initial value. The parts are stacked where they provably have the same known number of rows, because the extents then
 * follow from the number of turns; otherwise they are joined. */
#include <string.h>

#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

enum { BEFORE, PART, N_SLOTS };
static const pattern *const appended = P_INT("axis", 0, P_OP(Concat, P_ONCE(P_AS(BEFORE, P_ANY)), P_AS(PART, P_ANY)));

typedef struct accumulating {
  ir_module *m;
  int64_t n_changed;
} accumulating;

static bool same_rows(const ir_type *part) { return !symbol_is(part->dims[0]) && part->rank < REED_MAX_RANK; }

/* True when the part has the type of the initial value except for the number of rows. Joined parts must have known
 * other extents, because a Loop without turns has no part to tell them. */
static bool same_but_rows(const ir_module *m, const ir_type *part, const ir_type *initial) {
  if (part->rank < 1 || part->rank != initial->rank || part->dtype != initial->dtype) return false;
  for (int32_t i = 1; i < part->rank; i++)
    if (!symbols_assume_equal(m->symbols, part->dims[i], initial->dims[i]) ||
        (symbol_is(part->dims[i]) && !same_rows(part)))
      return false;
  return true;
}

/* The part that each turn appends to carried value k; NULL: the body uses the carried value in another way. */
static ir_value *part_of(const ir_module *m, const ir_node *loop, int32_t k) {
  const ir_graph *body = loop->regions[0];
  ir_value *slots[N_SLOTS], *result = body->results[k + 1];
  if (!loop->outputs[k] || result->n_uses != 1 || !pattern_match(appended, result, slots, N_SLOTS)) return NULL;
  bool fits = slots[BEFORE] == body->params[k + 2] && result->producer->n_inputs == 2 && slots[PART] != slots[BEFORE];
  return fits && same_but_rows(m, &slots[PART]->type, &loop->inputs[k + 2]->type) ? slots[PART] : NULL;
}

static void take_out(void *items, int32_t *n, int32_t i) {
  void **values = items;
  --*n;
  memmove(values + i, values + i + 1, (size_t)(*n - i) * sizeof *values);
}

/* The parts [turns, rows, ...] viewed as rows [turns * rows, ...], by nodes placed before `place`; NULL: at the end.
 * The view of single rows is a Squeeze, whose result keeps a bound of the number of turns. Returns NULL without memory.
 */
static ir_value *as_rows(ir_graph *g, ir_node *place, ir_value *parts, ir_value *initial, int64_t n_rows) {
  static const reed_attr first = {.name = "end", .type = REED_ATTR_INT, .i = 1},
                         rest = {.name = "start", .type = REED_ATTR_INT, .i = 1};
  ir_value *rows = ir_constant_i64(g->module, &n_rows, 1, NULL);
  if (n_rows == 1) { /* the axis to drop is number 1, too */
    ir_node *dropped =
        rows ? ir_node_new(g, place, op_builtin(OP_Squeeze), NULL, (ir_value *[]){parts, rows}, 2, NULL, 1) : NULL;
    return dropped ? dropped->outputs[0] : NULL;
  }
  ir_node *turns = ir_node_new(g, place, op_builtin(OP_Shape), NULL, &parts, 1, NULL, 1);
  ir_node *others = ir_node_new(g, place, op_builtin(OP_Shape), NULL, &initial, 1, NULL, 1);
  if (!rows || !turns || !others || !ir_set_attr(turns, &first) || !ir_set_attr(others, &rest)) return NULL;
  ir_node *all = ir_node_new(g, place, op_builtin(OP_Mul), NULL, (ir_value *[]){turns->outputs[0], rows}, 2, NULL, 1);
  if (!all) return NULL;
  ir_node *extents = ir_node_new(g, place, op_builtin(OP_Concat), NULL,
                                 (ir_value *[]){all->outputs[0], others->outputs[0]}, 2, NULL, 1);
  if (!extents || !ir_set_attr_int(extents, "axis", 0)) return NULL;
  ir_node *made =
      ir_node_new(g, place, op_builtin(OP_Reshape), NULL, (ir_value *[]){parts, extents->outputs[0]}, 2, NULL, 1);
  return made && ir_set_attr_int(made, "allowzero", 1) ? made->outputs[0] : NULL;
}

/* Replaces carried value k by a scan output of the parts. False: no memory. */
static bool change(ir_module *m, ir_node *loop, int32_t k, ir_value *part) {
  ir_graph *body = loop->regions[0];
  ir_value *initial = loop->inputs[k + 2], *result = loop->outputs[k];
  ir_value *parts = ir_value_new(loop->graph, NULL);
  if (!parts || !ir_add_result(body, part)) return false;
  parts->joined = !same_rows(&part->type);
  body->results[k + 1]->producer->dead = true;
  take_out(body->results, &body->n_results, k + 1);
  take_out(body->params, &body->n_params, k + 2);
  take_out(loop->inputs, &loop->n_inputs, k + 2);
  take_out(loop->outputs, &loop->n_outputs, k);
  loop->outputs[loop->n_outputs++] = parts;
  parts->producer = loop;
  for (int32_t i = 0; i < loop->n_outputs; i++)
    if (loop->outputs[i]) loop->outputs[i]->producer_output = i;
  ir_node *place = ir_next(loop);
  ir_value *made = parts->joined ? parts : as_rows(loop->graph, place, parts, initial, part->type.dims[0]);
  ir_node *last =
      made ? ir_node_new(loop->graph, place, op_builtin(OP_Concat), NULL, (ir_value *[]){initial, made}, 2, &result, 1)
           : NULL;
  return last && ir_set_attr_int(last, "axis", 0);
}

static reed_status visit(void *context, ir_node *n) {
  accumulating *a = context;
  if (n->op != op_builtin(OP_Loop)) return REED_OK;
  for (int32_t k = n->regions[0]->n_params - 2; k-- > 0;) {
    ir_value *part = part_of(a->m, n, k);
    if (!part) continue;
    if (!change(a->m, n, k, part)) return diag_no_memory(a->m->diagnosis, "what a loop gathers");
    a->n_changed++;
  }
  return REED_OK;
}

reed_status pass_accumulate(ir_module *m, pass_report *report) {
  accumulating a = {.m = m};
  ir_count_uses(m);
  reed_status status = pass_try_each(m, visit, &a, &a.n_changed);
  *report = (pass_report){.counts = {{"values that loops appended to written once", a.n_changed}}};
  return status;
}
