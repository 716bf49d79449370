/* Parsing command lines by tables of flags (flags.h). The commands' tables are in the cmd_*.c files. */
#include "tools/flags.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool parse_int(const char *text, int64_t *out_value) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || *end || errno || !((*text >= '0' && *text <= '9') || *text == '-' || *text == '+')) return false;
  *out_value = value;
  return true;
}

bool parse_real(const char *text, double *out_value) {
  char *end;
  if (!*text || strchr(" \t\n\v\f\r", *text)) return false;
  double value = strtod(text, &end);
  if (end == text || *end) return false;
  *out_value = value;
  return true;
}

/* Bytes: a number with an optional suffix k, M or G (powers of 1024). */
static bool parse_bytes(const char *text, int64_t *out_value) {
  static const char suffixes[] = "kMG";
  size_t n = strlen(text);
  const char *suffix = n > 1 ? strchr(suffixes, text[n - 1]) : NULL;
  char digits[32];
  if (n >= sizeof digits) return false;
  memcpy(digits, text, n + 1);
  int64_t unit = 1;
  if (suffix) {
    digits[n - 1] = 0;
    unit = 1ll << (10 * (suffix - suffixes + 1));
  }
  return parse_int(digits, out_value) && !__builtin_mul_overflow(*out_value, unit, out_value);
}

static bool is_named(const flag *f, const char *word, size_t n) {
  return (f->name && strlen(f->name) == n && strncmp(f->name, word, n) == 0) ||
         (f->short_name && strlen(f->short_name) == n && strncmp(f->short_name, word, n) == 0);
}

const char *flag_name(const flag *f) { return f->name ? f->name : f->short_name; }

static int unknown(const flag *flags, const char *word, size_t n, complaint *c) {
  words names = {0};
  for (const flag *f = flags; f->name || f->short_name; f++)
    if (f->help) words_add(&names, flag_name(f));
  char *alone = need(n + 1, 1), near[200];
  memcpy(alone, word, n);
  complain(c, MISUSE, "no flag '%s' here%s", alone, suggestion(alone, names.items, names.n, near, sizeof near));
  free(alone);
  free(names.items);
  return c->exit_status;
}

static int refuse_choice(const flag *f, const char *value, complaint *c) {
  size_t n = 0;
  char near[200];
  complain(c, MISUSE, "%s takes ", flag_name(f));
  while (f->choices[n]) n++;
  for (size_t i = 0; i < n; i++) complain_more(c, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", f->choices[i]);
  complain_more(c, ", not '%s'%s", value, suggestion(value, f->choices, n, near, sizeof near));
  return c->exit_status;
}

/* True if the n characters are one of the choices, shown or not. */
static bool is_choice(const char *const *choices, const char *name, size_t n) {
  for (int lists = 0; lists < 2; choices++) {
    if (!*choices) lists++;
    else if (strlen(*choices) == n && strncmp(*choices, name, n) == 0) return true;
  }
  return false;
}

static int set_choice(const flag *f, const char *value, const char **field, complaint *c) {
  if (!is_choice(f->choices, value, strlen(value))) return refuse_choice(f, value, c);
  *field = value;
  return DONE;
}

static int set_devices(const flag *f, const char *value, const char **field, complaint *c) {
  for (const char *at = value; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    char alone[200];
    const char *number = at + strcspn(at, ",:?"), *end = at + strcspn(at, ",?");
    snprintf(alone, sizeof alone, "%.*s", (int)(number - at), at);
    if (strchr(alone, '/')) continue; /* a module's path */
    if (!is_choice(f->choices, alone, strlen(alone))) return refuse_choice(f, alone, c);
    if (number < end && (++number == end || number + strspn(number, "0123456789") < end))
      return complain(c, MISUSE, "%s: '%.*s' is no number of a device, such as %s:1", flag_name(f), (int)(end - number),
                      number, alone);
  }
  *field = value;
  return DONE;
}

static bool set_triple(const char *value, double out[3]) {
  char copy[200], *rest = copy;
  if (strlen(value) >= sizeof copy) return false;
  strcpy(copy, value);
  int n = 0;
  for (char *item; (item = strsep(&rest, ",")) != NULL; n++)
    if (n == 3 || !parse_real(item, &out[n]) || !isfinite(out[n])) return false;
  if (n == 1) out[1] = out[2] = out[0];
  return n == 1 || n == 3;
}

static bool has_zero(const double triple[3]) { return triple[0] == 0 || triple[1] == 0 || triple[2] == 0; }

static int set(const flag *f, const char *value, void *target, complaint *c) {
  void *field = (char *)target + f->offset;
  int64_t number;
  double real;
  switch (f->type) {
    case FLAG_SWITCH: *(bool *)field = true; return DONE;
    case FLAG_TEXT:
    case FLAG_TARGET: *(const char **)field = value; return DONE;
    case FLAG_CHOICE: return set_choice(f, value, field, c);
    case FLAG_DEVICES: return set_devices(f, value, field, c);
    case FLAG_WORDS: words_add(field, value); return DONE;
    case FLAG_INT:
      if (!parse_int(value, &number) || number < f->minimum || number > f->maximum)
        return complain(c, MISUSE, "%s takes a whole number from %lld to %lld, not '%s'", flag_name(f),
                        (long long)f->minimum, (long long)f->maximum, value);
      *(int64_t *)field = number;
      return DONE;
    case FLAG_BYTES:
      if (!parse_bytes(value, &number) || number < 0)
        return complain(c, MISUSE, "%s takes a whole number from 0 up, perhaps with k, M or G behind it, not '%s'",
                        flag_name(f), value);
      *(int64_t *)field = number;
      return DONE;
    case FLAG_REAL:
      if (!parse_real(value, &real) || !(real >= 0) || isinf(real))
        return complain(c, MISUSE, "%s takes a number from 0 up, not '%s'", flag_name(f), value);
      *(double *)field = real;
      return DONE;
    case FLAG_TRIPLE:
      if (!set_triple(value, field))
        return complain(c, MISUSE, "%s takes one number or three with commas, not '%s'", flag_name(f), value);
      return DONE;
    case FLAG_DIVISORS:
      if (!set_triple(value, field) || has_zero(field))
        return complain(c, MISUSE, "%s takes one number or three with commas, none of them 0, not '%s'", flag_name(f),
                        value);
      return DONE;
  }
  return DONE;
}

int flags_parse(const flag *flags, int n_arguments, const char *const *arguments, void *target, words *positional,
                complaint *c) {
  bool only_positional = false;
  for (int i = 0; i < n_arguments; i++) {
    const char *word = arguments[i];
    if (only_positional || word[0] != '-' || !word[1]) {
      words_add(positional, word);
      continue;
    }
    if (strcmp(word, "--") == 0) {
      only_positional = true;
      continue;
    }
    const char *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    size_t n = equals ? (size_t)(equals - word) : strlen(word);
    const flag *f = flags;
    while ((f->name || f->short_name) && !is_named(f, word, n)) f++;
    if (!f->name && !f->short_name) return unknown(flags, word, n, c);
    const char *value = equals ? equals + 1 : NULL;
    if (f->type == FLAG_SWITCH && value) return complain(c, MISUSE, "%s takes no value", flag_name(f));
    if (f->type != FLAG_SWITCH && !value) {
      if (++i == n_arguments) return complain(c, MISUSE, "%s needs a value: %s %s", word, word, f->argument);
      value = arguments[i];
    }
    int status = set(f, value, target, c);
    if (status) return status;
  }
  return DONE;
}

void flags_fini(const flag *flags, void *target) {
  for (; flags->name || flags->short_name; flags++)
    if (flags->type == FLAG_WORDS) words_fini((words *)((char *)target + flags->offset));
}
