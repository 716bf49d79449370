/* Ranges of dims whose names are computed from other names ("past + 1", "2*past", "past + new"), as exporters write
 * them: interval arithmetic (Moore, "Interval Analysis", 1966) over the declared ranges.
 *
 *     sum     = product { ("+" | " - ") product }
 *     product = factor { "*" factor }
 *     factor  = integer | name | "(" sum ")"
 *
 * A minus is an operator only between spaces, because names have hyphens. */
#include <string.h>

#include "compiler/onnx/reader.h"

enum { MAX_NESTING = 16 }; /* of parentheses */

typedef struct interval {
  int64_t low, high; /* INT64_MIN and INT64_MAX: without a bound */
} interval;

typedef struct name_parser {
  const char *at;
  const reed_dim_range *declared;
  size_t n_declared;
  int nesting;
  bool any_name;
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

static bool parse_sum(name_parser *p, interval *out);

/* False: the word is no integer, or a larger one than 64 bits hold. */
static bool read_integer(const char *word, size_t n, int64_t *out) {
  *out = 0;
  for (size_t i = 0; i < n; i++)
    if (word[i] < '0' || word[i] > '9' || __builtin_mul_overflow(*out, 10, out) ||
        __builtin_add_overflow(*out, word[i] - '0', out))
      return false;
  return n > 0;
}

/* The functions return false if the text is no such expression, or has a name without a declared range. */
static bool parse_word(name_parser *p, interval *out) {
  size_t n = word_length(p->at);
  if (read_integer(p->at, n, &out->low)) {
    out->high = out->low;
    p->at += n;
    return true;
  }
  for (size_t i = 0; n && i < p->n_declared; i++) {
    const reed_dim_range *r = &p->declared[i];
    if (strlen(r->name) != n || memcmp(r->name, p->at, n) != 0) continue;
    *out = (interval){r->low, r->high};
    p->any_name = true;
    p->at += n;
    return true;
  }
  return false;
}

static bool parse_factor(name_parser *p, interval *out) {
  skip_spaces(p);
  if (*p->at != '(') return parse_word(p, out);
  p->at++;
  if (++p->nesting > MAX_NESTING || !parse_sum(p, out)) return false;
  p->nesting--;
  skip_spaces(p);
  bool closed = *p->at == ')';
  p->at += closed;
  return closed;
}

static bool parse_product(name_parser *p, interval *out) {
  if (!parse_factor(p, out)) return false;
  for (;;) {
    const char *before = p->at;
    skip_spaces(p);
    interval next;
    if (*p->at != '*') {
      p->at = before;
      return true;
    }
    p->at++;
    if (!parse_factor(p, &next)) return false;
    *out = interval_product(*out, next);
  }
}

static bool parse_sum(name_parser *p, interval *out) {
  if (!parse_product(p, out)) return false;
  for (;;) {
    interval next;
    while (p->at[0] == ' ' && p->at[1] == ' ') p->at++;
    bool minus = strncmp(p->at, " - ", 3) == 0;
    if (minus) p->at += 2;
    else skip_spaces(p);
    if (!minus && *p->at != '+') return true;
    p->at++;
    if (!parse_product(p, &next)) return false;
    *out = interval_sum(*out, minus ? interval_negative(next) : next);
  }
}

bool onnx_tied_range(const char *name, const reed_dim_range *declared, size_t n_declared, reed_dim_range *out_range) {
  name_parser p = {.at = name, .declared = declared, .n_declared = n_declared};
  interval found;
  if (!parse_sum(&p, &found) || *p.at || !p.any_name) return false;
  *out_range = (reed_dim_range){name, found.low < 0 ? 0 : found.low, found.high};
  return true;
}
