/* Values between convolutions as bf16: half the memory, and the rounding of a product's input is done once, where the
 * value is computed, instead of by each reader. Only convolutions whose weights are in pairs (precision.c) write and
 * read such values, as X or residual, so nothing is converted between operators; boxes, scores, sums and all that a
 * shape function reads stay f32. The dtype of each value is chosen by itself: a convolution may read f32 and write
 * bf16, or the other way round (attribute output_dtype).
 *
 * The cost rule: a value becomes bf16 if a direct convolution reads it as X, because this product would round it for
 * itself, at each of its taps, or if it is the residual of a value of bf16. A value that only 3x3 convolutions of
 * stride 1 read stays f32: Winograd's form transforms it in f32, which gains little and would lose accuracy. */
#include "compiler/ir/pass.h"
#include "ops/packed.h"

typedef struct readers {
  int32_t n;     /* uses by convolutions that read bf16, and by operators that read extents only */
  bool rounding; /* one of them would round the value, or rounds its sum with it */
} readers;

typedef struct halving {
  ir_module *m;
  readers *of; /* output 0 of the node with this id, which placement has set */
  int32_t n_ids;
  int64_t n_values;
} halving;

/* True for a convolution that reads and writes images of bf16: one with weights in pairs, on the host or on a target
 * whose capability list has it with such operands. */
static bool takes_halves(const ir_module *m, const ir_node *n) {
  const reed_attrs own = ir_attrs(n);
  if (n->op != op_builtin(OP_Conv) || !packed_has_pairs(n->op, &own) || !n->outputs[0]) return false;
  if (n->outputs[0]->device == 0) return true;
  reed_attr marks[] = {{.name = PACKED_ATTR, .type = REED_ATTR_INTS},
                       {.name = PACKED_PAIRS_ATTR, .type = REED_ATTR_INT, .i = 1},
                       {.name = OUTPUT_DTYPE_ATTR, .type = REED_ATTR_INT, .i = REED_BF16}};
  reed_attrs attrs = {marks, sizeof marks / sizeof *marks};
  reed_dtype dtypes[2 * REED_MAX_OPERANDS];
  capability_call call = ir_call(n, &attrs, dtypes);
  dtypes[0] = REED_BF16;
  return capability_has(m->targets, &call);
}

/* True if the convolution rounds an X of f32, which one in Winograd's form does not. */
static bool rounds(const ir_node *n) {
  reed_desc weights;
  if (!ir_desc(n->inputs[1], &weights) || weights.rank != 4 || weights.dims[2] != 3 || weights.dims[3] != 3)
    return true;
  const reed_attrs attrs = ir_attrs(n);
  static const char *const each[] = {"strides", "dilations"};
  for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
    int64_t n_axes;
    const int64_t *steps = reed_attrs_ints(&attrs, each[i], &n_axes);
    for (int64_t axis = 0; steps && axis < n_axes; axis++)
      if (steps[axis] != 1) return true;
  }
  return op_attr_int(&attrs, "group") != 1;
}

static reed_status count_ids(void *context, ir_node *n) {
  halving *h = context;
  if (n->id >= h->n_ids) h->n_ids = n->id + 1;
  return REED_OK;
}

static reed_status count_readers(void *context, ir_node *n) {
  halving *h = context;
  const bool takes = takes_halves(h->m, n), extents = op_has(n->op, REED_OP_EXTENTS_ONLY);
  for (int32_t i = 0; i < n->n_inputs; i++) {
    const ir_value *v = n->inputs[i];
    if (!v || !v->producer || v->producer_output != 0) continue;
    readers *r = &h->of[v->producer->id];
    if (extents || (takes && (i == 0 || i == 3))) r->n++;
    if (takes && i == 0 && rounds(n)) r->rounding = true;
  }
  return REED_OK;
}

static reed_status choose(void *context, ir_node *n) {
  halving *h = context;
  if (!takes_halves(h->m, n)) return REED_OK;
  ir_value *y = n->outputs[0];
  const readers *r = &h->of[n->id];
  if (y->type.dtype == REED_F32 && r->rounding && r->n == y->n_uses) {
    y->type.dtype = REED_BF16;
    h->n_values++;
  }
  return REED_OK;
}

/* Residuals of the values chosen so far. */
static reed_status follow_residuals(void *context, ir_node *n) {
  halving *h = context;
  if (!takes_halves(h->m, n) || n->outputs[0]->type.dtype != REED_BF16 || n->n_inputs <= 3 || !n->inputs[3])
    return REED_OK;
  const ir_value *v = n->inputs[3];
  if (v->producer && v->producer_output == 0) h->of[v->producer->id].rounding = true;
  return REED_OK;
}

static reed_status declare(void *context, ir_node *n) {
  halving *h = context;
  if (!takes_halves(h->m, n) || n->inputs[0]->type.dtype == n->outputs[0]->type.dtype) return REED_OK;
  return ir_set_attr_int(n, OUTPUT_DTYPE_ATTR, n->outputs[0]->type.dtype)
             ? REED_OK
             : diag_no_memory(h->m->diagnosis, "values of half precision");
}

reed_status pass_halves(ir_module *m, pass_report *report) {
  halving h = {.m = m};
  reed_status status = REED_OK;
  if (m->precision == REED_BF16) {
    ir_count_uses(m);
    status = ir_walk(m->main, true, count_ids, &h);
    h.of = ir_alloc(m, ((size_t)h.n_ids + 1) * sizeof *h.of);
    if (!h.of && status == REED_OK) status = diag_no_memory(m->diagnosis, "values of half precision");
    if (status == REED_OK) status = ir_walk(m->main, true, count_readers, &h);
    for (int64_t before = -1; before != h.n_values && status == REED_OK;) {
      before = h.n_values;
      status = ir_walk(m->main, true, choose, &h);
      if (status == REED_OK) status = ir_walk(m->main, true, follow_residuals, &h);
    }
    if (status == REED_OK) status = ir_walk(m->main, true, declare, &h);
  }
  *report = (pass_report){.counts = {{"values between convolutions in bf16", h.n_values}}};
  return status;
}
