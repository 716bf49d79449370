/* The rules of ops/bound.def, applied to numbers and to symbols alike: whether an operator may run at the bound of a
 * count, and which axis of its output then has the count. The rules themselves are the rows of bound.def. */
#include "ops/bound.h"

#include "ops/packed.h"
#include "ops/properties.h"

typedef enum bound_rule {
  BOUND_NEEDED = 1,
  BOUND_ELEMENTWISE,
  BOUND_GATHER,
  BOUND_GATHER_ND,
  BOUND_TRANSPOSE,
  BOUND_VIEW,
  BOUND_BEFORE,
  BOUND_CONCAT,
  BOUND_SLICE,
  BOUND_REDUCE,
  BOUND_MATMUL,
  BOUND_GEMM,
  BOUND_ROWS = 0x100
} bound_rule;

enum {
#define BOUND(name, rule, reason) ROW_##name,
#define BOUND_FUSABLE(name, rule, reason)
#include "ops/bound.def"
  N_ROWS
};

/* The number of FUSABLE operators, as a sum of op.def's properties. */
enum {
  N_FUSABLE = 0
#define OP(name, shape, kernel, class, alias, properties, ...) +(((properties)&FUSABLE) != 0)
#include "ops/op.def"
};
_Static_assert((int)N_ROWS + (int)N_FUSABLE == (int)OP_COUNT,
               "an operator that is not FUSABLE has no row in ops/bound.def");

static const uint16_t rules[OP_COUNT] = {
#define BOUND(name, rule, reason) [OP_##name] = rule,
#define BOUND_FUSABLE(name, rule, reason) [OP_##name] = rule,
#include "ops/bound.def"
};

static const char *const reasons[OP_COUNT] = {
#define BOUND(name, rule, reason) [OP_##name] = reason,
#define BOUND_FUSABLE(name, rule, reason) [OP_##name] = reason,
#include "ops/bound.def"
};

const char *bound_reason(const reed_op *op) {
  op_id id = op_id_of(op);
  if (id == OP_COUNT) return "it is a custom operator";
  return reasons[id] ? reasons[id] : "another operand has an extent of its own along the counted axis";
}

static int rule_of(const reed_op *op) {
  op_id id = op_id_of(op);
  if (id == OP_COUNT) return BOUND_NEEDED;
  return rules[id] ? rules[id] : BOUND_ELEMENTWISE;
}

bool bound_may_pass(const reed_op *op, int32_t input) {
  int rule = rule_of(op);
  if (rule & BOUND_ROWS) return input < 8 && rule >> input & 1;
  switch (rule) {
    case BOUND_GATHER_ND: return input == 1;
    case BOUND_VIEW:
    case BOUND_TRANSPOSE:
    case BOUND_BEFORE:
    case BOUND_SLICE:
    case BOUND_REDUCE: return input == 0;
    case BOUND_GEMM: return input != 1;
    default: return rule != BOUND_NEEDED;
  }
}

typedef struct question {
  const reed_op *op;
  const reed_attrs *attrs;
  const bound_operand *inputs, *output;
  int32_t n_inputs;
  bool (*equal)(void *context, reed_dim a, reed_dim b);
  void *context;
} question;

static bool same(const question *q, reed_dim a, reed_dim b) { return q->equal ? q->equal(q->context, a, b) : a == b; }

static bool only_ones(const question *q, const bound_operand *o, int32_t n) {
  for (int32_t i = 0; i < n; i++)
    if (!same(q, o->dims[i], 1)) return false;
  return true;
}

/* The other operands must have extent 1 along this axis, or the same count. */
static int32_t elementwise_axis(const question *q, const bound_operand *in) {
  int32_t from_right = in->rank - in->axis;
  for (int32_t i = 0; i < q->n_inputs; i++) {
    const bound_operand *other = &q->inputs[i];
    int32_t axis = other->rank - from_right;
    if (other->rank < 0 || axis < 0) continue;
    if (other->counter ? other->axis != axis : !same(q, other->dims[axis], 1)) return -1;
  }
  return q->output->rank - from_right;
}

static int32_t gather_axis(const question *q, const bound_operand *in, int32_t input) {
  int64_t axis = op_attr_int(q->attrs, "axis");
  int32_t n_indices = q->inputs[1].rank;
  if (n_indices < 0 || q->inputs[0].rank < 0) return -1;
  if (axis < 0) axis += q->inputs[0].rank;
  if (input == 1) return (int32_t)axis + in->axis;
  if (in->axis == axis) return -1;
  return in->axis < axis ? in->axis : in->axis + n_indices - 1;
}

static int32_t gather_nd_axis(const question *q, const bound_operand *in) {
  if (op_attr_int(q->attrs, "batch_dims") != 0 || in->axis == in->rank - 1) return -1;
  return in->axis;
}

static int32_t transpose_axis(const question *q, const bound_operand *in) {
  int64_t n;
  const int64_t *perm = reed_attrs_ints(q->attrs, "perm", &n);
  if (!perm) return in->rank - 1 - in->axis;
  for (int32_t i = 0; i < n; i++)
    if (perm[i] == in->axis) return i;
  return -1;
}

static int32_t view_axis(const question *q, const bound_operand *in) {
  if (!only_ones(q, in, in->axis)) return -1;
  for (int32_t i = 0; i < q->output->rank; i++) {
    if (same(q, q->output->dims[i], in->dims[in->axis]) && !same(q, in->dims[in->axis], 1)) return i;
    if (!same(q, q->output->dims[i], 1)) return -1;
  }
  return -1;
}

/* The attribute `axis` of the call, counted from the front. */
static int64_t attribute_axis(const question *q, int32_t rank) {
  int64_t axis = op_attr_int(q->attrs, "axis");
  return axis < 0 ? axis + rank : axis;
}

static int32_t before_axis(const question *q, const bound_operand *in) {
  return in->axis < attribute_axis(q, in->rank) ? in->axis : -1;
}

static int32_t concat_axis(const question *q, const bound_operand *in) {
  for (int32_t i = 0; i < q->n_inputs; i++)
    if (!q->inputs[i].counter) return -1;
  return before_axis(q, in);
}

/* The least axis that the operand's values name; -1: they are not known. *out_has: `axis` is named. */
static int64_t least_named(const bound_operand *o, int32_t rank, int32_t axis, bool *out_has) {
  int64_t least = INT64_MAX;
  *out_has = false;
  if (!o->values || (o->dtype != REED_I64 && o->dtype != REED_I32)) return -1;
  for (int64_t i = 0; i < o->n_values; i++) {
    int64_t named = o->dtype == REED_I64 ? ((const int64_t *)o->values)[i] : ((const int32_t *)o->values)[i];
    if (named < 0) named += rank;
    *out_has |= named == axis;
    if (named < least) least = named;
  }
  return least;
}

/* Without axes the starts are those of the first axes. */
static int32_t slice_axis(const question *q, const bound_operand *in) {
  bool named = true;
  if (q->n_inputs < 4 || q->inputs[3].rank < 0)
    return q->n_inputs > 1 && q->inputs[1].values && in->axis >= q->inputs[1].n_values ? in->axis : -1;
  return least_named(&q->inputs[3], in->rank, in->axis, &named) >= 0 && !named ? in->axis : -1;
}

static int32_t reduce_axis(const question *q, const bound_operand *in) {
  bool named;
  if (q->n_inputs < 2 || q->inputs[1].rank < 0 || q->inputs[1].n_values == 0 || !only_ones(q, in, in->axis)) return -1;
  return least_named(&q->inputs[1], in->rank, in->axis, &named) > in->axis ? in->axis : -1;
}

static int32_t matmul_axis(const question *q, const bound_operand *in, int32_t input) {
  const bound_operand *a = &q->inputs[0], *out = q->output;
  const int32_t b_rank = packed_is(q->op, q->attrs) ? 2 : q->inputs[1].rank; /* packed weights are a list */
  if (a->rank < 2 || b_rank < 1) return -1;
  const int32_t columns = b_rank > 1; /* 1: the output's last axis is that of B's columns */
  if (input == 0 && in->axis == in->rank - 1) return -1;
  if (input == 1 && in->axis >= b_rank - 2) return -1;
  const int32_t axis = in->axis + out->rank - in->rank + (input == 0 && !columns), rows = out->rank - 1 - columns;
  if (axis < 0 || axis > rows || !only_ones(q, out, axis)) return -1;
  for (int32_t i = 0; i < q->n_inputs; i++) {
    const bound_operand *o = &q->inputs[i];
    const int32_t rank = i == 1 ? b_rank : o->rank;
    if (rank < 0 || o->counter) continue;
    /* the operand's own axis at this place: A's rows, a batch axis, or the addend's */
    const int32_t own = axis - (out->rank - rank) - (i == 0 && !columns);
    if (own >= 0 && (i != 1 || own < b_rank - 2) && !same(q, o->dims[own], 1)) return -1;
  }
  return axis;
}

static int32_t gemm_axis(const question *q, const bound_operand *in, int32_t input) {
  const bound_operand *c = q->n_inputs > 2 ? &q->inputs[2] : NULL;
  if (op_attr_int(q->attrs, "transA") != 0 || !q->inputs[0].counter || in->rank != 2 || in->axis != 0) return -1;
  if (input == 0 && c && c->rank == 2 && !c->counter && !same(q, c->dims[0], 1)) return -1;
  return 0;
}

static int32_t axis_of(const question *q, int rule, int32_t i) {
  const bound_operand *in = &q->inputs[i];
  if (rule & BOUND_ROWS) return in->axis == 0 ? 0 : -1;
  switch (rule) {
    case BOUND_ELEMENTWISE: return elementwise_axis(q, in);
    case BOUND_GATHER: return gather_axis(q, in, i);
    case BOUND_GATHER_ND: return gather_nd_axis(q, in);
    case BOUND_TRANSPOSE: return transpose_axis(q, in);
    case BOUND_VIEW: return view_axis(q, in);
    case BOUND_BEFORE: return before_axis(q, in);
    case BOUND_CONCAT: return concat_axis(q, in);
    case BOUND_SLICE: return slice_axis(q, in);
    case BOUND_REDUCE: return reduce_axis(q, in);
    case BOUND_MATMUL: return matmul_axis(q, in, i);
    case BOUND_GEMM: return gemm_axis(q, in, i);
    default: return -1;
  }
}

int32_t bound_output_axis(const reed_op *op, const reed_attrs *attrs, const bound_operand *inputs, int32_t n_inputs,
                          const bound_operand *output, bool (*equal)(void *context, reed_dim a, reed_dim b),
                          void *context) {
  question q = {op, attrs, inputs, output, n_inputs, equal, context};
  int rule = rule_of(op);
  int32_t found = -1;
  uint32_t counter = 0;
  for (int32_t i = 0; i < n_inputs; i++) {
    const bound_operand *in = &inputs[i];
    if (!in->counter) continue;
    if (!bound_may_pass(op, i) || (counter && in->counter != counter)) return -1;
    int32_t axis = output->rank < 0 ? -1 : axis_of(&q, rule, i);
    if (axis < 0 || axis >= output->rank || (found >= 0 && axis != found)) return -1;
    if (!same(&q, output->dims[axis], in->dims[in->axis])) return -1;
    counter = in->counter;
    found = axis;
  }
  /* With BOUND_ROWS an operand without a count is refused, because its number of rows would have to equal the count,
   * which the host does not know yet. */
  for (int32_t i = 0; rule & BOUND_ROWS && i < n_inputs; i++)
    if (rule >> i & 1 && inputs[i].rank > 0 && !inputs[i].counter) return -1;
  return found;
}
