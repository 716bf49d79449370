/* Layout: images are stored with channels last ([N,H,W,C] instead of ONNX's [N,C,H,W]), the order in which convolutions
 * compute. The operators between convolutions follow, so that no Transposes are left between them. The rules of
 * operators are in rules.c.
 *
 * Planning does not touch the graph: one walk asks each operator's rule for the orders in which it would read its
 * inputs, given their stored orders, and for the orders of its outputs. Convolutions ask for channels last; a Transpose
 * only renames the order; most others take any order. Nodes connected by reordered values form an island. An island is
 * kept if the Transposes at its border weigh less than its savings: the Transposes inside it, and the time that
 * convolutions save (gain.c). Then the kept islands are changed. */
#include <string.h>

#include "compiler/ir/pass.h"
#include "compiler/passes/layout/gain.h"
#include "compiler/passes/layout/rules.h"

/* A further order in which nodes read a value, and the value made in that order. */
typedef struct form {
  layout_order order;
  int32_t island; /* the island of a node that reads this order */
  ir_value *made;
  struct form *next;
} form;

typedef struct value_plan {
  layout_order given; /* the order in which its producer stores it */
  int32_t island;     /* the producer's island, where `given` is not the value's own order */
  ir_value *stored;   /* the tensor in the order `given`; NULL: not made yet */
  form *forms;        /* other orders in which nodes read the value */
  bool wanted_plain;  /* a node or a result of a graph reads the value in its own order */
  int32_t n_readers;
  ir_node *reader; /* the only reader, where there is one */
} value_plan;

typedef struct node_plan {
  const layout_rule *rule; /* NULL: the node is not changed */
  layout_order *want, *give;
  int32_t parent;    /* parent in the tree of the island (union-find) */
  double gain, cost; /* of the island, at its root */
} node_plan;

typedef struct planning {
  ir_module *m;
  int32_t n_values, n_nodes; /* ids go from 1 */
  value_plan *values;
  node_plan *nodes;
  int64_t n_reordered, n_islands;
  bool no_memory;
} planning;

static value_plan *plan_of(const planning *p, const ir_value *v) { return &p->values[v->id]; }

/* ---- ids of values and nodes, readers of values ---- */

static void number_value(planning *p, ir_value *v) {
  if (v) v->id = ++p->n_values;
}

static void number_graph(planning *p, ir_graph *g) {
  for (int32_t i = 0; i < g->n_params; i++) number_value(p, g->params[i]);
  for (size_t i = 0; i < g->nodes.n; i++) {
    ir_node *n = g->nodes.items[i];
    n->id = n->dead ? 0 : ++p->n_nodes;
    for (int32_t k = 0; k < n->n_outputs; k++) number_value(p, n->outputs[k]);
    for (int32_t k = 0; k < n->n_regions; k++) number_graph(p, n->regions[k]);
  }
}

static void note_reader(planning *p, const ir_value *v, ir_node *reader) {
  value_plan *plan = plan_of(p, v);
  plan->reader = plan->n_readers++ ? NULL : reader;
}

static void note_readers(planning *p, ir_graph *g) {
  for (size_t i = 0; i < g->nodes.n; i++) {
    ir_node *n = g->nodes.items[i];
    if (n->dead) continue;
    for (int32_t k = 0; k < n->n_inputs; k++)
      if (n->inputs[k]) note_reader(p, n->inputs[k], n);
    for (int32_t k = 0; k < n->n_regions; k++) note_readers(p, n->regions[k]);
  }
  for (int32_t i = 0; i < g->n_results; i++) note_reader(p, g->results[i], NULL);
}

/* ---- islands ---- */

static int32_t root_of(planning *p, int32_t island) {
  while (p->nodes[island].parent != island) island = p->nodes[island].parent = p->nodes[p->nodes[island].parent].parent;
  return island;
}

static void join(planning *p, int32_t a, int32_t b) { p->nodes[root_of(p, a)].parent = root_of(p, b); }

static bool kept(planning *p, int32_t island) {
  const node_plan *root = &p->nodes[root_of(p, island)];
  return root->cost < root->gain;
}

/* Notes that node n reads v in this order, and joins the islands concerned. */
static void want(planning *p, int32_t n, const ir_value *v, const layout_order *order) {
  value_plan *plan = plan_of(p, v);
  if (layout_same(order, &plan->given)) {
    if (order->rank) join(p, n, plan->island);
    return;
  }
  if (!order->rank) {
    plan->wanted_plain = true;
    return;
  }
  if (plan->given.rank) join(p, n, plan->island);
  for (form *f = plan->forms; f; f = f->next)
    if (layout_same(order, &f->order)) {
      join(p, n, f->island);
      return;
    }
  form *f = ir_alloc(p->m, sizeof *f);
  if (!f) {
    p->no_memory = true;
    return;
  }
  *f = (form){.order = *order, .island = n, .next = plan->forms};
  plan->forms = f;
}

/* The weight saved by changing the node itself: a Transpose is removed, a convolution takes less time. */
static double gain_of(const planning *p, const ir_node *n) {
  const node_plan *plan = &p->nodes[n->id];
  if (n->op == op_builtin(OP_Transpose)) return layout_weight(n->outputs[0]);
  if (n->op != op_builtin(OP_Conv) && n->op != op_builtin(OP_ConvTranspose)) return 0;
  return layout_conv_gain(p->m, n, plan->want[0].rank > 0);
}

static bool plan_by_rule(planning *p, ir_node *n, node_plan *plan) {
  const layout_rule *rule = layout_rule_of(n->op);
  if (!rule || !n->n_inputs || !n->n_outputs || !n->outputs[0]) return false;
  layout_order *have = ir_alloc(p->m, sizeof *have * (size_t)n->n_inputs);
  plan->want = ir_alloc(p->m, sizeof *have * (size_t)n->n_inputs);
  plan->give = ir_alloc(p->m, sizeof *have * (size_t)n->n_outputs);
  if (!have || !plan->want || !plan->give) {
    p->no_memory = true;
    return false;
  }
  for (int32_t i = 0; i < n->n_inputs; i++)
    if (n->inputs[i]) have[i] = plan_of(p, n->inputs[i])->given;
  layout_node call = {p->m, n, plan_of(p, n->outputs[0])->reader, have, plan->want, plan->give};
  if (!rule->plan(&call)) return false;
  plan->rule = rule;
  return true;
}

static void plan_graph(planning *p, ir_graph *g) {
  for (size_t i = 0; i < g->nodes.n && !p->no_memory; i++) {
    ir_node *n = g->nodes.items[i];
    static const layout_order plain = {0};
    node_plan *plan = &p->nodes[n->id];
    if (n->dead) continue;
    plan->parent = n->id;
    bool turns = plan_by_rule(p, n, plan);
    for (int32_t k = 0; k < n->n_inputs; k++)
      if (n->inputs[k]) want(p, n->id, n->inputs[k], turns ? &plan->want[k] : &plain);
    for (int32_t k = 0; turns && k < n->n_outputs; k++) {
      if (!n->outputs[k]) continue;
      plan_of(p, n->outputs[k])->given = plan->give[k];
      plan_of(p, n->outputs[k])->island = n->id;
    }
    for (int32_t k = 0; k < n->n_regions; k++) plan_graph(p, n->regions[k]);
  }
  for (int32_t i = 0; i < g->n_results; i++) plan_of(p, g->results[i])->wanted_plain = true;
}

/* ---- savings and costs of islands ---- */

static void weigh_value(planning *p, const ir_value *v) {
  const value_plan *plan = plan_of(p, v);
  double weight = ir_is_constant(v) ? 0 : layout_weight(v);
  if (plan->given.rank && plan->wanted_plain) p->nodes[root_of(p, plan->island)].cost += weight;
  for (const form *f = plan->forms; f; f = f->next) p->nodes[root_of(p, f->island)].cost += weight;
}

static void weigh_graph(planning *p, ir_graph *g) {
  for (int32_t i = 0; i < g->n_params; i++) weigh_value(p, g->params[i]);
  for (size_t i = 0; i < g->nodes.n; i++) {
    ir_node *n = g->nodes.items[i];
    if (n->dead) continue;
    if (p->nodes[n->id].rule) p->nodes[root_of(p, n->id)].gain += gain_of(p, n);
    for (int32_t k = 0; k < n->n_outputs; k++)
      if (n->outputs[k]) weigh_value(p, n->outputs[k]);
    for (int32_t k = 0; k < n->n_regions; k++) weigh_graph(p, n->regions[k]);
  }
}

/* ---- changing the graph ---- */

/* The node after v's definition in its graph; NULL: there is none. */
static ir_node *place_behind(const ir_value *v) {
  if (v->producer) return ir_next(v->producer);
  return v->graph->nodes.n ? v->graph->nodes.items[0] : NULL;
}

static bool set_perm(ir_node *n, const layout_order *order) {
  int64_t perm[REED_MAX_RANK];
  for (int32_t i = 0; i < order->rank; i++) perm[i] = order->axes[i];
  return ir_set_attr_ints(n, "perm", perm, order->rank);
}

/* The type of the stored tensor of a value of type t in this order. */
static ir_type stored_type(const ir_type *t, const layout_order *order) {
  ir_type stored = *t;
  for (int32_t i = 0; i < order->rank; i++) stored.dims[i] = t->dims[order->axes[i]];
  return stored;
}

/* v with axes of extent 1 in front, so that it has this rank; NULL: no memory. */
static ir_value *raised(planning *p, ir_value *v, int32_t rank) {
  int64_t axes[REED_MAX_RANK];
  int32_t n_new = rank - v->type.rank;
  if (!n_new) return v;
  for (int32_t i = 0; i < n_new; i++) axes[i] = i;
  ir_value *inputs[] = {v, ir_constant_i64(p->m, axes, n_new, NULL)};
  ir_node *n =
      inputs[1] ? ir_node_new(v->graph, place_behind(v), op_builtin(OP_Unsqueeze), NULL, inputs, 2, NULL, 1) : NULL;
  if (!n) return NULL;
  ir_type *t = &n->outputs[0]->type;
  *t = (ir_type){.dtype = v->type.dtype, .rank = rank};
  for (int32_t i = 0; i < rank; i++) t->dims[i] = i < n_new ? 1 : v->type.dims[i - n_new];
  return n->outputs[0];
}

/* v in this order, by a Transpose after v's definition if the producer does not store it so; NULL: no memory. */
static ir_value *in_order(planning *p, ir_value *v, const layout_order *order) {
  value_plan *plan = plan_of(p, v);
  if (!order->rank) return v;
  if (plan->stored && layout_same(order, &plan->given)) return plan->stored;
  form *f = plan->forms;
  while (!layout_same(order, &f->order)) f = f->next;
  if (f->made) return f->made;
  ir_value *whole = raised(p, v, order->rank);
  ir_node *n =
      whole ? ir_node_new(whole->graph, place_behind(whole), op_builtin(OP_Transpose), NULL, &whole, 1, NULL, 1) : NULL;
  if (!n || !set_perm(n, order)) return NULL;
  n->outputs[0]->type = stored_type(&whole->type, order);
  return f->made = n->outputs[0];
}

/* Makes n, a Transpose of the stored tensor, give the value in its own order. */
static bool unorder(ir_node *n, const layout_order *order) {
  layout_order back = {.rank = order->rank};
  for (int32_t i = 0; i < order->rank; i++) back.axes[order->axes[i]] = i;
  return set_perm(n, &back);
}

/* Makes output k of n come in another order. A Transpose after n gives the old value to the readers of the value's own
 * order. */
static bool store_output(planning *p, ir_node *n, int32_t k, const layout_order *order) {
  ir_value *v = n->outputs[k], *stored = ir_value_new(n->graph, NULL);
  ir_node *behind = place_behind(v);
  if (!stored) return false;
  stored->type = stored_type(&v->type, order);
  stored->producer = n;
  stored->producer_output = k;
  n->outputs[k] = stored;
  plan_of(p, v)->stored = stored;
  ir_node *back = ir_node_new(n->graph, behind, op_builtin(OP_Transpose), NULL, &stored, 1, &v, 1);
  return back && unorder(back, order);
}

/* Changes a Transpose to read the stored tensor of its input, which is already stored as the Transpose's result. */
static bool turn_transpose(planning *p, ir_node *n, const node_plan *plan) {
  ir_value *stored = in_order(p, n->inputs[0], &plan->want[0]), *v = n->outputs[0];
  plan_of(p, v)->stored = stored;
  if (!stored) return false;
  n->inputs[0] = stored;
  if (plan->give[0].rank) return unorder(n, &plan->give[0]);
  ir_forward(v, stored);
  n->dead = true;
  return true;
}

static bool turn(planning *p, ir_node *n, const node_plan *plan) {
  if (n->op == op_builtin(OP_Transpose)) return turn_transpose(p, n, plan);
  for (int32_t i = 0; i < n->n_inputs; i++)
    if (n->inputs[i] && !(n->inputs[i] = in_order(p, n->inputs[i], &plan->want[i]))) return false;
  layout_node call = {p->m, n, plan_of(p, n->outputs[0])->reader, NULL, plan->want, plan->give};
  if (plan->rule->edit && !plan->rule->edit(&call)) return false;
  for (int32_t k = 0; k < n->n_outputs; k++)
    if (n->outputs[k] && plan->give[k].rank && !store_output(p, n, k, &plan->give[k])) return false;
  p->n_reordered++;
  return true;
}

static reed_status visit(void *context, ir_node *n) {
  planning *p = context;
  const node_plan *plan = &p->nodes[n->id];
  if (!n->id || !plan->rule || !kept(p, n->id)) return REED_OK;
  p->n_islands += root_of(p, n->id) == n->id;
  n->id = 0; /* marks the node as done, because the walk meets it again after nodes are inserted before it */
  return turn(p, n, plan) ? REED_OK : diag_no_memory(p->m->diagnosis, "layout");
}

reed_status pass_layout(ir_module *m, pass_report *report) {
  planning p = {.m = m};
  for (size_t i = 0; i < m->constants.n; i++) number_value(&p, m->constants.items[i]);
  number_graph(&p, m->main);
  p.values = mem_calloc((size_t)p.n_values + 1, sizeof *p.values);
  p.nodes = mem_calloc((size_t)p.n_nodes + 1, sizeof *p.nodes);
  p.no_memory = !p.values || !p.nodes;
  if (!p.no_memory) {
    note_readers(&p, m->main);
    plan_graph(&p, m->main);
  }
  reed_status status = p.no_memory ? diag_no_memory(m->diagnosis, "layout") : REED_OK;
  if (status == REED_OK) {
    weigh_graph(&p, m->main);
    status = ir_walk(m->main, true, visit, &p);
  }
  ir_settle(m);
  ir_sweep(m);
  mem_free(p.values);
  mem_free(p.nodes);
  *report = (pass_report){.counts = {{"operators on reordered axes", p.n_reordered}, {"islands of them", p.n_islands}}};
  return status;
}
