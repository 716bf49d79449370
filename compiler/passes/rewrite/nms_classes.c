/* Replaces a suppression within classes that is exported as a suppression of moved boxes: class * (largest coordinate +
 * 1) is added to every coordinate, so that boxes of two classes never overlap. The replacement is one NonMaxSuppression
 * with class ids, which compares only boxes of one class. It compares them at their own coordinates, which the addition
 * rounds (to 1/128 of a pixel at class 90 of an image of 1333).
 *
 * Coordinates must not be negative, because a box that reaches below -1 is moved into the class before. */
#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/nonnegative.h"

enum { BOXES, OFFSETS, CLASSES, N_SLOTS };

#define STEP P_VIEWS(P_PAIR(Add, P_VIEWS(P_OP(ReduceMax, P_AS(BOXES, P_ANY), P_ABSENT)), P_NUMBER(1)))
#define OFFSET P_VIEWS(P_PAIR(Mul, P_VIEWS(P_OP(Cast, P_AS(CLASSES, P_ANY))), STEP))
static const pattern *const moved = P_VIEWS(P_PAIR(Add, P_AS(BOXES, P_ANY), P_AS(OFFSETS, OFFSET)));

#define NMS_CLASS_IDS 5 /* the index of the input */

typedef struct classing {
  ir_module *m;
  int64_t n_classed;
} classing;

/* True if the boxes are rows of four coordinates of one image, with an offset and a class for each row. */
static bool agree(const ir_module *m, const ir_node *nms, ir_value *const *slots) {
  const ir_type *all = &nms->inputs[0]->type, *boxes = &slots[BOXES]->type;
  const ir_type *offsets = &slots[OFFSETS]->type, *classes = &slots[CLASSES]->type;
  if (all->rank != 3 || all->dims[0] != 1 || boxes->rank != 2 || boxes->dims[1] != 4) return false;
  if (offsets->rank != 2 || offsets->dims[1] != 1 ||
      !symbols_assume_equal(m->symbols, offsets->dims[0], boxes->dims[0]))
    return false;
  if (classes->rank != 1 || !symbols_assume_equal(m->symbols, classes->dims[0], boxes->dims[0])) return false;
  return classes->dtype == REED_I64 || classes->dtype == REED_I32;
}

/* v with an axis for the one image in front, made before n; NULL: no memory. */
static ir_value *of_one_image(ir_node *n, ir_value *v) {
  ir_value *first = ir_constant_i64(n->graph->module, &(int64_t){0}, 1, NULL);
  ir_node *made =
      first ? ir_node_new(n->graph, n, op_builtin(OP_Unsqueeze), NULL, (ir_value *[]){v, first}, 2, NULL, 1) : NULL;
  return made ? made->outputs[0] : NULL;
}

/* The classes as int64 with an axis for the one image, made before n; NULL: no memory. */
static ir_value *class_ids(ir_node *n, ir_value *classes) {
  if (classes->type.dtype == REED_I64) return of_one_image(n, classes);
  ir_node *cast = ir_node_new(n->graph, n, op_builtin(OP_Cast), NULL, &classes, 1, NULL, 1);
  return cast && ir_set_attr_int(cast, "to", REED_I64) ? of_one_image(n, cast->outputs[0]) : NULL;
}

static reed_status visit(void *context, ir_node *n) {
  classing *c = context;
  ir_value *slots[N_SLOTS];
  if (n->op != op_builtin(OP_NonMaxSuppression) || n->n_inputs > NMS_CLASS_IDS) return REED_OK;
  reed_attrs attrs = ir_attrs(n);
  if (op_attr_int(&attrs, "center_point_box") || !pattern_match(moved, n->inputs[0], slots, N_SLOTS)) return REED_OK;
  if (!agree(c->m, n, slots) || !nonnegative_proven(c->m, slots[BOXES])) return REED_OK;
  ir_value *boxes = of_one_image(n, slots[BOXES]), *ids = class_ids(n, slots[CLASSES]);
  if (!boxes || !ids) return diag_no_memory(c->m->diagnosis, "class ids");
  n->inputs[0] = boxes;
  while (n->n_inputs < NMS_CLASS_IDS)
    if (!ir_add_input(n, NULL)) return diag_no_memory(c->m->diagnosis, "class ids");
  if (!ir_add_input(n, ids)) return diag_no_memory(c->m->diagnosis, "class ids");
  c->n_classed++;
  return REED_OK;
}

reed_status pass_nms_classes(ir_module *m, pass_report *report) {
  classing c = {.m = m};
  reed_status status = pass_try_each(m, visit, &c, &c.n_classed);
  *report = (pass_report){.counts = {{"NonMaxSuppressions given classes", c.n_classed}}};
  return status;
}
