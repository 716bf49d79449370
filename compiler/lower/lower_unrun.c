/* Scan outputs of a Loop that ran no round. The shape functions of the first round, called with the extents of the
 * values with which the Loop was entered, give the extents of an element.
 *
 *      seq.length s; branch.if s, ran
 *      shape ...                      nodes of the body on which an element's extents depend
 *      shape Unsqueeze, shape Slice   the element with an axis of extent 0 in front
 *   ran: ...
 *
 * Only kernels of early host operators run, because shape functions read their elements. Extents that only another
 * kernel of the body could tell (elements computed by the accelerator, a bounded extent) stay unknown: such an output
 * gets the extents that the compiler knows, and 0 for the others. Nothing is emitted where the compiler knows all
 * extents.
 *
 * The Loop itself: lower_loop.c. */
#include <string.h>

#include "bytecode/insn.h"
#include "compiler/lower/lower_unrun.h"

enum { EXTENTS = 1, ELEMENTS = 2 };

typedef struct unrun {
  lower *l;
  const flow_item *loop;
  uint8_t *need, *have; /* by value id */
  uint32_t *reg;        /* by value id, of values inside the body; + 1 */
  VEC_OF(uint32_t) taken;
} unrun;

/* True for a value defined in the body or in a region inside the body. */
static bool is_inside(const unrun *u, const ir_value *v) {
  if (ir_is_constant(v)) return false;
  for (const ir_graph *g = v->graph; g; g = g->parent ? g->parent->graph : NULL)
    if (g == u->loop->body->graph) return true;
  return false;
}

static void ask(unrun *u, const ir_value *v, uint8_t what) {
  if (v && is_inside(u, v)) u->need[v->id] |= what;
}

static uint8_t asked(const unrun *u, const ir_node *n) {
  uint8_t what = 0;
  for (int32_t i = 0; i < n->n_outputs; i++)
    if (n->outputs[i]) what |= u->need[n->outputs[i]->id];
  return what;
}

static uint8_t operand_needs(const ir_node *n, int32_t i, uint8_t what) {
  reed_reads reads = place_reads(n, i);
  uint8_t needs = reads & REED_READS_VALUE ? EXTENTS | ELEMENTS : reads ? EXTENTS : 0;
  if (what & ELEMENTS) needs |= op_has(n->op, REED_OP_EXTENTS_ONLY) ? EXTENTS : EXTENTS | ELEMENTS;
  return needs;
}

static int32_t n_carried_of(const ir_node *loop) { return loop->regions[0]->n_params - 2; }

/* ---- needed values, from the results back ---- */

static void mark(unrun *u, const ir_graph *g) {
  for (size_t k = g->nodes.n; k-- > 0;) {
    const ir_node *n = g->nodes.items[k];
    uint8_t what = asked(u, n);
    if (!what) continue;
    switch ((int)op_id_of(n->op)) {
      case OP_If:
        ask(u, n->inputs[0], EXTENTS | ELEMENTS);
        for (int side = 0; side < 2; side++) {
          for (int32_t i = 0; i < n->n_outputs; i++)
            if (n->outputs[i]) ask(u, n->regions[side]->results[i], u->need[n->outputs[i]->id]);
          mark(u, n->regions[side]);
        }
        break;
      case OP_Loop: {
        const ir_graph *body = n->regions[0];
        int32_t n_carried = n_carried_of(n);
        if (n->inputs[0]) ask(u, n->inputs[0], EXTENTS | ELEMENTS);
        for (int32_t i = 0; i < n->n_outputs; i++) {
          if (!n->outputs[i] || !u->need[n->outputs[i]->id]) continue;
          if (i < n_carried) ask(u, n->inputs[i + 2], EXTENTS);
          else ask(u, body->results[i + 1], EXTENTS);
        }
        mark(u, body);
        for (int32_t i = 2; i < body->n_params; i++) ask(u, n->inputs[i], u->need[body->params[i]->id]);
        break;
      }
      default:
        for (int32_t i = 0; i < n->n_inputs; i++) ask(u, n->inputs[i], operand_needs(n, i, what));
    }
  }
}

/* ---- available values, in the order of the nodes ---- */

static uint8_t has(const unrun *u, const ir_value *v) {
  return v && is_inside(u, v) ? u->have[v->id] : EXTENTS | ELEMENTS;
}

static bool is_true(const ir_value *v) { return !v || (ir_is_constant(v) && lower_constant_item(v) != 0); }

static void find(unrun *u, const ir_graph *g);

static void find_if(unrun *u, const ir_node *n) {
  for (int side = 0; side < 2; side++) find(u, n->regions[side]);
  for (int32_t i = 0; i < n->n_outputs; i++)
    if (n->outputs[i] && has(u, n->inputs[0]) & ELEMENTS)
      u->have[n->outputs[i]->id] = has(u, n->regions[0]->results[i]) & has(u, n->regions[1]->results[i]);
}

static bool same_extents(const ir_value *a, const ir_value *b) {
  return a->type.rank >= 0 && a->type.rank == b->type.rank &&
         memcmp(a->type.dims, b->type.dims, sizeof(reed_dim) * (size_t)a->type.rank) == 0;
}

static void find_loop(unrun *u, const ir_node *n) {
  const ir_graph *body = n->regions[0];
  int32_t n_carried = n_carried_of(n);
  for (int32_t i = 0; i < body->n_params; i++)
    u->have[body->params[i]->id] = i < 2 ? EXTENTS | ELEMENTS : has(u, n->inputs[i]);
  find(u, body);
  bool goes_on = is_true(body->results[0]) || body->results[0] == body->params[1];
  bool counted =
      n->inputs[0] && has(u, n->inputs[0]) & ELEMENTS && is_true(n->n_inputs > 1 ? n->inputs[1] : NULL) && goes_on;
  for (int32_t i = 0; i < n->n_outputs; i++) {
    if (!n->outputs[i]) continue;
    uint8_t *have = &u->have[n->outputs[i]->id];
    if (i < n_carried) *have = same_extents(n->outputs[i], n->inputs[i + 2]) ? has(u, n->inputs[i + 2]) & EXTENTS : 0;
    else *have = counted && !n->outputs[i]->joined ? has(u, body->results[i + 1]) & EXTENTS : 0;
  }
}

static void find_operator(unrun *u, const ir_node *n) {
  uint8_t what = asked(u, n), have = place_is_early(n) ? what : what & EXTENTS;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    if (!n->inputs[i]) continue;
    uint8_t got = has(u, n->inputs[i]);
    for (uint8_t bit = EXTENTS; bit <= ELEMENTS; bit <<= 1)
      if (operand_needs(n, i, bit) & ~got) have &= (uint8_t)~bit;
  }
  for (int32_t i = 0; i < n->n_outputs; i++) {
    const reed_op_output *declared = reed_op_output_at(n->op, i);
    if (!declared || declared->bounded) have = 0;
  }
  if (!(have & EXTENTS)) have = 0;
  for (int32_t i = 0; i < n->n_outputs; i++)
    if (n->outputs[i]) u->have[n->outputs[i]->id] = have;
}

static void find(unrun *u, const ir_graph *g) {
  for (size_t k = 0; k < g->nodes.n; k++) {
    const ir_node *n = g->nodes.items[k];
    if (!asked(u, n)) continue;
    op_id id = op_id_of(n->op);
    if (id == OP_If) find_if(u, n);
    else if (id == OP_Loop) find_loop(u, n);
    else find_operator(u, n);
  }
}

/* ---- code ---- */

static uint32_t take(unrun *u) {
  uint32_t reg = lower_take_r(u->l);
  if (!VEC_PUSH(&u->taken, reg)) u->l->no_memory = true;
  return reg;
}

/* Kills the registers taken after `since`, at the end of the path that took them. */
static void drop(unrun *u, size_t since) {
  while (u->taken.n > since) lower_kill_r(u->l, u->taken.items[--u->taken.n]);
}

/* The register of a value that a user on `device` reads. */
static uint32_t reg_of(unrun *u, const ir_value *v, int32_t device) {
  if (is_inside(u, v)) return u->reg[v->id] - 1;
  if (!ir_is_constant(v)) return u->l->f.values[v->id].on[device]->reg;
  uint32_t reg = take(u);
  lower_constant_to(u->l, reg, v, device);
  return reg;
}

static void emit_nodes(unrun *u, const ir_graph *g);

static void emit_node(unrun *u, const ir_node *n) {
  lower *l = u->l;
  uint32_t site = lower_site(l, n), device = (uint32_t)place_of_node(n), outputs[REED_MAX_OPERANDS],
           inputs[REED_MAX_OPERANDS], flagged[REED_MAX_OPERANDS];
  uint8_t have = 0;
  for (int32_t i = 0; i < n->n_outputs; i++) {
    const reed_op_output *declared = reed_op_output_at(n->op, i);
    const ir_value *v = n->outputs[i] && n->outputs[i]->n_uses ? n->outputs[i] : NULL;
    outputs[i] = v || !declared->optional ? take(u) : MODULE_ABSENT;
    if (n->outputs[i]) {
      have |= u->have[n->outputs[i]->id];
      u->reg[n->outputs[i]->id] = outputs[i] + 1;
    }
  }
  for (int32_t i = 0; i < n->n_inputs; i++) {
    /* an empty tensor replaces an unknown operand that the call does not read */
    uint8_t needs = operand_needs(n, i, have);
    bool known = n->inputs[i] && (!needs || !(needs & ~has(u, n->inputs[i])));
    if (known && is_inside(u, n->inputs[i]) && !u->reg[n->inputs[i]->id]) {
      u->reg[n->inputs[i]->id] = take(u) + 1;
      lower_empty_to(l, u->reg[n->inputs[i]->id] - 1, 0);
    }
    inputs[i] = n->inputs[i] ? reg_of(u, n->inputs[i], flow_operand_device(n, i)) : MODULE_ABSENT;
    flagged[i] = inputs[i] | (uint32_t)place_reads(n, i) << 24;
  }
  EMIT(l, shape, n->name, .site = site, .device = device, .n_outputs = (uint32_t)n->n_outputs, .outputs = outputs,
       .n_inputs = (uint32_t)n->n_inputs, .inputs = flagged);
  if (have & ELEMENTS)
    EMIT(l, invoke, n->name, .site = site, .device = device, .n_outputs = (uint32_t)n->n_outputs, .outputs = outputs,
         .n_inputs = (uint32_t)n->n_inputs, .inputs = inputs);
}

/* Emits both paths of an If. A needed output has one register on both paths. */
static void emit_if(unrun *u, const ir_node *n) {
  lower *l = u->l;
  uint32_t otherwise = emit_new_label(l->b), end = emit_new_label(l->b), condition = l->n_s++;
  EMIT(l, s_item, n->name, .dst = condition, .src = reg_of(u, n->inputs[0], 0));
  for (int32_t i = 0; i < n->n_outputs; i++)
    if (n->outputs[i] && u->need[n->outputs[i]->id] && u->have[n->outputs[i]->id])
      u->reg[n->outputs[i]->id] = take(u) + 1;
  EMIT(l, branch_ifnot, n->name, .condition = condition, .target = otherwise);
  for (int side = 0; side < 2; side++) {
    size_t since = u->taken.n;
    emit_nodes(u, n->regions[side]);
    for (int32_t i = 0; i < n->n_outputs; i++) {
      const ir_value *v = n->outputs[i];
      if (!v || !u->need[v->id] || !u->have[v->id]) continue;
      uint32_t from = reg_of(u, n->regions[side]->results[i], v->device);
      if (u->have[v->id] & u->need[v->id] & ELEMENTS) EMIT(l, r_move, n->name, .dst = u->reg[v->id] - 1, .src = from);
      else EMIT(l, shape_like, n->name, .dst = u->reg[v->id] - 1, .src = from, .device = (uint32_t)v->device);
    }
    drop(u, since);
    if (side == 0) {
      EMIT(l, jump, NULL, .target = end);
      emit_bind_label(l->b, otherwise);
    }
  }
  emit_bind_label(l->b, end);
}

/* Emits `shape` of op(inputs) with a site of its own, and `invoke` too where `run`. Returns the register of the output.
 */
static uint32_t emit_built(unrun *u, const char *op, const char *node, const uint32_t *inputs, const reed_reads *reads,
                           uint32_t n_inputs, int64_t axis, uint32_t device, bool run) {
  lower *l = u->l;
  reed_attr attr = {.name = "axis", .type = REED_ATTR_INT, .i = axis};
  uint32_t site = module_add_site(l->b, "", op, node, &attr, axis >= 0 ? 1 : 0, (int32_t)n_inputs, 1), out = take(u),
           flagged[4];
  for (uint32_t i = 0; i < n_inputs; i++) flagged[i] = inputs[i] | (uint32_t)reads[i] << 24;
  EMIT(l, shape, node, .site = site, .device = device, .n_outputs = 1, .outputs = &out, .n_inputs = n_inputs,
       .inputs = flagged);
  if (run)
    EMIT(l, invoke, node, .site = site, .device = device, .n_outputs = 1, .outputs = &out, .n_inputs = n_inputs,
         .inputs = inputs);
  return out;
}

static uint32_t emit_vector(unrun *u, const int64_t *elements, int64_t n) {
  reed_desc desc = {.dtype = REED_I64, .rank = 1, .dims = {n}};
  uint32_t reg = take(u);
  EMIT(u->l, const, NULL, .dst = reg, .constant = module_add_constant(u->l->b, &desc, elements, "", false));
  return reg;
}

static const reed_reads shape_value[] = {REED_READS_SHAPE, REED_READS_VALUE, REED_READS_VALUE, REED_READS_VALUE};

/* A register with the extents of `trip` stacked elements. */
static uint32_t emit_stacked(unrun *u, const ir_node *n, uint32_t element, int32_t rank, uint32_t trip,
                             uint32_t device) {
  static const int64_t zero = 0, ones[REED_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  uint32_t scalar = take(u), first = emit_vector(u, &zero, 1), parts[2];
  EMIT(u->l, r_scalar, n->name, .dst = scalar, .src = trip, .dtype = REED_I64);
  parts[0] = emit_built(u, "Unsqueeze", n->name, (uint32_t[]){scalar, first}, shape_value, 2, -1, 0, true);
  parts[1] = emit_vector(u, ones, rank);
  static const reed_reads shapes[] = {REED_READS_SHAPE, REED_READS_SHAPE};
  uint32_t extents = emit_built(u, "Concat", n->name, parts, shapes, 2, 0, 0, true);
  uint32_t one = emit_built(u, "Unsqueeze", n->name, (uint32_t[]){element, first}, shape_value, 2, -1, device, false);
  return emit_built(u, "Expand", n->name, (uint32_t[]){one, extents}, shape_value, 2, -1, device, false);
}

/* Emits the first round of a Loop inside the body, for the extents of its scan outputs. */
static void emit_loop(unrun *u, const ir_node *n) {
  lower *l = u->l;
  const ir_graph *body = n->regions[0];
  int32_t n_carried = n_carried_of(n);
  uint32_t count = UINT32_MAX;
  for (int32_t i = 0; i < body->n_params; i++) {
    const ir_value *v = body->params[i];
    if (!u->need[v->id] || !u->have[v->id]) continue;
    uint32_t reg;
    if (i >= 2) {
      reg = reg_of(u, n->inputs[i], v->device);
    } else {
      uint32_t s = l->n_s++;
      reg = take(u);
      EMIT(l, s_const, n->name, .dst = s, .value = i); /* round 0, which goes on */
      EMIT(l, r_scalar, n->name, .dst = reg, .src = s, .dtype = i ? REED_BOOL : REED_I64);
    }
    u->reg[v->id] = reg + 1;
  }
  emit_nodes(u, body);
  for (int32_t i = 0; i < n->n_outputs; i++) {
    const ir_value *v = n->outputs[i];
    if (!v || !u->need[v->id] || !u->have[v->id]) continue;
    if (i < n_carried) {
      u->reg[v->id] = reg_of(u, n->inputs[i + 2], body->params[i + 2]->device) + 1;
      continue;
    }
    if (count == UINT32_MAX) {
      count = l->n_s++;
      EMIT(l, s_item, n->name, .dst = count, .src = reg_of(u, n->inputs[0], 0));
    }
    uint32_t element = reg_of(u, body->results[i + 1], v->device);
    u->reg[v->id] = emit_stacked(u, n, element, v->type.rank - 1, count, (uint32_t)v->device) + 1;
  }
}

static void emit_nodes(unrun *u, const ir_graph *g) {
  for (size_t k = 0; k < g->nodes.n; k++) {
    const ir_node *n = g->nodes.items[k];
    uint8_t have = 0;
    for (int32_t i = 0; i < n->n_outputs; i++)
      if (n->outputs[i] && u->need[n->outputs[i]->id]) have |= u->have[n->outputs[i]->id];
    if (!have) continue;
    op_id id = op_id_of(n->op);
    if (id == OP_If) emit_if(u, n);
    else if (id == OP_Loop) emit_loop(u, n);
    else emit_node(u, n);
  }
}

/* Emits the scan output x without elements: the extents of `element`, with 0 on a new axis 0, or on the element's own
 * axis 0 where x is joined. */
static void emit_empty(unrun *u, const flow_version *x, uint32_t element, const char *node) {
  static const int64_t zero = 0;
  uint32_t device = (uint32_t)x->device, first = emit_vector(u, &zero, 1), row = element;
  if (!x->value->joined)
    row = emit_built(u, "Unsqueeze", node, (uint32_t[]){element, first}, shape_value, 2, -1, device, false);
  uint32_t none =
      emit_built(u, "Slice", node, (uint32_t[]){row, first, first, first}, shape_value, 4, -1, device, false);
  EMIT(u->l, alloc, node, .tensor = none);
  EMIT(u->l, r_move, node, .dst = lower_reg(u->l, (flow_version *)x), .src = none);
}

static bool is_known(const ir_value *v) {
  for (int32_t i = 0; i < v->type.rank; i++)
    if (symbol_is(v->type.dims[i])) return false;
  return v->type.rank >= 0;
}

/* ---- the Loop ---- */

static void prepare(unrun *u, uint32_t round, uint32_t go) {
  lower *l = u->l;
  const ir_graph *g = u->loop->body->graph;
  for (int32_t i = 0; i < g->n_params; i++) {
    const flow_version *x = u->loop->params[i];
    if (!x) continue;
    u->have[g->params[i]->id] = EXTENTS | (x->device == 0 ? ELEMENTS : 0);
    uint32_t reg = x->reg;
    if (i < 2) { /* the first two parameters have no register outside of the body */
      if (!u->need[g->params[i]->id]) continue;
      reg = take(u);
      EMIT(l, r_scalar, u->loop->node->name, .dst = reg, .src = i ? go : round, .dtype = i ? REED_BOOL : REED_I64);
    }
    u->reg[g->params[i]->id] = reg + 1;
  }
}

static bool opened(unrun *u) {
  size_t n = (size_t)u->l->f.placed.n_values + 1;
  u->need = mem_calloc(n, 1);
  u->have = mem_calloc(n, 1);
  u->reg = mem_calloc(n, sizeof *u->reg);
  return u->need && u->have && u->reg;
}

bool lower_unrun_begin(lower *l, const flow_item *loop, uint32_t round, uint32_t go, uint32_t sequence, uint32_t ran,
                       bool *made) {
  unrun u = {.l = l, .loop = loop};
  const ir_graph *g = loop->body->graph;
  int32_t n_carried = g->n_params - 2, n_scans = g->n_results - 1 - n_carried;
  bool any = false;
  if (!opened(&u)) l->no_memory = true;
  else {
    for (int32_t k = 0; k < n_scans; k++)
      if (loop->outputs[n_carried + k] && !is_known(g->results[1 + n_carried + k]))
        ask(&u, g->results[1 + n_carried + k], EXTENTS), any = true;
    mark(&u, g);
    for (int32_t i = 0; i < g->n_params; i++)
      if (loop->params[i]) u.have[g->params[i]->id] = EXTENTS | (loop->params[i]->device == 0 ? ELEMENTS : 0);
    if (any) find(&u, g);
    any = false;
    for (int32_t k = 0; k < n_scans; k++) {
      const ir_value *v = g->results[1 + n_carried + k];
      made[k] = loop->outputs[n_carried + k] && !is_known(v) && has(&u, v) & EXTENTS;
      any |= made[k];
    }
  }
  if (any) {
    uint32_t length = l->n_s++;
    EMIT(l, seq_length, loop->node->name, .dst = length, .src = sequence);
    EMIT(l, branch_if, loop->node->name, .condition = length, .target = ran);
    prepare(&u, round, go);
    emit_nodes(&u, g);
    for (int32_t k = 0; k < n_scans; k++) {
      const flow_version *x = loop->outputs[n_carried + k];
      if (!made[k]) continue;
      const flow_version *outer = flow_loop_result(&l->f, loop, 1 + n_carried + k);
      const ir_value *v = g->results[1 + n_carried + k];
      uint32_t element = is_inside(&u, v) ? reg_of(&u, v, x->device) : outer->reg;
      emit_empty(&u, x, element, loop->node->name);
    }
    drop(&u, 0);
  }
  mem_free(u.need);
  mem_free(u.have);
  mem_free(u.reg);
  VEC_FREE(&u.taken);
  return any;
}
