/* Common subexpressions: the results of the first of two equal calls (operator, attributes, inputs) replace those of
 * the second. The first may be in a graph around the second's. Equal constants become one constant. Constants computed
 * from constants: fold.c. */
#include <string.h>

#include "base/hash.h"
#include "base/table.h"
#include "compiler/ir/pass.h"

#define MOST_CONSTANT_BYTES ((int64_t)1 << 20) /* larger constants are weights, which are hardly ever equal */

/* Nodes or constants by hash; the entries of a body are removed at its end. */
typedef struct entry {
  uint64_t hash;
  void *item; /* ir_node or ir_value */
} entry;

typedef struct sharing {
  ir_module *m;
  VEC_OF(entry) entries;
  table table; /* of entries */
  bool (*same)(const void *a, const void *b);
  int64_t n_nodes, n_constants;
} sharing;

static bool enter(sharing *s, uint64_t hash, void *item) {
  if (!VEC_ROOM(&s->entries) || !table_add(&s->table, hash, (uint32_t)s->entries.n)) return false;
  s->entries.items[s->entries.n++] = (entry){hash, item};
  return true;
}

static void leave_until(sharing *s, size_t n) {
  for (; s->entries.n > n; s->entries.n--)
    table_remove(&s->table, s->entries.items[s->entries.n - 1].hash, (uint32_t)s->entries.n - 1);
}

static bool same_entry(const void *context, uint32_t item, const void *wanted) {
  const sharing *s = context;
  return s->same(s->entries.items[item].item, wanted);
}

static void *lookup(const sharing *s, uint64_t hash, const void *wanted) {
  uint32_t found = table_find(&s->table, hash, same_entry, s, wanted);
  return found == TABLE_NONE ? NULL : s->entries.items[found].item;
}

/* ---- equality ---- */

static bool same_array(const void *a, const void *b, size_t bytes) { return bytes == 0 || memcmp(a, b, bytes) == 0; }

static bool same_call(const void *x, const void *y) {
  const ir_node *a = x, *b = y;
  if (a->op != b->op || a->n_inputs != b->n_inputs || a->n_outputs != b->n_outputs || a->n_attrs != b->n_attrs)
    return false;
  for (int32_t i = 0; i < a->n_inputs; i++)
    if (a->inputs[i] != b->inputs[i]) return false;
  for (int32_t i = 0; i < a->n_outputs; i++)
    if (b->outputs[i] && !a->outputs[i]) return false;
  for (int32_t i = 0; i < a->n_attrs; i++)
    if (!attr_equal(&a->attrs[i], &b->attrs[i])) return false;
  return true;
}

static bool same_constant(const void *x, const void *y) {
  const ir_value *a = x, *b = y;
  reed_desc of_a, of_b;
  return ir_desc(a, &of_a) && ir_desc(b, &of_b) && desc_equal(&of_a, &of_b) &&
         same_array(a->data, b->data, (size_t)desc_bytes(&of_a));
}

static uint64_t hash_call(const ir_node *n) {
  uint64_t h = hash_bytes(&n->op, sizeof n->op, 0);
  h = hash_bytes(n->inputs, (size_t)n->n_inputs * sizeof *n->inputs, h);
  for (int32_t i = 0; i < n->n_attrs; i++) {
    const reed_attr *a = &n->attrs[i];
    h = hash_bytes(&a->i, sizeof a->i, h);
    if (a->ints) h = hash_bytes(a->ints, (size_t)a->n * sizeof *a->ints, h);
  }
  return h;
}

/* ---- the pass ---- */

static reed_status no_memory(const sharing *s) { return diag_no_memory(s->m->diagnosis, "common subexpressions"); }

static reed_status share_constants(sharing *s) {
  s->same = same_constant;
  for (size_t i = 0; i < s->m->constants.n; i++) {
    ir_value *v = s->m->constants.items[i];
    reed_desc d;
    if (!ir_desc(v, &d) || desc_bytes(&d) > MOST_CONSTANT_BYTES) continue;
    uint64_t h = hash_bytes(v->data, (size_t)desc_bytes(&d), 0);
    ir_value *first = lookup(s, h, v);
    if (first) {
      ir_forward(v, first);
      s->n_constants++;
    } else if (!enter(s, h, v)) {
      return no_memory(s);
    }
  }
  leave_until(s, 0);
  return REED_OK;
}

static reed_status share_graph(sharing *s, ir_graph *g) {
  size_t mark = s->entries.n;
  for (size_t i = 0; i < g->nodes.n; i++) {
    ir_node *n = g->nodes.items[i];
    for (int32_t k = 0; k < n->n_inputs; k++) n->inputs[k] = ir_resolve(n->inputs[k]);
    for (int32_t k = 0; k < n->n_regions; k++) {
      reed_status status = share_graph(s, n->regions[k]);
      if (status != REED_OK) return status;
    }
    if (op_is_control(n->op) || n->op->impure) continue;
    uint64_t h = hash_call(n);
    const ir_node *first = lookup(s, h, n);
    if (!first) {
      if (!enter(s, h, n)) return no_memory(s);
      continue;
    }
    for (int32_t k = 0; k < n->n_outputs; k++)
      if (n->outputs[k]) ir_forward(n->outputs[k], first->outputs[k]);
    n->dead = true;
    s->n_nodes++;
  }
  leave_until(s, mark);
  return REED_OK;
}

reed_status pass_cse(ir_module *m, pass_report *report) {
  sharing s = {.m = m};
  reed_status status = share_constants(&s);
  s.same = same_call;
  if (status == REED_OK) status = share_graph(&s, m->main);
  VEC_FREE(&s.entries);
  table_fini(&s.table);
  ir_settle(m);
  ir_sweep(m);
  *report = (pass_report){.counts = {{"operators shared", s.n_nodes}, {"constants shared", s.n_constants}}};
  return status;
}
