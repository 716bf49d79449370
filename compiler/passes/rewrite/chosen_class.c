/* Computes only the chosen class's map of a head that computes a map for every class and then keeps, for each region,
 * the map of the region's class (torchvision's mask head). The 1x1 convolution that makes the maps of all classes
 * becomes one matrix product for each region: the class's row of the weights times the region's features. The work is
 * that of one class, and the tensor of all maps, which the choice would have to reorder, is not made.
 *
 * The choice is exported as a Gather by map numbers, region * classes + class. Classes must come from a constant,
 * because a class outside of 0..classes-1 would choose another region's map. */
#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

enum { FEATURES, WEIGHTS, BIAS, LOGITS, ACTIVE, FLAT, REGIONS, N_CLASSES, CLASSES, N_SLOTS };

#define NUMBERS \
  P_PAIR(Add, P_PAIR(Mul, P_AS(REGIONS, P_OP(Range, P_NUMBER(0), P_ANY, P_NUMBER(1))), P_AS(N_CLASSES, P_CONSTANT)), \
         P_AS(CLASSES, P_ANY))
#define MAPS \
  P_AS(LOGITS, P_OP(Conv, P_AS(FEATURES, P_ANY), P_AS(WEIGHTS, P_CONSTANT), P_EITHER(P_ABSENT, P_AS(BIAS, P_CONSTANT))))
static const pattern *const chosen =
    P_INT("axis", 0, P_OP(Gather, P_AS(FLAT, P_VIEWS(P_EITHER(P_AS(ACTIVE, P_OP(Sigmoid, MAPS)), MAPS))), NUMBERS));

typedef struct choosing {
  ir_module *m;
  int64_t n_chosen;
} choosing;

static bool all_are(const ir_node *n, const char *name, int64_t number) {
  int64_t count;
  reed_attrs attrs = ir_attrs(n);
  const int64_t *ints = reed_attrs_ints(&attrs, name, &count);
  for (int64_t i = 0; ints && i < count; i++)
    if (ints[i] != number) return false;
  return true;
}

/* True for a convolution that computes every pixel from the same pixel of its input, without a fused activation. */
static bool is_pointwise(const ir_node *conv, const ir_type *weights) {
  reed_attrs attrs = ir_attrs(conv);
  return conv->n_inputs <= 3 && weights->rank == 4 && weights->dims[2] == 1 && weights->dims[3] == 1 &&
         op_attr_int(&attrs, "group") == 1 && all_are(conv, "strides", 1) && all_are(conv, "pads", 0) &&
         !reed_attrs_find(&attrs, "activation");
}

static bool same_dim(const ir_module *m, reed_dim a, reed_dim b) { return symbols_assume_equal(m->symbols, a, b); }

/* Checks the types of the matched values: the maps are [regions, classes, rows, columns], all known except the regions;
 * the flat maps are those of region 0, then those of region 1, and so on; each region has a class. */
static bool agree(const ir_module *m, ir_value *const *slots) {
  const ir_type *maps = &slots[LOGITS]->type, *flat = &slots[FLAT]->type, *classes = &slots[CLASSES]->type,
                *regions = &slots[REGIONS]->type;
  if (maps->rank != 4 || slots[FEATURES]->type.rank != 4 ||
      !is_pointwise(slots[LOGITS]->producer, &slots[WEIGHTS]->type))
    return false;
  double n_classes;
  bool counted = pattern_number(slots[N_CLASSES], &n_classes) && n_classes == (double)slots[WEIGHTS]->type.dims[0];
  if (!counted || symbol_is(maps->dims[2]) || symbol_is(maps->dims[3]) || classes->rank != 1 || regions->rank != 1)
    return false;
  for (int32_t i = 1; i < flat->rank; i++)
    if (symbol_is(flat->dims[i])) return false;
  return flat->rank >= 2 &&
         same_dim(m, flat->dims[0], symbols_mul(m->symbols, maps->dims[0], slots[WEIGHTS]->type.dims[0])) &&
         same_dim(m, classes->dims[0], maps->dims[0]) && same_dim(m, regions->dims[0], maps->dims[0]);
}

/* The constant from which all elements of v are taken; NULL: it is not known. */
static const ir_value *source_of(const ir_value *v) {
  static const op_id taking[] = {OP_Gather,    OP_Slice,   OP_Expand,    OP_Reshape,  OP_Squeeze,
                                 OP_Unsqueeze, OP_Flatten, OP_Transpose, OP_Identity, OP_Tile};
  while (v && !ir_is_constant(v)) {
    const ir_node *n = v->producer;
    size_t i = 0, count = sizeof taking / sizeof *taking;
    while (n && i < count && n->op != op_builtin(taking[i])) i++;
    v = n && i < count ? n->inputs[0] : NULL;
  }
  return v;
}

/* True when all elements of v are in 0..n-1. */
static bool are_classes(const ir_value *v, int64_t n) {
  const ir_value *source = source_of(v);
  reed_desc d;
  if (!source || !ir_desc(source, &d) || (d.dtype != REED_I64 && d.dtype != REED_I32)) return false;
  for (int64_t i = 0; i < desc_elements(&d); i++) {
    double x = reed_dtype_read(d.dtype, (const char *)source->data + (size_t)i * reed_dtype_bytes(d.dtype));
    if (x < 0 || x >= (double)n) return false;
  }
  return true;
}

/* ---- the product ---- */

/* The output of a new node before n; NULL: no memory, or a needed input is NULL. */
static ir_value *make(ir_node *n, op_id op, ir_value *a, ir_value *b) {
  ir_value *inputs[] = {a, b};
  bool pair = op != OP_Transpose && op != OP_Sigmoid;
  ir_node *made =
      a && (b || !pair) ? ir_node_new(n->graph, n, op_builtin(op), NULL, inputs, pair ? 2 : 1, NULL, 1) : NULL;
  return made ? made->outputs[0] : NULL;
}

static ir_value *view(ir_node *n, ir_value *v, const int64_t *dims, int32_t rank) {
  return make(n, OP_Reshape, v, ir_constant_i64(n->graph->module, dims, rank, NULL));
}

/* [regions, pixels, features] * [regions, features, 1]: the features of a pixel stand together, as convolutions store
 * them. False: no memory. */
static bool replace(ir_node *n, ir_value *const *slots) {
  ir_module *m = n->graph->module;
  const ir_type *weights = &slots[WEIGHTS]->type, *maps = &slots[LOGITS]->type, *flat = &slots[FLAT]->type;
  int64_t depth = weights->dims[1], pixels = maps->dims[2] * maps->dims[3], result[REED_MAX_RANK] = {0};
  for (int32_t i = 1; i < flat->rank; i++) result[i] = flat->dims[i];
  ir_value *rows =
      make(n, OP_Gather, view(n, slots[WEIGHTS], (int64_t[]){weights->dims[0], depth, 1}, 3), slots[CLASSES]);
  ir_value *lines = view(n, slots[FEATURES], (int64_t[]){0, depth, pixels}, 3),
           *features = make(n, OP_Transpose, lines, NULL);
  if (!features || !ir_set_attr_ints(features->producer, "perm", (int64_t[]){0, 2, 1}, 3)) return false;
  lines->type =
      (ir_type){.dtype = maps->dtype,
                .rank = 3,
                .dims = {maps->dims[0], depth, pixels}}; /* set here because the layout pass reads the types */
  features->type = (ir_type){.dtype = maps->dtype, .rank = 3, .dims = {maps->dims[0], pixels, depth}};
  ir_value *map = make(n, OP_MatMul, features, rows);
  if (slots[BIAS])
    map = make(n, OP_Add, map,
               make(n, OP_Gather, view(n, slots[BIAS], (int64_t[]){weights->dims[0], 1, 1}, 3), slots[CLASSES]));
  if (slots[ACTIVE]) map = make(n, OP_Sigmoid, map, NULL);
  ir_value *shape = ir_constant_i64(m, result, flat->rank, NULL), *inputs[] = {map, shape};
  n->dead = true;
  return map && shape && ir_node_new(n->graph, n, op_builtin(OP_Reshape), n->name, inputs, 2, n->outputs, 1);
}

static reed_status visit(void *context, ir_node *n) {
  choosing *c = context;
  ir_value *slots[N_SLOTS];
  if (n->op != op_builtin(OP_Gather) || !pattern_match(chosen, n->outputs[0], slots, N_SLOTS) || !agree(c->m, slots))
    return REED_OK;
  if (!are_classes(slots[CLASSES], slots[WEIGHTS]->type.dims[0])) return REED_OK;
  if (!replace(n, slots)) return diag_no_memory(c->m->diagnosis, "chosen classes");
  c->n_chosen++;
  return REED_OK;
}

reed_status pass_chosen_class(ir_module *m, pass_report *report) {
  choosing c = {.m = m};
  reed_status status = pass_try_each(m, visit, &c, &c.n_chosen);
  ir_sweep(m);
  *report = (pass_report){.counts = {{"convolutions of all classes made products of one", c.n_chosen}}};
  return status;
}
