/* Lower precision (reed_compile_options.precision): constant weights of f32 products become bf16 or f16,
 * half the bytes of the module. Their inputs and results stay f32, so that boxes, scores, sums and all that a shape
 * function reads are f32. A kernel for bf16 rounds its input to bf16 and sums in f32; 3x3 convolutions may run in
 * Winograd's form in fixed point; where the CPU has no such kernel, or Winograd's convolution in f32 is faster, the
 * weights are widened (ops/cpu/views/widen.h).
 *
 * Products that decide choices keep f32 (choices.h).
 *
 * Only weights that may lie in pairs of channels are changed (ops/packed.h): those of depthwise and small groups, of
 * the first convolution of an image and of odd numbers of channels are few, and stay f32. With bf16, so do narrow
 * products (choices.h). */
#include <string.h>

#include "compiler/ir/pass.h"
#include "compiler/passes/layout/choices.h"
#include "compiler/passes/layout/round_weights.h"
#include "ops/packed.h"

typedef struct weights_pair {
  const void *from;
  ir_value *to;
} weights_pair;

typedef struct lowering {
  ir_module *m;
  VEC_OF(weights_pair) made;
  int64_t n_products, n_kept;
  choices choices;
  bool exceeded; /* a weight is too large for f16 */
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
  if (packed_order_of(n->op, &attrs, &bf16, out_order) && !choices_narrow(precision, out_order)) {
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

/* ---- weights ---- */

static reed_status visit(void *context, ir_node *n) {
  lowering *l = context;
  reed_desc plain;
  ir_value *weights = n->n_inputs > 1 ? n->inputs[1] : NULL;
  if (!op_has(n->op, OP_PROPERTY_PACKABLE) || !ir_is_constant(weights) || weights->packed ||
      n->inputs[0]->type.dtype != REED_F32 || !n->outputs[0] || !runs_with(l->m, n))
    return REED_OK;
  if (!ir_desc(weights, &plain) || plain.dtype != REED_F32 || desc_bytes(&plain) <= 0) return REED_OK;
  if (choices_keep_f32(&l->choices, n)) {
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
  reed_status status = wanted ? choices_find(m, &l.choices) : REED_OK;
  if (status == REED_OK && wanted) status = ir_walk(m->main, true, visit, &l);
  *report = (pass_report){.counts = {{"products with weights of half precision", l.n_products},
                                     {"weights rounded", (int64_t)l.made.n},
                                     {"products of f32 before choices", l.n_kept}}};
  VEC_FREE(&l.made);
  choices_fini(&l.choices);
  return status;
}
