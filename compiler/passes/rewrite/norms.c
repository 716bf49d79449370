/* Replaces normalisations over the last axes that an exporter wrote as single operators: LayerNormalization (Ba et al.
 * 2016, "Layer Normalization"),
 *
 *   d = x - mean(x);  d / sqrt(mean(d^2) + epsilon) * scale + shift
 *
 * and RMSNormalization (Zhang and Sennrich 2019, "Root Mean Square Layer Normalization"), which has neither the mean
 * nor the shift. Without a scale the extents of the last axes must be known, because a scale of ones is made.
 *
 * An exporter of halves widens x, or x - mean(x), by a Cast, and rounds the quotient by another Cast. The operator,
 * whose arithmetic is at least that of f32, reads and writes the halves instead. So does an operator between such Casts
 * that the exporter wrote itself, if its scale and shift are constants that the halves hold exactly. */
#include <string.h>

#include "base/desc.h"
#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

enum { X, CENTRED, AXES, EPSILON, QUOTIENT, NORMALISED, SCALED, SCALE, SHIFT, N_SLOTS };

#define P_X P_AS(X, P_ANY)
#define MEAN(part) P_INT("keepdims", 1, P_OP(ReduceMean, part, P_AS(AXES, P_CONSTANT)))
#define SQUARE(part) P_EITHER(P_OP(Pow, part, P_NUMBER(2)), P_OP(Mul, part, part))
#define ROOT(part) P_EITHER(P_OP(Sqrt, part), P_OP(Pow, part, P_NUMBER(0.5)))
#define INVERSE(part) P_EITHER(P_OP(Reciprocal, part), P_OP(Div, P_NUMBER(1), part))
/* part / sqrt(mean(part^2) + epsilon) */
#define OVER_ROOT(part, variance) \
  P_EITHER(P_OP(Div, part, ROOT(variance)), P_PAIR(Mul, part, INVERSE(ROOT(variance))), \
           P_PAIR(Mul, part, P_OP(Pow, variance, P_NUMBER(-0.5))))
#define VARIANCE(part) P_PAIR(Add, MEAN(SQUARE(part)), P_AS(EPSILON, P_CONSTANT))

#define MAYBE_CAST(part) P_EITHER(P_OP(Cast, part), part)
#define P_CENTRED P_AS(CENTRED, MAYBE_CAST(P_OP(Sub, P_X, MEAN(P_X))))
/* The core, the core * SCALE, the core * SCALE + SHIFT: the longest first. */
#define TIMES_SCALE(core) P_PAIR(Mul, P_ONCE(P_AS(NORMALISED, core)), P_AS(SCALE, P_ANY))
#define PLUS_SHIFT(part) P_PAIR(Add, P_ONCE(P_AS(SCALED, part)), P_AS(SHIFT, P_ANY))

#define LAYER MAYBE_CAST(P_AS(QUOTIENT, OVER_ROOT(P_CENTRED, VARIANCE(P_CENTRED))))
static const pattern *const layer = P_EITHER(PLUS_SHIFT(TIMES_SCALE(LAYER)), TIMES_SCALE(LAYER), LAYER);
#define RMS MAYBE_CAST(P_AS(QUOTIENT, OVER_ROOT(P_X, VARIANCE(P_X))))
static const pattern *const rms = P_EITHER(TIMES_SCALE(RMS), RMS);

typedef struct joining {
  ir_module *m;
  VEC_OF(ir_node *) nodes;
  int64_t n_layers, n_rms, n_narrowed;
} joining;

/* The first axis, where `axes` lists the last axes; -1: it lists others. */
static int32_t first_axis(const ir_value *axes, int32_t rank) {
  reed_desc d;
  uint32_t seen = 0;
  if (!ir_desc(axes, &d) || desc_elements(&d) < 1 || desc_elements(&d) > rank) return -1;
  int32_t first = rank - (int32_t)desc_elements(&d);
  for (int64_t i = 0; i < desc_elements(&d); i++) {
    double axis = reed_dtype_read(d.dtype, (const char *)axes->data + (size_t)i * reed_dtype_bytes(d.dtype));
    if (axis < 0) axis += rank;
    if (axis < first || axis >= rank) return -1;
    seen |= 1u << (int32_t)axis;
  }
  for (int32_t i = first; i < rank; i++)
    if (!(seen >> i & 1)) return -1;
  return first;
}

/* True when v has the dtype of x, and the extents of x from `axis` on. */
static bool covers(const ir_module *m, const ir_value *v, const ir_value *x, int32_t axis) {
  if (v->type.dtype != x->type.dtype || v->type.rank != x->type.rank - axis) return false;
  for (int32_t i = 0; i < v->type.rank; i++)
    if (!symbols_assume_equal(m->symbols, v->type.dims[i], x->type.dims[axis + i])) return false;
  return true;
}

/* A constant of ones with the extents of x from `axis` on; NULL: the extents are not known, or no memory (*out_status).
 */
static ir_value *ones(ir_module *m, const ir_value *x, int32_t axis, reed_status *out_status) {
  reed_desc d = {.dtype = x->type.dtype, .rank = x->type.rank - axis};
  for (int32_t i = 0; i < d.rank; i++) {
    if (symbol_is(x->type.dims[axis + i])) return NULL;
    d.dims[i] = x->type.dims[axis + i];
  }
  int64_t n = desc_elements(&d);
  size_t bytes = reed_dtype_bytes(d.dtype);
  char *data = ir_alloc(m, (size_t)n * bytes);
  for (int64_t i = 0; data && i < n; i++) reed_dtype_write(d.dtype, data + (size_t)i * bytes, 1);
  ir_value *made = data ? ir_constant(m, &d, data, true, NULL) : NULL;
  if (!made) *out_status = diag_no_memory(m->diagnosis, "a normalisation");
  return made;
}

/* True if the dtypes are equal, or `narrow` is a half and `wide` is f32 or f64. */
static bool holds(reed_dtype wide, reed_dtype narrow) {
  const bool half = narrow == REED_F16 || narrow == REED_BF16;
  return wide == narrow || (half && (wide == REED_F32 || wide == REED_F64));
}

/* The value of that dtype that v is, or that a Cast widens to v; NULL: there is none. */
static ir_value *of_dtype(ir_value *v, reed_dtype dtype) {
  const ir_node *cast = v->type.dtype == dtype ? NULL : pattern_made_by(v, OP_Cast);
  if (!cast) return v->type.dtype == dtype ? v : NULL;
  ir_value *from = cast->inputs[0];
  return from->type.dtype == dtype && holds(v->type.dtype, dtype) ? from : NULL;
}

static reed_status join(joining *j, ir_node *last, const pattern *is, op_id op, int64_t *n_joined) {
  ir_value *slots[N_SLOTS], *result = last->outputs[0];
  double epsilon;
  reed_status status = REED_OK;
  if (!pattern_match(is, result, slots, N_SLOTS)) return REED_OK;
  if (slots[CENTRED] && !holds(slots[CENTRED]->type.dtype, slots[X]->type.dtype)) return REED_OK;
  slots[X] = of_dtype(slots[X], result->type.dtype);
  if (!slots[X] || !ir_same_type(j->m, slots[X], result)) return REED_OK;
  int32_t axis = first_axis(slots[AXES], slots[X]->type.rank);
  if (axis < 0 || !pattern_number(slots[EPSILON], &epsilon)) return REED_OK;
  if (!slots[SCALE]) slots[SCALE] = ones(j->m, slots[X], axis, &status);
  if (!slots[SCALE] || !covers(j->m, slots[SCALE], slots[X], axis)) return status;
  if (slots[SHIFT] && !covers(j->m, slots[SHIFT], slots[X], axis)) return REED_OK;
  ir_value *inputs[] = {slots[X], slots[SCALE], slots[SHIFT]};
  ir_node *n = ir_node_new(last->graph, last, op_builtin(op), last->name, inputs, slots[SHIFT] ? 3 : 2, &result, 1);
  if (!n || !ir_set_attr_int(n, "axis", axis - slots[X]->type.rank) || !ir_set_attr_float(n, "epsilon", epsilon))
    return diag_no_memory(j->m->diagnosis, "a normalisation");
  last->dead = true;
  if (slots[SCALED]) slots[SCALED]->producer->dead = true;
  if (slots[NORMALISED]) slots[NORMALISED]->producer->dead = true;
  if (slots[QUOTIENT] != result && slots[QUOTIENT]->n_uses == 1) slots[QUOTIENT]->producer->dead = true;
  ++*n_joined;
  return REED_OK;
}

static reed_status visit_layer(void *context, ir_node *last) {
  joining *j = context;
  return join(j, last, layer, OP_LayerNormalization, &j->n_layers);
}

static reed_status visit_rms(void *context, ir_node *last) {
  joining *j = context;
  return join(j, last, rms, OP_RMSNormalization, &j->n_rms);
}

/* ---- an operator between Casts ---- */

/* The constant in that dtype, if it holds every element exactly; otherwise NULL (or no memory, *out_status). */
static ir_value *exact_constant(ir_module *m, const ir_value *v, reed_dtype dtype, reed_status *out_status) {
  reed_desc d;
  if (!ir_is_constant(v) || !ir_desc(v, &d)) return NULL;
  const size_t from = reed_dtype_bytes(d.dtype), to = reed_dtype_bytes(dtype);
  const reed_dtype wide = d.dtype;
  const int64_t n = desc_elements(&d);
  d.dtype = dtype;
  char *data = ir_alloc_elements(m, (size_t)n * to);
  for (int64_t i = 0; data && i < n; i++) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *)v->data + (size_t)i * from, from);
    const double x = reed_dtype_read(wide, &bits);
    reed_dtype_write(dtype, data + (size_t)i * to, x);
    if (reed_dtype_read(dtype, data + (size_t)i * to) != x) return NULL;
  }
  ir_value *made = data ? ir_constant(m, &d, data, true, v->name) : NULL;
  if (!made) *out_status = diag_no_memory(m->diagnosis, "a normalisation");
  return made;
}

/* A Cast that rounds the result of a normalisation of a widened tensor. */
static reed_status visit_cast(void *context, ir_node *last) {
  joining *j = context;
  ir_value *result = last->outputs[0], *inputs[3] = {NULL};
  ir_node *n = last->op == op_builtin(OP_Cast) ? last->inputs[0]->producer : NULL;
  reed_status status = REED_OK;
  if (!n || n->dead || (n->op != op_builtin(OP_LayerNormalization) && n->op != op_builtin(OP_RMSNormalization)))
    return REED_OK;
  if (n->graph != last->graph || n->outputs[0] != last->inputs[0] || n->outputs[0]->n_uses != 1) return REED_OK;
  for (int32_t i = 1; i < n->n_outputs; i++)
    if (n->outputs[i]) return REED_OK;
  inputs[0] = of_dtype(n->inputs[0], result->type.dtype);
  if (!inputs[0] || inputs[0] == n->inputs[0]) return REED_OK;
  for (int32_t i = 1; i < n->n_inputs; i++) {
    if (!n->inputs[i]) continue;
    inputs[i] = exact_constant(j->m, n->inputs[i], result->type.dtype, &status);
    if (!inputs[i]) return status;
  }
  memcpy(n->inputs, inputs, (size_t)n->n_inputs * sizeof *inputs);
  n->outputs[0] = result;
  result->producer = n;
  last->dead = true;
  j->n_narrowed++;
  return REED_OK;
}

/* ---- the pass ---- */

static reed_status collect(void *context, ir_node *n) {
  joining *j = context;
  bool last = n->op == op_builtin(OP_Mul) || n->op == op_builtin(OP_Div) || n->op == op_builtin(OP_Add) ||
              n->op == op_builtin(OP_Cast);
  if (!last || VEC_PUSH(&j->nodes, n)) return REED_OK;
  return diag_no_memory(j->m->diagnosis, "a normalisation");
}

/* Visits nodes from the last one back, so that the longest form is matched first. */
reed_status pass_norms(ir_module *m, pass_report *report) {
  joining j = {.m = m};
  ir_count_uses(m);
  reed_status status = ir_walk(m->main, true, collect, &j);
  if (status == REED_OK) status = pass_try_back(m, j.nodes.items, j.nodes.n, visit_layer, &j, &j.n_layers);
  if (status == REED_OK) status = pass_try_back(m, j.nodes.items, j.nodes.n, visit_rms, &j, &j.n_rms);
  ir_count_uses(m);
  if (status == REED_OK) status = pass_try_back(m, j.nodes.items, j.nodes.n, visit_cast, &j, &j.n_narrowed);
  VEC_FREE(&j.nodes);
  ir_sweep(m);
  *report = (pass_report){.counts = {{"layer normalisations recognised", j.n_layers},
                                     {"RMS normalisations recognised", j.n_rms},
                                     {"of halves between Casts", j.n_narrowed}}};
  return status;
}
