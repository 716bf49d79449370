/* Writes and reads floats as text, bit for bit and independent of the locale (number.h). */
#include "base/number.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Replaces the locale's decimal point, which may be several bytes, by one dot. */
static void use_dot(char *text) {
  char *to = text;
  for (const char *from = text; *from; from++) {
    if (strchr("0123456789+-eE", *from)) *to++ = *from;
    else if (to == text || to[-1] != '.') *to++ = '.';
  }
  *to = 0;
}

char *number_text(double value, int digits, char out[NUMBER_BYTES]) {
  char text[NUMBER_BYTES];
  if (isnan(value)) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    snprintf(text, sizeof text, "nan:%016" PRIx64, bits);
  } else if (isinf(value)) {
    snprintf(text, sizeof text, "%s", value < 0 ? "-inf" : "inf");
  } else {
    for (int n = digits > 6 ? 6 : digits; n <= digits; n++) { /* takes the shortest text that reads back */
      snprintf(text, sizeof text, "%.*g", n, value);
      double back = strtod(text, NULL);
      if (digits <= 9 ? (float)back == (float)value : back == value) break;
    }
    use_dot(text);
    if (!strpbrk(text, ".eE")) strcat(text, ".0");
  }
  return memcpy(out, text, sizeof text);
}

const char *number_read(const char *text, double *out_value) {
  const char *p = text + (*text == '-' || *text == '+');
  if (strncmp(p, "nan:", 4) == 0) {
    char *end;
    uint64_t bits = strtoull(p + 4, &end, 16);
    memcpy(out_value, &bits, sizeof bits);
    return end == p + 4 ? NULL : end;
  }
  if (strncmp(p, "inf", 3) == 0) {
    *out_value = *text == '-' ? -INFINITY : INFINITY;
    return p + 3;
  }
  /* A copy with the locale's decimal point, for strtod. */
  char digits[320];
  size_t n = 0;
  const char *point = localeconv()->decimal_point;
  const char *q = text;
  for (; *q && strchr("0123456789+-.eE", *q) && n + 16 < sizeof digits; q++) {
    if ((*q == '-' || *q == '+') && q != text && q[-1] != 'e' && q[-1] != 'E') break;
    if (*q == '.') n += (size_t)snprintf(digits + n, 16, "%s", point);
    else digits[n++] = *q;
  }
  digits[n] = 0;
  char *end;
  *out_value = strtod(digits, &end);
  return n == 0 || *end ? NULL : q;
}

int number_digits(reed_dtype dtype) {
  switch (dtype) {
    case REED_F64: return 17;
    case REED_F32:
    case REED_F16: /* f16 and bf16 are written and read back as f32 */
    case REED_BF16: return 9;
    case REED_NONE:
    case REED_I8:
    case REED_I16:
    case REED_I32:
    case REED_I64:
    case REED_U8:
    case REED_U16:
    case REED_U32:
    case REED_U64:
    case REED_BOOL:
    case REED_DTYPE_COUNT: break;
  }
  return 0;
}
