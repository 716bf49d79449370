/* Lower precision (reed_compile_options.precision): constant weights of f32 products become bf16 or f16,
 * half the bytes of the module. Their inputs and results stay f32, so that boxes, scores, sums and all that a shape
 * function reads are f32. A kernel for bf16 rounds its input to bf16 and sums in f32; where the CPU has no such kernel,
 * or Winograd's convolution in f32 is faster, the weights are widened (ops/cpu/views/widen.h).
 *
 * A product keeps f32 if its result reaches, without another product between, an operator that chooses among elements
 * or counts them, or elements that a shape function reads: the heads of boxes and scores, in which a rounded element
 * would change the choice and not only its value. Extents are no elements: a map whose Shape is read decides nothing.
 *
 * So does a product with many others between its result and a choice (PRODUCTS_AFTER_BF16): each of them amplifies its
 * rounding, so that the first layers of a deep detector change more choices than all others together.
 *
 * Only weights that may lie in pairs of channels are changed (ops/packed.h): those of depthwise and small groups, of
 * the first convolution of an image and of odd numbers of channels are few, and stay f32. With bf16, so do narrow
 * products (NARROW). */
#include <string.h>

#include "compiler/ir/pass.h"
#include "compiler/passes/layout/round_weights.h"
#include "ops/packed.h"

/* A product with fewer inputs or outputs keeps f32 instead of bf16, because so short a sum averages few roundings, and
 * the few values that it writes carry its error into all that follows: SSDLite finds 98 % of its detections again
 * instead of 90, in the same time, because bf16 gains least where little is multiplied for each value that is read. */
#define NARROW 48

/* A product keeps f32 if the longest way from its result to a choice has more products. Of 500 detections of Mask R-CNN
 * ResNet-50-FPN with random weights, in five pictures, 486 are found again with a limit of 16 products for bf16, 469
 * with 22, 408 with 40; f16 rounds to an eighth of that, and loses fewer with 40. docs/performance.md has what the
 * limits cost. */
#define PRODUCTS_AFTER_BF16 16
#define PRODUCTS_AFTER_F16 40

typedef struct weights_pair {
  const void *from;
  ir_value *to;
} weights_pair;

typedef struct lowering {
  ir_module *m;
  VEC_OF(weights_pair) made;
  int64_t n_products, n_kept;
  bool *deciding; /* by the id of the node, which placement has set */
  int32_t *after; /* by id: products on the longest way from the node's results to a choice; -1: there is no way */
  VEC_OF(ir_node *) in_order; /* all nodes */
  int32_t n_ids;
  VEC_OF(ir_node *) pending; /* nodes whose results reach a choice, and whose operands have not been followed */
  bool exceeded;             /* a weight is too large for f16 */
} lowering;

/* The weights in the module's precision, made once for all their products. */
static reed_status lowered(lowering *l, const ir_value *weights, const packed_order *order, ir_value **out_value) {
  const reed_desc *to = &order->plain;
  reed_desc made;
  for (size_t i = 0; i < l->made.n; i++) {
    ir_value *v = l->made.items[i].to;
    if (l->made.items[i].from != weights->data || !ir_desc(v, &made) || !desc_equal(&made, to)) continue;
    *out_value = v;
    return REED_OK;
  }
  void *data = ir_alloc_elements(l->m, (size_t)desc_bytes(to));
  if (!data) return diag_no_memory(l->m->diagnosis, "weights of lower precision");
  reed_status status = round_weights(l->m, order, weights->data, data, &l->exceeded);
  if (status != REED_OK) return status;
  *out_value = ir_constant(l->m, to, data, true, weights->name);
  bool kept = *out_value && VEC_PUSH(&l->made, ((weights_pair){weights->data, *out_value}));
  return kept ? REED_OK : diag_no_memory(l->m->diagnosis, "weights of lower precision");
}

/* True if the node's weights may lie in pairs, and are not too narrow for the precision. Sets the node's attribute
 * then. */
static bool takes_pairs(ir_node *n, const reed_desc *plain, reed_dtype precision, packed_order *out_order) {
  reed_desc bf16 = *plain;
  bf16.dtype = REED_BF16;
  if (!ir_set_attr_int(n, PACKED_PAIRS_ATTR, 1)) return false;
  reed_attrs attrs = ir_attrs(n);
  if (packed_order_of(n->op, &attrs, &bf16, out_order) &&
      (precision == REED_F16 || (out_order->channels >= NARROW && out_order->outputs >= NARROW))) {
    out_order->plain.dtype = precision;
    return true;
  }
  (void)ir_drop_attr(n, PACKED_PAIRS_ATTR); /* resets to the default in place */
  return false;
}

/* True for a product on the host, or on a target whose capability list has the product with weights in pairs: its
 * kernels then take those of f16 too. */
static bool runs_with(const ir_module *m, const ir_node *n) {
  if (n->outputs[0]->device == 0) return true;
  reed_attr packed[] = {{.name = PACKED_ATTR, .type = REED_ATTR_INTS},
                        {.name = PACKED_PAIRS_ATTR, .type = REED_ATTR_INT, .i = 1}};
  reed_attrs attrs = {packed, 2};
  reed_dtype dtypes[2 * REED_MAX_OPERANDS];
  capability_call call = ir_call(n, &attrs, dtypes);
  dtypes[1] = m->precision;
  return capability_has(m->targets, &call);
}

/* ---- products whose results decide a choice ---- */

static bool chooses(const reed_op *op) {
  for (int32_t i = 0; i < op->n_outputs; i++)
    if (op->outputs[i].bounded) return true; /* as many as there are that pass */
  op_id id = op_id_of(op);
  return id == OP_TopK || id == OP_ArgMax || id == OP_ArgMin;
}

static reed_status reach(lowering *l, const ir_value *v) {
  ir_node *n = v ? v->producer : NULL;
  if (!n || l->deciding[n->id]) return REED_OK;
  l->deciding[n->id] = true;
  return VEC_PUSH(&l->pending, n) ? REED_OK : diag_no_memory(l->m->diagnosis, "the products that decide choices");
}

static reed_status count_ids(void *context, ir_node *n) {
  lowering *l = context;
  if (n->id >= l->n_ids) l->n_ids = n->id + 1;
  return VEC_PUSH(&l->in_order, n) ? REED_OK : diag_no_memory(l->m->diagnosis, "the products that decide choices");
}

static reed_status find_choices(void *context, ir_node *n) {
  lowering *l = context;
  reed_attrs attrs = ir_attrs(n);
  reed_status status = REED_OK;
  for (int32_t i = 0; i < n->n_inputs && status == REED_OK; i++)
    if (chooses(n->op) || op_reads_value(n->op, &attrs, i)) status = reach(l, n->inputs[i]);
  return status;
}

static reed_status follow(lowering *l) {
  reed_status status = REED_OK;
  while (l->pending.n > 0 && status == REED_OK) {
    const ir_node *n = l->pending.items[--l->pending.n];
    if (op_has(n->op, OP_PROPERTY_PACKABLE) || op_has(n->op, REED_OP_EXTENTS_ONLY)) continue;
    for (int32_t i = 0; i < n->n_inputs && status == REED_OK; i++) status = reach(l, n->inputs[i]);
    for (int32_t r = 0; r < n->n_regions; r++)
      for (int32_t i = 0; i < n->regions[r]->n_results && status == REED_OK; i++)
        status = reach(l, n->regions[r]->results[i]);
  }
  return status;
}

/* Counts the products after each node: readers come after their operands in the order of nodes. */
static reed_status count_after(lowering *l) {
  l->after = ir_alloc(l->m, ((size_t)l->n_ids + 1) * sizeof *l->after);
  if (!l->after) return diag_no_memory(l->m->diagnosis, "the products that decide choices");
  for (int32_t i = 0; i < l->n_ids; i++) l->after[i] = -1;
  for (size_t k = l->in_order.n; k-- > 0;) {
    const ir_node *n = l->in_order.items[k];
    const reed_attrs attrs = ir_attrs(n);
    if (op_has(n->op, REED_OP_EXTENTS_ONLY)) continue;
    for (int32_t i = 0; i < n->n_inputs; i++) {
      const ir_node *of = n->inputs[i] ? n->inputs[i]->producer : NULL;
      const bool chosen = chooses(n->op) || op_reads_value(n->op, &attrs, i);
      const int32_t after = chosen                ? 0
                            : l->after[n->id] < 0 ? -1
                                                  : l->after[n->id] + op_has(n->op, OP_PROPERTY_PACKABLE);
      if (of && after > l->after[of->id]) l->after[of->id] = after;
    }
  }
  return REED_OK;
}

static reed_status find_deciding(lowering *l) {
  reed_status status = ir_walk(l->m->main, true, count_ids, l);
  if (status != REED_OK) return status;
  l->deciding = ir_alloc(l->m, (size_t)l->n_ids + 1);
  if (!l->deciding) return diag_no_memory(l->m->diagnosis, "the products that decide choices");
  status = ir_walk(l->m->main, true, find_choices, l);
  if (status == REED_OK) status = follow(l);
  return status == REED_OK ? count_after(l) : status;
}

/* ---- weights ---- */

static reed_status visit(void *context, ir_node *n) {
  lowering *l = context;
  reed_desc plain;
  ir_value *weights = n->n_inputs > 1 ? n->inputs[1] : NULL;
  if (!op_has(n->op, OP_PROPERTY_PACKABLE) || !ir_is_constant(weights) || weights->packed ||
      n->inputs[0]->type.dtype != REED_F32 || !n->outputs[0] || !runs_with(l->m, n))
    return REED_OK;
  if (!ir_desc(weights, &plain) || plain.dtype != REED_F32 || desc_bytes(&plain) <= 0) return REED_OK;
  const int32_t near = l->m->precision == REED_BF16 ? PRODUCTS_AFTER_BF16 : PRODUCTS_AFTER_F16;
  if (l->deciding[n->id] || l->after[n->id] > near) {
    l->n_kept++;
    return REED_OK;
  }
  packed_order order;
  if (!takes_pairs(n, &plain, l->m->precision, &order)) return REED_OK;
  ir_value *half = NULL;
  if (l->m->precision != REED_BF16 && !ir_drop_attr(n, PACKED_PAIRS_ATTR))
    return diag_no_memory(l->m->diagnosis, "weights of lower precision");
  reed_status status = lowered(l, weights, &order, &half);
  if (status == REED_OK && l->exceeded)
    return diag_fail(l->m->diagnosis, REED_ERROR_UNSUPPORTED, "%s node '%s': its weights exceed what f16 holds (65504)",
                     n->op->name, n->name);
  if (status != REED_OK) return status;
  n->inputs[1] = half;
  l->n_products++;
  return REED_OK;
}

reed_status pass_precision(ir_module *m, pass_report *report) {
  lowering l = {.m = m};
  bool wanted = m->precision == REED_BF16 || m->precision == REED_F16;
  reed_status status = wanted ? find_deciding(&l) : REED_OK;
  if (status == REED_OK && wanted) status = ir_walk(m->main, true, visit, &l);
  *report = (pass_report){.counts = {{"products with weights of half precision", l.n_products},
                                     {"weights rounded", (int64_t)l.made.n},
                                     {"products of f32 before choices", l.n_kept}}};
  VEC_FREE(&l.made);
  VEC_FREE(&l.pending);
  VEC_FREE(&l.in_order);
  return status;
}
