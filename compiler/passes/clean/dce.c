/* Dead code elimination: removes nodes without a used output, unused optional outputs, unused results of bodies, and
 * constants without users. Equal computations: cse.c. */
#include <string.h>

#include "compiler/ir/pass.h"

/* Removes result `r` of a body (drop_result) and output `o` of its node (drop_output). */
static void drop_result(ir_graph *body, int32_t r) {
  body->results[r]->n_uses--;
  body->n_results--;
  memmove(&body->results[r], &body->results[r + 1], (size_t)(body->n_results - r) * sizeof *body->results);
}

static void drop_output(ir_node *n, int32_t o) {
  n->n_outputs--;
  memmove(&n->outputs[o], &n->outputs[o + 1], (size_t)(n->n_outputs - o) * sizeof *n->outputs);
  for (int32_t i = o; i < n->n_outputs; i++)
    if (n->outputs[i]) n->outputs[i]->producer_output = i;
}

static bool used(const ir_value *v) { return v && v->n_uses; }

/* Removes unused results of bodies: any result of an If, but only scan outputs of a Loop, because a carried value may
 * feed the next round. */
static int64_t trim_results(ir_node *n) {
  int64_t n_changes = 0;
  bool is_if = n->op == op_builtin(OP_If);
  int32_t first = is_if ? 0 : n->n_inputs - 2;
  for (int32_t i = n->n_outputs - 1; i >= first; i--) {
    if (used(n->outputs[i])) continue;
    for (int32_t k = 0; k < n->n_regions; k++) drop_result(n->regions[k], is_if ? i : i + 1);
    drop_output(n, i);
    n_changes++;
  }
  return n_changes;
}

static int64_t trim_outputs(ir_node *n) {
  int64_t n_changes = 0;
  for (int32_t i = 0; i < n->n_outputs; i++) {
    if (!n->outputs[i] || n->outputs[i]->n_uses || !reed_op_output_at(n->op, i)->optional) continue;
    n->outputs[i] = NULL;
    n_changes++;
  }
  while (n->n_outputs && !n->outputs[n->n_outputs - 1] && reed_op_output_at(n->op, n->n_outputs - 1)->optional)
    n->n_outputs--;
  return n_changes;
}

static void release_graph(ir_graph *g);

static void release_node(ir_node *n) {
  n->dead = true;
  for (int32_t k = 0; k < n->n_inputs; k++)
    if (n->inputs[k]) n->inputs[k]->n_uses--;
  for (int32_t k = 0; k < n->n_regions; k++) release_graph(n->regions[k]);
}

/* Takes back the uses by a removed body's nodes and results. */
static void release_graph(ir_graph *g) {
  for (size_t i = 0; i < g->nodes.n; i++)
    if (!g->nodes.items[i]->dead) release_node(g->nodes.items[i]);
  for (int32_t i = 0; i < g->n_results; i++) g->results[i]->n_uses--;
}

static bool needed(const ir_node *n) {
  if (n->op->impure) return true;
  for (int32_t i = 0; i < n->n_outputs; i++)
    if (used(n->outputs[i])) return true;
  return false;
}

/* Goes from the last node to the first, because users come after the nodes that they use. */
static int64_t clean(ir_graph *g) {
  int64_t n_changes = 0;
  for (size_t i = g->nodes.n; i-- > 0;) {
    ir_node *n = g->nodes.items[i];
    if (n->dead) continue;
    if (!needed(n)) {
      release_node(n);
      n_changes++;
      continue;
    }
    n_changes += op_is_control(n->op) ? trim_results(n) : trim_outputs(n);
    for (int32_t k = 0; k < n->n_regions; k++) n_changes += clean(n->regions[k]);
  }
  return n_changes;
}

reed_status pass_dce(ir_module *m, pass_report *report) {
  ir_count_uses(m);
  *report = (pass_report){.counts = {{"unused operators and outputs removed", clean(m->main)}}};
  ir_sweep(m);
  size_t kept = 0;
  for (size_t i = 0; i < m->constants.n; i++)
    if (m->constants.items[i]->n_uses) m->constants.items[kept++] = m->constants.items[i];
  m->constants.n = kept;
  return REED_OK;
}
