/* The graph's storage and its primitive edits: arena, makers, attributes, replacement of uses, walks. No code here
 * depends on an operator. Text of a graph: print.c. */
#include "compiler/ir/ir.h"

#include "base/cancel.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Blocks of memory that are freed together. A request over a quarter of a block gets a block of its own, so that
 * weights waste no memory. */
#define BLOCK_BYTES ((size_t)1 << 16)
#define CONSTANT_ALIGNMENT 64

typedef struct block {
  struct block *next;
} block;

struct ir_arena {
  block *blocks;
  char *free_begin, *free_end; /* the free part of the newest shared block */
  void *long_items;            /* the array that `grown` gave a block of its own last, and that block's bytes */
  size_t long_bytes;
  VEC_OF(ir_graph *) graphs; /* their node lists are heap vectors */
};

/* Memory that is not cleared. */
static void *block_new(struct ir_arena *a, size_t bytes) {
  size_t total;
  if (__builtin_add_overflow(bytes, (size_t)CONSTANT_ALIGNMENT, &total)) return NULL;
  block *b = mem_alloc_aligned(total, CONSTANT_ALIGNMENT);
  if (!b) return NULL;
  b->next = a->blocks;
  a->blocks = b;
  return (char *)b + CONSTANT_ALIGNMENT;
}

void *ir_alloc(ir_module *m, size_t bytes) {
  struct ir_arena *a = m->arena;
  if (bytes > BLOCK_BYTES / 4) {
    void *own = block_new(a, bytes);
    return own ? memset(own, 0, bytes) : NULL;
  }
  bytes = (bytes + 15) & ~(size_t)15;
  if (!bytes) bytes = 16;
  if ((size_t)(a->free_end - a->free_begin) < bytes) {
    char *fresh = block_new(a, BLOCK_BYTES);
    if (!fresh) return NULL;
    memset(fresh, 0, BLOCK_BYTES);
    a->free_begin = fresh;
    a->free_end = fresh + BLOCK_BYTES;
  }
  void *p = a->free_begin;
  a->free_begin += bytes;
  return p;
}

void *ir_alloc_elements(ir_module *m, size_t bytes) {
  if (bytes <= BLOCK_BYTES / 4 - CONSTANT_ALIGNMENT) {
    char *p = ir_alloc(m, bytes + CONSTANT_ALIGNMENT);
    return p ? (void *)(((uintptr_t)p + CONSTANT_ALIGNMENT - 1) & ~(uintptr_t)(CONSTANT_ALIGNMENT - 1)) : NULL;
  }
  return block_new(m->arena, bytes);
}

static void *copy_in(ir_module *m, const void *source, size_t bytes) {
  void *p = ir_alloc(m, bytes);
  if (p && bytes) memcpy(p, source, bytes);
  return p;
}

char *ir_text(ir_module *m, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int n = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *text = n < 0 ? NULL : ir_alloc(m, (size_t)n + 1);
  if (text) vsnprintf(text, (size_t)n + 1, format, again);
  va_end(again);
  return text;
}

reed_status ir_module_open(const reed_registry *registry, reed_diagnosis *diagnosis, ir_module **out_module) {
  ir_module *m = mem_calloc(1, sizeof *m);
  if (!m) goto fail;
  m->registry = registry;
  m->diagnosis = diagnosis;
  m->arena = mem_calloc(1, sizeof *m->arena);
  if (!m->arena || symbols_open(&m->symbols) != REED_OK) goto fail;
  m->name = "";
  m->given_bytes = -1;
  m->main = ir_graph_new(m, NULL, "main");
  if (!m->main) goto fail;
  *out_module = m;
  return REED_OK;
fail:
  ir_module_close(&m);
  return diag_no_memory(diagnosis, "a graph");
}

void ir_module_close(ir_module **module) {
  ir_module *m = *module;
  *module = NULL;
  if (!m) return;
  if (m->arena) {
    for (size_t i = 0; i < m->arena->graphs.n; i++) VEC_FREE(&m->arena->graphs.items[i]->nodes);
    VEC_FREE(&m->arena->graphs);
    for (block *b = m->arena->blocks, *next; b; b = next) {
      next = b->next;
      mem_free_aligned(b);
    }
    mem_free(m->arena);
  }
  if (m->symbols) symbols_close(&m->symbols);
  VEC_FREE(&m->constants);
  VEC_FREE(&m->declared);
  VEC_FREE(&m->ranges);
  mem_free(m);
}

/* ---- makers ---- */

/* The array with one more entry at the end; NULL: no memory. Short arrays are copied. Arrays that have a block of their
 * own (a hundred thousand outputs) grow by half, in the block's size: the blocks' memory is the module's until its end.
 */
static void *grown(ir_module *m, void *items, int32_t n, const void *item, size_t item_bytes) {
  size_t used = (size_t)n * item_bytes, room = used + item_bytes;
  bool is_long = used > BLOCK_BYTES / 4;
  char *copy = is_long && m->arena->long_items == items && room <= m->arena->long_bytes ? items : NULL;
  if (!copy) {
    if (room > BLOCK_BYTES / 4) room += room / 2;
    if (!(copy = ir_alloc(m, room))) return NULL;
    if (n) memcpy(copy, items, used);
    if (room > BLOCK_BYTES / 4) m->arena->long_items = copy, m->arena->long_bytes = room;
  }
  memcpy(copy + (size_t)n * item_bytes, item, item_bytes);
  return copy;
}

#define GROW(m, items, n, item) \
  ({ \
    void *grown_ = grown((m), (items), (n), &(item), sizeof(item)); \
    if (grown_) (items) = grown_, (n)++; \
    grown_ != NULL; \
  })

ir_graph *ir_graph_new(ir_module *m, ir_node *parent, const char *name) {
  ir_graph *g = ir_alloc(m, sizeof *g);
  if (!g) return NULL;
  g->module = m;
  g->parent = parent;
  g->name = name ? ir_text(m, "%s", name) : ir_text(m, "graph%d", m->n_names++);
  if (!g->name || !VEC_PUSH(&m->arena->graphs, g)) return NULL;
  if (parent && !GROW(m, parent->regions, parent->n_regions, g)) return NULL;
  return g;
}

ir_value *ir_value_new(ir_graph *g, const char *name) {
  ir_module *m = g->module;
  ir_value *v = ir_alloc(m, sizeof *v);
  if (!v) return NULL;
  v->graph = g;
  v->type.rank = -1;
  v->device = -1;
  v->name = name ? ir_text(m, "%s", name) : ir_text(m, "%%%d", m->n_names++);
  return v->name ? v : NULL;
}

ir_value *ir_constant(ir_module *m, const reed_desc *desc, const void *data, bool borrow, const char *name) {
  int64_t bytes = desc_bytes(desc);
  ir_value *v = bytes < 0 ? NULL : ir_value_new(m->main, name);
  if (!v) return NULL;
  v->type.dtype = desc->dtype;
  v->type.rank = desc->rank;
  memcpy(v->type.dims, desc->dims, sizeof(int64_t) * (size_t)desc->rank);
  if (borrow && data) {
    v->data = data;
  } else {
    void *copy = ir_alloc_elements(m, (size_t)bytes);
    if (!copy) return NULL;
    if (bytes) memcpy(copy, data, (size_t)bytes);
    v->data = copy;
  }
  return VEC_PUSH(&m->constants, v) ? v : NULL;
}

ir_value *ir_constant_i64(ir_module *m, const int64_t *elements, int64_t n, const char *name) {
  return ir_constant(m, &(reed_desc){.dtype = REED_I64, .rank = 1, .dims = {n}}, elements, false, name);
}

/* Puts n in the list before `before`; NULL: at the end. */
static bool insert(ir_graph *g, ir_node *n, const ir_node *before) {
  if (!VEC_PUSH(&g->nodes, n)) return false;
  if (!before) return true;
  size_t i = g->nodes.n - 1;
  while (i && g->nodes.items[i - 1] != before) i--;
  if (!i) return true;
  memmove(&g->nodes.items[i], &g->nodes.items[i - 1], (g->nodes.n - i) * sizeof n);
  g->nodes.items[i - 1] = n;
  return true;
}

ir_node *ir_node_new(ir_graph *g, ir_node *before, const reed_op *op, const char *name, ir_value *const *inputs,
                     int32_t n_inputs, ir_value *const *outputs, int32_t n_outputs) {
  ir_module *m = g->module;
  ir_node *n = ir_alloc(m, sizeof *n);
  if (!n) return NULL;
  n->op = op;
  n->graph = g;
  n->name = name && *name ? ir_text(m, "%s", name) : ir_text(m, "%s_%d", op->name, m->n_names++);
  n->n_inputs = n_inputs;
  n->n_outputs = n_outputs;
  n->inputs = copy_in(m, inputs, sizeof *inputs * (size_t)n_inputs);
  n->outputs = ir_alloc(m, sizeof *outputs * (size_t)n_outputs);
  if (!n->name || !n->inputs || !n->outputs) return NULL;
  for (int32_t i = 0; i < n_outputs; i++) {
    ir_value *v = outputs ? outputs[i] : ir_value_new(g, NULL);
    n->outputs[i] = v;
    if (!v && !outputs) return NULL;
    if (!v) continue;
    v->producer = n;
    v->producer_output = i;
    v->graph = g;
  }
  return ir_complete_attrs(n) && insert(g, n, before) ? n : NULL;
}

bool ir_add_param(ir_graph *g, ir_value *v) { return GROW(g->module, g->params, g->n_params, v); }
bool ir_add_result(ir_graph *g, ir_value *v) { return GROW(g->module, g->results, g->n_results, v); }
bool ir_add_input(ir_node *n, ir_value *v) { return GROW(n->graph->module, n->inputs, n->n_inputs, v); }

ir_node *ir_next(const ir_node *n) {
  const ir_graph *g = n->graph;
  for (size_t i = 0; i + 1 < g->nodes.n; i++)
    if (g->nodes.items[i] == n) return g->nodes.items[i + 1];
  return NULL;
}

/* ---- attributes: kept sorted by name ---- */

bool ir_set_attr(ir_node *n, const reed_attr *attr) {
  ir_module *m = n->graph->module;
  reed_attr copy = *attr;
  int64_t bytes = attr->type == REED_ATTR_TENSOR ? desc_bytes(&attr->desc) : 0;
  if (bytes < 0 || !(copy.name = ir_text(m, "%s", attr->name))) return false;
  if (attr->s && !(copy.s = ir_text(m, "%s", attr->s))) return false;
  if (attr->ints && !(copy.ints = copy_in(m, attr->ints, (size_t)attr->n * sizeof *attr->ints))) return false;
  if (attr->floats && !(copy.floats = copy_in(m, attr->floats, (size_t)attr->n * sizeof *attr->floats))) return false;
  if (attr->data && !(copy.data = copy_in(m, attr->data, (size_t)bytes))) return false;
  int32_t at = 0, order = 1;
  while (at < n->n_attrs && (order = strcmp(n->attrs[at].name, copy.name)) < 0) at++;
  if (at < n->n_attrs && order == 0) {
    n->attrs[at] = copy;
    return true;
  }
  if (!GROW(m, n->attrs, n->n_attrs, copy)) return false;
  memmove(&n->attrs[at + 1], &n->attrs[at], (size_t)(n->n_attrs - 1 - at) * sizeof copy);
  n->attrs[at] = copy;
  return true;
}

bool ir_set_attr_int(ir_node *n, const char *name, int64_t value) {
  return ir_set_attr(n, &(reed_attr){.name = name, .type = REED_ATTR_INT, .i = value});
}

bool ir_set_attr_float(ir_node *n, const char *name, double value) {
  return ir_set_attr(n, &(reed_attr){.name = name, .type = REED_ATTR_FLOAT, .f = value});
}

bool ir_set_attr_string(ir_node *n, const char *name, const char *value) {
  return ir_set_attr(n, &(reed_attr){.name = name, .type = REED_ATTR_STRING, .s = value});
}

bool ir_set_attr_ints(ir_node *n, const char *name, const int64_t *values, int64_t n_values) {
  return ir_set_attr(n, &(reed_attr){.name = name, .type = REED_ATTR_INTS, .ints = values, .n = n_values});
}

reed_attrs ir_attrs(const ir_node *n) { return (reed_attrs){n->attrs, n->n_attrs}; }

bool ir_complete_attrs(ir_node *n) {
  const reed_attrs given = ir_attrs(n);
  reed_attr *all = ir_alloc(n->graph->module, (size_t)(n->n_attrs + n->op->n_attrs) * sizeof *all);
  if (!all) return false;
  n->n_attrs = op_attrs_complete(n->op, &given, all).n;
  n->attrs = all;
  return true;
}

void ir_clear_attrs(ir_node *n) { n->n_attrs = 0; }

bool ir_set_op(ir_node *n, const reed_op *op) {
  n->op = op;
  ir_clear_attrs(n);
  return ir_complete_attrs(n);
}

bool ir_drop_attr(ir_node *n, const char *name) {
  const reed_op_attr *row = op_attr_row(n->op, name);
  int32_t at = 0;
  while (at < n->n_attrs && strcmp(n->attrs[at].name, name) != 0) at++;
  if (at == n->n_attrs) return true;
  n->n_attrs--;
  memmove(&n->attrs[at], &n->attrs[at + 1], (size_t)(n->n_attrs - at) * sizeof *n->attrs);
  if (!row || !row->otherwise) return true;
  reed_attr value = *row->otherwise;
  value.name = row->name;
  value.type = row->type;
  return ir_set_attr(n, &value);
}

bool ir_desc(const ir_value *v, reed_desc *out_desc) {
  if (!v || v->type.rank < 0 || v->type.dtype == REED_NONE) return false;
  reed_desc d = {.dtype = v->type.dtype, .rank = v->type.rank};
  for (int32_t i = 0; i < d.rank; i++) {
    if (symbol_is(v->type.dims[i])) return false;
    d.dims[i] = v->type.dims[i];
  }
  *out_desc = d;
  return true;
}

static bool same_dims(const ir_module *m, const ir_value *a, const ir_value *b) {
  if (a->type.rank < 0 || a->type.rank != b->type.rank) return false;
  for (int32_t i = 0; i < a->type.rank; i++)
    if (!symbols_assume_equal(m->symbols, a->type.dims[i], b->type.dims[i])) return false;
  return true;
}

bool ir_likely_same_dims(const ir_module *m, const ir_value *a, const ir_value *b) {
  if (a->type.rank < 0 || a->type.rank != b->type.rank) return false;
  for (int32_t i = 0; i < a->type.rank; i++)
    if (!symbols_equal_if_declared(m->symbols, a->type.dims[i], b->type.dims[i])) return false;
  return true;
}

bool ir_same_type(const ir_module *m, const ir_value *a, const ir_value *b) {
  return a->type.dtype != REED_NONE && a->type.dtype == b->type.dtype && same_dims(m, a, b);
}

bool ir_proven_same_type(const ir_module *m, const ir_value *a, const ir_value *b) {
  if (a->type.dtype == REED_NONE || a->type.dtype != b->type.dtype) return false;
  if (a->type.rank < 0 || a->type.rank != b->type.rank) return false;
  for (int32_t i = 0; i < a->type.rank; i++)
    if (!symbols_equal(m->symbols, a->type.dims[i], b->type.dims[i])) return false;
  return true;
}

/* ---- walking and replacing ---- */

reed_status ir_check_cancel(const ir_module *m) { return diag_check_cancel(m->diagnosis, m->cancel); }

reed_status ir_walk(ir_graph *g, bool deep, reed_status (*visit)(void *context, ir_node *n), void *context) {
  for (size_t i = 0; i < g->nodes.n; i++) {
    ir_node *n = g->nodes.items[i];
    if (n->dead) continue;
    reed_status status = ir_check_cancel(g->module);
    if (status == REED_OK) status = visit(context, n);
    if (status != REED_OK) return status;
    /* visit may have put nodes before n */
    while (i < g->nodes.n && g->nodes.items[i] != n) i++;
    if (n->dead || !deep) continue;
    for (int32_t k = 0; k < n->n_regions; k++) {
      status = ir_walk(n->regions[k], deep, visit, context);
      if (status != REED_OK) return status;
    }
  }
  return REED_OK;
}

void ir_forward(ir_value *from, ir_value *to) { from->forward = to; }

ir_value *ir_resolve(ir_value *v) {
  while (v && v->forward) v = v->forward;
  return v;
}

static void settle_graph(ir_graph *g) {
  for (size_t i = 0; i < g->nodes.n; i++) {
    ir_node *n = g->nodes.items[i];
    for (int32_t k = 0; k < n->n_inputs; k++) n->inputs[k] = ir_resolve(n->inputs[k]);
    for (int32_t k = 0; k < n->n_regions; k++) settle_graph(n->regions[k]);
  }
  for (int32_t i = 0; i < g->n_results; i++) g->results[i] = ir_resolve(g->results[i]);
}

void ir_settle(ir_module *m) { settle_graph(m->main); }

static void clear_uses(ir_graph *g) {
  for (int32_t i = 0; i < g->n_params; i++) g->params[i]->n_uses = 0;
  for (size_t i = 0; i < g->nodes.n; i++) {
    ir_node *n = g->nodes.items[i];
    for (int32_t k = 0; k < n->n_outputs; k++)
      if (n->outputs[k]) n->outputs[k]->n_uses = 0;
    for (int32_t k = 0; k < n->n_regions; k++) clear_uses(n->regions[k]);
  }
}

static void add_uses(ir_graph *g) {
  for (size_t i = 0; i < g->nodes.n; i++) {
    ir_node *n = g->nodes.items[i];
    if (n->dead) continue;
    for (int32_t k = 0; k < n->n_inputs; k++)
      if (n->inputs[k]) n->inputs[k]->n_uses++;
    for (int32_t k = 0; k < n->n_regions; k++) add_uses(n->regions[k]);
  }
  for (int32_t i = 0; i < g->n_results; i++) g->results[i]->n_uses++;
}

void ir_count_uses(ir_module *m) {
  for (size_t i = 0; i < m->constants.n; i++) m->constants.items[i]->n_uses = 0;
  clear_uses(m->main);
  add_uses(m->main);
}

static void sweep_graph(ir_graph *g) {
  size_t kept = 0;
  for (size_t i = 0; i < g->nodes.n; i++) {
    ir_node *n = g->nodes.items[i];
    if (n->dead) continue;
    g->nodes.items[kept++] = n;
    for (int32_t k = 0; k < n->n_regions; k++) sweep_graph(n->regions[k]);
  }
  g->nodes.n = kept;
}

void ir_sweep(ir_module *m) { sweep_graph(m->main); }

capability_call ir_call(const ir_node *n, const reed_attrs *attrs, reed_dtype *dtypes) {
  int32_t n_dtypes = 0;
  for (int32_t i = 0; i < n->n_inputs; i++) dtypes[n_dtypes++] = n->inputs[i] ? n->inputs[i]->type.dtype : REED_NONE;
  for (int32_t i = 0; i < n->n_outputs; i++) dtypes[n_dtypes++] = n->outputs[i] ? n->outputs[i]->type.dtype : REED_NONE;
  return (capability_call){
      .op = n->op, .attrs = attrs, .dtypes = dtypes, .n_inputs = n->n_inputs, .n_dtypes = n_dtypes};
}
