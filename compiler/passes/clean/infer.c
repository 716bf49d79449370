/* Shape inference: runs every node's shape function on symbols, in order. Each run starts anew, so that facts found by
 * other passes spread. Shapes are consistent within one run (equal symbols are equal extents); no other code keeps a
 * symbol from one run to the next.
 *
 * A failure inside a body only makes the outputs unknown, because the body (a branch, a Loop's body) may never run with
 * these shapes; if it does, the program reports the error. Ranks, operators and dtypes that Reed does not support are
 * refused in bodies too.
 *
 * The shape functions: shapefuncs/. Elements of shape arithmetic: ir/integer_values.c. Attributes that mean the same as
 * their absence for the inferred types: settle.c. */
#include <string.h>

#include "compiler/ir/integer_values.h"
#include "compiler/ir/pass.h"
#include "compiler/passes/clean/settle.h"

typedef struct inference {
  ir_module *m;
  bool uncertain; /* inside a body that may not run */
  int loop_depth; /* number of Loops around the current node */
  int64_t n_values, n_exact;
} inference;

static reed_status infer_graph(inference *in, ir_graph *g);

static bool same_dim(const inference *in, reed_dim a, reed_dim b) { return symbols_equal(in->m->symbols, a, b); }

static void forget(ir_value *v) {
  if (!v) return;
  v->type.rank = -1;
  v->elements = NULL;
  v->n_elements = 0;
  v->bounded = false;
}

/* ---- operators ---- */

/* Describes one input for its shape function, which handles unknown ranks and values. */
static reed_shape_input describe_input(const inference *in, ir_value *v, bool reads_value) {
  reed_shape_input described = {.dtype = REED_NONE};
  if (!v) return described;
  described = (reed_shape_input){.dtype = v->type.dtype, .rank = v->type.rank, .dims = v->type.dims};
  reed_desc d;
  if (!reads_value || !ir_desc(v, &d)) return described;
  described.n_values = desc_elements(&d);
  described.data = v->data;
  int64_t n;
  if (!v->data) described.values = integer_values_of(in->m, v, true, &n);
  return described;
}

/* Sets the output's type; an extent that the kernel reports becomes a fresh symbol. */
static void take_output(const inference *in, ir_value *v, const reed_shape_output *out) {
  if (!v) return;
  v->type.dtype = out->dtype;
  v->type.rank = out->rank;
  if (out->rank < 0) return;
  memcpy(v->type.dims, out->dims, sizeof(reed_dim) * (size_t)out->rank);
  v->bounded = out->bounded_axis >= 0;
  v->bounded_axis = out->bounded_axis;
  if (v->bounded) v->type.dims[out->bounded_axis] = symbols_fresh_extent(in->m->symbols);
}

/* Fails with the unsupported property of the node and the name of the node's result. */
static reed_status refuse(const inference *in, const ir_node *n, const reed_diagnosis *cause) {
  reed_diagnosis *d = in->m->diagnosis;
  const char *name = "";
  for (int32_t i = n->n_outputs; i-- > 0;)
    if (n->outputs[i]) name = n->outputs[i]->name;
  reed_status status =
      diag_fail(d, REED_ERROR_UNSUPPORTED, "not supported: %s; its result is value '%s'", cause->message, name);
  diag_place_node(d, n->op->name, n->name, NULL);
  return status;
}

static reed_status infer_operator(inference *in, ir_node *n) {
  ir_module *m = in->m;
  reed_diagnosis *d = in->uncertain ? NULL : m->diagnosis;
  reed_shape_input inputs[REED_MAX_OPERANDS];
  reed_shape_output outputs[REED_MAX_OPERANDS];
  reed_dtype dtypes[REED_MAX_OPERANDS];
  reed_attrs attrs = ir_attrs(n);
  bool typed = true;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    inputs[i] = describe_input(in, n->inputs[i], op_reads_value(n->op, &attrs, i));
    dtypes[i] = inputs[i].dtype;
    typed = typed && (!n->inputs[i] || dtypes[i] != REED_NONE);
  }
  for (int32_t i = 0; i < n->n_outputs; i++) forget(n->outputs[i]);
  if (!typed) return REED_OK; /* an operand of unknown dtype: the output of a branch that never runs */
  reed_status status = shapefn_check_call(n->op, &attrs, n->name, n->n_inputs, dtypes, n->n_outputs, d);
  bool called = status == REED_OK;
  if (called) status = shapefn_run(n->op, &attrs, n->name, n->n_inputs, inputs, n->n_outputs, outputs, m->symbols, d);
  if (symbols_status(m->symbols) != REED_OK) return diag_no_memory(m->diagnosis, "symbols");
  if (status == REED_ERROR_MEMORY) return d ? status : diag_no_memory(m->diagnosis, "shape inference");
  if (called && status == REED_ERROR_UNSUPPORTED) {
    reed_diagnosis cause;
    reed_diagnosis_clear(&cause);
    status = shapefn_run(n->op, &attrs, n->name, n->n_inputs, inputs, n->n_outputs, outputs, m->symbols, &cause);
    return refuse(in, n, &cause);
  }
  if (status != REED_OK) return in->uncertain ? REED_OK : status;
  for (int32_t i = 0; i < n->n_outputs; i++) take_output(in, n->outputs[i], &outputs[i]);
  return integer_values_compute(m, n);
}

/* ---- bodies ---- */

static reed_status infer_body(inference *in, ir_graph *g, bool certain) {
  bool was = in->uncertain;
  in->uncertain = was || !certain;
  symbols_set_certain(in->m->symbols, !in->uncertain);
  reed_status status = infer_graph(in, g);
  in->uncertain = was;
  symbols_set_certain(in->m->symbols, !was);
  return status;
}

static reed_status check_dtypes_agree(const inference *in, const ir_node *n, const ir_value *a, const ir_value *b) {
  if (a->type.dtype == b->type.dtype || a->type.dtype == REED_NONE || b->type.dtype == REED_NONE) return REED_OK;
  reed_status status =
      diag_fail(in->m->diagnosis, REED_ERROR_TYPE, "%s node '%s': '%s' is %s, but '%s' is %s", n->op->name, n->name,
                a->name, reed_dtype_name(a->type.dtype), b->name, reed_dtype_name(b->type.dtype));
  diag_place_node(in->m->diagnosis, n->op->name, n->name, NULL);
  return status;
}

/* The type and elements of the join of a and b: dims and elements that differ become symbols. */
static reed_status join(const inference *in, const ir_value *a, const ir_value *b, ir_value *out) {
  reed_symbols *s = in->m->symbols;
  forget(out);
  out->type.dtype = a->type.dtype != REED_NONE ? a->type.dtype : b->type.dtype;
  if (a->type.rank != b->type.rank || a->type.rank < 0) return REED_OK;
  out->type.rank = a->type.rank;
  for (int32_t i = 0; i < a->type.rank; i++)
    out->type.dims[i] = same_dim(in, a->type.dims[i], b->type.dims[i])
                            ? a->type.dims[i]
                            : symbols_either(s, a->type.dims[i], b->type.dims[i]);
  int64_t n_a, n_b;
  const reed_dim *of_a = integer_values_of(in->m, (ir_value *)a, false, &n_a),
                 *of_b = integer_values_of(in->m, (ir_value *)b, false, &n_b);
  if (!of_a || !of_b || n_a != n_b) return REED_OK;
  reed_dim *elements = ir_alloc(in->m, (size_t)n_a * sizeof *elements);
  if (!elements) return diag_no_memory(in->m->diagnosis, "shape arithmetic");
  for (int64_t i = 0; i < n_a; i++) elements[i] = same_dim(in, of_a[i], of_b[i]) ? of_a[i] : symbols_fresh_value(s);
  out->elements = elements;
  out->n_elements = n_a;
  return REED_OK;
}

/* The truth of a scalar: 0, 1, or -1 where it is not known. */
static int known_truth(const inference *in, ir_value *v) {
  int64_t n;
  const reed_dim *elements = integer_values_of(in->m, v, false, &n);
  return elements && n == 1 && !symbol_is(elements[0]) ? elements[0] != 0 : -1;
}

static reed_status infer_if(inference *in, ir_node *n) {
  int taken = known_truth(in, n->inputs[0]);
  reed_status status = REED_OK;
  for (int k = 0; k < 2 && status == REED_OK; k++)
    if (taken < 0 || (taken ? 0 : 1) == k) status = infer_body(in, n->regions[k], taken >= 0);
  for (int32_t i = 0; i < n->n_outputs && status == REED_OK; i++) {
    const ir_value *a = n->regions[0]->results[i], *b = n->regions[1]->results[i];
    if (taken >= 0) a = b = n->regions[taken ? 0 : 1]->results[i];
    status = check_dtypes_agree(in, n, a, b);
    if (status == REED_OK && n->outputs[i]) status = join(in, a, b, n->outputs[i]);
  }
  return status;
}

/* Sets the parameters of the body before the first round: carried values have the types of the initial values; the
 * round's number is only known to be non-negative. */
static reed_status begin_loop(const inference *in, ir_node *n) {
  ir_graph *body = n->regions[0];
  for (int32_t i = 0; i < body->n_params; i++) {
    ir_value *p = body->params[i];
    if (i >= 2) {
      if (!n->inputs[i]) continue;
      reed_status status = check_dtypes_agree(in, n, n->inputs[i], p);
      if (status == REED_OK) status = join(in, n->inputs[i], n->inputs[i], p);
      if (status != REED_OK) return status;
      continue;
    }
    forget(p);
    p->type = (ir_type){.dtype = i == 0 ? REED_I64 : REED_BOOL, .rank = 0};
    reed_dim *element = ir_alloc(in->m, sizeof *element);
    if (!element) return diag_no_memory(in->m->diagnosis, "shape arithmetic");
    *element = i == 0 ? symbols_fresh_extent(in->m->symbols) : symbols_fresh_value(in->m->symbols);
    p->elements = element;
    p->n_elements = 1;
  }
  return REED_OK;
}

/* The number of rounds of inference for a Loop's parameters to settle, by the Loop's depth, because the rounds of an
 * inner Loop multiply with those of the outer one. After that number all carried values are taken as unknown. */
static int rounds_allowed(int loop_depth) {
  static const int rounds[] = {16, 6, 3};
  return (size_t)loop_depth < sizeof rounds / sizeof *rounds ? rounds[loop_depth] : 0;
}

static void forget_carried(ir_node *n, uint32_t *widened) {
  for (int32_t i = 2; i < n->regions[0]->n_params; i++) {
    forget(n->regions[0]->params[i]);
    widened[i] = ~0u;
  }
}

/* Widens the parameters that the round's results do not provably equal. *out_stable: no parameter was widened. Each dim
 * is widened at most once, because a symbol made by an earlier round never equals the symbol that the body makes anew
 * in the same way: `widened` has a bit for each dim, bit 8 for the elements. */
static reed_status widen(const inference *in, ir_node *n, uint32_t *widened, bool *out_stable) {
  ir_graph *body = n->regions[0];
  *out_stable = true;
  for (int32_t i = 2; i < body->n_params; i++) {
    ir_value *p = body->params[i], *result = body->results[i - 1];
    reed_status status = check_dtypes_agree(in, n, result, p);
    if (status != REED_OK) return status;
    if (p->type.rank >= 0 && p->type.rank != result->type.rank) {
      forget(p);
      *out_stable = false;
    }
    for (int32_t k = 0; k < p->type.rank; k++) {
      if (widened[i] & 1u << k || same_dim(in, p->type.dims[k], result->type.dims[k])) continue;
      widened[i] |= 1u << k;
      p->type.dims[k] = symbols_either(in->m->symbols, p->type.dims[k], result->type.dims[k]);
      *out_stable = false;
    }
    if (widened[i] & 1u << REED_MAX_RANK || !p->elements) continue;
    int64_t n_result;
    const reed_dim *elements = integer_values_of(in->m, result, false, &n_result);
    bool same = elements && n_result == p->n_elements;
    for (int64_t k = 0; same && k < n_result; k++) same = same_dim(in, elements[k], p->elements[k]);
    if (same) continue;
    widened[i] |= 1u << REED_MAX_RANK;
    p->elements = NULL; /* readers in the body make fresh symbols */
    p->n_elements = 0;
    *out_stable = false;
  }
  return REED_OK;
}

/* The number of rounds: the trip count where the condition never ends the Loop early; otherwise a fresh extent. */
static reed_dim trip_count(const inference *in, const ir_node *n) {
  const ir_graph *body = n->regions[0];
  int64_t n_elements;
  const reed_dim *count = integer_values_of(in->m, n->inputs[0], false, &n_elements);
  bool starts = !n->inputs[1] || known_truth(in, n->inputs[1]) == 1;
  bool goes_on = body->results[0] == body->params[1] || known_truth(in, body->results[0]) == 1;
  bool sane = count && n_elements == 1 && (symbol_is(count[0]) || count[0] <= INT32_MAX); /* "for ever" is INT64_MAX */
  return sane && starts && goes_on ? symbols_max(in->m->symbols, count[0], 0) : symbols_fresh_extent(in->m->symbols);
}

/* A dim of a Loop's output that may differ from round to round: its declared name where it has one, otherwise a fresh
 * extent. */
static reed_dim leaving(const inference *in, reed_dim dim, reed_dim before) {
  reed_dim declared = symbols_as_declared(in->m->symbols, dim);
  return symbol_is(declared) && declared < before ? symbols_either(in->m->symbols, declared, declared)
                                                  : symbols_fresh_extent(in->m->symbols);
}

/* Sets the types of the Loop's outputs. Dims with symbols made since `before` may differ from round to round and become
 * fresh. */
static reed_status finish_loop(const inference *in, ir_node *n, const uint32_t *widened, reed_dim before) {
  ir_graph *body = n->regions[0];
  int32_t n_carried = body->n_params - 2;
  reed_dim rounds = trip_count(in, n);
  for (int32_t i = 0; i < n->n_outputs; i++) {
    ir_value *v = n->outputs[i];
    if (!v) continue;
    bool scan = i >= n_carried, stacked = scan && !v->joined;
    const ir_value *from = scan ? body->results[i + 1] : body->params[i + 2];
    forget(v);
    v->type.dtype = from->type.dtype;
    if (from->type.rank < 0) continue;
    if (from->type.rank + stacked > REED_MAX_RANK)
      return diag_fail(in->m->diagnosis, REED_ERROR_UNSUPPORTED,
                       "not supported: Loop node '%s': its scan output '%s' gets rank %d; the largest is %d", n->name,
                       v->name, from->type.rank + stacked, REED_MAX_RANK);
    v->type.rank = from->type.rank + stacked;
    if (stacked) v->type.dims[0] = rounds;
    for (int32_t k = 0; k < from->type.rank; k++) {
      reed_dim dim = from->type.dims[k];
      bool varies = (symbol_is(dim) && dim >= before) || (v->joined && k == 0);
      v->type.dims[k + stacked] = varies ? leaving(in, dim, before) : dim;
    }
    if (scan || widened[i + 2] & 1u << REED_MAX_RANK) continue;
    v->elements = from->elements;
    v->n_elements = from->n_elements;
  }
  return REED_OK;
}

static reed_status infer_loop(inference *in, ir_node *n) {
  uint32_t *widened = mem_calloc((size_t)n->n_inputs, sizeof *widened);
  if (!widened) return diag_no_memory(in->m->diagnosis, "shape inference");
  reed_dim before = symbols_fresh_value(in->m->symbols);
  reed_status status = begin_loop(in, n);
  int allowed = rounds_allowed(in->loop_depth++);
  bool stable = false;
  for (int round = 0; status == REED_OK && !stable; round++) {
    if (round == allowed) forget_carried(n, widened);
    status = infer_body(in, n->regions[0], false);
    if (status == REED_OK) status = widen(in, n, widened, &stable);
  }
  in->loop_depth--;
  if (status == REED_OK) status = finish_loop(in, n, widened, before);
  mem_free(widened);
  return status;
}

/* ---- the module ---- */

static void tally(inference *in, const ir_node *n) {
  reed_desc d;
  for (int32_t i = 0; i < n->n_outputs; i++) {
    if (!n->outputs[i]) continue;
    in->n_values++;
    in->n_exact += ir_desc(n->outputs[i], &d);
  }
}

static reed_status infer_graph(inference *in, ir_graph *g) {
  for (size_t i = 0; i < g->nodes.n; i++) {
    ir_node *n = g->nodes.items[i];
    if (n->dead) continue;
    reed_status status = n->op == op_builtin(OP_If)     ? infer_if(in, n)
                         : n->op == op_builtin(OP_Loop) ? infer_loop(in, n)
                                                        : infer_operator(in, n);
    if (status != REED_OK) return status;
    tally(in, n);
  }
  return REED_OK;
}

reed_status pass_infer(ir_module *m, pass_report *report) {
  inference in = {.m = m};
  reed_status status = infer_graph(&in, m->main);
  if (status == REED_OK) status = settle_calls(m);
  if (status != REED_OK) return status;
  *report = (pass_report){.counts = {{"values", in.n_values}, {"of which all extents are numbers", in.n_exact}},
                          .describes = true};
  return REED_OK;
}
