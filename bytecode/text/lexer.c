/* Splits the assembler's text into words (lexer.h), and suggests a name for a misspelt one. */
#include "bytecode/text/lexer.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/text.h"
#include "bytecode/format.h"
#include "bytecode/text/text.h"

static bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name_part(char c) { return is_name_start(c) || is_digit(c) || c == '.'; }

void lexer_begin(lexer *l, const char *text, reed_diagnosis *diagnosis) {
  *l = (lexer){.at = text, .line_begin = text, .line = 1, .diagnosis = diagnosis, .status = REED_OK};
  lexer_next(l);
}

static void stop(lexer *l, reed_status status) {
  l->status = status;
  l->now.kind = TOKEN_END;
}

void lexer_fail(lexer *l, const token *at, const char *format, ...) {
  if (l->status != REED_OK) return;
  char message[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  stop(l, diag_fail(l->diagnosis, REED_ERROR_FORMAT, "line %u, column %u: %s", at->line, at->column, message));
}

void lexer_no_memory(lexer *l) {
  if (l->status == REED_OK) stop(l, diag_no_memory(l->diagnosis, "assembling a module"));
}

static void skip_space(lexer *l) {
  for (;;) {
    if (*l->at == ';')
      while (*l->at && *l->at != '\n') l->at++;
    if (*l->at == '\n' && l->depth > 0) {
      l->line++;
      l->line_begin = ++l->at;
    } else if (*l->at == ' ' || *l->at == '\t' || *l->at == '\r') {
      l->at++;
    } else {
      return;
    }
  }
}

static void lex_number(lexer *l, token *t) {
  const char *p = l->at + (*l->at == '-' || *l->at == '+');
  bool hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X'), is_float = !is_digit(*p);
  for (const char *q = p; !hex && (is_digit(*q) || *q == '.' || *q == 'e' || *q == 'E'); q++) is_float |= !is_digit(*q);
  char *end;
  errno = 0;
  if (is_float) {
    const char *after = number_read(l->at, &t->f);
    end = (char *)after;
    t->kind = TOKEN_FLOAT;
  } else {
    t->kind = TOKEN_INTEGER;
    t->i = *l->at == '-' ? strtoll(l->at, &end, hex ? 16 : 10) : (int64_t)strtoull(l->at, &end, hex ? 16 : 10);
  }
  bool too_large =
      errno == ERANGE && !(is_float && isfinite(t->f)); /* strtod reports the smallest doubles as out of range too */
  if (!end || end == l->at || too_large || is_name_part(*end)) {
    lexer_fail(l, t, "this is no number, or it does not fit 64 bits");
    return;
  }
  l->at = end;
}

void lexer_next(lexer *l) {
  if (l->status != REED_OK) return;
  skip_space(l);
  token *t = &l->now;
  *t = (token){.kind = TOKEN_MARK, .begin = l->at, .line = l->line, .column = (uint32_t)(l->at - l->line_begin) + 1};
  char c = *l->at, next = c ? l->at[1] : 0;
  bool number_follows = is_digit(next) || strncmp(l->at + (c != 0), "inf", 3) == 0;
  if (c == 0) {
    t->kind = TOKEN_END;
  } else if (c == '\n') {
    t->kind = TOKEN_NEWLINE;
    l->line++;
    l->line_begin = ++l->at;
  } else if (is_digit(c) || ((c == '-' || c == '+') && number_follows)) {
    lex_number(l, t);
  } else if ((strncmp(l->at, "inf", 3) == 0 && !is_name_part(l->at[3])) || strncmp(l->at, "nan:", 4) == 0) {
    lex_number(l, t);
  } else if (is_name_start(c) || (c == '.' && is_name_start(next))) {
    t->kind = c == '.' ? TOKEN_DIRECTIVE : TOKEN_NAME;
    for (l->at++; is_name_part(*l->at); l->at++) continue;
  } else if (c == '"') {
    t->kind = TOKEN_STRING;
    for (l->at++; *l->at && *l->at != '"' && *l->at != '\n'; l->at++)
      if (*l->at == '\\' && l->at[1] && l->at[1] != '\n') l->at++;
    if (*l->at != '"') {
      lexer_fail(l, t, "this string has no end");
      return;
    }
    l->at++;
  } else if (c == '-' && next == '>') {
    t->kind = TOKEN_ARROW;
    l->at += 2;
  } else if (strchr("=,[](){}|:@#?*", c)) {
    t->i = c;
    l->depth += (c == '[' || c == '(' || c == '{') - (c == ']' || c == ')' || c == '}');
    l->at++;
  } else {
    lexer_fail(l, t, "a character that means nothing here (0x%02x)", (unsigned char)c);
  }
  if (l->status == REED_OK) t->n = (size_t)(l->at - t->begin);
}

bool lexer_take(lexer *l, char mark) {
  if (!lexer_at(l, mark)) return false;
  lexer_next(l);
  return true;
}

void lexer_expect(lexer *l, char mark) {
  if (!lexer_take(l, mark)) lexer_fail(l, &l->now, "'%c' is expected here", mark);
}

bool lexer_is_name(const lexer *l, const char *name) {
  return l->now.kind == TOKEN_NAME && l->now.n == strlen(name) && memcmp(l->now.begin, name, l->now.n) == 0;
}

int64_t lexer_integer(lexer *l, const char *what, int64_t low, int64_t high) {
  token t = l->now;
  if (t.kind != TOKEN_INTEGER) lexer_fail(l, &t, "%s is expected here, an integer", what);
  else if (t.i < low || t.i > high)
    lexer_fail(l, &t, "%s must be between %lld and %lld", what, (long long)low, (long long)high);
  lexer_next(l);
  return l->status == REED_OK ? t.i : 0;
}

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The code point of the four hexadecimal digits at the text; 0: no digits, or no code point of a string (zero, a
 * surrogate). */
static uint32_t code_point(const char *digits) {
  uint32_t c = 0;
  for (int i = 0; i < 4; i++) {
    int digit = hex_digit(digits[i]); /* -1 at the end of the text */
    if (digit < 0) return 0;
    c = c << 4 | (uint32_t)digit;
  }
  return c >= 0xd800 && c < 0xe000 ? 0 : c;
}

char *lexer_string(lexer *l, const char *what) {
  token t = l->now;
  if (t.kind != TOKEN_STRING) {
    lexer_fail(l, &t, "%s is expected here, in quotes", what);
    return NULL;
  }
  char *out = mem_alloc(t.n), *to = out;
  if (!out) {
    lexer_no_memory(l);
    return NULL;
  }
  for (const char *p = t.begin + 1; p < t.begin + t.n - 1; p++) {
    if (*p != '\\') {
      *to++ = *p;
      continue;
    }
    p++;
    int high = *p == 'x' ? hex_digit(p[1]) : -1, low = high >= 0 ? hex_digit(p[2]) : -1;
    uint32_t c = *p == 'u' ? code_point(p + 1) : 0;
    if (*p == 'n') *to++ = '\n';
    else if (*p == '"' || *p == '\\') *to++ = *p;
    else if (low >= 0 && high * 16 + low > 0 && high * 16 + low < 0x80) *to++ = (char)(high * 16 + low), p += 2;
    else if (c) to += utf8_write(c, to), p += 4;
    else lexer_fail(l, &t, "an escape in a string is one of \\\" \\\\ \\n \\x01 ... \\x7f \\u0001 ... \\uffff");
  }
  *to = 0;
  if (!utf8_valid(out, (size_t)(to - out))) lexer_fail(l, &t, "a string must be UTF-8");
  if (l->status != REED_OK) {
    mem_free(out);
    return NULL;
  }
  lexer_next(l);
  return out;
}

char *lexer_name_or_string(lexer *l, const char *what) {
  if (l->now.kind != TOKEN_NAME) return lexer_string(l, what);
  char *out = mem_alloc(l->now.n + 1);
  if (!out) {
    lexer_no_memory(l);
    return NULL;
  }
  memcpy(out, l->now.begin, l->now.n);
  out[l->now.n] = 0;
  lexer_next(l);
  return out;
}

/* Levenshtein distance of two words of less than 60 letters: the least number of letters to insert, remove or replace
 * that turns a into b. One row of the table of distances is kept. */
static size_t distance(const char *a, size_t n_a, const char *b, size_t n_b) {
  size_t row[64];
  for (size_t k = 0; k <= n_b; k++) row[k] = k;
  for (size_t i = 1; i <= n_a; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t k = 1; k <= n_b; k++) {
      size_t best = diagonal + (a[i - 1] != b[k - 1]);
      if (row[k] + 1 < best) best = row[k] + 1;
      if (row[k - 1] + 1 < best) best = row[k - 1] + 1;
      diagonal = row[k];
      row[k] = best;
    }
  }
  return row[n_b];
}

const char *lexer_suggest(const char *word, size_t n, const char *(*candidate)(const void *context, size_t i),
                          const void *context, char *out, size_t capacity) {
  size_t nearest = n / 3 + 2; /* a suggestion is nearer than this: about every third letter may be wrong */
  out[0] = 0;
  const char *name;
  for (size_t i = 0; n < 60 && (name = candidate(context, i)); i++) {
    size_t n_name = strlen(name);
    if (n_name >= 60) continue;
    size_t d = distance(word, n, name, n_name);
    if (d >= nearest) continue;
    nearest = d;
    snprintf(out, capacity, "; did you mean '%s'?", name);
  }
  return out;
}

bool lexer_is_plain_name(const char *text) {
  static const char *const words[] = {"object", "any", "in", "registers", "inf", "nan", "base64", "floats", "_"};
  if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_", *text) || !*text) return false;
  for (const char *p = text; *p; p++)
    if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789.", *p)) return false;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(text, words[i]) == 0) return false;
  char device[TEXT_DEVICE_BYTES];
  for (int32_t i = 0; i < MODULE_MAX_DEVICES; i++)
    if (strcmp(text, text_device(i, device)) == 0) return false;
  return reed_dtype_parse(text) == REED_NONE;
}

const char *text_device(int32_t device, char out[TEXT_DEVICE_BYTES]) {
  if (device < 2) snprintf(out, TEXT_DEVICE_BYTES, "%s", device ? "device" : "host");
  else snprintf(out, TEXT_DEVICE_BYTES, "device%d", (int)device);
  return out;
}
