/* Replaces attention (Vaswani et al. 2017, "Attention Is All You Need") that an exporter wrote as single operators,
 *
 *   Softmax(cap(scale Q K^T) + mask) V
 *
 * by one Attention node (ONNX opset 23), which stores no tensor of all scores. The scale may be applied to Q, to K, to
 * both, to the product, or to the product and a mask added to it (Falcon's ALiBi); cap is c tanh(x / c) or nothing;
 * masks are added, or applied by Where; sums of masks may have a least number (OPT, XGLM). Q, K and V may have rank 2,
 * 3 or 4. If the graph splits Q, K and V into heads from [batch, length, heads * size] and merges the result again, the
 * Attention node does both.
 *
 * Masks that follow from places are folded by the pass attention_masks, repeated heads by attention_heads. The pass
 * batch_axes comes before. */
#include <math.h>

#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

#define MASKS_MOST 4
#define LOW -1e30 /* adding a number of at most LOW to any score gives the number itself */

/* A mask of the scores: `added`, or the number `hidden` where `truth` is `hides`. */
typedef struct mask {
  ir_value *added;
  double factor; /* of the added mask */
  ir_value *truth, *hidden;
  bool hides;
} mask;

/* The parts of an attention, from the Softmax's input back to Q and K^T. */
typedef struct parts {
  ir_value *q, *kt, *v;
  ir_value *weights;      /* of the Softmax */
  ir_value *product;      /* the scores before everything else */
  bool guarded;           /* NaN weights become 0 */
  double scale, cap;      /* cap 0: none */
  double least;           /* of the masked scores, at most LOW; -INFINITY: none */
  mask masks[MASKS_MOST]; /* from the last one back */
  int32_t n_masks;
} parts;

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

static bool is_float(reed_dtype t) { return t == REED_F32 || t == REED_F64 || t == REED_F16 || t == REED_BF16; }

/* ---- from the weights back to Q and K ---- */

/* The node that makes v, if v has no other use; NULL otherwise. */
static ir_node *only_maker(const ir_value *v) {
  ir_node *n = v && v->n_uses == 1 ? v->producer : NULL;
  return n && !n->dead && n->outputs[0] == v ? n : NULL;
}

static bool is_op(const ir_node *n, op_id op) { return n->op == op_builtin(op); }

/* True if the Reshape leaves all extents as they are. It refuses another number of elements, so one extent that is not
 * known to be equal is equal, too, if there is an element. */
static bool keeps_extents(const joining *j, const ir_node *n) {
  const ir_value *from = n->inputs[0], *to = n->outputs[0];
  int32_t unknown = 0;
  if (from->type.rank < 0 || from->type.rank != to->type.rank) return false;
  for (int32_t i = 0; i < to->type.rank; i++) unknown += !same_dim(j, from, i, to, i);
  return unknown <= 1;
}

/* The input of a Cast between float dtypes, or of a Reshape to the same extents; otherwise v. */
static ir_value *uncast(const joining *j, ir_value *v) {
  const ir_node *n = only_maker(v);
  if (n && is_op(n, OP_Reshape) && keeps_extents(j, n)) return n->inputs[0];
  return n && is_op(n, OP_Cast) && is_float(v->type.dtype) && is_float(n->inputs[0]->type.dtype) ? n->inputs[0] : v;
}

/* Multiplies *scale by the constant factor, or divisor, that n applies to its other operand, which is the result;
 * NULL: n is no such operator. */
static ir_value *unscaled(const ir_node *n, double *scale) {
  double x;
  if (is_op(n, OP_Div) && pattern_number(n->inputs[1], &x) && ir_is_constant(n->inputs[1]))
    return *scale /= x, n->inputs[0];
  for (int k = 0; is_op(n, OP_Mul) && k < 2; k++)
    if (ir_is_constant(n->inputs[1 - k]) && pattern_number(n->inputs[1 - k], &x)) return *scale *= x, n->inputs[k];
  return NULL;
}

/* Takes c tanh(x / c) off v; NULL: v is not made so. */
static ir_value *uncapped(const ir_node *n, double *out_cap) {
  double cap = 1, divisor = 1;
  ir_value *curve = unscaled(n, &cap);
  const ir_node *tanh = curve ? only_maker(curve) : NULL;
  if (!tanh || !is_op(tanh, OP_Tanh)) return NULL;
  const ir_node *inner = only_maker(tanh->inputs[0]);
  ir_value *x = inner ? unscaled(inner, &divisor) : NULL;
  if (!x || !(cap > 0) || fabs(cap * divisor - 1) > 1e-6) return NULL;
  *out_cap = cap;
  return x;
}

/* True if scores that are masked have the extents of the product of Q and K. The product with V demands as many columns
 * of the masked scores as V has rows, whatever is known of the mask; so the mask widens no scores but those of a single
 * key, which Attention refuses beside several rows of V. */
static bool not_widened(const joining *j, const ir_value *masked, const parts *p) {
  const ir_value *product = p->product;
  int32_t last = masked->type.rank - 1;
  if (last < 1 || product->type.rank != last + 1 || p->v->type.rank < 2) return false;
  for (int32_t i = 0; i < last; i++)
    if (!same_dim(j, masked, i, product, i)) return false;
  reed_dim columns = product->type.dims[last], wider = masked->type.dims[last];
  return same_dim(j, masked, last, product, last) || same_dim(j, p->v, p->v->type.rank - 2, product, last) ||
         (symbol_is(columns) && symbols_broadcast(j->m->symbols, columns, wider) == wider);
}

static bool find_scores(const joining *j, ir_value *v, parts *p, int32_t depth);

/* Goes on with one operand of a mask's operator, whose result has the extents of the scores. */
static bool masked_by(const joining *j, ir_value *masked, ir_value *scores, mask by, const parts *before, parts *out) {
  if (before->n_masks == MASKS_MOST) return false;
  *out = *before;
  out->masks[out->n_masks++] = by;
  return find_scores(j, scores, out, out->n_masks) && not_widened(j, masked, out);
}

static bool unmask(const joining *j, ir_value *v, const ir_node *n, parts *p) {
  parts before = *p;
  if (is_op(n, OP_Add))
    for (int k = 0; k < 2; k++)
      if (masked_by(j, v, n->inputs[k], (mask){.added = n->inputs[1 - k], .factor = p->scale}, &before, p)) return true;
  if (is_op(n, OP_Where) && p->scale == 1)
    for (int k = 1; k < 3; k++) {
      ir_value *number = n->inputs[3 - k];
      mask by = {.truth = n->inputs[0], .hidden = number, .hides = k == 2};
      if (ir_is_constant(number) && masked_by(j, v, n->inputs[k], by, &before, p)) return true;
    }
  *p = before;
  return false;
}

/* The operand of Max that is no constant, if the other one is a number of at most LOW: the masked scores' least number;
 * NULL otherwise. max(score + mask, least) is score + max(mask, least) then. */
static ir_value *without_least(const ir_node *n, double *out_least) {
  double x;
  for (int32_t k = 0; is_op(n, OP_Max) && n->n_inputs == 2 && k < 2; k++)
    if (ir_is_constant(n->inputs[1 - k]) && pattern_number(n->inputs[1 - k], &x) && x <= LOW)
      return *out_least = x, n->inputs[k];
  return NULL;
}

/* Walks from v, the scores after masks and scales, back to the product of Q and K. */
static bool find_scores(const joining *j, ir_value *v, parts *p, int32_t depth) {
  v = uncast(j, v);
  const ir_node *n = only_maker(v);
  ir_value *more = n && !p->n_masks && p->least == -INFINITY ? without_least(n, &p->least) : NULL;
  if (more) n = only_maker(v = uncast(j, more));
  if (!n || depth > MASKS_MOST) return false;
  if ((is_op(n, OP_Add) || is_op(n, OP_Where)) && unmask(j, v, n, p)) return true;
  if (p->cap == 0 && p->scale == 1) {
    ir_value *x = uncapped(n, &p->cap);
    if (x) v = x;
  }
  for (int i = 0; i < 3; i++) {
    v = uncast(j, v);
    if (!(n = only_maker(v))) return false;
    ir_value *x = unscaled(n, &p->scale);
    if (!x) break;
    v = x;
  }
  if (is_op(n, OP_Add) && p->scale > 0 && p->cap == 0) return unmask(j, v, n, p);
  if (!is_op(n, OP_MatMul) || (n->n_inputs > 2 && n->inputs[2])) return false;
  p->product = v;
  p->q = n->inputs[0];
  p->kt = n->inputs[1];
  return true;
}

/* The Softmax's output that v is, or is a Cast of, or torch's guarded form of: scaled_dot_product_attention replaces
 * NaN weights by 0. */
static ir_value *find_weights(const joining *j, ir_value *v, bool *out_guarded) {
  v = uncast(j, v);
  const ir_node *n = only_maker(v);
  double zero;
  *out_guarded = n && is_op(n, OP_Where);
  if (!*out_guarded) return n && is_op(n, OP_Softmax) ? v : NULL;
  const ir_node *asks = only_maker(n->inputs[0]);
  ir_value *weights = n->inputs[2];
  if (!asks || !is_op(asks, OP_IsNaN) || asks->inputs[0] != weights || weights->n_uses != 2) return NULL;
  if (!ir_is_constant(n->inputs[1]) || !pattern_number(n->inputs[1], &zero) || zero != 0) return NULL;
  return pattern_made_by(weights, OP_Softmax) && ir_same_type(j->m, v, weights) ? weights : NULL;
}

/* Q or K without its constant factors. Other users of the value still get the factors. */
static ir_value *without_scale(ir_value *v, double *scale) {
  for (int i = 0; i < 3; i++) {
    const ir_node *n = v->producer;
    ir_value *x = n && !n->dead && n->outputs[0] == v ? unscaled(n, scale) : NULL;
    if (!x || x->type.rank != v->type.rank) return v;
    v = x;
  }
  return v;
}

static bool find_parts(const joining *j, const ir_node *product, parts *p) {
  *p = (parts){.scale = 1, .least = -INFINITY, .v = product->inputs[1]};
  if (product->n_inputs > 2 && product->inputs[2]) return false;
  p->weights = find_weights(j, product->inputs[0], &p->guarded);
  if (!p->weights) return false;
  const ir_node *softmax = p->weights->producer;
  reed_attrs attrs = ir_attrs(softmax);
  int64_t axis = op_attr_int(&attrs, "axis");
  if (op_attr_int(&attrs, "flattened") || !find_scores(j, softmax->inputs[0], p, 0)) return false;
  if (axis != -1 && axis != p->product->type.rank - 1) return false;
  p->q = without_scale(p->q, &p->scale);
  p->kt = without_scale(p->kt, &p->scale);
  return isfinite(p->scale) && p->scale > 0;
}

/* ---- conditions on types ---- */

/* True if Q, K and V have the same extents before the last two, without broadcasting. Of rank 4, K and V may both have
 * one head. The products and Attention alike refuse lengths of K and V, or sizes of Q and K, that differ. */
static bool fit(const joining *j, const ir_value *y, const parts *p) {
  int32_t rank = y->type.rank;
  if (rank < 2 || rank > 4 || p->q->type.rank != rank || p->kt->type.rank != rank || p->v->type.rank != rank)
    return false;
  if (!is_float(p->q->type.dtype) || p->q->type.dtype != p->v->type.dtype || p->q->type.dtype != y->type.dtype)
    return false;
  bool one_head = rank == 4 && p->kt->type.dims[1] == 1 && p->v->type.dims[1] == 1;
  for (int32_t i = 0; i < rank - 2; i++) {
    if (i == 1 && one_head) continue;
    if (!same_dim(j, p->q, i, p->kt, i) || !same_dim(j, p->q, i, p->v, i)) return false;
  }
  return true;
}

/* ---- new nodes ---- */

static ir_value *make(const joining *j, op_id op, ir_value *const *inputs, int32_t n) {
  ir_node *made = ir_node_new(j->last->graph, j->last, op_builtin(op), NULL, inputs, n, NULL, 1);
  return made ? made->outputs[0] : NULL;
}

static ir_value *transposed(const joining *j, ir_value *v) {
  int32_t rank = v->type.rank;
  int64_t perm[REED_MAX_RANK] = {0, 1, 2, 3};
  perm[rank - 1] = rank - 2;
  perm[rank - 2] = rank - 1;
  ir_value *made = make(j, OP_Transpose, &v, 1);
  return made && ir_set_attr_ints(made->producer, "perm", perm, rank) ? made : NULL;
}

/* v with extents of 1 in front, so that its rank is 4. NULL: no memory. */
static ir_value *widened(const joining *j, ir_value *v, int32_t rank) {
  static const int64_t axes[] = {0, 1};
  if (rank == 4) return v;
  ir_value *inputs[] = {v, ir_constant_i64(j->m, axes, 4 - rank, NULL)};
  return inputs[1] ? make(j, OP_Unsqueeze, inputs, 2) : NULL;
}

static ir_value *scalar(const joining *j, reed_dtype dtype, double number) {
  uint64_t bits = 0;
  reed_dtype_write(dtype, &bits, number);
  return ir_constant(j->m, &(reed_desc){.dtype = dtype}, &bits, false, NULL);
}

typedef struct mask_made {
  ir_value *mask; /* NULL: none */
  double hidden;  /* of a bool mask */
} mask_made;

static bool truth_mask(const joining *j, const mask *m, ir_value **out) {
  ir_value *truth = m->truth;
  *out = m->hides ? make(j, OP_Not, &truth, 1) : truth;
  return *out != NULL;
}

/* An added mask, times its factor. NULL: no memory. */
static ir_value *added_mask(const joining *j, const mask *m) {
  if (m->factor == 1) return m->added;
  ir_value *both[] = {m->added, scalar(j, m->added->type.dtype, m->factor)};
  return both[1] ? make(j, OP_Mul, both, 2) : NULL;
}

/* True if v has no element below `least`: a number, or a choice of such numbers under any extents. */
static bool is_at_least(const ir_value *v, double least) {
  const ir_node *n = v->producer;
  double x;
  if (least == -INFINITY) return true;
  if (ir_is_constant(v)) return pattern_number(v, &x) && x >= least;
  if (!n || n->dead) return false;
  if (is_op(n, OP_Where)) return is_at_least(n->inputs[1], least) && is_at_least(n->inputs[2], least);
  return (is_op(n, OP_Expand) || is_op(n, OP_Reshape) || is_op(n, OP_Squeeze) || is_op(n, OP_Unsqueeze)) &&
         is_at_least(n->inputs[0], least);
}

/* max(v, least), for a v that chooses between numbers by choosing between greater ones. NULL: no memory. */
static ir_value *raised(const joining *j, ir_value *v, double least) {
  const ir_node *n = v->producer;
  double x;
  if (is_at_least(v, least)) return v;
  if (ir_is_constant(v) && pattern_number(v, &x) && x < least) return scalar(j, v->type.dtype, least);
  if (n && !n->dead && is_op(n, OP_Where)) {
    ir_value *inputs[] = {n->inputs[0], raised(j, n->inputs[1], least), raised(j, n->inputs[2], least)};
    return inputs[1] && inputs[2] ? make(j, OP_Where, inputs, 3) : NULL;
  }
  ir_value *both[] = {v, scalar(j, v->type.dtype, least)};
  return both[1] ? make(j, OP_Max, both, 2) : NULL;
}

/* One mask of several: those from the last one back. Numbers that hide scores must be LOW unless there is one mask.
 * False: the masks have no joint form. *out_status: no memory. */
static bool join_masks(const joining *j, const parts *p, mask_made *out, reed_status *out_status) {
  *out = (mask_made){.hidden = -INFINITY};
  bool ok = true;
  for (int32_t i = 0; i < p->n_masks; i++) {
    double number = 0;
    if (p->masks[i].added) continue;
    if (!pattern_number(p->masks[i].hidden, &number) || number != number || (p->n_masks > 1 && !(number <= LOW)))
      return false;
    out->hidden = number > p->least ? number : p->least;
  }
  if (p->n_masks == 0) return true;
  if (p->n_masks == 1) {
    const mask *m = &p->masks[0];
    if (!m->added) ok = truth_mask(j, m, &out->mask);
    else ok = (out->mask = added_mask(j, m)) && (out->mask = raised(j, out->mask, p->least));
    if (!ok) *out_status = no_memory(j);
    return ok;
  }
  /* from the first mask on: added ones are added up, a number that hides replaces the sum */
  ir_value *sum = NULL;
  for (int32_t i = p->n_masks; i-- > 0 && ok;) {
    const mask *m = &p->masks[i];
    if (m->added) {
      ir_value *both[] = {sum, added_mask(j, m)};
      if (sum && sum->type.dtype != REED_NONE && sum->type.dtype != m->added->type.dtype) return false;
      sum = both[1] && sum ? make(j, OP_Add, both, 2) : both[1];
    } else {
      ir_value *shown = sum ? sum : scalar(j, m->hidden->type.dtype, 0);
      ir_value *inputs[] = {m->truth, m->hides ? m->hidden : shown, m->hides ? shown : m->hidden};
      sum = shown ? make(j, OP_Where, inputs, 3) : NULL;
    }
    ok = sum != NULL;
  }
  ok = ok && (sum = raised(j, sum, p->least)) != NULL;
  out->mask = sum;
  if (!ok) *out_status = no_memory(j);
  return ok;
}

/* ---- K ---- */

static bool has_perm(const ir_node *n, const int64_t *wanted, int32_t rank) {
  reed_attrs attrs = ir_attrs(n);
  int64_t n_perm;
  const int64_t *perm = reed_attrs_ints(&attrs, "perm", &n_perm);
  for (int32_t i = 0; i < rank; i++)
    if (!perm || n_perm != rank || perm[i] != wanted[i]) return false;
  return true;
}

static const int64_t heads_first[] = {0, 2, 1, 3}, keys_last[] = {0, 2, 3, 1}, matrices_turned[] = {0, 1, 3, 2},
                     matrix_turned[] = {0, 2, 1};

/* K of any rank from K^T; its constant factors go to the scale. NULL: no memory. */
static ir_value *keys_of(const joining *j, parts *p) {
  ir_value *k = NULL;
  const ir_node *turn = pattern_made_by(p->kt, OP_Transpose);
  int32_t rank = p->kt->type.rank;
  if (turn && rank >= 3 && has_perm(turn, rank == 4 ? matrices_turned : matrix_turned, rank)) k = turn->inputs[0];
  return k ? without_scale(k, &p->scale) : transposed(j, p->kt);
}

/* True if K^T is stored and there may be one query. To turn K back for one query costs more than the attention. */
static bool turns_stored_keys(const joining *j, const parts *p) {
  reed_dim queries = p->q->type.dims[p->q->type.rank - 2];
  return !pattern_made_by(p->kt, OP_Transpose) && (symbol_is(queries) || queries == 1);
}

/* ---- heads ---- */

/* The [batch, length, heads * size] from which Reshape and Transpose make v, [batch, heads, ...]; NULL: v is not made
 * so. */
static ir_value *flat_source(const joining *j, const ir_value *v, const int64_t *perm) {
  const ir_node *transpose = pattern_made_by(v, OP_Transpose);
  const ir_node *reshape =
      transpose && has_perm(transpose, perm, 4) ? pattern_made_by(transpose->inputs[0], OP_Reshape) : NULL;
  if (!reshape) return NULL;
  ir_value *flat = reshape->inputs[0];
  const ir_value *split = reshape->outputs[0];
  bool same =
      flat->type.rank == 3 && split->type.rank == 4 && same_dim(j, flat, 0, split, 0) && same_dim(j, flat, 1, split, 1);
  return same ? flat : NULL;
}

/* The flat source of K^T, whose heads one Transpose or two split and turn. */
static ir_value *flat_keys(const joining *j, const ir_value *kt) {
  ir_value *flat = flat_source(j, kt, keys_last);
  const ir_node *turn = flat ? NULL : pattern_made_by(kt, OP_Transpose);
  return turn && has_perm(turn, matrices_turned, 4) ? flat_source(j, turn->inputs[0], heads_first) : flat;
}

/* The product whose heads a Transpose and this Reshape merge, if no other node uses the product or the Transpose;
 * otherwise NULL. */
static ir_node *merged_product(const joining *j, const ir_node *reshape) {
  const ir_node *transpose = pattern_made_by(reshape->inputs[0], OP_Transpose);
  if (!transpose || transpose->outputs[0]->n_uses != 1 || !has_perm(transpose, heads_first, 4)) return NULL;
  ir_node *product = pattern_made_by(transpose->inputs[0], OP_MatMul);
  const ir_value *y = transpose->inputs[0], *z = reshape->outputs[0];
  if (!product || y->n_uses != 1 || y->type.rank != 4 || z->type.rank != 3) return NULL;
  reed_dim width = symbols_mul(j->m->symbols, y->type.dims[1], y->type.dims[3]);
  bool same =
      same_dim(j, z, 0, y, 0) && same_dim(j, z, 1, y, 2) && symbols_assume_equal(j->m->symbols, z->type.dims[2], width);
  return same && !symbol_is(y->type.dims[1]) ? product : NULL;
}

/* ---- the pass ---- */

static bool set_attrs(ir_node *n, const parts *p, const mask_made *mask, int64_t heads) {
  if (!ir_set_attr_float(n, "scale", p->scale) || !ir_set_attr_int(n, "nan_rows", p->guarded ? -1 : 1)) return false;
  if (p->cap > 0 && !ir_set_attr_float(n, "softcap", p->cap)) return false;
  if (mask->hidden != -INFINITY && !ir_set_attr_float(n, "hidden_score", mask->hidden)) return false;
  return !heads || (ir_set_attr_int(n, "q_num_heads", heads) && ir_set_attr_int(n, "kv_num_heads", heads));
}

/* Replaces the attention that ends with `last`: the product with V, or (`flat`) the Reshape that merges its heads. */
static reed_status join(joining *j, ir_node *last, ir_node *product, bool flat) {
  ir_value *y = product->outputs[0], *result = last->outputs[0], *q = NULL, *k = NULL, *v = NULL;
  int32_t rank = y->type.rank;
  parts p;
  mask_made mask;
  reed_status status = REED_OK;
  j->last = last;
  if (!find_parts(j, product, &p) || !fit(j, y, &p)) return REED_OK;
  if (flat) {
    q = flat_source(j, p.q, heads_first), k = flat_keys(j, p.kt), v = flat_source(j, p.v, heads_first);
    if (!q || !k || !v) return REED_OK;
  }
  if (!flat && turns_stored_keys(j, &p)) return REED_OK;
  if (!join_masks(j, &p, &mask, &status)) return status;
  if (!flat) {
    if (!(k = keys_of(j, &p))) return no_memory(j);
    q = widened(j, p.q, rank), k = widened(j, k, rank), v = widened(j, p.v, rank);
    if (!q || !k || !v) return no_memory(j);
  }
  ir_value *inputs[] = {q, k, v, mask.mask};
  bool narrow = rank < 4;
  ir_node *n = ir_node_new(last->graph, last, op_builtin(OP_Attention), product->name, inputs, mask.mask ? 4 : 3,
                           narrow ? NULL : &result, 1);
  if (!n || !set_attrs(n, &p, &mask, flat ? y->type.dims[1] : 0)) return no_memory(j);
  if (narrow) {
    static const int64_t axes[] = {0, 1};
    ir_value *squeezed[] = {n->outputs[0], ir_constant_i64(j->m, axes, 4 - rank, NULL)};
    if (!squeezed[1] || !ir_node_new(last->graph, last, op_builtin(OP_Squeeze), NULL, squeezed, 2, &result, 1))
      return no_memory(j);
  }
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
