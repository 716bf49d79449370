/* Numbers of a benchmark's command line (arguments.h). */
#include "bench/arguments.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool argument_digits(const char *text, const char **out_end, int64_t *out_value) {
  int64_t value = 0;
  const char *at = text;
  for (; *at >= '0' && *at <= '9'; at++)
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *at - '0', &value)) return false;
  if (at == text) return false;
  *out_end = at;
  *out_value = value;
  return true;
}

int64_t argument_integer(const char *name, const char *text, int64_t least, int64_t most) {
  const char *end;
  int64_t value;
  if (argument_digits(text, &end, &value) && !*end && value >= least && value <= most) return value;
  fprintf(stderr, "%s: '%s' is no integer of %" PRId64 " to %" PRId64 "\n", name, text, least, most);
  exit(2);
}

double argument_number(const char *name, const char *text) {
  char *end;
  double value = strtod(text, &end);
  if (end != text && !*end && isfinite(value) && value >= 0) return value;
  fprintf(stderr, "%s: '%s' is no number of 0 or more\n", name, text);
  exit(2);
}
