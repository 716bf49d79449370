/* The rules of ops/bound.def, applied to numbers and to symbols alike: whether an operator may run at the bound of a
 * count, and which axis of its output then has the count. The rules themselves are the rows of bound.def. */
#include "ops/bound.h"

#include <string.h>

#include "base/desc.h"
#include "ops/packed.h"
#include "ops/properties.h"

typedef enum bound_rule {
  BOUND_NEEDED = 1,
  BOUND_ELEMENTWISE,
  BOUND_GATHER,
  BOUND_GATHER_ND,
  BOUND_GATHER_ELEMENTS,
  BOUND_SCATTER_ELEMENTS,
  BOUND_SCATTER_ND,
  BOUND_SCAN,
  BOUND_UNIQUE,
  BOUND_ONE_HOT,
  BOUND_MATRICES,
  BOUND_SEQUENCES,
  BOUND_TRANSPOSE,
  BOUND_VIEW,
  BOUND_BEFORE,
  BOUND_CONCAT,
  BOUND_SLICE,
  BOUND_REDUCE,
  BOUND_MATMUL,
  BOUND_GEMM,
  BOUND_SPLIT,
  BOUND_PAD,
  BOUND_NMS,
  BOUND_ALL,
  BOUND_TOPK,
  BOUND_ROTARY,
  BOUND_EXPAND,
  BOUND_TILE,
  BOUND_COMPRESS,
  BOUND_ROWS = 0x100,
  BOUND_EACH = 0x200,
  BOUND_OWN = 0x400
} bound_rule;

enum {
#define BOUND(name, rule, reason) ROW_##name,
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
#include "ops/bound.def"
};

static const char *const reasons[OP_COUNT] = {
#define BOUND(name, rule, reason) [OP_##name] = reason,
#include "ops/bound.def"
};

const char *bound_reason(const reed_op *op) {
  op_id id = op_id_of(op);
  if (id == OP_COUNT) return "it is a custom operator";
  return reasons[id] ? reasons[id] : "another operand has an extent of its own along the counted axis";
}

const char *bound_kernel_reason(const reed_op *op) {
  const op_id id = op_id_of(op);
  return id != OP_COUNT && rules[id] == BOUND_REDUCE
             ? "the order in which the accelerator's kernel sums follows the number of rows, which the host tells it"
             : "the accelerator's kernel takes the count from the host";
}

static int rule_of(const reed_op *op) {
  op_id id = op_id_of(op);
  if (id == OP_COUNT) return BOUND_NEEDED;
  return rules[id] ? rules[id] & ~BOUND_EACH : BOUND_ELEMENTWISE;
}

bool bound_may_pass(const reed_op *op, int32_t input) {
  int rule = rule_of(op);
  if (rule & BOUND_ROWS) return input < 8 && rule >> input & 1;
  switch (rule) {
    case BOUND_NEEDED: return false;
    case BOUND_ELEMENTWISE:
    case BOUND_GATHER:
    case BOUND_CONCAT:
    case BOUND_MATMUL: return true;
    case BOUND_GATHER_ND: return input == 1;
    case BOUND_ROTARY: return input < 4;
    case BOUND_SCATTER_ELEMENTS:
    case BOUND_SCATTER_ND: return input < 3;
    case BOUND_GATHER_ELEMENTS:
    case BOUND_COMPRESS:
    case BOUND_SEQUENCES: return input < 2;
    case BOUND_NMS: return input < 2 || input == 5 || input == 6;
    case BOUND_GEMM: return input != 1;
    default: return input == 0;
  }
}

bool bound_may_give(const reed_op *op, int32_t input) { return rule_of(op) != BOUND_SCATTER_ND || input == 0; }

typedef struct question {
  const reed_op *op;
  const reed_attrs *attrs;
  const bound_operand *inputs, *output;
  int32_t n_inputs;
  const bound_dims *of;
  bool reports;  /* the answer: the kernel reports a count of its own */
  bool joins;    /* the answer: this count is made of several counts */
  bool apart;    /* the answer: its axis is one of other outputs than output 0, which op.def bounds */
  uint32_t rows; /* the answer: of each counted row of the input the output has so many */
} question;

/* The answer for a count that does not reach the output: the input's rows are only pointed at. */
enum { ABSORBED = -2 };

static bool same(const question *q, reed_dim a, reed_dim b) {
  return q->of ? q->of->equal(q->of->context, a, b) : a == b;
}

/* The product of the dims from `axis` to before `end`; -1: one is no number. */
static int64_t number_between(const question *q, const bound_operand *o, int32_t axis, int32_t end) {
  int64_t n = 1;
  for (int32_t i = axis; i < end; i++)
    if ((q->of && !q->of->known(q->of->context, o->dims[i])) || __builtin_mul_overflow(n, o->dims[i], &n)) return -1;
  return n;
}

static bool only_ones(const question *q, const bound_operand *o, int32_t n) {
  for (int32_t i = 0; i < n; i++)
    if (!same(q, o->dims[i], 1)) return false;
  return true;
}

static bool same_count(const bound_operand *a, const bound_operand *b) {
  return a->counter == b->counter && a->factor == b->factor;
}

/* The other operands must have extent 1 along this axis, or the same count. */
static int32_t elementwise_axis(const question *q, const bound_operand *in) {
  int32_t from_right = in->rank - in->axis;
  for (int32_t i = 0; i < q->n_inputs; i++) {
    const bound_operand *other = &q->inputs[i];
    int32_t axis = other->rank - from_right;
    if (other->rank < 0 || axis < 0) continue;
    if (other->counter ? other->axis != axis || !same_count(other, in) : !same(q, other->dims[axis], 1)) return -1;
  }
  return q->output->rank - from_right;
}

static int32_t gather_axis(const question *q, const bound_operand *in, int32_t input) {
  int64_t axis = op_attr_int(q->attrs, "axis");
  int32_t n_indices = q->inputs[1].rank;
  if (n_indices < 0 || q->inputs[0].rank < 0) return -1;
  if (axis < 0) axis += q->inputs[0].rank;
  if (input == 1) return (int32_t)axis + in->axis;
  if (in->axis == axis) return q->inputs[1].counter && only_ones(q, in, in->axis) ? ABSORBED : -1;
  return in->axis < axis ? in->axis : in->axis + n_indices - 1;
}

static int32_t gather_nd_axis(const question *q, const bound_operand *in) {
  if (op_attr_int(q->attrs, "batch_dims") != 0 || in->axis == in->rank - 1) return -1;
  return in->axis;
}

/* The attribute `axis` of the call, counted from the front. */
static int64_t attribute_axis(const question *q, int32_t rank) {
  int64_t axis = op_attr_int(q->attrs, "axis");
  return axis < 0 ? axis + rank : axis;
}

/* The host compares the extents of indices and data, so it must know that these have one count where only the former
 * may be smaller. */
static int32_t gather_elements_axis(const question *q, const bound_operand *in, int32_t input) {
  const bound_operand *data = &q->inputs[0], *indices = &q->inputs[1];
  int64_t axis = op_attr_int(q->attrs, "axis");
  if (axis < 0) axis += in->rank;
  if (!indices->counter || data->rank < 0 || !only_ones(q, in, in->axis)) return -1;
  if (in->axis == axis) return input == 1 && !data->counter ? in->axis : -1;
  return data->counter && data->axis == indices->axis ? in->axis : -1;
}

/* The updates of a line stay in their line. */
static int32_t scatter_elements_axis(const question *q, const bound_operand *in) {
  for (int32_t i = 0; i < q->n_inputs; i++)
    if (!q->inputs[i].counter) return -1;
  return in->axis != attribute_axis(q, in->rank) && only_ones(q, in, in->axis) ? in->axis : -1;
}

/* Of the data only components of an index may be counted, because a slot has a number of elements of the host's. */
static int32_t scatter_nd_axis(const question *q, const bound_operand *in, int32_t input) {
  const bound_operand *indices = &q->inputs[1], *updates = &q->inputs[2];
  if (input == 0) {
    const int64_t components = indices->rank > 0 ? number_between(q, indices, indices->rank - 1, indices->rank) : -1;
    return in->axis < components && only_ones(q, in, in->axis) ? in->axis : -1;
  }
  return indices->counter && updates->counter && same_count(indices, updates) && indices->axis == updates->axis &&
                 indices->axis < indices->rank - 1
             ? ABSORBED
             : -1;
}

/* A slice's place in the groups: the output that has an element for each slice has its extents along axis 0. */
static int32_t unique_axis(question *q, const bound_operand *in) {
  q->apart = true;
  if (reed_attrs_find(q->attrs, "axis")) return in->axis == attribute_axis(q, in->rank) ? 0 : -1;
  return only_ones(q, in, in->axis) && number_between(q, in, in->axis + 1, in->rank) == 1 ? 0 : -1;
}

/* All sequences have one length of the time axis, which is the other one. */
static int32_t sequences_axis(const question *q, const bound_operand *in) {
  const bool rows = in->axis == 0 && q->inputs[0].counter && q->inputs[1].counter;
  return rows && op_attr_int(q->attrs, "batch_axis") == 0 ? 0 : -1;
}

/* With ids the caches are a table. Without them they have rows of their own for each batch, or the same for all. */
static int32_t rotary_axis(const question *q) {
  const bound_operand *x = &q->inputs[0];
  const bool ids = q->n_inputs > 3 && q->inputs[3].rank >= 0, batch = x->axis == 0;
  if (!x->counter || (!batch && x->axis != x->rank - 2)) return -1;
  for (int32_t i = 1; i < q->n_inputs; i++) {
    const bound_operand *o = &q->inputs[i];
    if (o->rank < 0) continue;
    const bool alike = ids == (i == 3), shared = !ids && batch && o->rank == 3 && same(q, o->dims[0], 1);
    if (alike && !shared ? !o->counter || o->axis != !batch : o->counter != 0) return -1;
  }
  return x->axis;
}

static int32_t transpose_axis(const question *q, const bound_operand *in) {
  int64_t n;
  const int64_t *perm = reed_attrs_ints(q->attrs, "perm", &n);
  if (!perm) return in->rank - 1 - in->axis;
  for (int32_t i = 0; i < n; i++)
    if (perm[i] == in->axis) return i;
  return -1;
}

/* The counted axis is joined with numbers behind it: each row becomes as many rows. The axes behind it have other
 * numbers then. */
static int32_t joined_axis(question *q, const bound_operand *in) {
  const bound_operand *out = q->output;
  int32_t i = 0;
  while (i < out->rank && same(q, out->dims[i], 1)) i++;
  if (i == out->rank) return -1;
  const int64_t before = number_between(q, in, in->axis + 1, in->rank),
                after = number_between(q, out, i + 1, out->rank);
  const int64_t rows = before > 0 && after > 0 && before % after == 0 ? before / after : 0;
  if (rows < 1 || rows > INT32_MAX / (int64_t)in->factor) return -1;
  q->rows = (uint32_t)rows;
  return i;
}

static int32_t view_axis(question *q, const bound_operand *in) {
  const int64_t before = number_between(q, in, 0, in->axis);
  int64_t passed = 1;
  for (int32_t i = 0; before >= 0 && i < q->output->rank && passed >= 0; i++) {
    if (passed == before && same(q, q->output->dims[i], in->dims[in->axis]) && !same(q, in->dims[in->axis], 1))
      return i;
    passed = number_between(q, q->output, 0, i + 1);
  }
  return only_ones(q, in, in->axis) ? joined_axis(q, in) : -1;
}

static int32_t before_axis(const question *q, const bound_operand *in) {
  return in->axis < attribute_axis(q, in->rank) ? in->axis : -1;
}

static int32_t one_hot_axis(const question *q, const bound_operand *in) {
  return in->axis < attribute_axis(q, q->output->rank) ? in->axis : -1;
}

/* Rows of the counted axis joined to others, counted or not: the kernel reports their sum. */
static int32_t concat_axis(question *q, const bound_operand *in) {
  if (in->axis == attribute_axis(q, in->rank)) {
    q->reports = q->joins = true;
    return only_ones(q, in, in->axis) && only_ones(q, q->output, in->axis) ? in->axis : -1;
  }
  for (int32_t i = 0; i < q->n_inputs; i++)
    if (!q->inputs[i].counter) return -1;
  return before_axis(q, in);
}

static int64_t value_at(const void *values, reed_dtype dtype, int64_t i) {
  return dtype == REED_I32 ? ((const int32_t *)values)[i] : ((const int64_t *)values)[i];
}

/* The place of `axis` among the axes that a Slice or a Pad names (list: an operand of values); -1: it is not named.
 * Without a list the axes are the first ones. */
static int64_t place_of_axis(const void *list, reed_dtype dtype, int64_t n, int32_t rank, int32_t axis) {
  if (!list) return axis < n ? axis : -1;
  for (int64_t i = 0; i < n; i++) {
    const int64_t named = value_at(list, dtype, i);
    if ((named < 0 ? named + rank : named) == axis) return i;
  }
  return -1;
}

static bool is_index(reed_dtype dtype) { return dtype == REED_I32 || dtype == REED_I64; }

/* The least axis that the operand's values name; -1: they are not known. */
static int64_t least_named(const bound_operand *o, int32_t rank) {
  int64_t least = INT64_MAX;
  if (!o->values || !is_index(o->dtype)) return -1;
  for (int64_t i = 0; i < o->n_values; i++) {
    const int64_t named = value_at(o->values, o->dtype, i), axis = named < 0 ? named + rank : named;
    if (axis < least) least = axis;
  }
  return least;
}

/* An axis that is not cut keeps its count. Of an axis cut from a start counted from its begin on, with a positive step,
 * the kernel reports the count. */
static int32_t slice_axis(question *q, const bound_operand *in) {
  const bound_operand *axes = q->n_inputs > 3 && q->inputs[3].rank >= 0 ? &q->inputs[3] : NULL,
                      *steps = q->n_inputs > 4 && q->inputs[4].rank >= 0 ? &q->inputs[4] : NULL;
  if (q->n_inputs < 3) return -1;
  for (int32_t i = 1; i < q->n_inputs; i++)
    if (q->inputs[i].rank >= 0 && (!q->inputs[i].values || !is_index(q->inputs[i].dtype)))
      return i != 3 && axes && axes->values && is_index(axes->dtype) &&
                     place_of_axis(axes->values, axes->dtype, axes->n_values, in->rank, in->axis) < 0
                 ? in->axis
                 : -1;
  const bound_operand *starts = &q->inputs[1];
  const int64_t k =
      place_of_axis(axes ? axes->values : NULL, axes ? axes->dtype : REED_I64, starts->n_values, in->rank, in->axis);
  if (k < 0) return in->axis;
  if (value_at(starts->values, starts->dtype, k) < 0 || (steps && value_at(steps->values, steps->dtype, k) <= 0) ||
      !only_ones(q, in, in->axis) || !only_ones(q, q->output, in->axis))
    return -1;
  q->reports = true;
  return in->axis;
}

/* An axis without pads. Pads of an axis before it would put rows of the output behind each other. */
static int32_t pad_axis(const question *q, const bound_operand *in) {
  const bound_operand *pads = &q->inputs[1], *axes = q->n_inputs > 3 && q->inputs[3].rank >= 0 ? &q->inputs[3] : NULL;
  if (q->n_inputs < 2 || !pads->values || pads->dtype != REED_I64 ||
      (axes && (!axes->values || !is_index(axes->dtype))))
    return -1;
  const int64_t n = pads->n_values / 2,
                k = place_of_axis(axes ? axes->values : NULL, axes ? axes->dtype : REED_I64, n, in->rank, in->axis);
  const int64_t *values = pads->values;
  const bool first = only_ones(q, in, in->axis) && only_ones(q, q->output, in->axis);
  return (k < 0 || (values[k] == 0 && values[n + k] == 0)) && first ? in->axis : -1;
}

/* The values of a vector of indices at `i`, counted from its end where `i` is negative; 1: it has none there; -1: the
 * values are not known. */
static int64_t named_at(const bound_operand *o, int64_t i) {
  if (!o->values || !is_index(o->dtype)) return -1;
  return i < 0 ? 1 : value_at(o->values, o->dtype, i);
}

/* The shape is aligned from the right. */
static int32_t expand_axis(const question *q, const bound_operand *in) {
  if (q->n_inputs < 2 || named_at(&q->inputs[1], in->axis - in->rank + q->inputs[1].n_values) != 1) return -1;
  return in->axis + q->output->rank - in->rank;
}

static int32_t tile_axis(const question *q, const bound_operand *in) {
  return q->n_inputs > 1 && named_at(&q->inputs[1], in->axis) == 1 ? in->axis : -1;
}

/* Without the attribute `axis` the data are a vector. */
static int32_t compress_axis(question *q) {
  const bound_operand *in = &q->inputs[0];
  const bool axis = reed_attrs_find(q->attrs, "axis") != NULL;
  if (!in->counter || !q->inputs[1].counter || in->axis != (axis ? attribute_axis(q, in->rank) : in->rank - 1) ||
      (!axis && in->rank != 1))
    return -1;
  q->reports = true;
  return q->output->axis;
}

static int32_t split_axis(const question *q, const bound_operand *in) {
  return in->axis != attribute_axis(q, in->rank) && only_ones(q, in, in->axis) ? in->axis : -1;
}

/* Of the axis along which the first elements are taken, the kernel reports the count, if K is no more than a limit. */
static int32_t topk_axis(question *q, const bound_operand *in) {
  if (in->axis != attribute_axis(q, in->rank)) return before_axis(q, in);
  if (!op_attr_int(q->attrs, "at_most") || !only_ones(q, in, in->axis) || !only_ones(q, q->output, in->axis)) return -1;
  q->reports = true;
  return in->axis;
}

/* All operands with an element for each box have the count. */
static int32_t nms_axis(question *q, const bound_operand *in, int32_t input) {
  static const int8_t axes[] = {1, 2, -1, -1, -1, 1, 1};
  for (int32_t i = 0; i < q->n_inputs; i++)
    if (bound_may_pass(q->op, i) && q->inputs[i].rank >= 0 && !q->inputs[i].counter) return -1;
  q->reports = true;
  return in->axis == axes[input] ? q->output->axis : -1;
}

static int32_t reported_axis(question *q) {
  q->reports = true;
  return q->output->axis;
}

static int32_t reduce_axis(const question *q, const bound_operand *in) {
  if (q->n_inputs < 2 || q->inputs[1].rank < 0 || q->inputs[1].n_values == 0 || !only_ones(q, in, in->axis)) return -1;
  return least_named(&q->inputs[1], in->rank) > in->axis ? in->axis : -1;
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
  if (op_attr_int(q->attrs, "transA") != 0 || !q->inputs[0].counter || in->rank != 2 || in->axis != 0) return -1;
  for (int32_t i = 2; i < q->n_inputs && input == 0; i++) {
    const bound_operand *addend = &q->inputs[i];
    if (addend->rank == 2 && !addend->counter && !same(q, addend->dims[0], 1)) return -1;
  }
  return 0;
}

static int32_t axis_of(question *q, int rule, int32_t i) {
  const bound_operand *in = &q->inputs[i];
  if (rule & BOUND_OWN) q->reports = true;
  if (rule & BOUND_ROWS) return in->axis == 0 ? 0 : -1;
  switch (rule) {
    case BOUND_ELEMENTWISE: return elementwise_axis(q, in);
    case BOUND_GATHER: return gather_axis(q, in, i);
    case BOUND_GATHER_ND: return gather_nd_axis(q, in);
    case BOUND_GATHER_ELEMENTS: return gather_elements_axis(q, in, i);
    case BOUND_SCATTER_ELEMENTS: return scatter_elements_axis(q, in);
    case BOUND_SCATTER_ND: return scatter_nd_axis(q, in, i);
    case BOUND_SCAN: return in->axis;
    case BOUND_UNIQUE: return unique_axis(q, in);
    case BOUND_ONE_HOT: return one_hot_axis(q, in);
    case BOUND_MATRICES: return in->axis < in->rank - 2 ? in->axis : -1;
    case BOUND_SEQUENCES: return sequences_axis(q, in);
    case BOUND_TRANSPOSE: return transpose_axis(q, in);
    case BOUND_VIEW: return view_axis(q, in);
    case BOUND_BEFORE: return before_axis(q, in);
    case BOUND_CONCAT: return concat_axis(q, in);
    case BOUND_SLICE: return slice_axis(q, in);
    case BOUND_REDUCE: return reduce_axis(q, in);
    case BOUND_MATMUL: return matmul_axis(q, in, i);
    case BOUND_GEMM: return gemm_axis(q, in, i);
    case BOUND_SPLIT: return split_axis(q, in);
    case BOUND_PAD: return pad_axis(q, in);
    case BOUND_NMS: return nms_axis(q, in, i);
    case BOUND_ALL: return reported_axis(q);
    case BOUND_TOPK: return topk_axis(q, in);
    case BOUND_ROTARY: return rotary_axis(q);
    case BOUND_EXPAND: return expand_axis(q, in);
    case BOUND_TILE: return tile_axis(q, in);
    case BOUND_COMPRESS: return compress_axis(q);
    default: return -1;
  }
}

bool bound_has_outputs(const reed_op *op, int32_t n_outputs) {
  const op_id id = op_id_of(op);
  return n_outputs == 1 || (id != OP_COUNT && rules[id] & BOUND_EACH);
}

bound_outcome bound_apply(const reed_op *op, const reed_attrs *attrs, const bound_operand *inputs, int32_t n_inputs,
                          const bound_operand *output, const bound_dims *dims) {
  static const bound_outcome is_needed = {.axis = -1, .input = -1, .factor = 1};
  question q = {
      .op = op, .attrs = attrs, .inputs = inputs, .output = output, .n_inputs = n_inputs, .of = dims, .rows = 1};
  int rule = rule_of(op);
  bound_outcome found = is_needed;
  bool absorbed = false;
  for (int32_t i = 0; i < n_inputs; i++) {
    const bound_operand *in = &inputs[i];
    if (!in->counter) continue;
    if (!bound_may_pass(op, i)) return is_needed;
    int32_t axis = output->rank < 0 ? -1 : axis_of(&q, rule, i);
    absorbed |= axis == ABSORBED;
    if (axis == ABSORBED) continue;
    if (axis < 0 || axis >= output->rank || (found.axis >= 0 && axis != found.axis)) return is_needed;
    if (found.axis >= 0 && !q.joins && !same_count(in, &inputs[found.input])) return is_needed;
    if (!q.reports && !q.apart && q.rows == 1 && !same(&q, output->dims[axis], in->dims[in->axis])) return is_needed;
    if (found.axis < 0) found = (bound_outcome){.axis = axis, .input = i, .factor = in->factor * q.rows};
  }
  /* With BOUND_ROWS an operand without a count is refused, because its number of rows would have to equal the count,
   * which the host does not know yet. */
  for (int32_t i = 0; rule & BOUND_ROWS && i < n_inputs; i++)
    if (rule >> i & 1 && inputs[i].rank > 0 && !inputs[i].counter) return is_needed;
  if (q.reports) found.input = -1, found.factor = 1;
  found.exact = absorbed && found.axis < 0;
  return found;
}

bool bound_is_reported(const reed_kernel_call *call, int32_t i) {
  if (!bound_is_counted_room(call->output_rooms, i)) return false;
  for (int32_t k = 0; k < call->n_inputs; k++)
    if (bound_is_counted_room(call->input_rooms, k) && call->input_rooms[k].counted == call->output_rooms[i].counted)
      return false;
  return true;
}

bool bound_cut(const reed_kernel_call *call, int32_t axis, int64_t *out_start, int64_t *out_end, int64_t *out_step) {
  if (rule_of(call->op) != BOUND_SLICE) return false;
  const bool has_axes = call->n_inputs > 3 && call->inputs[3].dtype != REED_NONE,
             has_steps = call->n_inputs > 4 && call->inputs[4].dtype != REED_NONE;
  const int64_t k = place_of_axis(has_axes ? call->host_values[3] : NULL, has_axes ? call->inputs[3].dtype : REED_I64,
                                  desc_elements(&call->inputs[1]), call->inputs[0].rank, axis);
  if (k < 0) return false;
  *out_start = value_at(call->host_values[1], call->inputs[1].dtype, k);
  *out_end = value_at(call->host_values[2], call->inputs[2].dtype, k);
  *out_step = has_steps ? value_at(call->host_values[4], call->inputs[4].dtype, k) : 1;
  return true;
}

bool bound_allows_counts(const reed_op *op) {
  const int rule = rule_of(op);
  return rule == BOUND_CONCAT || rule == BOUND_GATHER;
}

bool bound_follows(const reed_op *op) {
  const int rule = rule_of(op);
  return rule == BOUND_CONCAT || rule == BOUND_SLICE || rule == BOUND_TOPK;
}

/* Start, end and step of a Slice along its counted axis; false: they are not known. */
static bool read_cut(const bound_report *r, int64_t cut[3]) {
  const bound_operand *o = r->inputs, *axes = r->n_inputs > 3 && o[3].rank >= 0 ? &o[3] : NULL,
                      *steps = r->n_inputs > 4 && o[4].rank >= 0 ? &o[4] : NULL;
  for (int32_t i = 1; i < r->n_inputs; i++)
    if (o[i].rank >= 0 && (!o[i].values || !is_index(o[i].dtype))) return false;
  const int64_t k =
      place_of_axis(axes ? axes->values : NULL, axes ? axes->dtype : REED_I64, o[1].n_values, o[0].rank, r->axis);
  if (k < 0) return false;
  cut[0] = value_at(o[1].values, o[1].dtype, k);
  cut[1] = value_at(o[2].values, o[2].dtype, k);
  cut[2] = steps ? value_at(steps->values, steps->dtype, k) : 1;
  return true;
}

bool bound_same_report(const bound_report *a, const bound_report *b, const bound_dims *dims) {
  const question q = {.of = dims};
  const int rule = rule_of(a->op);
  int64_t cuts[2][3];
  if (a->op != b->op || a->n_inputs != b->n_inputs) return false;
  if (rule == BOUND_SLICE)
    return same_count(&a->inputs[0], &b->inputs[0]) && read_cut(a, cuts[0]) && read_cut(b, cuts[1]) &&
           memcmp(cuts[0], cuts[1], sizeof cuts[0]) == 0;
  if (rule == BOUND_TOPK) {
    const bound_operand *k = &a->inputs[1], *other = &b->inputs[1];
    return same_count(&a->inputs[0], &b->inputs[0]) && k->values && other->values &&
           value_at(k->values, k->dtype, 0) == value_at(other->values, other->dtype, 0);
  }
  for (int32_t i = 0; rule == BOUND_CONCAT && i < a->n_inputs; i++) {
    const bound_operand *x = &a->inputs[i], *y = &b->inputs[i];
    if (!same_count(x, y) || (!x->counter && !same(&q, x->dims[a->axis], y->dims[b->axis]))) return false;
  }
  return rule == BOUND_CONCAT;
}

int64_t bound_reported(const reed_kernel_call *call, int32_t axis) {
  int64_t start, end, step;
  int64_t n = call->inputs[0].dims[axis];
  if (rule_of(call->op) == BOUND_CONCAT) {
    for (int32_t i = 1; i < call->n_inputs; i++) n += call->inputs[i].dims[axis];
    return n;
  }
  if (rule_of(call->op) == BOUND_TOPK) {
    const int64_t most = value_at(call->host_values[1], call->inputs[1].dtype, 0);
    return n < most ? n : most;
  }
  if (!bound_cut(call, axis, &start, &end, &step)) return n;
  if (end < 0) end = end < -n ? 0 : end + n;
  if (end > n) end = n;
  return start >= end ? 0 : (end - start - 1) / step + 1;
}
