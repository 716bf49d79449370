/* Dims with names of their own for one length, as exporters write the tokens of ids and of positions. The model states
 * no equality, but a shape rule may need it: after the rule both names count as one (symbols_declared.c), so that a
 * second rule that needs the equality assumes it. A rule that needs the extent that two dims broadcast to to be one of
 * them needs the other dim to be the same or 1: it *widens* to the first one, which the compiled program checks at its
 * entry. So does an operator that broadcasts a sum of such an extent and others against the sum of the dim and the
 * others, as scores and their mask: the sums must be equal, or one of them 1. The program refuses the case in which a
 * sum is 1, which is one id with several positions and no past.
 *
 * The algebra of symbols: symbols.c. */
#include "shapefuncs/symbols_node.h"

/* True if d is the difference of two symbols that are no sums or products. */
static bool is_difference(const reed_symbols *s, reed_dim d, reed_dim out[2]) {
  const node *x = symbol_is(d) ? node_of(s, d) : NULL;
  if (!x || x->kind != NODE_SUM || x->n != 2 || x->constant != 0) return false;
  for (int32_t i = 0; i < 2; i++) {
    const int64_t other = x->terms[1 - i].coefficient;
    if (x->terms[i].n_factors != 1 || (other != 1 && other != -1) || x->terms[i].coefficient != -other) return false;
    out[i] = symbol_of(x->terms[i].factors[0]);
  }
  return true;
}

static node_kind kind_of(const reed_symbols *s, reed_dim d) { return node_of(s, d)->kind; }

/* The names of both atoms, the first ones of their names, count as one. */
static void merge_names(reed_symbols *s, reed_dim a, reed_dim b) {
  const uint32_t older = (uint32_t)((a < b ? a : b) - SYMBOL_FIRST), other = (uint32_t)((a < b ? b : a) - SYMBOL_FIRST);
  for (size_t i = other; i < s->nodes.n; i++)
    if (s->nodes.items[i].kind == NODE_NAMED && s->nodes.items[i].namesake == other) s->nodes.items[i].namesake = older;
  s->namesakes = true;
  s->n_rules++;
}

static void add_widening(reed_symbols *s, reed_dim from, reed_dim to, bool checked) {
  for (size_t i = 0; i < s->widened.n; i++) {
    symbol_widening *w = &s->widened.items[i];
    if (w->from == from && w->to == to && (w->checked || !checked)) return;
  }
  if (!VEC_PUSH(&s->widened, ((symbol_widening){from, to, checked}))) s->status = REED_ERROR_MEMORY;
  s->n_rules++;
  s->n_changes++;
}

/* The other arguments of the broadcast widen to `to`, which is one of them by its name. False: they do not, because one
 * is no dim of an input, or none is `to`. The nodes' arrays stay at their addresses while the table grows. */
static bool widen_others(reed_symbols *s, reed_dim broadcast, reed_dim to) {
  const node x = *node_of(s, broadcast);
  int32_t kept = -1;
  for (int32_t i = 0; i < x.n; i++) {
    if (!symbol_is(x.args[i]) || kind_of(s, x.args[i]) != NODE_NAMED) return false;
    if (symbols_as_declared(s, x.args[i]) == to) kept = i;
  }
  for (int32_t i = 0; i < x.n && kept >= 0; i++) {
    const reed_dim name = symbols_as_declared(s, x.args[i]);
    if (i == kept || name == to) continue;
    add_widening(s, x.args[i], x.args[kept], true);
    add_widening(s, name, to, false);
  }
  return kept >= 0;
}

/* The dims by whose names a and b differ: sides[0] in the one, sides[1] in the other. */
static bool find_sides(reed_symbols *s, reed_dim a, reed_dim b, reed_dim out_sides[2], reed_dim *out_difference) {
  if (!symbol_is(a) || !symbol_is(b) || a == POISON || b == POISON) return false;
  *out_difference = symbols_sub(s, a, b);
  return is_difference(s, symbols_as_declared(s, *out_difference), out_sides);
}

/* If one side is the extent that several dims broadcast to, and the other one a dim: the extent, as the difference has
 * it, and the dim. */
static bool find_broadcast(reed_symbols *s, reed_dim difference, const reed_dim sides[2], reed_dim *out_broadcast,
                           reed_dim *out_dim) {
  reed_dim extent;
  int64_t coefficient;
  for (int side = 0; side < 2; side++) {
    if (kind_of(s, sides[side]) != NODE_BROADCAST || kind_of(s, sides[1 - side]) != NODE_NAMED) continue;
    *out_dim = sides[1 - side];
    for (int32_t i = 0; symbols_linear_term(s, difference, i, &coefficient, &extent); i++)
      if (symbol_is(extent) && kind_of(s, extent) == NODE_BROADCAST && symbols_as_declared(s, extent) == sides[side])
        return *out_broadcast = extent, true;
  }
  return false;
}

bool symbols_note_rule(reed_symbols *s, reed_dim a, reed_dim b) {
  reed_dim sides[2], difference, broadcast, dim;
  if (!find_sides(s, a, b, sides, &difference)) return false;
  if (kind_of(s, sides[0]) == NODE_NAMED && kind_of(s, sides[1]) == NODE_NAMED) {
    merge_names(s, sides[0], sides[1]);
    return false; /* a rule that is met again needs the equality */
  }
  return find_broadcast(s, difference, sides, &broadcast, &dim) && widen_others(s, broadcast, dim);
}

/* a has the broadcast. */
static void note_sum(reed_symbols *s, reed_dim a, reed_dim b) {
  reed_dim sides[2], difference, broadcast, dim;
  int64_t low, high;
  if (!symbol_is(a) || !symbol_is(b) || kind_of(s, a) != NODE_SUM || kind_of(s, b) != NODE_SUM) return;
  if (!find_sides(s, a, b, sides, &difference) || !find_broadcast(s, difference, sides, &broadcast, &dim)) return;
  const reed_dim whole = symbols_as_declared(s, broadcast), first = symbols_sub(s, symbols_as_declared(s, a), whole),
                 rest = symbols_sub(s, symbols_as_declared(s, b), dim);
  symbols_range(s, rest, &low, &high);
  if (first == rest && low >= 0) (void)widen_others(s, broadcast, dim);
}

void symbols_note_sums(reed_symbols *s, reed_dim a, reed_dim b) {
  note_sum(s, a, b);
  note_sum(s, b, a);
}

bool symbols_absorbs_widened(const reed_symbols *s, reed_dim a, reed_dim b) {
  for (size_t i = 0; i < s->widened.n; i++)
    if (s->widened.items[i].to == a && s->widened.items[i].from == b) return true;
  return false;
}

bool symbols_widened(const reed_symbols *s, size_t i, reed_dim *out_from, reed_dim *out_to) {
  for (size_t k = 0; k < s->widened.n; k++) {
    if (!s->widened.items[k].checked || i-- > 0) continue;
    *out_from = s->widened.items[k].from;
    *out_to = s->widened.items[k].to;
    return true;
  }
  return false;
}

uint32_t symbols_rules(const reed_symbols *s) { return s->n_rules; }
