/* Placement: the device of every value and every operator, decided from what shape functions read. The times at which
 * operators run are decided in epochs.c.
 *
 * The host's set is the largest set of operators that satisfies the rules below. It starts with all candidates; every
 * sweep removes the operators and values that break a rule. A value is removed at most once, so the sweeps end. Rules
 * (docs/epochs.md, "Host values and device values"):
 *   - Shape and Size are host operators.
 *   - A candidate is a light operator with exact outputs and small operands and results. It stays on the host when the
 * host reads its results and it has no operand on the device, because it then costs no copy but that of its result.
 *   - A candidate with tiny operands on the device stays when its results feed shapes and only the host uses them: the
 * operand is read back instead of each of its descendants. Larger operands are not read back, because the elements of a
 * read-back value become part of a key: the fewer elements, the more often the memo has the epoch's shapes. A result
 * that only decides whether a Loop goes on is computed on the accelerator, because it then needs no epoch of its own.
 *   - A candidate with tiny results computed from extents and constants alone always stays, because its result is
 * remembered with the shapes.
 *   - An If's output and a Loop's carried value or scan output stay when the host reads them and all values joined into
 * them are on the host.
 *
 * Afterwards the operators without a kernel on the accelerator (ops/capability.h) become late host operators. Their
 * neighbours follow where their data would only travel to the accelerator and back: light operators whose operands are
 * all on the host, some of them late, and whose results are wanted on the host; and the Ifs and Loops that pass such
 * values on. */
#include <string.h>

#include "compiler/lower/place.h"

#define SMALL_ELEMENTS 4096 /* the limit for a tensor computed in a shape section */
#define TINY_ELEMENTS 64    /* the limit for shape arithmetic and for a tensor read back for it */
#define UNKNOWN_EXTENT 64   /* the guess for an extent that is not known */

/* The reason why the host reads a value, directly or through candidates. */
enum { FEEDS_SHAPES = 1, FEEDS_LOOPS = 2 /* trip counts and conditions */ };

/* One use of a value: operand `index` of a node, or result `index` of a graph. */
typedef struct use {
  ir_node *node; /* NULL: a result */
  ir_graph *graph;
  int32_t index, next; /* next use of the same value; -1 */
} use;

typedef struct placing {
  ir_module *m;
  VEC_OF(ir_node *) nodes; /* in topological order; the nodes of a region come before the node that has the region */
  VEC_OF(use) uses;
  VEC_OF(ir_value *) values; /* by id */
  VEC_OF(ir_value *) work;
  int32_t *first_use; /* by value id */
  uint8_t *feeds;     /* by value id */
  bool *extents;      /* by value id: tiny, and computed from extents and constants alone */
  bool *candidate;    /* by node id */
  bool *lacking;      /* by node id: the accelerator has no kernel for it */
} placing;

reed_reads place_reads(const ir_node *n, int32_t i) {
  const reed_attrs attrs = ir_attrs(n);
  return op_reads(n->op, &attrs, i);
}

int32_t place_of_node(const ir_node *n) {
  for (int32_t i = 0; i < n->n_outputs; i++)
    if (n->outputs[i]) return n->outputs[i]->device;
  return 1;
}

bool place_is_early(const ir_node *n) {
  for (int32_t i = 0; i < n->n_outputs; i++)
    if (n->outputs[i]) return n->outputs[i]->device == 0 && !n->outputs[i]->late;
  return false;
}

static int64_t elements_guess(const ir_value *v) {
  int64_t n = v->type.rank < 0 ? UNKNOWN_EXTENT : 1;
  for (int32_t i = 0; i < v->type.rank; i++)
    if (__builtin_mul_overflow(n, symbol_is(v->type.dims[i]) ? UNKNOWN_EXTENT : v->type.dims[i], &n)) return INT64_MAX;
  return n;
}

static bool is_tiny(const ir_value *v) {
  for (int32_t i = 0; i < v->type.rank; i++)
    if (symbol_is(v->type.dims[i])) return false;
  return v->type.rank >= 0 && elements_guess(v) <= TINY_ELEMENTS;
}

static bool on_host(const ir_value *v) { return ir_is_constant(v) || v->device == 0; }

/* ---- numbering and uses ---- */

static bool number_value(placing *p, ir_value *v, int32_t device) {
  v->id = (int32_t)p->values.n;
  v->device = device;
  v->late = false;
  return VEC_PUSH(&p->values, v);
}

static bool add_use(placing *p, ir_value *v, use u) {
  u.next = p->first_use[v->id];
  p->first_use[v->id] = (int32_t)p->uses.n;
  return VEC_PUSH(&p->uses, u);
}

static bool number_graph(placing *p, ir_graph *g) {
  for (int32_t i = 0; i < g->n_params; i++)
    if (!number_value(p, g->params[i], 0)) return false;
  for (size_t k = 0; k < g->nodes.n; k++) {
    ir_node *n = g->nodes.items[k];
    for (int32_t i = 0; i < n->n_regions; i++)
      if (!number_graph(p, n->regions[i])) return false;
    for (int32_t i = 0; i < n->n_outputs; i++)
      if (n->outputs[i] && !number_value(p, n->outputs[i], 0)) return false;
    n->id = (int32_t)p->nodes.n;
    if (!VEC_PUSH(&p->nodes, n)) return false;
  }
  return true;
}

static bool use_graph(placing *p, ir_graph *g) {
  for (size_t k = 0; k < g->nodes.n; k++) {
    ir_node *n = g->nodes.items[k];
    for (int32_t i = 0; i < n->n_inputs; i++)
      if (n->inputs[i] && !add_use(p, n->inputs[i], (use){.node = n, .index = i})) return false;
    for (int32_t i = 0; i < n->n_regions; i++)
      if (!use_graph(p, n->regions[i])) return false;
  }
  for (int32_t i = 0; i < g->n_results; i++)
    if (!add_use(p, g->results[i], (use){.graph = g, .index = i})) return false;
  return true;
}

static reed_status gather(placing *p) {
  for (size_t i = 0; i < p->m->constants.n; i++)
    if (!number_value(p, p->m->constants.items[i], -1)) return diag_no_memory(p->m->diagnosis, "placement");
  if (!number_graph(p, p->m->main)) return diag_no_memory(p->m->diagnosis, "placement");
  size_t n = p->values.n;
  p->first_use = mem_alloc(n * sizeof *p->first_use);
  p->feeds = mem_calloc(n, sizeof *p->feeds);
  p->extents = mem_calloc(n, sizeof *p->extents);
  p->candidate = mem_calloc(p->nodes.n, sizeof *p->candidate);
  p->lacking = mem_calloc(p->nodes.n, sizeof *p->lacking);
  if (!p->first_use || !p->feeds || !p->extents || !p->candidate || !p->lacking)
    return diag_no_memory(p->m->diagnosis, "placement");
  for (size_t i = 0; i < n; i++) p->first_use[i] = -1;
  return use_graph(p, p->m->main) ? REED_OK : diag_no_memory(p->m->diagnosis, "placement");
}

/* ---- candidates for the host ---- */

/* True for a value whose elements may be part of a key, as those of a host operator's operands are. A model input must
 * be an integer or bool tensor of few elements (sizes, indices), because float data that differs in every run would
 * make every run a new shape. */
static bool fits_key(const ir_value *v) {
  if (v->producer || v->graph->parent || ir_is_constant(v)) return elements_guess(v) <= SMALL_ELEMENTS;
  bool floating =
      v->type.dtype == REED_F32 || v->type.dtype == REED_F64 || v->type.dtype == REED_F16 || v->type.dtype == REED_BF16;
  return !floating && elements_guess(v) <= TINY_ELEMENTS;
}

static bool is_candidate(const ir_node *n) {
  if (op_is_control(n->op) || !n->op->light || (op_id_of(n->op) == OP_COUNT && !n->op->cpu))
    return false; /* a custom operator may have no kernel on the host; a built-in one has */
  for (int32_t i = 0; i < n->n_inputs; i++)
    if (n->inputs[i] && !(place_reads(n, i) & REED_READS_VALUE) && !fits_key(n->inputs[i])) return false;
  for (int32_t i = 0; i < n->n_outputs; i++) {
    const reed_op_output *declared = reed_op_output_at(n->op, i);
    if (!declared || declared->bounded || (n->outputs[i] && elements_guess(n->outputs[i]) > SMALL_ELEMENTS))
      return false;
  }
  return true;
}

/* Marks candidates, and tiny values computed from extents and constants alone, in one walk forward. */
static void find_candidates(placing *p) {
  for (size_t k = 0; k < p->nodes.n; k++) {
    ir_node *n = p->nodes.items[k];
    bool extents = p->candidate[k] = is_candidate(n);
    for (int32_t i = 0; i < n->n_inputs && extents; i++)
      extents = !n->inputs[i] || ir_is_constant(n->inputs[i]) || p->extents[n->inputs[i]->id];
    extents |= op_has(n->op, REED_OP_EXTENTS_ONLY);
    for (int32_t i = 0; i < n->n_outputs && extents; i++) extents = !n->outputs[i] || is_tiny(n->outputs[i]);
    for (int32_t i = 0; i < n->n_outputs; i++)
      if (n->outputs[i]) p->extents[n->outputs[i]->id] = extents;
  }
}

static bool feed(placing *p, ir_value *v, uint8_t who) {
  if (!v || ir_is_constant(v) || (p->feeds[v->id] & who) == who) return true;
  p->feeds[v->id] |= who;
  return VEC_PUSH(&p->work, v);
}

static bool feed_seeds(placing *p) {
  for (size_t k = 0; k < p->nodes.n; k++) {
    ir_node *n = p->nodes.items[k];
    bool loop = op_id_of(n->op) == OP_Loop;
    for (int32_t i = 0; i < n->n_inputs; i++)
      if (n->inputs[i] && (place_reads(n, i) & REED_READS_VALUE) &&
          !feed(p, n->inputs[i], loop ? FEEDS_LOOPS : FEEDS_SHAPES))
        return false;
    if (loop && !feed(p, n->regions[0]->results[0], FEEDS_LOOPS)) return false;
  }
  return true;
}

/* Marks the values that v is computed from, or joined from, with the reasons for which the host reads v. */
static bool feed_sources(placing *p, ir_value *v) {
  const ir_node *n = v->producer, *loop = v->graph->parent;
  uint8_t who = p->feeds[v->id];
  if (!n) { /* a parameter: a Loop's carried value is joined from its initial value and the body's result */
    for (int32_t k = 2; loop && k < v->graph->n_params; k++)
      if (v->graph->params[k] == v) return feed(p, loop->inputs[k], who) && feed(p, v->graph->results[k - 1], who);
    return true;
  }
  int32_t k = v->producer_output;
  if (op_id_of(n->op) == OP_If)
    return feed(p, n->regions[0]->results[k], who) && feed(p, n->regions[1]->results[k], who);
  if (op_id_of(n->op) == OP_Loop) {
    ir_graph *body = n->regions[0];
    return k + 2 < body->n_params ? feed(p, body->params[k + 2], who) : feed(p, body->results[k + 1], who);
  }
  if (!p->candidate[n->id] || op_has(n->op, REED_OP_EXTENTS_ONLY)) return true;
  for (int32_t i = 0; i < n->n_inputs; i++)
    if (n->inputs[i] && !feed(p, n->inputs[i], who)) return false;
  return true;
}

static reed_status find_feeds(placing *p) {
  bool ok = feed_seeds(p);
  while (ok && p->work.n) ok = feed_sources(p, p->work.items[--p->work.n]);
  return ok ? REED_OK : diag_no_memory(p->m->diagnosis, "placement");
}

/* ---- the host's set ---- */

/* True for a use that reads the value on the host, or that can read it on either device. */
static bool host_use(const use *u) {
  if (u->node) {
    const ir_node *n = u->node;
    if ((place_reads(n, u->index) & REED_READS_VALUE) || op_has(n->op, REED_OP_EXTENTS_ONLY)) return true;
    if (op_id_of(n->op) == OP_Loop) return n->regions[0]->params[u->index]->device == 0;
    return place_of_node(n) == 0;
  }
  const ir_node *parent = u->graph->parent;
  if (!parent) return true; /* the outputs of a model are read back to the host in any case */
  bool loop = op_id_of(parent->op) == OP_Loop;
  if (loop && u->index == 0) return true;
  if (loop && u->index + 1 < u->graph->n_params) return u->graph->params[u->index + 1]->device == 0;
  int32_t k = loop ? u->index - 1 : u->index;
  const ir_value *joined = k < parent->n_outputs ? parent->outputs[k] : NULL;
  return !joined || joined->device == 0;
}

static bool only_host_uses(const placing *p, const ir_value *v) {
  for (int32_t i = p->first_use[v->id]; i >= 0; i = p->uses.items[i].next)
    if (!host_use(&p->uses.items[i])) return false;
  return true;
}

static bool operator_on_host(const placing *p, const ir_node *n) {
  if (op_has(n->op, REED_OP_EXTENTS_ONLY)) return true;
  if (!p->candidate[n->id]) return false;
  bool no_device_operand = true, tiny_operands = true, only_host = true, extents = true;
  uint8_t feeds = 0;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    const ir_value *v = n->inputs[i];
    if (!v || (place_reads(n, i) & REED_READS_VALUE) || on_host(v)) continue;
    no_device_operand = false;
    tiny_operands &= is_tiny(v);
  }
  for (int32_t i = 0; i < n->n_outputs; i++) {
    const ir_value *v = n->outputs[i];
    if (!v) continue;
    feeds |= p->feeds[v->id];
    extents &= p->extents[v->id];
    only_host &= only_host_uses(p, v);
  }
  return extents || (feeds && no_device_operand) || ((feeds & FEEDS_SHAPES) && only_host && tiny_operands);
}

static bool demote(ir_value *v, bool keep) {
  if (!v || v->device == 1 || keep) return false;
  v->device = 1;
  v->late = false;
  return true;
}

/* Moves the node's outputs (and a Loop's carried values) that break a rule from the host to the device. True when a
 * value was moved. */
static bool check_node(const placing *p, ir_node *n) {
  bool changed = false;
  switch ((int)op_id_of(n->op)) {
    case OP_If:
      for (int32_t k = 0; k < n->n_outputs; k++) {
        ir_value *v = n->outputs[k];
        if (v)
          changed |=
              demote(v, p->feeds[v->id] && on_host(n->regions[0]->results[k]) && on_host(n->regions[1]->results[k]));
      }
      return changed;
    case OP_Loop: {
      ir_graph *body = n->regions[0];
      int32_t n_carried = body->n_params - 2;
      for (int32_t k = 0; k < n_carried; k++) {
        changed |= demote(body->params[k + 2], p->feeds[body->params[k + 2]->id] && on_host(body->results[k + 1]));
        if (k < n->n_outputs && n->outputs[k]) changed |= demote(n->outputs[k], body->params[k + 2]->device == 0);
      }
      for (int32_t k = n_carried; k < n->n_outputs; k++)
        if (n->outputs[k])
          changed |= demote(n->outputs[k], p->feeds[n->outputs[k]->id] && on_host(body->results[k + 1]));
      return changed;
    }
    default: {
      bool keep = operator_on_host(p, n);
      for (int32_t k = 0; k < n->n_outputs; k++) changed |= demote(n->outputs[k], keep);
      return changed;
    }
  }
}

/* Sweeps back and forth in turn, because a move off the host affects producers through their uses and users through
 * joins. */
static void settle(const placing *p) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t k = p->nodes.n; k-- > 0;) changed |= check_node(p, p->nodes.items[k]);
    for (size_t k = 0; k < p->nodes.n; k++) changed |= check_node(p, p->nodes.items[k]);
  }
}

/* ---- late host operators ---- */

/* True for an operator whose output 0 is a view of input 0, so that no kernel runs. */
static bool is_view(const ir_node *n) {
  if (n->op->alias != REED_ALIAS_VIEW) return false;
  for (int32_t i = 1; i < n->n_outputs; i++)
    if (n->outputs[i] && n->outputs[i]->n_uses) return false;
  return true;
}

static reed_status find_lacking(placing *p) {
  for (size_t k = 0; k < p->nodes.n; k++) {
    const ir_node *n = p->nodes.items[k];
    if (op_is_control(n->op) || op_has(n->op, REED_OP_EXTENTS_ONLY) || is_view(n)) continue;
    reed_dtype dtypes[2 * REED_MAX_OPERANDS];
    reed_attrs attrs = ir_attrs(n);
    capability_call call = ir_call(n, &attrs, dtypes);
    p->lacking[k] = !capability_has(p->m->targets, &call);
    if (p->lacking[k] && op_id_of(n->op) == OP_COUNT && !n->op->cpu)
      return diag_fail(p->m->diagnosis, REED_ERROR_UNSUPPORTED,
                       "%s node '%s' has a kernel neither on '%s' nor on the host", n->op->name, n->name,
                       capability_text(p->m->targets));
  }
  return REED_OK;
}

static bool is_late(const ir_value *v) { return v && !ir_is_constant(v) && v->late; }

static bool make_late(ir_value *v) {
  if (!v || v->device != 1) return false;
  v->device = 0;
  v->late = true;
  return true;
}

/* True for a light operator whose operands are all on the host and some of them late: the operator may become late. */
static bool follows_late(const ir_node *n) {
  if (!n->op->light || (op_id_of(n->op) == OP_COUNT && !n->op->cpu)) return false;
  bool late = false;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    if (!n->inputs[i] || (place_reads(n, i) & REED_READS_VALUE)) continue;
    if (!on_host(n->inputs[i])) return false;
    late |= is_late(n->inputs[i]);
  }
  return late;
}

static bool joins_late(const ir_value *a, const ir_value *b) {
  return on_host(a) && on_host(b) && (is_late(a) || is_late(b));
}

/* True for a carried value that the body passes on unchanged and that nothing on the accelerator reads. */
static bool only_carried(const placing *p, const ir_graph *body, int32_t k) {
  ir_value *v = body->params[k];
  if (body->results[k - 1] != v || v->n_uses < 2) return false;
  int32_t before = v->device;
  v->device = 0; /* the value's own use as a result of the body asks for the parameter's device */
  bool only = only_host_uses(p, v);
  v->device = before;
  return only;
}

/* One step towards the largest set of late values: `grow` adds results of operators that lack a kernel, or that follow
 * late operands; otherwise the step removes results that the accelerator reads. True when a value has changed. */
static bool settle_late(const placing *p, ir_node *n, bool grow) {
  bool changed = false;
  ir_graph *body = n->n_regions ? n->regions[0] : NULL;
  switch ((int)op_id_of(n->op)) {
    case OP_If:
      for (int32_t k = 0; k < n->n_outputs; k++) {
        bool late = joins_late(body->results[k], n->regions[1]->results[k]);
        if (grow && late) changed |= make_late(n->outputs[k]);
        if (!grow && is_late(n->outputs[k])) changed |= demote(n->outputs[k], late);
      }
      break;
    case OP_Loop:
      for (int32_t k = 2; k < body->n_params; k++) {
        ir_value *v = body->params[k], *output = k - 2 < n->n_outputs ? n->outputs[k - 2] : NULL;
        bool late = body->results[k - 1] == v ? only_carried(p, body, k) : is_late(body->results[k - 1]);
        if (grow && late) changed |= make_late(v);
        if (!grow && is_late(v)) changed |= demote(v, late);
        if (grow && is_late(v)) changed |= make_late(output);
        if (!grow && is_late(output)) changed |= demote(output, v->device == 0);
      }
      for (int32_t k = body->n_params - 2; k < n->n_outputs; k++) {
        if (grow && is_late(body->results[k + 1])) changed |= make_late(n->outputs[k]);
        if (!grow && is_late(n->outputs[k])) changed |= demote(n->outputs[k], is_late(body->results[k + 1]));
      }
      break;
    default: {
      bool late = p->lacking[n->id] || follows_late(n);
      for (int32_t k = 0; late && !grow && !p->lacking[n->id] && k < n->n_outputs; k++)
        late = !is_late(n->outputs[k]) || only_host_uses(p, n->outputs[k]);
      for (int32_t k = 0; k < n->n_outputs; k++) {
        if (grow && late) changed |= make_late(n->outputs[k]);
        if (!grow && is_late(n->outputs[k])) changed |= demote(n->outputs[k], late);
      }
    }
  }
  return changed;
}

static void place_late(const placing *p) {
  for (int grow = 1; grow >= 0; grow--)
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t k = 0; k < p->nodes.n; k++) changed |= settle_late(p, p->nodes.items[k], grow);
    }
}

void place_new_constants(ir_module *m, size_t first, place_counts *counts) {
  for (size_t i = first; i < m->constants.n; i++) {
    m->constants.items[i]->id = counts->n_values++;
    m->constants.items[i]->device = -1;
  }
}

static void count(const placing *p, place_counts *out_counts) {
  *out_counts = (place_counts){.n_values = (int32_t)p->values.n, .n_nodes = (int32_t)p->nodes.n};
  for (size_t k = 0; k < p->nodes.n; k++) {
    const ir_node *n = p->nodes.items[k];
    if (op_id_of(n->op) == OP_Loop)
      for (int32_t i = 2; i < n->regions[0]->n_params; i++)
        out_counts->host_loop_values += n->regions[0]->params[i]->device == 0;
    else if (!op_is_control(n->op))
      *(place_of_node(n) == 0 ? &out_counts->host_operators : &out_counts->device_operators) += 1;
    if (!op_is_control(n->op)) out_counts->late_operators += place_of_node(n) == 0 && !place_is_early(n);
  }
}

reed_status place_module(ir_module *m, place_counts *out_counts) {
  placing p = {.m = m};
  reed_status status = gather(&p);
  if (status == REED_OK) status = find_lacking(&p);
  if (status == REED_OK) find_candidates(&p);
  if (status == REED_OK) status = find_feeds(&p);
  if (status == REED_OK) {
    settle(&p);
    place_late(&p);
    count(&p, out_counts);
  }
  VEC_FREE(&p.nodes);
  VEC_FREE(&p.uses);
  VEC_FREE(&p.values);
  VEC_FREE(&p.work);
  mem_free(p.first_use);
  mem_free(p.feeds);
  mem_free(p.extents);
  mem_free(p.candidate);
  mem_free(p.lacking);
  return status;
}
