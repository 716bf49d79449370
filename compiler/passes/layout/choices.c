/* The search for products that decide choices (choices.h): from the operators that choose or count back to the products
 * before them, and the number of products on the way. */
#include "compiler/passes/layout/choices.h"

#include "base/diag.h"
#include "ops/properties.h"

/* A product keeps f32 if the longest way from its result to a choice has more products. Of 500 detections of Mask R-CNN
 * ResNet-50-FPN with random weights, in five pictures, 486 are found again with a limit of 16 products for bf16, 469
 * with 22, 408 with 40; f16 rounds to an eighth of that, and loses fewer with 40. docs/measurements.md has what the
 * limits cost. */
#define PRODUCTS_AFTER_BF16 16
#define PRODUCTS_AFTER_F16 40

/* A product with fewer inputs or outputs keeps f32 instead of bf16, because so short a sum averages few roundings, and
 * the few values that it writes carry its error into all that follows: SSDLite finds 98 % of its detections again
 * instead of 90, in the same time, because bf16 gains least where little is multiplied for each value that is read. */
#define NARROW 48

static bool chooses(const reed_op *op) {
  for (int32_t i = 0; i < op->n_outputs; i++)
    if (op->outputs[i].bounded) return true; /* as many as there are that pass */
  op_id id = op_id_of(op);
  return id == OP_TopK || id == OP_ArgMax || id == OP_ArgMin;
}

static reed_status reach(choices *c, const ir_value *v) {
  ir_node *n = v ? v->producer : NULL;
  if (!n || c->deciding[n->id]) return REED_OK;
  c->deciding[n->id] = true;
  return VEC_PUSH(&c->pending, n) ? REED_OK : diag_no_memory(c->m->diagnosis, "the products that decide choices");
}

static reed_status count_ids(void *context, ir_node *n) {
  choices *c = context;
  if (n->id >= c->n_ids) c->n_ids = n->id + 1;
  return VEC_PUSH(&c->in_order, n) ? REED_OK : diag_no_memory(c->m->diagnosis, "the products that decide choices");
}

static reed_status find_choices(void *context, ir_node *n) {
  choices *c = context;
  reed_attrs attrs = ir_attrs(n);
  reed_status status = REED_OK;
  for (int32_t i = 0; i < n->n_inputs && status == REED_OK; i++)
    if (chooses(n->op) || op_reads_value(n->op, &attrs, i)) status = reach(c, n->inputs[i]);
  return status;
}

static reed_status follow(choices *c) {
  reed_status status = REED_OK;
  while (c->pending.n > 0 && status == REED_OK) {
    const ir_node *n = c->pending.items[--c->pending.n];
    if (op_has(n->op, OP_PROPERTY_PACKABLE) || op_has(n->op, REED_OP_EXTENTS_ONLY)) continue;
    for (int32_t i = 0; i < n->n_inputs && status == REED_OK; i++) status = reach(c, n->inputs[i]);
    for (int32_t r = 0; r < n->n_regions; r++)
      for (int32_t i = 0; i < n->regions[r]->n_results && status == REED_OK; i++)
        status = reach(c, n->regions[r]->results[i]);
  }
  return status;
}

/* Counts the products after each node: readers come after their operands in the order of nodes. */
static reed_status count_after(choices *c) {
  c->after = ir_alloc(c->m, ((size_t)c->n_ids + 1) * sizeof *c->after);
  if (!c->after) return diag_no_memory(c->m->diagnosis, "the products that decide choices");
  for (int32_t i = 0; i < c->n_ids; i++) c->after[i] = -1;
  for (size_t k = c->in_order.n; k-- > 0;) {
    const ir_node *n = c->in_order.items[k];
    const reed_attrs attrs = ir_attrs(n);
    if (op_has(n->op, REED_OP_EXTENTS_ONLY)) continue;
    for (int32_t i = 0; i < n->n_inputs; i++) {
      const ir_node *of = n->inputs[i] ? n->inputs[i]->producer : NULL;
      const bool chosen = chooses(n->op) || op_reads_value(n->op, &attrs, i);
      const int32_t after = chosen                ? 0
                            : c->after[n->id] < 0 ? -1
                                                  : c->after[n->id] + op_has(n->op, OP_PROPERTY_PACKABLE);
      if (of && after > c->after[of->id]) c->after[of->id] = after;
    }
  }
  return REED_OK;
}

reed_status choices_find(ir_module *m, choices *c) {
  *c = (choices){.m = m};
  reed_status status = ir_walk(m->main, true, count_ids, c);
  if (status != REED_OK) return status;
  c->deciding = ir_alloc(m, (size_t)c->n_ids + 1);
  if (!c->deciding) return diag_no_memory(m->diagnosis, "the products that decide choices");
  status = ir_walk(m->main, true, find_choices, c);
  if (status == REED_OK) status = follow(c);
  return status == REED_OK ? count_after(c) : status;
}

void choices_fini(choices *c) {
  VEC_FREE(&c->pending);
  VEC_FREE(&c->in_order);
}

bool choices_keep_f32(const choices *c, const ir_node *product) {
  const int32_t near = c->m->precision == REED_BF16 ? PRODUCTS_AFTER_BF16 : PRODUCTS_AFTER_F16;
  return c->deciding[product->id] || c->after[product->id] > near;
}

bool choices_narrow(reed_dtype precision, const packed_order *order) {
  return precision == REED_BF16 && (order->channels < NARROW || order->outputs < NARROW);
}
