/* Selects the best candidates of all classes at once. A detector takes each class's column of a matrix of scores, keeps
 * the rows above a threshold (Greater, NonZero), sorts the best k of these (TopK), takes the boxes of these rows, and
 * joins the classes' results by Concat. Each class has a count of its own then, which the host waits for, and kernels
 * of its own that read it. One NonMaxSuppression whose overlap threshold is infinite suppresses no box, so that it
 * gives, class by class, the best k boxes above the score threshold, in TopK's order: one count, and the rows of all
 * classes by one Gather. */
#include <math.h>
#include <string.h>

#include "compiler/ir/attempt.h"
#include "compiler/ir/integer_values.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

enum {
  CLASSES_LEAST = 2,
  ROWS_MOST = 1 << 18 /* of the selection, which has memory for k rows of each class */
};

enum { COLUMN, MATRIX, CLASS, LEAST, FINDER, KEPT, LIMIT, DATA, N_SLOTS };

/* The rows of a class: places at which its column is above the threshold. */
#define ROWS \
  P_ROOT(P_AS(FINDER, \
              P_OP(NonZero, P_OP(Greater, P_AS(COLUMN, P_OP(Gather, P_AS(MATRIX, P_ANY), P_AS(CLASS, P_CONSTANT))), \
                                 P_AS(LEAST, P_CONSTANT)))))
#define TAKEN(data) \
  P_AS(KEPT, P_EITHER(P_INT("axis", 0, P_OP(Gather, data, ROWS)), P_INT("batch_dims", 0, P_OP(GatherND, data, ROWS))))
static const pattern *const best_scores =
    P_INT("largest", 1, P_INT("sorted", 1, P_OP(TopK, TAKEN(P_AS(COLUMN, P_ANY)), P_AS(LIMIT, P_ANY))));
static const pattern *const best_rows = P_INT("axis", 0, P_OP(Gather, TAKEN(P_AS(DATA, P_ANY)), P_ANY));

/* One class of a detector. */
typedef struct part {
  ir_node *topk;
  const ir_value *finder;
  int64_t class; /* its column */
} part;

typedef struct joint {
  ir_node *concat;
  ir_value *data; /* of which the Concat has the best rows */
  ir_value *fill; /* or: an element for each class */
} joint;

typedef struct selecting {
  ir_module *m;
  VEC_OF(part) parts;
  VEC_OF(joint) joints; /* beside the Concat of the scores */
  ir_value *matrix, *boxes;
  ir_node *place; /* the first Concat, before which the selection stands */
  int32_t axis;   /* of the matrix: its classes */
  int64_t limit;
  float least;
  int64_t n_joined;
  bool no_memory;
} selecting;

/* ---- matching ---- */

static int64_t axis_of(const ir_node *n, int32_t rank) {
  const reed_attrs attrs = ir_attrs(n);
  const int64_t axis = op_attr_int(&attrs, "axis");
  return axis < 0 ? axis + rank : axis;
}

static bool same_dim(const selecting *s, reed_dim a, reed_dim b) { return symbols_equal(s->m->symbols, a, b); }

/* True if v has the rows that the NonZero found, in their order. */
static bool has_rows(const selecting *s, const ir_value *v, const ir_value *finder) {
  return v->type.rank >= 1 && finder->type.rank == 2 && same_dim(s, v->type.dims[0], finder->type.dims[1]);
}

/* Takes the value, one class's best scores, as the next part. False: it is none, or another one's. */
static bool take_part(selecting *s, ir_value *v) {
  ir_value *slots[N_SLOTS];
  double class, least;
  if (v->type.rank != 1 || v->type.dtype != REED_F32 || !pattern_match(best_scores, v, slots, N_SLOTS)) return false;
  const ir_type *matrix = &slots[MATRIX]->type;
  const int64_t axis = matrix->rank == 2 ? axis_of(slots[COLUMN]->producer, 2) : -1;
  if (axis < 0 || axis > 1 || slots[COLUMN]->type.rank != 1 || !has_rows(s, slots[KEPT], slots[FINDER])) return false;
  if (!pattern_number(slots[CLASS], &class) || !pattern_number(slots[LEAST], &least)) return false;
  if (class < 0 && !symbol_is(matrix->dims[axis])) class += (double)matrix->dims[axis];
  int64_t n_limits;
  const reed_dim *limit = integer_values_of(s->m, slots[LIMIT], false, &n_limits);
  int64_t most = limit && n_limits == 1 ? integer_values_limit(s->m, limit[0], slots[KEPT]->type.dims[0]) : -1;
  if (most == INT64_MAX && !symbol_is(matrix->dims[1 - axis])) most = matrix->dims[1 - axis];
  if (class < 0 || most < 0) return false;
  if (!s->parts.n) {
    s->matrix = slots[MATRIX];
    s->axis = (int32_t)axis;
    s->limit = most;
    s->least = (float)least;
  }
  if (s->matrix != slots[MATRIX] || s->axis != axis || s->limit != most || s->least != (float)least) return false;
  s->no_memory |= !VEC_PUSH(&s->parts, ((part){v->producer, slots[FINDER], (int64_t) class}));
  return !s->no_memory;
}

/* True if the node joins as many tensors along axis 0 as there are parts (0: any number). */
static bool joins_parts(const ir_node *n, size_t n_parts) {
  if (n->op != op_builtin(OP_Concat) || n->n_inputs < CLASSES_LEAST || (n_parts && (size_t)n->n_inputs != n_parts))
    return false;
  const int32_t rank = n->inputs[0]->type.rank;
  return rank >= 1 && axis_of(n, rank) == 0;
}

/* The tensor of whose rows the Concat joins the best ones of each class; NULL: none. */
static ir_value *data_of(const selecting *s, const ir_node *concat) {
  ir_value *data = NULL, *slots[N_SLOTS];
  for (size_t k = 0; k < s->parts.n; k++) {
    const part *p = &s->parts.items[k];
    if (!pattern_match(best_rows, concat->inputs[k], slots, N_SLOTS) || slots[FINDER] != p->finder) return NULL;
    if (concat->inputs[k]->producer->inputs[1] != p->topk->outputs[1] || (data && data != slots[DATA])) return NULL;
    data = slots[DATA];
    if (!has_rows(s, slots[KEPT], p->finder)) return NULL;
  }
  return data;
}

/* Reads the one element of which v, a vector as long as the part's scores, consists. False: v is another value. */
static bool read_fill(const selecting *s, const ir_value *v, const part *p, void *out_element) {
  const ir_node *n = v->producer;
  if (v->type.rank != 1 || !n || !same_dim(s, v->type.dims[0], p->topk->outputs[0]->type.dims[0])) return false;
  const size_t bytes = reed_dtype_bytes(v->type.dtype);
  if (n->op == op_builtin(OP_ConstantOfShape)) {
    const reed_attrs attrs = ir_attrs(n);
    const reed_attr *given = reed_attrs_find(&attrs, "value");
    memset(out_element, 0, bytes);
    if (given) memcpy(out_element, given->data, bytes);
    return true;
  }
  reed_desc d;
  if (n->op != op_builtin(OP_Expand) || !ir_is_constant(n->inputs[0]) || !ir_desc(n->inputs[0], &d) ||
      desc_elements(&d) != 1)
    return false;
  memcpy(out_element, n->inputs[0]->data, bytes);
  return true;
}

/* The elements with which the Concat's parts are filled, as a constant of one element for each class; NULL: a part is
 * no such vector, or no memory. */
static ir_value *fill_of(selecting *s, const ir_node *concat) {
  const reed_dtype dtype = concat->outputs[0]->type.dtype;
  const reed_desc desc = {.dtype = dtype, .rank = 1, .dims = {(int64_t)s->parts.n}};
  if (dtype == REED_NONE || !reed_dtype_bytes(dtype)) return NULL;
  char *elements = ir_alloc_elements(s->m, (size_t)desc_bytes(&desc));
  for (size_t k = 0; elements && k < s->parts.n; k++)
    if (!read_fill(s, concat->inputs[k], &s->parts.items[k], elements + k * reed_dtype_bytes(dtype))) return NULL;
  ir_value *fill = elements ? ir_constant(s->m, &desc, elements, true, NULL) : NULL;
  s->no_memory |= !fill;
  return fill;
}

/* True for boxes of f32, one for each row of the matrix. */
static bool are_boxes(const selecting *s, const ir_value *v) {
  const ir_type *type = &v->type;
  return type->dtype == REED_F32 && type->rank == 2 && type->dims[1] == 4 &&
         symbols_assume_equal(s->m->symbols, type->dims[0], s->matrix->type.dims[1 - s->axis]);
}

/* True if v is there before the node: from a graph around it, or made by an earlier node. */
static bool is_before(const ir_value *v, const ir_node *place) {
  const ir_graph *g = place->graph;
  if (!v->producer || v->graph != g) return true;
  for (size_t i = 0; i < g->nodes.n && g->nodes.items[i] != place; i++)
    if (g->nodes.items[i] == v->producer) return true;
  return false;
}

/* Finds the Concats of the same parts in the graph. False: there are no boxes before the first of them, or others use
 * the best rows too. */
static bool find_joints(selecting *s, ir_node *scores) {
  const ir_graph *g = scores->graph;
  int32_t n_data = 0, n_fills = 0;
  s->boxes = NULL;
  s->place = NULL;
  for (size_t i = 0; i < g->nodes.n; i++) {
    ir_node *n = g->nodes.items[i];
    if (n == scores && !s->place) s->place = n;
    if (n == scores || n->dead || !joins_parts(n, s->parts.n)) continue;
    joint found = {.concat = n, .data = data_of(s, n)};
    if (!found.data && !(found.fill = fill_of(s, n))) continue;
    if (!s->place) s->place = n;
    s->no_memory |= !VEC_PUSH(&s->joints, found);
    if (s->no_memory) return false;
    n_data += found.data != NULL;
    n_fills += found.fill != NULL;
    if (found.data && !s->boxes && are_boxes(s, found.data)) s->boxes = found.data;
  }
  for (size_t k = 0; k < s->parts.n; k++) {
    const ir_node *topk = s->parts.items[k].topk;
    if (!topk->outputs[1] || topk->outputs[1]->n_uses != n_data || topk->outputs[0]->n_uses > 1 + n_fills) return false;
  }
  return s->boxes && is_before(s->boxes, s->place) && is_before(s->matrix, s->place);
}

/* ---- the selection ---- */

/* The output of a new node before `place`; NULL: no memory, or an operand is missing. */
static ir_value *make(ir_node *place, op_id op, ir_value *const *inputs, int32_t n) {
  for (int32_t i = 0; i < n; i++)
    if (!inputs[i]) return NULL;
  ir_node *made = ir_node_new(place->graph, place, op_builtin(op), NULL, inputs, n, NULL, 1);
  return made ? made->outputs[0] : NULL;
}

static ir_value *gather(ir_node *place, ir_value *data, ir_value *at, int64_t axis) {
  ir_value *v = make(place, OP_Gather, (ir_value *[]){data, at}, 2);
  return v && ir_set_attr_int(v->producer, "axis", axis) ? v : NULL;
}

static ir_value *with_axis_in_front(ir_module *m, ir_node *place, ir_value *v) {
  return make(place, OP_Unsqueeze, (ir_value *[]){v, ir_constant_i64(m, &(int64_t){0}, 1, NULL)}, 2);
}

/* The classes' scores as rows, in the order of the parts: [1, classes, rows of the matrix]. */
static ir_value *class_scores(selecting *s, ir_node *place) {
  ir_value *rows = s->matrix;
  if (s->axis == 1) {
    rows = make(place, OP_Transpose, &rows, 1);
    if (!rows || !ir_set_attr_ints(rows->producer, "perm", (int64_t[]){1, 0}, 2)) return NULL;
  }
  const int64_t n = (int64_t)s->parts.n, first = s->parts.items[0].class;
  const reed_dim extent = s->matrix->type.dims[s->axis];
  int64_t *classes = ir_alloc(s->m, (size_t)n * sizeof *classes);
  bool consecutive = !symbol_is(extent) && first + n <= extent; /* Gather tells of a class that is not there */
  for (int64_t k = 0; classes && k < n; k++) {
    classes[k] = s->parts.items[k].class;
    consecutive &= classes[k] == first + k;
  }
  if (!classes) return NULL;
  ir_value *at[3] = {ir_constant_i64(s->m, &first, 1, NULL), ir_constant_i64(s->m, &(int64_t){first + n}, 1, NULL),
                     ir_constant_i64(s->m, &(int64_t){0}, 1, NULL)};
  ir_value *taken = consecutive ? make(place, OP_Slice, (ir_value *[]){rows, at[0], at[1], at[2]}, 4)
                                : gather(place, rows, ir_constant_i64(s->m, classes, n, NULL), 0);
  return with_axis_in_front(s->m, place, taken);
}

static ir_value *number(ir_module *m, float x) {
  return ir_constant(m, &(reed_desc){.dtype = REED_F32, .rank = 1, .dims = {1}}, &x, false, NULL);
}

static ir_value *column(ir_module *m, ir_node *place, ir_value *selected, int64_t which) {
  return gather(place, selected, ir_constant(m, &(reed_desc){.dtype = REED_I64}, &which, false, NULL), 1);
}

static bool replace(ir_node *concat, ir_value *by) {
  if (!by) return false;
  ir_forward(concat->outputs[0], by);
  concat->dead = true;
  return true;
}

/* Puts the selection before the first Concat. False: no memory. */
static bool join(selecting *s, ir_node *scores) {
  ir_module *m = s->m;
  ir_node *place = s->place;
  ir_value *rows = class_scores(s, place);
  ir_value *selected =
      make(place, OP_NonMaxSuppression,
           (ir_value *[]){with_axis_in_front(m, place, s->boxes), rows, ir_constant_i64(m, &s->limit, 1, NULL),
                          number(m, INFINITY), number(m, s->least)},
           5);
  ir_value *classes = selected ? column(m, place, selected, 1) : NULL,
           *boxes = selected ? column(m, place, selected, 2) : NULL;
  if (!classes || !boxes) return false;
  for (size_t i = 0; i < s->joints.n; i++) {
    const joint *j = &s->joints.items[i];
    if (!replace(j->concat, gather(j->concat, j->data ? j->data : j->fill, j->data ? boxes : classes, 0))) return false;
  }
  s->n_joined++;
  return replace(scores, make(scores, OP_GatherND, (ir_value *[]){rows, selected}, 2));
}

static reed_status visit(void *context, ir_node *n) {
  selecting *s = context;
  if (!joins_parts(n, 0)) return REED_OK;
  s->parts.n = s->joints.n = 0;
  bool matches = true;
  for (int32_t k = 0; k < n->n_inputs && matches; k++) matches = take_part(s, n->inputs[k]);
  matches = matches && s->limit <= ROWS_MOST / n->n_inputs && find_joints(s, n);
  if (!s->no_memory && matches) s->no_memory = !join(s, n);
  return s->no_memory ? diag_no_memory(s->m->diagnosis, "candidates of classes") : REED_OK;
}

reed_status pass_class_candidates(ir_module *m, pass_report *report) {
  selecting s = {.m = m};
  ir_count_uses(m);
  /* With counts on the device no count is waited for, and a selection at its bound is as large as all classes' limits.
   */
  reed_status status = m->counts_on_device ? REED_OK : pass_try_each(m, visit, &s, &s.n_joined);
  VEC_FREE(&s.parts);
  VEC_FREE(&s.joints);
  ir_settle(m);
  ir_sweep(m);
  *report = (pass_report){.counts = {{"selections of all classes at once", s.n_joined}}};
  return status;
}
