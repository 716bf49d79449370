/* Emission of a Loop: between two epochs of its block, with the body inlined and epochs of the body's own.
 *
 *      s_trip, s_go = trip count, condition          only those that the Loop has
 *      carried registers = initial values; sequences for scan outputs
 *   head:
 *      leave unless s_go and s_i < s_trip
 *      the body's epochs
 *      s_go = its condition; scan results pushed; carried registers = its results; s_i = s_i + 1
 *      jump head
 *   leave:
 *      sequences stacked or joined; without a round through lower_unrun.c
 *
 * A carried value keeps one register, which is the Loop's output afterwards. */
#include <string.h>

#include "compiler/lower/lower_epoch.h"
#include "compiler/lower/lower_loop.h"
#include "compiler/lower/lower_unrun.h"

#define NO_SCALAR UINT32_MAX

typedef struct looping {
  lower *l;
  flow_item *item;
  const ir_node *n;
  const ir_graph *g;
  int32_t n_carried;
  uint32_t trip, go, i, one; /* scalars; NO_SCALAR: not needed */
  uint32_t *carried;         /* registers */
  uint32_t *sequences;       /* by scan output; FLOW_NO_REGISTER: unused */
} looping;

/* A new scalar with the value of a constant or of a version on the host; `otherwise` where v is absent. */
static uint32_t scalar_of(looping *c, const ir_value *v, int64_t otherwise) {
  uint32_t s = c->l->n_s++;
  if (v && !ir_is_constant(v)) EMIT(c->l, s_item, c->n->name, .dst = s, .src = c->l->f.values[v->id].on[0]->reg);
  else EMIT(c->l, s_const, c->n->name, .dst = s, .value = v ? lower_constant_item(v) : otherwise);
  return s;
}

static bool is_true(const ir_value *v) { return !v || (ir_is_constant(v) && lower_constant_item(v) != 0); }

static const ir_value *input_of(const looping *c, int32_t i) { return i < c->n->n_inputs ? c->n->inputs[i] : NULL; }

static void make_scalars(looping *c) {
  const ir_value *trip = input_of(c, 0), *condition = input_of(c, 1), *next = c->g->results[0];
  bool conditional = !is_true(condition) || !is_true(next) || c->item->params[1];
  c->trip = trip ? scalar_of(c, trip, 0) : NO_SCALAR;
  c->go = conditional ? scalar_of(c, condition, 1) : NO_SCALAR;
  c->i = c->one = NO_SCALAR;
  if (!trip && !c->item->params[0]) return;
  c->i = c->l->n_s++;
  c->one = c->l->n_s++;
  EMIT(c->l, s_const, c->n->name, .dst = c->i, .value = 0);
  EMIT(c->l, s_const, NULL, .dst = c->one, .value = 1);
}

/* Gives each carried value the register of the Loop's output, which the other path of an If may have taken already. */
static void take_carried(looping *c) {
  lower *l = c->l;
  for (int32_t k = 0; k < c->n_carried; k++) {
    flow_version *output = c->item->outputs[k], *param = c->item->params[k + 2];
    const ir_value *initial = c->n->inputs[k + 2];
    c->carried[k] = param->reg = output ? lower_reg(l, output) : lower_take_r(l);
    if (ir_is_constant(initial)) lower_constant_to(l, c->carried[k], initial, param->device);
    else EMIT(l, r_move, c->n->name, .dst = c->carried[k], .src = l->f.values[initial->id].on[param->device]->reg);
  }
}

static int32_t n_scans(const looping *c) { return c->g->n_results - 1 - c->n_carried; }

static void make_sequences(looping *c) {
  for (int32_t k = 0; k < n_scans(c); k++) {
    c->sequences[k] = FLOW_NO_REGISTER;
    if (!c->item->outputs[c->n_carried + k]) continue;
    c->sequences[k] = lower_take_r(c->l);
    EMIT(c->l, seq_make, c->n->name, .dst = c->sequences[k]);
  }
}

static void emit_head(looping *c, uint32_t leave) {
  lower *l = c->l;
  if (c->go != NO_SCALAR) EMIT(l, branch_ifnot, c->n->name, .condition = c->go, .target = leave);
  if (c->trip != NO_SCALAR) {
    uint32_t more = l->n_s++;
    EMIT(l, s_lt, c->n->name, .dst = more, .a = c->i, .b = c->trip);
    EMIT(l, branch_ifnot, c->n->name, .condition = more, .target = leave);
  }
  if (c->item->params[0])
    EMIT(l, r_scalar, c->n->name, .dst = lower_reg(l, c->item->params[0]), .src = c->i, .dtype = REED_I64);
  if (c->item->params[1])
    EMIT(l, r_scalar, c->n->name, .dst = lower_reg(l, c->item->params[1]), .src = c->go, .dtype = REED_BOOL);
}

static void push_scans(looping *c) {
  lower *l = c->l;
  for (int32_t k = 0; k < n_scans(c); k++) {
    if (c->sequences[k] == FLOW_NO_REGISTER) continue;
    int32_t result = 1 + c->n_carried + k;
    const flow_version *x = flow_loop_result(&l->f, c->item, result);
    if (x) {
      EMIT(l, seq_push, c->n->name, .sequence = c->sequences[k], .item = x->reg);
      continue;
    }
    uint32_t constant = lower_constant(l, c->g->results[result], c->item->outputs[c->n_carried + k]->device);
    EMIT(l, seq_push, c->n->name, .sequence = c->sequences[k], .item = constant);
    lower_kill_r(l, constant);
  }
}

/* The index of the carried value x; -1: x is no carried value of this Loop. */
static int32_t carried_index(const looping *c, const flow_version *x) {
  for (int32_t k = 0; x && x->pinned && k < c->n_carried; k++)
    if (c->item->params[k + 2] == x) return k;
  return -1;
}

/* Moves the body's results to the carried registers. A result that another carried register holds is saved first,
 * because all moves happen at once. */
static void move_carried(looping *c) {
  lower *l = c->l;
  uint32_t *saved = ir_alloc(l->f.m, sizeof *saved * (size_t)c->n_carried);
  if (!saved) {
    l->no_memory = true;
    return;
  }
  for (int32_t k = 0; k < c->n_carried; k++) {
    const flow_version *x = flow_loop_result(&l->f, c->item, k + 1);
    int32_t from = carried_index(c, x);
    saved[k] = FLOW_NO_REGISTER;
    if (from < 0 || from == k) continue;
    saved[k] = lower_take_r(l);
    EMIT(l, r_move, c->n->name, .dst = saved[k], .src = x->reg);
  }
  for (int32_t k = 0; k < c->n_carried; k++) {
    const flow_version *x = flow_loop_result(&l->f, c->item, k + 1);
    if (x != c->item->params[k + 2] && c->item->params[k + 2]->last == FLOW_END)
      EMIT(l, kill, NULL, .victim = c->carried[k]);
  }
  for (int32_t k = 0; k < c->n_carried; k++) {
    const flow_version *x = flow_loop_result(&l->f, c->item, k + 1);
    if (x == c->item->params[k + 2]) continue;
    if (x) EMIT(l, r_move, c->n->name, .dst = c->carried[k], .src = saved[k] != FLOW_NO_REGISTER ? saved[k] : x->reg);
    else lower_constant_to(l, c->carried[k], c->g->results[k + 1], c->item->params[k + 2]->device);
    if (saved[k] != FLOW_NO_REGISTER) lower_kill_r(l, saved[k]);
  }
}

/* Kills the versions that live to the end of the iteration, except carried values. */
static void kill_rest(looping *c) {
  for (flow_version *x = c->item->body->end_kills; x; x = x->next_kill)
    if (x->reg != FLOW_NO_REGISTER && !x->pinned) lower_kill(c->l, x);
}

static void end_iteration(looping *c) {
  lower *l = c->l;
  const ir_value *next = c->g->results[0];
  if (c->go != NO_SCALAR) {
    if (ir_is_constant(next)) EMIT(l, s_const, c->n->name, .dst = c->go, .value = lower_constant_item(next));
    else EMIT(l, s_item, c->n->name, .dst = c->go, .src = flow_loop_result(&l->f, c->item, 0)->reg);
  }
  push_scans(c);
  move_carried(c);
  kill_rest(c);
  if (c->i != NO_SCALAR) EMIT(l, s_add, c->n->name, .dst = c->i, .a = c->i, .b = c->one);
}

/* The dtype and extents of one element of a scan output, for a Loop without iterations: an extent that neither the
 * compiler nor lower_unrun.c knows counts as 0. Elements that are joined have one axis at least, also if the compiler
 * does not know their rank. */
static uint32_t element_type(lower *l, const ir_value *v, bool joined, int32_t device) {
  const int32_t rank = v->type.rank;
  module_type type = {.dtype = v->type.dtype,
                      .rank = joined && rank < 1 ? 1 : rank,
                      .device = device,
                      .name = module_add_string(l->b, v->name)};
  for (int32_t i = 0; i < rank; i++)
    type.dims[i] = symbol_is(v->type.dims[i]) ? ~(int64_t)module_add_string(l->b, "") : v->type.dims[i];
  return module_add_type(l->b, &type);
}

/* Stacks or joins the sequences to scan outputs, except the outputs in `made` (NULL: none). */
static void gather_scans(looping *c, const bool *made) {
  lower *l = c->l;
  for (int32_t k = 0; k < n_scans(c); k++) {
    if (c->sequences[k] == FLOW_NO_REGISTER || (made && made[k])) continue;
    flow_version *x = c->item->outputs[c->n_carried + k];
    uint32_t type = element_type(l, c->g->results[1 + c->n_carried + k], x->value->joined, x->device);
    if (x->value->joined)
      EMIT(l, seq_join, c->n->name, .dst = lower_reg(l, x), .src = c->sequences[k], .element = type,
           .device = (uint32_t)x->device);
    else
      EMIT(l, seq_stack, c->n->name, .dst = lower_reg(l, x), .src = c->sequences[k], .element = type,
           .device = (uint32_t)x->device);
  }
}

static void finish_scans(looping *c) {
  lower *l = c->l;
  uint32_t ran = emit_new_label(l->b), end = emit_new_label(l->b), any = FLOW_NO_REGISTER;
  bool *made = ir_alloc(l->f.m, sizeof *made * (size_t)(n_scans(c) + 1));
  if (!made) {
    l->no_memory = true;
    return;
  }
  for (int32_t k = 0; k < n_scans(c); k++)
    if (c->sequences[k] != FLOW_NO_REGISTER) any = c->sequences[k];
  if (any != FLOW_NO_REGISTER && lower_unrun_begin(l, c->item, c->i, c->go, any, ran, made)) {
    gather_scans(c, made);
    EMIT(l, jump, NULL, .target = end);
  }
  emit_bind_label(l->b, ran);
  gather_scans(c, NULL);
  emit_bind_label(l->b, end);
  for (int32_t k = 0; k < n_scans(c); k++)
    if (c->sequences[k] != FLOW_NO_REGISTER) lower_kill_r(l, c->sequences[k]);
}

void lower_loop(lower *l, flow_item *item) {
  looping c = {
      .l = l, .item = item, .n = item->node, .g = item->body->graph, .n_carried = item->body->graph->n_params - 2};
  c.carried = ir_alloc(l->f.m, sizeof *c.carried * (size_t)(c.n_carried + 1));
  c.sequences = ir_alloc(l->f.m, sizeof *c.sequences * (size_t)(n_scans(&c) + 1));
  if (!c.carried || !c.sequences) {
    l->no_memory = true;
    return;
  }
  uint32_t head = emit_new_label(l->b), leave = emit_new_label(l->b);
  make_scalars(&c);
  take_carried(&c);
  make_sequences(&c);
  emit_bind_label(l->b, head);
  emit_head(&c, leave);
  lower_root(l, item->body);
  end_iteration(&c);
  EMIT(l, jump, NULL, .target = head);
  emit_bind_label(l->b, leave);
  finish_scans(&c);
  for (int32_t k = 0; k < c.n_carried; k++)
    if (!item->outputs[k]) lower_kill_r(l, c.carried[k]);
}
