/* Loops that carry sequences -> Loops with scan outputs: of a sequence that is empty at first, and to which each round
 * appends one item, the items are a scan output. The rewriting is of the ONNX structs, before the Loop is read. */
#include <string.h>

#include "compiler/onnx/reader.h"

/* A carried sequence: input `at` of the Loop and of its body, result at - 1 of the body, output at - 2 of the Loop. */
typedef struct carried {
  size_t at;
  const char *item; /* the name in the body of the item that a round appends */
} carried;

typedef struct rewriting {
  onnx_reader *r;
  const Onnx__NodeProto *node;
  const char *node_name;
  const Onnx__GraphProto *body;
  carried *sequences;
  size_t n_sequences;
  bool *dropped; /* of the body's nodes */
  bool failed;   /* no memory */
} rewriting;

static bool is_carried(const rewriting *w, size_t at) {
  for (size_t i = 0; i < w->n_sequences; i++)
    if (w->sequences[i].at == at) return true;
  return false;
}

/* True if a node of the graph, or of a graph in one of its nodes, takes the name. */
static bool takes(const Onnx__GraphProto *g, const char *name, const bool *dropped, int depth) {
  bool found = depth > ONNX_MAX_GRAPH_DEPTH;
  for (size_t i = 0; i < g->n_node && !found; i++) {
    const Onnx__NodeProto *n = g->node[i];
    if (dropped && dropped[i]) continue;
    for (size_t k = 0; k < n->n_input && !found; k++) found = strcmp(n->input[k], name) == 0;
    for (size_t k = 0; k < n->n_attribute && !found; k++)
      found = n->attribute[k]->g && takes(n->attribute[k]->g, name, NULL, depth + 1);
  }
  return found;
}

/* The body's node that appends to the sequence of that name, or gives it another name; body->n_node: none. */
static size_t find_next(const Onnx__GraphProto *body, const char *name) {
  size_t i = 0;
  for (; i < body->n_node; i++) {
    const Onnx__NodeProto *n = body->node[i];
    const char *type = onnx_text(n->op_type);
    const bool appends = strcmp(type, "SequenceInsert") == 0 && (n->n_input == 2 || (n->n_input == 3 && !*n->input[2])),
               renames = strcmp(type, "Identity") == 0 && n->n_input == 1;
    if ((appends || renames) && n->n_output == 1 && strcmp(n->input[0], name) == 0) break;
  }
  return i;
}

/* Finds the item that each round appends to the sequence, and drops the nodes between. False: there is not one item. */
static bool find_item(rewriting *w, carried *s) {
  if (s->at >= w->body->n_input || s->at > w->body->n_output) return false;
  const char *name = onnx_text(w->body->input[s->at]->name), *result = onnx_text(w->body->output[s->at - 1]->name);
  while (strcmp(name, result) != 0) {
    const size_t next = find_next(w->body, name);
    if (next == w->body->n_node || w->dropped[next]) return false;
    const Onnx__NodeProto *n = w->body->node[next];
    w->dropped[next] = true;
    if (takes(w->body, name, w->dropped, 0) || (n->n_input > 1 && s->item)) return false;
    if (n->n_input > 1) s->item = n->input[1];
    name = n->output[0];
  }
  return s->item && !takes(w->body, result, w->dropped, 0);
}

static void *room(rewriting *w, size_t bytes) {
  void *memory = ir_alloc(w->r->m, bytes ? bytes : 1);
  w->failed |= !memory;
  return memory;
}

/* The *n pointers of a list without those of sequences, whose places in the list are `before` less than their inputs';
 * with room for ONNX_LOOP_ITEMS more of each. *n: how many are left. NULL: no memory. */
static void *without(rewriting *w, void *list, size_t *n, size_t before) {
  void **from = list, **to = room(w, sizeof *to * (*n + ONNX_LOOP_ITEMS * w->n_sequences));
  size_t n_left = 0;
  for (size_t i = 0; i < *n && to; i++)
    if (!is_carried(w, i + before)) to[n_left++] = from[i];
  *n = n_left;
  return to;
}

/* Results of the body for each sequence: twice the item, and the number of the round. */
static void add_results(rewriting *w, Onnx__GraphProto *body) {
  for (size_t i = 0; i < ONNX_LOOP_ITEMS * w->n_sequences && body->output; i++) {
    Onnx__ValueInfoProto *info = room(w, sizeof *info);
    if (!info) return;
    onnx__value_info_proto__init(info);
    info->name = i % ONNX_LOOP_ITEMS < 2 ? (char *)w->sequences[i / ONNX_LOOP_ITEMS].item : body->input[0]->name;
    body->output[body->n_output++] = info;
  }
}

static Onnx__GraphProto *rewrite_body(rewriting *w) {
  Onnx__GraphProto *body = room(w, sizeof *body);
  if (!body) return NULL;
  *body = *w->body;
  body->input = without(w, body->input, &body->n_input, 0);
  body->output = without(w, body->output, &body->n_output, 1);
  add_results(w, body);
  body->node = room(w, sizeof *body->node * body->n_node);
  body->n_node = 0;
  for (size_t i = 0; i < w->body->n_node && body->node; i++)
    if (!w->dropped[i]) body->node[body->n_node++] = w->body->node[i];
  return body;
}

static Onnx__NodeProto *rewrite_node(rewriting *w, Onnx__GraphProto *body) {
  Onnx__NodeProto *n = room(w, sizeof *n);
  Onnx__AttributeProto *a = room(w, sizeof *a);
  if (!n || !a || !body) return NULL;
  *n = *w->node;
  n->input = without(w, n->input, &n->n_input, 0);
  n->output = without(w, n->output, &n->n_output, 2);
  n->attribute = room(w, sizeof *n->attribute * n->n_attribute);
  for (size_t i = 0; i < n->n_attribute && n->attribute; i++) {
    n->attribute[i] = w->node->attribute[i];
    if (n->attribute[i]->g != w->body) continue;
    *a = *n->attribute[i];
    a->g = body;
    n->attribute[i] = a;
  }
  static const char *const what[ONNX_LOOP_ITEMS] = {"stacked", "joined", "numbered"};
  for (size_t i = 0; i < ONNX_LOOP_ITEMS * w->n_sequences && n->output; i++) {
    char *name = ir_text(w->r->m, "%s: items %zu, %s", w->node_name, i / ONNX_LOOP_ITEMS, what[i % ONNX_LOOP_ITEMS]);
    n->output[n->n_output++] = name;
    w->failed |= !name;
  }
  return n;
}

reed_status onnx_unsequenced_loop(onnx_reader *r, const onnx_frame *f, const Onnx__NodeProto *node,
                                  const char *node_name, onnx_loop *out_loop) {
  const Onnx__AttributeProto *body = onnx_find_attribute(f, node, "body");
  rewriting w = {.r = r, .node = node, .node_name = node_name, .body = body ? body->g : NULL};
  *out_loop = (onnx_loop){0};
  if (!w.body) return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s' (Loop) has no graph 'body'", node_name);
  w.sequences = room(&w, sizeof *w.sequences * node->n_input);
  w.dropped = room(&w, w.body->n_node);
  out_loop->names = room(&w, sizeof *out_loop->names * node->n_input);
  if (w.failed) return diag_no_memory(r->diagnosis, "a Loop's sequences");
  memset(w.dropped, 0, w.body->n_node);
  bool one_item = true;
  for (size_t i = 2; i < node->n_input; i++) {
    const onnx_sequence *s = onnx_sequence_of(r, onnx_scope_find(&f->scope, node->input[i]));
    if (!s) continue;
    w.sequences[w.n_sequences] = (carried){.at = i};
    out_loop->names[w.n_sequences] = i - 2 < node->n_output ? node->output[i - 2] : "";
    one_item = one_item && !s->x && s->n_items == 0 && find_item(&w, &w.sequences[w.n_sequences]);
    w.n_sequences++;
  }
  out_loop->n_names = (int32_t)w.n_sequences;
  if (!one_item)
    return onnx_unsupported(r, node_name,
                            "a Loop with a sequence, other than an empty one to which each round appends an item");
  out_loop->node = rewrite_node(&w, rewrite_body(&w));
  return w.failed ? diag_no_memory(r->diagnosis, "a Loop's sequences") : REED_OK;
}
