/* Ranges of dims whose names are computed from other names ("past + 1", "2*past", "past + new"), as exporters write
 * them: interval arithmetic (Moore, "Interval Analysis", 1966) over the declared ranges, from the parts to the whole,
 * and from a whole that has a declared range to its parts (Benhamou et al., "Revising hull and box consistency", 1999).
 *
 *     sum     = product { ("+" | " - ") product }
 *     product = factor { "*" factor }
 *     factor  = integer | name | "(" sum ")"
 *
 * A minus is an operator only between spaces, because names have hyphens. */
#include <string.h>

#include "compiler/onnx/reader.h"

enum { MAX_NESTING = 16 /* of parentheses */, MAX_PARTS = 64 /* of an expression */ };

typedef struct interval {
  int64_t low, high; /* INT64_MIN and INT64_MAX: without a bound */
} interval;

typedef enum tied_kind { TIED_NUMBER, TIED_NAME, TIED_SUM, TIED_DIFFERENCE, TIED_PRODUCT } tied_kind;

/* A part of an expression. Operands have smaller numbers than what is computed from them. */
typedef struct tied_part {
  tied_kind kind;
  int left, right; /* operands */
  size_t name;     /* of a TIED_NAME: which of the parser's names */
  interval range;
} tied_part;

typedef struct name_parser {
  const char *at;
  const onnx_named_range *names;
  size_t n_names;
  int nesting, n_parts;
  tied_part parts[MAX_PARTS];
} name_parser;

static bool is_bound(int64_t a) { return a != INT64_MAX && a != INT64_MIN; }

/* Sums and products that overflow, or have a part without a bound, are without a bound too. */
static int64_t add(int64_t a, int64_t b, int64_t without) {
  int64_t sum;
  return !is_bound(a) || !is_bound(b) || __builtin_add_overflow(a, b, &sum) ? without : sum;
}

static int64_t multiply(int64_t a, int64_t b) {
  int64_t product;
  if (a == 0 || b == 0) return 0;
  bool over = !is_bound(a) || !is_bound(b) || __builtin_mul_overflow(a, b, &product);
  return !over ? product : (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

static interval interval_sum(interval a, interval b) {
  return (interval){add(a.low, b.low, INT64_MIN), add(a.high, b.high, INT64_MAX)};
}

static interval interval_product(interval a, interval b) {
  const int64_t corners[4] = {multiply(a.low, b.low), multiply(a.low, b.high), multiply(a.high, b.low),
                              multiply(a.high, b.high)};
  interval product = {corners[0], corners[0]};
  for (int i = 1; i < 4; i++) {
    if (corners[i] < product.low) product.low = corners[i];
    if (corners[i] > product.high) product.high = corners[i];
  }
  return product;
}

static interval interval_negative(interval a) { return interval_product(a, (interval){-1, -1}); }

static void skip_spaces(name_parser *p) {
  while (*p->at == ' ') p->at++;
}

static bool begins_operator(const char *at) { return *at == '+' || *at == '*' || strncmp(at, " - ", 3) == 0; }

/* A word up to the next operator or parenthesis, without spaces at its end. */
static size_t word_length(const char *at) {
  size_t n = 0;
  while (at[n] && at[n] != '(' && at[n] != ')' && !begins_operator(at + n)) n++;
  while (n && at[n - 1] == ' ') n--;
  return n;
}

static interval range_of(const name_parser *p, const tied_part *x) {
  const interval a = p->parts[x->left].range, b = p->parts[x->right].range;
  switch (x->kind) {
    case TIED_NUMBER: return x->range;
    case TIED_NAME: return (interval){p->names[x->name].low, p->names[x->name].high};
    case TIED_SUM: return interval_sum(a, b);
    case TIED_DIFFERENCE: return interval_sum(a, interval_negative(b));
    case TIED_PRODUCT: return interval_product(a, b);
  }
  return x->range;
}

/* The functions return the part that they have read; -1: the text is no such expression, or one of too many parts. */
static int add_part(name_parser *p, tied_part x) {
  if (p->n_parts == MAX_PARTS) return -1;
  x.range = range_of(p, &x);
  p->parts[p->n_parts] = x;
  return p->n_parts++;
}

static int parse_sum(name_parser *p);

/* False: the word is no integer, or a larger one than 64 bits hold. */
static bool read_integer(const char *word, size_t n, int64_t *out) {
  *out = 0;
  for (size_t i = 0; i < n; i++)
    if (word[i] < '0' || word[i] > '9' || __builtin_mul_overflow(*out, 10, out) ||
        __builtin_add_overflow(*out, word[i] - '0', out))
      return false;
  return n > 0;
}

static int parse_word(name_parser *p) {
  const char *word = p->at;
  size_t n = word_length(word);
  int64_t number;
  p->at += n;
  if (read_integer(word, n, &number)) return add_part(p, (tied_part){.range = {number, number}});
  for (size_t i = 0; n && i < p->n_names; i++)
    if (strlen(p->names[i].name) == n && memcmp(p->names[i].name, word, n) == 0)
      return add_part(p, (tied_part){.kind = TIED_NAME, .name = i});
  return -1;
}

static int parse_factor(name_parser *p) {
  skip_spaces(p);
  if (*p->at != '(') return parse_word(p);
  p->at++;
  int sum = ++p->nesting > MAX_NESTING ? -1 : parse_sum(p);
  if (sum < 0) return -1;
  p->nesting--;
  skip_spaces(p);
  return *p->at++ == ')' ? sum : -1;
}

static int parse_product(name_parser *p) {
  int product = parse_factor(p);
  while (product >= 0) {
    const char *before = p->at;
    skip_spaces(p);
    if (*p->at != '*') {
      p->at = before;
      break;
    }
    p->at++;
    int next = parse_factor(p);
    product = next < 0 ? -1 : add_part(p, (tied_part){.kind = TIED_PRODUCT, .left = product, .right = next});
  }
  return product;
}

static int parse_sum(name_parser *p) {
  int sum = parse_product(p);
  while (sum >= 0) {
    while (p->at[0] == ' ' && p->at[1] == ' ') p->at++;
    bool minus = strncmp(p->at, " - ", 3) == 0;
    if (minus) p->at += 2;
    else skip_spaces(p);
    if (!minus && *p->at != '+') break;
    p->at++;
    int next = parse_product(p);
    tied_part x = {.kind = minus ? TIED_DIFFERENCE : TIED_SUM, .left = sum, .right = next};
    sum = next < 0 ? -1 : add_part(p, x);
  }
  return sum;
}

/* ---- the ranges of parts, from the range of the whole ---- */

static interval common(interval a, interval b) {
  return (interval){a.low > b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
}

/* The numbers that `product` may be divided into by factors that `other` has; all numbers if a range has numbers below
 * 0, which exporters do not write. */
static interval quotient(interval product, interval other) {
  interval all = {0, INT64_MAX};
  if (product.low < 0 || other.low < 0) return (interval){INT64_MIN, INT64_MAX};
  if (is_bound(product.high) && other.low > 0) all.high = product.high / other.low;
  if (is_bound(other.high) && other.high > 0) all.low = product.low / other.high + (product.low % other.high != 0);
  return all;
}

/* Limits the operands of part x to what its range allows. */
static void limit_operands(name_parser *p, const tied_part *x) {
  interval *a = &p->parts[x->left].range, *b = &p->parts[x->right].range;
  const interval was_a = *a, was_b = *b;
  switch (x->kind) {
    case TIED_NUMBER:
    case TIED_NAME: break;
    case TIED_SUM:
      *a = common(was_a, interval_sum(x->range, interval_negative(was_b)));
      *b = common(was_b, interval_sum(x->range, interval_negative(was_a)));
      break;
    case TIED_DIFFERENCE:
      *a = common(was_a, interval_sum(x->range, was_b));
      *b = common(was_b, interval_sum(was_a, interval_negative(x->range)));
      break;
    case TIED_PRODUCT:
      *a = common(was_a, quotient(x->range, was_b));
      *b = common(was_b, quotient(x->range, was_a));
      break;
  }
}

onnx_tie onnx_tie_range(onnx_named_range *names, size_t n_names, size_t i, onnx_named_range *out_computed,
                        uint8_t *out_parts) {
  onnx_named_range *self = &names[i];
  name_parser p = {.at = self->name, .names = names, .n_names = n_names};
  int whole = parse_sum(&p);
  memset(out_parts, 0, n_names);
  if (whole < 0 || *p.at || p.parts[whole].kind == TIED_NAME) return ONNX_TIE_NONE;
  self->tied = true;
  for (int k = 0; k <= whole; k++) {
    if (p.parts[k].kind != TIED_NAME) continue;
    out_parts[p.parts[k].name] = 1;
    self->tied &= names[p.parts[k].name].given;
  }
  const interval had = {self->low, self->high}, computed = p.parts[whole].range, now = common(had, computed);
  *out_computed = (onnx_named_range){.name = self->name, .low = computed.low, .high = computed.high};
  if (now.low > now.high) return ONNX_TIE_EMPTY;
  bool narrower = now.low > had.low || now.high < had.high;
  self->low = now.low, self->high = now.high;
  p.parts[whole].range = now;
  for (int k = whole; k >= 0 && self->given; k--) {
    const tied_part *x = &p.parts[k];
    limit_operands(&p, x);
    if (x->kind != TIED_NAME) continue;
    onnx_named_range *part = &names[x->name];
    const interval left = common((interval){part->low, part->high}, x->range);
    if (left.low > left.high) {
      *out_computed = *part;
      return ONNX_TIE_EMPTY_PART;
    }
    narrower |= left.low > part->low || left.high < part->high;
    part->low = left.low, part->high = left.high;
  }
  return narrower ? ONNX_TIE_NARROWER : ONNX_TIE_NONE;
}
