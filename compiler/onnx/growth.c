/* The number of nodes of a model with its functions inlined, counted before the first function is inlined, because a
 * few functions that call each other twice give more nodes than a computer has bytes. The nodes of each function are
 * counted once; its calls add that number. Inlining: functions.c. */
#include <string.h>

#include "compiler/onnx/reader.h"

#define MOST_INLINED ((int64_t)1 << 18) /* the number of nodes that any model may have after inlining */
#define MOST_GROWTH 64                  /* or the number for each node in the file, where that allows more */

typedef struct counting {
  onnx_reader *r;
  int64_t *counts; /* for each function: its nodes after inlining, and 1 for the call; 0: not counted yet */
  bool *open;      /* for each function: is being counted */
  int64_t n_file;  /* nodes in the file */
} counting;

static int64_t add(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static reed_status count_nodes(counting *c, Onnx__NodeProto *const *nodes, size_t n, int depth, int64_t *out_count);

static reed_status count_node(counting *c, const Onnx__NodeProto *node, int depth, int64_t *out_count) {
  const Onnx__FunctionProto *function =
      onnx_find_function(c->r, onnx_plain_domain(node->domain), onnx_text(node->op_type));
  reed_status status = REED_OK;
  *out_count = 1;
  c->n_file++;
  for (size_t i = 0; i < node->n_attribute && status == REED_OK; i++) {
    int64_t own = 0;
    const Onnx__GraphProto *g = node->attribute[i]->g;
    if (g && depth < ONNX_MAX_GRAPH_DEPTH) status = count_nodes(c, g->node, g->n_node, depth + 1, &own);
    *out_count = add(*out_count, own);
  }
  if (!function || status != REED_OK) return status;
  size_t k = 0;
  while (c->r->model->functions[k] != function) k++;
  if (c->open[k] || depth >= ONNX_MAX_GRAPH_DEPTH)
    return diag_fail(c->r->diagnosis, REED_ERROR_FORMAT,
                     "node '%s' (%s): functions are nested deeper than %d, or call themselves", onnx_text(node->name),
                     function->name, ONNX_MAX_GRAPH_DEPTH);
  if (!c->counts[k]) {
    int64_t body = 0;
    c->open[k] = true;
    status = count_nodes(c, function->node, function->n_node, depth + 1, &body);
    c->open[k] = false;
    c->counts[k] = add(1, body);
  }
  *out_count = add(*out_count, c->counts[k]);
  return status;
}

static reed_status count_nodes(counting *c, Onnx__NodeProto *const *nodes, size_t n, int depth, int64_t *out_count) {
  reed_status status = REED_OK;
  *out_count = 0;
  for (size_t i = 0; i < n && status == REED_OK; i++) {
    int64_t count;
    status = count_node(c, nodes[i], depth, &count);
    *out_count = add(*out_count, count);
  }
  return status;
}

reed_status onnx_check_growth(onnx_reader *r) {
  size_t n = r->model->n_functions;
  const Onnx__GraphProto *g = r->model->graph;
  r->most_nodes = ONNX_MAX_NODES;
  if (!n) return REED_OK;
  counting c = {.r = r, .counts = mem_calloc(n, sizeof *c.counts), .open = mem_calloc(n, sizeof *c.open)};
  int64_t count = 0;
  reed_status status = c.counts && c.open ? count_nodes(&c, g->node, g->n_node, 0, &count)
                                          : diag_no_memory(r->diagnosis, "the model's functions");
  int64_t allowed = c.n_file > MOST_INLINED / MOST_GROWTH ? c.n_file * MOST_GROWTH : MOST_INLINED;
  if (allowed < r->most_nodes) r->most_nodes = allowed;
  if (status == REED_OK && count > r->most_nodes)
    status = diag_fail(r->diagnosis, REED_ERROR_LIMIT,
                       "the model's %zu functions call each other so often that its %lld nodes would become more than "
                       "%lld",
                       n, (long long)c.n_file, (long long)r->most_nodes);
  mem_free(c.counts);
  mem_free(c.open);
  return status;
}
