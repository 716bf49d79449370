/* Cuts a placed module into epochs (docs/epochs.md): makes branch blocks of Ifs, gives every operator its epoch, adds
 * read-backs, extents and copies between devices, and finds versions' last uses. Bytecode is emitted in lower*.c.
 *
 * Every operator runs in the earliest possible epoch. One walk in topological order is enough, because a version on the
 * other device is made when an operator asks for it, and never moves its producer. Two kinds of items run later: copies
 * to the accelerator in the epoch of their first user, and read-backs of model outputs at the last boundary. */
#include <stdlib.h>
#include <string.h>

#include "compiler/lower/counts.h"
#include "compiler/lower/flow.h"

static reed_status cut_graph(flow *f, flow_block *b);

static reed_status no_memory(const flow *f) { return diag_no_memory(f->diagnosis, "epochs"); }

/* True when n's shape function reads the elements of operand i on the host. */
static bool is_value(const ir_node *n, int32_t i) { return place_reads(n, i) & REED_READS_VALUE; }

bool flow_reads_elements(const ir_node *n, int32_t i) {
  return is_value(n, i) || (place_is_early(n) && !op_has(n->op, REED_OP_EXTENTS_ONLY));
}

/* ---- making blocks, items and versions; NULL: no memory ---- */

static flow_block *block_new(flow *f, ir_graph *g, flow_item *owner, bool root) {
  flow_block *b = ir_alloc(f->m, sizeof *b);
  if (!b || !VEC_PUSH(&f->blocks, b)) return NULL;
  b->graph = g;
  b->owner = owner;
  b->root = root ? b : owner->block->root;
  return b;
}

static flow_item *item_new(flow *f, flow_block *b, flow_kind kind, int32_t time, int32_t order, ir_node *n) {
  flow_item *item = ir_alloc(f->m, sizeof *item);
  if (!item || !VEC_PUSH(&b->items, item)) return NULL;
  *item = (flow_item){
      .kind = kind, .block = b, .time = time, .order = order, .node = n, .condition = FLOW_NO_REGISTER, .need = -1};
  item->number = f->n_items++;
  return item;
}

static flow_version *version_new(flow *f, ir_value *v, flow_block *home, int32_t device, int32_t time, int32_t order) {
  flow_version *made = ir_alloc(f->m, sizeof *made);
  if (!made || !VEC_PUSH(&home->root->versions, made)) return NULL;
  *made = (flow_version){.value = v,
                         .home = home,
                         .device = device,
                         .time = time,
                         .order = order,
                         .known = flow_epoch(time),
                         .ready = flow_epoch(time),
                         .first = FLOW_END,
                         .last = -1,
                         .last_order = order,
                         .reg = FLOW_NO_REGISTER,
                         .key_epoch = -1};
  if (made->known < 0) made->known = 0;
  made->elements = made->known;
  made->memory = made;
  if (v) f->values[v->id].on[device] = made;
  return made;
}

static flow_version *memory_root(flow_version *x) {
  while (x->memory != x) x = x->memory = x->memory->memory;
  return x;
}

static void share_memory(flow_version *a, flow_version *b) {
  if (a->home->root == b->home->root)
    memory_root(a)->memory = memory_root(b); /* otherwise b lives longer than every epoch of a's root */
}

/* ---- versions on the other device ---- */

/* Adds an item that fetches x's extent for `consumer` (counts_reason), unless x needs none. False: no memory. */
static bool want_extent(flow *f, const flow_block *b, flow_version *x, const ir_node *consumer) {
  if (!x->bounded || x->fetched) return true;
  flow_item *item = item_new(f, x->home, FLOW_EXTENT, x->time + SLOT_FETCH, x->order, x->value->producer);
  if (!item || !(item->why = counts_reason(f, b, consumer))) return false;
  item->target = x;
  x->fetched = true;
  return true;
}

static int32_t fetch_time(const flow_version *source) {
  if (flow_slot(source->time) == SLOT_LOOP) return source->time;
  return source->time +
         (source->bounded ? SLOT_LOOP : SLOT_FETCH); /* a bounded version is read back after its extent is known */
}

/* The version of v on `device`, for input `input` of `consumer`: the existing one, or the target of a new copy or
 * read-back in the home block of v. NULL: no memory. */
static flow_version *demand(flow *f, const flow_block *b, ir_value *v, int32_t device, ir_node *consumer, int32_t input,
                            copy_reason reason) {
  flow_version *made = f->values[v->id].on[device], *source = f->values[v->id].on[1 - device];
  if (made) return made;
  if (!want_extent(f, b, source, reason == COPY_REASON_OUTPUT ? NULL : consumer)) return NULL;
  flow_block *home = source->home;
  int32_t time = device ? source->time : fetch_time(source), order = source->order + 1;
  flow_item *item = item_new(f, home, device ? FLOW_COPY : FLOW_FETCH, time, order, consumer);
  made = item ? version_new(f, v, home, device, time, order) : NULL;
  if (!made) return NULL;
  if (device) {
    made->known = made->ready = source->known; /* the epoch is set to the first user's in place_copies */
    made->filled = true;
  } else {
    made->known = made->elements = flow_epoch(time) + 1;
  }
  bool model_input = device && !v->producer && !v->graph->parent;
  item->reason = model_input ? COPY_REASON_INPUT : reason;
  item->input = input;
  item->source = source;
  item->target = made;
  return made;
}

/* The part of a version that a user needs: its extents in a shape section, its elements in a shape section, or the
 * whole tensor at a boundary. */
typedef enum needed { NEED_EXTENTS, NEED_ELEMENTS, NEED_AT_BOUNDARY } needed;

/* The first epoch of b's root in which x can be used; for NEED_AT_BOUNDARY the epoch before the boundary. Inside a
 * Loop's body, a version from outside can be used from the start, because every Loop in between waits for it
 * (flow_item.need). */
static int32_t serves_in(const flow_block *b, const flow_version *x, needed what) {
  const flow_block *root = b->root;
  if (x->home->root == root)
    return what == NEED_AT_BOUNDARY ? x->ready : what == NEED_ELEMENTS ? x->elements : x->known;
  while (x->home->root != root) {
    flow_item *loop = root->owner;
    root = loop->block->root;
    if (root == x->home->root && loop->need < x->ready) loop->need = x->ready;
  }
  return what == NEED_AT_BOUNDARY ? -1 : 0;
}

static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

/* Makes v available on `device`, unless v is absent or constant, and raises *epoch to the first epoch in which v can be
 * used. The reason for a new copy is `value` where a shape section, a condition or a trip count reads v, otherwise
 * `placement`. */
static reed_status need(flow *f, flow_block *b, ir_value *v, int32_t device, ir_node *consumer, int32_t input,
                        needed what, int32_t *epoch) {
  if (!v || ir_is_constant(v)) return REED_OK;
  bool value = device == 0 && (what == NEED_ELEMENTS || (op_is_control(consumer->op) && input < 2));
  flow_version *x = demand(f, b, v, device, consumer, input, value ? COPY_REASON_VALUE : COPY_REASON_PLACEMENT);
  if (!x || !want_extent(f, b, x, consumer)) return no_memory(f);
  *epoch = larger(*epoch, serves_in(b, x, what));
  return REED_OK;
}

/* ---- operators ---- */

/* Shape and Size use their operand on the device on which it is, because they read no elements. */
int32_t flow_operand_device(const ir_node *n, int32_t i) {
  if (is_value(n, i)) return 0;
  if (ir_is_constant(n->inputs[i])) return place_of_node(n);
  return op_has(n->op, REED_OP_EXTENTS_ONLY) ? n->inputs[i]->device : place_of_node(n);
}

flow_version *flow_operand(const flow *f, const flow_item *item, int32_t i) {
  const ir_value *v = item->node->inputs[i];
  return !v || ir_is_constant(v) ? NULL : f->values[v->id].on[flow_operand_device(item->node, i)];
}

static bool is_used(const ir_value *v) { return v && v->n_uses > 0; }

/* Makes a version for every output. An unused optional output is absent; another unused output gets a version without a
 * value, because the kernel writes it. count: the count that the operator leaves on the device. */
static reed_status define_outputs(flow *f, flow_item *item, flow_count count) {
  ir_node *n = item->node;
  int32_t device = place_of_node(n);
  item->outputs = ir_alloc(f->m, sizeof *item->outputs * (size_t)n->n_outputs);
  flow_version *reporter = count.same; /* the version whose count all outputs have */
  if (!item->outputs) return no_memory(f);
  for (int32_t i = 0; i < n->n_outputs; i++) {
    const reed_op_output *declared = reed_op_output_at(n->op, i);
    ir_value *v = is_used(n->outputs[i]) ? n->outputs[i] : NULL;
    if (!v && (!declared || declared->optional)) continue;
    flow_version *x = item->outputs[i] = version_new(f, v, item->block, device, item->time, item->order);
    if (!x) return no_memory(f);
    x->late = device == 0 && !place_is_early(n);
    x->filled = device == 1 || x->late;
    if (x->late) x->elements++;
    if (!v || !declared || (!declared->bounded && (!count.version || count.axis < 0))) continue;
    x->bounded = true;
    x->known++;
    if (!reporter || declared->bounded) reporter = x;
    const bool given = count.version && !declared->bounded;
    x->counter = given && !count.reports ? count.version->counter : reporter;
    x->factor = given ? count.factor : 1;
    x->bounded_axis = given ? count.axis : v->bounded_axis;
  }
  item->reports = count.version && count.reports;
  if (flow_item_is_view(item) && item->outputs[0]->filled) {
    flow_version *source = flow_operand(f, item, 0);
    if (source) share_memory(item->outputs[0], source);
  }
  return REED_OK;
}

bool flow_item_is_view(const flow_item *item) {
  const ir_node *n = item->node;
  if (item->reports || n->op->alias != REED_ALIAS_VIEW || n->n_inputs < 1 || !item->outputs[0]) return false;
  for (int32_t i = 1; i < n->n_outputs; i++)
    if (item->outputs[i]) return false;
  return true;
}

/* Raises *epoch to the first epoch in which the operator can run. at_bound: no extent of a counted input is needed. */
static reed_status need_operands(flow *f, flow_block *b, ir_node *n, bool at_bound, int32_t *epoch) {
  reed_status status = REED_OK;
  for (int32_t i = 0; i < n->n_inputs && status == REED_OK; i++) {
    if (!n->inputs[i]) continue;
    needed what = flow_reads_elements(n, i) ? NEED_ELEMENTS : NEED_EXTENTS;
    const flow_version *counted = at_bound ? counts_input(f, n, i) : NULL;
    if (counted) *epoch = larger(*epoch, flow_epoch(counted->time));
    else status = need(f, b, n->inputs[i], flow_operand_device(n, i), n, i, what, epoch);
  }
  return status;
}

static reed_status cut_operator(flow *f, flow_block *b, ir_node *n, int32_t order) {
  flow_count count = counts_operator(f, b, n);
  int32_t epoch = b->floor;
  reed_status status = need_operands(f, b, n, count.version != NULL, &epoch);
  if (status == REED_OK && count.version && counts_before(f, n, epoch)) {
    count.version = NULL; /* the operator runs in a later epoch than a count's, so the extents are fetched for it */
    status = need_operands(f, b, n, false, &epoch);
  }
  if (status != REED_OK) return status;
  flow_item *item = item_new(f, b, FLOW_OP, flow_time(epoch, SLOT_EPOCH), order, n);
  f->n_at_bound += count.version != NULL;
  return item ? define_outputs(f, item, count) : no_memory(f);
}

/* ---- If ---- */

static reed_status cut_join(flow *f, flow_item *item, int32_t k) {
  ir_value *v = item->node->outputs[k];
  if (!is_used(v)) return REED_OK;
  int32_t epoch = flow_epoch(item->time);
  for (int side = 0; side < 2; side++) {
    flow_block *branch = item->branches[side];
    needed what = v->device == 0 && !v->late ? NEED_ELEMENTS : NEED_EXTENTS;
    reed_status status = need(f, branch, branch->graph->results[k], v->device, item->node, 2, what, &epoch);
    if (status != REED_OK) return status;
  }
  flow_version *x = item->outputs[k] =
      version_new(f, v, item->block, v->device, flow_time(epoch, SLOT_EPOCH), item->order);
  if (!x) return no_memory(f);
  x->late = v->late;
  x->filled = v->device == 1 || v->late;
  if (x->late) x->elements++;
  for (int side = 0; side < 2 && x->filled; side++) {
    ir_value *result = item->branches[side]->graph->results[k];
    if (!ir_is_constant(result)) share_memory(x, f->values[result->id].on[v->device]);
  }
  return REED_OK;
}

static reed_status cut_if(flow *f, flow_block *b, ir_node *n, int32_t order) {
  int32_t epoch = b->floor;
  reed_status status = need(f, b, n->inputs[0], 0, n, 0, NEED_ELEMENTS, &epoch);
  flow_item *item = status == REED_OK ? item_new(f, b, FLOW_IF, flow_time(epoch, SLOT_EPOCH), order, n) : NULL;
  if (!item) return status != REED_OK ? status : no_memory(f);
  item->source = ir_is_constant(n->inputs[0]) ? NULL : f->values[n->inputs[0]->id].on[0];
  item->outputs = ir_alloc(f->m, sizeof *item->outputs * (size_t)n->n_outputs);
  if (!item->outputs) return no_memory(f);
  for (int side = 0; side < 2; side++) {
    flow_block *branch = item->branches[side] = block_new(f, n->regions[side], item, false);
    if (!branch) return no_memory(f);
    branch->polarity = side;
    branch->floor = epoch;
    if ((status = cut_graph(f, branch)) != REED_OK) return status;
  }
  for (int32_t k = 0; k < n->n_outputs && status == REED_OK; k++) status = cut_join(f, item, k);
  return status;
}

/* ---- Loop ---- */

static reed_status cut_body(flow *f, flow_item *item) {
  ir_graph *g = item->node->regions[0];
  flow_block *body = item->body = block_new(f, g, item, true);
  item->params = ir_alloc(f->m, sizeof *item->params * (size_t)g->n_params);
  if (!body || !item->params) return no_memory(f);
  for (int32_t i = 0; i < g->n_params; i++) {
    if (i < 2 && !is_used(g->params[i])) continue;
    flow_version *x = item->params[i] = version_new(f, g->params[i], body, g->params[i]->device, 0, 0);
    if (!x) return no_memory(f);
    x->pinned = i >= 2;
  }
  reed_status status = cut_graph(f, body);
  int32_t unused = 0;
  for (int32_t i = 0; i < g->n_results && status == REED_OK; i++) {
    const ir_value *joined = i && i <= item->node->n_outputs ? item->node->outputs[i - 1] : NULL;
    bool scan = i + 1 >= g->n_params;
    if (scan && i && !is_used(joined)) continue;
    int32_t device = !i ? 0 : scan ? joined->device : g->params[i + 1]->device;
    status = need(f, body, g->results[i], device, item->node, i ? i + 1 : 1, NEED_EXTENTS, &unused);
  }
  return status;
}

static reed_status cut_loop(flow *f, flow_block *b, ir_node *n, int32_t order) {
  flow_item *item = item_new(f, b, FLOW_LOOP, 0, order, n);
  if (!item) return no_memory(f);
  reed_status status = cut_body(f, item);
  int32_t epoch = b == b->root ? -1 : b->floor;
  for (int32_t i = 0; i < n->n_inputs && status == REED_OK; i++)
    status = need(f, b, n->inputs[i], i < 2 ? 0 : n->regions[0]->params[i]->device, n, i, NEED_AT_BOUNDARY, &epoch);
  if (status != REED_OK) return status;
  item->time = flow_time(larger(epoch, item->need), SLOT_LOOP);
  item->outputs = ir_alloc(
      f->m, sizeof *item->outputs *
                (size_t)n->regions[0]->n_results); /* the node may name fewer outputs than the body has results */
  if (!item->outputs) return no_memory(f);
  for (int32_t i = 0; i < n->n_outputs; i++) {
    if (!is_used(n->outputs[i])) continue;
    flow_version *x = item->outputs[i] = version_new(f, n->outputs[i], b, n->outputs[i]->device, item->time, order);
    if (!x) return no_memory(f);
    x->known = x->elements = flow_epoch(item->time) + 1;
  }
  return REED_OK;
}

/* ---- the walk ---- */

static bool has_uses(const ir_node *n) {
  for (int32_t i = 0; i < n->n_outputs; i++)
    if (is_used(n->outputs[i])) return true;
  return false;
}

static reed_status cut_graph(flow *f, flow_block *b) {
  reed_status status = REED_OK;
  for (size_t k = 0; k < b->graph->nodes.n && status == REED_OK; k++) {
    ir_node *n = b->graph->nodes.items[k];
    if (!has_uses(n) && !n->op->impure) continue;
    int32_t order = f->next_order += 2; /* the odd number after it is for copies of the node's outputs */
    op_id id = op_id_of(n->op);
    status = id == OP_If     ? cut_if(f, b, n, order)
             : id == OP_Loop ? cut_loop(f, b, n, order)
                             : cut_operator(f, b, n, order);
  }
  return status;
}

static reed_status cut_main(flow *f) {
  ir_graph *g = f->m->main;
  f->main = block_new(f, g, NULL, true);
  if (!f->main) return no_memory(f);
  for (int32_t i = 0; i < g->n_params; i++)
    if (!version_new(f, g->params[i], f->main, 0, 0, 0)) return no_memory(f);
  reed_status status = cut_graph(f, f->main);
  for (int32_t i = 0; i < g->n_results && status == REED_OK; i++) {
    ir_value *v = g->results[i];
    if (ir_is_constant(v)) continue;
    flow_version *x = demand(f, f->main, v, 0, v->producer, v->producer_output, COPY_REASON_OUTPUT);
    if (!x || !want_extent(f, f->main, x, NULL))
      status = no_memory(f); /* a late host operator's result may be bounded */
  }
  return status;
}

/* ---- uses ---- */

typedef void (*use_fn)(flow_version *x, const flow_block *b, int32_t time, int32_t order);

static void walk_uses(const flow *f, const flow_item *item, use_fn use) {
  const ir_node *n = item->node;
  switch (item->kind) {
    case FLOW_OP:
      for (int32_t i = 0; i < n->n_inputs; i++) {
        flow_version *x = flow_operand(f, item, i);
        if (x) use(x, item->block, item->time, item->order);
      }
      break;
    case FLOW_COPY:
    case FLOW_FETCH: use(item->source, item->block, item->time, item->order); break;
    case FLOW_EXTENT: use(item->target, item->block, item->time, item->order); break;
    case FLOW_IF:
      if (item->source) use(item->source, item->block, item->time, item->order);
      for (int32_t k = 0; k < n->n_outputs; k++)
        for (int side = 0; side < 2 && item->outputs[k]; side++) {
          const flow_block *branch = item->branches[side];
          const ir_value *result = branch->graph->results[k];
          if (!ir_is_constant(result))
            use(f->values[result->id].on[item->outputs[k]->device], branch, item->outputs[k]->time, FLOW_END);
        }
      break;
    case FLOW_LOOP: {
      const ir_graph *g = item->body->graph;
      for (int32_t i = 0; i < n->n_inputs; i++)
        if (n->inputs[i] && !ir_is_constant(n->inputs[i]))
          use(f->values[n->inputs[i]->id].on[i < 2 ? 0 : g->params[i]->device], item->block, item->time, item->order);
      for (int32_t i = 0; i < g->n_results; i++) {
        flow_version *x = flow_loop_result(f, item, i);
        if (x) use(x, item->body, FLOW_END, FLOW_END);
      }
      break;
    }
  }
}

flow_version *flow_loop_result(const flow *f, const flow_item *loop, int32_t i) {
  const ir_graph *g = loop->body->graph;
  const ir_value *v = g->results[i];
  bool scan = i + 1 >= g->n_params;
  if (ir_is_constant(v) || (i && scan && !loop->outputs[i - 1])) return NULL;
  return f->values[v->id].on[!i ? 0 : scan ? loop->outputs[i - 1]->device : g->params[i + 1]->device];
}

/* Changes the time and order of a use to those of the If or Loop in x's home block that contains the use. */
static void lift(const flow_version *x, const flow_block *b, int32_t *time, int32_t *order) {
  while (b != x->home) {
    *order = b->owner->order;
    if (b == b->root) *time = b->owner->time;
    b = b->owner->block;
  }
}

static void note_first(flow_version *x, const flow_block *b, int32_t time, int32_t order) {
  lift(x, b, &time, &order);
  if (x->first > time) x->first = time;
}

static void note_last(flow_version *x, const flow_block *b, int32_t time, int32_t order) {
  lift(x, b, &time, &order);
  if (x->last < time) x->last = time;
  if (time == x->time && x->last_order < order) x->last_order = order;
}

static void each_use(const flow *f, use_fn use) {
  for (size_t k = 0; k < f->blocks.n; k++)
    for (size_t i = 0; i < f->blocks.items[k]->items.n; i++) walk_uses(f, f->blocks.items[k]->items.items[i], use);
}

/* Moves every copy to the epoch of its first user, but not before the epoch in which its source is known. */
static void place_copies(const flow *f) {
  for (size_t k = 0; k < f->blocks.n; k++)
    for (size_t i = 0; i < f->blocks.items[k]->items.n; i++) {
      flow_item *item = f->blocks.items[k]->items.items[i];
      if (item->kind != FLOW_COPY) continue;
      flow_version *x = item->target;
      int32_t epoch = x->first == FLOW_END ? x->known : larger(flow_epoch(x->first), x->known);
      item->time = x->time = flow_time(epoch, SLOT_EPOCH);
    }
}

static void count_epoch(flow_block *root, int32_t time) {
  root->n_epochs = larger(root->n_epochs, flow_epoch(time) + 1);
}

static void count_epochs(const flow *f) {
  for (size_t k = 0; k < f->blocks.n; k++) {
    flow_block *b = f->blocks.items[k];
    for (size_t i = 0; i < b->items.n; i++) {
      const flow_item *item = b->items.items[i];
      count_epoch(b->root, item->time);
      for (int32_t j = 0; item->kind == FLOW_IF && j < item->node->n_outputs; j++)
        if (item->outputs[j]) count_epoch(b->root, item->outputs[j]->time);
    }
  }
}

/* Moves read-backs of model outputs to the last boundary, in one batch, because no other item waits for them. */
static void delay_outputs(const flow *f) {
  int32_t last = flow_time(f->main->n_epochs - 1, SLOT_FETCH);
  for (size_t i = 0; i < f->main->items.n; i++) {
    flow_item *item = f->main->items.items[i];
    if (item->kind == FLOW_FETCH && item->reason == COPY_REASON_OUTPUT && item->time < last)
      item->time = item->target->time = last;
  }
}

/* ---- entries ---- */

static bool add_entry(flow_block *b, int32_t time, int32_t order, flow_item *item) {
  if (!VEC_PUSH(&b->entries, ((flow_entry){.time = time, .order = order, .item = item}))) return false;
  if (b == b->root) return true;
  return add_entry(b->owner->block, time, b->owner->order, b->owner);
}

static bool add_entries(flow_block *b) {
  for (size_t i = 0; i < b->items.n; i++) {
    flow_item *item = b->items.items[i];
    if (!add_entry(b, item->time, item->order, item)) return false;
    if (item->kind != FLOW_IF) continue;
    for (int32_t k = 0; k < item->node->n_outputs; k++)
      for (int side = 0; side < 2 && item->outputs[k]; side++)
        if (!add_entry(item->branches[side], item->outputs[k]->time, FLOW_END, item)) return false;
  }
  return true;
}

static int compare_entries(const void *left, const void *right) {
  const flow_entry *a = left, *b = right;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  if (a->order != b->order) return a->order < b->order ? -1 : 1;
  return (a->item->number > b->item->number) - (a->item->number < b->item->number);
}

static void sort_entries(flow_block *b) {
  if (!b->entries.n) return;
  qsort(b->entries.items, b->entries.n, sizeof *b->entries.items, compare_entries);
  size_t n = 1;
  for (size_t i = 1; i < b->entries.n; i++) {
    const flow_entry *e = &b->entries.items[i], *kept = &b->entries.items[n - 1];
    if (e->item != kept->item || e->time != kept->time) b->entries.items[n++] = *e;
  }
  b->entries.n = n;
}

static size_t first_entry(const flow_block *b, int32_t time, int32_t order) {
  size_t low = 0, high = b->entries.n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const flow_entry *e = &b->entries.items[middle];
    if (e->time < time || (e->time == time && e->order < order)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* The last of the entries with this time and order: copies of several results of one operator have the same order. */
static size_t last_entry(const flow_block *b, int32_t time, int32_t order) {
  size_t i = first_entry(b, time, order);
  while (i + 1 < b->entries.n && b->entries.items[i + 1].time == time && b->entries.items[i + 1].order == order) i++;
  return i;
}

void flow_entries_at(const flow_block *b, int32_t time, size_t *out_begin, size_t *out_end) {
  *out_begin = first_entry(b, time, 0);
  *out_end = first_entry(b, time + 1, 0);
}

/* ---- deaths ---- */

static void settle_memory(const flow_block *root) {
  for (size_t i = 0; i < root->versions.n; i++) {
    flow_version *x = root->versions.items[i], *whole = memory_root(x);
    if (x->last < x->time) x->last = x->time;
    whole->last_of_memory = larger(whole->last_of_memory, x->last);
  }
}

static reed_status place_kills(flow *f, flow_block *root) {
  root->kills = ir_alloc(f->m, sizeof *root->kills * (size_t)(3 * (root->n_epochs + 1)));
  if (!root->kills) return no_memory(f);
  for (size_t i = 0; i < root->versions.n; i++) {
    flow_version *x = root->versions.items[i], **list;
    bool in_epoch = x->filled && flow_slot(x->time) == SLOT_EPOCH && memory_root(x)->last_of_memory == x->time;
    if (in_epoch) {
      x->killed_in_run = true;
      list = &x->home->entries.items[last_entry(x->home, x->time, x->last_order)].kills;
    } else {
      list = x->last == FLOW_END ? &root->end_kills : &root->kills[x->last];
    }
    x->next_kill = *list;
    *list = x;
  }
  return REED_OK;
}

reed_status flow_cut(flow *f) {
  f->values = ir_alloc(f->m, sizeof *f->values * (size_t)f->placed.n_values);
  if (!f->values) return no_memory(f);
  reed_status status = cut_main(f);
  if (status != REED_OK) return status;
  for (int32_t i = 0; i < f->m->main->n_results; i++) {
    const ir_value *v = f->m->main->results[i];
    if (!ir_is_constant(v)) f->values[v->id].on[0]->last = FLOW_END;
  }
  each_use(f, note_first);
  place_copies(f);
  count_epochs(f);
  delay_outputs(f);
  each_use(f, note_last);
  for (size_t k = 0; k < f->blocks.n; k++)
    if (!add_entries(f->blocks.items[k])) return no_memory(f);
  for (size_t k = 0; k < f->blocks.n; k++) sort_entries(f->blocks.items[k]);
  for (size_t k = 0; k < f->blocks.n; k++)
    if (f->blocks.items[k]->root == f->blocks.items[k]) settle_memory(f->blocks.items[k]);
  for (size_t k = 0; k < f->blocks.n && status == REED_OK; k++)
    if (f->blocks.items[k]->root == f->blocks.items[k]) status = place_kills(f, f->blocks.items[k]);
  return status;
}

void flow_fini(flow *f) {
  for (size_t k = 0; k < f->blocks.n; k++) {
    VEC_FREE(&f->blocks.items[k]->items);
    VEC_FREE(&f->blocks.items[k]->entries);
    VEC_FREE(&f->blocks.items[k]->versions);
  }
  VEC_FREE(&f->blocks);
}
