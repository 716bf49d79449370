/* Extents of the first or last n rows of a tensor, as Slices of a mask or of a table of positions have them, where they
 * broadcast against n: the result is n, unless the tensor has no row and n is 1. The number of its rows is linear in
 * dims of the model's inputs in that case, and the compiled program checks it at its entry. The first n rows of a table
 * of 2 rows or more broadcast against n only if the table has n rows: n is limited, which the program checks, too.
 *
 * The algebra of symbols: symbols.c. */
#include "shapefuncs/symbols_node.h"

/* Rows -n to the end, for n = 0 all of them: min(whole, n) + whole (1 - min(n, 1)). */
reed_dim symbols_last(reed_symbols *s, reed_dim whole, reed_dim n) {
  int64_t low, high;
  reed_dim shown = symbols_min(s, whole, n);
  symbols_range(s, n, &low, &high);
  if (low >= 1) return shown;
  reed_dim others = symbols_sub(s, whole, symbols_mul(s, whole, symbols_min(s, n, 1)));
  return symbols_max(s, symbols_add(s, shown, others), 0);
}

/* The sum x without the terms that have the factor. */
static reed_dim without_factor(reed_symbols *s, const node *x, reed_dim factor) {
  reed_dim sum = x->constant;
  for (int32_t i = 0; i < x->n; i++) {
    reed_dim product = x->terms[i].coefficient;
    bool has = false;
    for (uint32_t k = 0; k < x->terms[i].n_factors; k++) {
      has = has || symbol_of(x->terms[i].factors[k]) == factor;
      product = symbols_mul(s, product, symbol_of(x->terms[i].factors[k]));
    }
    if (!has) sum = symbols_add(s, sum, product);
  }
  return sum;
}

/* The whole of a minimum of a and the whole. */
static bool whole_of_minimum(const reed_symbols *s, reed_dim a, reed_dim b, reed_dim *out_whole) {
  const node *x = symbol_is(b) ? node_of(s, b) : NULL;
  if (!x || x->kind != NODE_MIN || x->n != 2 || (x->args[0] != a && x->args[1] != a)) return false;
  *out_whole = x->args[x->args[0] == a];
  return true;
}

/* The nodes' arrays stay at their addresses while the table grows; nodes move. */
bool symbols_whole_of_part(reed_symbols *s, reed_dim a, reed_dim b, reed_dim *out_whole) {
  if (!symbol_is(b)) return false;
  if (whole_of_minimum(s, a, b, out_whole)) return true;
  node x = *node_of(s, b);
  if (x.kind == NODE_MAX && x.n == 2 && x.args[1] == 0 && symbol_is(x.args[0])) {
    if (whole_of_minimum(s, a, x.args[0], out_whole)) return true; /* rows from a place on: none if it is too far */
    x = *node_of(s, x.args[0]);
  }
  if (x.kind != NODE_SUM || !symbol_is(a)) return false;
  reed_dim rows = without_factor(s, &x, symbols_min(s, a, 1)); /* min(whole, a) + whole */
  reed_dim whole = symbols_sub(s, rows, a);
  if (symbols_last(s, whole, a) == b) return *out_whole = whole, true;
  for (int32_t i = 0; i < x.n; i++) {
    reed_dim factor = symbol_of(x.terms[i].factors[0]);
    if (x.terms[i].coefficient != 1 || x.terms[i].n_factors != 1 || !whole_of_minimum(s, a, factor, &whole)) continue;
    if (symbols_last(s, whole, a) == b) return *out_whole = whole, true;
  }
  return false;
}

/* True for an atom, and for a broadcast of atoms: a program can compute the extent from its inputs. */
static bool is_given(const reed_symbols *s, reed_dim d) {
  reed_dim argument;
  if (!symbol_is(d)) return false;
  for (int32_t i = 0; symbols_broadcast_argument(s, d, i, &argument); i++)
    if (!symbol_is(argument) || node_of(s, argument)->kind != NODE_NAMED) return false;
  return true;
}

/* True if the whole has a row wherever a is 1. */
static bool has_rows(reed_symbols *s, reed_dim whole, reed_dim a) {
  int64_t low, high;
  symbols_range(s, whole, &low, &high);
  if (low >= 1) return true;
  symbols_range(s, symbols_sub(s, whole, a), &low, &high);
  return low >= 0;
}

bool symbols_linear_term(const reed_symbols *s, reed_dim d, int32_t i, int64_t *out_coefficient, reed_dim *out_atom) {
  if (!symbol_is(d) || node_of(s, d)->kind != NODE_SUM) return *out_coefficient = 1, *out_atom = d, i == 0;
  const node *x = node_of(s, d);
  if (i > x->n) return false;
  *out_coefficient = i == x->n ? x->constant : x->terms[i].coefficient;
  *out_atom = i == x->n ? 1 : x->terms[i].n_factors == 1 ? symbol_of(x->terms[i].factors[0]) : POISON;
  return true;
}

static bool is_linear(const reed_symbols *s, reed_dim d) {
  int64_t coefficient;
  reed_dim atom;
  for (int32_t i = 0; symbols_linear_term(s, d, i, &coefficient, &atom); i++)
    if (symbol_is(atom) && !is_given(s, atom)) return false;
  return true;
}

void symbols_note_part(reed_symbols *s, reed_dim a, reed_dim b) {
  symbol_part part = {.extent = a};
  if (!is_given(s, a) || !symbols_whole_of_part(s, a, b, &part.whole) || !is_linear(s, part.whole) ||
      has_rows(s, part.whole, a))
    return;
  for (size_t i = 0; i < s->parts.n; i++)
    if (s->parts.items[i].extent == part.extent && s->parts.items[i].whole == part.whole) return;
  if (!VEC_PUSH(&s->parts, part)) s->status = REED_ERROR_MEMORY;
}

bool symbols_broadcast_part(const reed_symbols *s, size_t i, reed_dim *out_extent, reed_dim *out_whole) {
  if (i >= s->parts.n) return false;
  *out_extent = s->parts.items[i].extent;
  *out_whole = s->parts.items[i].whole;
  return true;
}

bool symbols_absorbs_part(reed_symbols *s, reed_dim a, reed_dim b) {
  reed_dim whole;
  if (!symbol_is(a) || !symbols_whole_of_part(s, a, b, &whole)) return false;
  if (has_rows(s, whole, a)) return true;
  for (size_t i = 0; i < s->parts.n; i++)
    if (s->parts.items[i].extent == a && s->parts.items[i].whole == whole) return true;
  return false;
}

/* ---- limits ---- */

bool symbols_limit(reed_symbols *s, reed_dim d, int64_t most) {
  int64_t low, high;
  symbols_range(s, d, &low, &high);
  if (high <= most) return true;
  if (low > most || !is_linear(s, d)) return false;
  for (size_t i = 0; i < s->limits.n; i++)
    if (s->limits.items[i].extent == d && s->limits.items[i].most <= most) return true;
  if (!VEC_PUSH(&s->limits, ((symbol_limit){d, most}))) s->status = REED_ERROR_MEMORY;
  s->n_changes++;
  return true;
}

/* min(a, most) is 1 beside a larger a only if `most` is 1. */
void symbols_note_limit(reed_symbols *s, reed_dim a, reed_dim b) {
  const node *x = symbol_is(b) ? node_of(s, b) : NULL;
  if (!x || x->kind != NODE_MIN || x->n != 2 || x->args[0] != a || symbol_is(x->args[1]) || x->args[1] < 2) return;
  if (!symbols_limit(s, a, x->args[1])) return; /* not linear: the operator's own check remains */
}

int64_t symbols_limit_of(const reed_symbols *s, reed_dim d) {
  int64_t most = 0;
  for (size_t i = 0; i < s->limits.n; i++)
    if (s->limits.items[i].extent == d && (!most || s->limits.items[i].most < most)) most = s->limits.items[i].most;
  return most;
}

bool symbols_limited(const reed_symbols *s, size_t i, reed_dim *out_extent, int64_t *out_most) {
  if (i >= s->limits.n) return false;
  *out_extent = s->limits.items[i].extent;
  *out_most = s->limits.items[i].most;
  return true;
}
