/* Symbols evaluated for given values of the named atoms, the unknowns in them, and symbols as text. The algebra of
 * symbols: symbols.c. */
#include <string.h>

#include "shapefuncs/symbols_node.h"

/* ---- evaluation ---- */

typedef struct binding {
  int32_t n;
  const char *const *names;
  const int64_t *values;
} binding;

/* True for atoms whose value no names give. */
static bool is_unknown(const node *x) {
  return x->kind == NODE_FRESH || x->kind == NODE_EITHER || x->kind == NODE_POISON;
}

static bool evaluate(const reed_symbols *symbols, reed_dim a, const binding *atoms, int64_t *out);

static bool evaluate_sum(const reed_symbols *symbols, const node *x, const binding *atoms, int64_t *out) {
  int64_t sum = x->constant;
  for (int32_t i = 0; i < x->n; i++) {
    int64_t product = x->terms[i].coefficient, factor;
    for (uint32_t k = 0; k < x->terms[i].n_factors; k++)
      if (!evaluate(symbols, symbol_of(x->terms[i].factors[k]), atoms, &factor) ||
          __builtin_mul_overflow(product, factor, &product))
        return false;
    if (__builtin_add_overflow(sum, product, &sum)) return false;
  }
  *out = sum;
  return true;
}

static bool evaluate(const reed_symbols *symbols, reed_dim a, const binding *atoms, int64_t *out) {
  if (!symbol_is(a)) return *out = a, true;
  const node *x = node_of(symbols, a);
  if (x->kind == NODE_SUM) return evaluate_sum(symbols, x, atoms, out);
  if (is_unknown(x)) return false;
  if (x->kind == NODE_NAMED) {
    for (int32_t i = 0; i < atoms->n; i++)
      if (strcmp(atoms->names[i], x->name) == 0) return *out = atoms->values[i], true;
    return false;
  }
  int64_t result, next;
  if (!evaluate(symbols, x->args[0], atoms, &result)) return false;
  for (int32_t i = 1; i < x->n; i++) {
    if (!evaluate(symbols, x->args[i], atoms, &next)) return false;
    if (x->kind == NODE_FLOORDIV && next <= 0) return false;
    if (x->kind == NODE_FLOORDIV) result = floor_divide(result, next);
    if (x->kind == NODE_MIN   ? next < result
        : x->kind == NODE_MAX ? next > result
                              : x->kind == NODE_BROADCAST && result == 1)
      result = next;
  }
  *out = result;
  return true;
}

bool symbols_evaluate(const reed_symbols *symbols, reed_dim a, int32_t n, const char *const *names,
                      const int64_t *values, int64_t *out_value) {
  binding atoms = {n, names, values};
  int64_t value;
  if (!evaluate(symbols, a, &atoms, &value)) return false;
  *out_value = value;
  return true;
}

static bool term_has_unknown(const reed_symbols *symbols, const term *t) {
  for (uint32_t k = 0; k < t->n_factors; k++)
    if (symbols_has_unknown(symbols, symbol_of(t->factors[k]))) return true;
  return false;
}

bool symbols_has_unknown(const reed_symbols *symbols, reed_dim a) {
  if (!symbol_is(a)) return false;
  const node *x = node_of(symbols, a);
  if (is_unknown(x)) return true;
  for (int32_t i = 0; i < x->n; i++)
    if (x->kind == NODE_SUM ? term_has_unknown(symbols, &x->terms[i]) : symbols_has_unknown(symbols, x->args[i]))
      return true;
  return false;
}

/* ---- text ---- */

typedef struct writer {
  const reed_symbols *symbols;
  char *out;
  size_t n, capacity;
} writer;

static void write_dim(writer *w, reed_dim a, bool in_product);

static void put(writer *w, const char *text) {
  for (; *text && w->n + 1 < w->capacity; text++) w->out[w->n++] = *text;
  if (w->capacity) w->out[w->n] = 0;
}

static void put_number(writer *w, int64_t number) {
  char digits[24], *p = digits + sizeof digits;
  uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
  *--p = 0;
  do {
    *--p = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest);
  if (number < 0) *--p = '-';
  put(w, p);
}

static void write_sum(writer *w, const node *x) {
  for (int32_t i = 0; i < x->n && w->n + 1 < w->capacity; i++) {
    int64_t coefficient = x->terms[i].coefficient;
    bool negative = coefficient < 0;
    put(w, i ? (negative ? " - " : " + ") : (negative ? "-" : ""));
    for (uint32_t k = 0; k < x->terms[i].n_factors; k++) {
      if (k) put(w, "*");
      write_dim(w, symbol_of(x->terms[i].factors[k]), true);
    }
    if (coefficient != 1 && coefficient != -1) {
      put(w, "*");
      put_number(w, negative && coefficient != INT64_MIN ? -coefficient : coefficient);
    }
  }
  if (x->constant == 0) return;
  put(w, x->constant < 0 ? " - " : " + ");
  put_number(w, x->constant < 0 && x->constant != INT64_MIN ? -x->constant : x->constant);
}

static void write_call(writer *w, const node *x, const char *name) {
  put(w, name);
  for (int32_t i = 0; i < x->n && w->n + 1 < w->capacity; i++) {
    put(w, i ? ", " : "(");
    write_dim(w, x->args[i], false);
  }
  put(w, ")");
}

static void write_node(writer *w, const node *x) {
  switch (x->kind) {
    case NODE_POISON: put(w, "?"); break;
    case NODE_NAMED: put(w, x->name); break;
    case NODE_EITHER:
    case NODE_FRESH:
      put(w, "?");
      put_number(w, x->constant);
      break;
    case NODE_FLOORDIV:
      put(w, "floor(");
      write_dim(w, x->args[0], true);
      put(w, "/");
      write_dim(w, x->args[1], true);
      put(w, ")");
      break;
    case NODE_MIN: write_call(w, x, "min"); break;
    case NODE_MAX: write_call(w, x, "max"); break;
    case NODE_BROADCAST: write_call(w, x, "broadcast"); break;
    case NODE_SUM: write_sum(w, x); break;
  }
}

static void write_dim(writer *w, reed_dim a, bool in_product) {
  if (w->n + 1 >= w->capacity) return;
  if (!symbol_is(a)) {
    put_number(w, a);
    return;
  }
  const node *x = node_of(w->symbols, a);
  bool parentheses = in_product && x->kind == NODE_SUM;
  if (parentheses) put(w, "(");
  write_node(w, x);
  if (parentheses) put(w, ")");
}

char *symbols_text(reed_symbols *symbols, reed_dim a, char *out, size_t capacity) {
  a = symbols_as_declared(symbols, a);
  writer w = {symbols, out, 0, capacity};
  put(&w, "");
  write_dim(&w, a, false);
  return out;
}
