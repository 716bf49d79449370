/* Opens an exporter's guard of NonMaxSuppression: If(no boxes) an empty list, else the selected boxes.
 * NonMaxSuppression of no boxes selects nothing by itself. So the guard's condition is set to false, and simplify then
 * moves the branch's nodes to the If's place. */
#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

enum { BOXES, N_CONDITION };
enum { NMS, N_RESULT };

/* The condition "BOXES has no elements". */
#define COUNT P_EITHER(P_OP(ReduceProd, P_OP(Shape, P_AS(BOXES, P_ANY))), P_OP(Size, P_AS(BOXES, P_ANY)))
#define IS_NONE P_PAIR(Equal, P_NUMBER(0), P_VIEWS(COUNT))
static const pattern *const no_boxes = P_EITHER(IS_NONE, P_OP(Cast, IS_NONE));

/* The list of the selected boxes' numbers. */
static const pattern *const selected =
    P_VIEWS(P_INT("axis", 1, P_OP(Gather, P_AS(NMS, P_OP(NonMaxSuppression)), P_NUMBER(2))));

typedef struct opening {
  ir_module *m;
  int64_t n_opened;
} opening;

/* The number of extents that are not provably 1. */
static int32_t wide_extents(const ir_type *t) {
  int32_t n = 0;
  for (int32_t i = 0; i < t->rank; i++) n += t->dims[i] != 1;
  return n;
}

/* True when the operands broadcast for all extents: at each axis the extents are provably equal, or one is 1. */
static bool always_broadcast(const ir_module *m, const ir_type *a, const ir_type *b) {
  for (int32_t i = 1; i <= a->rank && i <= b->rank; i++) {
    reed_dim of_a = a->dims[a->rank - i], of_b = b->dims[b->rank - i];
    if (of_a != 1 && of_b != 1 && !symbols_assume_equal(m->symbols, of_a, of_b)) return false;
  }
  return a->rank >= 0 && b->rank >= 0;
}

/* True when the operator runs on no boxes as it does on some, so that it can leave the branch. */
static bool takes_nothing(const ir_module *m, const ir_node *n) {
  reed_attrs attrs = ir_attrs(n);
  const ir_type *in = &n->inputs[0]->type;
  switch (op_id_of(n->op)) {
    case OP_Cast:
    case OP_NonMaxSuppression:
    case OP_ReduceMax:
    case OP_Unsqueeze: return true;
    case OP_Add:
    case OP_Mul: return always_broadcast(m, in, &n->inputs[1]->type);
    case OP_Squeeze: return in->rank >= 0 && wide_extents(in) == wide_extents(&n->outputs[0]->type);
    case OP_Gather: /* a column of the selection */
      return pattern_made_by(n->inputs[0], OP_NonMaxSuppression) && op_attr_int(&attrs, "axis") == 1;
    default: return false;
  }
}

static bool all_take_nothing(const ir_module *m, const ir_graph *g) {
  for (size_t i = 0; i < g->nodes.n; i++)
    if (!g->nodes.items[i]->dead && !takes_nothing(m, g->nodes.items[i])) return false;
  return true;
}

/* True when the branch has one result, a constant list without elements. */
static bool gives_nothing(const ir_graph *g) {
  const ir_type *t = &g->results[0]->type;
  return g->n_results == 1 && t->dtype == REED_I64 && t->rank == 1 && t->dims[0] == 0 && ir_is_constant(g->results[0]);
}

/* True when the branch's result is a selection from as many boxes as the condition counts. */
static bool gives_selection(const ir_module *m, const ir_graph *g, const ir_value *boxes) {
  ir_value *slots[N_RESULT];
  ir_value *result = g->results[0];
  if (g->n_results != 1 || result->type.rank != 1 || !pattern_match(selected, result, slots, N_RESULT)) return false;
  const ir_node *nms = slots[NMS]->producer;
  const ir_type *from = &nms->inputs[0]->type, *asked = &boxes->type;
  bool same_number =
      from->rank == 3 && asked->rank == 2 && symbols_assume_equal(m->symbols, from->dims[1], asked->dims[0]);
  return same_number && asked->dims[1] == 4 && nms->graph == g;
}

static reed_status visit(void *context, ir_node *n) {
  opening *o = context;
  ir_value *slots[N_CONDITION];
  if (n->op != op_builtin(OP_If) || !pattern_match(no_boxes, n->inputs[0], slots, N_CONDITION)) return REED_OK;
  if (!gives_nothing(n->regions[0]) || !gives_selection(o->m, n->regions[1], slots[BOXES]) ||
      !all_take_nothing(o->m, n->regions[1]))
    return REED_OK;
  ir_value *no = ir_constant(o->m, &(reed_desc){.dtype = REED_BOOL}, &(bool){false}, false, NULL);
  if (!no) return diag_no_memory(o->m->diagnosis, "a condition");
  n->inputs[0] = no;
  o->n_opened++;
  return REED_OK;
}

reed_status pass_nms_guard(ir_module *m, pass_report *report) {
  opening o = {.m = m};
  reed_status status = pass_try_each(m, visit, &o, &o.n_opened);
  *report = (pass_report){.counts = {{"guards of NonMaxSuppression opened", o.n_opened}}};
  return status;
}
