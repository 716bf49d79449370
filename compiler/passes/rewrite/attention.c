/* Replaces attention (Vaswani et al. 2017, "Attention Is All You Need") that an exporter wrote as single operators,
 *
 *   Softmax(scale Q K^T + mask) V
 *
 * by one Attention node (ONNX opset 23), which stores no tensor of all scores. The scale may be applied before or after
 * the product; the mask is added, or applied by Where. If the graph splits Q, K and V into heads from [batch, length,
 * heads * size] and merges the result again, the Attention node does both. */
#include <math.h>

#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

enum {
  Q,
  KT,
  V,
  Q_SCALE,
  Q_DIVISOR,
  K_SCALE,
  K_DIVISOR,
  SCALE,
  DIVISOR,
  SCALED,
  WEIGHTS,
  GUARDED,
  MASKED,
  MASK,
  TRUTH,
  HIDDEN,
  SHOWN,
  N_SLOTS
};

/* `part`, possibly multiplied or divided by a constant. */
#define MAYBE_SCALED(part, scale, divisor) \
  P_EITHER(P_ONCE(P_PAIR(Mul, part, P_AS(scale, P_CONSTANT))), P_ONCE(P_OP(Div, part, P_AS(divisor, P_CONSTANT))), part)
#define PRODUCT \
  P_ONCE(P_OP(MatMul, MAYBE_SCALED(P_AS(Q, P_ANY), Q_SCALE, Q_DIVISOR), \
              MAYBE_SCALED(P_AS(KT, P_ANY), K_SCALE, K_DIVISOR)))
#define SCORES P_AS(SCALED, MAYBE_SCALED(PRODUCT, SCALE, DIVISOR))
/* The scores where TRUTH is false and the constant HIDDEN elsewhere, or the scores where TRUTH is true and the constant
 * SHOWN elsewhere. */
#define CHOSEN \
  P_EITHER(P_OP(Where, P_AS(TRUTH, P_ANY), P_AS(HIDDEN, P_CONSTANT), SCORES), \
           P_OP(Where, P_AS(TRUTH, P_ANY), SCORES, P_AS(SHOWN, P_CONSTANT)))
#define MASKED_SCORES \
  P_EITHER(P_ONCE(P_AS(MASKED, P_PAIR(Add, SCORES, P_AS(MASK, P_ANY)))), P_ONCE(P_AS(MASKED, CHOSEN)), SCORES)
#define P_WEIGHTS P_AS(WEIGHTS, P_OP(Softmax, MASKED_SCORES))
/* torch's scaled_dot_product_attention replaces NaN weights by 0; they are NaN where all scores of a query are masked.
 */
#define GUARDED_WEIGHTS P_ONCE(P_AS(GUARDED, P_OP(Where, P_ONCE(P_OP(IsNaN, P_WEIGHTS)), P_NUMBER(0), P_WEIGHTS)))
static const pattern *const spelled = P_OP(MatMul, P_EITHER(P_WEIGHTS, GUARDED_WEIGHTS), P_AS(V, P_ANY));

typedef struct joining {
  ir_module *m;
  ir_node *last; /* new nodes go in front of it */
  VEC_OF(ir_node *) nodes;
  int64_t n_joined, n_flat;
} joining;

static reed_status no_memory(const joining *j) { return diag_no_memory(j->m->diagnosis, "attention"); }

static bool same_dim(const joining *j, const ir_value *a, int32_t i, const ir_value *b, int32_t k) {
  return symbols_assume_equal(j->m->symbols, a->type.dims[i], b->type.dims[k]);
}

/* ---- conditions on types and attributes ---- */

/* True if Q, K and V are [batch, heads, ...] of the same batch and heads without broadcasting, the softmax runs over
 * the keys, and the mask does not change the type of the scores. */
static bool fit(const joining *j, const ir_value *y, ir_value *const *slots) {
  const ir_value *q = slots[Q], *kt = slots[KT], *v = slots[V];
  if (q->type.rank != 4 || kt->type.rank != 4 || v->type.rank != 4 || y->type.rank != 4) return false;
  if (q->type.dtype < REED_F32 || q->type.dtype > REED_BF16) return false;
  for (int32_t i = 0; i < 2; i++)
    if (!same_dim(j, q, i, kt, i) || !same_dim(j, q, i, v, i)) return false;
  reed_attrs softmax = ir_attrs(slots[WEIGHTS]->producer);
  int64_t axis = op_attr_int(&softmax, "axis");
  if ((axis != -1 && axis != 3) || op_attr_int(&softmax, "flattened")) return false;
  if (slots[WEIGHTS]->n_uses != (slots[GUARDED] ? 2 : 1)) return false;
  if (slots[GUARDED] && !ir_same_type(j->m, slots[GUARDED], slots[WEIGHTS])) return false;
  return !slots[MASKED] || ir_same_type(j->m, slots[MASKED], slots[SCALED]);
}

/* The product of all scale factors. False: a factor is not a number, or the product is not positive and finite. */
static bool scale_of(ir_value *const *slots, double *out_scale) {
  static const int32_t factors[] = {Q_SCALE, K_SCALE, SCALE}, divisors[] = {Q_DIVISOR, K_DIVISOR, DIVISOR};
  double number;
  *out_scale = 1;
  for (int i = 0; i < 3; i++) {
    if (slots[factors[i]] && !pattern_number(slots[factors[i]], &number)) return false;
    if (slots[factors[i]]) *out_scale *= number;
    if (slots[divisors[i]] && !pattern_number(slots[divisors[i]], &number)) return false;
    if (slots[divisors[i]]) *out_scale /= number;
  }
  return isfinite(*out_scale) && *out_scale > 0;
}

/* ---- new nodes ---- */

static ir_value *make(const joining *j, op_id op, ir_value *const *inputs, int32_t n) {
  ir_node *made = ir_node_new(j->last->graph, j->last, op_builtin(op), NULL, inputs, n, NULL, 1);
  return made ? made->outputs[0] : NULL;
}

static ir_value *transposed(const joining *j, ir_value *v, const int64_t *perm) {
  ir_value *made = make(j, OP_Transpose, &v, 1);
  return made && ir_set_attr_ints(made->producer, "perm", perm, 4) ? made : NULL;
}

/* Makes the mask for scores that Where replaces by a constant. -inf: a bool mask. A number of at most LOW: a float
 * mask, because adding such a number to any score gives the number itself. False: any other constant. *out_mask NULL:
 * no memory. */
#define LOW -1e30
static bool chosen_mask(const joining *j, ir_value *const *slots, ir_value **out_mask) {
  ir_value *filler = slots[HIDDEN] ? slots[HIDDEN] : slots[SHOWN];
  double number;
  if (!pattern_number(filler, &number) || !(number <= LOW)) return false;
  if (number == -INFINITY) {
    *out_mask = slots[HIDDEN] ? make(j, OP_Not, &slots[TRUTH], 1) : slots[TRUTH];
    return true;
  }
  uint64_t zero = 0;
  ir_value *none = ir_constant(j->m, &(reed_desc){.dtype = filler->type.dtype}, &zero, false, NULL);
  ir_value *inputs[] = {slots[TRUTH], slots[HIDDEN] ? filler : none, slots[HIDDEN] ? none : filler};
  *out_mask = none ? make(j, OP_Where, inputs, 3) : NULL;
  return true;
}

/* ---- heads ---- */

static bool has_perm(const ir_node *n, const int64_t *wanted) {
  reed_attrs attrs = ir_attrs(n);
  int64_t n_perm;
  const int64_t *perm = reed_attrs_ints(&attrs, "perm", &n_perm);
  for (int32_t i = 0; i < 4; i++)
    if (!perm || n_perm != 4 || perm[i] != wanted[i]) return false;
  return true;
}

static const int64_t heads_first[] = {0, 2, 1, 3}, keys_last[] = {0, 2, 3, 1}, matrices_turned[] = {0, 1, 3, 2};

/* The [batch, length, heads * size] from which Reshape and Transpose make v, [batch, heads, ...]; NULL: v is not made
 * so. */
static ir_value *flat_source(const joining *j, const ir_value *v, const int64_t *perm) {
  const ir_node *transpose = pattern_made_by(v, OP_Transpose);
  const ir_node *reshape =
      transpose && has_perm(transpose, perm) ? pattern_made_by(transpose->inputs[0], OP_Reshape) : NULL;
  if (!reshape) return NULL;
  ir_value *flat = reshape->inputs[0];
  const ir_value *split = reshape->outputs[0];
  bool same =
      flat->type.rank == 3 && split->type.rank == 4 && same_dim(j, flat, 0, split, 0) && same_dim(j, flat, 1, split, 1);
  return same ? flat : NULL;
}

/* The product whose heads a Transpose and this Reshape merge, if no other node uses the product or the Transpose;
 * otherwise NULL. */
static ir_node *merged_product(const joining *j, const ir_node *reshape) {
  const ir_node *transpose = pattern_made_by(reshape->inputs[0], OP_Transpose);
  if (!transpose || transpose->outputs[0]->n_uses != 1 || !has_perm(transpose, heads_first)) return NULL;
  ir_node *product = pattern_made_by(transpose->inputs[0], OP_MatMul);
  const ir_value *y = transpose->inputs[0], *z = reshape->outputs[0];
  if (!product || y->n_uses != 1 || y->type.rank != 4 || z->type.rank != 3) return NULL;
  reed_dim width = symbols_mul(j->m->symbols, y->type.dims[1], y->type.dims[3]);
  bool same =
      same_dim(j, z, 0, y, 0) && same_dim(j, z, 1, y, 2) && symbols_assume_equal(j->m->symbols, z->type.dims[2], width);
  return same && !symbol_is(y->type.dims[1]) ? product : NULL;
}

/* ---- the pass ---- */

static bool set_attrs(ir_node *n, double scale, bool guarded, int64_t heads) {
  if (!ir_set_attr_float(n, "scale", scale) || !ir_set_attr_int(n, "nan_rows", guarded ? -1 : 1)) return false;
  return !heads || (ir_set_attr_int(n, "q_num_heads", heads) && ir_set_attr_int(n, "kv_num_heads", heads));
}

/* Replaces the attention that ends with `last`: the product with V, or (`flat`) the Reshape that merges its heads. */
static reed_status join(joining *j, ir_node *last, ir_node *product, bool flat) {
  ir_value *slots[N_SLOTS], *y = product->outputs[0], *result = last->outputs[0], *mask = NULL;
  double scale;
  j->last = last;
  if (!pattern_match(spelled, y, slots, N_SLOTS) || !fit(j, y, slots) || !scale_of(slots, &scale)) return REED_OK;
  ir_value *q = flat ? flat_source(j, slots[Q], heads_first) : slots[Q],
           *v = flat ? flat_source(j, slots[V], heads_first) : slots[V];
  ir_value *k = flat ? flat_source(j, slots[KT], keys_last) : slots[KT];
  if (!q || !k || !v) return REED_OK;
  if (slots[TRUTH]) {
    if (!chosen_mask(j, slots, &mask)) return REED_OK;
    if (!mask) return no_memory(j);
  }
  if (!flat && !(k = transposed(j, k, matrices_turned))) return no_memory(j);
  ir_value *inputs[] = {q, k, v, mask ? mask : slots[MASK]};
  ir_node *n =
      ir_node_new(last->graph, last, op_builtin(OP_Attention), product->name, inputs, inputs[3] ? 4 : 3, &result, 1);
  if (!n || !set_attrs(n, scale, slots[GUARDED] != NULL, flat ? y->type.dims[1] : 0)) return no_memory(j);
  last->dead = product->dead = true;
  j->n_joined++;
  j->n_flat += flat;
  return REED_OK;
}

static reed_status visit(void *context, ir_node *n) {
  bool flat = n->op == op_builtin(OP_Reshape);
  ir_node *product = flat ? merged_product(context, n) : n;
  return product ? join(context, n, product, flat) : REED_OK;
}

static reed_status collect(void *context, ir_node *n) {
  joining *j = context;
  bool last = n->op == op_builtin(OP_MatMul) || n->op == op_builtin(OP_Reshape);
  return !last || VEC_PUSH(&j->nodes, n) ? REED_OK : no_memory(j);
}

/* Visits nodes from the last one back, so that the Reshape that merges the heads is met before the product. Two
 * Transposes of K in a row are left to simplify. */
reed_status pass_attention(ir_module *m, pass_report *report) {
  joining j = {.m = m};
  ir_count_uses(m);
  reed_status status = ir_walk(m->main, true, collect, &j);
  if (status == REED_OK) status = pass_try_back(m, j.nodes.items, j.nodes.n, visit, &j, &j.n_joined);
  VEC_FREE(&j.nodes);
  ir_sweep(m);
  *report = (pass_report){
      .counts = {{"attentions recognised", j.n_joined}, {"of them with heads split and merged", j.n_flat}}};
  return status;
}
