/* Limits a NonMaxSuppression to the number of boxes that a Slice keeps of its result: keep[:n]. For one image and one
 * class NonMaxSuppression selects boxes by falling score, so the first n are the boxes selected with
 * max_output_boxes_per_class = n. NonMaxSuppression then stops earlier and needs less output memory. The Slice stays,
 * because the other branch of an If may give more boxes; it costs nothing. */
#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

enum { NMS, N_SLOTS };

/* The numbers of the selected boxes, used only by the matched nodes. */
#define NUMBERS \
  P_ONCE(P_INT("axis", 1, \
               P_OP(Gather, P_ONCE(P_AS(NMS, P_OP(NonMaxSuppression, P_ANY, P_ANY, P_CONSTANT))), P_NUMBER(2))))
static const pattern *const kept =
    P_EITHER(NUMBERS, P_ONCE(P_OP(Squeeze, NUMBERS)), P_ONCE(P_OP(Reshape, NUMBERS, P_NUMBER(-1))));

typedef struct limiting {
  ir_module *m;
  int64_t n_limited;
} limiting;

/* True when input i is this number or absent. */
static bool is_or_absent(const ir_node *n, int32_t i, double number) {
  double given;
  return i >= n->n_inputs || !n->inputs[i] || (pattern_number(n->inputs[i], &given) && given == number);
}

/* The number of elements that a Slice of the first elements along axis 0 keeps; -1: the Slice is another one. */
static int64_t first_elements(const ir_node *n) {
  double start, end;
  if (n->n_inputs < 3 || !pattern_number(n->inputs[1], &start) || start != 0 || !pattern_number(n->inputs[2], &end))
    return -1;
  return is_or_absent(n, 3, 0) && is_or_absent(n, 4, 1) && end >= 0 && end < 0x1p53 ? (int64_t)end : -1;
}

/* Limits the NonMaxSuppression whose selection v is to `most` boxes, because only the first `most` elements of v are
 * used. */
static reed_status limit(limiting *l, ir_value *v, int64_t most) {
  ir_value *slots[N_SLOTS];
  double limit_now;
  if (!pattern_match(kept, v, slots, N_SLOTS)) return REED_OK;
  ir_node *nms = slots[NMS]->producer;
  const ir_type *scores = &nms->inputs[1]->type;
  if (scores->rank != 3 || scores->dims[0] != 1 || scores->dims[1] != 1) return REED_OK;
  if (!pattern_number(nms->inputs[2], &limit_now) || limit_now <= (double)most) return REED_OK;
  ir_value *fewer = ir_constant_i64(l->m, &most, 1, NULL);
  if (!fewer) return diag_no_memory(l->m->diagnosis, "a limit");
  nms->inputs[2] = fewer;
  l->n_limited++;
  return REED_OK;
}

static reed_status visit(void *context, ir_node *n) {
  int64_t most = n->op == op_builtin(OP_Slice) ? first_elements(n) : -1;
  if (most < 0 || n->inputs[0]->n_uses != 1) return REED_OK;
  ir_value *v = n->inputs[0];
  const ir_node *guard = v->producer && v->producer->op == op_builtin(OP_If) ? v->producer : NULL;
  if (!guard) return limit(context, v, most);
  reed_status status = REED_OK;
  for (int32_t k = 0; k < guard->n_regions && status == REED_OK; k++)
    status = limit(context, guard->regions[k]->results[v->producer_output], most);
  return status;
}

reed_status pass_nms_limit(ir_module *m, pass_report *report) {
  limiting l = {.m = m};
  ir_count_uses(m);
  reed_status status = pass_try_each(m, visit, &l, &l.n_limited);
  *report = (pass_report){.counts = {{"NonMaxSuppressions limited", l.n_limited}}};
  return status;
}
