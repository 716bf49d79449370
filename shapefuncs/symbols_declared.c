/* Declared names: equalities of extents that a model states by giving dims one name, and when they are assumed.
 *
 * Every dim with a name is an atom of its own. Two atoms of one name count as equal only if a result needs the
 * equality: then the assumption is noted, the compiled program checks it once at its entry (assert.dim), and from then
 * on the two atoms are equal. A program without such assumptions runs whatever the extents are.
 *
 * Arithmetic ignores assumptions: n - m stays n - m. Only comparisons use them, by replacing atoms in the difference of
 * the compared dims; so an assumption can be taken back as long as nothing was changed because of it.
 *
 * The algebra of symbols: symbols.c. */
#include <string.h>

#include "shapefuncs/symbols_node.h"

/* ---- replacing atoms ---- */

typedef enum manner { MANNER_DECLARED, MANNER_ASSUMED } manner; /* one atom for each name; one for all assumed equal */

static uint32_t first_of(const reed_symbols *s, uint32_t id) {
  while (s->nodes.items[id].same_as) id = s->nodes.items[id].same_as;
  return id;
}

static reed_dim replace(reed_symbols *s, reed_dim d, manner how);

static reed_dim replace_sum(reed_symbols *s, const node *x, manner how) {
  reed_dim sum = x->constant;
  for (int32_t i = 0; i < x->n; i++) {
    reed_dim product = x->terms[i].coefficient;
    for (uint32_t k = 0; k < x->terms[i].n_factors; k++)
      product = symbols_mul(s, product, replace(s, symbol_of(x->terms[i].factors[k]), how));
    sum = symbols_add(s, sum, product);
  }
  return sum;
}

static reed_dim replace_call(reed_symbols *s, const node *x, manner how) {
  reed_dim result = replace(s, x->args[0], how);
  for (int32_t i = 1; i < x->n; i++) {
    reed_dim next = replace(s, x->args[i], how);
    result = x->kind == NODE_FLOORDIV ? symbols_floordiv(s, result, next)
             : x->kind == NODE_MIN    ? symbols_min(s, result, next)
             : x->kind == NODE_MAX    ? symbols_max(s, result, next)
                                      : symbols_broadcast(s, result, next);
  }
  return result;
}

/* The extent that an "either" node stands for, if its extents have become the same. */
static reed_dim replace_either(reed_symbols *s, const node *x, reed_dim self, manner how) {
  reed_dim first = replace(s, x->args[0], how);
  for (int32_t i = 1; i < x->n; i++)
    if (replace(s, x->args[i], how) != first) return self;
  return first;
}

/* d with its atoms replaced. The nodes' arrays stay at their addresses while the table grows; nodes move. */
static reed_dim replace(reed_symbols *s, reed_dim d, manner how) {
  if (!symbol_is(d)) return d;
  const node x = *node_of(s, d);
  uint32_t id = (uint32_t)(d - SYMBOL_FIRST),
           age = how == MANNER_DECLARED ? (uint32_t)s->limits.n + s->n_rules + 1 : s->n_changes;
  if (x.replaced[how].age == age) return x.replaced[how].by;
  reed_dim result = d;
  switch (x.kind) {
    case NODE_POISON:
    case NODE_FRESH: break;
    case NODE_NAMED: result = symbol_of(how == MANNER_DECLARED ? x.namesake : first_of(s, id)); break;
    case NODE_SUM: result = replace_sum(s, &x, how); break;
    case NODE_FLOORDIV:
    case NODE_MIN:
    case NODE_MAX:
    case NODE_BROADCAST: result = replace_call(s, &x, how); break;
    case NODE_EITHER: result = replace_either(s, &x, d, how); break;
  }
  s->nodes.items[id].replaced[how].by = result;
  s->nodes.items[id].replaced[how].age = age;
  return result;
}

reed_dim symbols_as_declared(reed_symbols *s, reed_dim d) { return s->namesakes ? replace(s, d, MANNER_DECLARED) : d; }

/* ---- atoms ---- */

void symbols_declare_range(reed_symbols *s, const char *name, int64_t low, int64_t high) {
  if (!VEC_PUSH(&s->ranges, ((declared_range){name, low, high}))) s->status = REED_ERROR_MEMORY;
}

reed_dim symbols_declared(reed_symbols *s, const char *name) {
  uint32_t namesake = 0;
  int64_t low = 0, high = INT64_MAX;
  for (size_t i = 0; i < s->ranges.n; i++)
    if (strcmp(s->ranges.items[i].name, name) == 0) low = s->ranges.items[i].low, high = s->ranges.items[i].high;
  if (low == high) return low;
  for (size_t id = 1; id < s->nodes.n && !namesake; id++)
    if (s->nodes.items[id].kind == NODE_NAMED && strcmp(s->nodes.items[id].name, name) == 0) namesake = (uint32_t)id;
  reed_dim made = symbols_intern(
      s, (node){.kind = NODE_NAMED, .name = (char *)name, .constant = ++s->n_declared, .low = low, .high = high});
  if (made == POISON) return made;
  uint32_t id = (uint32_t)(made - SYMBOL_FIRST);
  s->nodes.items[id].namesake = namesake ? namesake : id;
  s->namesakes = s->namesakes || namesake;
  return made;
}

reed_dim symbols_either(reed_symbols *s, reed_dim a, reed_dim b) {
  if (!s->namesakes || symbols_as_declared(s, a) != symbols_as_declared(s, b)) return symbols_fresh_extent(s);
  reed_dim args[2] = {a, b};
  int32_t depth = 1;
  for (int i = 0; i < 2; i++)
    if (symbol_is(args[i]) && node_of(s, args[i])->depth >= depth) depth = node_of(s, args[i])->depth + 1;
  if (depth > MAX_DEPTH) return symbols_fresh_extent(s);
  return symbols_intern(s, (node){.kind = NODE_EITHER,
                                  .constant = s->n_fresh++,
                                  .n = 2,
                                  .args = args,
                                  .depth = depth,
                                  .low = 0,
                                  .high = INT64_MAX});
}

/* ---- comparisons ---- */

/* The difference of two dims that may be equal by their atoms' names; false: they cannot be equal. */
static bool differ_by_names(reed_symbols *s, reed_dim a, reed_dim b, reed_dim *out_difference) {
  if (!s->namesakes || a == POISON || b == POISON || (!symbol_is(a) && !symbol_is(b))) return false;
  *out_difference = symbols_sub(s, a, b);
  return replace(s, *out_difference, MANNER_DECLARED) == 0;
}

static bool assumed_zero(reed_symbols *s, reed_dim d) { return replace(s, d, MANNER_ASSUMED) == 0; }

bool symbols_equal(reed_symbols *s, reed_dim a, reed_dim b) {
  reed_dim difference;
  if (a == b) return a != POISON;
  return s->assumed.n && differ_by_names(s, a, b, &difference) && assumed_zero(s, difference);
}

bool symbols_equal_if_declared(reed_symbols *s, reed_dim a, reed_dim b) {
  reed_dim difference;
  if (a == b) return a != POISON;
  return differ_by_names(s, a, b, &difference);
}

/* ---- assumptions ---- */

typedef VEC_OF(uint32_t) ids;

/* The atoms in d that are not yet assumed equal to others, each once. */
static bool collect_atoms(const reed_symbols *s, reed_dim d, ids *atoms) {
  if (!symbol_is(d)) return true;
  const node *x = node_of(s, d);
  bool ok = true;
  if (x->kind == NODE_NAMED) {
    uint32_t id = first_of(s, (uint32_t)(d - SYMBOL_FIRST));
    for (size_t i = 0; i < atoms->n; i++)
      if (atoms->items[i] == id) return true;
    return VEC_PUSH(atoms, id);
  }
  for (int32_t i = 0; x->terms && i < x->n && ok; i++)
    for (uint32_t k = 0; k < x->terms[i].n_factors && ok; k++)
      ok = collect_atoms(s, symbol_of(x->terms[i].factors[k]), atoms);
  for (int32_t i = 0; x->args && i < x->n && ok; i++) ok = collect_atoms(s, x->args[i], atoms);
  return ok;
}

static void set_same(reed_symbols *s, uint32_t id, uint32_t as) {
  s->nodes.items[id].same_as = as;
  s->n_changes++; /* replacements made earlier are out of date */
}

/* The oldest atom with the name of atoms[i]. */
static uint32_t oldest_namesake(const reed_symbols *s, const ids *atoms, size_t i) {
  uint32_t oldest = atoms->items[i];
  for (size_t k = 0; k < atoms->n; k++)
    if (atoms->items[k] < oldest && s->nodes.items[atoms->items[k]].namesake == s->nodes.items[oldest].namesake)
      oldest = atoms->items[k];
  return oldest;
}

/* Makes the difference zero with as few assumptions as possible: first all atoms of a name are assumed equal, then each
 * assumption that is not needed is taken back. False: the difference is not zero (the normal form has lost a part), or
 * no memory. */
static bool assume_zero(reed_symbols *s, reed_dim difference) {
  ids atoms = {0};
  bool ok = collect_atoms(s, difference, &atoms);
  for (size_t i = 0; i < atoms.n && ok; i++) {
    uint32_t first = oldest_namesake(s, &atoms, i);
    if (first != atoms.items[i]) set_same(s, atoms.items[i], first);
  }
  bool zero = ok && assumed_zero(s, difference);
  for (size_t i = 0; i < atoms.n && ok; i++) {
    uint32_t id = atoms.items[i], first = s->nodes.items[id].same_as;
    if (!first) continue;
    set_same(s, id, 0);
    if (!zero || assumed_zero(s, difference)) continue;
    set_same(s, id, first);
    ok = VEC_PUSH(&s->assumed, id);
  }
  if (!ok) s->status = REED_ERROR_MEMORY;
  VEC_FREE(&atoms);
  return ok && zero;
}

bool symbols_assume_equal(reed_symbols *s, reed_dim a, reed_dim b) {
  reed_dim difference;
  if (a == b) return a != POISON;
  if (!differ_by_names(s, a, b, &difference)) return false;
  return assumed_zero(s, difference) || assume_zero(s, difference);
}

size_t symbols_assumptions(const reed_symbols *s) { return s->assumed.n; }

void symbols_take_back(reed_symbols *s, size_t n_assumptions) {
  while (s->assumed.n > n_assumptions) set_same(s, s->assumed.items[--s->assumed.n], 0);
}

void symbols_set_certain(reed_symbols *s, bool certain) { s->uncertain = !certain; }

void symbols_demand_equal(reed_symbols *s, reed_dim a, reed_dim b) {
  if (s->uncertain || symbols_assume_equal(s, a, b)) return;
  if (symbols_note_rule(s, a, b)) (void)symbols_assume_equal(s, a, b);
}

bool symbols_broadcast_argument(const reed_symbols *s, reed_dim d, int32_t i, reed_dim *out) {
  const node *x = symbol_is(d) ? node_of(s, d) : NULL;
  bool several = x && x->kind == NODE_BROADCAST;
  if (!x || i >= (several ? x->n : 1)) return false;
  *out = several ? x->args[i] : d;
  return true;
}

static void note_broadcast(reed_symbols *s, reed_dim a, reed_dim b) {
  if (!symbol_is(a) || !symbol_is(b) || a == b) return;
  const node *x = node_of(s, a), *y = node_of(s, b);
  if (x->kind != NODE_NAMED || y->kind != NODE_NAMED || x->namesake != y->namesake) return;
  symbol_pair pair = {(uint32_t)((a < b ? a : b) - SYMBOL_FIRST), (uint32_t)((a < b ? b : a) - SYMBOL_FIRST)};
  for (size_t i = 0; i < s->broadcast.n; i++)
    if (s->broadcast.items[i].a == pair.a && s->broadcast.items[i].b == pair.b) return;
  if (!VEC_PUSH(&s->broadcast, pair)) s->status = REED_ERROR_MEMORY;
}

void symbols_demand_broadcast(reed_symbols *s, reed_dim a, reed_dim b) {
  reed_dim of_a, of_b;
  if (s->uncertain) return;
  symbols_note_part(s, a, b);
  symbols_note_part(s, b, a);
  symbols_note_limit(s, a, b);
  symbols_note_limit(s, b, a);
  symbols_note_sums(s, a, b);
  if (!s->namesakes) return;
  for (int32_t i = 0; symbols_broadcast_argument(s, a, i, &of_a); i++)
    for (int32_t k = 0; symbols_broadcast_argument(s, b, k, &of_b); k++) note_broadcast(s, of_a, of_b);
}

bool symbols_broadcast_pair(const reed_symbols *s, size_t i, reed_dim *out_a, reed_dim *out_b) {
  if (i >= s->broadcast.n) return false;
  *out_a = symbol_of(s->broadcast.items[i].a);
  *out_b = symbol_of(s->broadcast.items[i].b);
  return true;
}

bool symbols_is_assumed(const reed_symbols *s, reed_dim atom, reed_dim *out_first) {
  *out_first = atom;
  if (!symbol_is(atom) || node_of(s, atom)->kind != NODE_NAMED) return false;
  uint32_t id = (uint32_t)(atom - SYMBOL_FIRST), first = first_of(s, id);
  *out_first = symbol_of(first);
  if (first != id) return true;
  for (size_t i = 0; i < s->assumed.n; i++)
    if (first_of(s, s->assumed.items[i]) == id) return true;
  return false;
}
