/* Products in half precision on targets whose kernels take no weights of half precision beside inputs of f32
 * (reed_compile_options.precision), as torch.autocast computes them: all operands of a product are rounded, sums are
 * f32, and the result is rounded to the half. Products are those with constant weights, and Attention. Products that
 * decide choices keep f32 (choices.h); so do the other operators, inputs and results of the model.
 *
 * An operand is rounded by one Cast for all its readers. The result of a product is widened by a Cast again, which goes
 * where all readers take the half: the next product, or an operator that only moves elements and so moves halves. A
 * LayerNormalization or RMSNormalization between products reads and writes halves; its arithmetic is that of f32.
 *
 * On the host the weights alone are rounded (precision.c). */
#include <string.h>

#include "base/desc.h"
#include "base/diag.h"
#include "base/dtype.h"
#include "compiler/ir/pass.h"
#include "compiler/passes/layout/choices.h"
#include "compiler/passes/layout/round_weights.h"
#include "ops/packed.h"

typedef struct half_pair {
  const ir_value *wide; /* f32 */
  ir_value *half;
  bool exact; /* `wide` is the half, widened; otherwise the half is `wide`, rounded */
} half_pair;

typedef struct halving {
  ir_module *m;
  reed_dtype half;
  choices choices;
  VEC_OF(half_pair) pairs; /* the pair of a value has the number value->id - 1; id 0: none */
  VEC_OF(ir_node *) norms;
  int64_t n_products, n_moved, n_norms;
} halving;

static reed_status no_memory(const halving *h) { return diag_no_memory(h->m->diagnosis, "products of half precision"); }

static const half_pair *pair_of(const halving *h, const ir_value *v) {
  return v->id ? &h->pairs.items[v->id - 1] : NULL;
}

static bool note_pair(halving *h, ir_value *wide, ir_value *half, bool exact) {
  if (!VEC_PUSH(&h->pairs, ((half_pair){wide, half, exact}))) return false;
  wide->id = (int32_t)h->pairs.n;
  return true;
}

/* ---- values ---- */

/* A Cast before `before` (NULL: at the end of the graph). `to` NULL: a new value. NULL: no memory. */
static ir_value *cast(ir_graph *g, ir_node *before, ir_value *from, reed_dtype dtype, ir_value *to) {
  ir_node *n = ir_node_new(g, before, op_builtin(OP_Cast), NULL, &from, 1, to ? &to : NULL, 1);
  if (!n || !ir_set_attr_int(n, "to", dtype)) return NULL;
  n->outputs[0]->type = from->type;
  n->outputs[0]->type.dtype = dtype;
  return n->outputs[0];
}

/* A constant with its elements rounded to nearest. NULL: no memory. */
static ir_value *rounded_constant(const halving *h, const ir_value *v, reed_desc d) {
  const int64_t n = desc_elements(&d);
  const float *from = v->data;
  d.dtype = h->half;
  uint16_t *to = ir_alloc_elements(h->m, (size_t)n * sizeof *to);
  for (int64_t i = 0; to && i < n; i++) {
    float x;
    memcpy(&x, (const char *)from + (size_t)i * sizeof x, sizeof x);
    reed_dtype_write(h->half, &to[i], (double)x);
  }
  return to ? ir_constant(h->m, &d, to, true, v->name) : NULL;
}

/* The value as halves, made once. NULL: no memory. */
static ir_value *half_of(halving *h, ir_value *v) {
  const half_pair *pair = pair_of(h, v);
  reed_desc d;
  if (pair) return pair->half;
  ir_value *made = NULL;
  if (ir_is_constant(v) && ir_desc(v, &d)) {
    made = rounded_constant(h, v, d);
  } else {
    ir_node *before = v->producer ? ir_next(v->producer) : v->graph->nodes.n ? v->graph->nodes.items[0] : NULL;
    made = cast(v->graph, before, v, h->half, NULL);
  }
  return made && note_pair(h, v, made, false) ? made : NULL;
}

/* Makes the node give halves, which a Cast behind it widens to the old value. False: no memory. */
static bool give_halves(halving *h, ir_node *n) {
  ir_value *wide = n->outputs[0], *half = ir_value_new(n->graph, NULL);
  if (!half) return false;
  half->type = wide->type;
  half->type.dtype = h->half;
  half->producer = n;
  n->outputs[0] = half;
  return cast(n->graph, ir_next(n), half, REED_F32, wide) && note_pair(h, wide, half, true);
}

/* ---- products ---- */

/* True if the target's kernels compute the node in halves, but take no weights of half precision beside f32. */
static bool wants_halves(const halving *h, const ir_node *n) {
  reed_attr pairs[] = {{.name = PACKED_ATTR, .type = REED_ATTR_INTS},
                       {.name = PACKED_PAIRS_ATTR, .type = REED_ATTR_INT, .i = 1}};
  const reed_attrs with_pairs = {pairs, 2}, attrs = ir_attrs(n);
  reed_dtype dtypes[2 * REED_MAX_OPERANDS];
  capability_call call = ir_call(n, &with_pairs, dtypes);
  if (op_has(n->op, OP_PROPERTY_PACKABLE)) {
    dtypes[1] = h->half;
    if (capability_has(h->m->targets, &call)) return false;
  }
  call = ir_call(n, &attrs, dtypes);
  for (int32_t i = 0; i < call.n_dtypes; i++)
    if (dtypes[i] == REED_F32) dtypes[i] = h->half;
  return capability_has(h->m->targets, &call);
}

/* True for Attention without caches and scores. */
static bool plain_attention(const ir_node *n) {
  for (int32_t i = 4; i < n->n_inputs; i++)
    if (n->inputs[i]) return false;
  for (int32_t i = 1; i < n->n_outputs; i++)
    if (n->outputs[i]) return false;
  return n->op == op_builtin(OP_Attention) && n->inputs[2]->type.dtype == REED_F32;
}

/* The weights as halves whose errors cancel. *out_value NULL: the product keeps f32. */
static reed_status round_constant_weights(halving *h, const ir_node *n, ir_value **out_value) {
  ir_value *weights = n->inputs[1];
  const half_pair *pair = pair_of(h, weights);
  const reed_attrs attrs = ir_attrs(n);
  reed_desc plain;
  packed_order order;
  bool exceeded = false;
  *out_value = pair ? pair->half : NULL;
  if (pair || !ir_is_constant(weights) || weights->packed || !ir_desc(weights, &plain) || desc_bytes(&plain) <= 0)
    return REED_OK;
  if (!packed_order_of(n->op, &attrs, &plain, &order)) {
    *out_value = half_of(h, weights);
    return *out_value ? REED_OK : no_memory(h);
  }
  if (choices_narrow(h->half, &order)) return REED_OK;
  order.plain.dtype = h->half;
  void *data = ir_alloc_elements(h->m, (size_t)desc_bytes(&order.plain));
  if (!data) return no_memory(h);
  reed_status status = round_weights(h->m, &order, weights->data, data, &exceeded);
  if (status == REED_OK && exceeded)
    return diag_fail(h->m->diagnosis, REED_ERROR_UNSUPPORTED, "%s node '%s': its weights exceed what f16 holds (65504)",
                     n->op->name, n->name);
  if (status != REED_OK) return status;
  *out_value = ir_constant(h->m, &order.plain, data, true, weights->name);
  return *out_value && note_pair(h, weights, *out_value, false) ? REED_OK : no_memory(h);
}

static reed_status halve_product(halving *h, ir_node *n, bool is_attention) {
  ir_value *weights = NULL;
  reed_status status = is_attention ? REED_OK : round_constant_weights(h, n, &weights);
  if (status != REED_OK || (!is_attention && !weights)) return status;
  const int32_t n_operands = is_attention ? 3 : n->n_inputs;
  for (int32_t i = 0; i < n_operands; i++) {
    if (!n->inputs[i]) continue;
    n->inputs[i] = !is_attention && i == 1 ? weights : half_of(h, n->inputs[i]);
    if (!n->inputs[i]) return no_memory(h);
  }
  h->n_products++;
  return give_halves(h, n) ? REED_OK : no_memory(h);
}

/* ---- the operators between ---- */

/* The inputs of an operator whose result has only elements of these inputs, no more of them than the inputs have; 0: it
 * is no such operator. */
static int32_t moved_inputs(const ir_node *n) {
  for (int32_t i = 1; i < n->n_outputs; i++)
    if (n->outputs[i]) return 0;
  switch ((int)op_id_of(n->op)) {
    case OP_DepthToSpace:
    case OP_Flatten:
    case OP_Identity:
    case OP_MaxPool:
    case OP_Relu:
    case OP_Reshape:
    case OP_Slice:
    case OP_SpaceToDepth:
    case OP_Squeeze:
    case OP_Transpose:
    case OP_Unsqueeze: return 1;
    case OP_Concat: return n->n_inputs;
    default: return 0;
  }
}

/* Lets an operator that moves elements move halves, if all that it moves are halves that were widened. */
static reed_status move_halves(halving *h, ir_node *n) {
  const int32_t n_moved = moved_inputs(n);
  if (n_moved == 0 || !n->outputs[0]) return REED_OK;
  for (int32_t i = 0; i < n_moved; i++) {
    const half_pair *pair = n->inputs[i] ? pair_of(h, n->inputs[i]) : NULL;
    if (!pair || !pair->exact) return REED_OK;
  }
  for (int32_t i = 0; i < n_moved; i++) n->inputs[i] = pair_of(h, n->inputs[i])->half;
  h->n_moved++;
  return give_halves(h, n) ? REED_OK : no_memory(h);
}

static reed_status visit(halving *h, ir_node *n) {
  const bool is_attention = plain_attention(n);
  if (!n->outputs[0] || n->outputs[0]->type.dtype != REED_F32) return REED_OK;
  if (n->op == op_builtin(OP_LayerNormalization) || n->op == op_builtin(OP_RMSNormalization))
    return VEC_PUSH(&h->norms, n) ? REED_OK : no_memory(h);
  if (!is_attention && !op_has(n->op, OP_PROPERTY_PACKABLE)) return move_halves(h, n);
  if (n->inputs[0]->type.dtype != REED_F32 || choices_keep_f32(&h->choices, n) || !wants_halves(h, n)) return REED_OK;
  return halve_product(h, n, is_attention);
}

/* A normalisation of a widened half, whose result is only rounded: it reads and writes halves. Uses are counted. */
static reed_status halve_norm(halving *h, ir_node *n) {
  ir_value *y = n->outputs[0];
  const half_pair *x = pair_of(h, n->inputs[0]), *result = pair_of(h, y);
  if (!x || !x->exact || !result || result->exact || y->n_uses != 1) return REED_OK;
  for (int32_t i = 1; i < n->n_outputs; i++)
    if (n->outputs[i] && n->outputs[i]->n_uses > 0) return REED_OK;
  for (int32_t i = 1; i < n->n_inputs; i++)
    if (n->inputs[i] && !ir_is_constant(n->inputs[i])) return REED_OK;
  ir_value *half = result->half;
  ir_node *rounds = half->producer;
  if (!wants_halves(h, n)) return REED_OK;
  for (int32_t i = 0; i < n->n_inputs; i++)
    if (n->inputs[i] && !(n->inputs[i] = half_of(h, n->inputs[i]))) return no_memory(h);
  rounds->dead = true;
  n->outputs[0] = half;
  half->producer = n;
  h->n_norms++;
  return REED_OK;
}

/* ---- the pass ---- */

static reed_status number(void *context, ir_node *n) {
  int32_t *n_nodes = context;
  n->id = (*n_nodes)++;
  for (int32_t i = 0; i < n->n_inputs; i++)
    if (n->inputs[i]) n->inputs[i]->id = 0;
  for (int32_t i = 0; i < n->n_outputs; i++)
    if (n->outputs[i]) n->outputs[i]->id = 0;
  return REED_OK;
}

static reed_status halve(halving *h) {
  int32_t n_nodes = 0;
  reed_status status = ir_walk(h->m->main, true, number, &n_nodes);
  if (status == REED_OK) status = choices_find(h->m, &h->choices);
  for (size_t i = 0; i < h->choices.in_order.n && status == REED_OK; i++) {
    status = ir_check_cancel(h->m);
    if (status == REED_OK) status = visit(h, h->choices.in_order.items[i]);
  }
  ir_count_uses(h->m);
  for (size_t i = 0; i < h->norms.n && status == REED_OK; i++) status = halve_norm(h, h->norms.items[i]);
  for (size_t i = 0; i < h->pairs.n; i++) { /* results that nobody reads as f32 */
    const half_pair *pair = &h->pairs.items[i];
    if (pair->exact && pair->wide->n_uses == 0) pair->wide->producer->dead = true;
  }
  ir_sweep(h->m);
  return status;
}

reed_status pass_half_products(ir_module *m, pass_report *report) {
  halving h = {.m = m, .half = m->precision};
  const bool wanted = m->precision == REED_BF16 || m->precision == REED_F16;
  reed_status status = wanted ? halve(&h) : REED_OK;
  *report = (pass_report){.counts = {{"products in half precision", h.n_products},
                                     {"operators that move halves", h.n_moved},
                                     {"normalisations between them", h.n_norms}}};
  choices_fini(&h.choices);
  VEC_FREE(&h.pairs);
  VEC_FREE(&h.norms);
  return status;
}
