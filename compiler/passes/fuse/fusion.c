/* Fusion: a bias, a residual and an activation after a convolution or matrix product become internal inputs and
 * attributes of the product (op.def). An activation after a normalisation becomes its attribute too. Conditions: the
 * intermediate tensors have no other use, and the shapes provably fit. Chains of element-wise operators are fused in
 * chains.c. */
#include <math.h>
#include <string.h>

#include "compiler/ir/attempt.h"
#include "compiler/ir/constant_weights.h"
#include "compiler/ir/integer_values.h"
#include "compiler/ir/pass.h"

typedef struct fusing {
  ir_module *m;
  int64_t n_biases, n_residuals, n_activations, n_changes;
} fusing;

static reed_status no_memory(const fusing *f) { return diag_no_memory(f->m->diagnosis, "fusion"); }

static bool is_float(const ir_value *v) { return v->type.dtype >= REED_F32 && v->type.dtype <= REED_BF16; }

static bool set_input(ir_node *n, int32_t i, ir_value *v) {
  while (n->n_inputs <= i)
    if (!ir_add_input(n, NULL)) return false;
  n->inputs[i] = v;
  return true;
}

/* ---- bias ---- */

/* Adds the numbers of a constant summand to the product's bias. *out_done: the summand fits. */
static reed_status add_constant_bias(fusing *f, ir_node *product, ir_node *add, const ir_value *other, bool *out_done) {
  int64_t n = weights_channels(product);
  if (n < 1) return REED_OK;
  double *bias = mem_calloc((size_t)n, sizeof *bias), *more = mem_calloc((size_t)n, sizeof *more);
  reed_status status = bias && more ? REED_OK : no_memory(f);
  if (status == REED_OK && weights_bias(product, n, bias) &&
      weights_per_channel(other, product->outputs[0]->type.rank, weights_channel_axis(product), n, more)) {
    for (int64_t i = 0; i < n; i++) bias[i] += more[i];
    if (weights_set_bias(product, n, bias)) *out_done = true;
    else status = no_memory(f);
  }
  mem_free(bias);
  mem_free(more);
  return status;
}

static bool is_matrix_product(const ir_node *n) {
  return n->op == op_builtin(OP_Gemm) || n->op == op_builtin(OP_MatMul);
}

static bool has_input(const ir_node *n, int32_t i) { return n->n_inputs > i && n->inputs[i]; }

/* Makes `summand` the third input of a Gemm or MatMul. False: the product has one, or no memory. */
static bool add_third_input(ir_node *product, ir_value *summand) {
  if (!is_matrix_product(product) || has_input(product, 2)) return false;
  return set_input(product, 2, summand) && ir_drop_attr(product, "beta");
}

/* Makes a computed vector of channels the third input of a Gemm or MatMul without a bias. False: it does not fit. */
static bool add_computed_bias(const fusing *f, ir_node *product, ir_value *other) {
  const ir_type *t = &product->outputs[0]->type;
  bool fits = other->type.rank == 1 && t->rank >= 2 &&
              symbols_assume_equal(f->m->symbols, other->type.dims[0], t->dims[t->rank - 1]);
  return fits && add_third_input(product, other);
}

/* ---- residual ---- */

/* Makes a tensor with the extents of the result the fourth input of a Conv, Gemm or MatMul; of a Gemm or MatMul without
 * a bias the third one, which libraries take too. False: it does not fit. */
static bool add_residual(const fusing *f, ir_node *product, ir_value *other) {
  bool takes = product->op == op_builtin(OP_Conv) || is_matrix_product(product);
  if (!takes || has_input(product, 3) || !ir_proven_same_type(f->m, other, product->outputs[0])) return false;
  return add_third_input(product, other) || set_input(product, 3, other);
}

/* ---- extents ---- */

typedef struct axes {
  int64_t n, of[REED_MAX_RANK]; /* the axes of a tensor whose extents a value has, in the value's order */
} axes;

/* The extents that the users of `value` read are those of the axes `read` of v; true if x has the same ones. */
static bool reads_same(const fusing *f, ir_graph *g, const ir_value *value, const axes *read, const ir_value *v,
                       const ir_value *x) {
  int32_t n_chosen = 0;
  for (size_t i = 0; i < g->nodes.n; i++) {
    const ir_node *n = g->nodes.items[i];
    int64_t n_places;
    if (n->dead || n->op != op_builtin(OP_Gather) || n->inputs[0] != value) continue;
    const reed_dim *places =
        ir_is_constant(n->inputs[1]) ? integer_values_of(f->m, n->inputs[1], false, &n_places) : NULL;
    if (!places || n_places > REED_MAX_RANK) return false;
    axes chosen = {.n = n_places};
    for (int64_t k = 0; k < n_places; k++) {
      const int64_t place = places[k] < 0 ? places[k] + read->n : places[k];
      if (place < 0 || place >= read->n) return false;
      chosen.of[k] = read->of[place];
    }
    if (!reads_same(f, g, n->outputs[0], &chosen, v, x)) return false;
    n_chosen++;
  }
  if (n_chosen && n_chosen == value->n_uses) return true;
  for (int64_t k = 0; k < read->n; k++)
    if (!symbols_equal(f->m->symbols, v->type.dims[read->of[k]], x->type.dims[read->of[k]])) return false;
  return true;
}

/* The extents of a convolution's result are often read, to resize another map to them. Those that its input has as well
 * are read from the input, so that the result has no other use than its Add, and a residual that depends on the extents
 * can be computed before the convolution. False: nothing is changed. */
static bool read_extents_before(const fusing *f, ir_node *product, const ir_node *add) {
  ir_value *v = product->outputs[0], *x = product->inputs[0];
  ir_graph *g = product->graph;
  if (product->op != op_builtin(OP_Conv) || g != add->graph || x->type.rank != v->type.rank) return false;
  for (int round = 0; round < 2; round++) /* first all are looked at, then all are changed */
    for (size_t i = 0; i < g->nodes.n; i++) {
      ir_node *n = g->nodes.items[i];
      const reed_attrs attrs = ir_attrs(n);
      if (n->dead || n->op != op_builtin(OP_Shape) || n->inputs[0] != v) continue;
      if (op_attr_int(&attrs, "start") != 0 || reed_attrs_find(&attrs, "end")) return false;
      axes all = {.n = v->type.rank};
      for (int64_t k = 0; k < all.n; k++) all.of[k] = k;
      if (round == 0 && !reads_same(f, g, n->outputs[0], &all, v, x)) return false;
      if (round == 1) n->inputs[0] = x, n->outputs[0]->elements = x->type.dims, n->outputs[0]->n_elements = all.n;
      if (round == 1) v->n_uses--, x->n_uses++;
    }
  return true;
}

/* The convolution to which the Add's other operand can be a residual once its extents are read elsewhere. */
static void free_product(const fusing *f, const ir_node *add) {
  for (int32_t k = 0; k < 2; k++) {
    const ir_value *v = add->inputs[k], *other = add->inputs[1 - k];
    ir_node *product = v->producer;
    if (!product || product->dead || product->op != op_builtin(OP_Conv) || v->n_uses < 2 || v == other) continue;
    const reed_attrs attrs = ir_attrs(product);
    int32_t n_shapes = 0;
    for (size_t i = 0; i < product->graph->nodes.n; i++) {
      const ir_node *n = product->graph->nodes.items[i];
      n_shapes += !n->dead && n->op == op_builtin(OP_Shape) && n->inputs[0] == v;
    }
    if (n_shapes + 1 != v->n_uses || has_input(product, 3) || reed_attrs_find(&attrs, "activation") ||
        ir_is_constant(other) || !ir_proven_same_type(f->m, other, v) || !ir_proven_same_type(f->m, v, add->outputs[0]))
      continue;
    if (read_extents_before(f, product, add)) return;
  }
}

static reed_status fuse_add(fusing *f, ir_node *add) {
  free_product(f, add);
  for (int32_t k = 0; k < 2; k++) {
    ir_node *product = weights_product(add->inputs[k], add);
    ir_value *other = add->inputs[1 - k];
    if (!product || !is_float(add->outputs[0]) || !ir_proven_same_type(f->m, product->outputs[0], add->outputs[0]))
      continue;
    bool has_residual = has_input(product, 3), done = false;
    reed_status status = has_residual ? REED_OK : add_constant_bias(f, product, add, other, &done);
    if (status != REED_OK) return status;
    done = done || add_computed_bias(f, product, other);
    f->n_biases += done;
    if (!done && add_residual(f, product, other)) {
      done = true;
      f->n_residuals++;
    }
    if (!done) continue;
    f->n_changes++;
    weights_absorb(product, add);
    return REED_OK;
  }
  return REED_OK;
}

/* ---- activation ---- */

static bool scalar_constant(const ir_value *v, double *out_number) {
  reed_desc d;
  if (!ir_is_constant(v) || !ir_desc(v, &d) || desc_elements(&d) != 1) return false;
  *out_number = reed_dtype_read(d.dtype, v->data);
  return true;
}

/* The bounds of Clip, which are its alpha and beta. False: a bound is not constant. */
static bool clip_bounds(const ir_node *n, double *out_alpha, double *out_beta) {
  *out_alpha = -INFINITY;
  *out_beta = INFINITY;
  if (n->n_inputs > 1 && n->inputs[1] && !scalar_constant(n->inputs[1], out_alpha)) return false;
  return n->n_inputs < 3 || !n->inputs[2] || scalar_constant(n->inputs[2], out_beta);
}

static const struct activation_row {
  op_id op;
  const char *text, *approximate;
} activations[] = {
#define ACTIVATION(kind, text, op, approximate, formula) {OP_##op, text, approximate},
#include "ops/activation.def"
};

/* The row of the activation n; NULL: n is no activation. */
static const struct activation_row *activation_of(const ir_node *n) {
  reed_attrs attrs = ir_attrs(n);
  for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
    const char *wanted = activations[i].approximate;
    if (n->op == op_builtin(activations[i].op) &&
        (!*wanted || strcmp(op_attr_string(&attrs, "approximate"), wanted) == 0))
      return &activations[i];
  }
  return NULL;
}

/* True when the operator's row in op.def has the attribute `activation`. */
static bool may_end_with_activation(const reed_op *op) {
  return op_id_of(op) != OP_COUNT && op_attr_row(op, "activation");
}

/* The attribute as a number; NAN: the operator has no such attribute. */
static double number_or_nan(const reed_attrs *attrs, const char *name) {
  const reed_attr *attr = reed_attrs_find(attrs, name);
  return attr ? attr->f : NAN;
}

static reed_status fuse_activation(fusing *f, ir_node *n, const struct activation_row *row) {
  ir_node *before = weights_only_for(n->inputs[0], n);
  reed_attrs attrs = ir_attrs(n);
  double alpha = number_or_nan(&attrs, "alpha"), beta = number_or_nan(&attrs, "beta");
  bool is_clip = n->op == op_builtin(OP_Clip);
  if (!before || !may_end_with_activation(before->op) || !is_float(before->outputs[0])) return REED_OK;
  if (is_clip && !clip_bounds(n, &alpha, &beta)) return REED_OK;
  bool ok = ir_set_attr_string(before, "activation", row->text);
  if (!isnan(alpha)) ok = ok && ir_set_attr_float(before, "activation_alpha", alpha);
  if (!isnan(beta)) ok = ok && ir_set_attr_float(before, "activation_beta", beta);
  if (!ok) return no_memory(f);
  weights_absorb(before, n);
  f->n_activations++;
  f->n_changes++;
  return REED_OK;
}

/* ---- the pass ---- */

static reed_status visit(void *context, ir_node *n) {
  if (n->op == op_builtin(OP_Add)) return fuse_add(context, n);
  const struct activation_row *row = activation_of(n);
  return row ? fuse_activation(context, n, row) : REED_OK;
}

reed_status pass_fusion(ir_module *m, pass_report *report) {
  fusing f = {.m = m};
  ir_count_uses(m);
  reed_status status = pass_try_each(m, visit, &f, &f.n_changes);
  ir_sweep(m);
  *report = (pass_report){.counts = {{"biases fused", f.n_biases},
                                     {"residuals fused", f.n_residuals},
                                     {"activations fused", f.n_activations}}};
  return status;
}
