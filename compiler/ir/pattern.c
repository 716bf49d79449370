/* The matcher of patterns (pattern.h): a pattern is a tree, and each kind of its nodes has a function. Slots filled by
 * a failed attempt are restored before the next attempt. The patterns themselves are in the passes that use them. */
#include "compiler/ir/pattern.h"

#include <math.h>
#include <string.h>

typedef struct matching {
  ir_value **slots;
  int32_t n_slots;
} matching;

static bool match(matching *m, const pattern *p, ir_value *v);

ir_node *pattern_made_by(const ir_value *v, op_id op) {
  ir_node *n = v ? v->producer : NULL;
  return n && !n->dead && n->op == op_builtin(op) && n->outputs[0] == v ? n : NULL;
}

/* True when all elements of the constant, at least one, are the same number. */
static bool splat(const ir_value *v, double *out_number) {
  reed_desc d;
  if (!ir_is_constant(v) || !ir_desc(v, &d) || desc_elements(&d) < 1) return false;
  size_t bytes = reed_dtype_bytes(d.dtype);
  *out_number = reed_dtype_read(d.dtype, v->data);
  for (int64_t i = 1; i < desc_elements(&d); i++)
    if (reed_dtype_read(d.dtype, (const char *)v->data + (size_t)i * bytes) != *out_number) return false;
  return true;
}

/* True when x is the number, up to two roundings of a float dtype; other dtypes must match exactly. f64 is compared
 * like f32, because constants of f64 were often written down in f32. */
static bool is_number(reed_dtype dtype, double x, double number) {
  double unit = dtype == REED_F16                        ? 0x1p-10
                : dtype == REED_BF16                     ? 0x1p-7
                : dtype == REED_F32 || dtype == REED_F64 ? 0x1p-23
                                                         : 0;
  return x == number || fabs(x - number) <= unit * fabs(number);
}

bool pattern_number(const ir_value *v, double *out_number) {
  reed_desc d;
  return v && ir_desc(v, &d) && desc_elements(&d) == 1 && splat(v, out_number);
}

/* ---- views ---- */

/* True when the Transpose keeps the order of all extents that may differ from 1. */
static bool keeps_order(const ir_node *n) {
  reed_attrs attrs = ir_attrs(n);
  int64_t n_perm, last = -1;
  const int64_t *perm = reed_attrs_ints(&attrs, "perm", &n_perm);
  const ir_type *t = &n->inputs[0]->type;
  if (t->rank < 0 || (perm && n_perm != t->rank)) return false;
  for (int32_t i = 0; i < t->rank; i++) {
    int64_t from = perm ? perm[i] : t->rank - 1 - i;
    if (from < 0 || from >= t->rank) return false;
    if (t->dims[from] == 1) continue;
    if (from < last) return false;
    last = from;
  }
  return true;
}

static bool splits_nothing(const ir_node *n) { return n->n_outputs == 1; }

/* True when the Expand only adds extents of 1 in front. */
static bool repeats_nothing(const ir_node *n) {
  const ir_type *from = &n->inputs[0]->type, *to = &n->outputs[0]->type;
  int32_t more = to->rank - from->rank;
  if (from->rank < 0 || more < 0) return false;
  for (int32_t i = 0; i < to->rank; i++)
    if (!symbols_assume_equal(n->graph->module->symbols, to->dims[i], i < more ? 1 : from->dims[i - more]))
      return false;
  return true;
}

/* True when the Gather's axis has one element, which is taken once. */
static bool takes_all(const ir_node *n) {
  reed_attrs attrs = ir_attrs(n);
  int64_t axis = op_attr_int(&attrs, "axis");
  const ir_type *data = &n->inputs[0]->type;
  reed_desc index;
  if (axis < 0) axis += data->rank;
  return axis >= 0 && axis < data->rank && data->dims[axis] == 1 && ir_desc(n->inputs[1], &index) &&
         desc_elements(&index) == 1;
}

ir_value *pattern_viewed(const ir_value *v) {
  static const op_id views[] = {OP_Identity, OP_Reshape, OP_Squeeze, OP_Unsqueeze, OP_Flatten};
  for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
    const ir_node *n = pattern_made_by(v, views[i]);
    if (n) return n->inputs[0];
  }
  static const struct {
    op_id op;
    bool (*is_view)(const ir_node *n);
  } sometimes[] = {
      {OP_Split, splits_nothing}, {OP_Transpose, keeps_order}, {OP_Expand, repeats_nothing}, {OP_Gather, takes_all}};
  for (size_t i = 0; i < sizeof sometimes / sizeof *sometimes; i++) {
    const ir_node *n = pattern_made_by(v, sometimes[i].op);
    if (n) return sometimes[i].is_view(n) ? n->inputs[0] : NULL;
  }
  return NULL;
}

static bool match_views(matching *m, const pattern *p, ir_value *v) {
  ir_value *before[PATTERN_SLOTS];
  memcpy(before, m->slots, (size_t)m->n_slots * sizeof *before);
  for (; v; v = pattern_viewed(v)) {
    if (match(m, p->parts[0], v)) return true;
    memcpy(m->slots, before, (size_t)m->n_slots * sizeof *before);
  }
  return false;
}

static ir_value *root(ir_value *v) {
  for (ir_value *behind = v; behind; behind = pattern_viewed(v)) v = behind;
  return v;
}

/* ---- the other kinds ---- */

static bool match_as(matching *m, const pattern *p, ir_value *v) {
  if (p->slot >= m->n_slots) return false;
  ir_value **slot = &m->slots[p->slot];
  if (*slot && *slot != v) return false;
  if (!match(m, p->parts[0], v)) return false;
  *slot = v;
  return true;
}

static bool match_op(matching *m, const pattern *p, ir_value *v) {
  const ir_node *n = pattern_made_by(v, p->op);
  if (!n) return false;
  for (int32_t i = 0; i < PATTERN_PARTS; i++)
    if (p->parts[i] && !match(m, p->parts[i], i < n->n_inputs ? n->inputs[i] : NULL)) return false;
  return true;
}

static bool match_pair(matching *m, const pattern *p, ir_value *v) {
  const ir_node *n = pattern_made_by(v, p->op);
  if (!n || n->n_inputs != 2) return false;
  ir_value *before[PATTERN_SLOTS];
  memcpy(before, m->slots, (size_t)m->n_slots * sizeof *before);
  for (int k = 0; k < 2; k++) {
    if (match(m, p->parts[0], n->inputs[k]) && match(m, p->parts[1], n->inputs[1 - k])) return true;
    memcpy(m->slots, before, (size_t)m->n_slots * sizeof *before);
  }
  return false;
}

static bool match_either(matching *m, const pattern *p, ir_value *v) {
  ir_value *before[PATTERN_SLOTS];
  memcpy(before, m->slots, (size_t)m->n_slots * sizeof *before);
  for (int32_t i = 0; i < PATTERN_PARTS && p->parts[i]; i++) {
    if (match(m, p->parts[i], v)) return true;
    memcpy(m->slots, before, (size_t)m->n_slots * sizeof *before);
  }
  return false;
}

static bool match_fill(matching *m, const pattern *p, ir_value *v) {
  const ir_node *n = pattern_made_by(v, OP_ConstantOfShape);
  if (!n) return false;
  reed_attrs attrs = ir_attrs(n);
  const reed_attr *value = reed_attrs_find(&attrs, "value");
  return reed_dtype_read(value->desc.dtype, value->data) == p->number && match(m, p->parts[0], n->inputs[0]);
}

static bool attribute_fits(const pattern *p, const ir_value *v) {
  if (!v->producer) return false;
  reed_attrs attrs = ir_attrs(v->producer);
  const reed_attr *attr = reed_attrs_find(&attrs, p->attr);
  if (!attr) return false;
  if (p->kind == PATTERN_INT) return attr->type == REED_ATTR_INT && (double)attr->i == p->number;
  if (p->kind == PATTERN_FLOAT) return attr->type == REED_ATTR_FLOAT && is_number(REED_F32, attr->f, p->number);
  return attr->type == REED_ATTR_STRING && strcmp(attr->s, p->text) == 0;
}

static bool match(matching *m, const pattern *p, ir_value *v) {
  double number;
  if (!v) return p->kind == PATTERN_ABSENT || (p->kind == PATTERN_EITHER && match_either(m, p, v));
  switch (p->kind) {
    case PATTERN_ABSENT: return false;
    case PATTERN_ANY: return true;
    case PATTERN_CONSTANT: return ir_is_constant(v);
    case PATTERN_NUMBER: return splat(v, &number) && is_number(v->type.dtype, number, p->number);
    case PATTERN_AS: return match_as(m, p, v);
    case PATTERN_OP: return match_op(m, p, v);
    case PATTERN_PAIR: return match_pair(m, p, v);
    case PATTERN_EITHER: return match_either(m, p, v);
    case PATTERN_VIEWS: return match_views(m, p, v);
    case PATTERN_ROOT: return match(m, p->parts[0], root(v));
    case PATTERN_FILL: return match_fill(m, p, v);
    case PATTERN_ONCE: return v->n_uses == 1 && match(m, p->parts[0], v);
    case PATTERN_INT:
    case PATTERN_FLOAT:
    case PATTERN_TEXT: return attribute_fits(p, v) && match(m, p->parts[0], v);
  }
  return false;
}

bool pattern_match(const pattern *p, ir_value *v, ir_value **out_slots, int32_t n_slots) {
  if (n_slots > PATTERN_SLOTS) return false;
  for (int32_t i = 0; i < n_slots; i++) out_slots[i] = NULL;
  matching m = {out_slots, n_slots};
  return match(&m, p, v);
}

static bool is_true(const ir_value *v) {
  double number;
  return !v || (pattern_number(v, &number) && number != 0);
}

bool pattern_loops(const ir_module *m, const ir_node *loop, reed_dim turns) {
  const ir_graph *body = loop->regions[0];
  const ir_value *told = loop->inputs[0];
  if (!is_true(loop->n_inputs > 1 ? loop->inputs[1] : NULL)) return false;
  if (body->results[0] != body->params[1] && !is_true(body->results[0])) return false;
  return told && told->elements && told->n_elements == 1 && symbols_assume_equal(m->symbols, told->elements[0], turns);
}
