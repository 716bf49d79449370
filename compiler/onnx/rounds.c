/* A Loop that carries sequences and whose number of rounds is a constant -> the nodes of its body for each round, so
 * that each sequence is a list. torch.tensor_split is exported so. */
#include <string.h>

#include "compiler/ir/pattern.h"
#include "compiler/onnx/reader.h"

#define ROUNDS_MOST 64
#define NODES_MOST 1024 /* of all rounds */

static bool is_true(const ir_value *v) {
  double x;
  while (v && !ir_is_constant(v) && pattern_made_by(v, OP_Identity)) v = v->producer->inputs[0];
  return v && ir_is_constant(v) && v->type.dtype == REED_BOOL && pattern_number(v, &x) && x != 0;
}

/* The body's node that makes the value of that name; NULL: none. */
static const Onnx__NodeProto *maker_of(const Onnx__GraphProto *g, const char *name) {
  for (size_t i = 0; i < g->n_node; i++)
    for (size_t k = 0; k < g->node[i]->n_output; k++)
      if (strcmp(g->node[i]->output[k], name) == 0) return g->node[i];
  return NULL;
}

/* True if the body's condition does not depend on its round: its own one, a constant, or a value around the Loop. */
static bool keeps_condition(const Onnx__GraphProto *g) {
  const char *name = onnx_text(g->output[0]->name);
  for (size_t i = 0; i <= g->n_node; i++) {
    const Onnx__NodeProto *n = maker_of(g, name);
    if (!n || strcmp(onnx_text(n->op_type), "Constant") == 0) return true;
    if (strcmp(onnx_text(n->op_type), "Identity") != 0 || n->n_input != 1) return false;
    name = n->input[0];
  }
  return false;
}

bool onnx_has_rounds(const onnx_frame *f, const Onnx__NodeProto *node, int64_t *out_rounds) {
  const Onnx__AttributeProto *body = onnx_find_attribute(f, node, "body");
  const Onnx__GraphProto *g = body ? body->g : NULL;
  const ir_value *count = node->n_input > 0 ? onnx_scope_find(&f->scope, node->input[0]) : NULL;
  double n;
  if (!g || !g->n_output || !count || !ir_is_constant(count) || !pattern_number(count, &n)) return false;
  if (*node->input[1] && !is_true(onnx_scope_find(&f->scope, node->input[1]))) return false;
  if (!(n >= 0 && n <= ROUNDS_MOST) || n * (double)g->n_node > NODES_MOST) return false;
  *out_rounds = (int64_t)n;
  return keeps_condition(g);
}

typedef struct unrolling {
  onnx_reader *r;
  onnx_frame *f;
  const Onnx__NodeProto *node;
  const char *name; /* of the node */
  const Onnx__GraphProto *body;
  size_t n_carried, n_scanned;
  ir_value *carried[REED_MAX_OPERANDS];
  ir_value **scanned; /* n_scanned for each round */
  bool unsupported;
} unrolling;

static reed_status no_memory(const unrolling *u) { return diag_no_memory(u->r->diagnosis, "the rounds of a Loop"); }

static reed_status refuse(unrolling *u, const char *what) {
  u->unsupported = true;
  return onnx_unsupported(u->r, u->name, "%s", what);
}

/* Gives the body's parameters their values in this round. */
static reed_status define_params(unrolling *u, onnx_frame *f, int64_t round) {
  static const uint8_t goes_on = 1;
  reed_status status = REED_OK;
  for (size_t i = 0; i < u->body->n_input && status == REED_OK; i++) {
    const reed_desc desc = {.dtype = i == 0 ? REED_I64 : REED_BOOL};
    ir_value *v =
        i >= 2 ? u->carried[i - 2] : ir_constant(u->r->m, &desc, i == 0 ? (const void *)&round : &goes_on, false, NULL);
    status = onnx_define(u->r, f, onnx_text(u->body->input[i]->name), v);
  }
  return status;
}

static reed_status take_results(unrolling *u, const onnx_frame *f, int64_t round) {
  for (size_t i = 0; i < u->body->n_output; i++) {
    ir_value *v;
    reed_status status = onnx_find_input(u->r, f, u->name, "Loop", onnx_text(u->body->output[i]->name), &v);
    if (status != REED_OK) return status;
    if (!v)
      return diag_fail(u->r->diagnosis, REED_ERROR_FORMAT, "node '%s' (Loop): result %zu of its body has no name",
                       u->name, i);
    if (i == 0 && !is_true(v)) return refuse(u, "a Loop with a sequence whose body ends it");
    if (i > u->n_carried && onnx_sequence_of(u->r, v)) return refuse(u, "a sequence as a scan output of a Loop");
    if (i > u->n_carried) u->scanned[(size_t)round * u->n_scanned + i - 1 - u->n_carried] = v;
    else if (i > 0) u->carried[i - 1] = v;
  }
  return REED_OK;
}

static reed_status read_round(unrolling *u, int64_t round) {
  onnx_frame f = {.graph = u->f->graph,
                  .scope = {.parent = &u->f->scope},
                  .opsets = u->f->opsets,
                  .n_opsets = u->f->n_opsets,
                  .caller = u->f,
                  .prefix = ir_text(u->r->m, "%s/%lld/", u->name, (long long)round),
                  .depth = u->f->depth + 1};
  reed_status status = f.prefix ? define_params(u, &f, round) : no_memory(u);
  if (status == REED_OK) status = onnx_read_body(u->r, &f, u->body);
  if (status == REED_OK) status = take_results(u, &f, round);
  onnx_scope_fini(&f.scope);
  return status;
}

/* The rounds' scan outputs number i along a new first axis. */
static ir_value *stacked(const unrolling *u, size_t i, int64_t n_rounds) {
  ir_value *items[ROUNDS_MOST];
  for (int64_t k = 0; k < n_rounds; k++)
    items[k] =
        onnx_binary(u->f->graph, OP_Unsqueeze, u->scanned[(size_t)k * u->n_scanned + i], onnx_vector(u->r->m, 0, 1));
  return onnx_joined(u->f->graph, items, (int32_t)n_rounds, 0);
}

static reed_status define_outputs(unrolling *u, int64_t n_rounds) {
  reed_status status = REED_OK;
  for (size_t i = 0; i < u->node->n_output && status == REED_OK; i++) {
    if (!*u->node->output[i]) continue;
    const bool is_scanned = i >= u->n_carried;
    ir_value *v = is_scanned ? stacked(u, i - u->n_carried, n_rounds) : u->carried[i];
    status = onnx_define(u->r, u->f, u->node->output[i], v);
  }
  return status;
}

reed_status onnx_read_rounds(onnx_reader *r, onnx_frame *f, const Onnx__NodeProto *node, const char *node_name,
                             int64_t n_rounds, bool *out_supported) {
  const Onnx__GraphProto *body = onnx_find_attribute(f, node, "body")->g;
  unrolling u = {.r = r, .f = f, .node = node, .name = node_name, .body = body, .n_carried = node->n_input - 2};
  reed_status status = onnx_check_depth(r, f, node_name);
  if (status != REED_OK) return status;
  if (node->n_input > REED_MAX_OPERANDS || body->n_input != node->n_input || body->n_output != node->n_output + 1 ||
      node->n_output < u.n_carried)
    return onnx_fail_body(r, node_name, node->n_input, node->n_output, body->n_input, body->n_output);
  u.n_scanned = node->n_output - u.n_carried;
  u.scanned = ir_alloc(r->m, sizeof *u.scanned * (u.n_scanned * (size_t)n_rounds + 1));
  if (!u.scanned) return no_memory(&u);
  for (size_t i = 0; i < u.n_carried && status == REED_OK; i++) {
    status = onnx_find_input(r, f, node_name, "Loop", node->input[i + 2], &u.carried[i]);
    if (status == REED_OK && !u.carried[i])
      status = diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s' (Loop): input %zu is missing", node_name, i + 2);
  }
  if (status == REED_OK && !n_rounds && u.n_scanned) status = refuse(&u, "a scan output of a Loop without rounds");
  for (int64_t i = 0; i < n_rounds && status == REED_OK && !u.unsupported; i++) status = read_round(&u, i);
  *out_supported = !u.unsupported;
  if (status != REED_OK || u.unsupported) return status;
  const size_t first = f->graph->nodes.n;
  status = define_outputs(&u, n_rounds);
  return status == REED_OK && !onnx_name_made(f->graph, first, node_name) ? no_memory(&u) : status;
}
