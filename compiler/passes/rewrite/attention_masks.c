/* Folds masks of Attention that follow from places (compiler/ir/positions.h) into its attributes: a causal mask, with
 * the first query at the first key or the last query at the last key, and windows to both sides. Keys that no query of
 * a block may look at then cost nothing, and no mask of [queries, keys] is made. The rest of a mask, such as the one of
 * padding, stays.
 *
 * A mask is bool, or a number added: sums and conjunctions are taken apart. A number other than -inf stands for -inf
 * if it is LOW and the whole mask is a band that hides no query's keys altogether: such a query would otherwise get the
 * mean of all values. */
#include <math.h>

#include "base/desc.h"
#include "compiler/ir/attempt.h"
#include "compiler/ir/nonnegative.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/positions.h"

#define LOWEST -1e30  /* the sum of such a number and of any score is the number */
#define MODERATE 1e20 /* so is the sum with a number up to this one */
#define LOW -6e4      /* the lowest number of f16, to which exporters round; no score is as low */
#define REST_MOST 8
#define DEPTH_MOST 12

typedef struct folding {
  ir_module *m;
  ir_node *last; /* new nodes go in front of it */
  int64_t n_folded, n_whole;
} folding;

/* A summand that hides by a number other than -inf: keys outside of a band, and those of its conjuncts in the rest. */
typedef struct summand {
  ir_value *v;
  position_band band;
  double number;
  int32_t begin, end; /* its part of the rest */
} summand;

/* A mask taken apart. */
typedef struct taken_apart {
  int32_t n_bands;
  position_band band;          /* inside: shown */
  int32_t n_finite;            /* bands that hide by a number other than -inf */
  double number;               /* of the last one of them */
  summand first[2];            /* the first of them, if they are summands */
  int32_t n_always;            /* conjuncts that are always true */
  ir_value *rest[REST_MOST];   /* the conjuncts or summands that are no bands */
  ir_value *hidden[REST_MOST]; /* of a summand that is Where(rest, 0, hidden); NULL: the summand itself */
  bool negated[REST_MOST];     /* the mask has the rest's contrary */
  int32_t n_rest;
  reed_dim keys, queries; /* the extents of the first band, in the symbols in which the band is made */
  int64_t most_keys;      /* more keys than that would not fit to a table from which a band is cut; 0: there is none */
} taken_apart;

static ir_value *make(const folding *f, op_id op, ir_value *const *inputs, int32_t n) {
  ir_node *made = ir_node_new(f->last->graph, f->last, op_builtin(op), NULL, inputs, n, NULL, 1);
  return made ? made->outputs[0] : NULL;
}

static bool keep(taken_apart *t, ir_value *v, ir_value *hidden, bool negated) {
  if (t->n_rest == REST_MOST) return false;
  t->rest[t->n_rest] = v;
  t->negated[t->n_rest] = negated;
  t->hidden[t->n_rest++] = hidden;
  return true;
}

/* The band in the symbols of another one: bounds that have equal names are taken for equal. */
static position_band in_symbols_of(const folding *f, const position_band *other, position_band b) {
  if (other->has_low && b.has_low && symbols_assume_equal(f->m->symbols, other->low, b.low)) b.low = other->low;
  if (other->has_high && b.has_high && symbols_assume_equal(f->m->symbols, other->high, b.high)) b.high = other->high;
  return b;
}

static void meet(const folding *f, taken_apart *t, const position_band *band) {
  position_band b = t->n_bands ? in_symbols_of(f, &t->band, *band) : *band;
  t->band = t->n_bands++ ? position_band_both(f->m, &t->band, &b) : b;
}

static void note_number(taken_apart *t, double hidden) {
  if (hidden == -INFINITY) return;
  t->n_finite++;
  t->number = hidden;
}

/* Meets the band of a summand v, whose part of the rest is from `begin` on. */
static void meet_summand(const folding *f, taken_apart *t, ir_value *v, const position_band *band, double hidden,
                         int32_t begin) {
  if (hidden != -INFINITY && t->n_finite < 2) t->first[t->n_finite] = (summand){v, *band, hidden, begin, t->n_rest};
  note_number(t, hidden);
  meet(f, t, band);
}

static bool bounded(const position_band *b) { return b->has_low || b->has_high; }

/* True when the band's columns are those of the scores, `keys`: all of them, or as many as a table has at most.
 * *out_most becomes the table's columns. */
static bool spans_keys(const folding *f, reed_dim columns, reed_dim keys, int64_t *out_most) {
  reed_symbols *s = f->m->symbols;
  *out_most = 0;
  if (symbols_equal_if_declared(s, columns, keys)) return true;
  if (symbols_whole_of_part(s, keys, columns, out_most)) return !symbol_is(*out_most) && *out_most >= 2;
  return symbols_broadcast(s, keys, columns) == keys;
}

/* True when the band's rows are those of the scores, `queries`. Rows of a table from a place on reach as far as its
 * columns, `most`, if the table has no fewer rows. *out_rows: the rows in the symbols of the band. */
static bool spans_queries(const folding *f, reed_dim rows, reed_dim queries, reed_dim keys, int64_t most,
                          reed_dim *out_rows) {
  reed_symbols *s = f->m->symbols;
  reed_dim behind;
  int64_t low, high;
  *out_rows = rows;
  if (symbols_equal_if_declared(s, rows, queries)) return true;
  if (!most || !symbols_whole_of_part(s, queries, rows, &behind)) return false;
  reed_dim below = symbols_sub(s, behind, queries), beside = symbols_sub(s, most, keys);
  symbols_range(s, symbols_sub(s, below, beside), &low, &high);
  *out_rows = low > 0 ? queries : symbols_add(s, symbols_sub(s, keys, most), behind);
  return low >= 0 || symbols_assume_equal(s, below, beside);
}

/* True when the band's last two axes are those of the scores: it is not broadcast along them. The scores' extents are
 * those of the mask and of Q and K, in symbols of their own. A band may be cut from a table, as in GPT-Neo. */
static bool covers(const folding *f, const ir_value *v, const ir_value *mask, taken_apart *t) {
  int32_t r = v->type.rank, whole = mask->type.rank;
  const ir_type *q = &f->last->inputs[0]->type, *k = &f->last->inputs[1]->type;
  if (r < 2 || whole < 2) return false;
  const reed_dim keys[] = {k->dims[k->rank - 2], mask->type.dims[whole - 1]},
                 queries[] = {q->dims[q->rank - 2], mask->type.dims[whole - 2]};
  int64_t most;
  reed_dim rows;
  for (int i = 0; i < 2; i++)
    for (int l = 0; l < 2; l++) {
      if (!spans_keys(f, v->type.dims[r - 1], keys[i], &most)) continue;
      int64_t table = most ? most : symbols_limit_of(f->m->symbols, v->type.dims[r - 1]);
      if (!spans_queries(f, v->type.dims[r - 2], queries[l], keys[i], table, &rows)) continue;
      if (most && (!t->most_keys || t->most_keys > most)) t->most_keys = most;
      if (!t->n_bands) t->keys = most ? keys[i] : v->type.dims[r - 1], t->queries = rows;
      return true;
    }
  return false;
}

/* True for x >= 0 where x has no negative element: exporters write it for a mask that hides nothing by place. */
static bool always_true(const folding *f, ir_value *v) {
  double zero;
  const ir_node *wider = pattern_made_by(v, OP_Expand);
  const ir_node *n = pattern_made_by(wider ? wider->inputs[0] : v, OP_GreaterOrEqual);
  return n && ir_is_constant(n->inputs[1]) && pattern_number(n->inputs[1], &zero) && zero <= 0 &&
         nonnegative_proven(f->m, n->inputs[0]);
}

typedef struct condition {
  ir_value *v;
  bool negated; /* v hides instead of showing */
} condition;

/* The condition c of a comparison Where(c, a, b) < k, or of a Cast of the Where to bool, that is true for one of a and
 * b; *out_contrary: where c is false. NULL: v is no such comparison. Falcon compares its mask of numbers so, and MPT
 * takes its mask of numbers for truths. */
static ir_value *compared_choice(const ir_value *v, bool *out_contrary) {
  const ir_node *less = pattern_made_by(v, OP_Less), *compares = less ? less : pattern_made_by(v, OP_Cast);
  const ir_node *where = compares ? pattern_made_by(compares->inputs[0], OP_Where) : NULL;
  double limit;
  bool truths[2];
  if (!where || (less && (!ir_is_constant(less->inputs[1]) || !pattern_number(less->inputs[1], &limit)))) return NULL;
  for (int32_t k = 0; k < 2; k++) {
    double number;
    if (!ir_is_constant(where->inputs[1 + k]) || !pattern_number(where->inputs[1 + k], &number)) return NULL;
    truths[k] = less ? number < limit : number != 0;
  }
  *out_contrary = truths[1];
  return truths[0] == truths[1] ? NULL : where->inputs[0];
}

/* Takes a condition apart: its conjuncts that are bands, and the other conjuncts. hidden: in a mask of numbers, the
 * score of a hidden position. */
static bool take_truth(const folding *f, condition c, const ir_value *mask, ir_value *hidden, taken_apart *t,
                       int32_t depth) {
  position_band band, shown;
  if (!c.negated && always_true(f, c.v)) return t->n_always++, true;
  if (position_band_of(f->m, c.v, &band)) {
    if (c.negated) band.inside = band.inside == 0, band.outside = band.outside == 0;
    if (position_band_true(f->m, &band, &shown) && (!bounded(&shown) || covers(f, c.v, mask, t))) {
      if (bounded(&shown)) meet(f, t, &shown);
      else t->n_always++;
      return true;
    }
  }
  bool turned;
  ir_value *choice = depth < DEPTH_MOST ? compared_choice(c.v, &turned) : NULL;
  if (choice) return take_truth(f, (condition){choice, c.negated != turned}, mask, hidden, t, depth + 1);
  const ir_node *contrary = pattern_made_by(c.v, OP_Not), *both = pattern_made_by(c.v, c.negated ? OP_Or : OP_And);
  if (depth == DEPTH_MOST || (!contrary && !both)) return keep(t, c.v, hidden, c.negated);
  if (contrary) return take_truth(f, (condition){contrary->inputs[0], !c.negated}, mask, hidden, t, depth + 1);
  return take_truth(f, (condition){both->inputs[0], c.negated}, mask, hidden, t, depth + 1) &&
         take_truth(f, (condition){both->inputs[1], c.negated}, mask, hidden, t, depth + 1);
}

/* A bound of the absolute value of a constant's elements; INFINITY: there is none. */
static double constant_bound(const ir_value *v) {
  reed_desc desc;
  double most = 0;
  if (!ir_desc(v, &desc)) return INFINITY;
  const int64_t elements = desc_elements(&desc), bytes = (int64_t)reed_dtype_bytes(desc.dtype);
  for (int64_t i = 0; i < elements; i++) {
    double x = fabs(reed_dtype_read(desc.dtype, (const char *)v->data + i * bytes));
    if (!(x <= most)) most = x;
    if (x != x) return INFINITY;
  }
  return most;
}

/* A bound of the absolute value of v's elements: they are numbers of places, or elements of constants, which are moved,
 * cast, multiplied, and divided by numbers. INFINITY: none is known. */
static double bound_of(const ir_value *v, int32_t depth) {
  static const op_id moving[] = {OP_Transpose, OP_Unsqueeze, OP_Squeeze, OP_Reshape, OP_Slice,
                                 OP_Expand,    OP_Tile,      OP_Gather,  OP_Cast,    OP_Identity};
  if (ir_is_constant(v)) return constant_bound(v);
  if (v->type.dtype == REED_I64 || v->type.dtype == REED_I32) return 0x1p63;
  if (depth == DEPTH_MOST) return INFINITY;
  const ir_node *product = pattern_made_by(v, OP_Mul);
  if (product) return bound_of(product->inputs[0], depth + 1) * bound_of(product->inputs[1], depth + 1);
  double by;
  const ir_node *quotient = pattern_made_by(v, OP_Div);
  if (quotient && ir_is_constant(quotient->inputs[1]) && pattern_number(quotient->inputs[1], &by) && by != 0)
    return bound_of(quotient->inputs[0], depth + 1) / fabs(by);
  for (size_t i = 0; i < sizeof moving / sizeof *moving; i++) {
    const ir_node *n = pattern_made_by(v, moving[i]);
    if (n) return bound_of(n->inputs[0], depth + 1);
  }
  return INFINITY;
}

/* True if all elements of v are far from LOWEST. */
static bool is_moderate(const ir_value *v) { return bound_of(v, 0) < MODERATE; }

/* Takes an added number apart: its summands that are bands of 0 and a low number, and the other summands. A Where that
 * chooses between a bias and the lowest number counts as their sum. */
static bool take_number(const folding *f, ir_value *v, const ir_value *mask, taken_apart *t, int32_t depth) {
  position_band band;
  double zero, hidden = 0;
  bool placed = position_band_of(f->m, v, &band);
  if (placed && !bounded(&band) && band.inside == 0) return t->n_always++, true;
  if (placed && bounded(&band) && covers(f, v, mask, t)) {
    position_band zeros = band, shown;
    hidden = band.inside == 0 ? band.outside : band.inside;
    zeros.inside = band.inside == 0, zeros.outside = band.outside == 0;
    if (hidden <= LOW && position_band_true(f->m, &zeros, &shown))
      return meet_summand(f, t, v, &shown, hidden, t->n_rest), true;
  }
  const ir_node *sum = pattern_made_by(v, OP_Add), *where = pattern_made_by(v, OP_Where);
  if (sum && depth < DEPTH_MOST)
    return take_number(f, sum->inputs[0], mask, t, depth + 1) && take_number(f, sum->inputs[1], mask, t, depth + 1);
  int32_t low = 0; /* the operand of Where that is the low number */
  for (int32_t k = 1; where && k < 3; k++)
    if (ir_is_constant(where->inputs[k]) && pattern_number(where->inputs[k], &hidden) && hidden <= LOW) low = k;
  if (!low) return keep(t, v, NULL, false);
  pattern_number(where->inputs[low], &hidden);
  ir_value *shown = where->inputs[3 - low];
  bool from_zero = ir_is_constant(shown) && pattern_number(shown, &zero) && zero == 0;
  bool from_bias = !from_zero && hidden <= LOWEST && is_moderate(shown);
  if (!from_zero && !from_bias) return keep(t, v, NULL, false);
  taken_apart before = *t;
  condition shows = {where->inputs[0], low == 1};
  t->n_bands = 0;
  if (!take_truth(f, shows, mask, where->inputs[low], t, depth + 1)) return false;
  if (!t->n_bands && t->n_always == before.n_always) return *t = before, keep(t, v, NULL, false);
  if (!from_zero && !keep(t, shown, NULL, false)) return false;
  const bool has_band = t->n_bands > 0;
  band = t->band;
  t->n_bands = before.n_bands;
  t->band = before.band;
  if (before.n_bands) t->keys = before.keys, t->queries = before.queries;
  if (has_band) meet_summand(f, t, v, &band, hidden, before.n_rest);
  return true;
}

/* ---- bands as attributes ---- */

typedef struct windows {
  int64_t left, right; /* -1: not limited */
  bool to_last_key;
} windows;

/* The band as windows around the key at `offset` for query 0; false: a distance is not a number, or is negative. */
static bool windows_at(const folding *f, const position_band *b, reed_dim offset, windows *out) {
  reed_dim left = b->has_low ? symbols_sub(f->m->symbols, offset, b->low) : -1,
           right = b->has_high ? symbols_sub(f->m->symbols, b->high, offset) : -1;
  if (symbol_is(left) || symbol_is(right) || (b->has_low && left < 0) || (b->has_high && right < 0)) return false;
  out->left = left;
  out->right = right;
  return true;
}

/* True when every query may look at a key at least: the key at its own place is there. */
static bool all_see_keys(const folding *f, const windows *w, reed_dim queries, reed_dim keys) {
  int64_t low, high;
  if (!w->to_last_key && w->left < 0) {
    symbols_range(f->m->symbols, keys, &low, &high);
    return low >= 1 || symbols_equal(f->m->symbols, keys, queries);
  }
  symbols_range(f->m->symbols, symbols_sub(f->m->symbols, keys, queries), &low, &high);
  return low >= 0;
}

static bool find_windows(const folding *f, const position_band *b, reed_dim queries, reed_dim keys, windows *out) {
  out->to_last_key = false;
  if (windows_at(f, b, 0, out)) return true;
  out->to_last_key = true;
  return windows_at(f, b, symbols_sub(f->m->symbols, keys, queries), out);
}

/* ---- the rest ---- */

/* One mask of the rest; *out_mask NULL: there is none. False: no memory. */
static bool join_rest(const folding *f, taken_apart *t, bool truths, ir_value **out_mask) {
  static const float none = 0;
  *out_mask = NULL;
  for (int32_t i = 0; i < t->n_rest; i++) {
    ir_value *v = t->rest[i], *hidden = t->hidden[i];
    if (t->negated[i] && !hidden) v = make(f, OP_Not, &v, 1);
    if (hidden) {
      ir_value *zero = ir_constant(f->m, &(reed_desc){.dtype = REED_F32}, &none, false, NULL);
      if (zero && hidden->type.dtype != REED_F32) {
        zero = make(f, OP_Cast, &zero, 1);
        if (zero && !ir_set_attr_int(zero->producer, "to", hidden->type.dtype)) zero = NULL;
      }
      ir_value *inputs[] = {v, t->negated[i] ? hidden : zero, t->negated[i] ? zero : hidden};
      v = zero ? make(f, OP_Where, inputs, 3) : NULL;
    }
    if (v && *out_mask) {
      ir_value *both[] = {*out_mask, v};
      v = make(f, truths ? OP_And : OP_Add, both, 2);
    }
    if (!v) return false;
    *out_mask = v;
  }
  return true;
}

/* ---- rows that hide all keys ---- */

/* True if the rest hides no key twice, and only by the number of the bands. */
static bool rest_hides_once(const taken_apart *t, const ir_value *mask, const ir_value *q) {
  double number;
  if (!(t->number <= LOWEST) || q->type.dtype != REED_F32) return false;
  if (mask->type.dtype == REED_BOOL) return true;
  if (mask->type.dtype != REED_F32) return false;
  int32_t n_wheres = 0;
  for (int32_t i = 0; i < t->n_rest; i++) {
    if (!t->hidden[i]) {
      if (!is_moderate(t->rest[i])) return false;
    } else if (!pattern_number(t->hidden[i], &number) || number != t->number || ++n_wheres > 1) return false;
  }
  return true;
}

/* A row that hides all its keys has the mean of the values of all hidden keys, as long as every key is hidden by the
 * same number: hidden_score. Summands that hide keys on their own would make other numbers. */
static bool one_number(const taken_apart *t, const ir_value *mask, const ir_value *q) {
  return t->n_finite == 1 && rest_hides_once(t, mask, q);
}

/* The lower (sign 1) or higher (sign -1) of two bounds, as far as it is known. */
static bool farther(const folding *f, reed_dim a, reed_dim b, int sign, reed_dim *out) {
  int64_t low, high;
  *out = a;
  if (symbols_assume_equal(f->m->symbols, a, b)) return true;
  symbols_range(f->m->symbols, sign > 0 ? symbols_sub(f->m->symbols, a, b) : symbols_sub(f->m->symbols, b, a), &low,
                &high);
  if (low >= 0) *out = b;
  return low >= 0 || high <= 0;
}

/* The places inside of a or b, which both have a place in each row. False: they are not known. */
static bool inside_of_either(const folding *f, const position_band *a, const position_band *b, position_band *out) {
  *out = *a;
  out->has_low = a->has_low && b->has_low, out->has_high = a->has_high && b->has_high;
  return (!out->has_low || farther(f, a->low, b->low, 1, &out->low)) &&
         (!out->has_high || farther(f, a->high, b->high, -1, &out->high));
}

static bool is_same_band(const folding *f, const position_band *a, const position_band *b) {
  return a->has_low == b->has_low && a->has_high == b->has_high &&
         (!a->has_low || symbols_assume_equal(f->m->symbols, a->low, b->low)) &&
         (!a->has_high || symbols_assume_equal(f->m->symbols, a->high, b->high));
}

/* Two summands that hide keys by one number each, as GPT-Neo adds a mask of padding to its own causal mask. The key at
 * a row's own place is hidden once at most, by the rest; so keys outside of both bands, which are hidden twice, have no
 * weight in any row. These keys stay outside of the band; a summand with a narrower band stays in the rest. */
static bool hide_twice(const folding *f, taken_apart *t, const ir_value *mask, const ir_value *q, reed_dim queries,
                       reed_dim keys, windows *out) {
  taken_apart by = *t;
  windows own;
  bool narrower[2];
  const summand *first = t->first;
  if (t->n_finite != 2 || t->n_bands != 2 || first[0].number != first[1].number || !rest_hides_once(t, mask, q) ||
      !inside_of_either(f, &first[0].band, &first[1].band, &by.band) || !bounded(&by.band) ||
      !find_windows(f, &by.band, queries, keys, out))
    return false;
  by.n_rest = 0;
  for (int32_t i = 0; i < 2; i++) {
    const position_band band = in_symbols_of(f, &by.band, first[i].band);
    if (!find_windows(f, &band, queries, keys, &own) || own.to_last_key != out->to_last_key ||
        !all_see_keys(f, &own, queries, keys))
      return false;
    narrower[i] = !is_same_band(f, &first[i].band, &by.band);
    if (narrower[i] && !keep(&by, first[i].v, NULL, false)) return false;
  }
  for (int32_t i = 0; i < t->n_rest; i++) {
    bool inside = false; /* of a summand that stays whole */
    for (int32_t k = 0; k < 2; k++) inside = inside || (narrower[k] && i >= first[k].begin && i < first[k].end);
    if (!inside && !keep(&by, t->rest[i], t->hidden[i], t->negated[i])) return false;
  }
  by.n_finite = 0;
  return *t = by, true;
}

/* ---- the pass ---- */

static ir_value *input(const ir_node *n, int32_t i) { return i < n->n_inputs ? n->inputs[i] : NULL; }

/* Leaves out the conjuncts that are always true; the mask may lose its extent along the queries. */
static reed_status narrow_mask(folding *f, ir_node *n, taken_apart *t, bool truths) {
  ir_value *rest;
  int32_t n_hidden = 0; /* a sum of several of them would be another number */
  for (int32_t i = 0; i < t->n_rest; i++) n_hidden += t->hidden[i] != NULL;
  if (n_hidden > 1) return REED_OK;
  if (!join_rest(f, t, truths, &rest)) return diag_no_memory(f->m->diagnosis, "a mask");
  n->inputs[3] = rest;
  while (n->n_inputs > 3 && !n->inputs[n->n_inputs - 1]) n->n_inputs--;
  if (!rest && !ir_drop_attr(n, "hidden_score")) return diag_no_memory(f->m->diagnosis, "a mask");
  f->n_folded++;
  f->n_whole += !rest;
  return REED_OK;
}

static reed_status fold_mask(folding *f, ir_node *n) {
  reed_attrs attrs = ir_attrs(n);
  ir_value *mask = input(n, 3), *q = n->inputs[0], *k = n->inputs[1], *rest;
  bool limited = op_attr_int(&attrs, "is_causal") || op_attr_int(&attrs, "left_window_size") >= 0 ||
                 op_attr_int(&attrs, "right_window_size") >= 0;
  if (!mask || limited || input(n, 4) || input(n, 6) || q->type.rank < 3 || k->type.rank < 3) return REED_OK;
  if (n->n_outputs > 3 && n->outputs[3]) return REED_OK;
  reed_dim queries = q->type.dims[q->type.rank - 2];
  reed_dim keys = k->type.dims[k->type.rank - 2];
  taken_apart t = {0};
  bool truths = mask->type.dtype == REED_BOOL;
  f->last = n;
  if (!(truths ? take_truth(f, (condition){mask, false}, mask, NULL, &t, 0) : take_number(f, mask, mask, &t, 0)))
    return REED_OK;
  if (!t.n_bands) return t.n_always ? narrow_mask(f, n, &t, truths) : REED_OK;
  if (!symbols_assume_equal(f->m->symbols, t.keys, keys) || !symbols_assume_equal(f->m->symbols, t.queries, queries))
    return REED_OK;
  keys = t.keys;
  queries = t.queries;
  double hidden = reed_attrs_float(&attrs, "hidden_score", -INFINITY);
  if (truths) note_number(&t, hidden);
  windows w;
  if ((truths && !(hidden <= LOW)) || !find_windows(f, &t.band, queries, keys, &w)) return REED_OK;
  bool counted = t.n_finite && (t.n_rest || !all_see_keys(f, &w, queries, keys)); /* hidden keys count in some rows */
  if (counted && !one_number(&t, mask, q)) {
    if (truths || !hide_twice(f, &t, mask, q, queries, keys, &w)) return REED_OK;
    counted = false;
  }
  if (t.most_keys && !symbols_limit(f->m->symbols, keys, t.most_keys)) return REED_OK;
  if (!join_rest(f, &t, truths, &rest)) return diag_no_memory(f->m->diagnosis, "a mask");
  bool causal = w.right == 0;
  if (!ir_set_attr_int(n, "is_causal", causal) || !ir_set_attr_int(n, "left_window_size", w.left) ||
      !ir_set_attr_int(n, "right_window_size", causal ? -1 : w.right) ||
      !ir_set_attr_int(n, "to_last_key", w.to_last_key))
    return diag_no_memory(f->m->diagnosis, "a mask");
  n->inputs[3] = rest;
  while (n->n_inputs > 3 && !n->inputs[n->n_inputs - 1]) n->n_inputs--;
  bool set = true;
  if (counted) set = ir_set_attr_float(n, "hidden_score", t.number);
  else if (!rest || !truths) set = ir_drop_attr(n, "hidden_score"); /* keys outside of the band have no weight */
  if (!set) return diag_no_memory(f->m->diagnosis, "a mask");
  f->n_folded++;
  f->n_whole += !rest;
  return REED_OK;
}

static reed_status visit(void *context, ir_node *n) {
  return n->op == op_builtin(OP_Attention) ? fold_mask(context, n) : REED_OK;
}

reed_status pass_attention_masks(ir_module *m, pass_report *report) {
  folding f = {.m = m};
  reed_status status = pass_try_each(m, visit, &f, &f.n_folded);
  *report = (pass_report){.counts = {{"masks of attention folded", f.n_folded}, {"of them whole", f.n_whole}}};
  return status;
}
