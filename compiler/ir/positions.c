/* Evaluation of values as functions of their elements' places (positions.h): one rule for each operator. A value is a
 * number of places, constant + sum of factors[axis] * coordinate, or a band of the last two axes. The same number
 * everywhere is a band without bounds. Partial evaluation of few elements: integer_values.c. */
#include "compiler/ir/positions.h"

#include <math.h>
#include <string.h>

#include "compiler/ir/integer_values.h"
#include "compiler/ir/pattern.h"
#include "ops/op.h"

#define OPERATORS_MOST 300 /* visited for one question */
#define CONSTANT_MOST ((int64_t)1 << 24)

typedef struct places {
  bool counts;                    /* a number of places, otherwise a band */
  reed_dim first;                 /* counts: the element at coordinates 0 */
  int64_t factors[REED_MAX_RANK]; /* counts: by axis; 0 for axes of extent 1 */
  position_band band;
} places;

typedef struct evaluation {
  ir_module *m;
  int32_t n_visited;
} evaluation;

static bool evaluate(evaluation *e, ir_value *v, places *out);

static places number(double x) { return (places){.band = {.inside = x, .outside = x}}; }
static bool is_number(const places *p) { return !p->counts && !p->band.has_low && !p->band.has_high; }

/* A number that is an integer may be a number of places. */
static bool as_count(const places *p, places *out) {
  if (p->counts) return *out = *p, true;
  double x = p->band.inside;
  if (!is_number(p) || x != floor(x) || fabs(x) > 0x1p53) return false;
  *out = (places){.counts = true, .first = (int64_t)x};
  return true;
}

/* True when the axes of input i that p depends on are as long in the output: p is not broadcast along them. */
static bool spans(const evaluation *e, const ir_node *n, int32_t i, const places *p) {
  const ir_type *from = &n->inputs[i]->type, *to = &n->outputs[0]->type;
  if (is_number(p)) return true;
  if (from->rank < 0 || to->rank < from->rank) return false;
  for (int32_t d = 0; d < from->rank; d++) {
    bool matters = p->counts ? p->factors[d] != 0 : d >= from->rank - 2;
    if (matters && !symbols_equal(e->m->symbols, from->dims[d], to->dims[to->rank - from->rank + d])) return false;
  }
  return true;
}

/* ---- bands ---- */

bool position_band_true(ir_module *m, const position_band *b, position_band *out) {
  *out = *b;
  out->inside = 1;
  out->outside = 0;
  if (b->inside != 0 && (b->outside == 0 || (!b->has_low && !b->has_high))) return true;
  if (b->inside != 0 || b->outside == 0 || b->has_low == b->has_high) return false;
  out->has_low = b->has_high;
  out->has_high = b->has_low;
  out->low = b->has_high ? symbols_add(m->symbols, b->high, 1) : 0;
  out->high = b->has_low ? symbols_sub(m->symbols, b->low, 1) : 0;
  return true;
}

position_band position_band_both(ir_module *m, const position_band *a, const position_band *b) {
  position_band both = *a;
  both.has_low = a->has_low || b->has_low;
  both.has_high = a->has_high || b->has_high;
  both.low = !b->has_low ? a->low : !a->has_low ? b->low : symbols_max(m->symbols, a->low, b->low);
  both.high = !b->has_high ? a->high : !a->has_high ? b->high : symbols_min(m->symbols, a->high, b->high);
  return both;
}

static bool same_bounds(evaluation *e, const position_band *a, const position_band *b) {
  return a->has_low == b->has_low && a->has_high == b->has_high &&
         (!a->has_low || symbols_equal(e->m->symbols, a->low, b->low)) &&
         (!a->has_high || symbols_equal(e->m->symbols, a->high, b->high));
}

static bool scalar_result(op_id op, double a, double b, double *out) {
  switch ((int)op) {
    case OP_Add: *out = a + b; return true;
    case OP_Sub: *out = a - b; return true;
    case OP_Mul: *out = a * b; return true;
    case OP_Div: *out = a / b; return b != 0;
    case OP_Min: *out = a < b ? a : b; return true;
    case OP_Max: *out = a > b ? a : b; return true;
    case OP_And: *out = a != 0 && b != 0; return true;
    case OP_Or: *out = a != 0 || b != 0; return true;
    case OP_Xor: *out = (a != 0) != (b != 0); return true;
    case OP_Equal: *out = a == b; return true;
    case OP_Less: *out = a < b; return true;
    case OP_LessOrEqual: *out = a <= b; return true;
    case OP_Greater: *out = a > b; return true;
    case OP_GreaterOrEqual: *out = a >= b; return true;
    default: return false;
  }
}

/* And of two truths, and products with 0 outside: true where both are. Or of two truths with 0 inside: false where both
 * are. */
static bool combine_sets(evaluation *e, op_id op, const position_band *a, const position_band *b, places *out) {
  position_band first, second;
  if (op == OP_And || op == OP_Mul) {
    if (op == OP_Mul && !(isfinite(a->inside) && isfinite(a->outside) && isfinite(b->inside) && isfinite(b->outside)))
      return false;
    if (!position_band_true(e->m, a, &first) || !position_band_true(e->m, b, &second)) return false;
    double x = a->inside != 0 ? a->inside : a->outside, y = b->inside != 0 ? b->inside : b->outside;
    out->band = position_band_both(e->m, &first, &second);
    out->band.inside = op == OP_And ? 1 : x * y;
    return true;
  }
  if (op != OP_Or) return false;
  position_band not_a = *a, not_b = *b;
  not_a.inside = a->inside == 0, not_a.outside = a->outside == 0;
  not_b.inside = b->inside == 0, not_b.outside = b->outside == 0;
  if (!position_band_true(e->m, &not_a, &first) || !position_band_true(e->m, &not_b, &second)) return false;
  out->band = position_band_both(e->m, &first, &second);
  out->band.inside = 0;
  out->band.outside = 1;
  return true;
}

/* Two bands, element by element. */
static bool combine_bands(evaluation *e, op_id op, const position_band *a, const position_band *b, places *out) {
  bool a_plain = !a->has_low && !a->has_high, b_plain = !b->has_low && !b->has_high;
  *out = (places){.band = a_plain ? *b : *a};
  if (!a_plain && !b_plain && !same_bounds(e, a, b)) return combine_sets(e, op, a, b, out);
  return scalar_result(op, a->inside, b->inside, &out->band.inside) &&
         scalar_result(op, a_plain ? a->inside : a->outside, b_plain ? b->inside : b->outside, &out->band.outside);
}

/* ---- numbers of places ---- */

/* The axes of x from the right, as axes of a result of rank `rank`. */
static void align(const places *x, int32_t from, int32_t rank, int64_t *out_factors) {
  memset(out_factors, 0, REED_MAX_RANK * sizeof *out_factors);
  for (int32_t d = 0; d < from; d++) out_factors[rank - from + d] = x->factors[d];
}

/* a + sign * b; false for a symbol that has no sum. */
static bool add_counts(evaluation *e, const ir_node *n, const places *a, const places *b, int sign, places *out) {
  int32_t rank = n->outputs[0]->type.rank;
  int64_t of_a[REED_MAX_RANK], of_b[REED_MAX_RANK];
  if (rank < 0) return false;
  align(a, a->counts ? n->inputs[0]->type.rank : 0, rank, of_a);
  align(b, b->counts ? n->inputs[1]->type.rank : 0, rank, of_b);
  *out = (places){.counts = true};
  for (int32_t d = 0; d < rank; d++) out->factors[d] = of_a[d] + sign * of_b[d];
  out->first =
      sign > 0 ? symbols_add(e->m->symbols, a->first, b->first) : symbols_sub(e->m->symbols, a->first, b->first);
  return true;
}

/* The comparison of numbers of places that differ along the last two axes. */
static bool compare_counts(evaluation *e, const ir_node *n, const places *a, const places *b, places *out) {
  places d;
  int32_t rank = n->outputs[0]->type.rank;
  reed_symbols *s = e->m->symbols;
  if (rank < 2 || !add_counts(e, n, a, b, -1, &d)) return false;
  for (int32_t i = 0; i < rank - 2; i++)
    if (d.factors[i]) return false;
  int64_t column = d.factors[rank - 1];
  if (n->outputs[0]->type.dims[rank - 2] == 1) d.factors[rank - 2] = -column; /* there is row 0 alone */
  if ((column != 1 && column != -1) || d.factors[rank - 2] != -column) return false;
  /* d is first + column * (j - i); `less` says that small j - i are inside */
  bool less = n->op == op_builtin(OP_Less) || n->op == op_builtin(OP_LessOrEqual),
       equal = n->op == op_builtin(OP_Equal);
  bool strict = n->op == op_builtin(OP_Less) || n->op == op_builtin(OP_Greater);
  reed_dim zero = column > 0 ? symbols_sub(s, 0, d.first) : d.first; /* the j - i at which d is 0 */
  bool upper = less == (column > 0);
  *out = (places){.band = {.inside = 1, .has_high = equal || upper, .has_low = equal || !upper}};
  out->band.high = symbols_sub(s, zero, strict && upper ? 1 : 0);
  out->band.low = symbols_add(s, zero, strict && !upper ? 1 : 0);
  return true;
}

/* ---- constants ---- */

/* A matrix with the same number along every diagonal, and two numbers in all. */
static bool constant_band(const reed_desc *d, const void *data, places *out) {
  int64_t rows = d->dims[d->rank - 2], columns = d->dims[d->rank - 1], n = desc_elements(d);
  size_t bytes = reed_dtype_bytes(d->dtype);
  if (n != rows * columns || n > CONSTANT_MOST || rows < 2 || columns < 2) return false;
#define AT(i, j) reed_dtype_read(d->dtype, (const char *)data + (size_t)((i)*columns + (j)) * bytes)
  for (int64_t i = 1; i < rows; i++)
    for (int64_t j = 1; j < columns; j++) {
      double x = AT(i, j), before = AT(i - 1, j - 1);
      if (x != before && !(x != x && before != before)) return false;
    }
  /* along the diagonals from the lower left corner to the upper right one the number changes once or twice */
  int64_t changes[2], n_changes = 0;
  double numbers[3] = {AT(rows - 1, 0)};
  for (int64_t k = -(rows - 1) + 1; k < columns; k++) {
    double x = k < 0 ? AT(-k, 0) : AT(0, k);
    if (x == numbers[n_changes]) continue;
    if (n_changes == 2) return false;
    changes[n_changes++] = k;
    numbers[n_changes] = x;
  }
#undef AT
  if (n_changes == 0 || (n_changes == 2 && numbers[0] != numbers[2])) return false;
  *out = (places){.band = {.inside = numbers[n_changes - 1], .outside = numbers[n_changes == 1 ? 1 : 0]}};
  out->band.has_high = true;
  out->band.high = changes[n_changes - 1] - 1;
  out->band.has_low = n_changes == 2;
  out->band.low = n_changes == 2 ? changes[0] : 0;
  return true;
}

static bool constant_places(const ir_value *v, places *out) {
  reed_desc d;
  if (!ir_desc(v, &d) || desc_elements(&d) < 1 || desc_elements(&d) > CONSTANT_MOST) return false;
  size_t bytes = reed_dtype_bytes(d.dtype);
  double first = reed_dtype_read(d.dtype, v->data);
  bool same = true, ascending = first == floor(first) && fabs(first) < 0x1p53;
  int32_t axis = -1, n_axes = 0;
  for (int32_t i = 0; i < d.rank; i++)
    if (d.dims[i] != 1) axis = i, n_axes++;
  for (int64_t i = 1; i < desc_elements(&d) && (same || ascending); i++) {
    double x = reed_dtype_read(d.dtype, (const char *)v->data + (size_t)i * bytes);
    same = same && x == first;
    ascending = ascending && x == first + (double)i;
  }
  if (same) return *out = number(first), true;
  if (ascending && n_axes == 1) {
    *out = (places){.counts = true, .first = (int64_t)first};
    out->factors[axis] = 1;
    return true;
  }
  return d.rank >= 2 && constant_band(&d, v->data, out);
}

/* ---- operators that move elements ---- */

/* The axes of x in a value with the same extents other than 1. */
static bool move_view(evaluation *e, const ir_node *n, places *x) {
  const ir_type *from = &n->inputs[0]->type, *to = &n->outputs[0]->type;
  int64_t factors[REED_MAX_RANK] = {0};
  int32_t k = 0;
  if (is_number(x)) return true;
  if (from->rank < 0 || to->rank < 0) return false;
  for (int32_t d = 0; d < from->rank; d++) {
    if (from->dims[d] == 1) continue;
    while (k < to->rank && to->dims[k] == 1) k++;
    if (k == to->rank || !symbols_equal(e->m->symbols, from->dims[d], to->dims[k])) return false;
    if (!x->counts && (from->rank - d <= 2) && from->rank - d != to->rank - k) return false;
    factors[k++] = x->factors[d];
  }
  for (; k < to->rank; k++)
    if (to->dims[k] != 1) return false;
  if (x->counts) memcpy(x->factors, factors, sizeof factors);
  else if (from->rank < 2 || to->rank < 2 || from->dims[from->rank - 1] == 1 ||
           (from->dims[from->rank - 2] == 1 && to->dims[to->rank - 2] != 1))
    return false; /* which of the two axes a number belongs to would be lost */
  return true;
}

static bool move_expand(evaluation *e, const ir_node *n, places *x) {
  const ir_type *from = &n->inputs[0]->type, *to = &n->outputs[0]->type;
  int64_t factors[REED_MAX_RANK];
  if (is_number(x)) return true;
  if (!spans(e, n, 0, x)) return false;
  align(x, from->rank, to->rank, factors);
  memcpy(x->factors, factors, sizeof factors);
  return true;
}

static bool move_transpose(const ir_node *n, places *x) {
  reed_attrs attrs = ir_attrs(n);
  int64_t n_perm, factors[REED_MAX_RANK] = {0};
  const int64_t *perm = reed_attrs_ints(&attrs, "perm", &n_perm);
  int32_t rank = n->inputs[0]->type.rank;
  if (is_number(x)) return true;
  if (rank < 0 || (perm && n_perm != rank)) return false;
  for (int32_t d = 0; d < rank; d++) {
    int64_t from = perm ? perm[d] : rank - 1 - d;
    if (from < 0 || from >= rank || (!x->counts && d >= rank - 2 && from != d)) return false;
    factors[d] = x->factors[from];
  }
  memcpy(x->factors, factors, sizeof factors);
  return true;
}

/* Coordinates of an axis begin at `start` instead of 0. */
static void shift(evaluation *e, places *x, int32_t rank, int32_t axis, reed_dim start) {
  reed_symbols *s = e->m->symbols;
  if (x->counts) {
    x->first = symbols_add(s, x->first, symbols_mul(s, start, x->factors[axis]));
  } else if (axis >= rank - 2) {
    reed_dim by = axis == rank - 1 ? symbols_sub(s, 0, start) : start; /* j + start - i = t: j - i = t - start */
    x->band.low = symbols_add(s, x->band.low, by);
    x->band.high = symbols_add(s, x->band.high, by);
  }
}

static bool move_slice(evaluation *e, const ir_node *n, places *x) {
  int64_t n_starts, n_axes, n_steps, rank = n->inputs[0]->type.rank;
  const reed_dim *starts = integer_values_of(e->m, n->inputs[1], false, &n_starts);
  const reed_dim *axes = n->n_inputs > 3 ? integer_values_of(e->m, n->inputs[3], false, &n_axes) : NULL;
  const reed_dim *steps = n->n_inputs > 4 ? integer_values_of(e->m, n->inputs[4], false, &n_steps) : NULL;
  if (is_number(x)) return true;
  if (rank < 0 || !starts || (n->n_inputs > 3 && n->inputs[3] && !axes) || (n->n_inputs > 4 && n->inputs[4] && !steps))
    return false;
  for (int64_t i = 0; i < n_starts; i++) {
    int64_t axis = axes ? axes[i] : i, low, high;
    if (symbol_is(axis)) return false;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || (steps && steps[i] != 1)) return false;
    reed_dim start = starts[i];
    if (!symbol_is(start) && start < 0) start = symbols_add(e->m->symbols, n->inputs[0]->type.dims[axis], start);
    symbols_range(e->m->symbols, start, &low, &high);
    if (low < 0) return false;
    shift(e, x, (int32_t)rank, (int32_t)axis, start);
  }
  return true;
}

/* Rows or columns by numbers of places that ascend one by one. */
static bool move_gather(evaluation *e, const ir_node *n, places *x) {
  places by, index;
  reed_attrs attrs = ir_attrs(n);
  int64_t axis = op_attr_int(&attrs, "axis"), rank = n->inputs[0]->type.rank;
  if (is_number(x)) return true;
  if (rank < 0 || n->inputs[1]->type.rank != 1 || !evaluate(e, n->inputs[1], &index) || !as_count(&index, &by))
    return false;
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return false;
  bool matters = x->counts ? x->factors[axis] != 0 : axis >= rank - 2;
  if (!matters) return true;
  if (by.factors[0] != 1) return false;
  shift(e, x, (int32_t)rank, (int32_t)axis, by.first);
  return true;
}

/* ---- the other operators ---- */

static bool evaluate_range(evaluation *e, const ir_node *n, places *out) {
  int64_t n_first, n_delta;
  const reed_dim *first = integer_values_of(e->m, n->inputs[0], false, &n_first),
                 *delta = integer_values_of(e->m, n->inputs[2], false, &n_delta);
  if (!first || !delta || n_first != 1 || n_delta != 1 || delta[0] != 1) return false;
  *out = (places){.counts = true, .first = first[0], .factors = {1}};
  return true;
}

static bool evaluate_cumsum(evaluation *e, const ir_node *n, places *out) {
  places x;
  reed_attrs attrs = ir_attrs(n);
  int64_t n_axis, rank = n->inputs[0]->type.rank;
  const reed_dim *axis = integer_values_of(e->m, n->inputs[1], false, &n_axis);
  if (!axis || n_axis != 1 || symbol_is(axis[0]) || rank < 1 || op_attr_int(&attrs, "reverse")) return false;
  int64_t at = axis[0] < 0 ? axis[0] + rank : axis[0];
  if (at < 0 || at >= rank || !evaluate(e, n->inputs[0], &x) || !is_number(&x) || x.band.inside != 1) return false;
  *out = (places){.counts = true, .first = op_attr_int(&attrs, "exclusive") ? 0 : 1};
  out->factors[at] = 1;
  return true;
}

static bool evaluate_trilu(evaluation *e, const ir_node *n, places *out) {
  places x;
  reed_attrs attrs = ir_attrs(n);
  int64_t n_k = 1;
  const reed_dim zero = 0, *k = &zero;
  if (n->n_inputs > 1 && n->inputs[1]) k = integer_values_of(e->m, n->inputs[1], false, &n_k);
  if (!k || n_k != 1 || !evaluate(e, n->inputs[0], &x) || x.counts) return false;
  bool upper = op_attr_int(&attrs, "upper") != 0;
  position_band kept = {.has_low = upper, .has_high = !upper, .low = k[0], .high = k[0], .inside = 1};
  *out = (places){.band = x.band};
  if (is_number(&x)) out->band = kept, out->band.inside = x.band.inside;
  else if (x.band.outside == 0) out->band = position_band_both(e->m, &x.band, &kept);
  else return false;
  return true;
}

static bool evaluate_where(evaluation *e, const ir_node *n, places *out) {
  places truth, x, y;
  if (!evaluate(e, n->inputs[0], &truth) || truth.counts || !evaluate(e, n->inputs[1], &x) || x.counts ||
      !evaluate(e, n->inputs[2], &y) || y.counts)
    return false;
  if (!spans(e, n, 0, &truth) || !spans(e, n, 1, &x) || !spans(e, n, 2, &y)) return false;
  if (is_number(&truth)) return *out = truth.band.inside != 0 ? x : y, true;
  const position_band *t = &truth.band;
  if ((!is_number(&x) && !same_bounds(e, t, &x.band)) || (!is_number(&y) && !same_bounds(e, t, &y.band))) return false;
  *out = truth;
  out->band.inside = t->inside != 0 ? x.band.inside : y.band.inside;
  out->band.outside = t->outside != 0 ? x.band.outside : y.band.outside;
  return true;
}

static bool evaluate_cast(evaluation *e, const ir_node *n, places *out) {
  reed_dtype to = n->outputs[0]->type.dtype;
  if (!evaluate(e, n->inputs[0], out)) return false;
  if (out->counts) return to != REED_BOOL;
  double *numbers[] = {&out->band.inside, &out->band.outside};
  bool floats = to == REED_F32 || to == REED_F64 || to == REED_F16 || to == REED_BF16;
  for (int i = 0; i < 2; i++) {
    double x = *numbers[i];
    uint64_t bits = 0;
    if (to == REED_BOOL) x = x != 0;
    else if (floats) reed_dtype_write(to, &bits, x), x = reed_dtype_read(to, &bits);
    else if (x != floor(x) || fabs(x) > 127) return false;
    *numbers[i] = x;
  }
  return true;
}

static bool evaluate_not(evaluation *e, const ir_node *n, places *out) {
  if (!evaluate(e, n->inputs[0], out) || out->counts) return false;
  out->band.inside = out->band.inside == 0;
  out->band.outside = out->band.outside == 0;
  return true;
}

static bool evaluate_binary(evaluation *e, const ir_node *n, places *out) {
  places a, b, x, y;
  op_id op = op_id_of(n->op);
  if (n->n_inputs != 2 || !evaluate(e, n->inputs[0], &a) || !evaluate(e, n->inputs[1], &b)) return false;
  if (!spans(e, n, 0, &a) || !spans(e, n, 1, &b)) return false;
  if (!a.counts && !b.counts) return combine_bands(e, op, &a.band, &b.band, out);
  if (!as_count(&a, &x) || !as_count(&b, &y)) return false;
  if (op == OP_Add || op == OP_Sub) return add_counts(e, n, &x, &y, op == OP_Add ? 1 : -1, out);
  bool compares =
      op == OP_Less || op == OP_LessOrEqual || op == OP_Greater || op == OP_GreaterOrEqual || op == OP_Equal;
  return compares && compare_counts(e, n, &x, &y, out);
}

/* The elements that partial evaluation knows: one number, or numbers that ascend along the only axis. */
static bool known_elements(evaluation *e, ir_value *v, places *out) {
  int64_t n;
  const reed_dim *elements = integer_values_of(e->m, v, false, &n);
  int32_t axis = -1, n_axes = 0;
  if (!elements || n < 1 || v->type.rank < 0) return false;
  for (int32_t i = 0; i < v->type.rank; i++)
    if (v->type.dims[i] != 1) axis = i, n_axes++;
  for (int64_t i = 1; i < n; i++)
    if (!symbols_equal(e->m->symbols, elements[i], symbols_add(e->m->symbols, elements[0], i))) return false;
  if (n > 1 && n_axes != 1) return false;
  if (n == 1 && !symbol_is(elements[0])) return *out = number((double)elements[0]), true;
  *out = (places){.counts = true, .first = elements[0]};
  if (axis >= 0) out->factors[axis] = 1;
  return true;
}

typedef bool (*rule)(evaluation *e, const ir_node *n, places *out);

static const struct {
  op_id op;
  rule rule;
} rules[] = {
    {OP_Range, evaluate_range},    {OP_CumSum, evaluate_cumsum},
    {OP_Trilu, evaluate_trilu},    {OP_Where, evaluate_where},
    {OP_Cast, evaluate_cast},      {OP_Not, evaluate_not},
    {OP_Add, evaluate_binary},     {OP_Sub, evaluate_binary},
    {OP_Mul, evaluate_binary},     {OP_Div, evaluate_binary},
    {OP_Min, evaluate_binary},     {OP_Max, evaluate_binary},
    {OP_And, evaluate_binary},     {OP_Or, evaluate_binary},
    {OP_Xor, evaluate_binary},     {OP_Equal, evaluate_binary},
    {OP_Less, evaluate_binary},    {OP_LessOrEqual, evaluate_binary},
    {OP_Greater, evaluate_binary}, {OP_GreaterOrEqual, evaluate_binary},
};

static bool evaluate_node(evaluation *e, const ir_node *n, places *out) {
  op_id op = op_id_of(n->op);
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (rules[i].op == op) return rules[i].rule(e, n, out);
  if (op == OP_ConstantOfShape) {
    reed_attrs attrs = ir_attrs(n);
    const reed_attr *value = reed_attrs_find(&attrs, "value");
    return *out = number(reed_dtype_read(value->desc.dtype, value->data)), true;
  }
  bool view = op == OP_Reshape || op == OP_Unsqueeze || op == OP_Squeeze || op == OP_Flatten || op == OP_Identity;
  if (!view && op != OP_Expand && op != OP_Transpose && op != OP_Slice && op != OP_Gather) return false;
  if (!evaluate(e, n->inputs[0], out)) return false;
  return view                 ? move_view(e, n, out)
         : op == OP_Expand    ? move_expand(e, n, out)
         : op == OP_Transpose ? move_transpose(n, out)
         : op == OP_Slice     ? move_slice(e, n, out)
                              : move_gather(e, n, out);
}

static bool evaluate(evaluation *e, ir_value *v, places *out) {
  if (!v || ++e->n_visited > OPERATORS_MOST) return false;
  if (ir_is_constant(v)) return constant_places(v, out);
  if (known_elements(e, v, out)) return true;
  const ir_node *n = v->producer;
  if (!n || n->dead || n->outputs[0] != v || !evaluate_node(e, n, out)) return false;
  for (int32_t d = 0; out->counts && d < v->type.rank; d++)
    if (v->type.dims[d] == 1) out->factors[d] = 0;
  return true;
}

bool position_band_of(ir_module *m, ir_value *v, position_band *out_band) {
  evaluation e = {.m = m};
  places p;
  if (!evaluate(&e, v, &p) || p.counts) return false;
  *out_band = p.band;
  return true;
}

bool position_ramp_of(ir_module *m, ir_value *v, reed_dim *out_first) {
  evaluation e = {.m = m};
  places p;
  if (v->type.rank != 1 || !evaluate(&e, v, &p) || !p.counts || p.factors[0] != 1) return false;
  *out_first = p.first;
  return true;
}
