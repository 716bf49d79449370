/* The order of a list of ONNX nodes. ONNX requires every node to come after the nodes whose results it uses, but
 * exporters and editors write other orders too. The reader (graph.c) takes nodes in the order found here.
 *
 * A list in order keeps its order. In another list a node moves only as far as its operands require: it comes right
 * after the last of the nodes that it waits for, and a node without such operands keeps its place. Names that a body
 * uses from the graphs around it count as operands of the body's node. */
#include <stdlib.h>
#include <string.h>

#include "compiler/onnx/reader.h"

#define SHOWN_NODES 8 /* nodes of a circle that the message names */

typedef struct maker {
  const char *name;
  size_t node;
} maker;

/* Names defined in a body, and in the bodies around it up to the node in the list. */
typedef struct inner_names {
  const struct inner_names *outer;
  const char **names; /* sorted */
  size_t n;
  int depth;
} inner_names;

typedef struct ordering {
  onnx_reader *r;
  const onnx_frame *f;
  Onnx__NodeProto *const *nodes;
  size_t n;
  maker *makers; /* sorted by name, then node */
  size_t n_makers;
  VEC_OF(size_t) edges; /* the nodes that node i waits for: edges first[i] to first[i + 1] */
  size_t *first;
  size_t at; /* the node whose edges are being collected */
  bool sorted;
} ordering;

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int by_name_and_node(const void *a, const void *b) {
  const maker *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order ? order : x->node < y->node ? -1 : x->node > y->node;
}

/* ---- the nodes that a node waits for ---- */

/* The first node of the list that defines the name; NULL: none. */
static const maker *find_maker(const ordering *o, const char *name) {
  size_t low = 0, high = o->n_makers;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(o->makers[middle].name, name) < 0) low = middle + 1;
    else high = middle;
  }
  return low < o->n_makers && strcmp(o->makers[low].name, name) == 0 ? &o->makers[low] : NULL;
}

/* Adds an edge to the node that defines the name. A name defined before the list begins means that earlier value,
 * unless an earlier node of the list defines it again. */
static bool use_name(ordering *o, const inner_names *inner, const char *name) {
  for (; inner; inner = inner->outer)
    if (inner->n && bsearch(&name, inner->names, inner->n, sizeof *inner->names, by_name)) return true;
  const maker *m = *name ? find_maker(o, name) : NULL;
  if (!m || (m->node >= o->at && onnx_scope_find(&o->f->scope, name))) return true;
  o->sorted = o->sorted && m->node < o->at;
  return VEC_PUSH(&o->edges, m->node);
}

static bool use_node(ordering *o, const inner_names *inner, const Onnx__NodeProto *node);

static bool use_graph(ordering *o, const inner_names *outer, const Onnx__GraphProto *g) {
  inner_names own = {.outer = outer, .depth = outer ? outer->depth + 1 : 1};
  if (own.depth > ONNX_MAX_GRAPH_DEPTH) return true; /* graph.c refuses it */
  size_t most = g->n_input + g->n_initializer;
  for (size_t i = 0; i < g->n_node; i++) most += g->node[i]->n_output;
  own.names = mem_calloc(most, sizeof *own.names);
  if (!own.names) return false;
  for (size_t i = 0; i < g->n_input; i++) own.names[own.n++] = onnx_text(g->input[i]->name);
  for (size_t i = 0; i < g->n_initializer; i++) own.names[own.n++] = onnx_text(g->initializer[i]->name);
  for (size_t i = 0; i < g->n_node; i++)
    for (size_t k = 0; k < g->node[i]->n_output; k++) own.names[own.n++] = onnx_text(g->node[i]->output[k]);
  qsort(own.names, own.n, sizeof *own.names, by_name);
  bool ok = true;
  for (size_t i = 0; i < g->n_node && ok; i++) ok = use_node(o, &own, g->node[i]);
  for (size_t i = 0; i < g->n_output && ok; i++) ok = use_name(o, &own, onnx_text(g->output[i]->name));
  mem_free(own.names);
  return ok;
}

/* Adds the node's inputs, and the names that its bodies use from the graphs around them. */
static bool use_node(ordering *o, const inner_names *inner, const Onnx__NodeProto *node) {
  bool ok = true;
  for (size_t i = 0; i < node->n_input && ok; i++) ok = use_name(o, inner, onnx_text(node->input[i]));
  for (size_t i = 0; i < node->n_attribute && ok; i++)
    if (node->attribute[i]->g) ok = use_graph(o, inner, node->attribute[i]->g);
  return ok;
}

static bool collect(ordering *o) {
  size_t n_outputs = 0;
  for (size_t i = 0; i < o->n; i++) n_outputs += o->nodes[i]->n_output;
  o->makers = mem_calloc(n_outputs, sizeof *o->makers);
  o->first = mem_calloc(o->n + 1, sizeof *o->first);
  if (!o->makers || !o->first) return false;
  for (size_t i = 0; i < o->n; i++)
    for (size_t k = 0; k < o->nodes[i]->n_output; k++)
      if (*onnx_text(o->nodes[i]->output[k])) o->makers[o->n_makers++] = (maker){o->nodes[i]->output[k], i};
  if (o->n_makers) qsort(o->makers, o->n_makers, sizeof *o->makers, by_name_and_node);
  o->sorted = true;
  for (o->at = 0; o->at < o->n; o->at++) {
    o->first[o->at] = o->edges.n;
    if (!use_node(o, NULL, o->nodes[o->at])) return false;
  }
  o->first[o->n] = o->edges.n;
  return true;
}

/* ---- the order ---- */

typedef struct visit {
  size_t node, next; /* next: the next edge to follow */
} visit;
typedef VEC_OF(visit) visits;
enum { NOT_MET, WAITING, TAKEN };

/* Fails with the names of the nodes that wait for each other: those from `again` to the end of the path. */
static reed_status circle(const ordering *o, const visits *path, size_t again) {
  text_buffer names = {0};
  size_t begin = 0;
  while (path->items[begin].node != again) begin++;
  for (size_t i = begin; i < path->n && i < begin + SHOWN_NODES; i++) {
    const Onnx__NodeProto *node = o->nodes[path->items[i].node];
    const char *comma = i > begin ? ", " : "", *op = onnx_text(node->op_type);
    if (node->name && *node->name) text_append(&names, "%s'%s' (%s)", comma, node->name, op);
    else text_append(&names, "%sthe %s that makes '%s'", comma, op, node->n_output ? node->output[0] : "");
  }
  if (path->n > begin + SHOWN_NODES) text_append(&names, " and %zu more", path->n - begin - SHOWN_NODES);
  reed_status status = names.failed ? diag_no_memory(o->r->diagnosis, "the order of nodes")
                                    : diag_fail(o->r->diagnosis, REED_ERROR_FORMAT,
                                                "graph '%s': nodes wait for each other's results in a circle: %s",
                                                o->f->graph->name, names.data);
  text_fini(&names);
  return status;
}

/* Sorts depth first, with an explicit path instead of recursion, because a list may be one long chain in reverse order.
 */
static reed_status sort(const ordering *o, size_t *order) {
  uint8_t *state = mem_calloc(o->n, sizeof *state);
  visits path = {0};
  size_t n_taken = 0;
  reed_status status = state ? REED_OK : REED_ERROR_MEMORY;
  for (size_t i = 0; i < o->n && status == REED_OK; i++) {
    if (state[i] != NOT_MET) continue;
    state[i] = WAITING;
    if (!VEC_PUSH(&path, ((visit){i, o->first[i]}))) status = REED_ERROR_MEMORY;
    while (path.n && status == REED_OK) {
      visit *last = &path.items[path.n - 1];
      if (last->next == o->first[last->node + 1]) {
        state[last->node] = TAKEN;
        order[n_taken++] = last->node;
        path.n--;
        continue;
      }
      size_t needed = o->edges.items[last->next++];
      if (state[needed] == WAITING) status = circle(o, &path, needed);
      if (state[needed] != NOT_MET) continue;
      state[needed] = WAITING;
      if (!VEC_PUSH(&path, ((visit){needed, o->first[needed]}))) status = REED_ERROR_MEMORY;
    }
  }
  mem_free(state);
  VEC_FREE(&path);
  return status;
}

reed_status onnx_order_nodes(onnx_reader *r, const onnx_frame *f, Onnx__NodeProto *const *nodes, size_t n,
                             size_t **out_order) {
  ordering o = {.r = r, .f = f, .nodes = nodes, .n = n};
  size_t *order = NULL;
  reed_status status = collect(&o) ? REED_OK : REED_ERROR_MEMORY;
  if (status == REED_OK && !o.sorted && !(order = mem_calloc(n, sizeof *order))) status = REED_ERROR_MEMORY;
  if (order) status = sort(&o, order);
  mem_free(o.makers);
  mem_free(o.first);
  VEC_FREE(&o.edges);
  if (status == REED_OK) {
    *out_order = order;
    return REED_OK;
  }
  mem_free(order);
  return status == REED_ERROR_MEMORY ? diag_no_memory(r->diagnosis, "the order of nodes") : status;
}
