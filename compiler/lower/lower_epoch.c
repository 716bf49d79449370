/* Emission of epochs and of the boundaries between them (docs/epochs.md): keys and constants, shape section, run
 * section, read-backs, kills. Loops are emitted in lower_loop.c; which item is in which epoch is decided in epochs.c.
 *
 * An If becomes a diamond (branch, two paths, join) in each section in which one of its branches has code. A register
 * defined on one path is defined as an empty tensor on the other, so that at the end of the diamond every register has
 * the same kind of content on both paths. */
#include "compiler/lower/lower_epoch.h"
#include "compiler/lower/lower_loop.h"

typedef enum section { SECTION_SHAPE, SECTION_RUN, SECTION_LOOP } section;

static void emit_entries(lower *l, const flow_block *b, int32_t time, section at);

static bool is_early(const flow_item *operator_item) { return place_is_early(operator_item->node); }

/* True for the entry of an If's joins, which is the last one of a branch at its time. */
static bool is_tail(const flow_entry *e) { return e->item->kind == FLOW_IF && e->order == FLOW_END; }

/* True for a version that the epoch being emitted defines. */
static bool is_own(const lower *l, const flow_version *x) { return x->home->root == l->root && x->time == l->time; }

/* True for a host value computed by the shape section being emitted: its memory belongs to the memo entry. */
static bool is_computed_here(const lower *l, const flow_version *x) {
  return is_own(l, x) && x->device == 0 && !x->late;
}

static const ir_value *branch_result(const flow_item *branching, int side, int32_t k) {
  return branching->branches[side]->graph->results[k];
}

/* ---- keys and constants of the epoch ---- */

static void want_key(lower *l, flow_version *x, reed_reads reads) {
  if (is_own(l, x)) return;
  if (x->key_epoch != l->epoch) {
    x->key_epoch = l->epoch;
    x->key = (uint32_t)l->keys.n;
    if (!VEC_PUSH(&l->keys, lower_reg(l, x))) l->no_memory = true;
  }
  if (x->key < l->keys.n) l->keys.items[x->key] |= (uint32_t)reads << 24;
}

/* A register for a constant; it is killed at the epoch's end. */
static uint32_t take_constant(lower *l) {
  uint32_t reg = lower_take_r(l);
  if (!VEC_PUSH(&l->const_regs, reg)) l->no_memory = true;
  return reg;
}

static void want_constant(lower *l, const ir_value *v, int32_t device) {
  flow_value *value = &l->f.values[v->id];
  if (value->const_epoch[device] == l->epoch) return;
  value->const_epoch[device] = l->epoch;
  value->const_reg[device] = take_constant(l);
  lower_constant_to(l, value->const_reg[device], v, device);
}

static bool has_entries(const flow_block *b, int32_t time) {
  size_t begin, end;
  flow_entries_at(b, time, &begin, &end);
  return begin < end;
}

static bool is_diamond(const flow_item *item, int32_t time) {
  return has_entries(item->branches[0], time) || has_entries(item->branches[1], time);
}

/* Calls `visit` for every entry of the epoch, those of branches included, with the entry's block. */
typedef void (*visit_fn)(lower *l, const flow_block *b, const flow_entry *e);
static void walk_entries(lower *l, const flow_block *b, int32_t time, visit_fn visit) {
  size_t begin, end;
  flow_entries_at(b, time, &begin, &end);
  for (size_t i = begin; i < end; i++) {
    const flow_entry *e = &b->entries.items[i];
    visit(l, b, e);
    for (int side = 0; side < 2 && e->item->kind == FLOW_IF && !is_tail(e); side++)
      walk_entries(l, e->item->branches[side], time, visit);
  }
}

/* Adds the operator's constant operands (`constants`) to the epoch's constants, or its other operands to the epoch's
 * keys. */
static void want_operands(lower *l, const flow_item *item, bool constants) {
  const ir_node *n = item->node;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    if (!n->inputs[i]) continue;
    bool elements = flow_reads_elements(n, i);
    if (ir_is_constant(n->inputs[i])) {
      if (constants) want_constant(l, n->inputs[i], flow_operand_device(n, i));
    } else if (!constants) {
      want_key(l, flow_operand(&l->f, item, i), elements ? REED_READS_VALUE : REED_READS_SHAPE);
    }
  }
}

static void visit_keys(lower *l, const flow_block *b, const flow_entry *e) {
  const flow_item *item = e->item;
  (void)b;
  if (item->kind == FLOW_OP) want_operands(l, item, false);
  if (item->kind == FLOW_COPY) want_key(l, item->source, REED_READS_SHAPE);
  if (item->kind != FLOW_IF) return;
  if (!is_tail(e)) {
    if (item->time == l->time) {
      if (item->source) want_key(l, item->source, REED_READS_VALUE);
    } else if (is_diamond(item, l->time)) {
      if (!VEC_PUSH(&l->scalar_keys, item->condition)) l->no_memory = true;
    }
    return;
  }
  for (int32_t k = 0; k < item->node->n_outputs; k++) {
    const flow_version *join = item->outputs[k];
    const ir_value *v = branch_result(item, b->polarity, k);
    if (join && join->time == l->time && !ir_is_constant(v))
      want_key(l, l->f.values[v->id].on[join->device], join->filled ? REED_READS_SHAPE : REED_READS_VALUE);
  }
}

static void want_empty(lower *l, int32_t device) {
  if (l->empty[device] != FLOW_NO_REGISTER) return;
  l->empty[device] = take_constant(l);
  lower_empty_to(l, l->empty[device], device);
}

static void visit_constants(lower *l, const flow_block *b, const flow_entry *e) {
  const flow_item *item = e->item;
  if (item->kind == FLOW_OP) want_operands(l, item, true);
  if (b != b->root && item->kind == FLOW_COPY) want_empty(l, item->target->device);
  if (b != b->root && item->kind == FLOW_OP && !is_early(item)) want_empty(l, place_of_node(item->node));
  if (item->kind != FLOW_IF) return;
  if (!is_tail(e)) {
    if (item->time == l->time && !item->source) want_constant(l, item->node->inputs[0], 0);
    return;
  }
  for (int32_t k = 0; k < item->node->n_outputs; k++) {
    const flow_version *join = item->outputs[k];
    const ir_value *v = branch_result(item, b->polarity, k);
    if (!join || join->time != l->time) continue;
    if (ir_is_constant(v)) want_constant(l, v, join->device);
    if (b->owner->block != b->root && join->filled) want_empty(l, join->device);
  }
}

/* ---- operators ---- */

static uint32_t operand_reg(const lower *l, const flow_item *item, int32_t i) {
  const ir_value *v = item->node->inputs[i];
  if (!v) return MODULE_ABSENT;
  if (ir_is_constant(v)) return l->f.values[v->id].const_reg[flow_operand_device(item->node, i)];
  return flow_operand(&l->f, item, i)->reg;
}

/* Emits `shape` or `invoke` of the operator. */
static void emit_call(lower *l, const flow_item *item, insn_id id) {
  const ir_node *n = item->node;
  uint32_t site = lower_site(l, n), device = (uint32_t)place_of_node(n), outputs[REED_MAX_OPERANDS],
           inputs[REED_MAX_OPERANDS], n_outputs = (uint32_t)n->n_outputs, n_inputs = (uint32_t)n->n_inputs;
  for (uint32_t i = 0; i < n_outputs; i++)
    outputs[i] = item->outputs[i] ? lower_reg(l, item->outputs[i]) : MODULE_ABSENT;
  for (uint32_t i = 0; i < n_inputs; i++) inputs[i] = operand_reg(l, item, (int32_t)i);
  if (id == INSN_INVOKE) {
    EMIT(l, invoke, n->name, .site = site, .device = device, .n_outputs = n_outputs, .outputs = outputs,
         .n_inputs = n_inputs, .inputs = inputs);
    return;
  }
  for (uint32_t i = 0; i < n_inputs; i++) inputs[i] |= (uint32_t)place_reads(n, (int32_t)i) << 24;
  EMIT(l, shape, n->name, .site = site, .device = device, .n_outputs = n_outputs, .outputs = outputs,
       .n_inputs = n_inputs, .inputs = inputs);
}

static lower_note *note_of(lower *l) { return &l->notes.items[l->notes.n - 1]; }

/* True when the operator is emitted as `view`. In a shape section only a constant or a value that the section computed
 * may be viewed, because a memo entry must not refer to the memory of a key. */
static bool is_view_here(const lower *l, const flow_item *item) {
  if (!flow_item_is_view(item)) return false;
  const flow_version *source = flow_operand(&l->f, item, 0);
  return !is_early(item) || !source || is_computed_here(l, source);
}

static void emit_kernel(lower *l, const flow_item *item) {
  if (is_view_here(l, item)) {
    EMIT(l, view, item->node->name, .dst = item->outputs[0]->reg, .src = operand_reg(l, item, 0));
    note_of(l)->n_views++;
    return;
  }
  emit_call(l, item, INSN_INVOKE);
  *(is_early(item) ? &note_of(l)->n_host_kernels : &note_of(l)->n_kernels) += 1;
  note_of(l)->n_late_kernels += item->outputs[0] && item->outputs[0]->late;
}

static void emit_operator(lower *l, const flow_item *item, section at) {
  if (at == SECTION_SHAPE) {
    emit_call(l, item, INSN_SHAPE);
    note_of(l)->n_shapes++;
  }
  if (is_early(item) == (at == SECTION_SHAPE)) emit_kernel(l, item);
}

static void emit_copy(lower *l, const flow_item *item, section at) {
  const char *node = item->node ? item->node->name : NULL;
  if (at == SECTION_SHAPE) {
    EMIT(l, shape_like, node, .dst = lower_reg(l, item->target), .src = item->source->reg, .device = 1);
    return;
  }
  EMIT(l, copy, node, .dst = item->target->reg, .src = item->source->reg, .reason = (uint32_t)item->reason,
       .site = lower_site(l, item->node), .input = (uint32_t)item->input);
  note_of(l)->n_copies++;
}

/* ---- joins ---- */

/* Emits dst = a copy of the key src, in the memo entry's memory. */
static void emit_identity(lower *l, const ir_node *n, uint32_t dst, uint32_t src) {
  uint32_t site = module_add_site(l->b, "", "Identity", n->name, NULL, 0, 1, 1),
           flagged = src | (uint32_t)REED_READS_SHAPE << 24;
  EMIT(l, shape, n->name, .site = site, .n_outputs = 1, .outputs = &dst, .n_inputs = 1, .inputs = &flagged);
  EMIT(l, invoke, n->name, .site = site, .n_outputs = 1, .outputs = &dst, .n_inputs = 1, .inputs = &src);
}

static void emit_join(lower *l, const flow_item *item, int side, int32_t k, section at) {
  flow_version *join = item->outputs[k];
  const char *node = item->node->name;
  const ir_value *v = branch_result(item, side, k);
  bool constant = ir_is_constant(v);
  const flow_version *source = constant ? NULL : l->f.values[v->id].on[join->device];
  uint32_t from = constant ? l->f.values[v->id].const_reg[join->device] : source->reg, to = lower_reg(l, join);
  if (join->filled) {
    if (at == SECTION_SHAPE) EMIT(l, shape_like, node, .dst = to, .src = from, .device = (uint32_t)join->device);
    else EMIT(l, view, node, .dst = to, .src = from);
  } else if (at == SECTION_SHAPE) {
    if (constant || is_computed_here(l, source)) EMIT(l, r_move, node, .dst = to, .src = from);
    else emit_identity(l, item->node, to, from);
  }
}

static void emit_joins(lower *l, const flow_item *item, int side, int32_t time, section at) {
  for (int32_t k = 0; k < item->node->n_outputs; k++)
    if (item->outputs[k] && item->outputs[k]->time == time) emit_join(l, item, side, k, at);
}

/* ---- the path not taken ---- */

static uint32_t condition_of(lower *l, flow_item *item) {
  if (item->condition == FLOW_NO_REGISTER) item->condition = l->n_s++;
  return item->condition;
}

static void default_version(lower *l, flow_version *x, section at) {
  switch (at) {
    case SECTION_SHAPE:
      if (!x->filled) lower_empty_to(l, lower_reg(l, x), 0);
      else EMIT(l, shape_like, NULL, .dst = lower_reg(l, x), .src = l->empty[x->device], .device = (uint32_t)x->device);
      break;
    case SECTION_RUN:
      if (!x->filled) break;
      if (x->killed_in_run) EMIT(l, kill, NULL, .victim = x->reg);
      else EMIT(l, view, NULL, .dst = x->reg, .src = l->empty[x->device]);
      break;
    case SECTION_LOOP: lower_empty_to(l, lower_reg(l, x), x->device); break;
  }
}

/* Emits empty tensors for all registers that the entries of branch b define in this section. */
static void default_entries(lower *l, const flow_block *b, int32_t time, section at) {
  size_t begin, end;
  flow_entries_at(b, time, &begin, &end);
  for (size_t i = begin; i < end; i++) {
    const flow_entry *e = &b->entries.items[i];
    flow_item *item = e->item;
    if (is_tail(e) || item->kind == FLOW_EXTENT) continue;
    if (item->kind == FLOW_COPY || item->kind == FLOW_FETCH) default_version(l, item->target, at);
    if (item->kind == FLOW_IF && item->time == time && at == SECTION_SHAPE)
      EMIT(l, s_const, NULL, .dst = condition_of(l, item), .value = 0);
    if (item->outputs)
      for (int32_t k = 0; k < item->node->n_outputs; k++)
        if (item->outputs[k] && item->outputs[k]->time == time) default_version(l, item->outputs[k], at);
    for (int side = 0; side < 2 && item->kind == FLOW_IF; side++) default_entries(l, item->branches[side], time, at);
  }
}

/* True when the branch has code in that section. */
static bool has_effect(const flow_block *b, int32_t time, section at) {
  size_t begin, end;
  flow_entries_at(b, time, &begin, &end);
  if (at != SECTION_RUN) return begin < end;
  for (size_t i = begin; i < end; i++) {
    const flow_entry *e = &b->entries.items[i];
    if (e->kills || e->item->kind == FLOW_COPY || (e->item->kind == FLOW_OP && !is_early(e->item))) return true;
    if (e->item->kind != FLOW_IF) continue;
    for (int32_t k = 0; k < e->item->node->n_outputs && is_tail(e); k++)
      if (e->item->outputs[k] && e->item->outputs[k]->time == time && e->item->outputs[k]->filled) return true;
    for (int side = 0; side < 2 && !is_tail(e); side++)
      if (has_effect(e->item->branches[side], time, at)) return true;
  }
  return false;
}

static void emit_path(lower *l, const flow_item *item, int side, int32_t time, section at) {
  emit_entries(l, item->branches[side], time, at);
  default_entries(l, item->branches[1 - side], time, at);
  if (at == SECTION_LOOP) lower_sync(l);
}

static void emit_diamond(lower *l, const flow_item *item, int32_t time, section at) {
  if (!has_effect(item->branches[0], time, at) && !has_effect(item->branches[1], time, at)) return;
  uint32_t otherwise = emit_new_label(l->b), end = emit_new_label(l->b);
  if (at == SECTION_LOOP) lower_sync(l);
  EMIT(l, branch_ifnot, item->node->name, .condition = item->condition, .target = otherwise);
  emit_path(l, item, 0, time, at);
  EMIT(l, jump, NULL, .target = end);
  emit_bind_label(l->b, otherwise);
  emit_path(l, item, 1, time, at);
  emit_bind_label(l->b, end);
}

static void emit_condition(lower *l, flow_item *item) {
  uint32_t from = item->source ? item->source->reg : l->f.values[item->node->inputs[0]->id].const_reg[0];
  EMIT(l, s_item, item->node->name, .dst = condition_of(l, item), .src = from);
}

/* ---- sections ---- */

static void emit_fetch(lower *l, const flow_item *item) {
  if (item->kind == FLOW_EXTENT)
    EMIT(l, extent_for, item->node->name, .src = item->target->reg, .why = module_add_string(l->b, item->why));
  else
    EMIT(l, readback, item->node->name, .dst = lower_reg(l, item->target), .src = item->source->reg,
         .reason = (uint32_t)item->reason, .site = lower_site(l, item->node), .input = (uint32_t)item->input);
  l->unsynced = true;
  if (!VEC_PUSH(&l->fetches, ((lower_fetch){.epoch = (int32_t)l->n_epochs - 1, .item = item}))) l->no_memory = true;
}

static void emit_entry(lower *l, const flow_block *b, const flow_entry *e, int32_t time, section at) {
  flow_item *item = e->item;
  switch (item->kind) {
    case FLOW_OP: emit_operator(l, item, at); break;
    case FLOW_COPY: emit_copy(l, item, at); break;
    case FLOW_FETCH:
    case FLOW_EXTENT: emit_fetch(l, item); break;
    case FLOW_LOOP:
      lower_sync(l);
      lower_loop(l, item);
      break;
    case FLOW_IF:
      if (is_tail(e)) {
        emit_joins(l, item, b->polarity, time, at);
        break;
      }
      if (at == SECTION_SHAPE && item->time == time) emit_condition(l, item);
      emit_diamond(l, item, time, at);
      break;
  }
  if (at == SECTION_RUN) lower_kill_list(l, e->kills);
}

static void emit_entries(lower *l, const flow_block *b, int32_t time, section at) {
  size_t begin, end;
  flow_entries_at(b, time, &begin, &end);
  for (size_t i = begin; i < end; i++) emit_entry(l, b, &b->entries.items[i], time, at);
}

/* Emits read-backs and extents of branches without diamonds, because their source registers are defined on every path.
 */
static void visit_fetch(lower *l, const flow_block *b, const flow_entry *e) {
  (void)b;
  if (e->item->kind == FLOW_FETCH || e->item->kind == FLOW_EXTENT) emit_fetch(l, e->item);
}

static void emit_epoch(lower *l, const flow_block *root, int32_t time) {
  uint32_t number = l->n_epochs++, plan = emit_new_label(l->b);
  l->epoch++;
  l->root = root;
  l->time = time;
  l->keys.n = l->scalar_keys.n = 0;
  if (!VEC_PUSH(&l->notes, ((lower_note){.root = root, .epoch = (int32_t)number}))) {
    l->no_memory = true;
    return;
  }
  walk_entries(l, root, time, visit_keys);
  note_of(l)->n_keys = (int32_t)l->keys.n;
  EMIT(l, epoch_enter, NULL, .epoch = number, .plan = plan, .n_keys = (uint32_t)l->keys.n, .keys = l->keys.items,
       .n_scalar_keys = (uint32_t)l->scalar_keys.n, .scalar_keys = l->scalar_keys.items);
  l->empty[0] = l->empty[1] = FLOW_NO_REGISTER;
  walk_entries(l, root, time, visit_constants);
  emit_entries(l, root, time, SECTION_SHAPE);
  emit_bind_label(l->b, plan);
  EMIT(l, epoch_plan, NULL, .epoch = number);
  emit_entries(l, root, time, SECTION_RUN);
  EMIT(l, epoch_end, NULL, .epoch = number);
  for (size_t i = 0; i < l->const_regs.n; i++) lower_kill_r(l, l->const_regs.items[i]);
  l->const_regs.n = 0;
}

/* Emits kills of the versions that die at one time outside of an epoch's run section. */
static void emit_deaths(lower *l, const flow_block *root, int32_t time) { lower_kill_list(l, root->kills[time]); }

void lower_root(lower *l, const flow_block *root) {
  for (int32_t epoch = -1; epoch < root->n_epochs; epoch++) {
    int32_t time = flow_time(epoch, SLOT_EPOCH), fetch = time + SLOT_FETCH, loop = time + SLOT_LOOP;
    if (has_entries(root, time)) emit_epoch(l, root, time);
    walk_entries(l, root, fetch, visit_fetch);
    lower_sync(l);
    emit_deaths(l, root, time);
    emit_deaths(l, root, fetch);
    emit_entries(l, root, loop, SECTION_LOOP);
    lower_sync(l);
    emit_deaths(l, root, loop);
  }
}
