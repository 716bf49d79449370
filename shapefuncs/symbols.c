/* Symbols: integer expressions over named and unknown atoms, kept in one normal form and hash-consed, so that equal
 * reed_dims mean provably equal values. Declared names are compared in symbols_declared.c; texts and evaluation are in
 * symbols_text.c.
 *
 * The normal form is a polynomial: constant + sum of coefficient * product of factors, terms in descending graded
 * lexicographic order of their factors' ids. A factor is an atom (a named dim, an unknown) or an opaque term: floordiv,
 * min, max, broadcast over expressions. A polynomial of just one factor is this factor's node; one without terms is a
 * plain number. An expression beyond the limits of symbols_node.h becomes a fresh unknown, which is always correct: it
 * only proves less. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#include "shapefuncs/symbols_node.h"

reed_status symbols_open(reed_symbols **out_symbols) {
  reed_symbols *symbols = mem_calloc(1, sizeof *symbols);
  if (!symbols) return REED_ERROR_MEMORY;
  symbols->n_changes = 1;
  node poison = {.kind = NODE_POISON, .low = INT64_MIN, .high = INT64_MAX};
  if (!VEC_PUSH(&symbols->nodes, poison)) {
    symbols_close(&symbols);
    return REED_ERROR_MEMORY;
  }
  *out_symbols = symbols;
  return REED_OK;
}

void symbols_close(reed_symbols **symbols) {
  reed_symbols *s = *symbols;
  *symbols = NULL;
  if (!s) return;
  for (size_t i = 0; i < s->nodes.n; i++) {
    mem_free(s->nodes.items[i].terms);
    mem_free(s->nodes.items[i].args);
    mem_free(s->nodes.items[i].name);
  }
  VEC_FREE(&s->nodes);
  VEC_FREE(&s->ranges);
  VEC_FREE(&s->assumed);
  VEC_FREE(&s->broadcast);
  VEC_FREE(&s->parts);
  VEC_FREE(&s->limits);
  VEC_FREE(&s->widened);
  table_fini(&s->ids);
  mem_free(s);
}

reed_status symbols_status(const reed_symbols *symbols) { return symbols->status; }

/* ---- intervals: INT64_MIN and INT64_MAX stand for minus and plus infinity ---- */

static bool infinite(int64_t a) { return a == INT64_MIN || a == INT64_MAX; }

static int64_t bound_add(int64_t a, int64_t b) {
  int64_t sum;
  if (infinite(a)) return a;
  if (infinite(b)) return b;
  return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? INT64_MIN : INT64_MAX) : sum;
}

static int64_t bound_mul(int64_t a, int64_t b) {
  int64_t product;
  if (a == 0 || b == 0) return 0;
  if (!infinite(a) && !infinite(b) && !__builtin_mul_overflow(a, b, &product)) return product;
  return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

static int64_t bound_floordiv(int64_t a, int64_t b) { return infinite(a) ? a : floor_divide(a, b); }

static void interval_mul(int64_t *low, int64_t *high, int64_t other_low, int64_t other_high) {
  int64_t corner[4] = {bound_mul(*low, other_low), bound_mul(*low, other_high), bound_mul(*high, other_low),
                       bound_mul(*high, other_high)};
  *low = *high = corner[0];
  for (int i = 1; i < 4; i++) {
    if (corner[i] < *low) *low = corner[i];
    if (corner[i] > *high) *high = corner[i];
  }
}

static void polynomial_range(const reed_symbols *symbols, const polynomial *p, int64_t *out_low, int64_t *out_high) {
  int64_t low = p->constant, high = p->constant;
  for (int32_t i = 0; i < p->n; i++) {
    int64_t term_low = p->terms[i].coefficient, term_high = term_low;
    for (uint32_t k = 0; k < p->terms[i].n_factors; k++) {
      const node *factor = &symbols->nodes.items[p->terms[i].factors[k]];
      interval_mul(&term_low, &term_high, factor->low, factor->high);
    }
    low = bound_add(low, term_low);
    high = bound_add(high, term_high);
  }
  *out_low = low;
  *out_high = high;
}

void symbols_range(const reed_symbols *symbols, reed_dim a, int64_t *out_low, int64_t *out_high) {
  *out_low = symbol_is(a) ? node_of(symbols, a)->low : a;
  *out_high = symbol_is(a) ? node_of(symbols, a)->high : a;
}

/* ---- hash-consing ---- */

static uint64_t node_hash(const node *x) {
  uint64_t hash = hash_bytes(&x->kind, sizeof x->kind, 0);
  hash = hash_bytes(&x->constant, sizeof x->constant, hash);
  for (int32_t i = 0; x->terms && i < x->n; i++) { /* field by field: the padding is undefined */
    hash = hash_bytes(&x->terms[i].coefficient, sizeof x->terms[i].coefficient, hash);
    hash = hash_bytes(x->terms[i].factors, sizeof x->terms[i].factors, hash);
  }
  if (x->args) hash = hash_bytes(x->args, (size_t)x->n * sizeof *x->args, hash);
  if (x->name) hash = hash_bytes(x->name, strlen(x->name), hash);
  return hash;
}

static bool same_term(const term *a, const term *b) {
  return a->coefficient == b->coefficient && a->n_factors == b->n_factors &&
         memcmp(a->factors, b->factors, sizeof a->factors) == 0;
}

static bool same_node(const node *a, const node *b) {
  if (a->hash != b->hash || a->kind != b->kind || a->constant != b->constant || a->n != b->n) return false;
  for (int32_t i = 0; a->terms && i < a->n; i++)
    if (!same_term(&a->terms[i], &b->terms[i])) return false;
  if (a->args && memcmp(a->args, b->args, (size_t)a->n * sizeof *a->args) != 0) return false;
  return !a->name || strcmp(a->name, b->name) == 0;
}

static bool same_id(const void *context, uint32_t id, const void *wanted) {
  const reed_symbols *symbols = context;
  return same_node(&symbols->nodes.items[id], wanted);
}

static reed_dim no_memory(reed_symbols *symbols) {
  symbols->status = REED_ERROR_MEMORY;
  return POISON;
}

reed_dim symbols_intern(reed_symbols *symbols, node wanted) {
  wanted.hash = node_hash(&wanted);
  uint32_t found = table_find(&symbols->ids, wanted.hash, same_id, symbols, &wanted);
  if (found != TABLE_NONE) return symbol_of(found);
  if (symbols->nodes.n >= TABLE_NONE) return no_memory(symbols);
  node made = wanted;
  made.terms = NULL, made.args = NULL, made.name = NULL;
  bool ok = VEC_ROOM(&symbols->nodes) && table_reserve(&symbols->ids, symbols->nodes.n + 1);
  if (ok && wanted.terms) ok = (made.terms = mem_copy(wanted.terms, (size_t)wanted.n * sizeof *wanted.terms)) != NULL;
  if (ok && wanted.args) ok = (made.args = mem_copy(wanted.args, (size_t)wanted.n * sizeof *wanted.args)) != NULL;
  if (ok && wanted.name) ok = (made.name = mem_copy_text(wanted.name)) != NULL;
  if (!ok) {
    mem_free(made.terms);
    mem_free(made.args);
    return no_memory(symbols);
  }
  uint32_t id = (uint32_t)symbols->nodes.n;
  symbols->nodes.items[symbols->nodes.n++] = made;
  if (!table_add(&symbols->ids, wanted.hash, id)) return no_memory(symbols); /* reserved above */
  return symbol_of(id);
}

reed_dim symbols_named(reed_symbols *symbols, const char *name) {
  reed_dim atom =
      symbols_intern(symbols, (node){.kind = NODE_NAMED, .name = (char *)name, .low = 0, .high = INT64_MAX});
  uint32_t id = (uint32_t)(atom - SYMBOL_FIRST);
  if (atom != POISON && !symbols->nodes.items[id].namesake) symbols->nodes.items[id].namesake = id;
  return atom;
}

reed_dim symbols_fresh_extent(reed_symbols *symbols) {
  return symbols_intern(symbols,
                        (node){.kind = NODE_FRESH, .constant = symbols->n_fresh++, .low = 0, .high = INT64_MAX});
}

reed_dim symbols_fresh_value(reed_symbols *symbols) {
  return symbols_intern(
      symbols, (node){.kind = NODE_FRESH, .constant = symbols->n_fresh++, .low = INT64_MIN, .high = INT64_MAX});
}

static int32_t depth_of(const reed_symbols *symbols, reed_dim d) {
  return symbol_is(d) ? node_of(symbols, d)->depth : 0;
}

/* A factor over arguments, with the range that the caller gives. A factor that is too deep becomes a fresh unknown of
 * this range. */
static reed_dim intern_factor(reed_symbols *symbols, node_kind kind, int32_t n, reed_dim *args, int64_t low,
                              int64_t high) {
  int32_t depth = 0;
  for (int32_t i = 0; i < n; i++)
    if (depth_of(symbols, args[i]) > depth) depth = depth_of(symbols, args[i]);
  node made = {.kind = kind, .n = n, .args = args, .depth = depth + 1, .low = low, .high = high};
  if (depth >= MAX_DEPTH) made = (node){.kind = NODE_FRESH, .constant = symbols->n_fresh++, .low = low, .high = high};
  return symbols_intern(symbols, made);
}

/* ---- polynomials ---- */

/* Graded lexicographic, larger monomials first: a monomial order (Cox, Little, O'Shea: Ideals, Varieties, and
 * Algorithms, 2.2), so that division by leading terms works. */
static int term_order(const term *a, const term *b) {
  if (a->n_factors != b->n_factors) return a->n_factors > b->n_factors ? -1 : 1;
  for (uint32_t i = 0; i < a->n_factors; i++)
    if (a->factors[i] != b->factors[i]) return a->factors[i] < b->factors[i] ? -1 : 1;
  return 0;
}

static void polynomial_of(const reed_symbols *symbols, reed_dim d, polynomial *out) {
  out->constant = 0, out->n = 0, out->lost = false;
  if (!symbol_is(d)) {
    out->constant = d;
    return;
  }
  const node *x = node_of(symbols, d);
  if (x->kind == NODE_SUM) {
    out->constant = x->constant;
    out->n = x->n;
    memcpy(out->terms, x->terms, (size_t)x->n * sizeof *x->terms);
  } else {
    out->lost = x->kind == NODE_POISON;
    out->n = 1;
    out->terms[0] = (term){.coefficient = 1, .n_factors = 1, .factors = {(uint32_t)(d - SYMBOL_FIRST)}};
  }
}

/* p += coefficient * monomial */
static void add_term(polynomial *p, const term *t, int64_t scale) {
  int64_t coefficient;
  if (__builtin_mul_overflow(t->coefficient, scale, &coefficient)) p->lost = true;
  if (p->lost || coefficient == 0) return;
  int32_t at = 0;
  while (at < p->n && term_order(&p->terms[at], t) < 0) at++;
  if (at < p->n && term_order(&p->terms[at], t) == 0) {
    if (__builtin_add_overflow(p->terms[at].coefficient, coefficient, &p->terms[at].coefficient)) p->lost = true;
    if (p->terms[at].coefficient == 0) {
      memmove(&p->terms[at], &p->terms[at + 1], (size_t)(p->n - at - 1) * sizeof *p->terms);
      p->n--;
    }
    return;
  }
  if (p->n == MAX_TERMS) {
    p->lost = true;
    return;
  }
  memmove(&p->terms[at + 1], &p->terms[at], (size_t)(p->n - at) * sizeof *p->terms);
  p->terms[at] = *t;
  p->terms[at].coefficient = coefficient;
  p->n++;
}

/* p += q * scale */
static void add_scaled(polynomial *p, const polynomial *q, int64_t scale) {
  int64_t constant;
  if (q->lost || __builtin_mul_overflow(q->constant, scale, &constant) ||
      __builtin_add_overflow(p->constant, constant, &p->constant))
    p->lost = true;
  for (int32_t i = 0; i < q->n; i++) add_term(p, &q->terms[i], scale);
}

/* p += q * t */
static void add_multiple(polynomial *p, const polynomial *q, const term *t) {
  p->lost = p->lost || q->lost;
  for (int32_t i = 0; i < q->n; i++) {
    const term *u = &q->terms[i];
    if (u->n_factors + t->n_factors > MAX_DEGREE) {
      p->lost = true;
      return;
    }
    term product = {.coefficient = u->coefficient};
    uint32_t a = 0, b = 0;
    while (a < u->n_factors || b < t->n_factors) {
      bool first = b == t->n_factors || (a < u->n_factors && u->factors[a] <= t->factors[b]);
      product.factors[product.n_factors++] = first ? u->factors[a++] : t->factors[b++];
    }
    add_term(p, &product, t->coefficient);
  }
  int64_t constant;
  if (t->n_factors) {
    add_term(p, t, q->constant);
  } else if (__builtin_mul_overflow(q->constant, t->coefficient, &constant) ||
             __builtin_add_overflow(p->constant, constant, &p->constant)) {
    p->lost = true;
  }
}

/* The number or symbol of a polynomial; a fresh value if the polynomial was lost. */
static reed_dim intern_polynomial(reed_symbols *symbols, polynomial *p) {
  if (symbols->status) return POISON;
  if (p->lost) return symbols_fresh_value(symbols);
  if (p->n == 0) return p->constant < FLOOR_NUMBER ? symbols_fresh_value(symbols) : p->constant;
  if (p->n == 1 && p->constant == 0 && p->terms[0].coefficient == 1 && p->terms[0].n_factors == 1)
    return symbol_of(p->terms[0].factors[0]);
  node made = {.kind = NODE_SUM, .constant = p->constant, .n = p->n, .terms = p->terms};
  for (int32_t i = 0; i < p->n; i++)
    for (uint32_t k = 0; k < p->terms[i].n_factors; k++) {
      int32_t depth = symbols->nodes.items[p->terms[i].factors[k]].depth;
      if (depth > made.depth) made.depth = depth;
    }
  polynomial_range(symbols, p, &made.low, &made.high);
  return symbols_intern(symbols, made);
}

static reed_dim add_times(reed_symbols *symbols, reed_dim a, reed_dim b, int64_t sign) {
  polynomial sum, other;
  polynomial_of(symbols, a, &sum);
  polynomial_of(symbols, b, &other);
  add_scaled(&sum, &other, sign);
  return intern_polynomial(symbols, &sum);
}

reed_dim symbols_add(reed_symbols *symbols, reed_dim a, reed_dim b) { return add_times(symbols, a, b, 1); }
reed_dim symbols_sub(reed_symbols *symbols, reed_dim a, reed_dim b) { return add_times(symbols, a, b, -1); }

reed_dim symbols_mul(reed_symbols *symbols, reed_dim a, reed_dim b) {
  polynomial left, right, product = {.n = 0};
  polynomial_of(symbols, a, &left);
  polynomial_of(symbols, b, &right);
  for (int32_t i = 0; i < right.n; i++) add_multiple(&product, &left, &right.terms[i]);
  add_scaled(&product, &left, right.constant);
  product.lost = product.lost || right.lost;
  return intern_polynomial(symbols, &product);
}

reed_dim symbols_product(reed_symbols *symbols, const reed_dim *dims, int32_t n) {
  reed_dim all = 1;
  for (int32_t i = 0; i < n; i++) all = symbols_mul(symbols, all, dims[i]);
  return all;
}

/* t = u / v as monomials with coefficients; false if v does not divide u. */
static bool divide_term(const term *u, const term *v, term *out) {
  if (u->coefficient % v->coefficient) return false;
  *out = (term){.coefficient = u->coefficient / v->coefficient};
  uint32_t b = 0;
  for (uint32_t a = 0; a < u->n_factors; a++) {
    if (b < v->n_factors && u->factors[a] == v->factors[b]) b++;
    else out->factors[out->n_factors++] = u->factors[a];
  }
  return b == v->n_factors;
}

/* quotient = a / d if d divides a as a polynomial, else false (multivariate division by leading terms). */
static bool divide_exactly(const polynomial *a, const polynomial *d, polynomial *quotient) {
  polynomial rest = *a;
  *quotient = (polynomial){.n = 0};
  while (rest.n && !rest.lost) {
    term t;
    if (!divide_term(&rest.terms[0], &d->terms[0], &t)) return false;
    if (t.n_factors) add_term(quotient, &t, 1);
    else if (__builtin_add_overflow(quotient->constant, t.coefficient, &quotient->constant)) return false;
    t.coefficient = -t.coefficient;
    add_multiple(&rest, d, &t);
  }
  return !rest.lost && rest.constant == 0 && !quotient->lost;
}

static int64_t greatest_common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* floor(a/d) for a number d > 1: whole multiples of d move out, the rest is reduced by its common divisor, floors of
 * floors merge: floor((floor(x/e) + c)/d) = floor((x + c*e)/(e*d)) (Graham, Knuth, Patashnik: Concrete
 * Mathematics, 3.2). */
static reed_dim floordiv_number(reed_symbols *symbols, const polynomial *a, int64_t d) {
  polynomial whole = {.n = 0}, rest = {.n = 0};
  whole.constant = floor_divide(a->constant, d);
  rest.constant = a->constant - whole.constant * d;
  int64_t divisor = d;
  for (int32_t i = 0; i < a->n; i++) {
    term t = a->terms[i];
    int64_t times = floor_divide(t.coefficient, d), left = t.coefficient - times * d;
    t.coefficient = 1;
    add_term(&whole, &t, times);
    add_term(&rest, &t, left);
    divisor = greatest_common_divisor(divisor, left);
  }
  if (rest.n == 0) return intern_polynomial(symbols, &whole);
  d /= divisor;
  rest.constant = floor_divide(rest.constant, divisor);
  for (int32_t i = 0; i < rest.n; i++) rest.terms[i].coefficient /= divisor;

  int64_t low, high;
  polynomial_range(symbols, &rest, &low, &high);
  if (!infinite(low) && !infinite(high) && floor_divide(low, d) == floor_divide(high, d))
    return symbols_add(symbols, intern_polynomial(symbols, &whole), floor_divide(low, d));

  const node *inner = &symbols->nodes.items[rest.terms[0].factors[0]];
  int64_t product, shift;
  if (rest.n == 1 && rest.terms[0].coefficient == 1 && rest.terms[0].n_factors == 1 && inner->kind == NODE_FLOORDIV &&
      !symbol_is(inner->args[1]) && !__builtin_mul_overflow(inner->args[1], d, &product) &&
      !__builtin_mul_overflow(inner->args[1], rest.constant, &shift)) {
    reed_dim numerator = inner->args[0];
    reed_dim merged = symbols_floordiv(symbols, symbols_add(symbols, numerator, shift), product);
    return symbols_add(symbols, intern_polynomial(symbols, &whole), merged);
  }
  reed_dim args[2] = {intern_polynomial(symbols, &rest), d};
  reed_dim factor = intern_factor(symbols, NODE_FLOORDIV, 2, args, bound_floordiv(low, d), bound_floordiv(high, d));
  return symbols_add(symbols, intern_polynomial(symbols, &whole), factor);
}

reed_dim symbols_floordiv(reed_symbols *symbols, reed_dim a, reed_dim b) {
  if (!symbol_is(b) && b <= 0) return symbols_fresh_value(symbols);
  if (!symbol_is(a) && !symbol_is(b)) return floor_divide(a, b);
  if (b == 1 || a == 0) return a;
  polynomial numerator, divisor, quotient;
  polynomial_of(symbols, a, &numerator);
  if (!symbol_is(b)) return numerator.lost ? symbols_fresh_value(symbols) : floordiv_number(symbols, &numerator, b);
  polynomial_of(symbols, b, &divisor);
  if (!numerator.lost && !divisor.lost && divide_exactly(&numerator, &divisor, &quotient))
    return intern_polynomial(symbols, &quotient);
  int64_t low, high;
  symbols_range(symbols, a, &low, &high); /* b >= 1 takes the quotient towards 0, or to -1 */
  reed_dim args[2] = {a, b};
  return intern_factor(symbols, NODE_FLOORDIV, 2, args, low > 0 ? 0 : low, high < 0 ? -1 : high);
}

/* ---- min, max, broadcast: commutative, associative, idempotent ---- */

/* True if the difference is the extent of a limit and a number, and so at most 0 (sign 1); or a number less the extent,
 * and so at least 0 (sign -1). */
static bool decided_by_limit(const reed_symbols *symbols, const polynomial *difference, int64_t sign) {
  for (size_t i = 0; i < symbols->limits.n; i++) {
    const symbol_limit *limit = &symbols->limits.items[i];
    polynomial extent;
    int64_t beside, most;
    polynomial_of(symbols, limit->extent, &extent);
    bool equal = extent.n == difference->n;
    for (int32_t k = 0; k < extent.n && equal; k++)
      equal = term_order(&extent.terms[k], &difference->terms[k]) == 0 &&
              extent.terms[k].coefficient == sign * difference->terms[k].coefficient;
    if (!equal || __builtin_sub_overflow(sign * difference->constant, extent.constant, &beside)) continue;
    if (!__builtin_add_overflow(beside, limit->most, &most) && most <= 0) return true;
  }
  return false;
}

/* True if argument b changes nothing beside argument a. */
static bool absorbs(reed_symbols *symbols, node_kind kind, reed_dim a, reed_dim b) {
  if (kind == NODE_BROADCAST) {
    int64_t low, high;
    symbols_range(symbols, a, &low, &high);
    if (b == 1 || low >= 2 || (!symbol_is(a) && a != 1)) return true; /* the other is then 1 or the same */
    return symbols_absorbs_widened(symbols, a, b) || symbols_absorbs_part(symbols, a, b);
  }
  const node *inner = symbol_is(b) ? node_of(symbols, b) : NULL;
  if (inner &&
      inner->kind == (kind == NODE_MIN ? NODE_MAX : NODE_MIN)) /* max(a, min(b, ..)) where a >= b, and the reverse */
    for (int32_t i = 0; i < inner->n; i++)
      if (absorbs(symbols, kind, a, inner->args[i])) return true;
  polynomial difference, other;
  polynomial_of(symbols, a, &difference);
  polynomial_of(symbols, b, &other);
  add_scaled(&difference, &other, -1);
  if (difference.lost) return false;
  int64_t low, high;
  polynomial_range(symbols, &difference, &low, &high);
  if (kind == NODE_MIN ? high <= 0 : low >= 0) return true;
  return decided_by_limit(symbols, &difference, kind == NODE_MIN ? 1 : -1);
}

static int dim_order(const void *a, const void *b) {
  reed_dim x = *(const reed_dim *)a, y = *(const reed_dim *)b;
  return x < y ? -1 : x > y;
}

static reed_dim combine(reed_symbols *symbols, node_kind kind, reed_dim a, reed_dim b) {
  reed_dim args[2 * MAX_ARGS], sides[2] = {a, b};
  int32_t n = 0;
  for (int side = 0; side < 2; side++) {
    const node *x = symbol_is(sides[side]) ? node_of(symbols, sides[side]) : NULL;
    if (x && x->kind == NODE_POISON) return POISON;
    if (x && x->kind == kind) {
      memcpy(args + n, x->args, (size_t)x->n * sizeof *args);
      n += x->n;
    } else {
      args[n++] = sides[side];
    }
  }
  qsort(args, (size_t)n, sizeof *args, dim_order); /* numbers last */
  for (int32_t i = 0; i < n; i++)                  /* keep i only if nothing else makes it superfluous */
    for (int32_t k = 0; k < n; k++) {
      if (k == i || !(args[k] == args[i] || absorbs(symbols, kind, args[k], args[i]))) continue;
      memmove(&args[i], &args[i + 1], (size_t)(n - i - 1) * sizeof *args);
      n--, i--;
      break;
    }
  if (n == 1) return args[0];
  int64_t low, high;
  symbols_range(symbols, args[0], &low, &high);
  for (int32_t i = 1; i < n; i++) {
    int64_t arg_low, arg_high;
    symbols_range(symbols, args[i], &arg_low, &arg_high);
    /* min is below every argument, max above, broadcast is one of them */
    if (kind == NODE_MAX ? arg_low > low : arg_low < low) low = arg_low;
    if (kind == NODE_MIN ? arg_high < high : arg_high > high) high = arg_high;
  }
  if (n > MAX_ARGS)
    return symbols_intern(symbols,
                          (node){.kind = NODE_FRESH, .constant = symbols->n_fresh++, .low = low, .high = high});
  return intern_factor(symbols, kind, n, args, low, high);
}

reed_dim symbols_min(reed_symbols *symbols, reed_dim a, reed_dim b) { return combine(symbols, NODE_MIN, a, b); }
reed_dim symbols_max(reed_symbols *symbols, reed_dim a, reed_dim b) { return combine(symbols, NODE_MAX, a, b); }
reed_dim symbols_broadcast(reed_symbols *symbols, reed_dim a, reed_dim b) {
  return combine(symbols, NODE_BROADCAST, a, b);
}
