/* Chains: element-wise operators that only feed each other become one Fused operator (ops/fused.h), so that their
 * intermediate tensors are never written to memory.
 *
 * A group starts with its last operator and grows backwards, by operators whose results have the same extents and are
 * used only inside the group. An operator whose result is broadcast stays outside, where it is computed once. Declared
 * names are enough for equal extents, because Fused broadcasts its inputs as its members would: an untrue name costs
 * time but changes no result. Shape arithmetic is not fused, because placement and inference read it.
 *
 * A group of two operators already saves one write and one read of a tensor. The group may extend the life of an input,
 * which costs no more memory than the member's result that it replaces. */
#include "compiler/passes/fuse/members.h"

#include "compiler/ir/pass.h"
#include "ops/fused.h"

typedef struct group {
  ir_node *members[FUSED_STEPS]; /* members[0] is the last operator */
  ir_value *leaves[FUSED_INPUTS];
  int32_t n_members, n_steps, n_leaves;
} group;

typedef struct chaining {
  ir_module *m;
  group group;
  int64_t n_groups, n_members;
} chaining;

static reed_status no_memory(const chaining *c) { return diag_no_memory(c->m->diagnosis, "chains"); }

/* ---- the group ---- */

static bool is_member(const group *g, const ir_node *n) {
  for (int32_t i = 0; i < g->n_members; i++)
    if (g->members[i] == n) return true;
  return false;
}

static int32_t uses_inside(const group *g, const ir_value *v) {
  int32_t n = 0;
  for (int32_t i = 0; i < g->n_members; i++)
    for (int32_t k = 0; k < g->members[i]->n_inputs; k++) n += g->members[i]->inputs[k] == v;
  return n;
}

/* Collects the values that the members read from outside the group. False: they are too many. */
static bool find_leaves(group *g) {
  g->n_leaves = 0;
  int32_t absent = 0; /* absent bounds of Clip, which become constants */
  for (int32_t i = 0; i < g->n_members; i++) {
    const ir_node *n = g->members[i];
    absent += n->op == op_builtin(OP_Clip) ? 2 : 0;
    for (int32_t k = 0; k < n->n_inputs; k++) {
      ir_value *v = n->inputs[k];
      if (!v || (v->producer && is_member(g, v->producer))) continue;
      bool known = false;
      for (int32_t j = 0; j < g->n_leaves; j++) known |= g->leaves[j] == v;
      if (known) continue;
      if (g->n_leaves == FUSED_INPUTS) return false;
      g->leaves[g->n_leaves++] = v;
    }
  }
  return g->n_leaves + absent <= FUSED_INPUTS;
}

/* Adds the operator that makes v to the group. False: it may not be a member. */
static bool add_member(const chaining *c, group *g, const ir_value *v) {
  ir_node *n = v ? v->producer : NULL;
  const ir_node *last = g->members[0];
  if (!n || n->graph != last->graph || is_member(g, n) || !member_may_join(n)) return false;
  if (g->n_members == FUSED_STEPS || g->n_steps + member_steps(n) > FUSED_STEPS) return false;
  if (!ir_likely_same_dims(c->m, v, last->outputs[0]) || uses_inside(g, v) != v->n_uses) return false;
  g->members[g->n_members++] = n;
  if (!find_leaves(g)) return g->n_members--, false;
  g->n_steps += member_steps(n);
  return true;
}

/* Grows the group backwards from its last operator. Bounds of Clip stay leaves, because a computed bound is too small
 * to be a member. */
static void grow(const chaining *c, group *g, ir_node *last) {
  *g = (group){.members = {last}, .n_members = 1, .n_steps = member_steps(last)};
  for (bool grown = find_leaves(g); grown;) {
    grown = false;
    for (int32_t i = 0; i < g->n_members; i++)
      for (int32_t k = 0; k < g->members[i]->n_inputs; k++) grown |= add_member(c, g, g->members[i]->inputs[k]);
  }
}

/* ---- the program ---- */

typedef struct writing {
  chaining *c;
  const group *g;
  fused_text text;
  ir_value *inputs[FUSED_INPUTS];
  int32_t n_inputs, n_steps;
  int32_t results[FUSED_STEPS]; /* for each member: the step that gives its result */
} writing;

static int32_t input_number(writing *w, ir_value *v) {
  for (int32_t i = 0; i < w->n_inputs; i++)
    if (w->inputs[i] == v) return i;
  w->inputs[w->n_inputs] = v;
  return w->n_inputs++;
}

/* The operand number of input k of member n. All inputs are numbered before the first step is written. */
static int32_t operand(writing *w, const ir_node *n, int32_t k) {
  ir_value *v = k < n->n_inputs ? n->inputs[k] : NULL;
  for (int32_t i = 0; v && i < w->g->n_members; i++)
    if (w->g->members[i]->outputs[0] == v) return w->n_inputs + w->results[i];
  return input_number(w, v);
}

/* Gives members with absent bounds constant ones, so that every input is a value. */
static void fill_bounds(writing *w) {
  for (int32_t i = 0; i < w->g->n_members; i++) {
    ir_node *n = w->g->members[i];
    for (int32_t k = 1; n->op == op_builtin(OP_Clip) && k < 3; k++) {
      if (k < n->n_inputs && n->inputs[k]) continue;
      ir_value *bound = member_no_bound(w->c->m, n->inputs[0]->type.dtype, k == 1);
      w->text.failed |= !bound;
      if (k < n->n_inputs) n->inputs[k] = bound;
      else w->text.failed |= !ir_add_input(n, bound);
    }
  }
}

static void number_inputs(writing *w) {
  for (int32_t i = w->g->n_members; i-- > 0;)
    for (int32_t k = 0; k < w->g->members[i]->n_inputs; k++) {
      ir_value *v = w->g->members[i]->inputs[k];
      if (!v->producer || !is_member(w->g, v->producer)) input_number(w, v);
    }
}

/* Writes the steps of one member. Sum is written as Adds of two operands: the first two inputs, then each result and
 * the next input. */
static void write_steps(writing *w, int32_t member) {
  const ir_node *n = w->g->members[member];
  reed_attrs attrs = ir_attrs(n);
  const reed_op *op = n->op == op_builtin(OP_Sum) ? op_builtin(OP_Add) : n->op;
  int32_t operands[FUSED_OPERANDS];
  for (int32_t k = 0; k < fused_operands(op); k++) operands[k] = operand(w, n, k);
  for (int32_t k = 2;; k++) {
    fused_write(&w->text, op, &attrs, operands);
    int32_t step = w->n_steps++;
    w->results[member] = step;
    if (k > member_steps(n)) return;
    operands[0] = w->n_inputs + step;
    operands[1] = operand(w, n, k);
  }
}

/* Sorts the members from the last one in the graph to the first; node->id is the place in the graph. */
static void sort_members(group *g) {
  for (int32_t i = 1; i < g->n_members; i++)
    for (int32_t k = i; k > 0 && g->members[k]->id > g->members[k - 1]->id; k--) {
      ir_node *n = g->members[k];
      g->members[k] = g->members[k - 1];
      g->members[k - 1] = n;
    }
}

static reed_status fuse(chaining *c, group *g) {
  writing w = {.c = c, .g = g};
  ir_node *last = g->members[0];
  ir_value *result = last->outputs[0];
  sort_members(g); /* the last operator stays first */
  fill_bounds(&w);
  if (w.text.failed) return no_memory(c);
  number_inputs(&w);
  for (int32_t i = g->n_members; i-- > 0;) write_steps(&w, i);
  reed_status status = REED_OK;
  ir_node *n = w.text.failed
                   ? NULL
                   : ir_node_new(last->graph, last, op_builtin(OP_Fused), last->name, w.inputs, w.n_inputs, &result, 1);
  reed_attr numbers = {
      .name = "numbers", .type = REED_ATTR_FLOATS, .floats = w.text.numbers.items, .n = (int64_t)w.text.numbers.n};
  if (!n || !ir_set_attr_string(n, "program", w.text.program.data) || !ir_set_attr_int(n, "to", result->type.dtype) ||
      (numbers.n && !ir_set_attr(n, &numbers)))
    status = no_memory(c);
  for (int32_t i = 0; i < g->n_members; i++) g->members[i]->dead = true;
  c->n_groups++;
  c->n_members += g->n_members;
  fused_text_fini(&w.text);
  return status;
}

/* ---- the pass ---- */

static reed_status chain_graph(chaining *c, ir_graph *g) {
  size_t n_nodes = g->nodes.n;
  VEC_OF(ir_node *) nodes = {0}; /* a copy of the list, because fusing adds nodes */
  reed_status status = REED_OK;
  for (size_t i = 0; i < n_nodes && status == REED_OK; i++) {
    g->nodes.items[i]->id = (int32_t)i;
    if (!VEC_PUSH(&nodes, g->nodes.items[i])) status = no_memory(c);
    for (int32_t k = 0; k < g->nodes.items[i]->n_regions && status == REED_OK; k++)
      status = chain_graph(c, g->nodes.items[i]->regions[k]);
  }
  for (size_t i = nodes.n; i-- > 0 && status == REED_OK;) {
    if (!member_may_join(nodes.items[i])) continue;
    grow(c, &c->group, nodes.items[i]);
    if (c->group.n_members > 1) status = fuse(c, &c->group);
  }
  VEC_FREE(&nodes);
  return status;
}

reed_status pass_chains(ir_module *m, pass_report *report) {
  chaining c = {.m = m};
  ir_count_uses(m);
  reed_status status = chain_graph(&c, m->main);
  ir_sweep(m);
  *report = (pass_report){.counts = {{"chains fused", c.n_groups}, {"operators in them", c.n_members}}};
  return status;
}
