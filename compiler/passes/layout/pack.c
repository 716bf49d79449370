/* Packs constant weights of products: the module stores them in the order in which the host's kernels read them
 * (ops/packed.h); a matrix of one column of f32 stays plain. Weights are packed for products on the host, and for
 * products on an accelerator that reads packed weights. Weights that several products read in one order are packed
 * once; other readers keep the unpacked weights. Convolutions whose weights are read at several
 * extents are marked (SHARED_WEIGHTS_ATTR): those that read the same weights as others of other extents, as the heads
 * of a pyramid do, and those whose number of images is a count of results, as a detector's head for each box has. Their
 * largest maps take most of the time, so that what a kernel would keep for the small ones is memory for little, and
 * time in the first run that has them. The elements are moved while the module is written, so that no copy is held. */
#include "ops/packed.h"

#include <string.h>

#include "compiler/ir/pass.h"

/* Weights packed so far, and their readers. */
typedef struct packed_weights {
  ir_value *value;
  const ir_value *result; /* of the first reader */
  bool several_extents;   /* a reader's result has other extents, or the first one's number of images is a count */
} packed_weights;

typedef struct packing {
  ir_module *m;
  VEC_OF(packed_weights) packed;
  int64_t n_products, n_shared;
} packing;

static bool same_order(const packed_order *a, const packed_order *b) {
  return desc_equal(&a->plain, &b->plain) && a->small_groups == b->small_groups && a->pairs == b->pairs &&
         a->n_parts == b->n_parts && a->outputs == b->outputs && a->rows == b->rows && a->columns == b->columns &&
         a->channels == b->channels && a->w_output == b->w_output && a->w_channel == b->w_channel;
}

static bool same_extents(const ir_module *m, const ir_value *a, const ir_value *b) {
  if (!a || !b || a->type.rank < 0 || a->type.rank != b->type.rank) return false;
  for (int32_t i = 0; i < a->type.rank; i++)
    if (!symbols_equal_if_declared(m->symbols, a->type.dims[i], b->type.dims[i])) return false;
  return true;
}

/* True for a result [images, ...] whose number of images no declared dims give. */
static bool counts_images(const ir_module *m, const ir_value *y) {
  return y && y->type.rank > 0 && symbols_has_unknown(m->symbols, y->type.dims[0]);
}

/* The weights in this order, for a product with this result; NULL: no memory. */
static ir_value *packed_value(packing *p, const ir_value *weights, const packed_order *order, const ir_value *result) {
  for (size_t i = 0; i < p->packed.n; i++) {
    packed_weights *w = &p->packed.items[i];
    if (w->value->data != weights->data || !same_order(w->value->packed, order)) continue;
    if (!same_extents(p->m, w->result, result)) w->several_extents = true;
    return w->value;
  }
  reed_desc desc = packed_desc(order);
  ir_value *v = ir_constant(p->m, &desc, weights->data, true, weights->name);
  packed_order *kept = ir_alloc(p->m, sizeof *kept);
  packed_weights made = {v, result, counts_images(p->m, result)};
  if (!v || !kept || !VEC_PUSH(&p->packed, made)) return NULL;
  *kept = *order;
  v->packed = kept;
  return v;
}

/* True for a product on the host, or on a target whose capability list has the product with packed weights. */
static bool reads_packed(const ir_module *m, const ir_node *n) {
  if (n->n_outputs < 1 || !n->outputs[0] || n->outputs[0]->device == 0) return true;
  reed_attr packed[] = {{.name = PACKED_ATTR, .type = REED_ATTR_INTS}};
  reed_attrs attrs = {packed, 1};
  reed_dtype dtypes[2 * REED_MAX_OPERANDS];
  capability_call call = ir_call(n, &attrs, dtypes);
  return capability_has(m->targets, &call);
}

/* One column of f32 stays as it is: panels would read sixteen. */
static bool is_column(const ir_node *n, const packed_order *order) {
  const bool matrix = n->op == op_builtin(OP_MatMul) || n->op == op_builtin(OP_Gemm);
  return matrix && order->outputs == 1 && order->plain.dtype == REED_F32;
}

static reed_status visit(void *context, ir_node *n) {
  packing *p = context;
  reed_attrs attrs = ir_attrs(n);
  reed_desc plain;
  packed_order order;
  if (!reads_packed(p->m, n)) return REED_OK;
  ir_value *weights = n->n_inputs > 1 ? n->inputs[1] : NULL;
  if (!ir_is_constant(weights) || weights->packed || !ir_desc(weights, &plain) ||
      !packed_order_of(n->op, &attrs, &plain, &order) || is_column(n, &order))
    return REED_OK;
  ir_value *packed = packed_value(p, weights, &order, n->outputs[0]);
  if (!packed || !ir_set_attr_ints(n, PACKED_ATTR, plain.dims, plain.rank))
    return diag_no_memory(p->m->diagnosis, "packed weights");
  n->inputs[1] = packed;
  p->n_products++;
  return REED_OK;
}

static reed_status mark_shared(void *context, ir_node *n) {
  packing *p = context;
  if (n->op != op_builtin(OP_Conv) || n->n_inputs < 2 || !n->inputs[1]) return REED_OK;
  for (size_t i = 0; i < p->packed.n; i++) {
    const packed_weights *w = &p->packed.items[i];
    if (w->value != n->inputs[1] || !w->several_extents) continue;
    if (!ir_set_attr_int(n, SHARED_WEIGHTS_ATTR, 1)) return diag_no_memory(p->m->diagnosis, "packed weights");
    p->n_shared++;
  }
  return REED_OK;
}

reed_status pass_pack(ir_module *m, pass_report *report) {
  packing p = {.m = m};
  reed_status status = ir_walk(m->main, true, visit, &p);
  if (status == REED_OK) status = ir_walk(m->main, true, mark_shared, &p);
  *report = (pass_report){.counts = {{"products with packed weights", p.n_products},
                                     {"weights packed", (int64_t)p.packed.n},
                                     {"convolutions that read weights at several extents", p.n_shared}}};
  VEC_FREE(&p.packed);
  return status;
}
