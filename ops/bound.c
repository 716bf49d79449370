/* The rules of ops/bound.def, applied to numbers and to symbols alike: whether an operator may run at the bound of a
 * count, and which axis of its output then has the count. The rules themselves are the rows of bound.def. */
#include "ops/bound.h"

#include "ops/properties.h"

typedef enum bound_rule {
  BOUND_NEEDED = 1,
  BOUND_ELEMENTWISE,
  BOUND_GATHER,
  BOUND_GATHER_ND,
  BOUND_TRANSPOSE,
  BOUND_VIEW,
  BOUND_ROWS = 0x100
} bound_rule;

enum {
#define BOUND(name, rule) ROW_##name,
#define BOUND_FUSABLE(name, rule)
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
#define BOUND(name, rule) [OP_##name] = rule,
#define BOUND_FUSABLE(name, rule) [OP_##name] = rule,
#include "ops/bound.def"
};

static int rule_of(const reed_op *op) {
  op_id id = op_id_of(op);
  if (id == OP_COUNT) return BOUND_NEEDED;
  return rules[id] ? rules[id] : BOUND_ELEMENTWISE;
}

bool bound_may_pass(const reed_op *op, int32_t input) {
  int rule = rule_of(op);
  if (rule & BOUND_ROWS) return input < 8 && rule >> input & 1;
  if (rule == BOUND_GATHER_ND) return input == 1;
  if (rule == BOUND_VIEW || rule == BOUND_TRANSPOSE) return input == 0;
  return rule != BOUND_NEEDED;
}

typedef struct question {
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

static int32_t axis_of(const question *q, int rule, int32_t i) {
  const bound_operand *in = &q->inputs[i];
  if (rule & BOUND_ROWS) return in->axis == 0 ? 0 : -1;
  switch (rule) {
    case BOUND_ELEMENTWISE: return elementwise_axis(q, in);
    case BOUND_GATHER: return gather_axis(q, in, i);
    case BOUND_GATHER_ND: return gather_nd_axis(q, in);
    case BOUND_TRANSPOSE: return transpose_axis(q, in);
    case BOUND_VIEW: return view_axis(q, in);
    default: return -1;
  }
}

int32_t bound_output_axis(const reed_op *op, const reed_attrs *attrs, const bound_operand *inputs, int32_t n_inputs,
                          const bound_operand *output, bool (*equal)(void *context, reed_dim a, reed_dim b),
                          void *context) {
  question q = {attrs, inputs, output, n_inputs, equal, context};
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
